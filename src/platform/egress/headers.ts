// Filters the headers that the proxy forwards in each direction: drops its own and hop-by-hop headers, refuses control
// characters. The sender writes the framing (length, transfer coding).
import { EgressFault, type EgressFaultCode } from '../base/egress-fault.ts';
import { badRequest } from '../base/errors.ts';

/** RFC 8586: marks requests that this vault has forwarded. */
const LOOP_HEADER = 'cdn-loop';

/** All processes of a vault share one mark. Another vault has another one, so one vault may call another. */
const markOf = ({ loop_id }: { readonly loop_id: string }): string => `strongroom; id=${loop_id}`;

/** Refuses a request that this vault has already forwarded. @throws badRequest. */
export const refuseLoop = (ctx: { readonly loop_id: string }, headers: Headers): void => {
  const mark = markOf(ctx);
  for (const [name, value] of headers)
    if (name.toLowerCase() === LOOP_HEADER && value.split(',').some((each) => each.trim() === mark))
      throw badRequest('The request came back to where it was sent from.');
};

/** The header that this vault adds to every request it sends for a tenant. */
export const loopMark = (ctx: { readonly loop_id: string }): [name: string, value: string] => ['CDN-Loop', markOf(ctx)];

export type Headers = [name: string, value: string][];

/** Hop-by-hop headers (RFC 9110 section 7.6.1 and its predecessors); the sender sets `host` and framing. */
const dropped = new Set([
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'host',
  'content-length',
  'expect',
]);

const isDropped = (name: string): boolean => dropped.has(name) || name.startsWith('svc-') || name.startsWith('proxy-');

/**
 * Headers by which a client, a reverse proxy or Cloudflare reports the caller's address, country and connection, and names
 * inside the operator's network (RFC 7239, RFC 9110 section 7.6.3). They are not sent to destinations.
 */
const ofCallers: ReadonlySet<string> = new Set([
  'forwarded',
  'via',
  'x-real-ip',
  'true-client-ip',
  'cf-connecting-ip',
  'cf-ipcountry',
  'cf-ray',
  'cf-visitor',
  // W3C Trace Context and Baggage: clients add them to every request. A destination must not learn how requests belong together.
  'traceparent',
  'tracestate',
  'baggage',
]);

/** Removes the headers that reverse proxies add. For headers of a caller; headers that code sets are kept. */
export const withoutCallerTrace = (headers: Headers): Headers =>
  headers.filter(([name]) => {
    const lower = name.toLowerCase();
    return !ofCallers.has(lower) && !lower.startsWith('x-forwarded-');
  });

/** Names and values together. Servers commonly take 8 to 16 KB; a placeholder may expand to far more. */
const HEADERS_BYTES_MAX = 65_536;

/** A header's name: RFC 9110 section 5.6.2. */
export const fieldName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** A header's value, RFC 9110 section 5.5: no CR, LF, NUL or other control but the tab, and single bytes only. */
export const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Removes the headers of the API under a further prefix. @param prefixes in capital letters, such as BT. */
export const withoutPrefixes = (headers: Headers, prefixes: readonly string[] = []): Headers =>
  prefixes.length === 0
    ? headers
    : headers.filter(([name]) => !prefixes.some((prefix) => name.toUpperCase().startsWith(`${prefix}-`)));

/** @throws EgressFault REQUEST_REFUSED for a name or value that cannot be a header, or too much of them. */
export const requestHeaders = (headers: Headers): Headers => crossing(headers, 'REQUEST_REFUSED');

/** @throws EgressFault PROTOCOL. */
export const responseHeaders = (headers: Headers): Headers => crossing(headers, 'PROTOCOL');

const crossing = (headers: Headers, code: EgressFaultCode): Headers => {
  let bytes = 0;
  const crossed: Headers = [];
  const named = new Set<string>();
  for (const header of headers) {
    const [name, value] = header;
    if (!fieldName.test(name) || !fieldValue.test(value)) {
      throw new EgressFault(code, { sentence: 'A header has a name or a value that is not valid.' });
    }
    bytes += name.length + value.length;
    const lower = name.toLowerCase();
    if (lower === 'connection') for (const each of value.split(',')) named.add(each.trim().toLowerCase());
    if (!isDropped(lower)) crossed.push(header);
  }
  if (bytes > HEADERS_BYTES_MAX) throw new EgressFault(code, { sentence: 'The headers are too large.' });
  return named.size === 0 ? crossed : crossed.filter(([name]) => !named.has(name.toLowerCase()));
};
