// What makes a parsed JSON value from outside unfit to be walked by our own code.

/** Our walkers, not JSON.parse, are what deep nesting breaks. */
const NESTING_MAX = 200;

/**
 * Looks for nesting, and for keys that reach a prototype where a later hand is careless. Iterative: 200,000 levels cost their
 * bytes and no stack.
 * @returns a sentence's end ("must not ..."); undefined where there is nothing.
 */
export const shapeProblem = (root: unknown): string | undefined => {
  if (typeof root !== 'object' || root === null) return undefined;
  const steps: { value: object; depth: number }[] = [{ value: root, depth: 1 }];
  for (let at = steps.pop(); at; at = steps.pop()) {
    if (at.depth > NESTING_MAX) return `must not be nested deeper than ${NESTING_MAX} levels`;
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
