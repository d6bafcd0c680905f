// Tests alias filters: what an alias keeps, and that it differs from the value. No vector can list random results.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ExpressionError } from './expression-error.ts';
import { drawId, evaluateCreateTime, type ExpressionEnvironment } from './expressions.ts';
import type { Json } from '../../../platform/json/json.ts';
import { createMeter, jsonSize } from './meter.ts';
import { scanTemplate } from './template.ts';
import { passesLuhn } from '../token-types.ts';

/** Reproducible random numbers: a linear congruential generator. */
const drawing = (seed: number): ExpressionEnvironment => {
  let state = seed;
  return {
    hmac: () => '',
    randomInt: (max) => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((state / 2 ** 31) * max);
    },
  };
};

const alias = (filter: string, data: Json, environment = drawing(1)) =>
  evaluateCreateTime(scanTemplate(`{{ data | ${filter} }}`), { data }, environment) as string;

const codeOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    if (error instanceof ExpressionError) return error.code;
    throw error;
  }
  return 'none';
};

const digits = (length: number) =>
  fc.array(fc.integer({ min: 0, max: 9 }), { minLength: length, maxLength: length }).map((list) => list.join(''));
const luhnNumber = fc
  .integer({ min: 12, max: 18 })
  .chain(digits)
  .map((start) => {
    for (let check = 0; check < 10; check += 1) if (passesLuhn(start + check)) return start + check;
    throw new Error('one check digit fits');
  });

describe('alias_card', () => {
  test('passes Luhn, keeps length, first six and last four, and is another number', () => {
    fc.assert(
      fc.property(luhnNumber, fc.integer({ min: 1, max: 2 ** 30 }), (number, seed) => {
        const drawn = alias('alias_card', number, drawing(seed));
        expect(drawn).not.toBe(number);
        expect(drawn).toHaveLength(number.length);
        expect(drawn.slice(0, 6)).toBe(number.slice(0, 6));
        expect(drawn.slice(-4)).toBe(number.slice(-4));
        expect(passesLuhn(drawn)).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });

  test('keeps separators, and the digits that its arguments select', () => {
    expect(alias("alias_card: 'true', 'false'", '4242-4242-4242-4242')).toMatch(/^4242-4242-\d{4}-\d{4}$/);
    for (const filter of ["alias_card: 'false', 'true'", "alias_card: 'false', 'false'"])
      expect(passesLuhn(alias(filter, '4242 4242 4242 4242').replaceAll(' ', ''))).toBe(true);
  });

  test.each(['1234', '4242.4242.4242.4242', '', 'x'.repeat(100)])('refuses %j', (value) => {
    expect(codeOf(() => alias('alias_card', value))).toBe('wrong_type');
  });
});

describe('alias_preserve_format', () => {
  test('keeps separators and character classes, and replaces the rest', () => {
    const drawn = alias('alias_preserve_format', 'Ab-12 xY.9');
    expect(drawn).toMatch(/^[A-Z][a-z]-\d\d [a-z][A-Z]\.\d$/);
    expect(drawn).not.toBe('Ab-12 xY.9');
  });

  test('keeps the first and last characters that its arguments select', () => {
    expect(alias('alias_preserve_format: 3', 'ABC12345DEF67890')).toMatch(/^ABC\d{5}[A-Z]{3}\d{5}$/);
    expect(alias('alias_preserve_format: 3, 4', 'ABC12345DEF67890')).toMatch(/^ABC\d{5}[A-Z]{3}\d7890$/);
    expect(alias('alias_preserve_format: 6, 4', '4242424242424242')).toMatch(/^424242\d{6}4242$/);
    expect(alias('alias_preserve_format: 6, 4', '4242-4242-4242-4242')).toMatch(/^4242-4\d{3}-\d{4}-4242$/);
    expect(alias('alias_preserve_format: 0, 4', '123-45-6789')).toMatch(/^\d{3}-\d\d-6789$/);
  });

  test.each([
    ['16, 0', '4242424242424242'],
    ['7', '4242424242424242'],
    ['0, 5', '4242424242424242'],
  ])('keeps no more than six and four: %s is refused', (args, value) => {
    for (const filter of ['alias_preserve_format', 'alias_preserve_length'])
      expect(codeOf(() => alias(`${filter}: ${args}`, value))).toBe('bad_argument');
  });

  test.each([
    ['2, 2', '12345'],
    ['6, 4', '123456789'],
    ['6, 4', '4222222222222'],
    ['0, 0', '123'],
    ['0, 0', '(((((((((((((((((abcd'],
  ])('replaces at least four characters and a quarter of all: %s of %s is refused', (args, value) => {
    expect(codeOf(() => alias(`alias_preserve_format: ${args}`, value))).toBe('no_alias');
  });

  test('refuses a value without characters to replace', () => {
    expect(codeOf(() => alias('alias_preserve_format', '--- ---'))).toBe('no_alias');
    expect(codeOf(() => alias('alias_preserve_format: 1', 'a-'))).toBe('no_alias');
  });

  test('refuses a value longer than an id before it generates one', () => {
    expect(codeOf(() => alias('alias_preserve_format', 'x'.repeat(401)))).toBe('wrong_type');
  });
});

describe('an id', () => {
  const id = (text: string, data: Json) => drawId(scanTemplate(text), data, drawing(1), createMeter());

  test('combines an alias with literal text', () => {
    expect(id('card-{{ data.number | alias_card }}', { number: '4242424242424242' })).toMatch(/^card-424242\d{6}4242$/);
  });

  test('never contains the value, in any part', () => {
    expect(codeOf(() => id('123456789-{{ data | alias_preserve_format }}', '123456789'))).toBe('no_alias');
    expect(codeOf(() => id('x123456789-{{ data.a | alias_preserve_length }}', { a: 123_456_789 }))).toBe('no_alias');
  });
});

describe('alias_preserve_length', () => {
  test('is letters and digits of the same length', () => {
    expect(alias('alias_preserve_length', 'a b-🂡')).toMatch(/^[A-Za-z0-9]{5}$/);
    expect(alias('alias_preserve_length: 0, 4', 'ABC12345DEF67890')).toMatch(/^[A-Za-z0-9]{12}7890$/);
  });
});

describe('randomness', () => {
  test('comes from the environment only, and an alias that cannot differ is refused', () => {
    expect(codeOf(() => alias('alias_card', '4242424242424242', { hmac: () => '' }))).toBe('misplaced_filter');
    expect(codeOf(() => alias('alias_preserve_length', '0000', { hmac: () => '', randomInt: () => 0 }))).toBe(
      'no_alias',
    );
  });
});

describe('jsonSize', () => {
  test('is the length of compact JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        // Counts brackets and commas. Empty lists and objects count one byte too few.
        const text = JSON.stringify(value, (_key, each: unknown) =>
          typeof each === 'object' && each !== null && Object.keys(each).length === 0 ? 0 : each,
        );
        expect(jsonSize(value as Json, Infinity).bytes).toBe(Buffer.byteLength(text));
      }),
    );
  });

  test('stops at its bound', () => {
    const list = Array.from({ length: 1000 }, () => 'x'.repeat(1000));
    const { bytes, work } = jsonSize(list, 1500);
    expect(bytes).toBeGreaterThan(1500);
    expect(work).toBeLessThan(jsonSize(list, Infinity).work / 100);
  });
});
