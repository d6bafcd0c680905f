// Keyed digests (HMAC-SHA-256) for look-ups and fingerprints, and their base58 and base62 encodings.
import { createHash, createHmac, createSecretKey, hash, type KeyObject, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { RandomBytes } from './random.ts';
import { encodeParts } from './seal.ts';

/** A KeyObject, because raw bytes cost each digest ten microseconds more (measured). */
export type DigestKey = { readonly id: string; readonly key: KeyObject };

/** @param key 32 bytes. */
export const prepareDigestKey = (id: string, key: Uint8Array): DigestKey => ({ id, key: createSecretKey(key) });

const hmac = (key: KeyObject, parts: readonly string[]): Buffer =>
  createHmac('sha256', key).update(encodeParts(parts)).digest();

const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

const base58Codes = Buffer.from(BASE58, 'latin1');
/** Four digits are computed at a time in floating-point numbers: 58^4 * 2^24 is below 2^53. */
const BASE58_CHUNK = 58 ** 4;

/** Base58 in Bitcoin's alphabet, leading zero bytes as '1'. */
export const base58 = (bytes: Uint8Array): string => {
  const words: number[] = [];
  // Three bytes at a time, the first time perhaps fewer. No `%`: above 32 bits it takes ten times longer.
  for (let at = -((3 - (bytes.length % 3)) % 3); at < bytes.length; at += 3) {
    let carry = ((bytes[at] ?? 0) << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] as number);
    for (let index = 0; index < words.length; index += 1) {
      const value = (words[index] as number) * 0x1000000 + carry;
      carry = Math.floor(value / BASE58_CHUNK);
      words[index] = value - carry * BASE58_CHUNK;
    }
    for (; carry > 0; carry = Math.floor(carry / BASE58_CHUNK)) words.push(carry % BASE58_CHUNK);
  }
  let zeros = 0;
  while (zeros < bytes.length && bytes[zeros] === 0) zeros += 1;
  const text = Buffer.allocUnsafe(zeros + words.length * 4);
  let start = text.length;
  for (const word of words) {
    let rest = word;
    for (let digit = 0; digit < 4; digit += 1) {
      text[--start] = base58Codes[rest % 58] as number;
      rest = Math.floor(rest / 58);
    }
  }
  // Skip leading zeros of the most significant chunk.
  while (start < text.length && text[start] === base58Codes[0]) start += 1;
  return text.fill(base58Codes[0] as number, start - zeros, start).toString('latin1', start - zeros);
};

/** The value as parts of a digest. UTF-8 maps all lone surrogates to one character, so text with them is encoded as UTF-16. */
const exactly = (value: string): string[] =>
  value.isWellFormed() ? [value] : ['utf-16', Buffer.from(value, 'utf16le').toString('base64')];

/** The fingerprint of a value of a type: the same within a tenant, unrelated between tenants. At most 44 characters. */
export const fingerprint = (key: DigestKey, type: string, value: string): string =>
  base58(hmac(key.key, ['fingerprint', type, ...exactly(value)]));

/** The digest of a search index. Case-insensitive, as searches are. */
export const searchDigest = (key: DigestKey, value: string): string =>
  hmac(key.key, ['search', ...exactly(value.toLowerCase())]).toString('base64url');

/** The digest of a metadata entry: its key is case-sensitive, its value is not. */
export const metadataDigest = (key: DigestKey, name: string, value: string): string =>
  hmac(key.key, ['metadata', name, ...exactly(value.toLowerCase())]).toString('base64url');

/** The digest of a part of a value that its mask shows, such as its last four characters. Not case-sensitive. */
export const shownDigest = (key: DigestKey, part: string, value: string): string =>
  hmac(key.key, ['shown', part, ...exactly(value.toLowerCase())]).toString('base64url');

/** What a bound pins of a proxy or a reactor: where it sends values, and its code. */
export const pinDigest = (key: DigestKey, kind: 'proxy' | 'reactor', id: string, parts: readonly string[]): string =>
  hmac(key.key, ['pin', kind, id, ...parts.flatMap(exactly)]).toString('base64url');

/** The name of an idempotency key: the same for one actor, unrelated between actors and tenants. @param address of a public caller. */
export const idempotencyDigest = (
  key: DigestKey,
  { actor_id, address }: { actor_id: string; address: string | undefined },
  name: string,
): string =>
  hmac(key.key, ['idempotency', actor_id, name, ...(address === undefined ? [] : [address])]).toString('base64url');

/**
 * Digests of a forwarded request: `content` is compared with that of a repetition, `path` is shown, `repeat` says by what its destination
 * recognises a repetition, and `key` is the idempotency key that the destination gets.
 */
export const forwardDigest = (
  key: DigestKey,
  of: 'content' | 'path' | 'repeat' | 'key',
  parts: readonly string[],
): string => hmac(key.key, ['forward', of, ...parts.flatMap(exactly)]).toString('base64url');

/** The stored form of an API key's secret. */
export const apiKeyDigest = (pepper: DigestKey, publicId: string, secret: string): Buffer =>
  hmac(pepper.key, ['api key', publicId, secret]);

/** The stored form of a proxy's key. */
export const proxyKeyDigest = (pepper: DigestKey, key: string): Buffer => hmac(pepper.key, ['proxy key', key]);

/** The input of the password hash. Keyed, so that stolen hashes cannot be attacked without the pepper. */
export const passwordDigest = (pepper: DigestKey, password: string): Buffer =>
  hmac(pepper.key, ['password', ...exactly(password)]);

/** The stored form of the secret in a browser's cookie. */
export const sessionDigest = (pepper: DigestKey, secret: string): Buffer => hmac(pepper.key, ['session', secret]);

/** The stored form of the secret in the address of a session's page. */
export const sessionPageDigest = (pepper: DigestKey, secret: string): Buffer =>
  hmac(pepper.key, ['session page', secret]);

/** The CSRF token in the forms of a session. Does not reveal the session's secret. */
export const csrfToken = (pepper: DigestKey, secret: string): string =>
  hmac(pepper.key, ['csrf', secret]).toString('base64url');

/** The stored form of the account or network that failed attempts count for. */
export const attemptDigest = (pepper: DigestKey, kind: string, what: string): Buffer =>
  hmac(pepper.key, ['attempt', kind, ...exactly(what)]);

/** The digests of all attempts of an account share their first half, so that a range query finds them. */
const ACCOUNT_HALF_BYTES = 16;

const accountHalf = (pepper: DigestKey, account: string): Buffer =>
  hmac(pepper.key, ['attempts-of-account', ...exactly(account)]).subarray(0, ACCOUNT_HALF_BYTES);

export const accountAttemptDigest = (pepper: DigestKey, kind: string, account: string, place: string): Buffer =>
  Buffer.concat([
    accountHalf(pepper, account),
    attemptDigest(pepper, kind, JSON.stringify([account, place])).subarray(0, ACCOUNT_HALF_BYTES),
  ]);

/** The lowest and highest digest of an account's attempts. */
export const accountAttemptRange = (pepper: DigestKey, account: string): { first: Buffer; last: Buffer } => {
  const half = accountHalf(pepper, account);
  const filled = (byte: number): Buffer => Buffer.concat([half, Buffer.alloc(ACCOUNT_HALF_BYTES, byte)]);
  return { first: filled(0), last: filled(0xff) };
};

/** The digest that a user is found by. @param address in the form in which addresses are compared. */
export const addressDigest = (pepper: DigestKey, address: string): Buffer =>
  hmac(pepper.key, ['address', ...exactly(address)]);

/** The stored form of the secret in an invitation's link. */
export const invitationSecretDigest = (pepper: DigestKey, secret: string): Buffer =>
  hmac(pepper.key, ['invitation', secret]);

/** The stored form of the secret in a link that resets a password. */
export const passwordResetDigest = (pepper: DigestKey, secret: string): Buffer =>
  hmac(pepper.key, ['password reset', secret]);

/** The stored form of a recovery code of a user. */
export const recoveryCodeDigest = (pepper: DigestKey, user_id: string, code: string): Buffer =>
  hmac(pepper.key, ['recovery code', user_id, code]);

/** Proves that the server made a challenge for a session, which it does not store. */
export const challengeDigest = (pepper: DigestKey, session: Uint8Array, purpose: string, content: Uint8Array): Buffer =>
  hmac(pepper.key, [
    'passkey challenge',
    Buffer.from(session).toString('base64'),
    purpose,
    Buffer.from(content).toString('base64'),
  ]);

/**
 * Digests of single sign-on: what a state, its browser and an account at a provider are stored as, what a flow derives its nonce and
 * verifier from, and the MACs of flows.
 */
export const ssoDigest = (
  pepper: DigestKey,
  kind: 'state' | 'flow' | 'nonce' | 'verifier' | 'subject',
  ...parts: readonly (string | number | null)[]
): Buffer => hmac(pepper.key, ['single sign-on', kind, JSON.stringify(parts)]);

/** The key that secrets of users are sealed under: users belong to no tenant, so no key of a tenant can seal them. */
export const userKeyBytes = (pepper: DigestKey): Buffer => hmac(pepper.key, ['key of users']);

/** The key of the MACs of rows that authorise. */
export const rowMacKeyBytes = (pepper: DigestKey): Buffer => hmac(pepper.key, ['key of row macs']);

/** The key of the MACs of rows of the audit log. */
export const logMacKeyBytes = (pepper: DigestKey): Buffer => hmac(pepper.key, ['key of log macs']);

/** The seed of the key that signs checkpoints of the audit log, where none is configured. */
export const logSigningSeed = (pepper: DigestKey): Buffer => hmac(pepper.key, ['log signing key']);

/** The seed of the key that signs erasure certificates. */
export const certificateSeed = (pepper: DigestKey): Buffer => hmac(pepper.key, ['certificate signing key']);

/** The public name of a vault: the same in all its processes, backups and copies. */
export const vaultIdOf = (pepper: DigestKey): string => hmac(pepper.key, ['vault id']).toString('hex').slice(0, 32);

/** The mark of forwarded requests: the same in all processes of a vault. Does not reveal the pepper. */
export const loopDigest = (pepper: DigestKey): string => hmac(pepper.key, ['loop']).toString('base64url').slice(0, 16);

/** An unkeyed digest for use in memory: cache keys of secrets, names of statements. Must not be stored unsealed. */
export const memoryDigest = (text: string): string => hash('sha256', text, 'base64url');

/** The checksum of a text that is not secret. */
export const sha256Hex = (text: string): string => hash('sha256', text, 'hex');

/** The checksum of bytes that are not secret, or that a keyed digest is made of. */
export const sha256OfBytes = (bytes: Uint8Array): string => hash('sha256', bytes, 'base64url');

/** The checksum of bytes that come in pieces. */
export const createSha256 = (): { update(bytes: Uint8Array): void; hex(): string } => {
  const digest = createHash('sha256');
  return { update: (bytes) => void digest.update(bytes), hex: () => digest.digest('hex') };
};

/** Constant-time for digests of one length; false for different lengths. */
export const equalDigests = (one: Uint8Array, other: Uint8Array): boolean =>
  one.length === other.length && timingSafeEqual(one, other);

/** Uniformly random characters: bytes above the last multiple of 62 are drawn again. */
export const randomBase62 = (length: number, randomBytes: RandomBytes): string => {
  let text = '';
  while (text.length < length)
    for (const byte of randomBytes(length)) {
      if (byte < 248 && text.length < length) text += BASE62[byte % 62];
    }
  return text;
};

/** CRC-32 of a text in six base62 characters. Detects typing errors; no protection against forgery. */
export const crc32Base62 = (text: string): string => {
  let rest = crc32(text);
  let digits = '';
  for (let index = 0; index < 6; index += 1) {
    digits = BASE62[rest % 62] + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
};

/** For the `hmac` filter: a digest under the caller's key, never under a key of the vault. */
export const hmacText = (
  algorithm: string,
  key: string,
  text: string,
  encoding: 'hex' | 'base64' | 'base64url' = 'hex',
): string => createHmac(algorithm, key).update(text).digest(encoding);

/** HMAC-SHA-256 as Standard Webhooks signs a message: of its id, its time in seconds and its body. @param secret its bytes. @returns base64. */
export const webhookSignature = (secret: Uint8Array, id: string, timestamp: number, body: string): string =>
  createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('base64');
