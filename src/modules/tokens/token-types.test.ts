// Compares the direct functions of token types with the expressions that they replace: masks and fingerprints.
import { tokenEntities } from '../../platform/db/audit-record.ts';
import { expect, test } from 'vitest';
import { evaluateCreateTime, evaluateShape, scanExpression } from './expressions/expressions.ts';
import type { Json } from '../../platform/json/json.ts';
import { runAtOnce } from '../../platform/json/slices.ts';
import { findTokenType, tokenTypeNames } from './token-types.ts';

const environment = { hmac: () => '' };

const fingerprintOf = (name: string, data: Json): string => {
  const type = findTokenType(name);
  if (!type) throw new RangeError(`there is no type ${name}`);
  return runAtOnce(type.fingerprintOf(data));
};

/** Valid data of each type, short and long, with and without optional attributes. */
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

test.each<[type: string, data: Json, mask: Json | undefined, fingerprint: string]>([
  ['token', { b: 1, a: [null] }, undefined, '{"a":[null],"b":1}'],
  [
    'card',
    { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 },
    { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 },
    '4242424242424242',
  ],
  ['card', { number: '4222222222222' }, { number: 'XXXXXXXXX2222' }, '4222222222222'],
  [
    'bank',
    { routing_number: '021000021', account_number: '12345' },
    { routing_number: '021000021', account_number: 'X2345' },
    '12345|021000021',
  ],
  [
    'bank',
    { routing_number: '021000021', account_number: '1234' },
    { routing_number: '021000021', account_number: 'XXXX' },
    '1234|021000021',
  ],
  ['card_number', '4242424242424242', 'XXXXXXXXXXXX4242', '4242424242424242'],
  ['us_bank_account_number', '1234', 'XXXX', '1234'],
  ['us_bank_routing_number', '021000021', 'XXXXX0021', '021000021'],
  ['social_security_number', '123-45-6789', 'XXX-XX-6789', '123456789'],
  ['employer_id_number', '12-3456789', 'XX-XXX6789', '123456789'],
])('%s %j shows %j and has the fingerprint of %s', (name, data, mask, fingerprinted) => {
  expect(findTokenType(name)?.maskedOf(data)).toEqual(mask);
  expect(fingerprintOf(name, data)).toBe(fingerprinted);
});

test('a type whose fingerprint expression has no value is refused, not made equal to all', () => {
  expect(() => fingerprintOf('card', {})).toThrow('no value');
});

test.each(cases)('$name $data is masked as its mask says', ({ name, data }) => {
  const type = findTokenType(name);
  const evaluated = type?.mask === undefined ? undefined : evaluateShape(type.mask, { data }, environment);
  expect(JSON.stringify(type?.maskedOf(data))).toBe(JSON.stringify(evaluated));
});

test.each(cases)('$name $data has the fingerprint of its expression', ({ name, data }) => {
  const type = findTokenType(name);
  const template = scanExpression(type?.fingerprint_expression ?? '', 'fingerprint');
  const evaluated = evaluateCreateTime(template, { data }, environment);
  const fingerprinted = fingerprintOf(name, data);
  // The text may differ in the order of keys and in null. Only the JSON value must be equal.
  if (typeof data === 'object' && name === 'token') expect(JSON.parse(fingerprinted)).toEqual(data);
  else expect(fingerprinted).toBe(evaluated);
});

test('every token type is an entity type of the audit log', () => {
  expect([...tokenEntities].toSorted()).toEqual([...tokenTypeNames].toSorted());
});
