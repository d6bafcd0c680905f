// A request or response as code sees it: headers by name, and the body as JSON or text.
import type { Headers } from '../../platform/egress/headers.ts';
import { JsonSyntaxError } from '../../platform/json/json-parser.ts';
import { type OutsideJson, parseOutsideInSlices } from '../../platform/json/json-shape.ts';
import { runAtOnce, type Slices } from '../../platform/json/slices.ts';
import { bodyKindOf, type Charset } from './bodies/body-kind.ts';
import { decodeLegacy, encodeLegacy, isEncodable, isLegacy } from './bodies/charsets.ts';
import { withoutByteOrderMark } from './bodies/utf16.ts';

/** The body is undefined if there is none. */
export type Message = {
  headers: Headers;
  body: Uint8Array | undefined;
  /** Whether token values were inserted into the message, or into the request that it answers. */
  hasValues?: boolean;
};

/** Adds to the list of a name. The list is not copied: the sender chooses how often a name is repeated. */
const addValue = (named: Record<string, string | string[]>, name: string, value: string): void => {
  const before = named[name];
  if (Array.isArray(before)) before.push(value);
  else named[name] = before === undefined ? [value] : [before, value];
};

/** A query as code reads it: a repeated name has a list of values. */
export const queryValues = (query: string): Record<string, string | string[]> => {
  const named = Object.create(null) as Record<string, string | string[]>;
  for (const [name, value] of new URLSearchParams(query))
    if (Object.hasOwn(named, name)) addValue(named, name, value);
    else named[name] = value;
  return named;
};

/** Joins repeated headers with commas (RFC 9110 section 5.3), except the two that contain commas (RFC 6265 sections 3, 5.4). */
export const namedHeaders = (headers: Headers): Record<string, string | string[]> => {
  const named = Object.create(null) as Record<string, string | string[]>;
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    const before = named[key];
    if (key === 'set-cookie') addValue(named, key, value);
    else named[key] = before === undefined ? value : `${before as string}${key === 'cookie' ? '; ' : ', '}${value}`;
  }
  return named;
};

export const charsetOf = (headers: Headers): Charset => {
  const kind = bodyKindOf(headers);
  return 'charset' in kind ? kind.charset : 'utf8';
};

export const isJson = (headers: Headers): boolean => bodyKindOf(headers).kind === 'json';

/** The body as text; undefined if there is none. */
export const textOf = ({ headers, body }: Message): string | undefined =>
  body === undefined || body.byteLength === 0
    ? undefined
    : decodeAs(charsetOf(headers), Buffer.from(body.buffer, body.byteOffset, body.byteLength));

const decodeAs = (charset: Charset, bytes: Buffer): string =>
  isLegacy(charset)
    ? (runAtOnce(decodeLegacy(bytes, charset)) ?? new TextDecoder(charset).decode(bytes))
    : bytes.toString(charset);

/** Undefined for a text that the charset does not hold. */
export const encodeText = (text: string, charset: Charset): Buffer | undefined => {
  if (isLegacy(charset)) return isEncodable(text, charset) ? encodeLegacy(text, charset) : undefined;
  return charset === 'latin1' && /[^\0-\xff]/.test(text) ? undefined : Buffer.from(text, charset);
};

/** JSON as a value, any other body as text, no body as null. `problem`: why code must not get the value. */
export function* readValue(message: Message): Slices<OutsideJson> {
  const text = textOf(message);
  if (text === undefined || !isJson(message.headers)) return { value: text ?? null, problem: undefined };
  try {
    return yield* parseOutsideInSlices(withoutByteOrderMark(text));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof JsonSyntaxError) return { value: text, problem: undefined };
    throw error;
  }
}
