// One exchange with a destination: finds the expressions of a request, opens their tokens, writes their values, sends it, and makes the
// answer.
import { mayAnywhere } from '../access/rules.ts';
import { Work } from '../access/work.ts';
import { logRow, type LogRow } from '../../platform/db/audit-record.ts';
import type { Query } from '../../platform/db/statements.ts';
import type { EgressResponse } from '../../platform/egress/client.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { type Headers, loopMark } from '../../platform/egress/headers.ts';
import { type Account, FREE_BYTES } from '../../platform/base/accounts.ts';
import { timeoutsOf } from '../../platform/base/times.ts';
import type { CodeRights } from '../code/answer-calls.ts';
import { CodeResponse } from '../code/code-errors.ts';
import type { Nesting } from '../code/context.ts';
import type { Charge } from '../access/allowance.ts';
import { CodeClaim } from '../tokens/code-claim.ts';
import { type OpenedTokens, openTokens } from '../tokens/detokenize.ts';
import type { EchoGuard } from '../tokens/echo/echo-guard.ts';
import { createExpansion, type Expansion } from '../tokens/expressions/expansion.ts';
import type { Json } from '../../platform/json/json.ts';
import { type BodyKind, inUtf8 } from './bodies/body-kind.ts';
import { findInSlices, findNothing, type FoundExpressions } from './bodies/expressions.ts';
import { type Reservations, sentOf, type TakenBody } from './bodies/take-body.ts';
import { answerOfCode, requestingDecodable, transformAnswer } from './code-call.ts';
import { type CodeRule, settleCodes } from './code-rule.ts';
import type { ProxyContext } from './context.ts';
import { Delivery, type ForwardAttempt } from './forwards/attempt.ts';
import { type Message, refuseStaleDigests } from './message.ts';
import { answerDryRun, type Leaving } from './dry-run.ts';
import { askingToSearch } from './guard-answer.ts';
import { maskOfCode } from './mask-transform.ts';
import type { Acting } from './proxy-caller.ts';
import { type ProxyForUse, useOf } from './proxy-finder.ts';
import { readCharge } from './amount-rule.ts';
import type { AnswerWithin, ProxyRequest, Retry } from './request.ts';
import type { Run } from '../runs/run.ts';
import { type Base, destinationOf, refuseLongUrl, spell, type SpelledUrl, type Target } from './target.ts';
import { type About, transform, type TransformRights } from './transform.ts';

export type NestedRun = Required<Omit<Nesting, 'guard'>> & Pick<Nesting, 'guard'>;

/** What is known of a request before its body is read. */
export type Route = {
  tenant_id: string;
  account: Account;
  work: Work | undefined;
  actor: Acting;
  run: Run;
  proxy: ProxyForUse | undefined;
  /** Nothing is opened, counted, run or sent. */
  isDry: boolean;
  retry: Retry | undefined;
  allowLists: CodeRights['allowLists'];
  base: Base;
  target: Target;
  /** Undefined where nothing asks for one, and nothing may before the answer. */
  guard: EchoGuard | undefined;
  /** The destination, if path and query have no expressions. */
  sentTo: SpelledUrl;
  /** For requests that code of the proxy sends. */
  nested: NestedRun;
  /** Sends them. */
  answerProxy: TransformRights['answerProxy'];
  /** Whether code sends the request, and reads its response. */
  isReadByRun: boolean;
};

/** What is sent, before anything is written into it. */
export type Sent = { headers: Headers; kind: BodyKind } & TakenBody;

/** What the steps of an exchange have in common. */
type Exchange = {
  request: ProxyRequest;
  route: Route;
  sent: Sent;
  reservations: Reservations;
  attempt: ForwardAttempt | undefined;
  delivery: Delivery;
  found: FoundExpressions;
  /** The body without its coding, if it is in memory. */
  bytes: Uint8Array | undefined;
  /** Undefined where security codes live to the end of their time. */
  rule: CodeRule | undefined;
  claim: CodeClaim | undefined;
};

/** The code of a stored proxy. */
type OwnCode = { rights: TransformRights; hasCalled: () => boolean };

type Answered = { about: About; answer: EgressResponse };

/** Opens tokens, runs the request transform, sends the request, and runs the response transform. */
export const exchange = async (
  ctx: ProxyContext,
  given: Pick<Exchange, 'request' | 'route' | 'sent' | 'reservations' | 'attempt'>,
): Promise<AnswerWithin> => {
  const { proxy, isDry, work, run } = given.route;
  const made = await findExchange(ctx, given);
  if (isDry && work) return explainExchange(ctx, work, made);
  const tokens = await openValues(ctx, made);
  const code = codeOf(ctx, made);
  const answered = await send(ctx, made, tokens, code).catch(async (error: unknown) => {
    const isRefused = error instanceof EgressFault && error.code === 'TLS';
    // A destination that refuses the connection after our side of the handshake has not read the request.
    if (made.delivery.reached === 'nothing' || isRefused) await releaseCodes(made);
    await run.logFailure();
    throw error;
  });
  if (answered instanceof CodeResponse) {
    await releaseCodes(made);
    await run.logFailure();
    return withOutcome(made, answerOfCode(answered, undefined));
  }
  const { about, answer } = answered;
  if (!proxy || !code || proxy.response_transform === undefined) return withOutcome(made, passThrough(answer));
  const rights = { ...code.rights, hasValues: hasTokens(made) };
  return withOutcome(made, await transformAnswer(ctx, proxy, answer, about, rights, made.reservations));
};

const hasTokens = ({ found }: Exchange): boolean => found.references.ids.size > 0;

/** A claim that cannot be ended ends by itself. */
const releaseCodes = async ({ claim }: Exchange): Promise<void> => claim?.release().catch(() => undefined);

const withOutcome = ({ claim }: Exchange, answer: AnswerWithin): AnswerWithin =>
  claim ? { ...answer, headers: [...answer.headers, ['SVC-CVC', claim.outcome]] } : answer;

const passThrough = (answer: EgressResponse): AnswerWithin => {
  const { status, statusText, headers, bodyBytes, body } = answer;
  return { status, statusText, headers, body, bodyBytes, destination_status: status };
};

/** Finds the expressions of a request. */
const findExchange = async (
  ctx: ProxyContext,
  given: Pick<Exchange, 'request' | 'route' | 'sent' | 'reservations' | 'attempt'>,
): Promise<Exchange> => {
  const { account, work, proxy, target } = given.route;
  const { headers, kind, whole, decoded } = given.sent;
  const { coded } = given.request;
  const bytes = decoded?.bytes ?? whole;
  const body = bytes && { kind: decoded?.utf16 ? inUtf8(kind) : kind, bytes };
  const mayUse = work !== undefined && mayAnywhere(work, 'token:use');
  const places = { path: target.path, query: target.query, headers, body };
  const found =
    proxy?.hasExpressions === false
      ? findNothing(places, coded?.texts)
      : await ctx.accounts.runInTurns(account, findInSlices(places, coded?.texts, mayUse));
  const rule = proxy?.cvc?.until === 'answered' ? proxy.cvc : undefined;
  const claim = rule && work && new CodeClaim(ctx, work, found.references, given.attempt?.id);
  return { ...given, delivery: given.attempt?.delivery ?? new Delivery(), found, bytes, rule, claim };
};

/** Reserves memory for the growth of a body: a new body replaces the one that it was made of. */
const reserveGrowth = (
  ctx: ProxyContext,
  { route: { account }, reservations }: Exchange,
  made: Uint8Array | undefined,
  before: Uint8Array | undefined,
): void => {
  const more = (made?.byteLength ?? 0) - (before?.byteLength ?? 0);
  if (more > FREE_BYTES) reservations.push(ctx.accounts.reserve(account, 'request_bytes', more));
};

/** The request with what an expansion gives in place of expressions, before the request transform. */
const prepare = (ctx: ProxyContext, made: Exchange, expansion: Expansion) => {
  const { found, bytes, sent } = made;
  const { target, base, sentTo: asWritten, proxy } = made.route;
  const opened = found.expand(expansion);
  reserveGrowth(ctx, made, opened.body, bytes);
  // Before the code runs: code changes neither path nor query.
  const isAsWritten = opened.path === target.path && opened.query === target.query;
  const sentTo = isAsWritten ? asWritten : destinationOf(base, { ...target, ...opened });
  refuseLongUrl(sentTo, opened);
  const use = { hasValues: found.isInBody, isRead: proxy?.request_transform !== undefined };
  return { opened, sentTo, before: sentOf(sent.decoded, use, opened, sent.whole) };
};

type Content = Pick<Message, 'headers' | 'body'>;

/** What the request charges, for values with an allowance. */
const chargeOf = (
  ctx: ProxyContext,
  { account, proxy }: Route,
  sentTo: SpelledUrl,
  { given, leaving }: { given: Content; leaving: Content },
): Charge | string | Promise<Charge | string> => {
  const { search } = new URL(spell(sentTo));
  return ctx.accounts.runInTurns(account, readCharge({ ...leaving, search }, { ...given, search }, proxy));
};

const useIn = ({ route: { sentTo, proxy }, found }: Exchange) => useOf(sentTo.url, proxy, found.placesOf);

/** A dry run: what would leave, with masks in place of values. */
const explainExchange = (ctx: ProxyContext, work: Work, made: Exchange): Promise<AnswerWithin> => {
  const { request, route, sent, bytes, found } = made;
  const leaving = (expansion: Expansion): Leaving => {
    const { opened, sentTo, before } = prepare(ctx, made, expansion);
    if (before.body !== sent.whole) refuseStaleDigests(sent.headers, before.headers);
    return { ...opened, sentTo, headers: before.headers, body: before.body };
  };
  const chargeOfLeaving = (left: Leaving) =>
    chargeOf(ctx, route, left.sentTo, { given: { headers: left.headers, body: bytes }, leaving: left });
  return answerDryRun(ctx, work, {
    method: request.method,
    proxy: route.proxy,
    url: spell(route.sentTo),
    references: found.references,
    use: useIn(made),
    isStreamed: sent.chunks !== undefined,
    prepare: leaving,
    chargeOf: chargeOfLeaving,
  });
};

/** Opens the tokens. The log rows are committed when this resolves: before anything is sent. */
const openValues = async (ctx: ProxyContext, made: Exchange): Promise<OpenedTokens | undefined> => {
  const { attempt, claim, found } = made;
  const { tenant_id, work, actor, run, proxy, sentTo } = made.route;
  const { references } = found;
  const destination_host = sentTo.url.host;
  // Without a stored proxy the log row names the tenant, because a host is no entity and several tenants may use it.
  const ofProxy = { entity_type: 'proxy', entity_ids: [proxy?.id ?? tenant_id], destination_host };
  // Without a stored proxy, the rows of the tokens suffice.
  const ownRows = proxy || !hasTokens(made) ? [logRow(ctx, actor, { operation: 'use', ...ofProxy })] : [];
  const begin = (rows: readonly LogRow[], count?: (query: Query) => Promise<void>): Promise<void> =>
    attempt ? attempt.begin(rows, references.ids, count) : run.begin(rows, count);
  const logging = { beside: ownRows, write: begin, destination_host, codes: claim, isCounted: attempt?.isCounted };
  const tokens = work && (await openTokens(ctx, work, references, useIn(made), logging));
  if (!hasTokens(made)) await begin(ownRows);
  return tokens;
};

/** The code of the stored proxy, with the rights of its application and the hosts that the proxy may reach. */
const codeOf = (ctx: ProxyContext, { request: { signal }, route }: Exchange): OwnCode | undefined => {
  const { proxy, actor, nested, answerProxy, run } = route;
  if (!proxy) return undefined;
  let hasCalled = false;
  const { tenant_id, application_id } = proxy;
  const findApplication = async (): Promise<Work | undefined> => {
    if (application_id === undefined) return undefined;
    const application = await ctx.callers.findCallerOfApplication({ tenant_id }, application_id);
    const origin = { ...actor.origin, code_application_id: application_id };
    const { record, usage } = actor;
    const noteOpened = nested.guard?.noteOpened;
    return application && new Work(ctx, application, { origin, record, usage, noteOpened });
  };
  const { account, allowLists, opened, endsAtMs } = nested;
  const limits = { account, allowLists, opened, endsAtMs };
  const noteCalled = (): void => void (hasCalled = true);
  const rights = { actor, logged: Promise.resolve(), findApplication, ...limits, answerProxy };
  return { rights: { ...rights, signal, request: run, noteCalled }, hasCalled: () => hasCalled };
};

/** Writes the values into the request, and sends it. @returns the answer of the code, if that answers in place of the destination. */
const send = async (
  ctx: ProxyContext,
  made: Exchange,
  tokens: OpenedTokens | undefined,
  code: OwnCode | undefined,
): Promise<CodeResponse | Answered> => {
  const { request, route, sent, delivery, found, claim, rule, reservations } = made;
  const { method } = request;
  const values = tokens?.values ?? (() => undefined);
  const expansion = createExpansion(values, ctx.expressionEnvironment, found.references, tokens?.absent);
  const { opened, sentTo, before: prepared } = prepare(ctx, made, expansion);
  if (isReadByCode(route)) await noteForCode(ctx, made, tokens);
  const about: About = { method, path: opened.path, query: opened.query, url: spell(sentTo) };
  const before: Message = { ...prepared, hasValues: hasTokens(made) };
  const outgoing = await transformRequest(ctx, made, code, before, about);
  if (outgoing instanceof CodeResponse) return outgoing;
  reserveGrowth(ctx, made, outgoing.body, opened.body);
  if (outgoing.body !== sent.whole) refuseStaleDigests(sent.headers, outgoing.headers);
  if (tokens?.spending) {
    const leaving = { headers: outgoing.headers, body: sent.chunks ? undefined : outgoing.body };
    const contents = { given: { headers: before.headers, body: made.bytes }, leaving };
    // If the process dies after uses are taken back, the record says `sent`: its repetition would count none.
    const isUnsent = code?.hasCalled() !== true && !isNotedAsSent(made);
    const isOfCode = route.proxy?.request_transform !== undefined;
    await tokens.spending.spend(await chargeOf(ctx, route, sentTo, contents), { isUnsent, isOfCode });
  }
  const answer = await ctx.egress.request(egressRequestOf(ctx, made, sentTo, outgoing));
  delivery.answered(answer.status);
  route.run.destinationAnswered(answer.status);
  if (!claim || !rule) return { about, answer };
  const settling = { claim, spending: tokens?.spending, rule };
  return { about, answer: await settleCodes(ctx, settling, answer, { account: route.account, reservations }) };
};

/** A destination may echo the values to the code, even in another encoding. */
const isReadByCode = ({ isReadByRun, proxy }: Route): boolean => isReadByRun || proxy?.response_transform !== undefined;

const noteForCode = async (
  ctx: ProxyContext,
  { route: { account, nested }, found: { references } }: Exchange,
  tokens: OpenedTokens | undefined,
): Promise<void> => {
  for (const id of references.ids) {
    const value = (tokens?.values(id, references.isWhole) ?? null) as Json;
    await ctx.accounts.runInTurns(account, nested.opened.add(value));
  }
};

/** Code may send something of its own: then the record says `sent` before it runs. */
const isNotedAsSent = ({ attempt, route: { proxy } }: Exchange): boolean =>
  attempt !== undefined && proxy?.request_transform !== undefined && !maskOfCode(proxy.request_transform);

const transformRequest = async (
  ctx: ProxyContext,
  made: Exchange,
  code: OwnCode | undefined,
  before: Message,
  about: About,
): Promise<CodeResponse | Message> => {
  const { delivery } = made;
  const { proxy } = made.route;
  if (isNotedAsSent(made)) await delivery.sending();
  const transforming = proxy && code ? transform(ctx, proxy, 'request', before, about, code.rights) : before;
  return Promise.resolve(transforming).finally(() => {
    if (code?.hasCalled() !== true) delivery.notSent();
  });
};

/** Headers that ask for an answer which can be searched, or read by code. */
const askedHeaders = ({ route: { isReadByRun, guard, proxy }, rule }: Exchange, headers: Headers): Headers => {
  const isSearched = !isReadByRun && guard !== undefined && guard.mode !== 'off';
  if (isSearched || rule?.keep?.when) return askingToSearch(headers);
  return proxy?.response_transform === undefined ? headers : requestingDecodable(headers);
};

/** In place of what the caller or code says: one key of ours is one request for the destination. */
const withKey = (headers: Headers, key: [name: string, value: string] | undefined): Headers =>
  key ? [...headers.filter(([name]) => name.toLowerCase() !== key[0].toLowerCase()), key] : headers;

const egressRequestOf = (
  ctx: ProxyContext,
  made: Exchange,
  sentTo: SpelledUrl,
  outgoing: Message,
): Parameters<ProxyContext['egress']['request']>[0] => {
  const { attempt, delivery, sent } = made;
  const { method, signal, bodyBytes } = made.request;
  const { tenant_id, account, allowLists, proxy } = made.route;
  return {
    tenant_id,
    account,
    ...sentTo,
    method,
    headers: [...withKey(askedHeaders(made, outgoing.headers), attempt?.destinationHeader), loopMark(ctx)],
    body: sent.chunks ?? outgoing.body,
    bodyBytes: sent.chunks && bodyBytes,
    signal,
    allowLists,
    clientCertificate: proxy?.client_certificate,
    timeouts: proxy?.timeout_seconds === undefined ? undefined : timeoutsOf(proxy.timeout_seconds),
    sending: delivery.sending,
  };
};
