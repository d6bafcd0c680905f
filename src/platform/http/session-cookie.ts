// The cookies with the secrets of a session and of a single sign-on under way: not readable by scripts, and never forwarded.
import { parseCookie, stringifySetCookie } from 'cookie';
import type { FastifyRequest } from 'fastify';
import type { Platform } from '../services/platform.ts';

type Configured = { config: Pick<Platform['config'], 'publicUrl' | 'mode'> };

/** Users reach a production server by TLS. Browsers accept `Secure` by TLS and from localhost only. */
const isSecure = ({ config }: Configured): boolean =>
  config.mode === 'production' || (config.publicUrl?.startsWith('https:') ?? false);

/** Browsers accept the prefix only from this host by TLS and for all paths (RFC 6265bis section 4.1.3.2). */
const nameOf = (ctx: Configured): string => (isSecure(ctx) ? '__Host-strongroom' : 'strongroom');

const attributesOf = (ctx: Configured) =>
  ({ path: '/', httpOnly: true, sameSite: 'strict', secure: isSecure(ctx) }) as const;

/** The value of Set-Cookie. Without an expiry: the cookie ends with the browser or with the session. */
export const sessionCookie = (ctx: Configured, secret: string): string =>
  stringifySetCookie({ name: nameOf(ctx), value: secret, ...attributesOf(ctx) });

/** The value of Set-Cookie that removes the cookie. */
export const noSessionCookie = (ctx: Configured): string =>
  stringifySetCookie({ name: nameOf(ctx), value: '', maxAge: 0, ...attributesOf(ctx) });

const readCookie = (name: string, { headers }: Pick<FastifyRequest, 'headers'>): string | undefined =>
  headers.cookie === undefined ? undefined : parseCookie(headers.cookie, { decode: (text) => text })[name];

/** The secret that the browser sent, if any. */
export const readSessionSecret = (ctx: Configured, request: Pick<FastifyRequest, 'headers'>): string | undefined =>
  readCookie(nameOf(ctx), request);

const flowNameOf = (ctx: Configured): string => `${nameOf(ctx)}-sso`;

/**
 * The value of Set-Cookie that binds a single sign-on to this browser. `Lax`: the provider leads back from another site, and browsers
 * do not send a `Strict` cookie then.
 */
export const flowCookie = (ctx: Configured, secret: string): string =>
  stringifySetCookie({ name: flowNameOf(ctx), value: secret, ...attributesOf(ctx), sameSite: 'lax' });

/** The secret of the browser's single sign-on, if any. */
export const readFlowSecret = (ctx: Configured, request: Pick<FastifyRequest, 'headers'>): string | undefined =>
  readCookie(flowNameOf(ctx), request);

type Headers = [name: string, value: string][];

const COOKIE_HEADER = /^(?:set-)?cookie$/i;

/** Headers without the cookies of the console, in Cookie and in Set-Cookie. All others stay, byte for byte. */
export const withoutSessionCookie = (ctx: Configured, headers: Headers): Headers => {
  // The fast path: most forwarded requests have no cookie.
  if (!headers.some(([header]) => COOKIE_HEADER.test(header))) return headers;
  return withoutCookie(nameOf(ctx), withoutCookie(flowNameOf(ctx), headers));
};

const withoutCookie = (name: string, headers: Headers): Headers => {
  const ours = new RegExp(`(^|;)[ \\t]*${name}[ \\t]*(?:=[^;]*)?(?=;|$)`, 'g');
  return headers.flatMap(([header, value]): Headers => {
    const lower = header.toLowerCase();
    if (lower === 'set-cookie' && isSetCookieOf(name, value)) return [];
    if (lower !== 'cookie' || !value.includes(name)) return [[header, value]];
    const left = value.replace(ours, '').replace(/^;[ \t]*/, '');
    return left.trim() === '' ? [] : [[header, left]];
  });
};

/** Browsers compare the prefix without regard to case. */
const isSetCookieOf = (name: string, value: string): boolean => {
  const [pair = ''] = value.split(';', 1);
  // Browsers send a cookie without a name as its value alone, which may look like a name and a value.
  const [given = ''] = pair.replace(/^[\s=]+/, '').split('=', 1);
  return given.trim().toLowerCase() === name.toLowerCase();
};
