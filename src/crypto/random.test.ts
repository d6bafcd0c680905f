// Holds the pool to handing out every byte once, and to leaving what it has handed out alone.
import { expect, test } from 'vitest';
import { randomBytesPooled, randomIntBelow } from './random.ts';

test('draws have the size asked for, beyond the pool as within it', () => {
  for (const size of [0, 1, 24, 32, 4095, 4096, 4097, 10_000]) expect(randomBytesPooled(size).length).toBe(size);
});

test('no draw repeats, across many refills', () => {
  const seen = new Set<string>();
  for (let draw = 0; draw < 20_000; draw += 1) seen.add(randomBytesPooled(24).toString('hex'));
  expect(seen.size).toBe(20_000);
});

test('a draw is not changed by later ones, and changing it changes no other', () => {
  const first = randomBytesPooled(32);
  const copy = Buffer.from(first);
  const second = randomBytesPooled(32);
  const secondCopy = Buffer.from(second);
  for (let draw = 0; draw < 1_000; draw += 1) randomBytesPooled(24);
  expect(first).toEqual(copy);
  first.fill(0);
  expect(second).toEqual(secondCopy);
});

test('a number below a bound is even: draws that would favour the low ones are drawn again', () => {
  const drawn = [0xff_ff_ff_ff, 13];
  const randomBytes = (): Buffer => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(drawn.shift() as number);
    return bytes;
  };
  expect(randomIntBelow(10, randomBytes)).toBe(3);
  expect(drawn).toEqual([]);
});

test.each([0, -1, 1.5, 2 ** 32 + 1, Number.NaN])('a bound of %d is refused', (max) => {
  expect(() => randomIntBelow(max, randomBytesPooled)).toThrow(RangeError);
});

test.each([-1, -24, 1.5, Number.NaN])('a size of %d is refused, so that no byte is handed out again', (size) => {
  expect(() => randomBytesPooled(size)).toThrow(RangeError);
});
