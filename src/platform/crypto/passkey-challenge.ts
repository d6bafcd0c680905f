// Challenges of passkeys: bound to a session and a purpose by a MAC, and valid for five minutes. Nothing is stored until one is used.
import { challengeDigest, type DigestKey, equalDigests } from './digest.ts';
import type { RandomBytes } from './random.ts';

/** Time to find a key and touch it. The WebAuthn standard recommends 5 to 10 minutes. */
export const CHALLENGE_MS = 5 * 60_000;

/** The WebAuthn standard asks for 16 random bytes at least. */
const RANDOM_BYTES = 16;
const TIME_BYTES = 8;
const CONTENT_BYTES = RANDOM_BYTES + TIME_BYTES;
const MAC_BYTES = 32;

/** What a challenge is for: to create a passkey, which took the password, or to use one. */
export type ChallengeOf = { session: Uint8Array; purpose: 'create' | 'use' };

type Making = { pepper: DigestKey; now: () => Date };

/** Random bytes, the time when it expires, and the MAC of both. A writer of the database cannot make one, nor make an old one new. */
export const newChallenge = (
  { pepper, now, randomBytes }: Making & { randomBytes: RandomBytes },
  { session, purpose }: ChallengeOf,
): Buffer => {
  const time = Buffer.alloc(TIME_BYTES);
  time.writeBigUInt64BE(BigInt(now().getTime() + CHALLENGE_MS));
  const content = Buffer.concat([randomBytes(RANDOM_BYTES), time]);
  return Buffer.concat([content, challengeDigest(pepper, session, purpose, content)]);
};

/** @returns when it expires; undefined where it has expired, or is not one that the server made for this session and purpose. */
export const expiryOfChallenge = (
  { pepper, now }: Making,
  { session, purpose }: ChallengeOf,
  challenge: Uint8Array,
): Date | undefined => {
  if (challenge.length !== CONTENT_BYTES + MAC_BYTES) return undefined;
  const content = Buffer.from(challenge.subarray(0, CONTENT_BYTES));
  if (!equalDigests(challenge.subarray(CONTENT_BYTES), challengeDigest(pepper, session, purpose, content)))
    return undefined;
  const expiresMs = Number(content.readBigUInt64BE(RANDOM_BYTES));
  return expiresMs > now().getTime() ? new Date(expiresMs) : undefined;
};
