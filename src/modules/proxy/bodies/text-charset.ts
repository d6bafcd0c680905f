// The charset of a text by its byte order mark, its type and the declaration of an XML document, in this order.
import { type Charset, charsetOf, isMarkup, isUtf16Label, type TextBodyKind } from './body-kind.ts';

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
