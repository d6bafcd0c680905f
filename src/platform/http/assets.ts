// Serves static files and generated texts of pages, compressed once. The path of a file has a hash of its content, so that
// browsers may cache it for good. Files must not contain secrets or data of clients.
import { crc32, gunzip, gzip } from 'node:zlib';
import { promisify } from 'node:util';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { App } from './app-type.ts';

export type Asset = { path: string; type: string; content: Buffer };

const types: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
};

/** @param folder its path, such as `/docs`; @param name its name, whose extension gives the content type. */
export const asset = (folder: string, name: string, content: Buffer): Asset => {
  const dot = name.lastIndexOf('.');
  const hash = crc32(content).toString(16).padStart(8, '0');
  const type = types[name.slice(dot + 1)];
  if (type === undefined) throw new Error(`There is no content type for the extension of ${name}.`);
  return { path: `${folder}/${name.slice(0, dot)}.${hash}${name.slice(dot)}`, type, content };
};

const gzipAsync = promisify(gzip);
const gunzipAsync = promisify(gunzip);

/** A text that is made when it is first asked for, and kept compressed. @param make its errors are those of the request. */
export const createPacked = (make: () => string | Buffer): (() => Promise<Buffer>) => {
  let packed: Promise<Buffer> | undefined;
  return () => (packed ??= gzipAsync(make()));
};

/** Sends a packed text, unpacked to a client that does not take gzip. */
export const sendPacked = async (
  request: FastifyRequest,
  reply: FastifyReply,
  type: string,
  packed: () => Promise<Buffer>,
): Promise<FastifyReply> => {
  reply.headers({ 'content-type': type, vary: 'accept-encoding' });
  const content = await packed();
  if (!/\bgzip\b/.test(String(request.headers['accept-encoding']))) return reply.send(await gunzipAsync(content));
  return reply.header('content-encoding', 'gzip').send(content);
};

export const serveAsset = (app: App, { path, type, content }: Asset): void => {
  const packed = createPacked(() => content);
  app.get(path, { config: { permission: null }, schema: { hide: true } }, async (request, reply) => {
    reply.header('cache-control', 'public, max-age=31536000, immutable');
    return sendPacked(request, reply, type, packed);
  });
};
