// The clock of a vault in a test: the time of the machine, and what tests have added to it.

/** A clock that only goes forward, as that of a vault does. */
export type TestClock = {
  now(): Date;
  /** @returns false, and nothing is changed, if the sum of all advances would be over ADVANCE_MS_MAX. */
  advance(ms: number): boolean;
};

/** Ten years: more than any time to live, and ids and certificates still have a form for such a time. */
export const ADVANCE_MS_MAX = 10 * 366 * 86_400_000;

export const createTestClock = (): TestClock => {
  let advancedMs = 0;
  return {
    now: () => new Date(Date.now() + advancedMs),
    advance: (ms) => {
      if (advancedMs + ms > ADVANCE_MS_MAX) return false;
      advancedMs += ms;
      return true;
    },
  };
};
