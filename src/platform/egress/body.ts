// The body of an answer in memory: bounded as it was sent, and bounded again as it is decoded.
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import { FREE_BYTES } from '../accounts.ts';
import type { EgressResponse } from './client.ts';
import { EgressFault } from './fault.ts';
import type { Headers } from './headers.ts';

/** One by the application, one by a server in front of it. More is an attack on the decoder. */
export const LAYERS_MAX = 2;

/**
 * Into one buffer that is never copied but for its first FREE_BYTES.
 * @param beforeLarge is awaited once, before more than FREE_BYTES are held, with all that the body may need.
 * @throws EgressFault BODY_TOO_LARGE as soon as it is known; what breaks while it is read; what `beforeLarge` throws.
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
        // What is not written to takes no memory, however much it is.
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
  // RFC 9110 section 8.4.1.2 means zlib's format, and some servers send the bare one: the first byte tells.
  ['deflate', (body) => ((body[0] as number) % 16 === 8 ? createInflate() : createInflateRaw())],
]);

/** What a destination may be asked for whose answer is to be decoded. */
export const DECODABLE_CODINGS = 'gzip, deflate, br';

/** In the order in which they were applied. */
export const codingsOf = (headers: Headers): string[] =>
  headers
    .filter(([name]) => name.toLowerCase() === 'content-encoding')
    .flatMap(([, value]) => value.split(',').map((each) => each.trim().toLowerCase()))
    .filter((coding) => coding !== '' && coding !== 'identity');

/** Whether `decodeBody` gives the body as it was meant, and not as it came. */
export const isDecodable = (headers: Headers): boolean => codingsOf(headers).every((coding) => decoderOf.has(coding));

/** Innermost first. None where one of them is not known. @throws EgressFault DECODE when they are too many. */
const decodersOf = (headers: Headers): Decoder[] => {
  const codings = codingsOf(headers);
  if (codings.length > LAYERS_MAX) throw new EgressFault('DECODE');
  const decoders = codings.map((coding) => decoderOf.get(coding)).filter((each) => each !== undefined);
  return decoders.length === codings.length ? decoders : [];
};

/** How often a body is in memory anew when it is decoded. @throws EgressFault DECODE when it is too often. */
export const countLayers = (headers: Headers): number => decodersOf(headers).length;

/**
 * Undoes `content-encoding`: gzip, deflate and br. A body in any other coding is returned as it is, as fetch does.
 * @param beforePiece gets the bytes of each piece before it is kept; what it throws ends the work.
 * @throws EgressFault BODY_TOO_LARGE when it grows beyond `bytesMax`; DECODE for broken data or too many layers; what
 * `beforePiece` throws.
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
