// A request or response as code sees it: headers by name, and the body as JSON or text.
import { isUtf8 } from 'node:buffer';
import type { Headers } from '../../platform/egress/headers.ts';
import { type JsonFinding, JsonSyntaxError } from '../../platform/json/json-parser.ts';
import { type OutsideJson, parseOutsideInSlices } from '../../platform/json/json-shape.ts';
import { runAtOnce, type Slices } from '../../platform/json/slices.ts';
import { bodyKindOf, type Charset } from './bodies/body-kind.ts';
import { encodeHeld, isLegacy, readLegacy } from './bodies/charsets.ts';
import { charsetOfText, withoutByteOrderMark } from './bodies/text-charset.ts';
import { invalidField } from '../../platform/base/errors.ts';
import { formatPath } from '../../platform/json/json.ts';

/** The body is undefined if there is none. */
export type Message = {
  headers: Headers;
  body: Uint8Array | undefined;
  /** Whether token values were inserted into the message, or into the request that it answers. */
  hasValues?: boolean;
  /** The message before its body was decoded. It is sent if code leaves the body as it is. */
  coded?: { headers: Headers; body: Uint8Array | undefined } | undefined;
  /** The message before its charset was converted, if it was. */
  raw?: { headers: Headers; body: Uint8Array } | undefined;
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

const nothing = Buffer.alloc(0);

export const bufferOf = (bytes: Uint8Array = nothing): Buffer =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Undefined for a declared charset that is not supported. */
export const charsetOf = ({ headers, body }: Message): Charset | undefined => {
  const kind = bodyKindOf(headers);
  return 'charset' in kind ? charsetOfText(kind, bufferOf(body)) : 'utf8';
};

export const isJson = (headers: Headers): boolean => bodyKindOf(headers).kind === 'json';

type ReadText = { text: string; isInCharset: boolean };

/** Bytes that are no text in the charset become U+FFFD. */
function* readText(message: Message): Slices<ReadText | undefined> {
  const { body } = message;
  if (body === undefined || body.byteLength === 0) return undefined;
  const bytes = bufferOf(body);
  const charset = charsetOf(message) ?? 'utf8';
  if (!isLegacy(charset)) return { text: bytes.toString(charset), isInCharset: charset === 'latin1' || isUtf8(bytes) };
  return yield* readLegacy(bytes, charset);
}

/** The body as text, for a small one; undefined if there is none. */
export const textOf = (message: Message): string | undefined => runAtOnce(readText(message))?.text;

/** Undefined for a text that the charset does not hold. */
export function* encodeText(text: string, charset: Charset): Slices<Buffer | undefined> {
  if (isLegacy(charset)) return yield* encodeHeld(text, charset);
  return charset === 'latin1' && /[^\0-\xff]/.test(text) ? undefined : Buffer.from(text, charset);
}

/** `isJson`: whether it was parsed as JSON. `isInCharset`: whether the body is text. If not, the value has U+FFFD. */
export type ReadBody = OutsideJson & { isJson: boolean; isInCharset: boolean };

export const NOT_IN_CHARSET = 'must be in UTF-8, or in the charset that it says';

/**
 * JSON as a value, any other body as text, no body as null. JSON with a problem or a loss is not what its receiver reads: code does
 * not get it.
 */
export function* readValue(message: Message): Slices<ReadBody> {
  const read = yield* readText(message);
  const { text = null, isInCharset = true } = read ?? {};
  const asText = { value: text, problem: undefined, loss: undefined, isJson: false, isInCharset };
  if (read === undefined || !isJson(message.headers)) return asText;
  try {
    const json = yield* parseOutsideInSlices(withoutByteOrderMark(read.text));
    const loss: JsonFinding | undefined = isInCharset
      ? json.loss
      : { path: '', sentence: NOT_IN_CHARSET, code: 'invalid' };
    return { ...json, loss, isJson: true, isInCharset };
  } catch (error) {
    if (error instanceof JsonSyntaxError) return asText;
    throw error;
  }
}

/** What is wrong with an answer, as a sentence. A name that the destination chose could be a value. @param body what the body is called. */
export const answerProblem = ({ path, sentence }: JsonFinding, body: string): string =>
  `${path === '' ? 'The' : 'A member in the'} ${body} ${sentence}.`;

// Headers that hold a digest of the body. None may describe another body than the one that is sent.

/** RFC 9530, RFC 3230, RFC 1864, and headers of cloud services, by lower-case name. */
const digestNames: ReadonlySet<string> = new Set([
  'content-digest',
  'content-md5',
  'digest',
  'repr-digest',
  'x-amz-content-sha256',
  'x-content-sha256',
  'x-goog-content-sha256',
  'x-goog-hash',
  'x-ms-blob-content-md5',
  'x-ms-content-crc64',
  'x-ms-content-sha256',
]);

const amazonChecksum = /^x-amz-checksum-(?!(?:algorithm|mode|type)$)/;

/** In place of a digest, Amazon's header may have a word such as UNSIGNED-PAYLOAD. */
const isDigest = (name: string, value: string): boolean =>
  (digestNames.has(name) && (name !== 'x-amz-content-sha256' || /^[0-9a-f]{64}$/i.test(value.trim()))) ||
  amazonChecksum.test(name);

/** Headers about exact bytes: digests, signatures and the version of the content. */
const ofBytes = new Set(['etag', 'signature', 'signature-input']);

/** The headers that do not describe the bytes of the body. */
export const withoutByteHeaders = (headers: Headers): Headers =>
  headers.filter(([name, value]) => !ofBytes.has(name.toLowerCase()) && !isDigest(name.toLowerCase(), value));

const keyOf = ([name, value]: Headers[number]): string => `${name.toLowerCase()}:${value.trim()}`;

/** The digests of `sent` that are the same as in `came`, whose body was another. A digest that code or an expression set is left out. */
export const staleDigests = (came: Headers, sent: Headers): Headers => {
  const before = new Set(came.filter(([name, value]) => isDigest(name.toLowerCase(), value)).map(keyOf));
  return before.size === 0 ? [] : sent.filter((line) => before.has(keyOf(line)));
};

const STALE =
  'must not be there: the body that it describes is changed by values of tokens or by a transform. Leave it out, or let the request transform set it';

/** @param place of what has the headers. @throws invalidInput. */
export const refuseStaleDigests = (came: Headers, sent: Headers, place: readonly (string | number)[] = []): void => {
  const [stale] = staleDigests(came, sent);
  if (stale) throw invalidField(formatPath([...place, 'headers', stale[0]]), STALE);
};
