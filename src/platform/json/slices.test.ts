// JSON that is written in slices is what JSON.stringify writes.
import { expect, test } from 'vitest';
import { runAtOnce } from './json-parser.ts';
import { mapInSlices, stringifyInSlices } from './slices.ts';

test.each<[string, unknown]>([
  ['a text', 'a "text"\n'],
  ['null', null],
  ['numbers', [0, -1.5, 1e21]],
  ['nothing', []],
  ['no attributes', {}],
  ['undefined attributes', { a: undefined, b: [undefined, 1], c: { d: undefined } }],
  ['a date', { at: new Date(0) }],
  ['much nesting', { a: [{ b: [{ c: [{ d: [{ e: 'f' }] }] }] }] }],
  ['names that need escapes', { 'a"b': 1, '\u2028': '\ud800', __proto__: 1 }],
  ['a page', { pagination: { total: 2 }, data: [{ id: 'a', data: { x: [1, 2] } }, { id: 'b' }] }],
])('%s', (_, value) => {
  expect(runAtOnce(stringifyInSlices(value))).toBe(JSON.stringify(value));
});

test('a list is mapped in its order', () => {
  expect(runAtOnce(mapInSlices(['a', 'b'], (item, index) => `${item}${index}`))).toEqual(['a0', 'b1']);
});
