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
export const isForServerInFront = (name: string): boolean => ofServersInFront.test(name.toLowerCase());

/** Whether code may send a header: one of the list, or one of the tenant's own, which begins with `x-`. */
export const mayCodeSend = (name: string): boolean => {
  const lower = name.toLowerCase();
  return allowed.has(lower) || (lower.startsWith('x-') && !ofServersInFront.test(lower) && !ofBrowsers.test(lower));
};
