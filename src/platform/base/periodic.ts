// Repeats work, one run at a time: a run that takes longer than the period is not joined by another.

/** @returns `run` begins at once unless a run is under way; `stop` waits for it. */
export const runPeriodically = (
  everyMs: number,
  work: () => Promise<unknown>,
): { run(): void; stop(): Promise<void> } => {
  let running: Promise<unknown> | undefined;
  const run = (): void => void (running ??= work().finally(() => (running = undefined)));
  const timer = setInterval(run, everyMs);
  timer.unref();
  return {
    run,
    stop: async () => {
      clearInterval(timer);
      await running;
    },
  };
};
