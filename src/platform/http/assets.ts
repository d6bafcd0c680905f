// Serves static files of pages, compressed once. Their path has a hash of their content, so that browsers may cache them for
// good. They must not contain secrets or data of clients.
import { crc32, gzip } from 'node:zlib';
import { promisify } from 'node:util';
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

export const serveAsset = (app: App, { path, type, content }: Asset): void => {
  let compressed: Promise<Buffer> | undefined;
  app.get(path, { config: { permission: null }, schema: { hide: true } }, async (request, reply) => {
    reply.headers({
      'content-type': type,
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'accept-encoding',
    });
    if (!/\bgzip\b/.test(String(request.headers['accept-encoding']))) return content;
    compressed ??= promisify(gzip)(content);
    reply.header('content-encoding', 'gzip');
    return compressed;
  });
};
