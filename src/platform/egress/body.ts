// Reads and decompresses response bodies in memory. Limits the size of the body both as sent and as decoded.
import { pipeline, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import { FREE_BYTES } from '../base/accounts.ts';
import type { EgressResponse } from './client.ts';
import { EgressFault } from '../base/egress-fault.ts';
import type { Headers } from './headers.ts';

/** Content codings of a response: one by the application, one by a server in front. More is an attack on the decoder. */
export const LAYERS_MAX = 2;

/**
 * Reads a body into one buffer. At most its first FREE_BYTES are copied.
 * @param beforeLarge awaited once, before more than FREE_BYTES are held; gets the bytes that the body may need.
 * @throws EgressFault BODY_TOO_LARGE as early as possible; the error of the connection; what `beforeLarge` throws.
 */
export const readBody = async (
  { body, bodyBytes }: Pick<EgressResponse, 'body' | 'bodyBytes'>,
  bytesMax: number,
  beforeLarge: (bytes: number) => Promise<void>,
): Promise<Buffer> => {
  try {
    if (bodyBytes !== undefined && bodyBytes > bytesMax) throw new EgressFault('BODY_TOO_LARGE');
    const most = bodyBytes ?? bytesMax;
    let buffer = Buffer.allocUnsafeSlow(Math.min(most, FREE_BYTES));
    let bytes = 0;
    for await (const piece of body) {
      if (bytes + piece.byteLength > most) throw new EgressFault('BODY_TOO_LARGE');
      if (bytes + piece.byteLength > buffer.byteLength) {
        await beforeLarge(most);
        // Pages that are not written to take no memory, so the maximum size costs nothing.
        const larger = Buffer.allocUnsafeSlow(most);
        larger.set(buffer.subarray(0, bytes));
        buffer = larger;
      }
      buffer.set(piece, bytes);
      bytes += piece.byteLength;
    }
    return buffer.subarray(0, bytes);
  } catch (error) {
    body.destroy();
    throw error;
  }
};

type Decoder = (body: Buffer) => Transform;

const decoderOf = new Map<string, Decoder>([
  ['gzip', () => createGunzip()],
  ['x-gzip', () => createGunzip()],
  ['br', () => createBrotliDecompress()],
  // RFC 9110 section 8.4.1.2 defines `deflate` as zlib's format, but some servers send raw deflate. The first byte tells.
  ['deflate', (body) => ((body[0] as number) % 16 === 8 ? createInflate() : createInflateRaw())],
]);

/** The `accept-encoding` of a request whose response is to be decoded. */
export const DECODABLE_CODINGS = 'gzip, deflate, br';

/** The part of an `Accept-Encoding` that can be decoded. */
export const decodableOf = (accepted: string): string => {
  const isKnown = (each: string): boolean => {
    const coding = each.split(';', 1)[0]?.trim().toLowerCase() ?? '';
    return coding === '' || coding === 'identity' || decoderOf.has(coding);
  };
  return accepted.split(',').filter(isKnown).join(',').trimStart() || 'identity';
};

/** The content codings of a response, in the order in which they were applied. */
export const codingsOf = (headers: Headers): string[] =>
  headers
    .filter(([name]) => name.toLowerCase() === 'content-encoding')
    .flatMap(([, value]) => value.split(',').map((each) => each.trim().toLowerCase()))
    .filter((coding) => coding !== '' && coding !== 'identity');

/** Whether `decodeBody` can decode the body. If not, it returns the body as sent. */
export const isDecodable = (headers: Headers): boolean => codingsOf(headers).every((coding) => decoderOf.has(coding));

/** Decoders, innermost first; none if one coding is unknown. @throws EgressFault DECODE for too many codings. */
const decodersOf = (headers: Headers): Decoder[] => {
  const codings = codingsOf(headers);
  if (codings.length > LAYERS_MAX) throw new EgressFault('DECODE');
  const decoders = codings.map((coding) => decoderOf.get(coding)).filter((each) => each !== undefined);
  return decoders.length === codings.length ? decoders : [];
};

/** How many further copies of a body decoding makes in memory. @throws EgressFault DECODE for too many codings. */
export const countLayers = (headers: Headers): number => decodersOf(headers).length;

/**
 * Decodes `content-encoding`: gzip, deflate and br. Returns a body in any other coding as it is, as `fetch` does.
 * @param beforePiece called with the bytes of each piece before it is kept; it may throw to stop.
 * @throws EgressFault BODY_TOO_LARGE above `bytesMax`; DECODE for broken data or too many codings; what `beforePiece`
 * throws.
 */
export const decodeBody = async (
  headers: Headers,
  body: Buffer,
  bytesMax: number,
  beforePiece: (bytes: number) => void = () => {},
): Promise<Buffer> => {
  let decoded = body;
  for (const decode of decodersOf(headers).toReversed()) {
    if (decoded.byteLength === 0) return decoded;
    decoded = await decodeLayer(decode(decoded), decoded, bytesMax, beforePiece);
  }
  return decoded;
};

const decodeLayer = async (
  decoder: Transform,
  body: Buffer,
  bytesMax: number,
  beforePiece: (bytes: number) => void,
): Promise<Buffer> => {
  const pieces: Buffer[] = [];
  let bytes = 0;
  let refusal: unknown;
  decoder.end(body);
  try {
    for await (const piece of decoder as AsyncIterable<Buffer>) {
      bytes += piece.byteLength;
      try {
        if (bytes > bytesMax) throw new EgressFault('BODY_TOO_LARGE');
        beforePiece(piece.byteLength);
      } catch (error) {
        refusal = error;
        throw error;
      }
      pieces.push(piece);
    }
  } catch (cause) {
    throw refusal ?? new EgressFault('DECODE', { cause });
  }
  return Buffer.concat(pieces);
};

/**
 * Decodes a body as it comes.
 * @throws EgressFault DECODE for broken data, or a coding that is not known; the error of the connection.
 */
export const decodeStream = (headers: Headers, body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> => {
  if (!isDecodable(headers)) throw new EgressFault('DECODE');
  return decodersOf(headers).toReversed().reduce(streamLayer, body);
};

async function* streamLayer(body: AsyncIterable<Uint8Array>, decode: Decoder): AsyncGenerator<Uint8Array> {
  const reader = body[Symbol.asyncIterator]();
  let first = await reader.next();
  while (!first.done && first.value.byteLength === 0) first = await reader.next();
  if (first.done) return;
  const decoder = decode(Buffer.from(first.value));
  pipeline(rejoined(first.value, reader), decoder, () => undefined);
  try {
    for await (const piece of decoder as AsyncIterable<Buffer>) yield piece;
  } catch (cause) {
    throw cause instanceof EgressFault ? cause : new EgressFault('DECODE', { cause });
  }
}

async function* rejoined(first: Uint8Array, reader: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield first;
    for (let next = await reader.next(); !next.done; next = await reader.next()) yield next.value;
  } finally {
    await reader.return?.();
  }
}
