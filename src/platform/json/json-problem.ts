// Checks that a JSON value can be stored exactly: its numbers and its depth.
import { depthProblem, type Json, JSON_DEPTH_MAX, numberProblem } from './json.ts';
import type { FieldCode } from './problem-codes.ts';
import type { Slices } from './slices.ts';
import { walkJson } from './walk.ts';

export type JsonProblem = { path: (string | number)[]; sentence: string; code: FieldCode };

const sentenceOn = (value: Json, depth: number): string | undefined => {
  if (typeof value === 'number') return numberProblem(value);
  return typeof value === 'object' && value !== null && depth === JSON_DEPTH_MAX ? depthProblem() : undefined;
};

/** The first reason why a parsed value cannot be stored exactly, or undefined. Stops at JSON_DEPTH_MAX. */
export function* findJsonProblem(root: Json): Slices<JsonProblem | undefined> {
  const walk = walkJson(root);
  while (walk.next()) {
    const sentence = sentenceOn(walk.value, walk.depth);
    if (sentence !== undefined)
      return { path: walk.path(), sentence, code: typeof walk.value === 'number' ? 'inexact_number' : 'too_deep' };
    if (walk.isPauseDue()) yield;
  }
  return undefined;
}
