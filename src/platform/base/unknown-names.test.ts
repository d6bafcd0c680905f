import { expect, test } from 'vitest';
import { editDistance, nearestName, unknownName } from './unknown-names.ts';

test.each([
  ['', '', 0],
  ['', 'abc', 3],
  ['container', 'containers', 1],
  ['conatiners', 'containers', 1],
  ['metdaata', 'metadata', 1],
  ['kitten', 'sitting', 3],
])('%j and %j differ by %i', (one, other, distance) => {
  expect(editDistance(one, other)).toBe(distance);
  expect(editDistance(other, one)).toBe(distance);
});

const known = ['id', 'type', 'data', 'mask', 'containers', 'metadata', 'expires_at', 'search_indexes'];

test.each([
  ['container', 'containers'],
  ['expiresAt', 'expires_at'],
  ['meta_data', 'metadata'],
  ['seach_indices', 'search_indexes'],
  ['tpye', 'type'],
])('%s suggests %s', (name, nearest) => {
  expect(nearestName(name, known)).toBe(nearest);
  expect(unknownName(name, known)).toContain(`did you mean \`${nearest}\`?`);
});

test.each(['colour', 'x', 'a'.repeat(100_000), ''])(
  'a name that is not near a known one suggests none, and lists the known ones if they are few',
  (name) => {
    expect(nearestName(name, known.slice(3))).toBeUndefined();
    expect(unknownName(name, known.slice(3))).toBe(
      'is not known here; known are `mask`, `containers`, `metadata`, `expires_at`, `search_indexes`',
    );
    expect(
      unknownName(
        name,
        Array.from({ length: 10 }, (_, at) => `long-known-name-${at}`),
      ),
    ).toBe('is not known here');
  },
);

test.each([
  ['exp_month', 'expiration_month'],
  ['expMonth', 'expiration_month'],
  ['exp_year', 'expiration_year'],
  ['expiry_month', 'expiration_month'],
  ['month', 'expiration_month'],
  ['cc_number', 'number'],
  ['card_number', 'number'],
  ['name', 'cardholder_name'],
  ['cvv', 'cvc'],
])('%s of a card suggests %s', (name, nearest) => {
  const card = ['number', 'expiration_month', 'expiration_year', 'cvc', 'cardholder_name'];
  expect(nearestName(name, card)).toBe(nearest);
});
