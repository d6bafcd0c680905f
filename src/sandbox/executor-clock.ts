// CPU time of the executor's main thread, handed out to runs: what it does for a run, such as a hop into its isolate and back,
// costs the run. Isolates have clocks of their own.

let taken = process.threadCpuUsage();

/** @returns nanoseconds of CPU time that this thread has used since the last call. */
export const takeMainCpuNs = (): bigint => {
  const now = process.threadCpuUsage();
  const micros = now.user + now.system - taken.user - taken.system;
  taken = now;
  return BigInt(Math.round(micros)) * 1000n;
};
