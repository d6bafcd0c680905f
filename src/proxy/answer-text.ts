// An answer as code reads it: text in another charset than UTF-8 and ISO-8859-1 is made UTF-8, which goes on in its place.
import type { Headers } from '../egress/headers.ts';
import { bodyKindOf, charsetOf, inUtf8Headers, utf16Label } from './body-kind.ts';
import { writeDeclaredEncoding } from './markup-text.ts';
import type { Message } from './message.ts';
import { utf16Of, utf16OfMark } from './utf16.ts';

/** Read as a lenient receiver reads it. */
const declaredCharset = /;\s*charset\s*=\s*"?([^";\s]+)/i;

const labelOf = (headers: Headers): string | undefined =>
  headers
    .filter(([name]) => name.toLowerCase() === 'content-type')
    .map(([, value]) => declaredCharset.exec(value)?.[1])
    .find((label) => label !== undefined);

/** @param charset a label of the Encoding Standard. @param isCut whether more follows: half a character at the end is left out. */
const decode = (bytes: Uint8Array, charset: string, isCut: boolean): string | undefined => {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes, { stream: isCut });
  } catch {
    return undefined;
  }
};

/**
 * @param isCut whether the body is the beginning of one.
 * @returns the answer, in UTF-8 where it is text in another charset; and the charset in which it is, or may be read, where
 * code cannot read it in that.
 */
export const readAnswer = (answer: Message, isCut = false): { message: Message; unread?: string } => {
  const { headers, body } = answer;
  if (body === undefined || body.byteLength === 0) return { message: answer };
  const label = labelOf(headers);
  const known = charsetOf(label ?? 'utf-8');
  const wide = utf16Label(label ?? '');
  const utf8Headers = inUtf8Headers(headers);
  const kind = bodyKindOf(utf8Headers);
  if (!('charset' in kind)) return { message: answer, ...(label !== undefined && !known && { unread: label }) };
  // A byte order mark is stronger than the headers. What they say is UTF-8 may be known as UTF-16 by its NULs as well.
  const shown =
    known === 'utf8' || wide !== undefined ? utf16Of({ ...kind, ...(wide && { utf16: wide }) }, body) : undefined;
  const charset = utf16OfMark(body) ?? shown ?? (known ? undefined : label);
  if (charset === undefined) return { message: answer };
  const text = decode(body, charset, isCut);
  if (text === undefined) return { message: answer, ...(kind.kind !== 'undeclared' && { unread: charset }) };
  const written = kind.kind === 'markup' ? writeDeclaredEncoding(text) : text;
  return { message: { ...answer, headers: utf8Headers, body: Buffer.from(written) } };
};
