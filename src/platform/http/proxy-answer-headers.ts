// Sets the headers of every response under /proxy that caches and browsers obey. A destination must not decide them, as the
// response comes from the host name of this server.

import { isForServerInFront } from './code-headers.ts';

type Headers = [name: string, value: string][];

/** The headers that the response depends on (RFC 9110 section 12.5.5). */
const VARY = [
  'SVC-API-KEY',
  'SVC-PROXY-KEY',
  'SVC-PROXY-URL',
  'Sec-Fetch-Dest',
  'Sec-Fetch-Mode',
  'Sec-Fetch-Site',
  'Sec-Fetch-User',
].join(', ');

/**
 * No cache may store the response: that of a browser would use it for a navigation that this server refuses, and a shared cache
 * does not treat SVC-API-KEY as a credential (RFC 9111 section 3.5). A browser that opens the response runs no script of it.
 */
const replacing: Headers = [
  ['Cache-Control', 'private, no-store'],
  ['CDN-Cache-Control', 'no-store'],
  ['X-Content-Type-Options', 'nosniff'],
  ['Content-Security-Policy', "sandbox; default-src 'none'"],
];

const replaced: ReadonlySet<string> = new Set(replacing.map(([name]) => name.toLowerCase()));

/** Headers that some caches prefer to those that this server sets, such as `Cloudflare-CDN-Cache-Control`. */
const isOfOneCache = (name: string): boolean => name.endsWith('-cdn-cache-control') || name === 'surrogate-control';

/** Headers that a browser applies to the whole origin. */
const ofOrigins: ReadonlySet<string> = new Set([
  'alt-svc',
  'clear-site-data',
  'nel',
  'origin-agent-cluster',
  'report-to',
  'reporting-endpoints',
  'service-worker-allowed',
  'set-cookie',
  'strict-transport-security',
]);

/** The opener, embedder and resource policies, and their report-only forms. */
const isOfOrigins = (name: string): boolean => ofOrigins.has(name) || name.startsWith('cross-origin-');

/** Browsers send these headers. Other clients that do are treated as browsers. */
const isFromBrowser = (request: Readonly<Record<string, unknown>>): boolean =>
  Object.keys(request).some((name) => name === 'origin' || name.startsWith('sec-fetch-'));

/** For errors of the proxy itself. */
export const ownProxyHeaders: Readonly<Record<string, string>> = {
  ...Object.fromEntries(replacing.map(([name, value]) => [name.toLowerCase(), value])),
  vary: VARY,
};

/**
 * The headers of a response of a destination or a transform, with those above replaced or removed.
 * @param request the headers of the request by lower-case name.
 */
export const proxyAnswerHeaders = (request: Readonly<Record<string, unknown>>, answered: Headers): Headers => {
  const fromBrowser = isFromBrowser(request);
  const kept = answered.filter(([header]) => {
    const name = header.toLowerCase();
    if (replaced.has(name) || isOfOneCache(name) || isForServerInFront(name)) return false;
    return !(fromBrowser && isOfOrigins(name));
  });
  // A second Vary header adds to the first (RFC 9110 section 5.3).
  return [...kept, ...replacing, ['Vary', VARY]];
};
