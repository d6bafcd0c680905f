// Checks parsed JSON that no client sent (from destinations, executors, or with the values of tokens in it) before other
// functions walk it.
import { depthProblem, type Json, OUTSIDE_JSON_DEPTH_MAX } from './json.ts';
import { JSON_SLICE_CHARACTERS, parseInSlices } from './json-parser.ts';
import { runAtOnce, type Slices } from './slices.ts';
import { walkJson } from './walk.ts';

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

/** `problem`: as `findShapeProblem`. */
export type OutsideJson = { value: Json; problem: string | undefined };

/** Parses JSON of a destination, and checks its shape. @throws SyntaxError or JsonSyntaxError for a text that is not JSON. */
export function* parseOutsideInSlices(text: string): Slices<OutsideJson> {
  if (text.length <= JSON_SLICE_CHARACTERS) {
    const value = JSON.parse(text) as Json;
    return { value, problem: shapeProblem(value) };
  }
  const { value, findings } = yield* parseInSlices(text);
  // Only what exceeds the limit of clients can exceed this one.
  return { value, problem: findings.prototype?.sentence ?? (findings.depth && (yield* findShapeProblem(value))) };
}
