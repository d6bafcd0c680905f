// Numbers that JSON.parse changes: each is found, at its place, and no other is.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseInSlices } from './json-parser.ts';
import { runAtOnce } from './slices.ts';

const findChangedNumber = (text: string): string | undefined => runAtOnce(parseInSlices(text)).findings.number?.path;

/** The value of a decimal, exactly: a whole number times ten to the minus 2,000. */
const exactly = (literal: string): bigint => {
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  return BigInt(whole + fraction) * 10n ** BigInt(2000 + Number(exponent) - fraction.length);
};

const literals = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(fc.constant('0'), fc.stringMatching(/^[1-9][0-9]{0,25}$/)),
    fc.oneof(fc.constant(''), fc.stringMatching(/^\.[0-9]{1,25}$/)),
    fc.oneof(fc.constant(''), fc.stringMatching(/^[eE][+-]?[0-3]?[0-9]{1,2}$/)),
  )
  .map((parts) => parts.join(''));

describe('a changed number', () => {
  test('is one whose shortest double is another number', () => {
    fc.assert(
      fc.property(literals, (literal) => {
        const value = Number(literal);
        const same = Number.isFinite(value) && exactly(String(value)) === exactly(literal);
        expect(findChangedNumber(literal) === undefined).toBe(same);
      }),
      { numRuns: 5000 },
    );
  });

  test('is none that JSON.stringify wrote', () => {
    fc.assert(
      fc.property(fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.maxSafeInteger()), (value) => {
        expect(findChangedNumber(JSON.stringify([value]))).toBeUndefined();
      }),
      { numRuns: 5000 },
    );
  });

  test('is found where it stands, in any JSON, however its strings look', () => {
    const marked = fc.tuple(fc.jsonValue({ maxDepth: 4 }), fc.string(), fc.jsonValue(), fc.string());
    fc.assert(
      fc.property(marked, ([before, name, after, text]) => {
        const body = { before, list: [text, { [`n${name}`]: '@', after }] };
        for (const space of [0, 1]) {
          const json = JSON.stringify(body, undefined, space);
          const at = json.lastIndexOf('"@"');
          if (json.indexOf('"@"') !== at) continue;
          const found = findChangedNumber(`${json.slice(0, at)}1e-400${json.slice(at + 3)}`);
          expect(found?.startsWith(`list[1].n${name.slice(0, 50)}`)).toBe(true);
        }
      }),
    );
  });

  test.each([
    ['1e-400', ''],
    ['[1e-400]', '[0]'],
    ['[0,[[]],{},1e-400]', '[3]'],
    ['{"a":{},"b":[{"c":1},{"d\\"\\\\":1e-400}]}', 'b[1].d"\\'],
    ['{"a":"\\\\","b": 12345678901234567.1}', 'b'],
    ['{"a,1e-400":1,"b":[[1],1e400]}', 'b[1]'],
  ])('%s is at %j', (text, path) => {
    expect(findChangedNumber(text)).toBe(path);
  });

  test.each([
    '"1e-400"',
    '[": 1e-400"]',
    '{"1e-400":", 12345678901234567.1 "}',
    '["\\"",": 1e-400\\\\"]',
    '0e999',
    '1.0e2',
  ])('%s has none', (text) => {
    expect(findChangedNumber(text)).toBeUndefined();
  });
});
