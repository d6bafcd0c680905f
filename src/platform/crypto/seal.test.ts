// Sealed values open only unchanged, in their place, under their key.
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { randomBytesFromKernel } from './random.ts';
import { type Binding, createSealingKey, keyIdOf, open, seal, SealBroken } from './seal.ts';
import { xaesDecrypt } from './xaes.ts';

const key = createSealingKey('5f0c954e-38f5-4c1b-9d64-7a3a7e0f6a01', Buffer.alloc(32, 1));
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
  const sealed = seal(key, binding, CANARY, (size) => Buffer.alloc(size, 0xee));
  expect(sealed.length).toBe(1 + 16 + 24 + CANARY.length + 16);
  expect(sealed[0]).toBe(2);
  expect(sealed.subarray(1, 17).toString('hex')).toBe(key.id.replaceAll('-', ''));
  expect(sealed.subarray(17, 41)).toEqual(Buffer.alloc(24, 0xee));
  expect(keyIdOf(sealed)).toBe(key.id);
});

test('a value opens only with the columns of its row, of which absent ones are left out', () => {
  const row = { container: '/a/', expires_at: new Date(0) };
  const bound = seal(key, { ...binding, row }, CANARY, randomBytesFromKernel);
  const same = [row, { ...row, later: null }, { ...row, later: undefined }];
  for (const each of same) expect(open(key, { ...binding, row: each }, bound).toString()).toBe(CANARY);
  const others = [
    undefined,
    {},
    { container: '/a/' },
    { ...row, container: '/b/' },
    { ...row, later: '' },
    { ...row, expires_at: new Date(1) },
    { container: '/a/', expired_at: row.expires_at },
    { container: row.expires_at, expires_at: '/a/' },
  ];
  for (const other of others) {
    const place = { ...binding, ...(other && { row: other }) };
    expect(() => open(key, place, bound), JSON.stringify(other)).toThrow(SealBroken);
  }
});

test('a column of the row does not pass for a part of the place', () => {
  const { type, ...untyped } = binding;
  const sealed = seal(key, binding, CANARY, randomBytesFromKernel);
  expect(() => open(key, { ...untyped, row: { type } }, sealed)).toThrow(SealBroken);
});

test('bytes from a plain Uint8Array open like those from a Buffer', () => {
  const sealed = new Uint8Array(sealCanary());
  expect(keyIdOf(sealed)).toBe(key.id);
  expect(open(key, binding, sealed).toString()).toBe(CANARY);
});

test('a sealed value shows nothing of what it holds', () => {
  for (const encoding of ['latin1', 'utf8'] as const)
    expect(sealCanary().toString(encoding)).not.toContain(CANARY.slice(0, 8));
});

test('two seals of one value differ in nonce and in every stretch of ciphertext', () => {
  const one = sealCanary();
  const other = sealCanary();
  expect(one.subarray(17, 29)).not.toEqual(other.subarray(17, 29));
  expect(one.subarray(29, 41)).not.toEqual(other.subarray(29, 41));
  expect(one.subarray(41, 49)).not.toEqual(other.subarray(41, 49));
});

test('every nonce is 24 bytes that were drawn for its value', () => {
  const drawn: number[] = [];
  const nonces = new Set<string>();
  for (let count = 0; count < 1000; count += 1) {
    const sealed = seal(key, binding, '', (size) => (drawn.push(size), randomBytesFromKernel(size)));
    nonces.add(sealed.toString('hex', 17, 41));
  }
  expect(nonces.size).toBe(1000);
  expect(new Set(drawn)).toEqual(new Set([24]));
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

test('the associated data is names and values, also after earlier seals', () => {
  const row = { container: '/a/', expires_at: new Date(1_000), fingerprint: null };
  for (const place of [binding, { ...binding, type: undefined, row }, { ...binding, tenant_id: undefined }, binding]) {
    const parts = [
      'strongroom/2',
      'environment',
      'test',
      'record',
      'token',
      'id',
      place.id,
      'field',
      'sealed',
      'key',
      key.id,
    ];
    if (place.tenant_id) parts.push('tenant_id', place.tenant_id);
    if (place.type) parts.push('type', place.type);
    if ('row' in place) parts.push('row.container', '/a/', 'row.expires_at', '1000');
    const aad = parts.map((part) => `${part.length}:${part}`).join('');
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
  const sameId = createSealingKey(key.id, Buffer.alloc(32, 2));
  expect(() => open(sameId, binding, sealCanary())).toThrow(SealBroken);
  const sameKey = createSealingKey('5f0c954e-38f5-4c1b-9d64-7a3a7e0f6a02', Buffer.alloc(32, 1));
  expect(() => open(sameKey, binding, sealCanary())).toThrow(SealBroken);
});

test('a refusal is the same for every cause, and contains neither value nor place', () => {
  const messages = new Set<string>();
  const flipped = sealCanary();
  flipped[60] = (flipped[60] as number) ^ 1;
  for (const bad of [Buffer.alloc(0), Buffer.alloc(100), flipped])
    try {
      open(key, binding, bad);
    } catch (error) {
      messages.add((error as Error).message);
      expect(inspect(error, { showHidden: true })).not.toContain(CANARY);
      expect(inspect(error)).not.toContain(binding.id);
    }
  expect([...messages]).toEqual(['a sealed value does not open']);
});

test.each(['', 'abc', key.id.toUpperCase(), key.id.replaceAll('-', '')])(
  'the id %j is refused as that of a sealing key',
  (id) => {
    expect(() => createSealingKey(id, Buffer.alloc(32, 1))).toThrow(RangeError);
  },
);
