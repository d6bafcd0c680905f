// Hashes and verifies passwords with argon2id over a keyed digest, so that hashes are useless without the pepper.
// Takes the same time for an unknown account, and limits concurrent hashing.
import argon2 from 'argon2';
import { unavailable } from '../base/errors.ts';
import { type DigestKey, passwordDigest } from './digest.ts';

/** NIST SP 800-63B: at least 8, or 15 where the password is the only factor. 12 with a limit of ten attempts in 30 minutes. */
export const PASSWORD_LENGTH_MIN = 12;
/** Far more than people choose. The input of the hash is a digest, so the length does not change its cost. */
export const PASSWORD_LENGTH_MAX = 128;

/** Cost of argon2id: KiB of memory, passes over it, and lanes. */
export type PasswordCost = { memoryCost: number; timeCost: number; parallelism: number };

/** OWASP Password Storage Cheat Sheet, argon2id: 19 MiB, two passes, one lane. */
const COST: PasswordCost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;

/** A hash takes a thread of the pool and 19 MiB for some ten milliseconds. Two leave the other threads to other work. */
const RUNNING_MAX = 2;
/** Requests that may wait: a second or two at most. */
const WAITING_MAX = 64;

const zeros = (bytes: number): string => Buffer.alloc(bytes).toString('base64').replace(/=+$/, '');

/** A hash that no password matches, verified for unknown accounts so that they take the same time. */
const unmatchableHash = ({ memoryCost, timeCost, parallelism }: PasswordCost): string =>
  `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${zeros(SALT_BYTES)}$${zeros(HASH_BYTES)}`;

// One queue for the process, as there is one thread pool.
let running = 0;
const waiting: (() => void)[] = [];

/** @throws unavailable if the queue is full. */
const inTurn = async <T>(work: () => Promise<T>): Promise<T> => {
  if (running < RUNNING_MAX) running += 1;
  else if (waiting.length >= WAITING_MAX) throw unavailable();
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    return await work();
  } finally {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }
};

/** Longer texts are refused before any work: their normal form may be eighteen times as long. */
export const TYPED_LENGTH_MAX = 4_096;

/** Counts characters after Unicode normalisation, since one character has several encodings (NIST SP 800-63B). */
export const isAllowedLength = (password: string): boolean => {
  if (password.length > TYPED_LENGTH_MAX) return false;
  const { length } = Array.from(password.normalize('NFKC'));
  return length >= PASSWORD_LENGTH_MIN && length <= PASSWORD_LENGTH_MAX;
};

const digestOf = (pepper: DigestKey, password: string): Buffer => passwordDigest(pepper, password.normalize('NFKC'));

export type Passwords = {
  /** Hashes a password for storage. @throws unavailable. */
  hash(password: string): Promise<string>;
  /**
   * Whether a password matches a hash, which has its own cost in it.
   * @param hash undefined for an unknown account: takes the same time and returns false.
   * @throws unavailable.
   */
  verify(password: string, hash: string | undefined): Promise<boolean>;
};

export const createPasswords = (pepper: DigestKey, cost: PasswordCost = COST): Passwords => {
  const unmatchable = unmatchableHash(cost);
  return {
    hash: (password) =>
      inTurn(() => argon2.hash(digestOf(pepper, password), { ...cost, hashLength: HASH_BYTES, type: argon2.argon2id })),
    verify: (password, hash) =>
      inTurn(async () => {
        const isRight = await argon2.verify(hash ?? unmatchable, digestOf(pepper, password));
        return isRight && hash !== undefined;
      }),
  };
};
