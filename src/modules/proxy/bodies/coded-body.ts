// Decodes compressed request bodies, to search them for expressions, and for code those in UTF-16.
// The original body is forwarded unless a value was inserted or code reads it.
import type { ReactorsContext } from '../../reactors/context.ts';
import { codingsOf, DECODABLE_CODINGS, decodeBody, isDecodable, LAYERS_MAX } from '../../../platform/egress/body.ts';
import { EgressFault } from '../../../platform/base/egress-fault.ts';
import type { Headers } from '../../../platform/egress/headers.ts';
import { type Account, FREE_BYTES, type Reservation } from '../../../platform/base/accounts.ts';
import { AppError, invalidField, payloadTooLarge } from '../../../platform/base/errors.ts';
import { EXPANDED_BYTES_MAX } from '../../tokens/expressions/meter.ts';
import { type BodyKind, decodedHeaders, isMarkup } from './body-kind.ts';
import type { Message } from '../message.ts';
import { writeDeclaredEncoding } from './text-charset.ts';
import { isInUtf16, readUtf16, withoutByteOrderMark } from './utf16.ts';

/** A larger body cannot be searched for expressions. */
export const DECODED_BYTES_MAX = EXPANDED_BYTES_MAX;

/** `Accept-Encoding` of a refusal (RFC 9110 section 15.5.16). */
export const READABLE_CODINGS = DECODABLE_CODINGS;

/** Memory is reserved in steps of this. */
export const RESERVATION_STEP_BYTES = 128 * 1024;

/** UTF-8 has at most three bytes for two bytes of UTF-16. */
const UTF8_GROWTH = 1.5;

/** The memory that a request reserves for its bodies. It is released after the response. */
export type Reservations = Pick<Reservation, 'release'>[];

export const isCoded = (headers: Headers): boolean => codingsOf(headers).length > 0;

/** @throws unsupported_content_coding for an unknown coding, and for too many of them. */
export const checkCodings = (headers: Headers): void => {
  if (isDecodable(headers) && codingsOf(headers).length <= LAYERS_MAX) return;
  throw new AppError(
    'unsupported_content_coding',
    `The Content-Encoding must be one or two of ${DECODABLE_CODINGS}: the proxy looks at the body.`,
  );
};

/** A body without content codings, and for code in UTF-8. @param utf16 the bytes before their conversion from UTF-16. */
export type DecodedBody = { bytes: Buffer; utf16?: Buffer };

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
