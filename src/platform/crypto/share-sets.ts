// Which shares of root keys a configuration asks for.

/** More custodians than a ceremony has. The arithmetic is for 255 at most. */
export const SHARES_MAX = 20;
/** One share alone would be the key. */
export const THRESHOLD_LEAST = 2;

/** A set of shares that the configuration asks for: `2/3`, or `2/3:5f2a9c01` with the set. */
export type WantedSet = { threshold: number; shares: number; set: string | undefined };

const WANTED_FORM = /^(\d{1,2})\/(\d{1,2})(?::([0-9a-f]{8}))?$/;

/** @returns undefined for a text of another form. */
export const parseWantedSet = (text: string): WantedSet | undefined => {
  const [, threshold = '', shares = '', set] = WANTED_FORM.exec(text) ?? [];
  const wanted = { threshold: Number(threshold), shares: Number(shares), set };
  const isWell =
    wanted.threshold >= THRESHOLD_LEAST && wanted.threshold <= wanted.shares && wanted.shares <= SHARES_MAX;
  return isWell ? wanted : undefined;
};
