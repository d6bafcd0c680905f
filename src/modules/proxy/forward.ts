// Forwards a request to a destination, with token values in place of expressions.
// In order: stored proxy, caller, body, tokens, request transform, destination, response transform.
import { ECHO_MODE_NEEDED, type EchoMode, echoModeOf, strictestOf } from '../access/echo-mode.ts';
import type { AnswerRecord } from '../access/answer-record.ts';
import { Work } from '../access/work.ts';
import type { AnswerWithin, ProxyAnswer, ProxyRequest, Retry } from './request.ts';
import { holdsApiKey } from '../access/api-keys.ts';
import { asksForDryRunIn } from '../access/dry-run-header.ts';
import { mayAnywhere } from '../access/rules.ts';
import { type Actor, logRow, type LogRow, type Usage } from '../../platform/db/audit-record.ts';
import type { Query } from '../../platform/db/statements.ts';
import type { ProxyContext } from './context.ts';
import type { EgressResponse } from '../../platform/egress/client.ts';
import { codingsOf, isDecodable } from '../../platform/egress/body.ts';
import { afterSending, EgressFault } from '../../platform/base/egress-fault.ts';
import { type Headers, loopMark, refuseLoop } from '../../platform/egress/headers.ts';
import { type Account, FREE_BYTES, openAccount } from '../../platform/base/accounts.ts';
import { ownNameOf } from '../../platform/http/header-prefixes.ts';
import { findOperation } from '../../platform/base/event-loop.ts';
import { svcProxyMs, timeoutsOf } from '../../platform/base/times.ts';
import { AppError, badRequest, forbidden, invalidField, notFound, unauthorized } from '../../platform/base/errors.ts';
import type { CodeRights } from '../code/answer-calls.ts';
import type { Nesting } from '../code/context.ts';
import { CodeResponse } from '../code/code-errors.ts';
import type { Call } from '../../platform/sandbox/protocol/sandbox.ts';
import { openTokens } from '../tokens/detokenize.ts';
import { createExpansion, type Expansion } from '../tokens/expressions/expansion.ts';
import type { Json } from '../../platform/json/json.ts';
import { createEchoGuard, type EchoGuard, guardOf, refuseEchoIn } from '../tokens/echo/echo-guard.ts';
import { createOpenedTexts } from '../tokens/expressions/opened-texts.ts';
import { type BodyKind, decodedKindOf, inUtf8, saysJson } from './bodies/body-kind.ts';
import { answerOfCode, callAnswer, parseProxyCall, requestingDecodable, transformAnswer } from './code-call.ts';
import { begun, type Reservations, sentOf, takeBody, type TakenBody } from './bodies/take-body.ts';
import { findInSlices, findNothing } from './bodies/expressions.ts';
import { Delivery } from './delivery.ts';
import { refuseStaleDigests } from './digests.ts';
import { CodeClaim } from '../tokens/code-claim.ts';
import { settleCodes } from './code-rule.ts';
import { answerDryRun, type Leaving } from './dry-run.ts';
import { forwardingFault } from './faults.ts';
import { askingToSearch, guardAnswer } from './guard-answer.ts';
import { maskOfCode } from './mask-transform.ts';
import { type ForwardAttempt, openForward, recordingFor } from './forwards/attempt.ts';
import { keepAnswer, unrefused } from './forwards/keep-answer.ts';
import type { Message } from './message.ts';
import { readCharge } from './read-charge.ts';
import type { Charge } from '../access/allowance.ts';
import { findBase, forwardedHeaders, proxyKeysOf } from './outgoing.ts';
import { refuseOwnKeys } from './own-keys.ts';
import type { ProxyForUse } from './proxy-finder.ts';
import { type Base, destinationOf, parseTarget, refuseLongUrl, spell, type SpelledUrl, type Target } from './target.ts';
import { Run } from '../runs/run.ts';
import { type About, transform, type TransformRights } from './transform.ts';
import { useOf } from './use.ts';

/** Code of a proxy may call proxies whose code calls proxies. Each level occupies one of the tenant's runs. */
const DEPTH_MAX = 3;

const topLevel: Nesting = { depth: 0, allowLists: [] };

/**
 * Forwards a request.
 * @throws notFound for an unknown proxy key, and for another tenant's; unauthorized; forbidden; badRequest, invalidInput and
 * payloadTooLarge for the request; code_failed if a transform throws; bad_gateway and gateway_timeout for the destination;
 * unavailable.
 */
export const forward = async (ctx: ProxyContext, request: ProxyRequest, nesting = topLevel): Promise<ProxyAnswer> => {
  const target = parseTarget(request.url, ctx.config.headerPrefixes);
  refuseLoop(ctx, request.headers);
  const isDry = asksForDryRunIn(request.headers);
  // A stranger learns nothing of an open proxy, not even whether it exists.
  if (isDry && !request.work) throw unauthorized();
  const proxy = await findProxy(ctx, request, proxyKeysOf(request.headers, target));
  const { tenant_id, work: found, usage } = await findActor(ctx, request, proxy);
  const guard = isDry ? undefined : (nesting.guard ?? (await makeGuard(ctx, request, proxy, found)));
  if (nesting.guard) guard?.tighten(proxy ? proxy.echo_guard : found?.caller.echo_guard);
  const retry = isDry ? undefined : request.retry;
  const recording = recordingFor(retry);
  const work = guard ? found?.with({ noteOpened: guard.noteOpened, ...recording }) : found;
  const actor: Acting = work ?? {
    actor_id: null,
    actor_type: null,
    origin: proxy ? { ...request.origin, proxy_id: proxy.id } : request.origin,
    usage,
  };
  const about = { tenant_id, kind: 'proxy' as const, resource_id: proxy?.id, version: proxy && String(proxy.version) };
  const run = new Run(ctx, actor, about);
  if (isDry) run.leave();
  try {
    return await forwardFrom(
      ctx,
      request,
      { target, proxy, tenant_id, work, actor, run, isDry, guard, retry },
      nesting,
    );
  } catch (error) {
    run.failed(error);
    throw error;
  }
};

type Found = Pick<Route, 'target' | 'proxy' | 'tenant_id' | 'work' | 'actor' | 'run' | 'isDry' | 'guard' | 'retry'>;

const forwardFrom = async (
  ctx: ProxyContext,
  request: ProxyRequest,
  found: Found,
  nesting: Nesting,
): Promise<ProxyAnswer> => {
  const { target, proxy, tenant_id, work, run, isDry, guard, retry } = found;
  // Anonymous clients of an open proxy have shares of their own, also where its code sends their requests on.
  const account = nesting.account ?? (request.work ? tenant_id : openAccount(tenant_id, request.origin?.ip));
  if (nesting === topLevel) nameOperation(ctx, account, proxy?.id);
  const own = [proxy?.allowed_hosts, work?.caller.allowed_hosts].filter((list) => list !== undefined);
  const allowLists = [...nesting.allowLists, ...own];
  // A dry run names the list that refuses.
  const { base, place } = findBase(ctx, request.headers, proxy, isDry ? nesting.allowLists : allowLists);
  // Checked first: a path outside the destination's path is refused before anything is read or written.
  const sentTo = destinationOf(base, target);
  run.sending(sentTo.url.host);
  const headers = forwardedHeaders(request);
  // Code may have the key of another vault from its configuration.
  if (!request.coded) {
    const proxyKeys = proxy ? proxyKeysOf(request.headers, target) : [];
    refuseOwnKeys({ ...target, headers, namedUrl: proxy ? undefined : base.url.href, proxyKeys });
  }
  const { endsAtMs = Infinity, opened = createOpenedTexts() } = nesting;
  const nested = { depth: nesting.depth + 1, allowLists, opened, account, endsAtMs, guard };
  const isReadByRun = nesting.opened !== undefined;
  const route: Route = { ...found, account, allowLists, base, sentTo, nested, isReadByRun };
  const declaredKind = decodedKindOf(headers);
  // A format that is not known may have a coding that is not known either.
  const isOpaque = declaredKind.kind === 'unread' && !isDecodable(headers);
  const isData = proxy?.hasExpressions === false || request.coded?.hasLiteralBody === true;
  const kind: BodyKind = isData || isOpaque ? { kind: 'bytes' } : declaredKind;
  const isTransformed = proxy?.request_transform !== undefined;
  const reservations: Reservations = [];
  let attempt: ForwardAttempt | undefined;
  const release = () => reservations.forEach((reservation) => reservation.release());
  try {
    const isUnsupportedJson = saysJson(headers) && !('charset' in declaredKind);
    const wanted = {
      kind,
      declaredKind,
      headers,
      isUnsupportedJson,
      isTransformed,
      hasMarks: request.coded !== undefined,
      isHeld: retry !== undefined,
    };
    const taken = await takeBody(ctx, account, request, wanted, reservations);
    const isAnonymous = account !== tenant_id;
    const chunks = isAnonymous && taken.chunks ? await begun(taken.chunks) : taken.chunks;
    if (retry && work) {
      const { method } = request;
      const { whole: body, decoded } = taken;
      const readable = decoded?.bytes ?? (codingsOf(headers).length > 0 ? undefined : body);
      const asked = { work, run, retry, proxy, method, target, base, sentTo, headers, body, readable };
      const opened = await openForward(ctx, asked);
      if ('answer' in opened) {
        run.leave();
        return { ...opened.answer, account, run, release };
      }
      ({ attempt } = opened);
    }
    const sent = { headers: attempt?.headers ?? headers, kind, ...taken, chunks };
    const answer = await exchange(ctx, request, route, sent, reservations, attempt);
    const passed = isGuarding(route)
      ? await guardAnswer(ctx, answer, guardingOf(route, request, reservations))
      : answer;
    const keeping = { account, tenant_id, guard: guard as EchoGuard, reservations };
    const kept = attempt ? await keepAnswer(ctx, attempt, passed, keeping) : passed;
    attempt?.release();
    return { ...kept, account, run, release };
  } catch (thrown) {
    await attempt?.failed();
    attempt?.release();
    const error = isGuarding(route) ? await guardedError(ctx, route, thrown, reservations) : thrown;
    release();
    // Other refusals are logged elsewhere: with an API key by the route, and of code with the answer to its call.
    if (!request.work && work && error instanceof AppError && error.code === 'forbidden')
      await ctx.refusals.record(work, error, undefined);
    const fault = forwardingFault(error, place);
    run.failed(error, fault);
    throw fault;
  }
};

/** A stored proxy is known by its key only now. @throws unavailable where its requests held the event loop too long. */
const nameOperation = ({ heldOperations }: ProxyContext, account: Account, proxy_id = ''): void => {
  const operation = findOperation();
  operation?.rename(account, proxy_id);
  if (operation) heldOperations.check(operation.name());
};

type Content = Pick<Message, 'headers' | 'body'>;

type NestedRun = Required<Omit<Nesting, 'guard'>> & Pick<Nesting, 'guard'>;

/** Code sees answers as they came: that to the request which runs it is guarded. */
const isGuarding = ({ guard, isReadByRun }: Pick<Route, 'guard' | 'isReadByRun'>): boolean =>
  guard !== undefined && !isReadByRun;

const guardingOf = (
  { account, run, guard, proxy, tenant_id }: Route,
  { signal }: ProxyRequest,
  reservations: Reservations,
) => ({
  account,
  signal,
  run,
  guard: guard as EchoGuard,
  guarded: { tenant_id, record: 'proxy' as const, record_id: proxy?.id },
  reservations,
});

/** What code threw may hold a value too. @returns the error to answer with. */
const guardedError = async (
  ctx: ProxyContext,
  { account, guard, run, proxy, tenant_id }: Route,
  error: unknown,
  reservations: Reservations,
): Promise<unknown> => {
  try {
    const search = await guard?.search(account, reservations);
    if (search) await refuseEchoIn(ctx, account, search, error);
    return error;
  } catch (refusal) {
    guard?.report({ tenant_id, record: 'proxy', record_id: proxy?.id }, 1);
    run.echoed(1);
    return refusal;
  }
};

const GUARD_HEADER = 'svc-echo-guard';

/**
 * The guard of a request from outside: as strict as the stored proxy, or else the caller's application, the application of its code,
 * and the request itself want it; where none says anything, as the tenant wants it. @throws invalidField for another mode.
 */
const makeGuard = async (
  ctx: ProxyContext,
  { headers, retry }: ProxyRequest,
  proxy: ProxyForUse | undefined,
  work: Work | undefined,
): Promise<EchoGuard | undefined> => {
  const asked = headers.filter(([name]) => name.toLowerCase() === GUARD_HEADER).map(([, value]) => value.trim());
  const wanted = asked.map(echoModeOf);
  if (wanted.includes(undefined)) throw invalidField('SVC-ECHO-GUARD', ECHO_MODE_NEEDED);
  const runsCode = proxy?.request_transform !== undefined || proxy?.response_transform !== undefined;
  const { application_id } = proxy ?? {};
  const ofCode =
    proxy && runsCode && application_id !== undefined
      ? await ctx.callers.findCallerOfApplication(proxy, application_id)
      : undefined;
  const stored = strictestOf([proxy ? proxy.echo_guard : work?.caller.echo_guard, ofCode?.echo_guard]);
  const usual = proxy ? proxy.tenant_echo_guard : work?.caller.tenant_echo_guard;
  const mode = strictestOf([stored ?? usual ?? 'off', ...wanted]) as EchoMode;
  // What is stored of an answer is searched whatever the guard does.
  return retry ? createEchoGuard(unrefused(ctx), mode) : guardOf(ctx, mode, runsCode);
};

/** What is known of a request before its body is read. */
type Route = {
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
  /** Whether code sends the request, and reads its response. */
  isReadByRun: boolean;
};

/** Opens tokens, runs the request transform, sends the request, and runs the response transform. */
const exchange = async (
  ctx: ProxyContext,
  { method, bodyBytes, signal, coded }: ProxyRequest,
  {
    tenant_id,
    account,
    work,
    actor,
    run,
    proxy,
    isDry,
    allowLists,
    base,
    target,
    sentTo: asWritten,
    nested,
    isReadByRun,
    guard,
  }: Route,
  { headers, kind, whole, chunks, decoded }: { headers: Headers; kind: BodyKind } & TakenBody,
  reservations: Reservations,
  attempt: ForwardAttempt | undefined,
): Promise<AnswerWithin> => {
  const delivery = attempt?.delivery ?? new Delivery();
  /** Reserves memory for the growth of a body: a new body replaces the one that it was made of. */
  const reserveGrowth = (made: Uint8Array | undefined, before: Uint8Array | undefined): void => {
    const more = (made?.byteLength ?? 0) - (before?.byteLength ?? 0);
    if (more > FREE_BYTES) reservations.push(ctx.accounts.reserve(account, 'request_bytes', more));
  };
  const bytes = decoded?.bytes ?? whole;
  const body = bytes && { kind: decoded?.utf16 ? inUtf8(kind) : kind, bytes };
  const mayUse = work !== undefined && mayAnywhere(work, 'token:use');
  const places = { path: target.path, query: target.query, headers, body };
  const found =
    proxy?.hasExpressions === false
      ? findNothing(places, coded?.texts)
      : await ctx.accounts.runInTurns(account, findInSlices(places, coded?.texts, mayUse));
  const { references } = found;
  /** The request with what an expansion gives in place of expressions, before the request transform. */
  const prepare = (expansion: Expansion) => {
    const opened = found.expand(expansion);
    reserveGrowth(opened.body, bytes);
    // Before the code runs: code changes neither path nor query.
    const isAsWritten = opened.path === target.path && opened.query === target.query;
    const sentTo = isAsWritten ? asWritten : destinationOf(base, { ...target, ...opened });
    refuseLongUrl(sentTo, opened);
    const use = { hasValues: found.isInBody, isRead: proxy?.request_transform !== undefined };
    return { opened, sentTo, before: sentOf(decoded, use, opened, whole) };
  };
  const use = useOf(asWritten.url, proxy, found.placesOf);
  /** What the request charges, for values with an allowance. */
  const charge = (sentTo: SpelledUrl, given: Content, leaving: Content): Charge | string | Promise<Charge | string> => {
    const { search } = new URL(spell(sentTo));
    const slices = readCharge({ ...leaving, search }, { ...given, search }, proxy);
    return ctx.accounts.runInTurns(account, slices);
  };
  if (isDry && work) {
    const leaving = (expansion: Expansion) => {
      const { opened, sentTo, before } = prepare(expansion);
      if (before.body !== whole) refuseStaleDigests(headers, before.headers);
      return { ...opened, sentTo, headers: before.headers, body: before.body };
    };
    const isStreamed = chunks !== undefined;
    const of = { method, proxy, url: spell(asWritten), references, use, isStreamed };
    const charging = (made: Leaving) => charge(made.sentTo, { headers: made.headers, body: bytes }, made);
    return answerDryRun(ctx, work, { ...of, prepare: leaving, chargeOf: charging });
  }
  const hasTokens = references.ids.size > 0;
  const destination_host = asWritten.url.host;
  // Without a stored proxy the log row names the tenant, because a host is no entity and several tenants may use it.
  const ofProxy = { entity_type: 'proxy', entity_ids: [proxy?.id ?? tenant_id], destination_host };
  // The log row is written before the request is sent. Without a stored proxy, the rows of the tokens suffice.
  const ownRows = proxy || !hasTokens ? [logRow(ctx, actor, { operation: 'use', ...ofProxy })] : [];
  const rule = proxy?.cvc?.until === 'answered' ? proxy.cvc : undefined;
  const codes = rule && work && new CodeClaim(ctx, work, references, attempt?.id);
  const begin = (rows: readonly LogRow[], count?: (query: Query) => Promise<void>): Promise<void> =>
    attempt ? attempt.begin(rows, references.ids, count) : run.begin(rows, count);
  const logging = { beside: ownRows, write: begin, destination_host, codes, isCounted: attempt?.isCounted };
  const tokens = work && (await openTokens(ctx, work, references, use, logging));
  if (!hasTokens) await begin(ownRows);
  let hasCalled = false;
  const noteCalled = (): void => void (hasCalled = true);
  const rights = proxy && { ...rightsOf(ctx, proxy, actor, nested), signal, request: run, noteCalled };
  const isReadByCode = proxy?.response_transform !== undefined;

  /** A claim that cannot be ended ends by itself. */
  const releaseCodes = () => codes?.release().catch(() => undefined);
  const isSearched = !isReadByRun && guard !== undefined && guard.mode !== 'off';
  const askedHeaders = (asked: Headers): Headers => {
    if (isSearched || rule?.keep?.when) return askingToSearch(asked);
    return isReadByCode ? requestingDecodable(asked) : asked;
  };

  const send = async (): Promise<CodeResponse | { about: About; answer: EgressResponse }> => {
    const {
      opened,
      sentTo,
      before: prepared,
    } = prepare(
      createExpansion(tokens?.values ?? (() => undefined), ctx.expressionEnvironment, references, tokens?.absent),
    );
    // A destination may echo the values to the code, even in another encoding.
    if (isReadByRun || isReadByCode)
      for (const id of references.ids) {
        const value = (tokens?.values(id, references.isWhole) ?? null) as Json;
        await ctx.accounts.runInTurns(account, nested.opened.add(value));
      }

    const about: About = { method, path: opened.path, query: opened.query, url: spell(sentTo) };
    const before: Message = { ...prepared, hasValues: hasTokens };
    // Code may send something of its own.
    const isNoted =
      attempt !== undefined && proxy?.request_transform !== undefined && !maskOfCode(proxy.request_transform);
    if (isNoted) await delivery.sending();
    const transforming = proxy && rights ? transform(ctx, proxy, 'request', before, about, rights) : before;
    const outgoing = await Promise.resolve(transforming).finally(() => {
      if (!hasCalled) delivery.notSent();
    });
    if (outgoing instanceof CodeResponse) return outgoing;
    reserveGrowth(outgoing.body, opened.body);
    if (outgoing.body !== whole) refuseStaleDigests(headers, outgoing.headers);
    if (tokens?.spending) {
      const given = { headers: before.headers, body: bytes };
      const leaving = { headers: outgoing.headers, body: chunks ? undefined : outgoing.body };
      // If the process dies after uses are taken back, the record says `sent`: its repetition would count none.
      const how = { isUnsent: !hasCalled && !isNoted, isOfCode: proxy?.request_transform !== undefined };
      await tokens.spending.spend(await charge(sentTo, given, leaving), how);
    }

    const answer = await ctx.egress.request({
      tenant_id,
      account,
      ...sentTo,
      method,
      headers: [...withKey(askedHeaders(outgoing.headers), attempt?.destinationHeader), loopMark(ctx)],
      body: chunks ?? outgoing.body,
      bodyBytes: chunks && bodyBytes,
      signal,
      allowLists,
      clientCertificate: proxy?.client_certificate,
      timeouts: proxy?.timeout_seconds === undefined ? undefined : timeoutsOf(proxy.timeout_seconds),
      sending: delivery.sending,
    });
    delivery.answered(answer.status);
    run.destinationAnswered(answer.status);
    return {
      about,
      answer:
        codes && rule
          ? await settleCodes(ctx, { claim: codes, spending: tokens?.spending, rule }, answer, {
              account,
              reservations,
            })
          : answer,
    };
  };
  const sent = await send().catch(async (error: unknown) => {
    // A destination that refuses the connection after our side of the handshake has not read the request.
    if (delivery.reached === 'nothing' || (error instanceof EgressFault && error.code === 'TLS')) await releaseCodes();
    await run.logFailure();
    throw error;
  });
  const told = (made: AnswerWithin): AnswerWithin =>
    codes ? { ...made, headers: [...made.headers, ['SVC-CVC', codes.outcome]] } : made;
  if (sent instanceof CodeResponse) {
    await releaseCodes();
    await run.logFailure();
    return told(answerOfCode(sent, undefined));
  }
  const { about, answer } = sent;
  if (!proxy || !rights || proxy.response_transform === undefined) return told(passThrough(answer));
  return told(await transformAnswer(ctx, proxy, answer, about, { ...rights, hasValues: hasTokens }, reservations));
};

/** In place of what the caller or code says: one key of ours is one request for the destination. */
const withKey = (headers: Headers, key: [name: string, value: string] | undefined): Headers =>
  key ? [...headers.filter(([name]) => name.toLowerCase() !== key[0].toLowerCase()), key] : headers;

const IS_API_KEY =
  'must be the key of a stored proxy, as POST /proxies and the page of the proxy show it. An API key belongs into SVC-API-KEY';

/** The stored proxy that the request names; undefined if the request names its destination. */
const findProxy = async (
  ctx: ProxyContext,
  { work }: ProxyRequest,
  keys: readonly string[],
): Promise<ProxyForUse | undefined> => {
  if (keys.length > 1) throw invalidField('SVC-PROXY-KEY', 'must name one proxy, in the header or in the query');
  const [key] = keys;
  if (key === undefined) return undefined;
  if (holdsApiKey(key)) throw invalidField('SVC-PROXY-KEY', IS_API_KEY);
  const proxy = await ctx.proxies.findProxyBeforeCaller(key);
  if (!proxy || (work && work.tenant_id !== proxy.tenant_id)) throw notFound('proxy');
  return proxy;
};

/** The caller. Without an API key, the application of an open proxy, or no work if it has none. */
const findActor = async (
  ctx: ProxyContext,
  { work, origin, beginUsage }: ProxyRequest,
  proxy: ProxyForUse | undefined,
): Promise<{ tenant_id: string; work: Work | undefined; usage?: Usage | undefined }> => {
  const through = proxy ? { ...origin, proxy_id: proxy.id } : origin;
  if (work) return { tenant_id: work.tenant_id, work: work.with({ origin: through }) };
  if (!proxy || proxy.require_auth) throw unauthorized();
  const { tenant_id, application_id } = proxy;
  const usage = beginUsage?.(tenant_id);
  if (application_id === undefined) return { tenant_id, work: undefined, usage };
  const application = await ctx.callers.findCallerOfApplication({ tenant_id }, application_id);
  const acting = { ...through, code_application_id: application_id };
  return { tenant_id, work: application && new Work(ctx, application, { origin: acting, usage }), usage };
};

/** A caller, or an anonymous client of an open proxy. */
type Acting = Actor & { readonly record?: AnswerRecord | undefined };

/** The rights of a proxy's code: those of its application, and the hosts that the proxy may reach. */
const rightsOf = (
  ctx: ProxyContext,
  { tenant_id, application_id }: ProxyForUse,
  actor: Acting,
  nested: NestedRun,
): Omit<TransformRights, 'signal' | 'request'> => ({
  actor,
  logged: Promise.resolve(),
  findApplication: async () => {
    if (application_id === undefined) return undefined;
    const application = await ctx.callers.findCallerOfApplication({ tenant_id }, application_id);
    const origin = { ...actor.origin, code_application_id: application_id };
    const { record, usage } = actor;
    const noteOpened = nested.guard?.noteOpened;
    return application && new Work(ctx, application, { origin, record, usage, noteOpened });
  },
  account: nested.account,
  allowLists: nested.allowLists,
  opened: nested.opened,
  endsAtMs: nested.endsAtMs,
  answerProxy: (application, call) => forwardForCode(ctx, application, call, nested),
});

const passThrough = (answer: EgressResponse): AnswerWithin => {
  const { status, statusText, headers, bodyBytes, body } = answer;
  return { status, statusText, headers, body, bodyBytes, destination_status: status };
};

/** Answers `svc.proxy`: forwards a request for the code's application. @throws as forward; CallFault. */
export const forwardForCode = async (
  ctx: ProxyContext,
  application: Work,
  { input, signal: outer, sent, endsAtMs }: Call,
  nesting: Nesting,
): Promise<unknown> => {
  if (nesting.depth > DEPTH_MAX)
    throw badRequest(`Calls of proxies by code of proxies must be at most ${DEPTH_MAX} levels deep.`);
  if (!mayAnywhere(application, 'token:use')) throw forbidden('token:use');
  const call = parseProxyCall(input);
  // A request from the network was renamed when it arrived.
  const headers = call.headers.map(([name, value]): Headers[number] => [
    ownNameOf(name, ctx.config.headerPrefixes),
    value,
  ]);
  const asked = { ...call, headers, work: application, origin: application.origin };
  const timeMs = svcProxyMs(endsAtMs - performance.now());
  return endInTime(timeMs, outer, async (signal) => {
    const answer = await forward(ctx, { ...asked, signal }, { ...nesting, endsAtMs: performance.now() + timeMs });
    void sent.then(() => answer.release());
    return answer.run.through(
      () => answer.status,
      () => callAnswer(ctx, answer, { signal, sent }),
    );
  });
};

/** Aborts work that takes longer, so that the run which waits for it gets an error that it can catch. @throws gateway_timeout. */
const endInTime = async <T>(ms: number, outer: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), ms);
  try {
    return await work(AbortSignal.any([outer, late.signal]));
  } catch (error) {
    throw late.signal.aborted && !outer.aborted ? forwardingFault(afterSending(new EgressFault('TIMEOUT'))) : error;
  } finally {
    clearTimeout(timer);
  }
};
