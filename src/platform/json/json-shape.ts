// Checks parsed JSON that no client sent (from destinations, executors, or with the values of tokens in it) before other
// functions walk it.
import { OUTSIDE_JSON_DEPTH_MAX, depthProblem } from './json.ts';

/**
 * Finds nesting beyond the limit, and keys that could change a prototype (CWE-1321). Iterative, so that no nesting overflows
 * the stack.
 * @returns the end of a sentence ("must not ..."); undefined for a valid value.
 */
export const shapeProblem = (root: unknown): string | undefined => {
  if (typeof root !== 'object' || root === null) return undefined;
  const steps: { value: object; depth: number }[] = [{ value: root, depth: 1 }];
  for (let at = steps.pop(); at; at = steps.pop()) {
    if (at.depth > OUTSIDE_JSON_DEPTH_MAX) return depthProblem(OUTSIDE_JSON_DEPTH_MAX);
    if (Array.isArray(at.value)) {
      for (const value of at.value as unknown[])
        if (typeof value === 'object' && value !== null) steps.push({ value, depth: at.depth + 1 });
      continue;
    }
    for (const [key, value] of Object.entries(at.value)) {
      if (key === '__proto__') return 'must not have the key __proto__';
      if (typeof value !== 'object' || value === null) continue;
      if (key === 'constructor' && Object.hasOwn(value, 'prototype'))
        return 'must not have the key constructor.prototype';
      steps.push({ value, depth: at.depth + 1 });
    }
  }
  return undefined;
};
