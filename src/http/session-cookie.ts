// The cookie that carries a session's secret: sent to this origin alone, never shown to a script, never handed on. Knows
// neither sessions nor pages.
import { parseCookie, stringifySetCookie } from 'cookie';
import type { FastifyRequest } from 'fastify';
import type { Context } from '../context.ts';

type Configured = { config: Pick<Context['config'], 'publicUrl' | 'mode'> };

/** People reach a production server by TLS; browsers take `Secure` from nobody else, but for their own machine. */
const isSecure = ({ config }: Configured): boolean =>
  config.mode === 'production' || (config.publicUrl?.startsWith('https:') ?? false);

/** With the prefix a browser takes it from this very host by TLS, for all paths, and from no other (RFC 6265bis section 4.1.3.2). */
const nameOf = (ctx: Configured): string => (isSecure(ctx) ? '__Host-strongroom' : 'strongroom');

const attributesOf = (ctx: Configured) =>
  ({ path: '/', httpOnly: true, sameSite: 'strict', secure: isSecure(ctx) }) as const;

/** The value of Set-Cookie. Without an end of its own: it goes with the browser, if the session does not end before. */
export const sessionCookie = (ctx: Configured, secret: string): string =>
  stringifySetCookie({ name: nameOf(ctx), value: secret, ...attributesOf(ctx) });

/** The value of Set-Cookie that takes it away. */
export const noSessionCookie = (ctx: Configured): string =>
  stringifySetCookie({ name: nameOf(ctx), value: '', maxAge: 0, ...attributesOf(ctx) });

/** What a browser sent as the secret; undefined where it sent none. */
export const readSessionSecret = (ctx: Configured, { headers }: Pick<FastifyRequest, 'headers'>): string | undefined =>
  headers.cookie === undefined ? undefined : parseCookie(headers.cookie, { decode: (text) => text })[nameOf(ctx)];

type Headers = [name: string, value: string][];

const COOKIE_HEADER = /^(?:set-)?cookie$/i;

/** The headers of a request without our cookie, of an answer without a cookie by our name: others stay, byte for byte. */
export const withoutSessionCookie = (ctx: Configured, headers: Headers): Headers => {
  // Most have none, and all that is forwarded comes through here.
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

/** Browsers compare the prefix without regard to case, and so must we. */
const isSetCookieOf = (name: string, value: string): boolean => {
  const [pair = ''] = value.split(';', 1);
  // One without a name comes back as its value alone, which may look like a name and its value.
  const [given = ''] = pair.replace(/^[\s=]+/, '').split('=', 1);
  return given.trim().toLowerCase() === name.toLowerCase();
};
