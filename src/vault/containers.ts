// Container paths: parsed into their one form, and compared by whole segments. Pure; knows no caller and no token.
// Source of the grammar and of the comparison: decisions.md section 2.

export const CONTAINER_LENGTH_MAX = 400;
export const containerPattern = /^\/(?:[A-Za-z0-9_-]+\/)*$/;

/** The path in its one form, lower-case; undefined for what is not a container path of at most 400 characters. */
export const parseContainer = (text: string): string | undefined =>
  text.length <= CONTAINER_LENGTH_MAX && containerPattern.test(text) ? text.toLowerCase() : undefined;

/**
 * Whether a right on `granted` reaches `wanted`: the container itself and everything below it; `/` reaches all.
 * Both are parsed paths. They end in `/`, so a common start is always a run of whole segments.
 */
export const containerCovers = (granted: string, wanted: string): boolean => wanted.startsWith(granted);
