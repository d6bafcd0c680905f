// Serves the front page, the OpenAPI document and the API reference, all from this origin under a strict content security
// policy. The script and the style are those of @fastify/swagger-ui, copied when the project is built: the routes of that
// package have no permission.
import { readFileSync } from 'node:fs';
import type { Config } from '../../platform/config/config.ts';
import type { App } from '../../platform/http/app-type.ts';
import { asset, serveAsset } from '../../platform/http/assets.ts';
import { documentOf } from '../../platform/http/openapi/openapi.ts';
import { withPrefixes } from '../../platform/http/openapi/prefixed-document.ts';
import { addPageHeaders } from '../../platform/http/pages.ts';
import { version } from '../../platform/base/version.ts';

const welcome = { name: 'Strongroom', version, docs: '/docs', openapi: '/openapi.json' };

/** The committed document has an address, as generated clients need one. The served document has its own server. */
const servedFrom = [{ url: '/', description: 'The vault that serves this document.' }];

const title = 'Strongroom API reference';

const start = `addEventListener('load', () => {
  SwaggerUIBundle({
    url: '/openapi.json',
    domNode: document.getElementById('reference'),
    deepLinking: true,
    displayRequestDuration: true,
    persistAuthorization: false,
    // The default sends the document to a public validator.
    validatorUrl: null,
  });
});
`;

const readAssets = () => {
  const read = (name: string) => readFileSync(new URL(`../../generated/swagger-ui/${name}`, import.meta.url));
  return {
    style: asset('/docs', 'swagger-ui.css', read('swagger-ui.css')),
    bundle: asset('/docs', 'swagger-ui-bundle.js', read('swagger-ui-bundle.js')),
    start: asset('/docs', 'start.js', Buffer.from(start)),
    icon: asset('/docs', 'icon.svg', readFileSync(new URL('../../platform/http/static/icon.svg', import.meta.url))),
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

export const docsRoutes = async (app: App, { headerPrefixes }: Pick<Config, 'headerPrefixes'>): Promise<void> => {
  app.get('/', open, async (request, reply) => {
    reply.header('vary', 'accept');
    return (request.headers.accept ?? '').includes('text/html') ? reply.redirect('/docs', 302) : welcome;
  });
  app.get('/openapi.json', open, async () => withPrefixes({ ...documentOf(app), servers: servedFrom }, headerPrefixes));

  await app.register(async (scope: App) => {
    // swagger-ui sets style attributes.
    await addPageHeaders(scope, ["'self'", "'unsafe-inline'"]);
    const assets = readAssets();
    const page = pageOf(assets);
    scope.get('/docs', open, async (_request, reply) => reply.type('text/html; charset=utf-8').send(page));
    for (const each of Object.values(assets)) serveAsset(scope, each);
  });
};
