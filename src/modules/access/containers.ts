// Container paths such as /pci/high/: parses and compares them.

export const CONTAINER_LENGTH_MAX = 400;
export const containerPattern = /^\/(?:[A-Za-z0-9_-]+\/)*$/;

/** The path in lower case; undefined for text that is not a container path of at most 400 characters. */
export const parseContainer = (text: string): string | undefined =>
  text.length <= CONTAINER_LENGTH_MAX && containerPattern.test(text) ? text.toLowerCase() : undefined;

/**
 * Whether a permission on `granted` covers `wanted`: the container itself and everything below it. Both are parsed paths: they
 * end in `/`, so a common start is always a run of whole segments.
 */
export const containerCovers = (granted: string, wanted: string): boolean => wanted.startsWith(granted);
