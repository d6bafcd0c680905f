// Forwards a request to a destination, with token values in place of expressions.
// In order: stored proxy, caller, destination, body, record, exchange, guard. exchange.ts has the tokens and the transforms.
import type { Work } from '../access/work.ts';
import type { ProxyAnswer, ProxyRequest, Retry } from './request.ts';
import { asksForDryRunIn } from '../access/dry-run-header.ts';
import { mayAnywhere } from '../access/rules.ts';
import type { ProxyContext } from './context.ts';
import { codingsOf, isDecodable } from '../../platform/egress/body.ts';
import { afterSending, EgressFault } from '../../platform/base/egress-fault.ts';
import { type Headers, refuseLoop } from '../../platform/egress/headers.ts';
import { type Account, openAccount } from '../../platform/base/accounts.ts';
import { ownNameOf } from '../../platform/http/header-prefixes.ts';
import { findOperation } from '../../platform/base/event-loop.ts';
import { svcProxyMs } from '../../platform/base/times.ts';
import { AppError, badRequest, forbidden, unauthorized } from '../../platform/base/errors.ts';
import type { Nesting } from '../code/context.ts';
import type { Call } from '../../platform/sandbox/protocol/sandbox.ts';
import { type EchoGuard, refuseEchoIn } from '../tokens/echo/echo-guard.ts';
import { createOpenedTexts } from '../tokens/expressions/opened-texts.ts';
import { type BodyKind, decodedKindOf, saysJson } from './bodies/body-kind.ts';
import { callAnswer, parseProxyCall } from './code-call.ts';
import { begun, type Reservations, takeBody } from './bodies/take-body.ts';
import { exchange, type Route, type Sent } from './exchange.ts';
import { forwardingFault } from './faults.ts';
import { guardAnswer } from './guard-answer.ts';
import { type ForwardAttempt, type OpenedForward, openForward, recordingFor } from './forwards/attempt.ts';
import { keepAnswer } from './forwards/keep-answer.ts';
import { findBase, forwardedHeaders, proxyKeysOf } from './outgoing.ts';
import { refuseOwnKeys } from './own-keys.ts';
import { type Acting, findActor, findProxy, makeGuard } from './proxy-caller.ts';
import { destinationOf, parseTarget } from './target.ts';
import { Run } from '../runs/run.ts';

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
    // Anonymous clients of an open proxy have shares of their own, also where its code sends their requests on.
    const account = nesting.account ?? (request.work ? tenant_id : openAccount(tenant_id, request.origin?.ip));
    if (nesting === topLevel) nameOperation(ctx, account, proxy?.id);
    const known = { target, proxy, tenant_id, account, work, actor, run, isDry, guard, retry };
    return await forwardFrom(ctx, request, decideRoute(ctx, request, known, nesting));
  } catch (error) {
    run.failed(error);
    throw error;
  }
};

/** A stored proxy is known by its key only now. @throws unavailable where its requests held the event loop too long. */
const nameOperation = ({ heldOperations }: ProxyContext, account: Account, proxy_id = ''): void => {
  const operation = findOperation();
  operation?.rename(account, proxy_id);
  if (operation) heldOperations.check(operation.name());
};

type Known = Omit<Route, 'allowLists' | 'base' | 'sentTo' | 'nested' | 'answerProxy' | 'isReadByRun'>;

/** `place`: what names the destination, for errors about it. */
type Decided = { route: Route; headers: Headers; place: string | undefined };

/** Decides where a request goes, and with which headers, before anything is read or written. */
const decideRoute = (ctx: ProxyContext, request: ProxyRequest, known: Known, nesting: Nesting): Decided => {
  const { target, proxy, work, account, run, isDry, guard } = known;
  const own = [proxy?.allowed_hosts, work?.caller.allowed_hosts].filter((list) => list !== undefined);
  const allowLists = [...nesting.allowLists, ...own];
  // A dry run names the list that refuses.
  const { base, place } = findBase(ctx, request.headers, proxy, isDry ? nesting.allowLists : allowLists);
  // A path outside the destination's path is refused too.
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
  const answerProxy: Route['answerProxy'] = (application, call) => forwardForCode(ctx, application, call, nested);
  const isReadByRun = nesting.opened !== undefined;
  return { route: { ...known, allowLists, base, sentTo, nested, answerProxy, isReadByRun }, headers, place };
};

/** Takes the body, begins the record of a request with a key, sends the request, and guards and keeps the answer. */
const forwardFrom = async (
  ctx: ProxyContext,
  request: ProxyRequest,
  { route, headers, place }: Decided,
): Promise<ProxyAnswer> => {
  const { account, tenant_id, work, run, retry, guard } = route;
  const reservations: Reservations = [];
  const release = () => reservations.forEach((reservation) => reservation.release());
  let attempt: ForwardAttempt | undefined;
  try {
    const taken = await takeSent(ctx, request, route, { headers, reservations });
    if (retry && work) {
      const opened = await findRecord(ctx, request, route, { work, retry, taken });
      if ('answer' in opened) {
        run.leave();
        return { ...opened.answer, account, run, release };
      }
      ({ attempt } = opened);
    }
    const sent = { ...taken, headers: attempt?.headers ?? headers };
    const answer = await exchange(ctx, { request, route, sent, reservations, attempt });
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

/** The body, as far as it must be in memory. */
const takeSent = async (
  ctx: ProxyContext,
  request: ProxyRequest,
  { proxy, account, tenant_id, retry }: Route,
  { headers, reservations }: { headers: Headers; reservations: Reservations },
): Promise<Sent> => {
  const declaredKind = decodedKindOf(headers);
  // A format that is not known may have a coding that is not known either.
  const isOpaque = declaredKind.kind === 'unread' && !isDecodable(headers);
  const isData = proxy?.hasExpressions === false || request.coded?.hasLiteralBody === true;
  const kind: BodyKind = isData || isOpaque ? { kind: 'bytes' } : declaredKind;
  const wanted = {
    kind,
    declaredKind,
    headers,
    isUnsupportedJson: saysJson(headers) && !('charset' in declaredKind),
    isTransformed: proxy?.request_transform !== undefined,
    hasMarks: request.coded !== undefined,
    isHeld: retry !== undefined,
  };
  const taken = await takeBody(ctx, account, request, wanted, reservations);
  const isAnonymous = account !== tenant_id;
  const chunks = isAnonymous && taken.chunks ? await begun(taken.chunks) : taken.chunks;
  return { headers, kind, ...taken, chunks };
};

/** What the idempotency key of a request stands for. */
const findRecord = (
  ctx: ProxyContext,
  { method }: ProxyRequest,
  { run, proxy, target, base, sentTo }: Route,
  { work, retry, taken }: { work: Work; retry: Retry; taken: Sent },
): Promise<OpenedForward> => {
  const { headers, whole: body, decoded } = taken;
  const readable = decoded?.bytes ?? (codingsOf(headers).length > 0 ? undefined : body);
  return openForward(ctx, { work, run, retry, proxy, method, target, base, sentTo, headers, body, readable });
};

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
