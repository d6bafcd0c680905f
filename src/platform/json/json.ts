// JSON values: their limits, paths to places in them, and the checks that a value is stored and returned unchanged.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Nesting of arrays and objects in what a client sends. Functions that walk such values may recurse. */
export const JSON_DEPTH_MAX = 64;

/**
 * Nesting in what a client did not send: responses of destinations, messages of executors, and bodies with the values of
 * tokens in them, where a value of 64 levels stands in a body of 64. Only checked with `shapeProblem`, which does not recurse.
 */
export const OUTSIDE_JSON_DEPTH_MAX = 200;

/** The error for nesting beyond a limit. */
export const depthProblem = (depthMax = JSON_DEPTH_MAX): string => `must not be nested deeper than ${depthMax} levels`;

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

/** Names longer than this are clipped in error messages, as they come from the client. */
const CLIPPED_LENGTH = 100;

/** Copied: a slice of a string keeps the whole string in memory. */
export const clipName = (name: string): string =>
  name.length > CLIPPED_LENGTH ? `${Buffer.from(name.slice(0, CLIPPED_LENGTH)).toString()}…` : name;

/** A property path as error messages name it: `a.b[0].data`. Long keys are clipped. */
export const formatPath = (path: readonly (string | number)[]): string => {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else text += `${text === '' ? '' : '.'}${clipName(step)}`;
  }
  return text;
};

/** The path of a place below another. */
export const joinPaths = (path: string, below: string): string =>
  below === '' || below.startsWith('[') ? `${path}${below}` : `${path}.${below}`;

/** Why a number would not be returned as it was sent, or undefined. */
export const numberProblem = (value: number): string | undefined => {
  if (!Number.isFinite(value)) return 'must be a number in the range of a double, or a string';
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return 'must be within 2^53, or a string';
  if (Object.is(value, -0)) return 'must not be negative zero';
  return undefined;
};

/** Whether PostgreSQL can store the text unchanged: it refuses NUL and unpaired surrogates. */
export const isStorableText = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/** The error for text that is not storable. */
export const NOT_STORABLE = 'must not contain NUL or unpaired surrogates';

/** @returns undefined for a text that is no JSON. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};
