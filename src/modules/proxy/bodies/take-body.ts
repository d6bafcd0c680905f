// Reads a request body into memory if it must be searched or transformed. Otherwise, or if it is too large, streams it.
import type { ReactorsContext } from '../../reactors/context.ts';
import { codingsOf, DECODABLE_CODINGS, decodeBody, isDecodable, LAYERS_MAX } from '../../../platform/egress/body.ts';
import { EgressFault } from '../../../platform/base/egress-fault.ts';
import type { Headers } from '../../../platform/egress/headers.ts';
import { type Account, FREE_BYTES, type Reservation } from '../../../platform/base/accounts.ts';
import { AppError, invalidField, payloadTooLarge, unsupportedMediaType } from '../../../platform/base/errors.ts';
import { EXPANDED_BYTES_MAX } from '../../tokens/expressions/meter.ts';
import {
  type BodyKind,
  bodyKindOf,
  charsetOf,
  decodedHeaders,
  inUtf8Headers,
  isMarkup,
  utf16Label,
} from './body-kind.ts';
import type { Message } from '../message.ts';
import {
  charsetOfText,
  isInUtf16,
  readUtf16,
  utf16Of,
  utf16OfMark,
  withoutByteOrderMark,
  writeDeclaredEncoding,
} from './text-charset.ts';
import { isLegacy, legacyCharsetOf, readLegacy } from './charsets.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import { RUN_BYTES_MAX } from '../../../platform/sandbox/protocol/sandbox.ts';
import { watchBody } from '../watch.ts';

// Decodes compressed request bodies, to search them for expressions, and for code those in UTF-16.
// The original body is forwarded unless a value was inserted or code reads it.

/** A larger body cannot be searched for expressions. */
const DECODED_BYTES_MAX = EXPANDED_BYTES_MAX;

/** `Accept-Encoding` of a refusal (RFC 9110 section 15.5.16). */
export const READABLE_CODINGS = DECODABLE_CODINGS;

/** Memory is reserved in steps of this. */
const RESERVATION_STEP_BYTES = 128 * 1024;

/** UTF-8 has at most three bytes for two bytes of UTF-16. */
const UTF8_GROWTH = 1.5;

/** The memory that a request reserves for its bodies. It is released after the response. */
export type Reservations = Pick<Reservation, 'release'>[];

const isCoded = (headers: Headers): boolean => codingsOf(headers).length > 0;

/** @throws unsupported_content_coding for an unknown coding, and for too many of them. */
const checkCodings = (headers: Headers): void => {
  if (isDecodable(headers) && codingsOf(headers).length <= LAYERS_MAX) return;
  throw new AppError(
    'unsupported_content_coding',
    `The Content-Encoding must be one or two of ${DECODABLE_CODINGS}: the proxy looks at the body.`,
  );
};

/** A body without content codings, and for code in UTF-8. @param utf16 the bytes before their conversion from UTF-16. */
type DecodedBody = { bytes: Buffer; utf16?: Buffer };

/**
 * @param hasValues whether values were inserted into the body. Otherwise the original body is sent, unless code changes it.
 * @param isRead whether code reads the body.
 */
export const sentOf = (
  decoded: DecodedBody | undefined,
  { hasValues, isRead }: { hasValues: boolean; isRead: boolean },
  { headers, body }: { headers: Headers; body: Uint8Array | undefined },
  whole: Uint8Array | undefined,
): Pick<Message, 'headers' | 'body' | 'coded' | 'raw'> => {
  if (!decoded) return { headers, body };
  const coded = { headers, body: whole };
  if (!hasValues && !isRead) return coded;
  // A destination that does not know UTF-16 would read another text than code has seen.
  const { utf16 } = decoded;
  const raw = hasValues || !utf16 ? undefined : { headers: decodedHeaders(headers, false), body: utf16 };
  const mayLeave = !hasValues && !utf16;
  return { headers: decodedHeaders(headers, utf16 !== undefined), body, coded: mayLeave ? coded : undefined, raw };
};

type DecodeContext = Pick<ReactorsContext, 'accounts'>;

/**
 * @param kind of the decoded body.
 * @param bytesMax the limit of the decoded body.
 * @param reservations receives the memory that the decoded body reserves.
 * @returns undefined for a body that needs no decoding.
 * @throws invalidInput for a broken body; payloadTooLarge; as `reserve` of accounts.
 */
export const decodeRequest = async (
  ctx: DecodeContext,
  account: Account,
  { headers, kind, whole }: { headers: Headers; kind: BodyKind; whole: Buffer },
  { bytesMax, isTransformed }: { bytesMax: number; isTransformed: boolean },
  reservations: Reservations,
): Promise<DecodedBody | undefined> => {
  const bytes = isCoded(headers) ? await decodeCodings(ctx, account, headers, whole, bytesMax, reservations) : whole;
  if (isTransformed && 'charset' in kind && isInUtf16(kind, bytes)) {
    const most = Math.ceil(bytes.byteLength * UTF8_GROWTH);
    if (most > FREE_BYTES) reservations.push(ctx.accounts.reserve(account, 'request_bytes', most));
    const read = readUtf16(kind, bytes, 'body');
    if (read) {
      const text = withoutByteOrderMark(read.text);
      return { bytes: Buffer.from(isMarkup(kind.kind) ? writeDeclaredEncoding(text) : text), utf16: bytes };
    }
    // Code would read another text than the destination.
    throw invalidField('body', 'must be in UTF-8, or in the charset that it says');
  }
  return bytes === whole ? undefined : { bytes };
};

/** Reserves memory as the body grows: a small body with a Content-Encoding reserves nothing. */
const decodeCodings = async (
  ctx: DecodeContext,
  account: Account,
  headers: Headers,
  whole: Buffer,
  bytesMax: number,
  reservations: Reservations,
): Promise<Buffer> => {
  const taken: Reservation[] = [];
  let bytes = 0;
  try {
    const decoded = await decodeBody(headers, whole, bytesMax, (chunkBytes) => {
      // Each chunk is in memory twice: alone, and when all are joined.
      bytes += 2 * chunkBytes;
      while (bytes > FREE_BYTES + taken.length * RESERVATION_STEP_BYTES)
        taken.push(ctx.accounts.reserve(account, 'request_bytes', RESERVATION_STEP_BYTES));
    });
    for (let kept = FREE_BYTES; kept < decoded.byteLength; kept += RESERVATION_STEP_BYTES)
      reservations.push(taken.pop() as Reservation);
    return decoded;
  } catch (error) {
    if (!(error instanceof EgressFault)) throw error;
    if (error.code === 'BODY_TOO_LARGE')
      throw payloadTooLarge(`The body must be at most ${bytesMax} bytes when it is decoded.`);
    if (error.code === 'DECODE') throw invalidField('body', 'must be in the coding that Content-Encoding says');
    throw error;
  } finally {
    for (const reservation of taken) reservation.release();
  }
};

// Converts a response in another charset to UTF-8, for code to read.

/** Parameter of a content type, read as leniently as most receivers read it. */
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

/** A larger body has no expressions, or is refused for them: its expansion would exceed the limit. */
const SEARCHED_BYTES_MAX = EXPANDED_BYTES_MAX;

export type IncomingBody = {
  body: AsyncIterable<Uint8Array> | undefined;
  /** The Content-Length. */
  bodyBytes: number | undefined;
};

/** In memory, as a stream, or absent. `decoded` is set if the body in memory is compressed or UTF-16. */
export type TakenBody = {
  whole: Buffer | undefined;
  decoded: DecodedBody | undefined;
  chunks: AsyncIterable<Uint8Array> | undefined;
};

const tooLarge = (bytesMax: number) => payloadTooLarge(`The body must be at most ${bytesMax} bytes.`);

async function* limited(
  body: AsyncIterable<Uint8Array>,
  bytesMax: number,
  refuse: () => AppError,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    if (bytes > bytesMax) throw refuse();
    yield chunk;
  }
}

async function* joined(first: Uint8Array[], rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    // Removed one by one, so that a chunk is not kept after it was sent.
    for (let chunk = first.shift(); chunk; chunk = first.shift()) yield chunk;
    for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
  } finally {
    await rest.return?.();
  }
}

/** Waits for the first FREE_BYTES of a body, or for its end: a slow client must not hold a connection to the destination. */
export const begun = async (body: AsyncIterable<Uint8Array>): Promise<AsyncIterable<Uint8Array>> => {
  const reader = body[Symbol.asyncIterator]();
  const first: Uint8Array[] = [];
  for (let bytes = 0; bytes < FREE_BYTES; bytes += first.at(-1)?.byteLength ?? 0) {
    const next = await reader.next();
    if (next.done) break;
    first.push(next.value);
  }
  return joined(first, reader);
};

type BodyUse = {
  kind: BodyKind;
  declaredKind: BodyKind;
  headers: Headers;
  isUnsupportedJson: boolean;
  isTransformed: boolean;
  hasMarks: boolean;
  /** Whether it must be in memory as a whole, whatever is in it. */
  isHeld: boolean;
};

/**
 * @param kind the kind by which the body is searched; `bytes` are not.
 * @param declaredKind the kind by which the destination will read it.
 * @param headers of the request.
 * @param isUnsupportedJson whether it is JSON in a charset that code would read differently than the destination.
 * @param isTransformed whether code reads the body, and so needs all of it.
 * @param hasMarks whether code made the request: no mark may be sent, even in a body that is not searched.
 * @param reservations receives the memory that the body reserves.
 * @throws payloadTooLarge; unsupported_media_type for code that would read another text; unsupported_content_coding for a
 * body that is searched; as `reserve` of accounts.
 */
export const takeBody = async (
  ctx: Pick<ReactorsContext, 'config' | 'accounts'>,
  account: Account,
  { body, bodyBytes }: IncomingBody,
  { kind, declaredKind, headers, isUnsupportedJson, isTransformed, hasMarks, isHeld }: BodyUse,
  reservations: Reservations,
): Promise<TakenBody> => {
  const nothing: TakenBody = { whole: undefined, decoded: undefined, chunks: undefined };
  if (body === undefined) return nothing;
  const isSearched = isTransformed || kind.kind !== 'bytes';
  const isDecoded = isSearched && isCoded(headers);
  const bytesMax = isTransformed
    ? RUN_BYTES_MAX
    : Math.min(ctx.config.proxyBodyBytesMax, isDecoded ? DECODED_BYTES_MAX : Infinity);
  // Created when needed: an error costs more than everything else for a small body.
  let overSize: AppError | undefined;
  const refuse = () => (overSize ??= tooLarge(bytesMax));
  if (isDecoded) checkCodings(headers);
  if (bodyBytes !== undefined && bodyBytes > bytesMax) throw refuse();
  if (declaredKind.kind === 'refused' && (isTransformed || kind.kind !== 'bytes') && bodyBytes !== 0)
    throw declaredKind.refuse('body');
  if (isTransformed && isUnsupportedJson)
    throw unsupportedMediaType('JSON that code transforms must be in UTF-8, UTF-16 or ISO-8859-1.');
  // A body with a Content-Length must not exceed it.
  const most = bodyBytes ?? bytesMax;
  if (!isSearched && !hasMarks && !isHeld) return { ...nothing, chunks: limited(body, most, refuse) };
  if (bodyBytes !== undefined && bodyBytes > SEARCHED_BYTES_MAX && !isHeld)
    return { ...nothing, chunks: watchBody(kind, limited(body, most, refuse)) };

  const reader = body[Symbol.asyncIterator]();

  const chunks: Uint8Array[] = [];
  let steps = 0;
  let bytes = 0;
  const streamed = (refusal?: AppError): TakenBody => {
    const watched = watchBody(kind, limited(joined(chunks, reader), most, refuse));
    return {
      ...nothing,
      chunks: refusal
        ? refusing(watched, (error) => (error instanceof AppError && error !== overSize ? refusal : error))
        : watched,
    };
  };
  for (let next = await reader.next(); !next.done; next = await reader.next()) {
    chunks.push(next.value);
    bytes += next.value.byteLength;
    if (bytes > most) throw refuse();
    if (bytes > SEARCHED_BYTES_MAX && isHeld) throw tooLarge(SEARCHED_BYTES_MAX);
    if (bytes > SEARCHED_BYTES_MAX) return streamed();
    // Bytes are reserved as received, not as declared: a client that declares much and sends little reserves nothing.
    for (; bytes > FREE_BYTES + steps * RESERVATION_STEP_BYTES; steps += 1) {
      const refusal = ctx.accounts.findRefusal(account, 'request_bytes', RESERVATION_STEP_BYTES);
      if (!refusal) reservations.push(ctx.accounts.hold(account, 'request_bytes', RESERVATION_STEP_BYTES));
      else if (isTransformed || isDecoded || hasMarks || isHeld) throw refusal;
      else return streamed(refusal);
    }
  }
  if (bytes === 0) return nothing;
  const joinedBytes = chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks);
  const whole = Buffer.from(joinedBytes.buffer, joinedBytes.byteOffset, joinedBytes.byteLength);
  if (!isSearched) return { ...nothing, whole };
  const coded = { headers, kind: isTransformed ? declaredKind : kind, whole };
  const limits = { bytesMax: isTransformed ? RUN_BYTES_MAX : DECODED_BYTES_MAX, isTransformed };
  return { ...nothing, whole, decoded: await decodeRequest(ctx, account, coded, limits, reservations) };
};

/** Replaces the errors of a stream: a body that cannot be searched for lack of memory is forwarded if it has no expression. */
async function* refusing(
  body: AsyncIterable<Uint8Array>,
  asRefused: (error: unknown) => unknown,
): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    throw asRefused(error);
  }
}
