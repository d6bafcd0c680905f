// Holds sealed values to their promise: they open under their own key, in their own place, unchanged, or not at all.
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { randomBytesFromKernel } from './random.ts';
import { type Binding, keyIdOf, open, seal, SealBroken, type SealingKey } from './seal.ts';
import { prepareXaesKey, xaesDecrypt } from './xaes.ts';

const key: SealingKey = { id: '5f0c954e-38f5-4c1b-9d64-7a3a7e0f6a01', key: prepareXaesKey(Buffer.alloc(32, 1)) };
const CANARY = 'canary-4111111111111111';
const binding: Binding = {
  environment: 'test',
  tenant_id: '0b7d8f0c-6f0e-4a55-8d1c-3f5f1f0e7c11',
  record: 'token',
  id: 'a9b1d2c3-0000-4000-8000-000000000001',
  type: 'card',
  field: 'sealed',
};
const sealCanary = (): Buffer => seal(key, binding, CANARY, randomBytesFromKernel);

test('what was sealed opens, text and bytes, empty and long', () => {
  for (const value of ['', 'ä€😀', CANARY, 'x'.repeat(100_000)])
    expect(open(key, binding, seal(key, binding, value, randomBytesFromKernel)).toString()).toBe(value);
  const bytes = randomBytesFromKernel(1_000);
  expect(open(key, binding, seal(key, binding, bytes, randomBytesFromKernel))).toEqual(bytes);
});

test('a sealed value is version, key id, nonce, ciphertext and tag', () => {
  const fresh = { id: '5f0c954e-38f5-4c1b-9d64-7a3a7e0f6a02', key: key.key };
  const sealed = seal(fresh, binding, CANARY, (size) => Buffer.alloc(size, 0xee));
  expect(sealed.length).toBe(1 + 16 + 24 + CANARY.length + 16);
  expect(sealed[0]).toBe(1);
  expect(sealed.subarray(1, 17).toString('hex')).toBe(fresh.id.replaceAll('-', ''));
  expect(sealed.subarray(17, 41)).toEqual(Buffer.alloc(24, 0xee));
  expect(keyIdOf(sealed)).toBe(fresh.id);
});

test('bytes from a plain Uint8Array open like those from a Buffer', () => {
  const sealed = new Uint8Array(sealCanary());
  expect(keyIdOf(sealed)).toBe(key.id);
  expect(open(key, binding, sealed).toString()).toBe(CANARY);
});

test('a sealed value shows nothing of what it holds', () => {
  for (const encoding of ['latin1', 'utf8'] as const) expect(sealCanary().toString(encoding)).not.toContain('4111');
});

test('two seals of one value differ in nonce and in every stretch of ciphertext', () => {
  const one = sealCanary();
  const other = sealCanary();
  expect(one.subarray(29, 41)).not.toEqual(other.subarray(29, 41));
  expect(one.subarray(41, 49)).not.toEqual(other.subarray(41, 49));
});

const firstHalf = (sealed: Buffer): string => sealed.subarray(17, 29).toString('hex');

test('values of one key share the first half of their nonces, 65,536 of them, and each has a second half of its own', () => {
  const id = '5f0c954e-38f5-4c1b-9d64-7a3a7e0f6a03';
  const ofSeries: SealingKey = { id, key: prepareXaesKey(Buffer.alloc(32, 3)) };
  const sealNext = (): Buffer => seal(ofSeries, binding, '', randomBytesFromKernel);
  const first = sealNext();
  const secondHalves = new Set([first.toString('hex', 29, 41)]);
  for (let count = 1; count < 65_536; count += 1) {
    const next = sealNext();
    if (firstHalf(next) !== firstHalf(first)) throw new Error(`value ${count} began another series`);
    secondHalves.add(next.toString('hex', 29, 41));
  }
  expect(secondHalves.size).toBe(65_536);
  expect(firstHalf(sealNext())).not.toBe(firstHalf(first));
});

test('a key that is read again goes on with its series; another key, and another process, has its own', async () => {
  const again: SealingKey = { id: key.id, key: prepareXaesKey(Buffer.alloc(32, 1)) };
  expect(firstHalf(seal(again, binding, CANARY, randomBytesFromKernel))).toBe(firstHalf(sealCanary()));
  const other: SealingKey = { id: '5f0c954e-38f5-4c1b-9d64-7a3a7e0f6a04', key: prepareXaesKey(Buffer.alloc(32, 4)) };
  expect(firstHalf(seal(other, binding, CANARY, randomBytesFromKernel))).not.toBe(firstHalf(sealCanary()));

  // As another process has it: loaded once more, for Node takes another query for another module.
  const anotherProcess = './seal.ts?another-process';
  const elsewhere = (await import(anotherProcess)) as typeof import('./seal.ts');
  const sealed = elsewhere.seal(key, binding, CANARY, randomBytesFromKernel);
  expect(firstHalf(sealed)).not.toBe(firstHalf(sealCanary()));
  // What is remembered is no part of what opens a value.
  expect(open(again, binding, sealed).toString()).toBe(CANARY);
});

test('a value with any one bit flipped is refused', () => {
  const sealed = sealCanary();
  for (let bit = 0; bit < sealed.length * 8; bit += 1) {
    const changed = Buffer.from(sealed);
    changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7));
    expect(() => open(key, binding, changed), `bit ${bit}`).toThrow(SealBroken);
  }
});

test('a value cut short or made longer is refused', () => {
  const sealed = sealCanary();
  for (let size = 0; size < sealed.length; size += 1)
    expect(() => open(key, binding, sealed.subarray(0, size)), `${size} bytes`).toThrow(SealBroken);
  expect(() => open(key, binding, Buffer.concat([sealed, Buffer.of(0)]))).toThrow(SealBroken);
  expect(() => keyIdOf(sealed.subarray(0, 40))).toThrow(SealBroken);
});

test.each<[string, Partial<Binding>]>([
  ['environment', { environment: 'live' }],
  ['tenant', { tenant_id: '0b7d8f0c-6f0e-4a55-8d1c-3f5f1f0e7c12' }],
  ['kind of record', { record: 'proxy' }],
  ['record', { id: 'a9b1d2c3-0000-4000-8000-000000000002' }],
  ['type', { type: 'bank' }],
  ['type, now without one', { type: undefined }],
  ['field', { field: 'cvc' }],
])('a value moved to another %s is refused', (_, moved) => {
  expect(() => open(key, { ...binding, ...moved }, sealCanary())).toThrow(SealBroken);
});

test('the associated data is the parts of its place, whatever was sealed before it', () => {
  const places = [binding, { ...binding, type: 'bank' }, { ...binding, type: undefined }, binding];
  for (const place of places) {
    const parts = [place.environment, place.tenant_id, 'token', place.id, place.type ?? '', 'sealed', key.id];
    const aad = ['strongroom/1', ...parts].map((part) => `${part.length}:${part}`).join('');
    const sealed = seal(key, place, CANARY, randomBytesFromKernel);
    const opened = xaesDecrypt(key.key, sealed.subarray(17, 41), sealed.subarray(41), Buffer.from(aad));
    expect(opened.toString()).toBe(CANARY);
  }
});

test('parts of a place do not run into each other', () => {
  const sealed = seal(key, { ...binding, record: 'ab', id: 'c' }, CANARY, randomBytesFromKernel);
  expect(() => open(key, { ...binding, record: 'a', id: 'bc' }, sealed)).toThrow(SealBroken);
  const untyped = seal(key, { ...binding, type: undefined, field: 'card' }, CANARY, randomBytesFromKernel);
  expect(() => open(key, { ...binding, type: 'card', field: '' }, untyped)).toThrow(SealBroken);
});

test('another key does not open, under its own id or under the right one', () => {
  const other = prepareXaesKey(Buffer.alloc(32, 2));
  expect(() => open({ id: key.id, key: other }, binding, sealCanary())).toThrow(SealBroken);
  expect(() => open({ id: '5f0c954e-38f5-4c1b-9d64-7a3a7e0f6a02', key: key.key }, binding, sealCanary())).toThrow(
    SealBroken,
  );
});

test('a refusal says the same whatever is wrong, and nothing of the value or its place', () => {
  const messages = new Set<string>();
  const flipped = sealCanary();
  flipped[60] = (flipped[60] as number) ^ 1;
  for (const bad of [Buffer.alloc(0), Buffer.alloc(100), flipped])
    try {
      open(key, binding, bad);
    } catch (error) {
      messages.add((error as Error).message);
      expect(inspect(error, { showHidden: true })).not.toContain(CANARY);
      expect(inspect(error)).not.toContain(binding.tenant_id);
    }
  expect([...messages]).toEqual(['a sealed value does not open']);
});

test.each(['', 'abc', key.id.toUpperCase(), key.id.replaceAll('-', '')])(
  'nothing is sealed under the key id %j',
  (id) => {
    expect(() => seal({ ...key, id }, binding, CANARY, randomBytesFromKernel)).toThrow(RangeError);
  },
);
