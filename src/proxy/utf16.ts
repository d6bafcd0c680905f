// Text in UTF-16: how a body shows that it is that, and both ways between it and text. The readers of the kinds look for
// bytes of ASCII, so such a body is made text first.
import { invalidField } from '../errors.ts';
import type { TextBodyKind } from './body-kind.ts';
import { anyOpening, mayOpen } from './opening.ts';

export type Utf16 = 'utf-16le' | 'utf-16be';

/** So many bytes at the start of a body tell. */
export const UTF16_SIGN_BYTES = 2;

/** In which of the two a body is by its byte order mark. */
export const utf16OfMark = ([first, second]: Uint8Array): Utf16 | undefined => {
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  return first === 0xfe && second === 0xff ? 'utf-16be' : undefined;
};

/**
 * In which of the two a body is, undefined for neither. A byte order mark is stronger than a charset (WHATWG Encoding
 * section 6), and no UTF-8 begins so. Without one a NUL tells, as parsers of JSON read it (RFC 4627 section 3).
 */
export const utf16Of = ({ charset, utf16 }: TextBodyKind, start: Uint8Array): Utf16 | undefined => {
  const [first, second] = start;
  if (charset !== 'utf8' || first === undefined || second === undefined) return undefined;
  const marked = utf16OfMark(start);
  if (marked) return marked;
  if (utf16 === 'utf-16le' || utf16 === 'utf-16be') return utf16;
  if (first === 0 && second !== 0) return 'utf-16be';
  if (first !== 0 && second === 0) return 'utf-16le';
  return utf16 === undefined ? undefined : 'utf-16le';
};

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

/** Whether a body is in UTF-16. One without a type may be no text at all. */
export const isInUtf16 = (kind: TextBodyKind, bytes: Buffer): boolean => {
  const utf16 = utf16Of(kind, bytes);
  return utf16 !== undefined && (kind.kind !== 'undeclared' || decode(bytes, utf16, true) !== undefined);
};

/**
 * @param place where the body stands.
 * @returns undefined for a body in another charset, and for one that is broken and opens no expression. A byte order mark
 * stays.
 * @throws invalidInput for one that is not what it says, and might open an expression for a receiver that reads it anyway.
 */
export const readUtf16 = (
  kind: TextBodyKind,
  bytes: Buffer,
  place: string,
): { text: string; utf16: Utf16 } | undefined => {
  const utf16 = utf16Of(kind, bytes);
  if (utf16 === undefined) return undefined;
  const text = decode(bytes, utf16, true);
  // Without any NUL there is not even a space in it: it is in another charset than it says.
  const mayBeOther = text === undefined || (kind.utf16 !== undefined && !bytes.includes(0));
  const isOther = mayBeOther && mayOpen(anyOpening, bytes);
  if (text !== undefined && !isOther) return { text, utf16 };
  if (kind.kind === 'undeclared') return undefined;
  if (isOther || anyOpening.pattern.test(decode(bytes, utf16, false) ?? ''))
    throw invalidField(place, 'must be in UTF-8, or in the charset that it says');
  return undefined;
};
