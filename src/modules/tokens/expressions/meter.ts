// Limits the work and the bytes that the expressions of one request may spend.
// Everything that evaluates expressions spends here first, so that no body blocks the event loop or fills memory.
import { ExpressionError } from './expression-error.ts';
import type { Json } from '../../../platform/json/json.ts';
import { megabytes } from '../../../platform/base/size-text.ts';

/** All values that one request expands. */
export const EXPANDED_BYTES_MAX = 10 * 1024 * 1024;

/** The error for values beyond it. */
export const TOO_LARGE = `must not expand beyond ${megabytes(EXPANDED_BYTES_MAX)}`;

/**
 * In nanoseconds, as measured on one core of a small server and rounded up. One request may block all others for at most a
 * tenth of a second. 4,000 cards with own masks of three expressions each take half of it.
 */
export const WORK_MAX = 100_000_000;

/** The cost of operations, in the same unit. */
export const WORK = {
  /** A character of a text that is parsed for expressions: 20 to 60. */
  scannedCharacter: 60,
  /** A filter, without its work on the value. */
  filter: 200,
  /** A character that a text filter reads: 1, or 20 for upper case outside Latin. */
  character: 10,
  /** A character that is split off and joined again. */
  splitCharacter: 40,
  /** A random character: 300 to 500 measured. The price is the lowest, so that 10,000 cards with aliases pass. */
  drawnCharacter: 300,
  /** A match that is replaced. */
  match: 30,
  /** A nested value that is measured, copied or written as JSON, or a property name that is looked up. */
  node: 80,
  name: 400,
  /** A byte of a value that is inserted and written to the response. */
  byte: 4,
  visitedNode: 150,
  /** To parse a JSONPath, and each of its characters: 300 to 500. */
  path: 2000,
  pathCharacter: 500,
  hmac: 5000,
} as const;

/** What one token or one request has spent. */
export type Meter = { work: number; bytes: number; placeholders: number };

export const createMeter = (): Meter => ({ work: 0, bytes: 0, placeholders: 0 });

/** Call before the work. @throws ExpressionError too_complex. A spent meter stays spent. */
export const spend = (meter: Meter, work: number): void => {
  meter.work += work;
  if (meter.work > WORK_MAX) throw new ExpressionError('too_complex', 'must take less work to evaluate');
};

/** The bytes of a text with its quotation marks. Written out: a search for what JSON escapes takes ten times as long. */
const stringBytes = (text: string): number => Buffer.byteLength(JSON.stringify(text));

/**
 * The size of a value as compact JSON in UTF-8, within a few bytes, and the work to read and write it. Stops when the size
 * exceeds `most`.
 */
export const jsonSize = (value: Json, most: number): { bytes: number; work: number } => {
  let bytes = 0;
  let work = 0;
  const waiting: Json[] = [value];
  while (waiting.length > 0 && bytes <= most) {
    const next = waiting.pop() as Json;
    work += WORK.node;
    if (typeof next === 'string') bytes += stringBytes(next);
    else if (typeof next !== 'object' || next === null) bytes += String(next).length;
    else if (Array.isArray(next)) {
      bytes += next.length + 1;
      for (const item of next) waiting.push(item);
    } else {
      bytes += 1;
      const names = Object.keys(next);
      work += names.length * WORK.name;
      for (const name of names) {
        bytes += stringBytes(name) + 2;
        waiting.push(next[name] as Json);
      }
    }
  }
  return { bytes, work: work + bytes * WORK.byte };
};
