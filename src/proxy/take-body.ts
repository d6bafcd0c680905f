// A request's body on its way to the destination: whole where it must be looked at, and a stream where it need not be, or
// is too large for it. Bounded either way.
import type { Context } from '../context.ts';
import type { Headers } from '../egress/headers.ts';
import { FREE_BYTES, type Room } from '../egress/room.ts';
import { EgressFault } from '../egress/fault.ts';
import { AppError, payloadTooLarge, unsupportedMediaType } from '../errors.ts';
import { RUN_BYTES_MAX } from '../sandbox/sandbox.ts';
import { EXPANDED_BYTES_MAX } from '../vault/meter.ts';
import type { BodyKind } from './body-kind.ts';
import { DECODED_BYTES_MAX, type DecodedBody, decodeRequest, isCoded, refuseUnreadable } from './coded-body.ts';
import { watchBody } from './watch.ts';

/** A body larger than what it may expand to (decisions.md section 4) has no expressions, or is refused for them. */
const LOOKED_AT_BYTES_MAX = EXPANDED_BYTES_MAX;

export type IncomingBody = {
  body: AsyncIterable<Uint8Array> | undefined;
  /** As announced. */
  bodyBytes: number | undefined;
};

/** Whole, or in pieces, or none at all. Whole also decoded, where it cannot be looked at as it came. */
export type TakenBody = {
  whole: Buffer | undefined;
  decoded: DecodedBody | undefined;
  pieces: AsyncIterable<Uint8Array> | undefined;
};

/** Room is taken in steps of this. */
const ROOM_BYTES = 128 * 1024;

/** The room that a request holds, also for what was made of it: given back when its answer is through. */
export type Held = Pick<Room, 'release'>[];

const tooLarge = (bytesMax: number) => payloadTooLarge(`The body must be at most ${bytesMax} bytes.`);

async function* limited(
  body: AsyncIterable<Uint8Array>,
  bytesMax: number,
  refuse: () => AppError,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.byteLength;
    if (bytes > bytesMax) throw refuse();
    yield piece;
  }
}

async function* joined(first: Uint8Array[], rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    // Taken out one by one: what has left is not kept until the last has.
    for (let piece = first.shift(); piece; piece = first.shift()) yield piece;
    for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
  } finally {
    await rest.return?.();
  }
}

type Asked = {
  kind: BodyKind;
  said: BodyKind;
  headers: Headers;
  isUnread: boolean;
  isTransformed: boolean;
  hasMarks: boolean;
};

/**
 * @param kind what is in the body; `bytes` are never looked at.
 * @param said what the destination will take it for.
 * @param headers of the request.
 * @param isUnread whether it is JSON in a charset that code would read otherwise than the destination does.
 * @param isTransformed whether code is to see it, and so all of it.
 * @param hasMarks whether code made it: no mark may leave, in bytes neither.
 * @param held gets the room that the body takes.
 * @throws payloadTooLarge; unsupported_media_type for code that would see another text; unsupported_content_coding for a
 * body that is looked at; EgressFault BUSY.
 */
export const takeBody = async (
  ctx: Pick<Context, 'config' | 'egress'>,
  tenant_id: string,
  { body, bodyBytes }: IncomingBody,
  { kind, said, headers, isUnread, isTransformed, hasMarks }: Asked,
  held: Held,
): Promise<TakenBody> => {
  const nothing: TakenBody = { whole: undefined, decoded: undefined, pieces: undefined };
  if (body === undefined) return nothing;
  const isLookedAt = isTransformed || kind.kind !== 'bytes';
  const isDecoded = isLookedAt && isCoded(headers);
  const bytesMax = isTransformed
    ? RUN_BYTES_MAX
    : Math.min(ctx.config.proxyBodyBytesMax, isDecoded ? DECODED_BYTES_MAX : Infinity);
  // Made when it is needed: an error costs more than all else that is done for a small body.
  let overSize: AppError | undefined;
  const refuse = () => (overSize ??= tooLarge(bytesMax));
  if (isDecoded) refuseUnreadable(headers);
  if (bodyBytes !== undefined && bodyBytes > bytesMax) throw refuse();
  if (isTransformed && isUnread)
    throw unsupportedMediaType('JSON that code transforms must be in UTF-8, UTF-16 or ISO-8859-1.');
  // One whose length was announced is held to it.
  const most = bodyBytes ?? bytesMax;
  if (!isLookedAt && !hasMarks) return { ...nothing, pieces: limited(body, most, refuse) };
  if (bodyBytes !== undefined && bodyBytes > LOOKED_AT_BYTES_MAX)
    return { ...nothing, pieces: watchBody(kind, limited(body, most, refuse)) };

  const reader = body[Symbol.asyncIterator]();

  const pieces: Uint8Array[] = [];
  let rooms = 0;
  let bytes = 0;
  const streamed = (refusal?: AppError): TakenBody => {
    const watched = watchBody(kind, limited(joined(pieces, reader), most, refuse));
    return {
      ...nothing,
      pieces: refusal
        ? refusing(watched, (error) => (error instanceof AppError && error !== overSize ? refusal : error))
        : watched,
    };
  };
  for (let next = await reader.next(); !next.done; next = await reader.next()) {
    pieces.push(next.value);
    bytes += next.value.byteLength;
    if (bytes > most) throw refuse();
    if (bytes > LOOKED_AT_BYTES_MAX) return streamed();
    // By what is held, not by what is announced: whoever announces much and sends little keeps no room from others.
    for (; bytes > FREE_BYTES + rooms * ROOM_BYTES; rooms += 1) {
      const room = takeRoom(ctx, tenant_id);
      if (room) held.push(room);
      else if (isTransformed || isDecoded || hasMarks) throw new EgressFault('BUSY');
      else return streamed(busy());
    }
  }
  if (bytes === 0) return nothing;
  const joinedBytes = pieces.length === 1 ? (pieces[0] as Uint8Array) : Buffer.concat(pieces);
  const whole = Buffer.from(joinedBytes.buffer, joinedBytes.byteOffset, joinedBytes.byteLength);
  if (!isLookedAt) return { ...nothing, whole };
  const coded = { headers, kind: isTransformed ? said : kind, whole };
  const limits = { bytesMax: isTransformed ? RUN_BYTES_MAX : DECODED_BYTES_MAX, isTransformed };
  return { ...nothing, whole, decoded: await decodeRequest(ctx, tenant_id, coded, limits, held) };
};

const takeRoom = (ctx: Pick<Context, 'egress'>, tenant_id: string): Room | undefined => {
  try {
    return ctx.egress.rooms.takeForRequest(tenant_id, ROOM_BYTES);
  } catch (error) {
    if (error instanceof EgressFault && error.code === 'BUSY') return undefined;
    throw error;
  }
};

const busy = (): AppError =>
  new AppError('unavailable', 'There is no room to look for expressions in a body as large as this. Try again.', {
    retryAfterSeconds: 1,
  });

/** A body that there is no room for goes on as a stream, as long as it has no expression. */
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
