// JSON Merge Patch (RFC 7396). Pure.
import type { Json } from './json.ts';

const isObject = (value: Json | undefined): value is { [key: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The target with the patch in it; null takes away. @returns undefined where nothing is left. Neither argument is changed. */
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
