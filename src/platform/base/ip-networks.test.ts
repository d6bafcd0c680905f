import { describe, expect, test } from 'vitest';
import { isInNetworks, networksSchema } from './ip-networks.ts';

describe('a list of networks', () => {
  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['192.0.2.7/24', '192.0.2.0/24'],
    ['192.0.2.7/32', '192.0.2.7'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['2001:DB8::1/32', '2001:db8::/32'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
  ])('%s is kept as %s', (given, kept) => {
    expect(networksSchema.parse([given])).toEqual([kept]);
  });

  test.each([
    '',
    '192.0.2',
    '192.0.2.256',
    '192.0.2.0/33',
    '192.0.2.0/',
    '1/2/3',
    'example.com',
    '0x7f.1',
    'fe80::1%eth0',
  ])('"%s" is refused', (given) => {
    expect(networksSchema.safeParse([given]).success).toBe(false);
  });

  test('absent and null mean every address; an empty list is refused', () => {
    expect([networksSchema.parse(undefined), networksSchema.parse(null)]).toEqual([[], []]);
    expect(networksSchema.safeParse([]).success).toBe(false);
  });
});

test.each([
  ['192.0.2.7', ['192.0.2.0/24'], true],
  ['::ffff:192.0.2.7', ['192.0.2.0/24'], true],
  ['192.0.3.7', ['192.0.2.0/24'], false],
  ['192.0.2.7', ['2001:db8::/32', '192.0.2.7'], true],
  ['2001:db8:1::1', ['2001:db8::/32'], true],
  ['2001:db9::1', ['2001:db8::/32'], false],
  ['192.0.2.7', ['::/0'], false],
  ['no address', ['0.0.0.0/0'], false],
])('%s in %j: %s', (ip, networks, isIn) => {
  expect(isInNetworks(ip, networks)).toBe(isIn);
});
