// JSON values: their limits, paths to places in them, and the checks that a value is stored and returned unchanged.

// Walks JSON values with a stack of its own: depth does not overflow the call stack, and no path is built for each value.

/** Values between two pauses. */
const PAUSE_VALUES = 1000;

/** A container whose children are being visited. `names`: undefined for an array. */
type Level = { holder: Json[] | { [key: string]: Json }; names: string[] | undefined; length: number; at: number };

type JsonWalk = {
  /** Moves to the next value: containers before their children, in the order of the text. @returns false at the end. */
  next(): boolean;
  /** The current value. */
  readonly value: Json;
  /** Its property name; undefined for the root and for items of arrays. */
  readonly name: string | undefined;
  /** How many containers are around the current value. */
  readonly depth: number;
  /** The way to the current value, built for this call. */
  path(): (string | number)[];
  /** Whether so many values were visited that the event loop must get a pause. */
  isPauseDue(): boolean;
};

export const walkJson = (root: Json): JsonWalk => {
  const levels: Level[] = [];
  let visited = 0;
  const enter = (holder: Level['holder']): void => {
    const names = Array.isArray(holder) ? undefined : Object.keys(holder);
    const length = names?.length ?? (holder as Json[]).length;
    if (length > 0) levels.push({ holder, names, length, at: -1 });
  };
  const walk = {
    value: root,
    name: undefined as string | undefined,
    depth: 0,
    next: () => {
      visited += 1;
      if (visited === 1) return true;
      if (typeof walk.value === 'object' && walk.value !== null) enter(walk.value);
      for (let level = levels.at(-1); level; level = levels.at(-1)) {
        level.at += 1;
        if (level.at < level.length) {
          walk.name = level.names?.[level.at];
          walk.value = (level.holder as Record<string | number, Json>)[walk.name ?? level.at] as Json;
          walk.depth = levels.length;
          return true;
        }
        levels.pop();
      }
      return false;
    },
    path: () => levels.map(({ names, at }) => names?.[at] ?? at),
    isPauseDue: () => visited % PAUSE_VALUES === 0,
  };
  return walk;
};

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
