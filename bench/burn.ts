// Uses as much CPU time as it is told and does nothing else: node burn.ts CORES, until it is ended.
/** It looks this often whether it is behind. */
const SLICE_MS = 10;
/** What it could not use for so long is given up, so that it does not catch up in one piece. */
const DEBT_MS_MAX = 100;
const cores = Number(process.argv[2]);
const parent = process.ppid;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/** CPU time, not wall-clock time: beside other work the process gets the CPU later, not less of it. */
const usedMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

let owedMs = 0;
let [before, at] = [usedMs(), performance.now()];
// It ends with the bench, also where that was killed.
while (process.ppid === parent) {
  const now = performance.now();
  owedMs = Math.min(owedMs + (now - at) * cores, DEBT_MS_MAX);
  at = now;
  while (owedMs > 0) {
    const used = usedMs();
    owedMs -= used - before;
    before = used;
    if (performance.now() - now > DEBT_MS_MAX) break;
  }
  Atomics.wait(sleeper, 0, 0, SLICE_MS);
}
