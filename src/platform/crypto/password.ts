// Passwords as they are kept: argon2id over a keyed digest, so that a table of them says nothing without the pepper. Costs
// the same for an account that is not there, and no more at once than this process can bear. Knows no account.
import argon2 from 'argon2';
import { unavailable } from '../errors.ts';
import { type DigestKey, passwordDigest } from './digest.ts';

/** NIST SP 800-63B asks for 8 at least, and for 15 where nothing else is asked: between them, with ten attempts in 30 minutes. */
export const PASSWORD_LENGTH_MIN = 12;
/** Far above what people choose; what hashing is given stays the same length whatever this is. */
export const PASSWORD_LENGTH_MAX = 128;

/** OWASP Password Storage Cheat Sheet, argon2id: 19 MiB, two passes, one lane. */
const COST = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;
const SALT_BYTES = 16;
const HASH_BYTES = 32;

/** Each takes a thread of the pool and 19 MiB for some ten milliseconds: two leave the others of the pool to everybody else. */
const RUNNING_MAX = 2;
/** Behind them a second or two of waiting, and no more. */
const WAITING_MAX = 64;

const zeros = (bytes: number): string => Buffer.alloc(bytes).toString('base64').replace(/=+$/, '');

/** What no password hashes to but by chance, at the cost of every other. */
const NOBODYS = `$argon2id$v=19$m=${COST.memoryCost},t=${COST.timeCost},p=${COST.parallelism}$${zeros(SALT_BYTES)}$${zeros(HASH_BYTES)}`;

// The pool of threads is the process's own, and so is its queue.
let running = 0;
const waiting: (() => void)[] = [];

/** @throws unavailable where too many wait already. */
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

/** What is longer is no password of anybody's, and no work is put into it: its normal form may be eighteen times as long. */
export const TYPED_LENGTH_MAX = 4_096;

/** In characters, as people count them. One character may be written in several ways, which are one password (NIST SP 800-63B). */
export const isAllowedLength = (password: string): boolean => {
  if (password.length > TYPED_LENGTH_MAX) return false;
  const { length } = Array.from(password.normalize('NFKC'));
  return length >= PASSWORD_LENGTH_MIN && length <= PASSWORD_LENGTH_MAX;
};

const digestOf = (pepper: DigestKey, password: string): Buffer => passwordDigest(pepper, password.normalize('NFKC'));

/** The stored form of a password. @throws unavailable. */
export const hashPassword = (pepper: DigestKey, password: string): Promise<string> =>
  inTurn(() => argon2.hash(digestOf(pepper, password), { ...COST, hashLength: HASH_BYTES, type: argon2.argon2id }));

/**
 * Whether a password is the one that was hashed.
 * @param hash undefined where there is no such account: the same work, and false.
 * @throws unavailable.
 */
export const verifyPassword = (pepper: DigestKey, password: string, hash: string | undefined): Promise<boolean> =>
  inTurn(async () => {
    const isRight = await argon2.verify(hash ?? NOBODYS, digestOf(pepper, password));
    return isRight && hash !== undefined;
  });
