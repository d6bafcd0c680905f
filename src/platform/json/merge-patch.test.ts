// The merge patch against the table of RFC 7396, appendix A, and what a patch must leave alone.
import { describe, expect, test } from 'vitest';
import type { Json } from './json.ts';
import { runAtOnce } from './slices.ts';
import { mergePatch } from './merge-patch.ts';

const merge = (target: Json | undefined, patch: Json): Json | undefined => runAtOnce(mergePatch(target, patch));

/** The table writes null where nothing is left. */
const cases: [target: Json, patch: Json, result: Json | undefined][] = [
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [
    ['a', 'b'],
    ['c', 'd'],
    ['c', 'd'],
  ],
  [{ a: 'b' }, ['c'], ['c']],
  [{ a: 'foo' }, null, undefined],
  [{ a: 'foo' }, 'bar', 'bar'],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: 'b', c: null }, { a: 'b' }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
];

describe('RFC 7396, appendix A', () => {
  test.each(cases)('%j with %j', (target, patch, result) => {
    expect(merge(target, patch)).toEqual(result);
  });
});

test('nothing becomes what the patch says, without its nulls', () => {
  expect(merge(undefined, { a: 1, b: null, c: { d: null, e: [null] } })).toEqual({ a: 1, c: { e: [null] } });
});

test('neither the target nor the patch is changed', () => {
  const target = { a: { b: 1, c: [1] } };
  const patch = { a: { b: null, d: { e: null } } };
  const before = structuredClone({ target, patch });
  merge(target, patch);
  expect({ target, patch }).toEqual(before);
});

test('names of a prototype are names like any other', () => {
  const patch = JSON.parse('{"constructor":{"name":"x"},"toString":null,"__proto__":{"polluted":true}}') as Json;
  const merged = merge({ toString: 'y', kept: 1 }, patch) as Record<string, Json>;
  expect(Object.keys(merged)).toEqual(['kept', 'constructor', '__proto__']);
  expect(merged['constructor']).toEqual({ name: 'x' });
  expect(Object.getPrototypeOf(merged)).toBe(Object.prototype);
  expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
});
