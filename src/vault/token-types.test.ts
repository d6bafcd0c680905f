// Holds the short cuts of the registry to the expressions that they stand for: what a token shows, and what makes two equal,
// is what its type says, however it is worked out.
import { expect, test } from 'vitest';
import { evaluateCreateTime, evaluateShape, scanExpression } from './expressions.ts';
import type { Json } from './json.ts';
import { findTokenType, tokenTypeNames } from './token-types.ts';

const environment = { hmac: () => '' };

/** Valid data of each type, short and long, with all that is optional and without it. */
const samples: Record<string, Json[]> = {
  token: ['', 'text', 0, -1.5, true, null, [], { b: 1, a: [null, 'x'] }],
  card: [
    { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 },
    { number: '4222222222222', expiration_month: 1 },
    { number: '6304000000000000000', expiration_year: 9999 },
    { number: '378282246310005' },
  ],
  bank: [
    { routing_number: '021000021', account_number: '1' },
    { routing_number: '021000021', account_number: '1234' },
    { routing_number: '011401533', account_number: '12345' },
    { routing_number: '011401533', account_number: '12345678901234567' },
  ],
  card_number: ['4242424242424242', '4222222222222', '6304000000000000000'],
  us_bank_account_number: ['123', '1234', '12345', '12345678901234567'],
  us_bank_routing_number: ['021000021', '011401533'],
  social_security_number: ['123456789', '123-45-6789', '12345-6789', '123-456789'],
  employer_id_number: ['123456789', '12-3456789'],
};

const cases = tokenTypeNames.flatMap((name) => (samples[name] ?? []).map((data) => ({ name, data })));

test('every type has samples, and each is data of its type', () => {
  for (const name of tokenTypeNames) expect(samples[name]?.length, name).toBeGreaterThan(1);
  for (const { name, data } of cases) expect(findTokenType(name)?.data.parse(data)).toEqual(data);
});

test.each(cases)('$name $data is masked as its mask says', ({ name, data }) => {
  const type = findTokenType(name);
  const evaluated = type?.mask === undefined ? undefined : evaluateShape(type.mask, { data }, environment);
  expect(JSON.stringify(type?.maskedOf(data))).toBe(JSON.stringify(evaluated));
});

test.each(cases)('$name $data has the fingerprint that its expression says', ({ name, data }) => {
  const type = findTokenType(name);
  const template = scanExpression(type?.fingerprint_expression ?? '', 'fingerprint');
  const evaluated = evaluateCreateTime(template, { data }, environment);
  const fingerprinted = type?.fingerprintOf(data) ?? '';
  // Objects are written with their keys in a fixed order, and null as JSON has it: the value is what must be the same.
  if (typeof data === 'object' && name === 'token') expect(JSON.parse(fingerprinted)).toEqual(data);
  else expect(fingerprinted).toBe(evaluated);
});
