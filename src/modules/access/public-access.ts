// Public callers: keys that are in a browser. They may create tokens, from the pages of listed origins, and do nothing else.
// Answers to them have the headers of CORS (https://fetch.spec.whatwg.org/#http-cors-protocol).
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError, forbidden, unauthorized } from '../../platform/base/errors.ts';
import type { Config } from '../../platform/config/config.ts';
import { prefixedNames } from '../../platform/http/header-prefixes.ts';
import type { App } from '../../platform/http/app-type.ts';
import type { Platform } from '../../platform/services/platform.ts';
import type { Caller, PublicAccess } from './caller.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Public callers may use this route, from pages of other origins. */
    servesBrowsers?: true;
  }
}

/** Tokens that one client address may create in a minute with a public key, unless the application says otherwise. */
export const CREATES_PER_MINUTE = 50;
/** A whole company behind one address. */
export const CREATES_PER_MINUTE_MAX = 10_000;

/** How long a browser may remember the answer to a preflight. */
const PREFLIGHT_SECONDS = 600;

/** What scripts may send beside what every page may. */
const REQUEST_HEADERS = ['content-type', 'svc-api-key', 'svc-idempotency-key', 'svc-trace-id'];
const RESPONSE_HEADERS = ['retry-after', 'ratelimit', 'ratelimit-policy', 'svc-trace-id'];

/** The value of a header of CORS: the names, those of the API under each prefix. */
const inAllPrefixes = ({ headerPrefixes }: Pick<Config, 'headerPrefixes'>, names: readonly string[]): string =>
  names.flatMap((name) => [name, ...prefixedNames(name, headerPrefixes)]).join(', ');

/** A frame of the vault names the session of its own address in it. Pages of other origins cannot send it: it is not in REQUEST_HEADERS. */
const FRAME_SESSION = 'svc-fields-session';

const otherSession = () =>
  new AppError(
    'forbidden',
    'A frame of the vault takes the key of its own session only. Mount it with the session of this key.',
  );

const unlisted = () => new AppError('forbidden', 'The origin of the page is not among the allowed origins of the key.');

/**
 * The frames of the vault call from the origin that serves them, for the pages that they are in. A proxy in front of the server may
 * send another Host.
 */
const isOwnOrigin = ({ fieldsOrigin, publicUrl }: Config, { headers }: FastifyRequest, origin: string): boolean =>
  fieldsOrigin === undefined
    ? URL.parse(origin)?.host === headers.host || (publicUrl !== undefined && origin === URL.parse(publicUrl)?.origin)
    : origin === fieldsOrigin;

/**
 * The key that a frame uses comes from the page. Without this, a script of the page could have a frame send what a person typed under
 * a key of the attacker's own: any key, also a private one.
 */
const isOfFrame = ({ headers }: FastifyRequest, publicAccess: PublicAccess | undefined): boolean =>
  headers[FRAME_SESSION] !== undefined && headers[FRAME_SESSION] === publicAccess?.session?.id;

/** A request without Origin is not of a page: only keys that list no origins take it. */
const mayCallFrom = (config: Config, request: FastifyRequest, publicAccess: PublicAccess): boolean => {
  const { origin } = request.headers;
  const { origins } = publicAccess;
  if (origin === undefined) return origins.length === 0;
  // Before the list: an attacker may list the origin of the vault with a key of their own.
  return isOwnOrigin(config, request, origin) ? isOfFrame(request, publicAccess) : origins.includes(origin);
};

/** Lets a page that may use the key read the answer, that of a refusal too. Other pages get no header. */
export const letPageRead = (
  { config }: Pick<Platform, 'config'>,
  request: FastifyRequest,
  reply: FastifyReply,
  { publicAccess }: Caller,
): void => {
  const { origin } = request.headers;
  const { servesBrowsers } = request.routeOptions.config;
  if (!publicAccess || !servesBrowsers || origin === undefined || !mayCallFrom(config, request, publicAccess)) return;
  reply.header('access-control-allow-origin', origin);
  reply.header('access-control-expose-headers', inAllPrefixes(config, RESPONSE_HEADERS));
};

/**
 * Refuses what a public caller may not do. Called before the body is read.
 * @throws unauthorized for a session that has expired; forbidden for another route, for a page of another origin, and for a frame of
 * another session.
 */
export const checkPublicAccess = (
  ctx: Pick<Platform, 'now' | 'config'>,
  request: FastifyRequest,
  { publicAccess }: Caller,
): void => {
  if (request.headers[FRAME_SESSION] !== undefined && !isOfFrame(request, publicAccess)) throw otherSession();
  if (!publicAccess) return;
  const { session } = publicAccess;
  if (session && session.expires_at <= ctx.now()) throw unauthorized();
  const { servesBrowsers, permission } = request.routeOptions.config;
  if (!servesBrowsers) throw permission && permission !== 'authenticated' ? forbidden(permission) : unlistedRoute();
  if (!mayCallFrom(ctx.config, request, publicAccess)) throw unlisted();
};

const unlistedRoute = () => new AppError('forbidden', 'A public key may create tokens, and do nothing else.');

/** Answers preflights of the routes that serve browsers, and keeps caches from mixing the answers to different pages. */
export const addPreflights = (app: App, config: Pick<Config, 'headerPrefixes'>): void => {
  const requestHeaders = inAllPrefixes(config, REQUEST_HEADERS);
  const paths = new Set<string>();
  app.addHook('onRoute', ({ url, config }) => {
    if (config?.servesBrowsers) paths.add(url);
  });
  app.addHook('onRequest', (request, reply, done) => {
    const { config: route, url = '' } = request.routeOptions;
    if (route.servesBrowsers) reply.header('vary', 'origin');
    else if (route.methodGuard && request.method === 'OPTIONS' && paths.has(url)) {
      reply.header('vary', 'origin');
      const { origin } = request.headers;
      // The key comes with the request itself, which is refused where its origins do not include this one.
      if (origin !== undefined && request.headers['access-control-request-method'] === 'POST') {
        reply.header('access-control-allow-origin', origin);
        reply.header('access-control-allow-methods', 'POST');
        reply.header('access-control-allow-headers', requestHeaders);
        reply.header('access-control-max-age', PREFLIGHT_SECONDS);
      }
    }
    done();
  });
};
