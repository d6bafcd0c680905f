// Converts a response in another charset to UTF-8, for code to read.
import type { Headers } from '../../../platform/egress/headers.ts';
import { bodyKindOf, charsetOf, inUtf8Headers, isMarkup, utf16Label } from './body-kind.ts';
import { isLegacy, legacyCharsetOf, readLegacy } from './charsets.ts';
import { charsetOfText, writeDeclaredEncoding } from './text-charset.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import type { Message } from '../message.ts';
import { utf16Of, utf16OfMark } from './utf16.ts';

/** As lenient as most receivers. */
const declaredCharset = /;\s*charset\s*=\s*"?([^";\s]+)/i;

const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

const labelOf = (headers: Headers): string | undefined =>
  headers
    .filter(([name]) => name.toLowerCase() === 'content-type')
    .map(([, value]) => declaredCharset.exec(value)?.[1])
    .find((label) => label !== undefined);

/** @param charset a label of the Encoding Standard. @param isCut whether more follows: an incomplete character at the end is dropped. */
function* decode(bytes: Uint8Array, charset: string, isCut: boolean): Slices<string | undefined> {
  const legacy = isCut ? undefined : legacyCharsetOf(charset);
  if (legacy) {
    const read = yield* readLegacy(bufferOf(bytes), legacy);
    return read.isInCharset ? read.text : undefined;
  }
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes, { stream: isCut });
  } catch {
    return undefined;
  }
}

/**
 * @param isCut whether the body is only the beginning of the response.
 * @returns the response, converted to UTF-8 if it is text in another charset. `unread` is its charset if code cannot read
 * the body in it.
 */
export function* readAnswer(answer: Message, isCut = false): Slices<{ message: Message; unread?: string }> {
  const { headers, body } = answer;
  if (body === undefined || body.byteLength === 0) return { message: answer };
  const label = labelOf(headers);
  const said = charsetOf(label ?? 'utf-8');
  const known = said && !isLegacy(said) ? said : undefined;
  const wide = utf16Label(label ?? '');
  const utf8Headers = inUtf8Headers(headers);
  const kind = bodyKindOf(utf8Headers);
  if (!('charset' in kind)) return { message: answer, ...(label !== undefined && !known && { unread: label }) };
  // UTF-16 that is declared as UTF-8 is recognised by its NULs.
  const shown =
    said || wide !== undefined
      ? utf16Of({ kind: kind.kind, charset: said ?? 'utf8', ...(wide && { utf16: wide }) }, body)
      : utf16OfMark(body);
  const isUtf8 = said && charsetOfText({ kind: kind.kind, charset: said, isNamed: true }, bufferOf(body)) === 'utf8';
  const charset = shown ?? (known || isUtf8 ? undefined : label);
  if (charset === undefined) return { message: answer };
  const text = yield* decode(body, charset, isCut);
  if (text === undefined) return { message: answer, ...(kind.kind !== 'undeclared' && { unread: charset }) };
  const written = isMarkup(kind.kind) ? writeDeclaredEncoding(text) : text;
  // A receiver that does not know UTF-16 would read another text than code has seen.
  const coded = said && isLegacy(said) && charset === label ? answer.coded : undefined;
  return { message: { ...answer, headers: utf8Headers, body: Buffer.from(written), coded, raw: { headers, body } } };
}
