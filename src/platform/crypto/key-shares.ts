// Splits a root key into shares of which some restore it (Shamir), and their text: with a checksum, a set and a number.
import { createHash } from 'node:crypto';
import { combine, split } from 'shamir-secret-sharing';
import { SHARES_MAX, THRESHOLD_LEAST, type WantedSet } from './share-sets.ts';
import { StartError } from '../base/errors.ts';
import { localRootKeyId } from './local-key-provider.ts';
import type { RandomBytes } from './random.ts';

// Collects the shares of one or several root keys until enough are there, and drops them.

export type SharesGiven = { set: string | undefined; given: number; needed: number };

export type ShareCollection = {
  /** @param text overwritten. @returns the share that was added. @throws ShareFault; the collection stays as it is. */
  add(text: Uint8Array): Pick<KeyShare, 'set' | 'index'>;
  given(): SharesGiven[];
  isComplete(): boolean;
  /** Makes the keys, in the order of the configuration, and drops the shares. @throws ShareFault. */
  combine(): Promise<Buffer[]>;
  drop(): void;
};

const describe = ({ threshold, shares, set }: WantedSet): string =>
  `${threshold} of ${shares}${set === undefined ? '' : ` of set ${set}`}`;

export const collectShares = (wanted: readonly WantedSet[]): ShareCollection => {
  const slots = wanted.map((each) => ({ wanted: each, shares: [] as KeyShare[] }));
  type Slot = (typeof slots)[number];
  const setOf = ({ wanted: { set }, shares }: Slot): string | undefined => set ?? shares[0]?.set;

  /** @throws ShareFault for a share that the configuration does not ask for. */
  const findSlot = (share: KeyShare): Slot => {
    const alike = slots.filter(
      ({ wanted: { threshold, shares } }) => threshold === share.threshold && shares === share.shares,
    );
    if (alike.length === 0)
      throw new ShareFault(
        `Share ${share.index} of set ${share.set} is one of ${share.shares}, of which ${share.threshold} are needed. MASTER_KEY_SHARES asks for ${wanted.map(describe).join(' and ')}.`,
      );
    const found = alike.find((slot) => (setOf(slot) ?? share.set) === share.set);
    if (found) return found;
    throw new ShareFault(
      `Share ${share.index} is of set ${share.set}, and set ${alike.map(setOf).join(' or ')} is collected. If that one is wrong, drop it: strongroom admin unseal --drop`,
    );
  };

  const drop = (): void => {
    for (const slot of slots) for (const { point } of slot.shares.splice(0)) point.fill(0);
  };

  return {
    add(text) {
      try {
        const share = parseShare(text);
        const { shares } = findSlot(share);
        const { index, set } = share;
        if (shares.some((other) => other.index === index))
          throw new ShareFault(`Share ${index} of set ${set} was given already. Another one is needed.`);
        shares.push(share);
        return { set, index };
      } finally {
        text.fill(0);
      }
    },
    given: () => slots.map((slot) => ({ set: setOf(slot), given: slot.shares.length, needed: slot.wanted.threshold })),
    isComplete: () => slots.every(({ wanted: { threshold }, shares }) => shares.length >= threshold),
    async combine() {
      const keys: Buffer[] = [];
      try {
        for (const { shares } of slots) keys.push(await combineShares(shares));
        return keys;
      } catch (error) {
        for (const key of keys) key.fill(0);
        throw error;
      } finally {
        drop();
      }
    },
    drop,
  };
};

/** A share that is refused, with why: for the person who gives it. The sentence has no part of the share but its number and set. */
export class ShareFault extends StartError {
  override readonly name = 'ShareFault';
}

export type KeyShare = {
  /** The split that made it: shares of two splits do not go together. */
  set: string;
  /** From 1. */
  index: number;
  threshold: number;
  shares: number;
  /** The beginning of the id of the root key, which is public: what shares are combined to is compared with it. */
  keyCheck: Buffer;
  /** What the arithmetic takes. Secret. */
  point: Uint8Array;
};

/** version | threshold | shares | index | set | key check | point | checksum, in base32 behind the mark. */
const VERSION = 1;
const SET_BYTES = 4;
const KEY_CHECK_BYTES = 8;
/** A root key of 32 bytes, and the place on the polynomial. */
const POINT_BYTES = 33;
const CHECKSUM_BYTES = 4;
const SET_AT = 4;
const KEY_CHECK_AT = SET_AT + SET_BYTES;
const POINT_AT = KEY_CHECK_AT + KEY_CHECK_BYTES;
const CHECKSUM_AT = POINT_AT + POINT_BYTES;
const SHARE_BYTES = CHECKSUM_AT + CHECKSUM_BYTES;

const MARK = 'srshare';
/** RFC 4648 section 6, in small letters: without the digits that look like letters. */
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const GROUP_CHARACTERS = 6;
const TEXT_CHARACTERS = MARK.length + Math.ceil((SHARE_BYTES * 8) / 5);

const checksumOf = (bytes: Uint8Array): Buffer =>
  createHash('sha256').update('strongroom key share').update(bytes).digest().subarray(0, CHECKSUM_BYTES);

const encode = (bytes: Uint8Array): string => {
  let text = '';
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xfff;
    for (bits += 8; bits >= 5; bits -= 5) text += ALPHABET[(value >> (bits - 5)) & 31];
  }
  if (bits > 0) text += ALPHABET[(value << (5 - bits)) & 31];
  return text;
};

const codeOfA = 'a'.charCodeAt(0);
const codeOfTwo = '2'.charCodeAt(0);
/** Between groups: blanks, tabs, line ends and hyphens. */
const BETWEEN = new Set([0x20, 0x09, 0x0a, 0x0d, 0x2d]);

const NO_SHARE = 'This is no share of a root key: it begins with srshare, and is copied whole.';

/** Reads characters as numbers, never as a string, which could not be overwritten. @returns the characters, in small letters. */
const charactersOf = (text: Uint8Array): Uint8Array => {
  const characters = new Uint8Array(TEXT_CHARACTERS);
  let count = 0;
  for (const code of text) {
    if (BETWEEN.has(code)) continue;
    if (count === TEXT_CHARACTERS) throw new ShareFault(NO_SHARE);
    characters[count] = code >= 0x41 && code <= 0x5a ? code + 0x20 : code;
    count += 1;
  }
  const isMarked = Buffer.from(characters.subarray(0, MARK.length)).equals(Buffer.from(MARK));
  if (count !== TEXT_CHARACTERS || !isMarked) throw new ShareFault(NO_SHARE);
  return characters;
};

const decode = (characters: Uint8Array): Buffer => {
  const bytes = Buffer.alloc(SHARE_BYTES);
  let at = 0;
  let bits = 0;
  let value = 0;
  for (const code of characters) {
    const digit = code >= codeOfA ? code - codeOfA : code - codeOfTwo + 26;
    const isDigit = (code >= codeOfA && digit < 26) || (digit >= 26 && digit < 32);
    if (!isDigit) throw new ShareFault('The share has a character that no share has: it was not copied well.');
    value = ((value << 5) | digit) & 0xfff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at] = (value >> bits) & 0xff;
    at += 1;
  }
  return bytes;
};

const formatShare = (share: KeyShare): string => {
  const { threshold, shares, index, set, keyCheck, point } = share;
  const head = Buffer.of(VERSION, threshold, shares, index);
  const bytes = Buffer.concat([head, Buffer.from(set, 'hex'), keyCheck, point]);
  const text = encode(Buffer.concat([bytes, checksumOf(bytes)]));
  return [MARK, ...(text.match(new RegExp(`.{1,${GROUP_CHARACTERS}}`, 'g')) ?? [])].join('-');
};

/** @param text UTF-8; the caller overwrites it. @throws ShareFault for a text that is no share, or was changed. */
const parseShare = (text: Uint8Array): KeyShare => {
  const characters = charactersOf(text);
  const bytes = decode(characters.subarray(MARK.length));
  characters.fill(0);
  const body = bytes.subarray(0, CHECKSUM_AT);
  if (!checksumOf(body).equals(bytes.subarray(CHECKSUM_AT)))
    throw new ShareFault('The checksum of the share is wrong: a character was changed or is missing.');
  const [version, threshold = 0, shares = 0, index = 0] = bytes;
  if (version !== VERSION) throw new ShareFault('The share is of a later version of Strongroom.');
  if (threshold < THRESHOLD_LEAST || shares < threshold || shares > SHARES_MAX || index < 1 || index > shares)
    throw new ShareFault(NO_SHARE);
  const share: KeyShare = {
    set: bytes.toString('hex', SET_AT, KEY_CHECK_AT),
    index,
    threshold,
    shares,
    keyCheck: Buffer.from(bytes.subarray(KEY_CHECK_AT, POINT_AT)),
    point: new Uint8Array(bytes.subarray(POINT_AT, CHECKSUM_AT)),
  };
  bytes.fill(0);
  return share;
};

const keyCheckOf = (rootKey: Uint8Array): Buffer =>
  Buffer.from(localRootKeyId(rootKey).slice(0, KEY_CHECK_BYTES * 2), 'hex');

/** @param rootKey 32 bytes. @returns a text for each custodian, and the set that they are of. */
export const splitRootKey = async (
  rootKey: Uint8Array,
  { shares, threshold }: { shares: number; threshold: number },
  randomBytes: RandomBytes,
): Promise<{ set: string; texts: string[] }> => {
  const set = randomBytes(SET_BYTES).toString('hex');
  const keyCheck = keyCheckOf(rootKey);
  // The library takes no Buffer.
  const secret = Uint8Array.from(rootKey);
  const points = await split(secret, shares, threshold);
  secret.fill(0);
  const texts = points.map((point, at) => formatShare({ set, index: at + 1, threshold, shares, keyCheck, point }));
  for (const point of points) point.fill(0);
  return { set, texts };
};

/** @param shares as many as their threshold, of one set. @throws ShareFault where they do not make the key that was split. */
const combineShares = async (shares: readonly KeyShare[]): Promise<Buffer> => {
  const secret = await combine(shares.map(({ point }) => point));
  const rootKey = Buffer.from(secret);
  secret.fill(0);
  if (shares.every(({ keyCheck }) => keyCheck.equals(keyCheckOf(rootKey)))) return rootKey;
  rootKey.fill(0);
  throw new ShareFault(
    `The shares of set ${shares[0]?.set} do not make the key that was split: one of them is forged. All are dropped.`,
  );
};
