// What a process may remember of the database for a moment: bounded in number and in time, forgotten on notice, and never
// filled by a look that began before something was forgotten.
import { LRUCache } from 'lru-cache';

export type BriefMemory<T extends object> = {
  /** What is remembered under a name; saves the hot path a promise. */
  recall(name: string): T | undefined;
  /** What is remembered, or else looked up; looks for one name that are under way at once are one. */
  find(name: string, look: () => Promise<T | undefined>): Promise<T | undefined>;
  forget(isStale: (value: T) => boolean): void;
};

/** @param monotonicMs a clock that never goes back. */
export const createBriefMemory = <T extends object>(options: {
  max: number;
  ttlMs: number;
  monotonicMs: () => number;
}): BriefMemory<T> => {
  const { max, ttlMs, monotonicMs } = options;
  const known = new LRUCache<string, T>({ max, ttl: ttlMs, perf: { now: monotonicMs } });
  const pending = new Map<string, Promise<T | undefined>>();
  /** Grows with everything forgotten: a look that began before may have read what was true before. */
  let generation = 0;

  const lookUp = async (name: string, look: () => Promise<T | undefined>): Promise<T | undefined> => {
    const began = generation;
    // From the start of the look: an answer that was long on its way is already that old.
    const start = monotonicMs();
    const found = await look();
    if (found && began === generation) known.set(name, found, { start });
    return found;
  };

  return {
    recall: (name) => known.get(name),

    find(name, look) {
      const recalled = known.get(name);
      if (recalled) return Promise.resolve(recalled);
      const underWay = pending.get(name);
      if (underWay) return underWay;
      const looking = lookUp(name, look).finally(() => {
        if (pending.get(name) === looking) pending.delete(name);
      });
      pending.set(name, looking);
      return looking;
    },

    forget(isStale) {
      generation += 1;
      // Whoever asks from now on must not be answered by a look that began before.
      pending.clear();
      for (const [name, value] of known.entries()) if (isStale(value)) known.delete(name);
    },
  };
};
