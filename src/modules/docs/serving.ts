// How the reference and the guides are served: without a key, made once, the same for all, and not sent again to a browser that has them.
import { crc32 } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { sendPacked } from '../../platform/http/assets.ts';

export const open = { config: { permission: null }, schema: { hide: true } } as const;

export const HTML = 'text/html; charset=utf-8';

export const once = <Value>(make: () => Value): (() => Value) => {
  let made: { value: Value } | undefined;
  return () => (made ??= { value: make() }).value;
};

const tags = new WeakMap<Buffer, string>();

/** Weak, since the packed and the unpacked form have the same one. */
const tagOf = (packed: Buffer): string => {
  const known = tags.get(packed) ?? `W/"${crc32(packed).toString(16)}-${packed.length}"`;
  tags.set(packed, known);
  return known;
};

/** Sends a text that has nothing of a request or a tenant in it. A browser may keep it, and asks whether it is still the same. */
export const sendShared = async (
  request: FastifyRequest,
  reply: FastifyReply,
  type: string,
  packed: () => Promise<Buffer>,
): Promise<FastifyReply> => {
  const tag = tagOf(await packed());
  reply.headers({ 'cache-control': 'no-cache', etag: tag });
  const known = String(request.headers['if-none-match'] ?? '').split(/\s*,\s*/);
  if (!known.includes(tag)) return sendPacked(request, reply, type, packed);
  return reply.header('vary', 'accept-encoding').status(304).send();
};
