// Digests match known values, and differ by key, use and type.
import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import {
  apiKeyDigest,
  base58,
  crc32Base62,
  equalDigests,
  fingerprint,
  prepareDigestKey,
  randomBase62,
  searchDigest,
} from './digest.ts';
import { randomBytesFromKernel } from './random.ts';

const key = prepareDigestKey('5f0c954e-38f5-4c1b-9d64-7a3a7e0f6a01', Buffer.alloc(32, 1));
const otherKey = prepareDigestKey('5f0c954e-38f5-4c1b-9d64-7a3a7e0f6a02', Buffer.alloc(32, 2));

// The first three: draft-msporny-base58-03, section 5.
test.each([
  [Buffer.from('Hello World!').toString('hex'), '2NEpo7TZRRrLZSi2U'],
  [
    Buffer.from('The quick brown fox jumps over the lazy dog.').toString('hex'),
    'USm3fpXnKG5EUBx2ndxBDMPVciP5hGey2Jh4NDv6gmeo1LkMeiKrLJUUBk6Z',
  ],
  ['0000287fb4cd', '11233QC4'],
  ['', ''],
  ['00', '1'],
  ['000000', '111'],
  ['39', 'z'],
  ['3a', '21'],
])('base58 of %s', (hex, text) => {
  expect(base58(Buffer.from(hex, 'hex'))).toBe(text);
});

test('base58 agrees with plain long division, for every length that is used', () => {
  const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
  for (let size = 1; size <= 40; size += 1)
    for (const bytes of [
      randomBytesFromKernel(size),
      Buffer.alloc(size, 0xff),
      Buffer.concat([Buffer.of(0, 1), Buffer.alloc(size)]),
    ]) {
      let rest = BigInt(`0x${bytes.toString('hex')}`);
      let text = '';
      for (; rest > 0n; rest /= 58n) text = alphabet[Number(rest % 58n)] + text;
      const zeros = bytes.findIndex((byte) => byte !== 0);
      expect(base58(bytes)).toBe('1'.repeat(zeros === -1 ? bytes.length : zeros) + text);
    }
});

test('a fingerprint is the base58 of the HMAC-SHA-256 over length-prefixed parts', () => {
  const mac = createHmac('sha256', Buffer.alloc(32, 1)).update('11:fingerprint4:card4:4242');
  expect(fingerprint(key, 'card', '4242')).toBe(base58(mac.digest()));
});

test('a fingerprint is the same for the same value, short, and of base58 only', () => {
  const print = fingerprint(key, 'card', '4242424242424242');
  expect(fingerprint(key, 'card', '4242424242424242')).toBe(print);
  expect(print).toMatch(/^[1-9A-HJ-NP-Za-km-z]{40,44}$/);
});

test('fingerprints of one value are unrelated between tenants and types, and to its digest', () => {
  const prints = [
    fingerprint(key, 'card', '4242'),
    fingerprint(otherKey, 'card', '4242'),
    fingerprint(key, 'bank', '4242'),
    fingerprint(key, 'card4', '242'),
    searchDigest(key, '4242'),
    searchDigest(otherKey, '4242'),
  ];
  expect(new Set(prints).size).toBe(prints.length);
});

test('a search finds whole values only, without regard to case', () => {
  expect(searchDigest(key, 'Anna MÜLLER')).toBe(searchDigest(key, 'anna müller'));
  expect(searchDigest(key, 'anna')).not.toBe(searchDigest(key, 'anna '));
  expect(searchDigest(key, 'anna')).toMatch(/^[\w-]{43}$/);
});

test("an API key's digest depends on pepper, public id and secret", () => {
  const pepper = prepareDigestKey('pepper', Buffer.alloc(32, 3));
  const digest = apiKeyDigest(pepper, 'public', 'secret');
  expect(digest.length).toBe(32);
  expect(apiKeyDigest(pepper, 'public', 'secret')).toEqual(digest);
  for (const other of [
    apiKeyDigest(prepareDigestKey('pepper', Buffer.alloc(32, 4)), 'public', 'secret'),
    apiKeyDigest(pepper, 'publi', 'csecret'),
    apiKeyDigest(pepper, 'public', 'secreT'),
  ])
    expect(equalDigests(digest, other)).toBe(false);
});

test('digests are equal by content; of other length they are not, and nothing throws', () => {
  expect(equalDigests(Buffer.from('same'), new Uint8Array(Buffer.from('same')))).toBe(true);
  expect(equalDigests(Buffer.from('same'), Buffer.from('sama'))).toBe(false);
  expect(equalDigests(Buffer.from('same'), Buffer.from('sam'))).toBe(false);
  expect(equalDigests(Buffer.alloc(0), Buffer.from('sam'))).toBe(false);
});

test('random base62 has the length asked for, in base62', () => {
  for (const length of [0, 1, 16, 33, 200]) expect(randomBase62(length, randomBytesFromKernel)).toHaveLength(length);
  expect(randomBase62(200, randomBytesFromKernel)).toMatch(/^[0-9A-Za-z]+$/);
});

test('random base62 favours no character: bytes beyond a multiple of 62 are drawn again', () => {
  const every = Buffer.from(Array.from({ length: 256 }, (_, index) => (index + 248) % 256));
  const text = randomBase62(248, () => every);
  const counts = new Map<string, number>();
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
  expect(counts.size).toBe(62);
  expect(new Set(counts.values())).toEqual(new Set([4]));
});

// 3421780262 is the check value of CRC-32 over '123456789'.
test.each([
  ['123456789', 3_421_780_262],
  ['', 0],
])('the checksum of %j is CRC-32 in six base62 characters', (text, crc) => {
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  let value = 0;
  const checksum = crc32Base62(text);
  for (const character of checksum) value = value * 62 + alphabet.indexOf(character);
  expect(checksum).toHaveLength(6);
  expect(value).toBe(crc);
});

test('values that UTF-8 cannot tell apart have digests of their own', () => {
  const values = ['\ud800', '\ud801', '\udc00', '\ufffd', 'utf-16'];
  expect(new Set(values.map((value) => fingerprint(key, 'token', value))).size).toBe(values.length);
  expect(new Set(values.map((value) => searchDigest(key, value))).size).toBe(values.length);
});
