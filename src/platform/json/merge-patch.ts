// Applies a JSON Merge Patch (RFC 7396).
import type { Json } from './json.ts';
import type { Slices } from './slices.ts';

type JsonObject = { [key: string]: Json };

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Sets an own property, `__proto__` too. */
const set = (object: JsonObject, name: string, value: Json): void => {
  if (name === '__proto__')
    Object.defineProperty(object, name, { value, configurable: true, enumerable: true, writable: true });
  else object[name] = value;
};

/** An object of the patch, and the copy of the target that gets its properties. */
type Level = { patch: JsonObject; names: string[]; at: number; merged: JsonObject };

/** Properties between two pauses. */
const PAUSE_PROPERTIES = 500;

/**
 * Pauses after so many properties. Does not recurse.
 * @returns the patched target, as a new value; undefined where the patch removes it.
 */
export function* mergePatch(target: Json | undefined, patch: Json): Slices<Json | undefined> {
  if (!isObject(patch)) return patch ?? undefined;
  let properties = 0;
  const begin = function* (from: Json | undefined, by: JsonObject): Slices<Level> {
    const merged: JsonObject = {};
    for (const name of isObject(from) ? Object.keys(from) : []) {
      set(merged, name, (from as JsonObject)[name] as Json);
      if ((properties += 1) % PAUSE_PROPERTIES === 0) yield;
    }
    return { patch: by, names: Object.keys(by), at: 0, merged };
  };
  const root = yield* begin(target, patch);
  const levels = [root];
  for (let level = levels.at(-1); level; level = levels.at(-1)) {
    const name = level.names[level.at];
    if (name === undefined) {
      levels.pop();
      continue;
    }
    level.at += 1;
    if ((properties += 1) % PAUSE_PROPERTIES === 0) yield;
    const part = level.patch[name] as Json;
    if (part === null) delete level.merged[name];
    else if (isObject(part)) {
      const inner = yield* begin(Object.hasOwn(level.merged, name) ? level.merged[name] : undefined, part);
      set(level.merged, name, inner.merged);
      levels.push(inner);
    } else set(level.merged, name, part);
  }
  return root.merged;
}
