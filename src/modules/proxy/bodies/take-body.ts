// Reads a request body into memory if it must be searched or transformed. Otherwise, or if it is too large, streams it.
import type { ReactorsContext } from '../../reactors/context.ts';
import type { Headers } from '../../../platform/egress/headers.ts';
import { type Account, FREE_BYTES } from '../../../platform/base/accounts.ts';
import { AppError, payloadTooLarge, unsupportedMediaType } from '../../../platform/base/errors.ts';
import { RUN_BYTES_MAX } from '../../../platform/sandbox/protocol/sandbox.ts';
import { EXPANDED_BYTES_MAX } from '../../tokens/expressions/meter.ts';
import type { BodyKind } from './body-kind.ts';
import {
  checkCodings,
  DECODED_BYTES_MAX,
  type DecodedBody,
  decodeRequest,
  isCoded,
  RESERVATION_STEP_BYTES,
  type Reservations,
} from './coded-body.ts';
import { watchBody } from '../watch.ts';

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
  { kind, declaredKind, headers, isUnsupportedJson, isTransformed, hasMarks }: BodyUse,
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
  if (!isSearched && !hasMarks) return { ...nothing, chunks: limited(body, most, refuse) };
  if (bodyBytes !== undefined && bodyBytes > SEARCHED_BYTES_MAX)
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
    if (bytes > SEARCHED_BYTES_MAX) return streamed();
    // By the bytes received, not those declared: a client that declares much and sends little reserves nothing.
    for (; bytes > FREE_BYTES + steps * RESERVATION_STEP_BYTES; steps += 1) {
      const refusal = ctx.accounts.findRefusal(account, 'request_bytes', RESERVATION_STEP_BYTES);
      if (!refusal) reservations.push(ctx.accounts.hold(account, 'request_bytes', RESERVATION_STEP_BYTES));
      else if (isTransformed || isDecoded || hasMarks) throw refusal;
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
