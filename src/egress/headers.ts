// Which headers cross, in each direction (security.md section 3.11): not ours, not those of one connection, and none that
// could end a line. Framing is always made anew by whoever sends.
import { EgressFault, type EgressFaultCode } from './fault.ts';

export type Headers = [name: string, value: string][];

/** RFC 9110 section 7.6.1 and what stood for it before; `host` and framing are set by the sender. */
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
 * What a client, a reverse proxy or Cloudflare in front of this server says of the caller's address, country and connection,
 * and of names inside the operator's network (RFC 7239, RFC 9110 section 7.6.3). No destination learns it from us.
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
]);

/** The headers of a caller but those that reverse proxies add. What code sets by itself is not one of a caller. */
export const withoutCallerTrace = (headers: Headers): Headers =>
  headers.filter(([name]) => {
    const lower = name.toLowerCase();
    return !ofCallers.has(lower) && !lower.startsWith('x-forwarded-');
  });

/** Names and values together. Servers commonly take 8 to 16 KB; a placeholder may expand to far more. */
const HEADERS_BYTES_MAX = 65_536;

/** A header's name: RFC 9110 section 5.6.2. */
export const fieldName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** A header's value, RFC 9110 section 5.5: no CR, LF, NUL or other control but the tab, and nothing that is no single byte (X5). */
export const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

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
