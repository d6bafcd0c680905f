// Shows a request as the proxy would send it, with masks in place of the values of tokens. Pure: it opens, sends and writes nothing.
import type { Headers } from '../../platform/egress/headers.ts';
import { createExpansion, type ExpansionRecord } from '../tokens/expressions/expansion.ts';
import { maskExpressions } from '../tokens/expressions/mask-expressions.ts';
import { bodyKindOf } from './bodies/body-kind.ts';
import { findExpressions, findNothing } from './bodies/expressions.ts';
import type { ProxyContext } from './context.ts';
import { refuseStaleDigests } from './digests.ts';
import { findBase, forwardedHeaders, type Outgoing, proxyKeysOf } from './outgoing.ts';
import { refuseOwnKeys } from './own-keys.ts';
import type { ProxyForUse } from './proxy-finder.ts';
import { destinationOf, parseTarget, refuseLongUrl } from './target.ts';

/** A request to the proxy. `url` is its target, with /proxy. */
export type PreviewedRequest = { method: string; url: string; headers: Headers; body: Buffer | undefined };

/** A request as the destination would get it, but for the headers of the connection and what a request transform changes. */
export type Preview = { method: string; url: URL; target: string; headers: Headers; body: Uint8Array | undefined };

/** The token as the caller may see it: `data` is its mask, absent where it has none. Undefined for a missing token. */
export type MaskOf = (id: string) => ExpansionRecord | undefined;

/**
 * @param proxy undefined where a header names the destination.
 * @param allowLists the hosts that each list allows.
 * @throws AppError, as the proxy would for this request.
 */
export const previewRequest = (
  ctx: Outgoing & Pick<ProxyContext, 'expressionEnvironment'>,
  request: PreviewedRequest,
  proxy: Pick<ProxyForUse, 'destination_url' | 'hasExpressions'> | undefined,
  allowLists: readonly (readonly string[])[],
  maskOf: MaskOf,
): Preview => {
  const target = parseTarget(request.url, ctx.config.headerPrefixes);
  const { base } = findBase(ctx, request.headers, proxy, allowLists);
  destinationOf(base, target);
  const headers = forwardedHeaders(request);
  const proxyKeys = proxy ? proxyKeysOf(request.headers, target) : [];
  refuseOwnKeys({ ...target, headers, namedUrl: proxy ? undefined : base.url.href, proxyKeys });
  const body = request.body && { kind: bodyKindOf(headers), bytes: request.body };
  const places = { path: target.path, query: target.query, headers, body };
  const { references, expand } = proxy?.hasExpressions === false ? findNothing(places) : findExpressions(places);
  const shown = expand(maskExpressions(createExpansion(maskOf, ctx.expressionEnvironment, references)));
  const sentTo = destinationOf(base, { ...target, ...shown });
  refuseLongUrl(sentTo, shown);
  if (shown.body !== request.body) refuseStaleDigests(headers, shown.headers);
  return { method: request.method, ...sentTo, headers: shown.headers, body: shown.body };
};
