// Random bytes from the kernel, never read ahead: if a snapshot of a virtual machine is resumed twice, the copies get
// different bytes.
import { randomFillSync } from 'node:crypto';
import { openSync, readSync } from 'node:fs';

export type RandomBytes = (size: number) => Buffer;

const DEVICE = '/dev/urandom';

/**
 * Node uses OpenSSL's generator, whose state is in this process: copies of the process would continue with the same state.
 * The kernel detects a resumed snapshot (VM Generation ID) and reseeds its generator. A small read takes 1.2 us of CPU;
 * OpenSSL takes 3.2 us.
 * @returns undefined on a system without the device.
 */
const openDevice = (): number | undefined => {
  try {
    return openSync(DEVICE, 'r');
  } catch {
    return undefined;
  }
};

const device = openDevice();

/** @returns a new buffer of bytes read for this call. */
export const randomBytesFromKernel: RandomBytes = (size) => {
  if (!Number.isSafeInteger(size) || size < 0) throw new RangeError('size must be a whole number from 0');
  const bytes = Buffer.allocUnsafe(size);
  if (device === undefined) return randomFillSync(bytes);
  // A signal can interrupt a read of more than 256 bytes.
  for (let filled = 0; filled < size;) filled += readSync(device, bytes, filled, size - filled, null);
  return bytes;
};

/**
 * Reads the random bytes of a group of values at once: a read costs as much as the encryption of a small value.
 * @param size of the group's values together. No bytes are kept for later groups.
 * @returns a source that hands each byte out once; what is wanted beyond the group is read on its own.
 */
export const readForGroup = (size: number, randomBytes: RandomBytes): RandomBytes => {
  const block = randomBytes(size);
  let at = 0;
  return (wanted) => {
    if (!Number.isSafeInteger(wanted) || wanted < 0 || at + wanted > size) return randomBytes(wanted);
    at += wanted;
    return block.subarray(at - wanted, at);
  };
};

/** A uniformly random integer from 0 to `max` - 1; `max` is at most 2^32. Draws beyond a multiple of `max` are repeated. */
export const randomIntBelow = (max: number, randomBytes: RandomBytes): number => {
  if (!Number.isInteger(max) || max < 1 || max > 2 ** 32) throw new RangeError('max must be from 1 to 2^32');
  const limit = 2 ** 32 - (2 ** 32 % max);
  for (;;) {
    const drawn = randomBytes(4).readUInt32BE(0);
    if (drawn < limit) return drawn % max;
  }
};
