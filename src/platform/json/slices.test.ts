// JSON that is written in slices is what JSON.stringify writes.
import { describe, expect, test } from 'vitest';
import { mapInSlices, runAtOnce, stringifyInSlices } from './slices.ts';

describe('JSON is written in slices', () => {
  test.each<[string, unknown]>([
    ['a text', 'a "quoted" \u2028 \ud800 text\n'],
    ['null', null],
    ['numbers', [0, 0.1, -1.5, 1e21]],
    ['nothing', []],
    ['no attributes', {}],
    ['lists in lists', [[], {}, [null, true]]],
    ['undefined attributes', { a: undefined, b: [undefined, 1], c: { d: undefined } }],
    ['a date', { at: new Date(0) }],
    ['much nesting', { a: [{ b: [{ c: [{ d: [{ e: 'f' }] }] }] }] }],
    ['names that need escapes', { 'a"b': 1, '\u2028': '\ud800', ['__proto__']: 1 }],
    ['names of prototypes', JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}')],
    ['a page', { pagination: { total: 2 }, data: [{ id: 'a', data: { x: [1, 2] } }, { id: 'b' }] }],
  ])('%s as JSON.stringify writes it', (_, value) => {
    expect(runAtOnce(stringifyInSlices(value))).toBe(JSON.stringify(value));
  });

  test('of a large value in many, and of a deep one without recursion', () => {
    const large = Array.from({ length: 100_000 }, (_, n) => ({ n }));
    let slices = 0;
    const writer = stringifyInSlices(large);
    let step = writer.next();
    for (; !step.done; step = writer.next()) slices += 1;
    expect(step.value).toBe(JSON.stringify(large));
    expect(slices).toBeGreaterThan(50);

    let deep: unknown = [];
    for (let depth = 0; depth < 100_000; depth += 1) deep = [deep];
    expect(runAtOnce(stringifyInSlices(deep))).toHaveLength(200_002);
  });

  test('a long string in many, none of which divides a character of two units', () => {
    for (const start of ['', 'a']) {
      const text = `${start}${'\u{1f511}'.repeat(200_000)}"\\\ud83d`;
      let slices = 0;
      const writing = stringifyInSlices({ text });
      let step = writing.next();
      for (; !step.done; step = writing.next()) slices += 1;
      expect(step.value === JSON.stringify({ text })).toBe(true);
      expect(slices).toBeGreaterThan(5);
    }
  });

  test('with names in the order of their code units', () => {
    const value = { b: 1, a: [{ '\u{10000}': 1, '\uffff': 2, Z: { 10: 1, 9: 2 } }] };
    expect(runAtOnce(stringifyInSlices(value, { isSorted: true }))).toBe(
      '{"a":[{"Z":{"10":1,"9":2},"\u{10000}":1,"\uffff":2}],"b":1}',
    );
  });

  test('and ends where its length is refused', () => {
    const seen: number[] = [];
    const slices = stringifyInSlices(['a'.repeat(70_000), 'b'.repeat(70_000)], {
      onCharacters: (characters) => {
        seen.push(characters);
        if (characters > 100_000) throw new RangeError('too long');
      },
    });
    expect(() => runAtOnce(slices)).toThrow('too long');
    expect(seen).toEqual([65_538, 135_541]);
  });
});

test('a list is mapped in its order', () => {
  expect(runAtOnce(mapInSlices(['a', 'b'], (item, index) => `${item}${index}`))).toEqual(['a0', 'b1']);
});
