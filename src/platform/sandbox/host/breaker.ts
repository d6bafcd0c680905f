// A circuit breaker: code that kills its executor repeatedly must wait before its next run, longer each time.
// Saves resources and is no security boundary: each process counts separately.

/** So many crashes in a row have no effect. */
const DEATHS_FREE = 2;
const WAIT_MS = 500;
const WAIT_MS_MAX = 30_000;
/** Names kept in memory; the oldest are evicted. */
const NAMES_MAX = 1000;

export type Breaker = {
  countDeath(name: string): void;
  /** Resets the count after a run that ended well. */
  forget(name: string): void;
  /** How long code of this name must wait; 0 if it may run. */
  waitMs(name: string): number;
};

export const createBreaker = (): Breaker => {
  const names = new Map<string, { deaths: number; until: number }>();
  return {
    countDeath: (name) => {
      const deaths = (names.get(name)?.deaths ?? 0) + 1;
      const over = deaths - DEATHS_FREE - 1;
      const until = over < 0 ? 0 : performance.now() + Math.min(WAIT_MS * 2 ** over, WAIT_MS_MAX);
      names.delete(name);
      names.set(name, { deaths, until });
      if (names.size > NAMES_MAX) names.delete(names.keys().next().value as string);
    },
    forget: (name) => void names.delete(name),
    waitMs: (name) => Math.max(0, (names.get(name)?.until ?? 0) - performance.now()),
  };
};
