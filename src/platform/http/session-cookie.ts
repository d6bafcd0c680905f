// The cookie with the secret of a session. It is for this origin only, not readable by scripts, and never forwarded.
import { parseCookie, stringifySetCookie } from 'cookie';
import type { FastifyRequest } from 'fastify';
import type { Platform } from '../platform.ts';

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

/** The secret that the browser sent, if any. */
export const readSessionSecret = (ctx: Configured, { headers }: Pick<FastifyRequest, 'headers'>): string | undefined =>
  headers.cookie === undefined ? undefined : parseCookie(headers.cookie, { decode: (text) => text })[nameOf(ctx)];

type Headers = [name: string, value: string][];

const COOKIE_HEADER = /^(?:set-)?cookie$/i;

/** Headers without the session cookie, in Cookie and in Set-Cookie. All others stay, byte for byte. */
export const withoutSessionCookie = (ctx: Configured, headers: Headers): Headers => {
  // The fast path: most forwarded requests have no cookie.
  if (!headers.some(([header]) => COOKIE_HEADER.test(header))) return headers;
  const name = nameOf(ctx);
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
