// Random bytes come from the kernel, are read for each call, and are uniform.
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { randomBytesFromKernel, randomIntBelow, readForGroup } from './random.ts';

/** Prints how many bytes the process read for each of some draws of twelve, beside what the question itself reads. */
const readingsProgram = `
import { readFileSync } from 'node:fs';
import { randomBytesFromKernel } from './src/platform/crypto/random.ts';
const read = () => Number(/rchar: (\\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))[1]);
const readings = [];
for (let draw = 0; draw < 20; draw += 1) {
  const [one, other] = [read(), read()];
  randomBytesFromKernel(12);
  readings.push(read() - other - (other - one));
}
console.log(JSON.stringify(readings));
`;

test.runIf(process.platform === 'linux')('each draw is read from the kernel when it is made, and none ahead', () => {
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', readingsProgram], { encoding: 'utf8' });
  const readings = JSON.parse(output) as number[];
  expect(readings).toHaveLength(20);
  // The counter's own text may grow by a digit.
  for (const bytes of readings) expect(Math.abs(bytes - 12)).toBeLessThanOrEqual(4);
});

test('draws have the size asked for', () => {
  for (const size of [0, 1, 24, 32, 4095, 4096, 4097, 10_000]) expect(randomBytesFromKernel(size).length).toBe(size);
});

test('no draw repeats', () => {
  const seen = new Set<string>();
  for (let draw = 0; draw < 20_000; draw += 1) seen.add(randomBytesFromKernel(24).toString('hex'));
  expect(seen.size).toBe(20_000);
});

test('a draw is not changed by later ones, and changing it changes no other', () => {
  const first = randomBytesFromKernel(32);
  const copy = Buffer.from(first);
  const second = randomBytesFromKernel(32);
  const secondCopy = Buffer.from(second);
  for (let draw = 0; draw < 1_000; draw += 1) randomBytesFromKernel(24);
  expect(first).toEqual(copy);
  first.fill(0);
  expect(second).toEqual(secondCopy);
});

test('a group hands each byte out once, and reads more than it has on its own', () => {
  const sizes: number[] = [];
  const source = readForGroup(60, (size) => {
    sizes.push(size);
    return Buffer.from(Array.from({ length: size }, (_, index) => index));
  });
  expect([...source(24)]).toEqual(Array.from({ length: 24 }, (_, index) => index));
  expect([...source(24)]).toEqual(Array.from({ length: 24 }, (_, index) => 24 + index));
  expect(source(24)).toHaveLength(24);
  expect(sizes).toEqual([60, 24]);
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
  expect(() => randomIntBelow(max, randomBytesFromKernel)).toThrow(RangeError);
});

test.each([-1, -24, 1.5, Number.NaN])('a size of %d is refused, so that no byte is handed out again', (size) => {
  expect(() => randomBytesFromKernel(size)).toThrow(RangeError);
});
