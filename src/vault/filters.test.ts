// Filters that draw, whose outcomes no vector can list: what an alias keeps, and that it is never the value itself.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { evaluateCreateTime, ExpressionError, type ExpressionEnvironment, scanTemplate } from './expressions.ts';
import { jsonBytes } from './filters.ts';
import type { Json } from './json.ts';
import { passesLuhn } from './token-types.ts';

/** Draws that are known beforehand: a linear congruential generator. */
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

  test('keeps what its arguments name, and separators', () => {
    expect(alias("alias_card: 'true', 'false'", '4242-4242-4242-4242')).toMatch(/^4242-4242-\d{4}-\d{4}$/);
    for (const filter of ["alias_card: 'false', 'true'", "alias_card: 'false', 'false'"])
      expect(passesLuhn(alias(filter, '4242 4242 4242 4242').replaceAll(' ', ''))).toBe(true);
  });

  test.each(['1234', '4242.4242.4242.4242', '', 'x'.repeat(100)])('refuses %j', (value) => {
    expect(codeOf(() => alias('alias_card', value))).toBe('wrong_type');
  });
});

describe('alias_preserve_format', () => {
  test('keeps separators and classes, and draws the rest', () => {
    const drawn = alias('alias_preserve_format', 'Ab-12 xY.9');
    expect(drawn).toMatch(/^[A-Z][a-z]-\d\d [a-z][A-Z]\.\d$/);
    expect(drawn).not.toBe('Ab-12 xY.9');
  });

  test('keeps the first and last that it is given', () => {
    expect(alias('alias_preserve_format: 3', 'ABC12345DEF67890')).toMatch(/^ABC\d{5}[A-Z]{3}\d{5}$/);
    expect(alias('alias_preserve_format: 3, 5', 'ABC12345DEF67890')).toMatch(/^ABC\d{5}[A-Z]{3}67890$/);
  });

  test('keeps nothing where first and last are all: the value would be its own alias', () => {
    fc.assert(
      fc.property(digits(5), fc.integer({ min: 1, max: 2 ** 30 }), (value, seed) => {
        expect(alias('alias_preserve_format: 3, 2', value, drawing(seed))).not.toBe(value);
      }),
    );
  });

  test('refuses what has nothing to draw', () => {
    expect(codeOf(() => alias('alias_preserve_format', '--- ---'))).toBe('no_alias');
    expect(codeOf(() => alias('alias_preserve_format: 1', 'a-'))).toBe('no_alias');
  });
});

describe('alias_preserve_length', () => {
  test('is letters and digits of the same length', () => {
    expect(alias('alias_preserve_length', 'a b-🂡')).toMatch(/^[A-Za-z0-9]{5}$/);
    expect(alias('alias_preserve_length: 0, 5', 'ABC12345DEF67890')).toMatch(/^[A-Za-z0-9]{11}67890$/);
  });
});

describe('chance', () => {
  test('is where the environment gives it, and an alias that cannot differ is refused', () => {
    expect(codeOf(() => alias('alias_card', '4242424242424242', { hmac: () => '' }))).toBe('misplaced_filter');
    expect(codeOf(() => alias('alias_preserve_length', '000', { hmac: () => '', randomInt: () => 0 }))).toBe(
      'no_alias',
    );
  });
});

describe('jsonBytes', () => {
  test('is the length of compact JSON for what needs no escapes', () => {
    const plain = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(null, true, false),
        fc.integer(),
        fc.stringMatching(/^[a-zä🂡]{0,9}$/u),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), tie('value'), { maxKeys: 4 }),
      ),
    })).value as fc.Arbitrary<Json>;
    fc.assert(
      fc.property(plain, (value) => {
        // Brackets and commas: empty lists and objects count one less than they are.
        const exact = Buffer.byteLength(JSON.stringify(value).replaceAll('[]', '[').replaceAll('{}', '{'));
        expect(jsonBytes(value, Infinity)).toBe(exact);
      }),
    );
  });

  test('stops at its bound', () => {
    let read = 0;
    const list = Array.from({ length: 1000 }, () => 'x'.repeat(1000));
    const counted = new Proxy(list, { get: (target, key) => ((read += 1), Reflect.get(target, key)) });
    expect(jsonBytes([counted], 1500)).toBeGreaterThan(1500);
    expect(read).toBeGreaterThan(0);
  });
});
