// XAES-256-GCM matches the published vectors, and refuses changed input.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { prepareXaesKey, xaesDecrypt, xaesEncrypt } from './xaes.ts';

type Vectors = {
  cases: { name: string; key: string; nonce: string; plaintext: string; aad: string; sealed: string }[];
  accumulated: { rounds: number; digest: string };
};
const vectors = JSON.parse(
  readFileSync(new URL('../../../test/vectors/xaes.json', import.meta.url), 'utf8'),
) as Vectors;

test.each(vectors.cases)('the published vector where $name', ({ key, nonce, plaintext, aad, sealed }) => {
  const prepared = prepareXaesKey(Buffer.from(key, 'hex'));
  const encrypted = xaesEncrypt(prepared, Buffer.from(nonce), Buffer.from(plaintext), Buffer.from(aad));
  expect(encrypted.toString('hex')).toBe(sealed);
  expect(xaesDecrypt(prepared, Buffer.from(nonce), encrypted, Buffer.from(aad)).toString()).toBe(plaintext);
});

test('the published digest over ten thousand random inputs', () => {
  const { rounds, digest } = vectors.accumulated;
  // Node has no SHAKE that is read in steps, so the whole stream is drawn at once; a round reads at most 568 bytes of it.
  const stream = createHash('shake128', { outputLength: rounds * (32 + 24 + 2 * 256) }).digest();
  const sum = createHash('shake128', { outputLength: 32 });
  let at = 0;
  const read = (size: number): Buffer => stream.subarray(at, (at += size));
  const readPrefixed = (): Buffer => read(read(1)[0] as number);
  for (let round = 0; round < rounds; round += 1) {
    const key = prepareXaesKey(read(32));
    const nonce = read(24);
    const plaintext = readPrefixed();
    const aad = readPrefixed();
    const sealed = xaesEncrypt(key, nonce, plaintext, aad);
    if (!xaesDecrypt(key, nonce, sealed, aad).equals(plaintext)) throw new Error(`round ${round} does not open`);
    sum.update(sealed);
  }
  expect(sum.digest('hex')).toBe(digest);
});

const key = prepareXaesKey(Buffer.alloc(32, 7));
const nonce = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWX');
const aad = Buffer.from('where it belongs');

test('a prepared key gives the same answer at every use', () => {
  const once = xaesEncrypt(key, nonce, Buffer.from('value'), aad);
  xaesEncrypt(key, Buffer.alloc(24, 9), Buffer.from('another'), aad);
  expect(xaesEncrypt(key, nonce, Buffer.from('value'), aad)).toEqual(once);
});

test('an empty value is sealed like any other', () => {
  const sealed = xaesEncrypt(key, nonce, Buffer.alloc(0), aad);
  expect(sealed.length).toBe(16);
  expect(xaesDecrypt(key, nonce, sealed, aad).length).toBe(0);
});

test.each([0, 16, 31, 33, 64])('a key of %i bytes is refused', (size) => {
  expect(() => prepareXaesKey(Buffer.alloc(size))).toThrow('32 bytes');
});

test.each([0, 12, 23, 25])('a nonce of %i bytes is refused', (size) => {
  const short = Buffer.alloc(size);
  expect(() => xaesEncrypt(key, short, Buffer.from('value'), aad)).toThrow('24 bytes');
  expect(() => xaesDecrypt(key, short, xaesEncrypt(key, nonce, Buffer.from('value'), aad), aad)).toThrow('24 bytes');
});

test('a truncated ciphertext of any length is refused', () => {
  const sealed = xaesEncrypt(key, nonce, Buffer.from('value'), aad);
  for (let size = 0; size < sealed.length; size += 1)
    expect(() => xaesDecrypt(key, nonce, sealed.subarray(0, size), aad)).toThrow();
});

test('another key, nonce or associated data does not open', () => {
  const sealed = xaesEncrypt(key, nonce, Buffer.from('value'), aad);
  expect(() => xaesDecrypt(prepareXaesKey(Buffer.alloc(32, 8)), nonce, sealed, aad)).toThrow();
  expect(() => xaesDecrypt(key, nonce, sealed, Buffer.from('where it belong'))).toThrow();
  for (let index = 0; index < nonce.length; index += 1) {
    const other = Buffer.from(nonce);
    other[index] = (other[index] as number) ^ 1;
    expect(() => xaesDecrypt(key, other, sealed, aad)).toThrow();
  }
});
