// A request body that is not UTF-8 as it stands: compressed, or text in UTF-16. It is decoded to be looked at; what the
// caller sent goes on, unless a value was put in or code is to see it.
import type { Context } from '../context.ts';
import { codingsOf, DECODABLE_CODINGS, decodeBody, isDecodable, LAYERS_MAX } from '../egress/body.ts';
import { EgressFault } from '../egress/fault.ts';
import type { Headers } from '../egress/headers.ts';
import { FREE_BYTES, type Room } from '../egress/room.ts';
import { AppError, invalidField, payloadTooLarge } from '../errors.ts';
import { EXPANDED_BYTES_MAX } from '../vault/meter.ts';
import { type BodyKind, decodedHeaders } from './body-kind.ts';
import { writeDeclaredEncoding } from './markup-text.ts';
import { isInUtf16, readUtf16 } from './utf16.ts';

/** As much as a body may hold that is looked at: a larger one could not be searched for expressions. */
export const DECODED_BYTES_MAX = EXPANDED_BYTES_MAX;

/** What `Accept-Encoding` of a refusal says (RFC 9110 section 15.5.16). */
export const READABLE_CODINGS = DECODABLE_CODINGS;

/** A room is taken for so many bytes at once. */
const ROOM_STEP_BYTES = 128 * 1024;

/** UTF-8 has at most three bytes for two of UTF-16. */
const UTF8_GROWTH = 1.5;

export const isCoded = (headers: Headers): boolean => codingsOf(headers).length > 0;

/** @throws unsupported_content_coding for a coding that cannot be undone, and for too many of them. */
export const refuseUnreadable = (headers: Headers): void => {
  if (isDecodable(headers) && codingsOf(headers).length <= LAYERS_MAX) return;
  throw new AppError(
    'unsupported_content_coding',
    `The Content-Encoding must be one or two of ${DECODABLE_CODINGS}: the proxy looks at the body.`,
  );
};

/** A body as it can be looked at. */
export type DecodedBody = { bytes: Buffer; wasUtf16: boolean };

/** @param isSeen whether it is not the caller's body any more, or code is to see it. */
export const sentOf = (
  decoded: DecodedBody | undefined,
  isSeen: boolean,
  { headers, body }: { headers: Headers; body: Uint8Array | undefined },
  whole: Uint8Array | undefined,
): { headers: Headers; body: Uint8Array | undefined } => {
  if (!decoded) return { headers, body };
  return isSeen ? { headers: decodedHeaders(headers, decoded.wasUtf16), body } : { headers, body: whole };
};

type Rooms = Pick<Context, 'egress'>;

/**
 * @param kind of the body when its codings are undone.
 * @param bytesMax what it may decode to.
 * @param held gets the room that it takes.
 * @returns undefined for a body that can be looked at as it is.
 * @throws invalidInput for a broken body; payloadTooLarge; EgressFault BUSY.
 */
export const decodeRequest = async (
  ctx: Rooms,
  tenant_id: string,
  { headers, kind, whole }: { headers: Headers; kind: BodyKind; whole: Buffer },
  { bytesMax, isTransformed }: { bytesMax: number; isTransformed: boolean },
  held: Pick<Room, 'release'>[],
): Promise<DecodedBody | undefined> => {
  const bytes = isCoded(headers) ? await undoCodings(ctx, tenant_id, headers, whole, bytesMax, held) : whole;
  if (kind.kind !== 'bytes' && kind.kind !== 'multipart' && isInUtf16(kind, bytes)) {
    const most = Math.ceil(bytes.byteLength * UTF8_GROWTH);
    if (most > FREE_BYTES) held.push(ctx.egress.rooms.takeForRequest(tenant_id, most));
    const read = readUtf16(kind, bytes, 'body');
    if (read) {
      const text = read.text.replace(/^\ufeff/, '');
      return { bytes: Buffer.from(kind.kind === 'markup' ? writeDeclaredEncoding(text) : text), wasUtf16: true };
    }
    // Code would see another text than the destination.
    if (isTransformed) throw invalidField('body', 'must be in UTF-8, or in the charset that it says');
  }
  return bytes === whole ? undefined : { bytes, wasUtf16: false };
};

/** By what is held: a small body that says it is coded keeps no room from others. */
const undoCodings = async (
  ctx: Rooms,
  tenant_id: string,
  headers: Headers,
  whole: Buffer,
  bytesMax: number,
  held: Pick<Room, 'release'>[],
): Promise<Buffer> => {
  const rooms: Room[] = [];
  let bytes = 0;
  try {
    const decoded = await decodeBody(headers, whole, bytesMax, (piece) => {
      // Once in pieces, and once when they are joined.
      bytes += 2 * piece;
      while (bytes > FREE_BYTES + rooms.length * ROOM_STEP_BYTES)
        rooms.push(ctx.egress.rooms.takeForRequest(tenant_id, ROOM_STEP_BYTES));
    });
    for (let kept = FREE_BYTES; kept < decoded.byteLength; kept += ROOM_STEP_BYTES) held.push(rooms.pop() as Room);
    return decoded;
  } catch (error) {
    if (!(error instanceof EgressFault)) throw error;
    if (error.code === 'BODY_TOO_LARGE')
      throw payloadTooLarge(`The body must be at most ${bytesMax} bytes when it is decoded.`);
    if (error.code === 'DECODE') throw invalidField('body', 'must be in the coding that Content-Encoding says');
    throw error;
  } finally {
    for (const room of rooms) room.release();
  }
};
