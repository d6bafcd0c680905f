// The headers that this server sets on every answer under /proxy, in place of the destination's. A destination must not
// decide what caches and browsers do with an answer that comes from this server's name. Knows no destination.

type Headers = [name: string, value: string][];

/** What the answer depends on: the caller, the destination, and whether a browser may have it (RFC 9110 section 12.5.5). */
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
 * No cache keeps the answer: the browser's would give it to a navigation that this server refuses, and a shared one does not
 * know SVC-API-KEY (RFC 9111 section 3.5). A browser that opens the answer anyway runs no script of it, and gives it no origin.
 */
const replacing: Headers = [
  ['Cache-Control', 'private, no-store'],
  ['CDN-Cache-Control', 'no-store'],
  ['X-Content-Type-Options', 'nosniff'],
  ['Content-Security-Policy', "sandbox; default-src 'none'"],
];

const replaced: ReadonlySet<string> = new Set(replacing.map(([name]) => name.toLowerCase()));

/** Headers that some caches obey before the ones that this server sets: `Cloudflare-CDN-Cache-Control` and its like. */
const isOfOneCache = (name: string): boolean => name.endsWith('-cdn-cache-control') || name === 'surrogate-control';

/** Headers that a browser applies to the whole origin, or to all of its pages, whichever path sent them. */
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

/** A browser says where it asks from. Some programs do too, and are treated as browsers. */
const isFromBrowser = (request: Readonly<Record<string, unknown>>): boolean =>
  Object.keys(request).some((name) => name === 'origin' || name.startsWith('sec-fetch-'));

/** For an answer of our own. */
export const ownProxyHeaders: Readonly<Record<string, string>> = {
  ...Object.fromEntries(replacing.map(([name, value]) => [name.toLowerCase(), value])),
  vary: VARY,
};

/**
 * The headers of a destination's answer, or of a transform's, as the caller gets them: all but those above as they came.
 * @param request the caller's headers by their lower-case names.
 */
export const proxyAnswerHeaders = (request: Readonly<Record<string, unknown>>, answered: Headers): Headers => {
  const fromBrowser = isFromBrowser(request);
  const kept = answered.filter(([header]) => {
    const name = header.toLowerCase();
    return !replaced.has(name) && !isOfOneCache(name) && !(fromBrowser && isOfOrigins(name));
  });
  // A second Vary header adds to the first (RFC 9110 section 5.3).
  return [...kept, ...replacing, ['Vary', VARY]];
};
