// Container paths: parse, compare, cover. Pure; decisions.md section 2.

const CONTAINER_LENGTH_MAX = 400;
const containerPattern = /^\/(?:[A-Za-z0-9_-]+\/)*$/;

/** The path in its one form, lower-case; undefined for what is not a container path. */
export const parseContainer = (text: string): string | undefined =>
  text.length <= CONTAINER_LENGTH_MAX && containerPattern.test(text) ? text.toLowerCase() : undefined;

/** Whether a right on `granted` reaches `wanted`: itself and everything below. Both end in `/`, so whole segments compare. */
export const containerCovers = (granted: string, wanted: string): boolean => wanted.startsWith(granted);
