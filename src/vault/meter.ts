// What the expressions of one request may use, and what they have used: work and bytes. Everything that evaluates an
// expression pays here first, so that no body, however it is made, holds the event loop or fills the memory.
import { ExpressionError } from './expression-error.ts';
import type { Json } from './json.ts';

/** decisions.md section 4: nothing expands beyond 10 MB. */
export const EXPANDED_BYTES_MAX = 10 * 1024 * 1024;

/**
 * Work is in nanoseconds, as measured on one core of a small server and rounded up. A tenth of a second is the most that
 * one request may keep all others waiting; 4,000 cards with masks of their own, three expressions each, take half of it.
 */
export const WORK_MAX = 100_000_000;

/** What things cost, in the same unit. */
export const WORK = {
  /** A character of a text that is taken apart into expressions: 20 to 60. */
  scannedCharacter: 60,
  /** A filter, whatever it does. */
  filter: 200,
  /** A character that a text filter reads: 1, and 20 where upper case is not Latin. */
  character: 10,
  /** A character that becomes a value of its own, and text again. */
  splitCharacter: 40,
  /** A character that is drawn anew: 300 to 500, and 10,000 cards with an alias each must pass. */
  drawnCharacter: 300,
  /** A match that is replaced. */
  match: 30,
  /** A value within a value that is measured, copied or written as JSON; and the name of a member, which is looked up. */
  node: 80,
  name: 400,
  /** A byte that is put in, and written into the answer. */
  byte: 4,
  /** A node that a JSONPath visits. */
  visitedNode: 150,
  /** A JSONPath that is parsed, and each of its characters: 300 to 500. */
  path: 2000,
  pathCharacter: 500,
  hmac: 5000,
} as const;

/** What has been used so far: by one token, or by one request of many places. */
export type Meter = { work: number; bytes: number; placeholders: number };

export const createMeter = (): Meter => ({ work: 0, bytes: 0, placeholders: 0 });

/** Pays before the work is done. @throws ExpressionError too_complex; a meter that is spent stays spent. */
export const spend = (meter: Meter, work: number): void => {
  meter.work += work;
  if (meter.work > WORK_MAX) throw new ExpressionError('too_complex', 'must take less work to evaluate');
};

/** What JSON writes with more bytes than the character has in UTF-8, and a few more controls that it does not. */
const escaped = /["\\\p{Cc}\p{Cs}]/u;

/** A text with its quotation marks. */
const stringBytes = (text: string): number =>
  escaped.test(text) ? Buffer.byteLength(JSON.stringify(text)) : Buffer.byteLength(text) + 2;

/**
 * The size of a value as compact JSON in UTF-8, give or take its brackets, and the work to read and write it. Stops as
 * soon as bytes are above `most`.
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
