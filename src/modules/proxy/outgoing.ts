// What of a request to the proxy goes on, before its tokens are opened: the destination, the headers and the keys that name a proxy.
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { type Headers, requestHeaders, withoutCallerTrace } from '../../platform/egress/headers.ts';
import { invalidField } from '../../platform/base/errors.ts';
import type { ProxyContext } from './context.ts';
import { destinationRefused, forwardingFault } from './faults.ts';
import type { ProxyForUse } from './proxy-finder.ts';
import type { ProxyRequest } from './request.ts';
import { type Base, baseOf, namesKey, NO_EXPRESSION, NO_KEY, type Target } from './target.ts';

/** What a destination is checked with. Nothing is looked up or sent. */
export type Outgoing = Pick<ProxyContext, 'egress' | 'config'>;

export const proxyKeysOf = (headers: Headers, { proxyKeys }: Target): string[] => [
  ...new Set([...valuesOf(headers, 'svc-proxy-key'), ...proxyKeys]),
];

/** Finds and checks the destination. @returns also the header that names it, for errors. */
export const findBase = (
  ctx: Outgoing,
  headers: Headers,
  proxy: Pick<ProxyForUse, 'destination_url'> | undefined,
  allowLists: readonly (readonly string[])[],
): { base: Base; place: string | undefined } => {
  const place = proxy ? undefined : 'SVC-PROXY-URL';
  const [url, ...others] = proxy ? [proxy.destination_url] : valuesOf(headers, 'svc-proxy-url');
  if (url === undefined || others.length > 0)
    throw invalidField(
      'SVC-PROXY-URL',
      'must be the URL of the destination, or SVC-PROXY-KEY the key of a proxy',
      'required',
    );
  if (!proxy && url.includes('{{')) throw invalidField('SVC-PROXY-URL', NO_EXPRESSION, 'bad_expression');
  const parsed = checked(ctx, url, allowLists, place);
  // A fragment is never sent.
  parsed.hash = '';
  if (parsed.search !== '' && namesKey(parsed, ctx.config.headerPrefixes)) throw invalidField('SVC-PROXY-URL', NO_KEY);
  return { base: baseOf(url, parsed), place };
};

const checked = (
  ctx: Outgoing,
  url: string,
  allowLists: readonly (readonly string[])[],
  place: string | undefined,
): URL => {
  try {
    return ctx.egress.check(url, allowLists);
  } catch (error) {
    throw error instanceof EgressFault ? destinationRefused(error, place) : error;
  }
};

const valuesOf = (headers: Headers, wanted: string): string[] =>
  headers.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value);

/** The headers that are forwarded. Expressions in other headers are ignored. */
export const forwardedHeaders = ({ headers, coded }: Pick<ProxyRequest, 'headers' | 'coded'>): Headers => {
  try {
    const crossed = requestHeaders(headers);
    // Trace headers that code sets are its own, not the caller's.
    return coded ? crossed : withoutCallerTrace(crossed);
  } catch (error) {
    throw forwardingFault(error);
  }
};
