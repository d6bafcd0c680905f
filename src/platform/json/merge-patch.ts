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

/** Pauses after each property. @returns the patched target, as a new value; undefined where the patch removes it. */
export function* mergePatch(target: Json | undefined, patch: Json): Slices<Json | undefined> {
  if (patch === null) return undefined;
  if (!isObject(patch)) return patch;
  const merged: JsonObject = {};
  for (const [name, value] of isObject(target) ? Object.entries(target) : []) {
    set(merged, name, value);
    yield;
  }
  for (const [name, part] of Object.entries(patch)) {
    const value = yield* mergePatch(Object.hasOwn(merged, name) ? merged[name] : undefined, part);
    if (value === undefined) delete merged[name];
    else set(merged, name, value);
    yield;
  }
  return merged;
}
