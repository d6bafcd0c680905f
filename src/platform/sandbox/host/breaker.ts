// Code that ends its executor again and again must wait before it is run once more, longer each time. What is remembered is a
// courtesy to the machine, not a wall: another process remembers for itself.

/** So many deaths in a row are nothing. */
const DEATHS_FREE = 2;
const WAIT_MS = 500;
const WAIT_MS_MAX = 30_000;
/** Names remembered, the longest forgotten first. */
const NAMES_MAX = 1000;

export type Breaker = {
  countDeath(name: string): void;
  /** A good end: what was before is forgotten. */
  forget(name: string): void;
  /** How long code of this name must wait; 0 for not at all. */
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
