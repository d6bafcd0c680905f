// Answers a dry run of the proxy: what decides about each token, and the request that would leave, with masks in place of values.
import { isUtf8 } from 'node:buffer';
import { DRY_RUN, logRow } from '../../platform/db/audit-record.ts';
import type { Headers } from '../../platform/egress/headers.ts';
import type { Charge } from '../access/allowance.ts';
import type { Use } from '../access/bounds.ts';
import type { Check } from '../access/checks.ts';
import { mayAnywhere } from '../access/rules.ts';
import type { Work } from '../access/work.ts';
import {
  createExpansion,
  type Expansion,
  type ExpansionRecord,
  maskExpressions,
  type References,
} from '../tokens/expressions/expansion.ts';
import { findMaskedUse, isAllowed, maskRows } from '../tokens/masked-use.ts';
import type { ProxyContext } from './context.ts';
import type { ProxyForUse } from './proxy-finder.ts';
import type { AnswerWithin } from './request.ts';
import { destinationOf, parseTarget, refuseLongUrl, type SpelledUrl } from './target.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { isOnList } from '../../platform/egress/destination.ts';
import type { Caller } from '../access/caller.ts';
import { bodyKindOf } from './bodies/body-kind.ts';
import { findExpressions, findNothing } from './bodies/expressions.ts';
import { refuseStaleDigests } from './message.ts';
import { findBase, forwardedHeaders, type Outgoing, proxyKeysOf } from './outgoing.ts';
import { refuseOwnKeys } from './own-keys.ts';

/** A longer body is left out: an answer is read by a person. */
const DRY_BODY_MAX = 262_144;

/** What would be sent: before the request transform, if there is one. `body` is undefined for a stream. */
export type Leaving = {
  sentTo: SpelledUrl;
  path: string;
  query: string;
  headers: Headers;
  body: Uint8Array | undefined;
};

type LeftOut = 'streamed' | 'binary' | 'larger than 256 KB';

const bodyOf = (body: Uint8Array | undefined, isStreamed: boolean): { body?: string; body_left_out?: LeftOut } => {
  if (isStreamed) return { body_left_out: 'streamed' };
  if (body === undefined) return {};
  if (body.byteLength > DRY_BODY_MAX) return { body_left_out: 'larger than 256 KB' };
  return isUtf8(body) ? { body: Buffer.from(body).toString() } : { body_left_out: 'binary' };
};

/** The path that the caller sent; with the one of the destination before it only for who may read the proxy. */
const pathOf = (work: Work, proxy: ProxyForUse | undefined, { sentTo, path, query }: Leaving): string => {
  if (!proxy || mayAnywhere(work, 'proxy:read')) return sentTo.target;
  return (path === '' ? '/' : path) + (query === '' ? '' : `?${query}`);
};

/** What a dry run has of its request. */
type DryRequest = {
  method: string;
  proxy: ProxyForUse | undefined;
  /** URL as it is written, for the checks of its host. */
  url: string;
  references: References;
  use: Use;
  isStreamed: boolean;
  /** Writes the request with what an expansion gives. @throws as a request does for what does not fit its place. */
  prepare(expansion: Expansion): Leaving;
  /** What it charges, for values with an allowance. */
  chargeOf(leaving: Leaving): Charge | string | Promise<Charge | string>;
};

const shownRequest = (work: Work, { method, proxy, isStreamed }: DryRequest, leaving: Leaving) => ({
  method,
  host: leaving.sentTo.url.host,
  path: pathOf(work, proxy, leaving),
  header_names: [...new Set(leaving.headers.map(([name]) => name.toLowerCase()))],
  ...bodyOf(leaving.body, isStreamed),
  is_before_transform: proxy?.request_transform !== undefined,
});

/** @throws badRequest for unknown tokens; invalidInput for what does not fit its place; unavailable. */
export const answerDryRun = async (ctx: ProxyContext, work: Work, asked: DryRequest): Promise<AnswerWithin> => {
  const { proxy, url, references, prepare } = asked;
  const use = await findMaskedUse(ctx, work, references, asked.use);
  const proxyHosts = proxy && { hosts: proxy.allowed_hosts };
  const hostChecks = checkHosts(ctx, { url, ...(proxyHosts && { proxyHosts }) }, work.caller);
  const checks: Check[] = [...hostChecks, ...use.checks];
  const mayLeave = isAllowed({ tokens: use.tokens, checks });
  const leaving = mayLeave ? prepare(maskingOf(ctx, references, use.maskOf)) : undefined;
  // Code of the proxy may make another amount: it does not run here.
  if (leaving && proxy?.request_transform === undefined) {
    const check = await use.checkCharge(async () => asked.chargeOf(leaving));
    if (check) checks.push(check);
  }
  const isLeaving = isAllowed({ tokens: use.tokens, checks });
  const request = leaving && isLeaving ? shownRequest(work, asked, leaving) : undefined;
  const of = { entity_type: 'proxy', entity_ids: [proxy?.id ?? work.tenant_id] };
  await work.log([logRow(ctx, work, { operation: 'read', ...of, message: DRY_RUN }), ...maskRows(ctx, work, use)]);
  const answer = { decision: isLeaving ? 'allowed' : 'refused', tokens: use.tokens, checks, request };
  const body = Buffer.from(JSON.stringify(answer));
  const headers: Headers = [['content-type', 'application/json; charset=utf-8']];
  return { status: 200, statusText: 'OK', headers, body, bodyBytes: body.length, destination_status: undefined };
};

const maskingOf = (
  ctx: Pick<ProxyContext, 'expressionEnvironment'>,
  references: References,
  maskOf: Parameters<typeof createExpansion>[0],
): Expansion => maskExpressions(createExpansion(maskOf, ctx.expressionEnvironment, references));

// Checks the host of a destination list by list, as a request through the proxy does before any look-up. Opens nothing.

/** A destination, and the hosts of its stored proxy. */
export type Destination = { url: string; proxyHosts?: { hosts: readonly string[] | undefined } };

const listCheck = (name: Check['name'], whose: string, list: readonly string[] | undefined, host: string): Check => {
  if (list === undefined) return { name, ok: true, detail: `${whose} names no hosts.` };
  const ok = isOnList(list, host);
  return { name, ok, detail: `The host is ${ok ? '' : 'not '}on the list of ${whose.toLowerCase()}.` };
};

/** Checks the destination like a request through the proxy does, before any look-up. */
export const checkHosts = (
  { egress }: Pick<ProxyContext, 'egress'>,
  { url, proxyHosts }: Destination,
  { allowed_hosts }: Pick<Caller, 'allowed_hosts'>,
): Check[] => {
  const host = URL.parse(url)?.hostname.replace(/\.$/, '') ?? '';
  return [
    ...(proxyHosts ? [listCheck('proxy.allowed_hosts', 'The proxy', proxyHosts.hosts, host)] : []),
    listCheck('application.allowed_hosts', 'The application', allowed_hosts, host),
    operatorCheck(egress, url),
  ];
};

const operatorCheck = (egress: ProxyContext['egress'], url: string): Check => {
  try {
    egress.check(url, []);
    return { name: 'operator', ok: true, detail: 'The operator of the vault lets requests go there.' };
  } catch (error) {
    if (!(error instanceof EgressFault)) throw error;
    return { name: 'operator', ok: false, detail: error.message };
  }
};

// Shows a request as the proxy would send it, with masks in place of the values of tokens. Pure: it opens, sends and writes nothing.

/** A request to the proxy. `url` is its target, with /proxy. */
type PreviewedRequest = { method: string; url: string; headers: Headers; body: Buffer | undefined };

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
