import { describe, expect, test } from 'vitest';
import { runAtOnce } from './json-parser.ts';
import { stringifyInSlices } from './json-writer.ts';

describe('JSON is written in slices', () => {
  test.for([
    null,
    0.1,
    -1e21,
    'a "quoted" \u2028 \ud800 text',
    [],
    {},
    [[], {}, [null, true]],
    { a: undefined, b: { c: [1, { 'd"': '' }] } },
    JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}'),
  ])('%j as JSON.stringify writes it', (value) => {
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
});
