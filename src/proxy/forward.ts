// The proxy: a request comes in with expressions and goes out with the values of tokens in their place, to a destination
// that the caller or a stored proxy names. Read from top to bottom: the route, who asks, the body, the values, the code
// before, the destination, the code behind. Knows neither Fastify nor undici.
import type { Caller, RequestOrigin } from '../access/caller.ts';
import { mayAnywhere } from '../access/rules.ts';
import { type Actor, failedRows, logRow, type LogRow } from '../audit/record.ts';
import type { Context } from '../context.ts';
import type { EgressResponse } from '../egress/client.ts';
import { DECODABLE_CODINGS, isDecodable } from '../egress/body.ts';
import { EgressFault } from '../egress/fault.ts';
import { takeWhole } from '../egress/fetch.ts';
import { type Headers, requestHeaders, withoutCallerTrace } from '../egress/headers.ts';
import { FREE_BYTES } from '../egress/room.ts';
import { AppError, badRequest, forbidden, invalidField, notFound, unauthorized } from '../errors.ts';
import type { CodeRights } from '../runtime/answer-calls.ts';
import { CodeResponse } from '../runtime/code-errors.ts';
import { type Call, RUN_BYTES_MAX } from '../sandbox/sandbox.ts';
import type { CodedTexts } from '../vault/coded-texts.ts';
import { openTokens } from '../vault/detokenize.ts';
import { createExpansion } from '../vault/expansion.ts';
import type { Json } from '../vault/json.ts';
import { runInTurns } from '../vault/json-parser.ts';
import { createOpenedTexts, type OpenedTexts } from '../vault/opened-texts.ts';
import { readAnswer } from './answer-text.ts';
import { type BodyKind, decodedKindOf, inUtf8, saysJson } from './body-kind.ts';
import { callAnswer, parseProxyCall } from './code-call.ts';
import { sentOf } from './coded-body.ts';
import { findInSlices } from './expressions.ts';
import { destinationRefused, forwardingFault } from './faults.ts';
import { loopMark, refuseLoop } from './loop.ts';
import type { Message } from './message.ts';
import type { ProxyForUse } from './proxy-finder.ts';
import { type Held, type IncomingBody, takeBody, type TakenBody } from './take-body.ts';
import { destinationOf, namesKey, NO_KEY, parseTarget, refuseLong, type Target } from './target.ts';
import { type About, transform, type TransformRights } from './transform.ts';

/** Code of a proxy may call proxies, whose code may call proxies: each level holds a run of the tenant's share. */
const DEPTH_MAX = 3;

/** A request to the proxy as it came in. */
export type ProxyRequest = IncomingBody & {
  /** Undefined where no API key was sent. */
  caller: Caller | undefined;
  origin: RequestOrigin | undefined;
  method: string;
  /** The request target, `/proxy` and all. */
  url: string;
  headers: Headers;
  /** Aborted when nobody waits for the answer any more. */
  signal: AbortSignal;
  /** Of a request that a tenant's code makes: what it marked, and whether its body is one literal text. */
  coded?: { texts: CodedTexts; hasLiteralBody: boolean };
};

/** What goes back to the caller. */
export type ProxyAnswer = {
  status: number;
  statusText: string;
  headers: Headers;
  body: Uint8Array | EgressResponse['body'] | undefined;
  /** The length of a body in pieces, where it is known. */
  bodyBytes: number | undefined;
  /** The destination's own; undefined where it was not asked. */
  destination_status: number | undefined;
  /** To be called when the answer has gone out, or nobody waits for it any more: until then it takes memory here. */
  release(): void;
};

type AnswerWithin = Omit<ProxyAnswer, 'release'>;

/** How many runs of code deep a request is made, which hosts those above may lead to, and what of tokens they have seen. */
export type Nesting = { depth: number; allowLists: CodeRights['allowLists']; opened?: OpenedTexts };

const outside: Nesting = { depth: 0, allowLists: [] };

/**
 * Forwards a request.
 * @throws notFound for an unknown proxy key, and for another tenant's; unauthorized; forbidden; badRequest, invalidInput and
 * payloadTooLarge for the request; a code_failed for what a transform throws; bad_gateway and gateway_timeout for the
 * destination; unavailable.
 */
export const forward = async (ctx: Context, asked: ProxyRequest, nesting = outside): Promise<ProxyAnswer> => {
  const target = parseTarget(asked.url);
  refuseLoop(ctx, asked.headers);
  const proxy = await findProxy(ctx, asked, target.proxyKeys);
  const { tenant_id, caller } = await findActor(ctx, asked, proxy);
  const own = [proxy?.allowed_hosts, caller?.allowed_hosts].filter((list) => list !== undefined);
  const allowLists = [...nesting.allowLists, ...own];
  const { base, place } = findBase(ctx, asked.headers, proxy, allowLists);
  // What leads out of the destination's path is refused before anything is read or written for it.
  const url = destinationOf(base, target.path, target.query);
  const headers = crossing(asked);
  const below = { depth: nesting.depth + 1, allowLists, opened: nesting.opened ?? createOpenedTexts() };
  const route: Route = { tenant_id, caller, proxy, allowLists, base, target, url, below };
  const said = decodedKindOf(headers);
  const kind: BodyKind = asked.coded?.hasLiteralBody ? { kind: 'bytes' } : said;
  const isTransformed = proxy?.request_transform !== undefined;
  const held: Held = [];
  const release = () => held.forEach((room) => room.release());
  try {
    const isUnread = saysJson(headers) && said.kind === 'bytes';
    const wanted = { kind, said, headers, isUnread, isTransformed, hasMarks: asked.coded !== undefined };
    const taken = await takeBody(ctx, tenant_id, asked, wanted, held);
    return { ...(await exchange(ctx, asked, route, { headers, kind, ...taken }, held)), release };
  } catch (error) {
    release();
    // A caller with a key has its refusal logged by the route, and code by the answer to its call.
    if (!asked.caller && caller && error instanceof AppError && error.code === 'forbidden')
      await ctx.refusals.record(caller, error, undefined);
    throw forwardingFault(error, place);
  }
};

/** What is known of a request before its body is looked at. */
type Route = {
  tenant_id: string;
  caller: Caller | undefined;
  proxy: ProxyForUse | undefined;
  allowLists: CodeRights['allowLists'];
  base: URL;
  target: Target;
  /** The destination for a target without expressions. */
  url: URL;
  /** For what code of the proxy sends. */
  below: Required<Nesting>;
};

/** Values in, code before, to the destination and back, code behind. */
const exchange = async (
  ctx: Context,
  { method, bodyBytes, signal, origin, coded }: ProxyRequest,
  { tenant_id, caller, proxy, allowLists, base, target, url, below }: Route,
  { headers, kind, whole, pieces, decoded }: { headers: Headers; kind: BodyKind } & TakenBody,
  held: Held,
): Promise<AnswerWithin> => {
  /** What was made takes the place of what it was made of. */
  const hold = (made: Uint8Array | undefined, before: Uint8Array | undefined): void => {
    const more = (made?.byteLength ?? 0) - (before?.byteLength ?? 0);
    if (more > FREE_BYTES) held.push(ctx.egress.rooms.takeForRequest(tenant_id, more));
  };
  const bytes = decoded?.bytes ?? whole;
  const body = bytes && { kind: decoded?.wasUtf16 ? inUtf8(kind) : kind, bytes };
  const mayUse = caller !== undefined && mayAnywhere(caller, 'token:use');
  const places = { path: target.path, query: target.query, headers, body };
  const found = await runInTurns(findInSlices(places, coded?.texts, mayUse));
  const { references } = found;
  const actor: Actor = caller ?? {
    actor_id: null,
    actor_type: null,
    origin: proxy ? { ...origin, proxy_id: proxy.id } : origin,
  };
  const hasTokens = references.ids.size > 0;
  const destination_host = url.host;
  // Without a stored proxy the tenant's own: a host is no entity, and other tenants name the same.
  const ofProxy = { entity_type: 'proxy', entity_ids: [proxy?.id ?? tenant_id], destination_host };
  // Written before anything leaves: with the rows of the tokens, which say enough where no stored proxy is used, or alone.
  const beside = proxy || !hasTokens ? [logRow(ctx, actor, { operation: 'use', ...ofProxy })] : [];
  const tokens = caller && (await openTokens(ctx, caller, references, 'use', { beside, destination_host }));
  if (!hasTokens) await ctx.db.for({ tenant_id }).insertLogs(beside);
  const rows: readonly LogRow[] = hasTokens && tokens ? tokens.logged : beside;
  const logFailure = (): Promise<unknown> => ctx.db.for({ tenant_id }).insertLogs(failedRows(ctx, rows));
  const rights = proxy && rightsOf(ctx, proxy, actor, below);
  const isReadByCode = proxy?.response_transform !== undefined;

  const send = async (): Promise<CodeResponse | { about: About; answer: EgressResponse }> => {
    const opened = found.expand(
      createExpansion(tokens?.values ?? (() => undefined), ctx.expressionEnvironment, references),
    );
    hold(opened.body, bytes);
    // Code may get them back in the answer, in another writing as well.
    for (const id of references.ids) below.opened.add((tokens?.values(id, references.isWhole) ?? null) as Json);

    const about: About = { method, path: opened.path, query: opened.query };
    const isSeen = found.isInBody || proxy?.request_transform !== undefined;
    const before: Message = { ...sentOf(decoded, isSeen, opened, whole), hasValues: hasTokens };
    const outgoing = proxy && rights ? await transform(ctx, proxy, 'request', before, about, rights) : before;
    if (outgoing instanceof CodeResponse) return outgoing;
    hold(outgoing.body, opened.body);

    const isAsWritten = opened.path === target.path && opened.query === target.query;
    const sentTo = isAsWritten ? url : destinationOf(base, opened.path, opened.query);
    refuseLong(sentTo, opened);
    const answer = await ctx.egress.request({
      tenant_id,
      url: sentTo,
      method,
      headers: [...(isReadByCode ? askingForDecodable(outgoing.headers) : outgoing.headers), loopMark(ctx)],
      body: pieces ?? outgoing.body,
      bodyBytes: pieces && bodyBytes,
      signal,
      allowLists,
      clientCertificate: proxy?.client_certificate,
    });
    return { about, answer };
  };
  const sent = await send().catch(async (error: unknown) => {
    await logFailure();
    throw error;
  });
  if (sent instanceof CodeResponse) {
    await logFailure();
    return madeByCode(sent, undefined);
  }
  const { about, answer } = sent;
  if (!proxy || !rights || proxy.response_transform === undefined) return asItCame(answer);
  return transformAnswer(ctx, proxy, answer, about, { ...rights, signal, hasValues: hasTokens }, held);
};

/** The stored proxy that the request addresses; undefined where it names its destination itself. */
const findProxy = async (
  ctx: Context,
  { caller, headers }: ProxyRequest,
  inQuery: string[],
): Promise<ProxyForUse | undefined> => {
  const keys = new Set([...valuesOf(headers, 'svc-proxy-key'), ...inQuery]);
  if (keys.size > 1) throw invalidField('SVC-PROXY-KEY', 'must name one proxy, in the header or in the query');
  const [key] = keys;
  if (key === undefined) return undefined;
  const proxy = await ctx.proxies.findProxyBeforeCaller(key);
  if (!proxy || (caller && caller.tenant_id !== proxy.tenant_id)) throw notFound('proxy');
  return proxy;
};

/** Who acts: the caller; without an API key, the application of a proxy that is open; nobody where it has none. */
const findActor = async (
  ctx: Context,
  { caller, origin }: ProxyRequest,
  proxy: ProxyForUse | undefined,
): Promise<{ tenant_id: string; caller: Caller | undefined }> => {
  const through = proxy ? { ...origin, proxy_id: proxy.id } : origin;
  if (caller) return { tenant_id: caller.tenant_id, caller: { ...caller, origin: through } };
  if (!proxy || proxy.require_auth) throw unauthorized();
  const { tenant_id, application_id } = proxy;
  if (application_id === undefined) return { tenant_id, caller: undefined };
  const application = await ctx.callers.findCallerOfApplication({ tenant_id }, application_id);
  return { tenant_id, caller: application && { ...application, origin: through } };
};

/** Where to, before anything is read or written for it. @returns also what of the request names it, for a refusal. */
const findBase = (
  ctx: Context,
  headers: Headers,
  proxy: ProxyForUse | undefined,
  allowLists: readonly (readonly string[])[],
): { base: URL; place: string | undefined } => {
  const place = proxy ? undefined : 'SVC-PROXY-URL';
  const [url, ...others] = proxy ? [proxy.destination_url] : valuesOf(headers, 'svc-proxy-url');
  if (url === undefined || others.length > 0)
    throw invalidField('SVC-PROXY-URL', 'must be the URL of the destination, or SVC-PROXY-KEY the key of a proxy');
  const base = checked(ctx, url, allowLists, place);
  // Never sent, and no part of what is asked for.
  base.hash = '';
  if (base.search !== '' && namesKey(base)) throw invalidField('SVC-PROXY-URL', NO_KEY);
  return { base, place };
};

const checked = (
  ctx: Context,
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

/** What of the caller's headers goes on; the rest is not looked at for expressions either. */
const crossing = ({ headers, coded }: ProxyRequest): Headers => {
  try {
    const crossed = requestHeaders(headers);
    // What code writes is not the caller's.
    return coded ? crossed : withoutCallerTrace(crossed);
  } catch (error) {
    throw forwardingFault(error);
  }
};

/** What a proxy's code may: what its application may, wherever the proxy itself may lead. */
const rightsOf = (
  ctx: Context,
  { tenant_id, application_id }: ProxyForUse,
  actor: Actor,
  below: Required<Nesting>,
): TransformRights => ({
  actor,
  logged: Promise.resolve(),
  findApplication: async () => {
    if (application_id === undefined) return undefined;
    const application = await ctx.callers.findCallerOfApplication({ tenant_id }, application_id);
    return application && { ...application, origin: actor.origin, record: actor.record };
  },
  allowLists: below.allowLists,
  opened: below.opened,
  answerProxy: (application, call) => forwardForCode(ctx, application, call, below),
});

const asItCame = (answer: EgressResponse): AnswerWithin => {
  const { status, statusText, headers, bodyBytes, body } = answer;
  return { status, statusText, headers, body, bodyBytes, destination_status: status };
};

const madeByCode = ({ status, headers, body }: CodeResponse, destination_status: number | undefined): AnswerWithin => ({
  status,
  statusText: '',
  headers: Object.entries(headers),
  body: body === undefined ? undefined : Buffer.from(body),
  bodyBytes: undefined,
  destination_status,
});

/** Code is shown answers as they are meant, so what the caller could decode does not count. */
const askingForDecodable = (headers: Headers): Headers => [
  ...headers.filter(([name]) => name.toLowerCase() !== 'accept-encoding'),
  ['Accept-Encoding', DECODABLE_CODINGS],
];

/** A label of the Encoding Standard is short and plain; whatever else a destination writes there is not repeated. */
const undecodable = (charset: string): AppError =>
  new AppError(
    'bad_gateway',
    `The body of the destination's answer cannot be decoded from ${/^[\w.:()+-]{1,40}$/.test(charset) ? `"${charset}"` : 'the charset that it declares'}.`,
  );

/** The code sees the answer whole and decoded, whatever its status; what goes on is not coded any more. */
const transformAnswer = async (
  ctx: Context,
  proxy: ProxyForUse,
  answer: EgressResponse,
  about: About,
  { signal, hasValues, ...rights }: TransformRights & { signal: AbortSignal; hasValues: boolean },
  held: Held,
): Promise<AnswerWithin> => {
  const { tenant_id } = proxy;
  const { status, statusText } = answer;
  if (!isDecodable(answer.headers)) {
    answer.body.destroy();
    throw new EgressFault('DECODE');
  }
  const { body, release } = await takeWhole(ctx.egress, { tenant_id, signal, bodyBytesMax: RUN_BYTES_MAX }, answer);
  held.push({ release });
  const headers = answer.headers.filter(([name]) => name.toLowerCase() !== 'content-encoding');
  const { message: came, unread } = readAnswer({ headers, body, hasValues });
  if (unread !== undefined) throw undecodable(unread);
  const made = await transform(ctx, proxy, 'response', came, { ...about, status }, rights);
  if (made instanceof CodeResponse) return madeByCode(made, status);
  return { status, statusText, ...made, bodyBytes: undefined, destination_status: status };
};

/** `svc.proxy` of running code: as the API would forward it for the code's application. @throws as forward; CallFault. */
export const forwardForCode = async (
  ctx: Context,
  application: Caller,
  { input, signal, sent }: Pick<Call, 'input' | 'signal' | 'sent'>,
  nesting: Nesting,
): Promise<unknown> => {
  if (nesting.depth > DEPTH_MAX) throw badRequest('Code called proxies whose code called proxies, too often.');
  if (!mayAnywhere(application, 'token:use')) throw forbidden('token:use');
  const asked = { ...parseProxyCall(input), caller: application, origin: application.origin, signal };
  const answer = await forward(ctx, asked, nesting);
  void sent.then(() => answer.release());
  return callAnswer(ctx, application.tenant_id, answer, { signal, sent });
};
