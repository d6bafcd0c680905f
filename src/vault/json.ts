// What counts as a JSON value here: bounded in depth, and exact, so that what goes in is what comes out. Pure.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** decisions.md section 2. Nesting of arrays and objects; our walkers recurse no deeper. */
export const JSON_DEPTH_MAX = 64;

/** Own properties and array items only: no path reaches a prototype. Undefined where there is nothing. */
export const valueAt = (from: Json | undefined, steps: readonly (string | number)[]): Json | undefined => {
  let value = from;
  for (const step of steps) {
    if (typeof value !== 'object' || value === null) return undefined;
    if (Array.isArray(value)) value = typeof step === 'number' ? value[step] : undefined;
    else value = typeof step === 'string' && Object.hasOwn(value, step) ? value[step] : undefined;
  }
  return value;
};

/** A copy: a part of a text keeps all of it in memory. */
const clippedName = (name: string): string => `${Buffer.from(name.slice(0, 100)).toString()}…`;

/** Property path as problems name it: `a.b[0].data`. Long keys are clipped: they come from the caller. */
export const formatPath = (path: readonly (string | number)[]): string => {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else text += `${text === '' ? '' : '.'}${step.length > 100 ? clippedName(step) : step}`;
  }
  return text;
};

/** Why a number would not come back as it was sent, or undefined. */
export const numberProblem = (value: number): string | undefined => {
  if (!Number.isFinite(value)) return 'must be a number in the range of a double, or a string';
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return 'must be within 2^53, or a string';
  if (Object.is(value, -0)) return 'must not be negative zero';
  return undefined;
};

export type JsonProblem = { path: (string | number)[]; sentence: string };

/** The first reason why a parsed value cannot be kept exactly, or undefined. Stops at `depthMax`, so it never overflows. */
export const findJsonProblem = (value: Json, depthMax = JSON_DEPTH_MAX): JsonProblem | undefined => {
  if (typeof value === 'number') {
    const sentence = numberProblem(value);
    return sentence === undefined ? undefined : { path: [], sentence };
  }
  if (typeof value !== 'object' || value === null) return undefined;
  if (depthMax === 0) return { path: [], sentence: `must not be nested deeper than ${JSON_DEPTH_MAX} levels` };
  const steps: Iterable<[string | number, Json]> = Array.isArray(value) ? value.entries() : Object.entries(value);
  for (const [step, child] of steps) {
    if (typeof child === 'string') continue;
    const problem = findJsonProblem(child, depthMax - 1);
    if (problem) return { path: [step, ...problem.path], sentence: problem.sentence };
  }
  return undefined;
};

/** Whether Postgres can hold the text as it is: no NUL, no half of a surrogate pair. */
export const isStorableText = (text: string): boolean => !text.includes('\0') && text.isWellFormed();
