// The local key provider unwraps only keys that it wrapped, under the same root key and context.
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { combineProviders, RootKeyUnknown } from './key-provider.ts';
import { localKeyProvider } from './local-key-provider.ts';
import { randomBytesFromKernel } from './random.ts';
import { SealBroken } from './seal.ts';
import { Sensitive } from './sensitive.ts';

const rootKey = (byte: number) => new Sensitive<Uint8Array>(Buffer.alloc(32, byte));
const providerOf = (...bytes: number[]) =>
  combineProviders(bytes.map((byte) => localKeyProvider(rootKey(byte), randomBytesFromKernel)));
const provider = providerOf(1);
const key = Buffer.alloc(32, 0xaa);
const context = ['tenant key', 'test', 'tenant', 'data', 'id'];

test('a wrapped key unwraps, and shows nothing of itself', async () => {
  const wrapped = await provider.wrap(key, context);
  expect(wrapped.includes(key.subarray(0, 8))).toBe(false);
  expect(await provider.unwrap(wrapped, context)).toEqual(key);
  expect(await provider.unwrap(new Uint8Array(wrapped), context)).toEqual(key);
});

test('two wraps of one key differ', async () => {
  expect(await provider.wrap(key, context)).not.toEqual(await provider.wrap(key, context));
});

test('a wrapped key with any one bit flipped is refused', async () => {
  const wrapped = await provider.wrap(key, context);
  for (let bit = 0; bit < wrapped.length * 8; bit += 1) {
    const changed = Buffer.from(wrapped);
    changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7));
    // A changed root key id names a root key that is not there; everything else is a broken seal.
    const refusal = bit >= 8 && bit < 17 * 8 ? RootKeyUnknown : SealBroken;
    await expect(provider.unwrap(changed, context), `bit ${bit}`).rejects.toThrow(refusal);
  }
});

test('a wrapped key cut short is refused, down to nothing', async () => {
  const wrapped = await provider.wrap(key, context);
  for (let size = 0; size < wrapped.length; size += 1)
    await expect(provider.unwrap(wrapped.subarray(0, size), context)).rejects.toThrow(SealBroken);
});

test('a wrapped key serves only what it was wrapped for', async () => {
  const wrapped = await provider.wrap(key, context);
  for (let index = 0; index < context.length; index += 1)
    await expect(provider.unwrap(wrapped, context.with(index, 'other'))).rejects.toThrow(SealBroken);
  await expect(provider.unwrap(wrapped, context.slice(0, -1))).rejects.toThrow(SealBroken);
  await expect(provider.unwrap(wrapped, [...context, ''])).rejects.toThrow(SealBroken);
  await expect(provider.unwrap(wrapped, ['tenant', ' keytest', ...context.slice(2)])).rejects.toThrow(SealBroken);
});

test('the first root key wraps; the others still unwrap', async () => {
  const old = await provider.wrap(key, context);
  const rotated = providerOf(2, 1);
  expect(await rotated.unwrap(old, context)).toEqual(key);
  const fresh = await rotated.wrap(key, context);
  expect(await providerOf(2).unwrap(fresh, context)).toEqual(key);
  await expect(provider.unwrap(fresh, context)).rejects.toThrow(RootKeyUnknown);
});

test('a key is wrapped as another is, until that one is wrapped again', async () => {
  const old = await provider.wrap(key, context);
  const rotating = providerOf(2, 1);
  const like = await rotating.wrapAs(old, key, context);
  expect(await provider.unwrap(like, context)).toEqual(key);
  await expect(providerOf(2).wrapAs(old, key, context)).rejects.toThrow(RootKeyUnknown);
});

test('a missing root key is named by its id', async () => {
  const needed = providerOf(9);
  const wrapped = await needed.wrap(key, context);
  const refusal = await provider.unwrap(wrapped, context).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(RootKeyUnknown);
  expect(JSON.stringify(refusal)).toContain(needed.describe().root_key_id);
});

test('a provider describes itself by a name and an id, and shows no root key', () => {
  const description = provider.describe();
  expect(description.name).toBe('local');
  expect(description.root_key_id).toMatch(/^[0-9a-f]{32}$/);
  expect(description.root_key_id).not.toBe(providerOf(2).describe().root_key_id);
  expect(inspect([provider, rootKey(1)], { showHidden: true, depth: 9 })).not.toMatch(/(01 ){4}|1, 1, 1, 1/);
});

test('a provider without a root key cannot be made', () => {
  expect(() => combineProviders([])).toThrow();
});

test('a missing root key is reported with the ids of those at hand', async () => {
  const wrapped = await providerOf(9).wrap(key, context);
  await expect(provider.unwrap(wrapped, context)).rejects.toMatchObject({ atHand: [provider.describe().root_key_id] });
});

test.each([0, 16, 31, 33])('a root key of %i bytes is refused', (size) => {
  expect(() => localKeyProvider(new Sensitive<Uint8Array>(Buffer.alloc(size)), randomBytesFromKernel)).toThrow(
    '32 bytes',
  );
});
