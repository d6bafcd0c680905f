// Pages for people: one frame, one stylesheet, one policy that lets nothing in from elsewhere, forms read once, and failures
// told as a page. Knows no page's content and nobody who looks at it.
import { readFileSync } from 'node:fs';
import { fastifyHelmet } from '@fastify/helmet';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError, badRequest, unsupportedMediaType } from '../errors.ts';
import type { App } from './app-type.ts';
import { asset, serveAsset } from './assets.ts';
import { refuseCoding } from './body.ts';
import { html, type Html } from './html.ts';
import { toAppError } from './problems.ts';

const ASSETS = '/assets';

const readStatic = (name: string) => asset(ASSETS, name, readFileSync(new URL(`./static/${name}`, import.meta.url)));

const assets = {
  style: readStatic('strongroom.css'),
  script: readStatic('console.js'),
  icon: readStatic('icon.svg'),
};

/** Fields of a form, all together; more is no form of ours. */
const FORM_FIELDS_MAX = 200;

const utf8 = new TextDecoder('utf-8', { fatal: true });

const parseForm = (bytes: Buffer): URLSearchParams => {
  // Before anything is made of them: a field costs many times its bytes.
  let fields = 1;
  for (let at = bytes.indexOf('&'); at !== -1; at = bytes.indexOf('&', at + 1)) {
    fields += 1;
    if (fields > FORM_FIELDS_MAX) throw badRequest('The form has too many fields.');
  }
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw badRequest('The form is not in UTF-8.');
  }
  return new URLSearchParams(text);
};

const noForm = () => unsupportedMediaType('The body must be a form of this page.');

/** The form that a page was sent. @throws unsupportedMediaType where there is none. */
export const formOf = (request: FastifyRequest): URLSearchParams => {
  if (request.body instanceof URLSearchParams) return request.body;
  throw noForm();
};

/** A field as it was typed, given once; empty where it is missing. NUL cannot be kept and stands in no form of ours. */
export const fieldOf = (form: URLSearchParams, name: string): string => {
  const values = form.getAll(name);
  const [value = ''] = values;
  if (values.length > 1 || value.includes('\0')) throw badRequest(`The field ${name} is not valid.`);
  return value;
};

/** A whole page. @param page.width `narrow` for a single form in the middle. */
export const pageOf = (page: { title: string; header?: Html; main: Html; width?: 'narrow' }): string =>
  String(html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${page.title} - Strongroom</title>
<link rel="icon" type="image/svg+xml" href="${assets.icon.path}">
<link rel="stylesheet" href="${assets.style.path}">
<script type="module" src="${assets.script.path}"></script>
</head>
<body>
${page.header}
<main id="main" class="${page.width ?? 'wide'}">
${page.main}
</main>
</body>
</html>
`);

export const brandMark = html`<img src="${assets.icon.path}" alt="" width="28" height="28">`;

/** The mark and the name, as pages without navigation begin. */
export const brand = html`<p class="brand">${brandMark} Strongroom</p>`;

export const sendPage = (reply: FastifyReply, status: number, page: string): FastifyReply =>
  reply.status(status).type('text/html; charset=utf-8').send(page);

/** When to come again, in words. */
export const comeAgainIn = (seconds: number): string =>
  seconds < 90
    ? `Try again in ${Math.max(1, Math.ceil(seconds))} seconds.`
    : `Try again in ${Math.ceil(seconds / 60)} minutes.`;

/** The page that tells of a failure: what the problem of the API would say, and where to go on. */
const failurePage = ({ message, retryAfterSeconds }: AppError, { id, url }: FastifyRequest): string =>
  pageOf({
    title: 'Not possible',
    width: 'narrow',
    main: html`${brand}
<h1>The request failed</h1>
<p>${message}${retryAfterSeconds !== undefined && ` ${comeAgainIn(retryAfterSeconds)}`}</p>
${url.startsWith('/console') && html`<p><a href="/console">Back to the console</a></p>`}
<p class="quiet">Trace <code>${id}</code></p>`,
  });

/**
 * A page's POST must come from a page of ours: browsers say so by Sec-Fetch-Site, older ones by Origin. Whoever sends neither is
 * no browser, and carries nobody's cookie.
 */
const refuseOtherSites = (request: FastifyRequest): void => {
  if (request.method === 'GET' || request.method === 'HEAD' || request.method === 'OPTIONS') return;
  const { origin, host, 'sec-fetch-site': site } = request.headers;
  const isOurs =
    site === undefined
      ? origin === undefined || (URL.canParse(origin) && new URL(origin).host === host)
      : site === 'same-origin';
  if (!isOurs) throw new AppError('forbidden', 'This form was sent from another site. Open the page and try again.');
};

/** A page is opened by itself, never as the image or frame of another: that one would spend what its visitor may ask for. */
const refuseOtherUses = ({ headers, routeOptions }: FastifyRequest): void => {
  const destination = headers['sec-fetch-dest'];
  if (destination === undefined || destination === 'document' || routeOptions.url?.startsWith(ASSETS)) return;
  throw new AppError('forbidden', 'This page must be opened by itself.');
};

/** What is served in a scope loads nothing from elsewhere, is framed by nobody, and tells nobody where it was left from. */
export const addPageHeaders = async (scope: App, styleSrc: string[]): Promise<void> => {
  await scope.register(fastifyHelmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc,
        imgSrc: ["'self'", 'data:'],
        connectSrc: ["'self'"],
        formAction: ["'self'"],
        baseUri: ["'none'"],
        frameAncestors: ["'none'"],
      },
    },
    frameguard: { action: 'deny' },
    referrerPolicy: { policy: 'no-referrer' },
    // TLS ends in front of us, or not at all on a developer's machine; who ends it says so.
    hsts: false,
  });
};

/** Opens a scope for pages: what is registered in it has their headers, forms and failures. */
export const addPages = async (
  app: App,
  bodyBytesMax: number,
  register: (scope: App) => void | Promise<void>,
): Promise<void> => {
  await app.register(async (scope: App) => {
    await addPageHeaders(scope, ["'self'"]);
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'buffer' }, (request, body, done) => {
      try {
        refuseCoding(request.headers['content-encoding']);
        done(null, parseForm(body as Buffer));
      } catch (error) {
        done(error as Error, undefined);
      }
    });
    scope.addContentTypeParser('*', (_request, _body, done) => done(noForm(), undefined));
    scope.addHook('onRequest', async (request) => {
      refuseOtherSites(request);
      refuseOtherUses(request);
    });
    scope.setErrorHandler((error, request, reply) => {
      const failure = toAppError(error, bodyBytesMax);
      if (failure.status >= 500)
        request.log.error({ trace_id: request.id, error: failure, code: failure.code }, 'a page failed');
      if (failure.retryAfterSeconds !== undefined) reply.header('retry-after', String(failure.retryAfterSeconds));
      return sendPage(reply, failure.status, failurePage(failure, request));
    });
    for (const each of Object.values(assets)) serveAsset(scope, each);
    await register(scope);
  });
};
