// Sets the headers of every response under /proxy that caches and browsers obey. A destination must not decide them, as the
// response comes from the host name of this server.

// Lists the headers that tenants' code may put into a response. Programs in front of the server and browsers obey others: nginx
// reads a file of the operator for `X-Accel-Redirect`, and a browser applies `Report-To` to the whole origin.

/** Headers about the content, its place and its limits, by lower-case name. None of them is a command to a proxy or a policy. */
const allowed: ReadonlySet<string> = new Set([
  'accept-patch',
  'accept-post',
  'accept-ranges',
  'allow',
  'api-version',
  'content-digest',
  'content-disposition',
  'content-language',
  'content-location',
  'content-md5',
  'content-range',
  'content-type',
  'correlation-id',
  'deprecation',
  'digest',
  'etag',
  'idempotency-key',
  'last-modified',
  'location',
  'preference-applied',
  'ratelimit',
  'ratelimit-limit',
  'ratelimit-policy',
  'ratelimit-remaining',
  'ratelimit-reset',
  'repr-digest',
  'request-id',
  'retry-after',
  'signature',
  'signature-input',
  'sunset',
  'vary',
]);

/** Commands to web servers and caches in front: nginx, Apache, lighttpd, LiteSpeed, Perlbal. */
const ofServersInFront =
  /^x-(?:accel|sendfile|lighttpd|litespeed|lscache|reproxy|varnish|cache|envoy|original|rewrite)(?:-|$)/;

/** Policies that browsers and crawlers read, and headers by which proxies describe a client. */
const ofBrowsers =
  /^x-(?:frame|content-type|content-security|content-duration|webkit|xss|dns-prefetch|permitted|download|ua-compatible|robots|forwarded|real-ip)(?:-|$)/;

/** Whether a header is a command to a web server in front of this one. No response has one. */
const isForServerInFront = (name: string): boolean => ofServersInFront.test(name.toLowerCase());

/** Whether code may send a header: one of the list, or one of the tenant's own, which begins with `x-`. */
export const mayCodeSend = (name: string): boolean => {
  const lower = name.toLowerCase();
  return allowed.has(lower) || (lower.startsWith('x-') && !ofServersInFront.test(lower) && !ofBrowsers.test(lower));
};

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
