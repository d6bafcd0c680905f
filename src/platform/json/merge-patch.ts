// Applies a JSON Merge Patch (RFC 7396).
import type { Json } from './json.ts';

const isObject = (value: Json | undefined): value is { [key: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** @returns the patched target, as a new value; undefined where the patch removes it. */
export const mergePatch = (target: Json | undefined, patch: Json): Json | undefined => {
  if (patch === null) return undefined;
  if (!isObject(patch)) return patch;
  const merged = new Map<string, Json>(isObject(target) ? Object.entries(target) : []);
  for (const [key, part] of Object.entries(patch)) {
    const value = mergePatch(merged.get(key), part);
    if (value === undefined) merged.delete(key);
    else merged.set(key, value);
  }
  return Object.fromEntries(merged);
};
