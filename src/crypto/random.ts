// Randomness from a pool: one call to the system for many small draws. Bytes are handed out once and never again.
import { randomFillSync } from 'node:crypto';

export type RandomBytes = (size: number) => Buffer;

/** One refill per about 340 nonces; small enough that what waits in memory is nothing to speak of. */
const POOL_BYTES = 4096;

let pool = Buffer.alloc(0);
let used = 0;

/** @returns bytes of its own: a spent pool is left to its borrowers and replaced, never refilled. */
export const randomBytesPooled: RandomBytes = (size) => {
  // A size below nothing would step back over bytes that are already handed out.
  if (!Number.isSafeInteger(size) || size < 0) throw new RangeError('size must be a whole number from 0');
  if (size > POOL_BYTES) return randomFillSync(Buffer.alloc(size));
  if (used + size > pool.length) {
    pool = randomFillSync(Buffer.allocUnsafeSlow(POOL_BYTES));
    used = 0;
  }
  used += size;
  return pool.subarray(used - size, used);
};

/** A whole number from 0 to below `max` (at most 2^32), each as likely as the others: draws outside a multiple of max are drawn again. */
export const randomIntBelow = (max: number, randomBytes: RandomBytes): number => {
  if (!Number.isInteger(max) || max < 1 || max > 2 ** 32) throw new RangeError('max must be from 1 to 2^32');
  const limit = 2 ** 32 - (2 ** 32 % max);
  for (;;) {
    const drawn = randomBytes(4).readUInt32BE(0);
    if (drawn < limit) return drawn % max;
  }
};
