// The charset of a text by its byte order mark, its type and the declaration of an XML document, in this order.
import { type Charset, charsetOf, isMarkup, isUtf16Label, type TextBodyKind, unknownCharset } from './body-kind.ts';
import { invalidField } from '../../../platform/base/errors.ts';
import { anyStart, mayContain, mayHoldExpression } from './expression-start.ts';

/** The longest declaration, with spaces. */
export const DECLARATION_BYTES_MAX = 256;

const declaration = /^(?:\xef\xbb\xbf)?<\?xml[\t\n\r ][^<>]*?[\t\n\r ]encoding[\t\n\r ]*=[\t\n\r ]*["']([\w.-]+)["']/;

export const declaredEncoding = (document: Buffer): string | undefined =>
  declaration.exec(document.toString('latin1', 0, DECLARATION_BYTES_MAX))?.[1];

/** Declares UTF-8 in a document that was converted from UTF-16. */
export const writeDeclaredEncoding = (text: string): string => {
  const match = declaration.exec(text.slice(0, DECLARATION_BYTES_MAX));
  if (!match) return text;
  const [all, label = ''] = match;
  const from = all.length - 1 - label.length;
  return `${text.slice(0, from)}UTF-8${text.slice(all.length - 1)}`;
};

const utf8Mark = Buffer.of(0xef, 0xbb, 0xbf);

/** Whether more bytes would show which mark a text has. Marks of UTF-16 have two bytes. */
export const isHalfMark = (start: Buffer): boolean =>
  start.length < 2 || (start.length < utf8Mark.length && utf8Mark.subarray(0, start.length).equals(start));

/**
 * A byte order mark counts before the type, and the type before the declaration of a document (RFC 7303 section 3). Other
 * formats than XML declare nothing. UTF-16 is recognised before: see `utf16Of`.
 * @param bytes the text, or as much of it as may have a declaration.
 * @returns undefined for a declared charset that is not supported.
 */
export const charsetOfText = (kind: TextBodyKind, bytes: Buffer): Charset | undefined => {
  if (utf8Mark.equals(bytes.subarray(0, utf8Mark.length))) return 'utf8';
  const declared = kind.isNamed || !isMarkup(kind.kind) ? undefined : declaredEncoding(bytes);
  return declared === undefined || isUtf16Label(declared) ? kind.charset : charsetOf(declared);
};

// Detects UTF-16 in a body, and converts between UTF-16 and text. Searches for expressions look for ASCII bytes.

type Utf16 = 'utf-16le' | 'utf-16be';

/** The bytes at the start of a body that show its charset. */
export const WIDE_SIGN_BYTES = 4;

/** Whether the first bytes may be of UTF-16 or UTF-32. */
export const mayBeWide = ([first, second]: Uint8Array): boolean =>
  second === undefined || first === 0 || second === 0 || utf16OfMark([first, second]) !== undefined;

/**
 * Whether a body is in UTF-32: two NULs stand before its first character or after it, as in no text in UTF-16. The proxy does not
 * read it, and JSON parsers may (RFC 4627 section 3).
 */
export const isUtf32 = ({ charset }: TextBodyKind, [first, second, third, fourth]: Uint8Array): boolean => {
  if (charset !== 'utf8' || fourth === undefined) return false;
  const [isLittle, isBig] = [third === 0 && fourth === 0, first === 0 && second === 0];
  return isLittle !== isBig;
};

/** The byte order of a body with a byte order mark. */
export const utf16OfMark = ([first, second]: Iterable<number | undefined>): Utf16 | undefined => {
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  return first === 0xfe && second === 0xff ? 'utf-16be' : undefined;
};

/**
 * The byte order of a UTF-16 body; undefined for another charset. A byte order mark overrides a charset (RFC 7303 section 3,
 * WHATWG Encoding section 6). Without a mark a NUL decides, as in JSON parsers (RFC 4627 section 3).
 */
export const utf16Of = ({ charset, utf16 }: TextBodyKind, start: Uint8Array): Utf16 | undefined => {
  const [first, second] = start;
  const marked = utf16OfMark(start);
  if (marked) return marked;
  if (charset !== 'utf8' || first === undefined || second === undefined) return undefined;
  if (utf16 === 'utf-16le' || utf16 === 'utf-16be') return utf16;
  if (first === 0 && second !== 0) return 'utf-16be';
  if (first !== 0 && second === 0) return 'utf-16le';
  return utf16 === undefined ? undefined : 'utf-16le';
};

/** UTF-32 in which ASCII characters stand one beside the other. */
export const withoutNuls = (bytes: Buffer): Buffer =>
  Buffer.from(bytes.toString('latin1').replaceAll('\0', ''), 'latin1');

const utf32 = unknownCharset('UTF-32');

/** Bytes of UTF-32, or of what begins like it. */
const mayHoldWideExpression = (bytes: Buffer): boolean => mayContain(anyStart, withoutNuls(bytes));

/** A byte order mark is not allowed in JSON, but common (RFC 8259 section 8.1). */
export const withoutByteOrderMark = (text: string): string => (text.startsWith('\ufeff') ? text.slice(1) : text);

export const encodeUtf16 = (text: string, utf16: Utf16): Buffer => {
  const bytes = Buffer.from(text, 'utf16le');
  return utf16 === 'utf-16le' ? bytes : bytes.swap16();
};

const decode = (bytes: Buffer, utf16: Utf16, fatal: boolean): string | undefined => {
  try {
    return new TextDecoder(utf16, { fatal, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
};

/** Whether a body is in UTF-16. A body without a type may be binary. */
export const isInUtf16 = (kind: TextBodyKind, bytes: Buffer): boolean => {
  const utf16 = isUtf32(kind, bytes) ? undefined : utf16Of(kind, bytes);
  return utf16 !== undefined && (kind.kind !== 'undeclared' || decode(bytes, utf16, true) !== undefined);
};

/**
 * @param place of the body within the request.
 * @returns undefined for another charset, and for a broken body without expressions. A byte order mark stays.
 * @throws unsupportedMediaType for UTF-32 that might have an expression; invalidInput for a body that contradicts its charset and might have an expression for a lenient receiver.
 */
export const readUtf16 = (
  kind: TextBodyKind,
  bytes: Buffer,
  place: string,
): { text: string; utf16: Utf16 } | undefined => {
  if (isUtf32(kind, bytes) && kind.kind !== 'undeclared') {
    if (mayHoldWideExpression(bytes)) throw utf32.refuse(place);
    return undefined;
  }
  const utf16 = utf16Of(kind, bytes);
  if (utf16 === undefined) return undefined;
  const text = decode(bytes, utf16, true);
  // UTF-16 without a NUL has not even a space, so the charset is probably wrong.
  const mayBeOther = text === undefined || (kind.utf16 !== undefined && !bytes.includes(0));
  // Binary data may look like UTF-16, but UTF-16 holds no expression in ASCII.
  const isOther = (mayBeOther && mayContain(anyStart, bytes)) || mayHoldExpression('unread', bytes);
  if (text !== undefined && !isOther) return { text, utf16 };
  if (kind.kind === 'undeclared') return undefined;
  if (isOther || anyStart.pattern.test(decode(bytes, utf16, false) ?? ''))
    throw invalidField(place, 'must be in UTF-8, or in the charset that it says');
  return undefined;
};
