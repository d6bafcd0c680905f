// Maps lists and writes JSON in slices, for work that must not hold the event loop (accounts.ts runs them in turns).
import type { Slices } from './json-parser.ts';

/** Maps a list, with a pause after each item. */
export function* mapInSlices<T, R>(items: readonly T[], map: (item: T, index: number) => R): Slices<R[]> {
  const mapped: R[] = [];
  for (const [index, item] of items.entries()) {
    mapped.push(map(item, index));
    yield;
  }
  return mapped;
}

/** Containers this deep are written at once: a page has its records two levels deep. */
const SLICED_DEPTH = 4;

/**
 * As JSON.stringify, with pauses between the values of the upper levels.
 * @param onBytes gets about the bytes so far, after each value; what it throws ends the work.
 */
export function* stringifyInSlices(value: unknown, onBytes: (bytes: number) => void = () => {}): Slices<string> {
  let bytes = 0;
  const write = (leaf: unknown): string => {
    const text = JSON.stringify(leaf) ?? 'null';
    bytes += text.length;
    onBytes(bytes);
    return text;
  };
  function* writeDown(part: unknown, depth: number): Slices<string> {
    const isContainer = typeof part === 'object' && part !== null && !('toJSON' in part);
    if (!isContainer || depth === 0) return write(part);
    const texts: string[] = [];
    if (Array.isArray(part)) {
      for (const item of part) {
        texts.push(isLeaf(item) ? write(item) : yield* writeDown(item, depth - 1));
        yield;
      }
      return `[${texts.join(',')}]`;
    }
    for (const [name, item] of Object.entries(part)) {
      if (item === undefined || typeof item === 'function' || typeof item === 'symbol') continue;
      const text = isLeaf(item) ? write(item) : yield* writeDown(item, depth - 1);
      texts.push(`${JSON.stringify(name)}:${text}`);
      yield;
    }
    return `{${texts.join(',')}}`;
  }
  return yield* writeDown(value, SLICED_DEPTH);
}

const isLeaf = (value: unknown): boolean => typeof value !== 'object' || value === null;
