// Remembers in the process who is refused until when, so that refusing costs no statement.

export type RefusedUntil = {
  /** @returns until when, in ms since 1970; undefined for a name that is not refused. */
  find(name: string, nowMs: number): number | undefined;
  add(name: string, untilMs: number): void;
};

/** @param most names; beyond it the oldest is forgotten, and the database refuses it again. */
export const createRefusedUntil = (most: number): RefusedUntil => {
  const known = new Map<string, number>();
  return {
    find(name, nowMs) {
      const untilMs = known.get(name);
      if (untilMs === undefined || untilMs > nowMs) return untilMs;
      known.delete(name);
      return undefined;
    },
    add(name, untilMs) {
      known.delete(name);
      known.set(name, untilMs);
      const [oldest] = known.keys();
      if (known.size > most && oldest !== undefined) known.delete(oldest);
    },
  };
};
