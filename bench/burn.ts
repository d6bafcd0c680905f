// Uses so much CPU time and does nothing else: node burn.ts CORES, in slices of ten milliseconds, until it is ended.
const SLICE_MS = 10;
const share = Number(process.argv[2]);
const sleeper = new Int32Array(new SharedArrayBuffer(4));
for (;;) {
  const until = performance.now() + SLICE_MS * share;
  while (performance.now() < until);
  Atomics.wait(sleeper, 0, 0, Math.max(0, SLICE_MS * (1 - share)));
}
