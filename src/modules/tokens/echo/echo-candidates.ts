// Searches a chunk for where a match may begin, by neighbouring bytes. Everything else passes without a state of the automaton.
import {
  BACKSLASH,
  entities,
  ESCAPE_BYTES_MAX,
  escapeStarts,
  HASH,
  hexValue,
  isAlphanumeric,
  LETTER_U,
  LETTER_X,
  PERCENT,
  PLUS,
  SEMICOLON,
  shortBytes,
  utf8Of,
} from './escapes.ts';
import { codeNames } from './security-codes.ts';

/** What two neighbouring bytes are, at `first + second * 256`. */
const ESCAPE = 1;
/** Neighbours in a pattern. */
const PAIR = 2;
/** Neighbours in a name of a security code. */
const NAME_PAIR = 4;
/** Neighbours in a name of three letters. */
const SHORT_NAME_PAIR = 8;
/** The beginning of a pattern or a name. */
const BEGINNING = 16;

/** No pattern is shorter. */
const PATTERN_BYTES_MIN = 8;
/** Three pairs that do not overlap are in each run of seven bytes. */
const SIGHT_BYTES = 7;

/** From a candidate, so many bytes are looked at one by one: a candidate is at most seven bytes before what gave it away. */
export const CLOSE_BYTES: number = PATTERN_BYTES_MIN;

export type Candidates = {
  /** Flags of two neighbouring bytes. */
  readonly pairs: Uint8Array;
  /** Whether a match may begin with a byte. */
  readonly firsts: Uint8Array;
};

const escapePairs = Uint8Array.from({ length: 65_536 }, (_, pair) =>
  escapeStarts[pair & 0xff] !== 0 || escapeStarts[pair >>> 8] !== 0 ? ESCAPE : 0,
);

const SHORT_NAME_LENGTH = 3;

const casesOf = (character: string): number[] =>
  [character.toLowerCase(), character.toUpperCase()].map((each) => each.charCodeAt(0));

/** All names begin with these; what follows is for the finder of codes. */
const shortNames = codeNames.filter(({ length }) => length === SHORT_NAME_LENGTH);
const longBeginning = 'security';

const flagNames = (pairs: Uint8Array, flag: number, letters: string): void => {
  for (const first of casesOf(letters.charAt(0)))
    for (const second of casesOf(letters.charAt(1))) {
      const pair = first | (second << 8);
      pairs[pair] = (pairs[pair] as number) | flag;
    }
};

const namePairs = (() => {
  const pairs = escapePairs.slice();
  const flagName = (name: string, flag: number): void => {
    for (let at = 1; at < name.length; at += 1) flagNames(pairs, flag, name.slice(at - 1, at + 1));
  };
  for (const name of codeNames) {
    flagName(name, NAME_PAIR);
    flagNames(pairs, BEGINNING, name.slice(0, 2));
  }
  for (const name of shortNames) flagName(name, SHORT_NAME_PAIR);
  // It is as long as a pattern, and is found as one.
  flagName(longBeginning, PAIR);
  return pairs;
})();

/** @param hasCodes whether names of security codes are looked for too. Takes time for each byte of the patterns. */
export const createCandidates = (hasCodes: boolean): Candidates => {
  const firsts = new Uint8Array(256);
  if (hasCodes) for (const name of codeNames) for (const first of casesOf(name.charAt(0))) firsts[first] = 1;
  return { pairs: (hasCodes ? namePairs : escapePairs).slice(), firsts };
};

export const addPattern = ({ pairs, firsts }: Candidates, pattern: Uint8Array): void => {
  firsts[pattern[0] as number] = 1;
  for (let at = 1; at < pattern.length; at += 1) {
    const pair = (pattern[at - 1] as number) | ((pattern[at] as number) << 8);
    pairs[pair] = (pairs[pair] as number) | (at === 1 ? PAIR | BEGINNING : PAIR);
  }
};

const flagsAt = ({ pairs }: Candidates, bytes: Uint8Array, at: number): number =>
  pairs[(bytes[at] as number) | ((bytes[at + 1] as number) << 8)] as number;

/** The letters of short names in lower case, as one number. */
const shortNameCodes = new Set(shortNames.map((name) => Buffer.from(name).readUIntBE(0, SHORT_NAME_LENGTH)));

const isShortNameAt = (bytes: Uint8Array, at: number): boolean => {
  if (at < 0 || at + SHORT_NAME_LENGTH > bytes.length) return true;
  const [first, second, third] = [bytes[at] as number, bytes[at + 1] as number, bytes[at + 2] as number];
  // A control character becomes a digit so, and is looked at in vain.
  return shortNameCodes.has((first << 16) | (second << 8) | third | 0x202020);
};

/**
 * A match without a decoded escape has three pairs within its first seven bytes. Any other has a first escape: it begins there, or
 * the byte before it and what the escape stands for are neighbours in a pattern.
 * @returns from where to look closely at CLOSE_BYTES: nothing that begins before it is a match. Where there is no candidate, the
 *   last bytes before `to`, as a match may begin in them.
 */
export const findCandidate = (candidates: Candidates, bytes: Uint8Array, from: number, to: number): number => {
  const { pairs } = candidates;
  const last = to - 1;
  let run = 0;
  for (let at = from; at < last; at += 2) {
    const flags = pairs[(bytes[at] as number) | ((bytes[at + 1] as number) << 8)] as number;
    run = (flags & PAIR) === 0 ? 0 : run + 1;
    if (run < 3 && (flags & (ESCAPE | SHORT_NAME_PAIR)) === 0) continue;
    if (run > 2 && (flagsAt(candidates, bytes, at - 1) & flagsAt(candidates, bytes, at - 3) & PAIR) !== 0)
      return Math.max(from, at - 5);
    if ((flags & ESCAPE) !== 0) {
      if (mayBeginAt(candidates, bytes, at)) return Math.max(from, at - SIGHT_BYTES);
      if (mayBeginAt(candidates, bytes, at + 1)) return Math.max(from, at + 1 - SIGHT_BYTES);
    }
    if ((flags & SHORT_NAME_PAIR) !== 0 && (isShortNameAt(bytes, at) || isShortNameAt(bytes, at - 1)))
      return Math.max(from, at - 1);
  }
  return Math.max(from, to - SIGHT_BYTES);
};

/** @returns whether the first escape of a match may be at a position. False where no escape is. */
export const mayBeginAt = (candidates: Candidates, bytes: Uint8Array, at: number): boolean => {
  const byte = bytes[at] as number;
  if (escapeStarts[byte] === 0) return false;
  if (at === 0) return true;
  if (byte === 0) return mayContinueBehindZeros(candidates, bytes, at);
  const glance = glanceAtEscape(bytes, at, bytes.length);
  if (glance < 0) return glance === UNKNOWN;
  const decoded = byteOf(glance);
  if (mayStand(candidates, bytes, at, decoded)) return true;
  return escapeStarts[decoded] !== 0 && mayBeginTwice(candidates, bytes, at);
};

/** Whether a byte in place of the one at a position may begin a match, or go on with one that the bytes before it begin. */
const mayStand = ({ pairs, firsts }: Candidates, bytes: Uint8Array, at: number, byte: number): boolean => {
  if (firsts[byte] === 1 || at < 2) return true;
  const before = bytes[at - 1] as number;
  const flags = pairs[before | (byte << 8)] as number;
  if ((flags & BEGINNING) !== 0) return true;
  if ((flags & (PAIR | NAME_PAIR)) === 0) return false;
  const earlier = pairs[(bytes[at - 2] as number) | (before << 8)] as number;
  return (flags & earlier & (PAIR | NAME_PAIR)) !== 0;
};

const mayContinueBehindZeros = (candidates: Candidates, bytes: Uint8Array, at: number): boolean => {
  if (bytes[at - 1] === 0) return false;
  let next = at + 1;
  while (next < bytes.length && bytes[next] === 0) next += 1;
  if (next === bytes.length) return true;
  const behind = bytes[next] as number;
  return escapeStarts[behind] !== 0 || mayStand(candidates, bytes, at, behind);
};

/** Characters of an escape that was written in escapes. A longer one is read by a decoder. */
const TWICE_BYTES = 14;
const decodedOnce = new Uint8Array(TWICE_BYTES);

/** Two characters tell of most that they are no escape, or all of one. */
const isToldBy = (count: number): boolean => count === 2 || count === TWICE_BYTES;

const mayBeginTwice = (candidates: Candidates, bytes: Uint8Array, from: number): boolean => {
  let at = from;
  for (let count = 1; ; count += 1) {
    if (at >= bytes.length) return true;
    const byte = bytes[at] as number;
    const glance = escapeStarts[byte] === 0 ? LITERAL : glanceAtEscape(bytes, at, bytes.length);
    if (glance === UNKNOWN) return true;
    decodedOnce[count - 1] = glance === LITERAL ? byte : byteOf(glance);
    at += glance === LITERAL ? 1 : usedOf(glance);
    if (!isToldBy(count)) continue;
    const twice = glanceAtEscape(decodedOnce, 0, count);
    if (twice === LITERAL) return false;
    if (twice !== UNKNOWN) return mayStand(candidates, bytes, from, byteOf(twice));
    if (count === TWICE_BYTES) return true;
  }
};

// Tells at a glance what an escape in a chunk stands for. The scanner asks this of every escape; only those that may belong to a match
// are read by a decoder.

/** No escape: the byte stands for itself. */
const LITERAL = -1;
/** Only a decoder can tell: the escape goes beyond the chunk, or is itself written with escapes. */
const UNKNOWN = -2;

/** A first byte in UTF-8 and the bytes of its escape, in one number: a glance makes no object. */
const pack = (byte: number, used: number): number => (used << 8) | byte;
const byteOf = (glance: number): number => glance & 0xff;
const usedOf = (glance: number): number => glance >>> 8;

const firstByteOf = (point: number): number => (point < 0x80 ? point : (utf8Of(point)[0] as number));

const hexTable = Int8Array.from({ length: 256 }, (_, byte) => hexValue(byte));

const NAME_LENGTH_MAX = 8;
const hashOf = (hash: number, byte: number): number => (Math.imul(hash, 131) + byte) | 0;

/** Names by their hash: a name that is none may share one, and gets a closer look in vain. */
const entityBytes = new Map(
  [...entities].map(([name, point]) => [[...Buffer.from(name)].reduce(hashOf, 0), firstByteOf(point)]),
);

/** @param isWithin whether it is looked at as what ends another escape. */
const glanceAtPart = (bytes: Uint8Array, at: number, length: number, isWithin: boolean): number => {
  switch (bytes[at]) {
    case 0:
      return UNKNOWN;
    case PLUS:
      return pack(0x20, 1);
    case PERCENT:
      return bytes[at + 1] === LETTER_U
        ? glanceAtDigits(bytes, at, 2, 4, length, isWithin)
        : glanceAtDigits(bytes, at, 1, 2, length, isWithin);
    case BACKSLASH:
      return glanceAtBackslash(bytes, at, length, isWithin);
    default:
      return glanceAtEntity(bytes, at, length, isWithin);
  }
};

/** Glances at what ends an escape too early: another one there may stand for what it lacks, if both are decoded in turn. */
const glanceAtEnd = (bytes: Uint8Array, at: number, length: number, isWithin: boolean): number => {
  if (at >= length) return UNKNOWN;
  if (escapeStarts[bytes[at] as number] === 0) return LITERAL;
  if (isWithin) return UNKNOWN;
  const glance = glanceAtPart(bytes, at, length, true);
  if (glance < 0) return glance;
  const byte = byteOf(glance);
  return isAlphanumeric(byte) || byte === HASH || byte === SEMICOLON ? UNKNOWN : LITERAL;
};

/** `%34`, `%u0034`, `\x34` and `\u0034`: digits in hex behind `skip` bytes. */
const glanceAtDigits = (
  bytes: Uint8Array,
  at: number,
  skip: number,
  count: number,
  length: number,
  isWithin: boolean,
): number => {
  const end = at + skip + count;
  let point = 0;
  for (let each = at + skip; each < end; each += 1) {
    const digit = each < length ? (hexTable[bytes[each] as number] as number) : -1;
    if (digit === -1) return glanceAtEnd(bytes, each, length, isWithin);
    point = point * 16 + digit;
  }
  // A percent escape is a byte. The first half of a surrogate pair begins four bytes, 0xf0 to 0xf4.
  if (count === 2 && skip === 1) return pack(point, end - at);
  return (point & 0xf800) === 0xd800 ? UNKNOWN : pack(firstByteOf(point), end - at);
};

const OPENING_BRACE = 0x7b;

const glanceAtBackslash = (bytes: Uint8Array, at: number, length: number, isWithin: boolean): number => {
  if (at + 1 >= length) return UNKNOWN;
  const next = bytes[at + 1] as number;
  const short = shortBytes[next] as number;
  if (short !== -1) return pack(short, 2);
  if (next === LETTER_X) return glanceAtDigits(bytes, at, 2, 2, length, isWithin);
  if (next !== LETTER_U) return glanceAtEnd(bytes, at + 1, length, isWithin);
  return bytes[at + 2] === OPENING_BRACE ? UNKNOWN : glanceAtDigits(bytes, at, 2, 4, length, isWithin);
};

const glanceAtEntity = (bytes: Uint8Array, at: number, length: number, isWithin: boolean): number => {
  if (bytes[at + 1] === HASH) return glanceAtNumber(bytes, at, length, isWithin);
  const last = at + 1 + NAME_LENGTH_MAX;
  let hash = 0;
  let end = at + 1;
  for (; end < length && end < last; end += 1) {
    const byte = bytes[end] as number;
    if (!isAlphanumeric(byte)) break;
    hash = hashOf(hash, byte);
  }
  if (end === last) return LITERAL;
  if (end >= length || bytes[end] !== SEMICOLON) return glanceAtEnd(bytes, end, length, isWithin);
  const byte = entityBytes.get(hash);
  return byte === undefined ? LITERAL : pack(byte, end + 1 - at);
};

const glanceAtNumber = (bytes: Uint8Array, at: number, length: number, isWithin: boolean): number => {
  const isHex = at + 2 < length && ((bytes[at + 2] as number) | 0x20) === LETTER_X;
  const base = isHex ? 16 : 10;
  const from = at + (isHex ? 3 : 2);
  const last = at + ESCAPE_BYTES_MAX;
  let point = 0;
  let end = from;
  for (; end < length && end < last; end += 1) {
    const digit = hexTable[bytes[end] as number] as number;
    if (digit === -1 || digit >= base) break;
    point = Math.min(point * base + digit, 0x110000);
  }
  if (end >= length) return UNKNOWN;
  if (end === from) return glanceAtEnd(bytes, end, length, isWithin);
  if (end === last || point > 0x10ffff) return LITERAL;
  return pack(firstByteOf(point), end - at + (bytes[end] === SEMICOLON ? 1 : 0));
};

/**
 * @param at of the escape.
 * @param length of what is there of the bytes.
 * @returns what `byteOf` and `usedOf` read, or LITERAL or UNKNOWN.
 */
export const glanceAtEscape = (bytes: Uint8Array, at: number, length: number): number =>
  glanceAtPart(bytes, at, length, false);
