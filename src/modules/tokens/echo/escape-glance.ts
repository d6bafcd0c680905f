// Tells at a glance what an escape in a chunk stands for. The scanner asks this of every escape; only those that may belong to a match
// are read by a decoder.
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

/** No escape: the byte stands for itself. */
export const LITERAL = -1;
/** Only a decoder can tell: the escape goes beyond the chunk, or is itself written with escapes. */
export const UNKNOWN = -2;

/** A first byte in UTF-8 and the bytes of its escape, in one number: a glance makes no object. */
const pack = (byte: number, used: number): number => (used << 8) | byte;
export const byteOf = (glance: number): number => glance & 0xff;
export const usedOf = (glance: number): number => glance >>> 8;

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
