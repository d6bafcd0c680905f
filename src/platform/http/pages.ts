// The base of all pages: their HTML frame, their security headers, the parsing of forms, and errors as pages.
import { traceIdsOf } from './trace.ts';
import { readFileSync } from 'node:fs';
import { fastifyHelmet } from '@fastify/helmet';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Config, publicOriginsOf } from '../config/config.ts';
import { AppError, badRequest, unsupportedMediaType } from '../base/errors.ts';
import type { App } from './app-type.ts';
import { asset, serveAsset } from './assets.ts';
import { refuseCoding } from './body.ts';
import { html, type Html } from './html.ts';
import { toAppError } from './problems.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** A script of a page sends its form here, beside the person. */
    isFetched?: true;
  }
}

const ASSETS = '/assets';

const readStatic = (name: string) => asset(ASSETS, name, readFileSync(new URL(`./static/${name}`, import.meta.url)));

const assets = {
  style: readStatic('strongroom.css'),
  script: readStatic('console.js'),
  passkeys: readStatic('passkeys.js'),
  icon: readStatic('icon.svg'),
  referenceStyle: readStatic('reference.css'),
  referenceScript: readStatic('reference.js'),
};

/** More fields than any form of a page has. */
const FORM_FIELDS_MAX = 400;

const utf8 = new TextDecoder('utf-8', { fatal: true });

const parseForm = (bytes: Buffer): URLSearchParams => {
  // Counted before parsing: a parsed field takes many times its bytes.
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

/** The form of a request. @throws unsupportedMediaType for any other body. */
export const formOf = (request: FastifyRequest): URLSearchParams => {
  if (request.body instanceof URLSearchParams) return request.body;
  throw noForm();
};

/** A field; empty where it is missing. @throws badRequest where it is given twice, or contains NUL, which PostgreSQL refuses. */
export const fieldOf = (form: URLSearchParams, name: string): string => {
  const values = form.getAll(name);
  const [value = ''] = values;
  if (values.length > 1 || value.includes('\0')) throw badRequest(`The field ${name} is not valid.`);
  return value;
};

/** A complete page. @param page.width `narrow` for a single form in the middle. @param page.hasNoScript where no script may run. @param page.hasPasskeys where a form takes one. @param page.isReference for the API reference. */
export const pageOf = (page: {
  title: string;
  header?: Html;
  main: Html;
  width?: 'narrow';
  hasNoScript?: true;
  hasPasskeys?: boolean;
  isReference?: true;
}): string =>
  String(html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${page.title} - Strongroom</title>
<link rel="icon" type="image/svg+xml" href="${assets.icon.path}">
<link rel="stylesheet" href="${assets.style.path}">
${page.hasNoScript ? undefined : html`<script type="module" src="${assets.script.path}"></script>`}
${
  page.isReference &&
  html`<link rel="stylesheet" href="${assets.referenceStyle.path}">
<script type="module" src="${assets.referenceScript.path}"></script>`
}
${page.hasPasskeys === true && html`<script type="module" src="${assets.passkeys.path}"></script>`}
</head>
<body${page.header && html` class="framed"`}>
${page.header}
<main id="main" class="${page.width ?? 'wide'}">
${page.main}
</main>
</body>
</html>
`);

export const brandMark = html`<img src="${assets.icon.path}" alt="" width="28" height="28">`;

/** Logo and name, for pages without navigation. */
export const brand = html`<p class="brand">${brandMark} Strongroom</p>`;

export const sendPage = (reply: FastifyReply, status: number, page: string): FastifyReply =>
  reply.status(status).type('text/html; charset=utf-8').send(page);

/** When to try again, as a sentence. */
export const comeAgainIn = (seconds: number): string =>
  seconds < 90
    ? `Try again in ${Math.max(1, Math.ceil(seconds))} seconds.`
    : `Try again in ${Math.ceil(seconds / 60)} minutes.`;

/** What every page of an error says: the message that the API would send, and the trace. */
export const failureText = ({ message, retryAfterSeconds }: AppError, { id }: Pick<FastifyRequest, 'id'>): Html =>
  html`<h1>The request failed</h1>
<p>${message}${retryAfterSeconds !== undefined && ` ${comeAgainIn(retryAfterSeconds)}`}</p>
<p class="quiet">Trace <code>${id}</code></p>`;

const failurePage = (error: AppError, request: FastifyRequest): string =>
  pageOf({
    title: 'Not possible',
    width: 'narrow',
    main: html`${brand}
${failureText(error, request)}
${request.url.startsWith('/console') && html`<p><a href="/console">Back to the console</a></p>`}`,
  });

type Own = Pick<Config, 'mode' | 'publicUrl' | 'consoleHost' | 'fieldsOrigin'>;

/**
 * Scheme and port count, too, if the server knows its origins. Otherwise it knows the host that the browser reached, and that
 * browsers send no cookie of a session by http in production.
 */
const isOwnOrigin = (config: Own, origin: string, host: string | undefined): boolean => {
  const known = publicOriginsOf(config);
  if (known.length > 0) return known.includes(origin);
  const url = URL.parse(origin);
  return url?.host === host && (config.mode !== 'production' || url?.protocol === 'https:');
};

/**
 * Refuses a form that another site sent (CSRF). Browsers send Sec-Fetch-Site, older ones Origin alone. Both must fit: the pages send
 * no referrer, so that the Origin of their own forms may be `null`. A client that sends neither is no browser, and has no cookie of
 * a user.
 */
const refuseOtherSites = (request: FastifyRequest, config: Own): void => {
  if (request.method === 'GET' || request.method === 'HEAD' || request.method === 'OPTIONS') return;
  const { origin, host, 'sec-fetch-site': site } = request.headers;
  const isOfBrowser = site === undefined || site === 'same-origin';
  const isHidden = origin === undefined || (site !== undefined && origin === 'null');
  if (!isOfBrowser || !(isHidden || isOwnOrigin(config, origin, host)))
    throw new AppError('forbidden', 'This form was sent from another site. Open the page and try again.');
};

/** Refuses a body in chunks: a browser knows the length of its form, and this is before any key or session is checked. */
const refuseChunks = ({ headers }: FastifyRequest, reply: FastifyReply): void => {
  if (headers['transfer-encoding'] === undefined) return;
  // Its body is not read.
  reply.header('connection', 'close');
  throw new AppError('length_required', 'A form must have a Content-Length, and no Transfer-Encoding.');
};

/** Refuses a page that is loaded as an image, frame or script of another page, or fetched where no script of its own does that. */
const refuseOtherUses = ({ headers, routeOptions }: FastifyRequest): void => {
  const destination = headers['sec-fetch-dest'];
  if (destination === undefined || destination === 'document' || routeOptions.url?.startsWith(ASSETS)) return;
  if (destination === 'empty' && routeOptions.config?.isFetched) return;
  throw new AppError('forbidden', 'This page must be opened by itself.');
};

/** Security headers: pages load nothing from other origins, cannot be framed, and send no Referer. */
const addPageHeaders = async (scope: App): Promise<void> => {
  await scope.register(fastifyHelmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc: ["'self'"],
        imgSrc: ["'self'", 'data:'],
        connectSrc: ["'self'"],
        formAction: ["'self'"],
        baseUri: ["'none'"],
        frameAncestors: ["'none'"],
      },
    },
    frameguard: { action: 'deny' },
    referrerPolicy: { policy: 'no-referrer' },
    // The server that terminates TLS in front of this one sends HSTS.
    hsts: false,
  });
};

/** Opens a scope for pages: what is registered in it has their headers, forms and failures. */
export const addPages = async (
  app: App,
  config: Own & Pick<Config, 'bodyBytesMax'>,
  register: (scope: App) => void | Promise<void>,
): Promise<void> => {
  await app.register(async (scope: App) => {
    await addPageHeaders(scope);
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
    scope.addHook('onRequest', async (request, reply) => {
      refuseChunks(request, reply);
      refuseOtherSites(request, config);
      refuseOtherUses(request);
    });
    scope.setErrorHandler((error, request, reply) => {
      const failure = toAppError(error, config.bodyBytesMax);
      if (failure.status >= 500)
        request.log.error({ ...traceIdsOf(request), error: failure, code: failure.code }, 'a page failed');
      if (failure.retryAfterSeconds !== undefined) reply.header('retry-after', String(failure.retryAfterSeconds));
      return sendPage(reply, failure.status, failurePage(failure, request));
    });
    for (const each of Object.values(assets)) serveAsset(scope, each);
    await register(scope);
  });
};
