// The front page, the OpenAPI document and the reference with try-it: from our own origin alone, under a strict policy.
// The page is ours, since the plugin's routes name no permission and its page loads more than it needs; the script and
// the style of swagger-ui are the plugin's.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { crc32, gzip } from 'node:zlib';
import { fastifyHelmet } from '@fastify/helmet';
import type { App } from '../../http/app-type.ts';
import { documentOf } from '../../http/openapi.ts';
import { version } from '../../version.ts';

const welcome = { name: 'Strongroom', version, docs: '/docs', openapi: '/openapi.json' };

const title = 'Strongroom API reference';

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="6" fill="#1f2937"/><circle cx="16" cy="16" r="9" fill="none" stroke="#f9fafb" stroke-width="3"/><path d="M16 9v14M9 16h14" stroke="#f9fafb" stroke-width="3"/></svg>`;

const start = `addEventListener('load', () => {
  SwaggerUIBundle({
    url: '/openapi.json',
    domNode: document.getElementById('reference'),
    deepLinking: true,
    displayRequestDuration: true,
    persistAuthorization: false,
    // The default asks a validator on the network about the document.
    validatorUrl: null,
  });
});
`;

type Asset = { path: string; type: string; content: Buffer };

/** An asset whose path changes with its content, so that it may be kept for good. */
const asset = (name: string, type: string, content: Buffer): Asset => {
  const dot = name.lastIndexOf('.');
  const hash = crc32(content).toString(16).padStart(8, '0');
  return { path: `/docs/${name.slice(0, dot)}.${hash}${name.slice(dot)}`, type, content };
};

const readAssets = () => {
  const swaggerUi = createRequire(import.meta.url).resolve('@fastify/swagger-ui/static/swagger-ui.css');
  const read = (name: string) => readFileSync(swaggerUi.replace(/swagger-ui\.css$/, name));
  const script = 'text/javascript; charset=utf-8';
  return {
    style: asset('swagger-ui.css', 'text/css; charset=utf-8', read('swagger-ui.css')),
    bundle: asset('swagger-ui-bundle.js', script, read('swagger-ui-bundle.js')),
    start: asset('start.js', script, Buffer.from(start)),
    icon: asset('icon.svg', 'image/svg+xml', Buffer.from(icon)),
  };
};

const pageOf = (assets: ReturnType<typeof readAssets>) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>${title}</title>
    <link rel="icon" type="image/svg+xml" href="${assets.icon.path}">
    <link rel="stylesheet" href="${assets.style.path}">
  </head>
  <body>
    <div id="reference"></div>
    <noscript>The reference needs JavaScript. The document it shows: <a href="/openapi.json">/openapi.json</a></noscript>
    <script src="${assets.bundle.path}"></script>
    <script src="${assets.start.path}"></script>
  </body>
</html>
`;

const open = { config: { permission: null }, schema: { hide: true } } as const;

const serveAsset = (app: App, { path, type, content }: Asset): void => {
  // Nothing secret and no caller's text is in it, so it may be compressed; once, and only when somebody looks.
  let compressed: Promise<Buffer> | undefined;
  app.get(path, open, async (request, reply) => {
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

export const docsRoutes = async (app: App): Promise<void> => {
  app.get('/', open, async (request, reply) => {
    reply.header('vary', 'accept');
    return (request.headers.accept ?? '').includes('text/html') ? reply.redirect('/docs', 302) : welcome;
  });
  app.get('/openapi.json', open, async () => documentOf(app));

  await app.register(async (scope: App) => {
    await scope.register(fastifyHelmet, {
      contentSecurityPolicy: {
        useDefaults: false,
        directives: {
          defaultSrc: ["'none'"],
          scriptSrc: ["'self'"],
          // swagger-ui sets style attributes.
          styleSrc: ["'self'", "'unsafe-inline'"],
          imgSrc: ["'self'", 'data:'],
          connectSrc: ["'self'"],
          formAction: ["'self'"],
          baseUri: ["'none'"],
          frameAncestors: ["'none'"],
        },
      },
      frameguard: { action: 'deny' },
      // TLS ends in front of us, or not at all on a developer's machine; who ends it says so.
      hsts: false,
    });
    const assets = readAssets();
    const page = pageOf(assets);
    scope.get('/docs', open, async (_request, reply) => reply.type('text/html; charset=utf-8').send(page));
    for (const each of Object.values(assets)) serveAsset(scope, each);
  });
};
