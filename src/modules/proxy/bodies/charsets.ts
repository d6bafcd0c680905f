// Reads and writes text in the charsets that Node.js reads and cannot write. A body stays byte for byte around what is inserted.
import iconv from 'iconv-lite';
import type { Slices } from '../../../platform/json/slices.ts';

type Width = (lead: number, second: number | undefined) => number;

const isIn = (byte: number, from: number, to: number): boolean => byte >= from && byte <= to;

/** The bytes of a character by its first ones. All others have one byte for each character. */
const widths: Record<string, Width> = {
  shift_jis: (lead) => (isIn(lead, 0x81, 0x9f) || isIn(lead, 0xe0, 0xfc) ? 2 : 1),
  'euc-jp': (lead) => (lead === 0x8f ? 3 : lead === 0x8e || isIn(lead, 0xa1, 0xfe) ? 2 : 1),
  'euc-kr': (lead) => (isIn(lead, 0x81, 0xfe) ? 2 : 1),
  gbk: (lead) => (isIn(lead, 0x81, 0xfe) ? 2 : 1),
  big5: (lead) => (isIn(lead, 0x81, 0xfe) ? 2 : 1),
  gb18030: (lead, second = 0) => (isIn(lead, 0x81, 0xfe) ? (isIn(second, 0x30, 0x39) ? 4 : 2) : 1),
};

/** Names of the Encoding Standard. ASCII is a subset of each, but a second byte may equal a brace. */
const names = [
  ...Object.keys(widths),
  'ibm866',
  ...[2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16].map((number) => `iso-8859-${number}`),
  'koi8-r',
  'koi8-u',
  'macintosh',
  'windows-874',
  ...[0, 1, 2, 3, 4, 5, 6, 7, 8].map((number) => `windows-125${number}`),
] as const;

/** A name of the Encoding Standard. */
export type LegacyCharset = string & { readonly legacy: unique symbol };

/** ASCII is a subset of each. In `utf8` and `latin1` no byte of a longer character equals a brace, a quote or a line end. */
export type Charset = 'utf8' | 'latin1' | LegacyCharset;

export const isLegacy = (charset: Charset): charset is LegacyCharset => charset !== 'utf8' && charset !== 'latin1';

const supported: ReadonlySet<string> = new Set(names);

export const legacyNames = names as readonly LegacyCharset[];

/** Undefined for a label of another charset, and for no label of the Encoding Standard. */
export const legacyCharsetOf = (label: string): LegacyCharset | undefined => {
  try {
    const name = new TextDecoder(label).encoding;
    return supported.has(name) ? (name as LegacyCharset) : undefined;
  } catch {
    return undefined;
  }
};

/** A byte that is kept as it is stands in texts as a lone surrogate, which no charset has: U+DC00 and the byte. */
const KEPT = 0xdc00;
const keptByte = /[\u{dc00}-\u{dcff}]/gu;

const keepBytes = (bytes: Uint8Array): string => String.fromCharCode(...Array.from(bytes, (byte) => KEPT + byte));

/** Whether a decoded text has bytes that are kept as they are. */
export const hasKeptBytes = (text: string): boolean => text.search(keptByte) !== -1;

const widthAt = (bytes: Buffer, at: number, width: Width | undefined): number =>
  width?.(bytes[at] as number, bytes[at + 1]) ?? 1;

/** Undefined for bytes that are no text. Characters with several spellings keep theirs. */
const decodeEach = (bytes: Buffer, charset: LegacyCharset): string | undefined => {
  const width = widths[charset];
  let text = '';
  for (let at = 0; at < bytes.length;) {
    const character = bytes.subarray(at, at + widthAt(bytes, at, width));
    const decoded = iconv.decode(character, charset);
    if (iconv.encode(decoded, charset).equals(character)) text += decoded;
    else if (width !== undefined && decoded.includes('\ufffd')) return undefined;
    else text += keepBytes(character);
    at += character.length;
  }
  return text;
};

const SLICE_BYTES = 16_384;

/** Slices that end with whole characters. */
function* sliceBytes(bytes: Buffer, charset: LegacyCharset): Generator<Buffer, void, undefined> {
  const width = widths[charset];
  for (let from = 0, to = 0; from < bytes.length; from = to) {
    while (to < bytes.length && to - from < SLICE_BYTES) to += widthAt(bytes, to, width);
    yield bytes.subarray(from, to);
  }
}

/** Pauses after each slice. @returns undefined for a body that is not in the charset. */
export function* decodeLegacy(bytes: Buffer, charset: LegacyCharset): Slices<string | undefined> {
  const texts: string[] = [];
  for (const slice of sliceBytes(bytes, charset)) {
    const decoded = iconv.decode(slice, charset, { stripBOM: false });
    const text = iconv.encode(decoded, charset).equals(slice) ? decoded : decodeEach(slice, charset);
    if (text === undefined) return undefined;
    texts.push(text);
    yield;
  }
  return texts.join('');
}

/** Reads also controls that iconv-lite does not know. */
const readSlice = (slice: Buffer, charset: LegacyCharset): { text: string; isInCharset: boolean } => {
  const text = iconv.decode(slice, charset, { stripBOM: false });
  if (!text.includes('\ufffd')) return { text, isInCharset: true };
  try {
    return { text: new TextDecoder(charset, { fatal: true }).decode(slice), isInCharset: true };
  } catch {
    return { text: new TextDecoder(charset).decode(slice), isInCharset: false };
  }
};

/**
 * For code: every spelling of a character is that character, and bytes that are no text are U+FFFD. Pauses after each slice.
 */
export function* readLegacy(bytes: Buffer, charset: LegacyCharset): Slices<{ text: string; isInCharset: boolean }> {
  const texts: string[] = [];
  let isInCharset = true;
  for (const slice of sliceBytes(bytes, charset)) {
    const read = readSlice(slice, charset);
    texts.push(read.text);
    isInCharset &&= read.isInCharset;
    yield;
  }
  return { text: texts.join(''), isInCharset };
}

/** Text that `decodeLegacy` returned, or with values that `isEncodable`. */
export const encodeLegacy = (text: string, charset: LegacyCharset): Buffer => {
  const pieces: Buffer[] = [];
  let done = 0;
  for (const match of text.matchAll(keptByte)) {
    pieces.push(iconv.encode(text.slice(done, match.index), charset), Buffer.of(match[0].charCodeAt(0) - KEPT));
    done = match.index + 1;
  }
  return Buffer.concat([...pieces, iconv.encode(text.slice(done), charset)]);
};

/** Slices that end with whole characters. */
function* sliceText(text: string): Generator<string, void, undefined> {
  for (let from = 0, to = 0; from < text.length; from = to) {
    to = Math.min(text.length, from + SLICE_BYTES);
    // A pair of surrogates is one character.
    if (/[\ud800-\udbff]/.test(text[to - 1] as string)) to += 1;
    yield text.slice(from, to);
  }
}

/** Pauses after each slice. */
export function* encodeLegacyInSlices(text: string, charset: LegacyCharset): Slices<Buffer> {
  const pieces: Buffer[] = [];
  for (const slice of sliceText(text)) {
    pieces.push(encodeLegacy(slice, charset));
    yield;
  }
  return Buffer.concat(pieces);
}

/** Pauses after each slice. @returns undefined for a text that the charset does not hold. */
export function* encodeHeld(text: string, charset: LegacyCharset): Slices<Buffer | undefined> {
  const pieces: Buffer[] = [];
  for (const slice of sliceText(text)) {
    const bytes = iconv.encode(slice, charset);
    if (iconv.decode(bytes, charset, { stripBOM: false }) !== slice) return undefined;
    pieces.push(bytes);
    yield;
  }
  return Buffer.concat(pieces);
}

/** The same JSON in ASCII. Pauses after each slice. */
export function* escapeJson(text: string): Slices<string> {
  const pieces: string[] = [];
  for (const slice of sliceText(text)) {
    pieces.push(slice.replace(/[\x80-\uffff]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`));
    yield;
  }
  return pieces.join('');
}

export const isEncodable = (value: string, charset: LegacyCharset): boolean =>
  /^[\0-\x7f]*$/.test(value) || iconv.decode(iconv.encode(value, charset), charset, { stripBOM: false }) === value;

const unit = /%[0-9a-f]{2}|[\s\S]/gi;

/**
 * Hides from searches the braces that are the second byte of a character in percent-encoding. They are kept bytes afterwards.
 */
export const hideSecondBytes = (form: string, charset: LegacyCharset): string => {
  const width = widths[charset];
  if (width === undefined || !/%[89a-f][0-9a-f](?:%7b|\{)/i.test(form)) return form;
  let isSecond = false;
  return form.replace(unit, (each) => {
    const byte = each.length === 3 ? parseInt(each.slice(1), 16) : each.charCodeAt(0);
    if (isSecond) {
      isSecond = false;
      return byte === 0x7b ? keepBytes(Buffer.from(each, 'latin1')) : each;
    }
    isSecond = each.length === 3 && width(byte, undefined) > 1;
    return each;
  });
};
