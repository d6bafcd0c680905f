// Checks parsed JSON that no client sent (from destinations, executors, or with the values of tokens in it) before other
// functions walk it.
import { z } from 'zod';
import { depthProblem, type Json, OUTSIDE_JSON_DEPTH_MAX, walkJson } from './json.ts';
import { type JsonFinding, parseInSlices } from './json-parser.ts';
import { runAtOnce, type Slices } from './slices.ts';

// A zod schema for objects with a limit on their entries, which are counted before each is validated.

/** What counts of an object. */
type Count = (given: object) => number;

const countNames: Count = (given) => Object.keys(given).length;

/**
 * zod validates an entry in 2 µs and has no limit for records: the 90,000 entries of a body of a megabyte would hold the event
 * loop for 180 ms.
 * @param error the sentence for a value that is no object.
 * @param tooMany the sentence for more entries.
 */
export const boundedRecord = <Key extends z.core.$ZodRecordKey, Value extends z.ZodType>(
  key: Key,
  value: Value,
  entriesMax: number,
  { error, tooMany, count = countNames }: { error?: string; tooMany?: string; count?: Count } = {},
) =>
  z
    .unknown()
    .refine((given) => typeof given !== 'object' || given === null || count(given) <= entriesMax, {
      error: tooMany ?? `must have at most ${entriesMax} entries`,
      abort: true,
    })
    .pipe(z.record(key, value, error));

/**
 * Finds nesting beyond the limit, and keys that could change a prototype (CWE-1321). Iterative, so that no nesting overflows
 * the stack.
 * @returns the end of a sentence ("must not ..."); undefined for a valid value.
 */
export function* findShapeProblem(root: unknown): Slices<string | undefined> {
  const walk = walkJson(root as Json);
  while (walk.next()) {
    const { value, name } = walk;
    if (name === '__proto__') return 'must not have the key __proto__';
    if (walk.isPauseDue()) yield;
    if (typeof value !== 'object' || value === null) continue;
    if (walk.depth >= OUTSIDE_JSON_DEPTH_MAX) return depthProblem(OUTSIDE_JSON_DEPTH_MAX);
    if (name === 'constructor' && Object.hasOwn(value, 'prototype'))
      return 'must not have the key constructor.prototype';
  }
  return undefined;
}

/** Without pauses, for small values. */
export const shapeProblem = (root: unknown): string | undefined => runAtOnce(findShapeProblem(root));

export type OutsideJson = {
  value: Json;
  /** Nesting or key that `findShapeProblem` refuses. */
  problem: JsonFinding | undefined;
  /** What the value does not have of the text: a name that is there twice, a number that a double does not hold. */
  loss: JsonFinding | undefined;
};

/** Parses JSON for code, and checks it. @throws JsonSyntaxError for a text that is not JSON. */
export function* parseOutsideInSlices(text: string): Slices<OutsideJson> {
  const { value, findings } = yield* parseInSlices(text);
  const { prototype, depth, duplicate, number } = findings;
  // Only what exceeds the limit of clients can exceed this one.
  const sentence = depth && (yield* findShapeProblem(value));
  const tooDeep: JsonFinding | undefined =
    sentence === undefined ? undefined : { path: '', sentence, code: 'too_deep' };
  const problem = prototype ?? tooDeep;
  return { value, problem, loss: duplicate ?? number };
}
