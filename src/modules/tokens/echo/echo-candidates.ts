// Searches a chunk for where a match may begin, by neighbouring bytes. Everything else passes without a state of the automaton.
import { byteOf, glanceAtEscape, LITERAL, UNKNOWN, usedOf } from './escape-glance.ts';
import { escapeStarts } from './escapes.ts';
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
