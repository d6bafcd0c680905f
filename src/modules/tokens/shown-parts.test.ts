// What of a masked value a search can find.
import { describe, expect, test } from 'vitest';
import { evaluateShape } from './expressions/expressions.ts';
import { findShownParts } from './shown-parts.ts';
import { findTokenType } from './token-types.ts';
import type { Json } from '../../platform/json/json.ts';

const environment = { hmac: () => '', randomInt: () => 0 };
const card = { number: '4012888888881881', expiration_month: 3, expiration_year: 2031 };

const partsOf = (mask: Json, data: Json): Record<string, string> =>
  Object.fromEntries(findShownParts(mask, evaluateShape(mask, { data }, environment)));

describe('the default masks', () => {
  test.each<[string, Json, object]>([
    ['card', card, { last4: '1881', expires: '2031-03' }],
    ['card', { number: '4012888888881881' }, { last4: '1881' }],
    ['card_number', '4012888888881881', { last4: '1881' }],
    ['bank', { routing_number: '110000000', account_number: '000123456789' }, { last4: '6789' }],
    ['bank', { routing_number: '110000000', account_number: '6789' }, {}],
    ['social_security_number', '123-45-6789', { last4: '6789' }],
    ['us_bank_routing_number', '110000000', { last4: '0000' }],
    ['token', { number: '4012888888881881' }, {}],
  ])('of %s over %j', (type, data, parts) => {
    const { mask, maskedOf } = findTokenType(type) ?? {};
    expect(Object.fromEntries(findShownParts(mask, maskedOf?.(data)))).toEqual(parts);
  });
});

describe('a mask of its own', () => {
  test.each<[Json, object]>([
    ['{{ data.number | last4 }}', { last4: '1881' }],
    ["Card {{data | json: '$.number' | reveal_last: 4, '*'}}", { last4: '1881' }],
    [{ number: '{{ data.number | reveal: 6, 4 }}' }, { last4: '1881' }],
    [{ number: "{{ data.number | card_mask: true, true, '*' }}" }, { last4: '1881' }],
    [
      { number: '{{ data.number }}', brand: 'Visa' },
      { last4: '1881', brand: 'Visa' },
    ],
    [{ expiration_month: '{{ data.expiration_month }}', expiration_year: 2031 }, { expires: '2031-03' }],
    // Other parts of the number, at the end or not.
    ['{{ data.number | slice: 0, 6 }}', {}],
    ['{{ data.number | card_bin }}', {}],
    ['{{ data.number | reveal_last: 3 }}', {}],
    ['{{ data.number | last4 }} ', {}],
    [{ number: '{{ data.number | slice: 0, 4 }}' }, {}],
    [{ number: "{{ data.number | replace: '1881', '1111' }}" }, {}],
    [{ bin: '{{ data.number | last4 }}' }, {}],
    [{ number: { last4: '{{ data.number | last4 }}' } }, {}],
    ['{{ data.number | reveal: 0, 0 }}', {}],
    [{ number: '{{ data.number | reveal_last: 99 }}' }, { last4: '1881' }],
    // A part that is no month, and what is no text.
    [{ expiration_month: '{{ data.expiration_month }}' }, {}],
    [{ expiration_month: 13, expiration_year: 2031 }, {}],
    [{ brand: 7 }, {}],
    [{ brand: 'x'.repeat(41) }, {}],
    [null, {}],
    [['{{ data.number | last4 }}'], {}],
  ])('%j', (mask, parts) => {
    expect(partsOf(mask, card)).toEqual(parts);
  });

  test('that hides all behind letters is not found by them', () => {
    expect(partsOf('{{ data.number | reveal: 0, 16 }}', card)).toEqual({});
    expect(partsOf('{{ data | last4 }}', 'abcd')).toEqual({});
    expect(partsOf('{{ data | last4 }}', 'ab1d')).toEqual({ last4: 'ab1d' });
  });
});
