// Invokes a reactor: opens and logs tokens in args, casts args, runs the code, and tokenizes its result.
import type { Use } from '../access/bounds.ts';
import type { Work } from '../access/work.ts';
import type { Caller } from '../access/caller.ts';
import { logRow, REACTOR_TESTED } from '../../platform/db/audit-record.ts';
import type { ReactorsContext } from './context.ts';
import type { Reservation } from '../../platform/base/accounts.ts';
import { type EchoMode, strictestOf } from '../access/echo-mode.ts';
import { createEchoGuard, type EchoGuard } from '../tokens/echo/echo-guard.ts';
import { createResultGuard, type ResultGuard } from './guard-result.ts';
import { AppError, forbidden, invalidInput } from '../../platform/base/errors.ts';
import { type LogLine, RUN_BYTES_MAX } from '../../platform/sandbox/protocol/sandbox.ts';
import { joinPaths, type Json } from '../../platform/json/json.ts';
import { stringifyInSlices } from '../../platform/json/slices.ts';
import { createOpenedTexts } from '../tokens/expressions/opened-texts.ts';
import { tokenize, type Tokenized } from '../tokens/tokenize.ts';
import { answerCalls, type FindApplication } from '../code/answer-calls.ts';
import { holdRunBytes, inputInTurns, openArgs, type RunBytes } from '../code/args.ts';
import { answerOfFault, CodeResponse, runtimeError, withoutService } from '../code/code-errors.ts';
import { castArgs, checkConfiguration } from '../code/contract.ts';
import { checkWeight } from '../code/service-client.ts';
import { Run } from '../runs/run.ts';
import { hasOwnCode } from './reactors.ts';
import { pinOfReactor, type ReactorForRun } from './reactor-finder.ts';

/** Larger results are written as JSON in slices: at once they would block the event loop for more than a millisecond or two. */
const WRITTEN_AT_ONCE = 131_072;

export type ReactResult = { tokens?: Tokenized; raw?: unknown; logs?: LogLine[] };

/**
 * Runs a reactor's code on args.
 * @param signal aborted when the client has disconnected: the run ends.
 * @param body.args any JSON with expressions in its texts; undefined for none.
 * @returns the code's result; or a response that the code made, which is sent as it is.
 * @throws notFound; badRequest and invalidInput for args; forbidden for their tokens, or for what is to be tokenized;
 * payloadTooLarge; a code_failed for what the code throws; too_many_requests; unavailable.
 */
export const invokeReactor = (
  ctx: ReactorsContext,
  asking: Work,
  id: string,
  body: { args?: Json | undefined },
  signal?: AbortSignal,
  echo?: Echo,
): Promise<ReactResult | CodeResponse> => runReactor(ctx, asking, id, { args: body.args, signal, echo });

/** Mode of the echo guard that the request asks for, and a callback for the number of values found. */
export type Echo = { asked: EchoMode | undefined; found(echoes: number): void };

/** What a run is of: of a draft, where it is prepared before it runs. */
type Wanted = {
  args: Json | undefined;
  signal: AbortSignal | undefined;
  echo?: Echo | undefined;
  draft?: { version: string; prepare: (reactor: ReactorForRun) => Promise<ReactorForRun> };
};

/** Runs a reactor as a run of its own, whatever it ends with. */
export const runReactor = async (
  ctx: ReactorsContext,
  asking: Work,
  id: string,
  { args, signal, echo, draft }: Wanted,
): Promise<ReactResult | CodeResponse> => {
  const held = holdRunBytes(ctx.accounts, asking.tenant_id);
  const reservations: Pick<Reservation, 'release'>[] = [];
  try {
    const reactor = await ctx.reactors.findReactorForRun(asking, id);
    const guard = await makeGuard(ctx, asking, reactor, echo?.asked);
    const { noteOpened } = guard;
    const work = asking.with({ origin: { ...asking.origin, reactor_id: reactor.id }, noteOpened });
    const version = draft?.version ?? reactor.formula.version;
    const about = { tenant_id: work.tenant_id, kind: 'reactor' as const, resource_id: reactor.id, version };
    const run = new Run(ctx, work, about);
    const guarded = { tenant_id: work.tenant_id, record: 'reactor' as const, record_id: reactor.id };
    const guarding = { account: work.tenant_id, guard, run, guarded };
    const results = createResultGuard(ctx, guarding, reservations);
    return await run.through(statusOf, async () => {
      try {
        const prepared = draft ? await draft.prepare(reactor) : reactor;
        const message = draft && REACTOR_TESTED;
        return await invoke(ctx, work, prepared, { args, message }, { held, signal, run, guard, results });
      } catch (error) {
        throw await results.guardError(error);
      } finally {
        if (results.echoes !== undefined) echo?.found(results.echoes);
      }
    });
  } finally {
    for (const reservation of reservations) reservation.release();
    held.release();
  }
};

/**
 * Makes a guard as strict as the reactor, the application of its code and the request want it; if neither of the first two says
 * anything, as the tenant wants it.
 */
const makeGuard = async (
  ctx: ReactorsContext,
  work: Work,
  { echo_guard, tenant_echo_guard, application_id }: ReactorForRun,
  asked: EchoMode | undefined,
): Promise<EchoGuard> => {
  const ofCode =
    application_id === undefined ? undefined : await ctx.callers.findCallerOfApplication(work, application_id);
  const stored = strictestOf([echo_guard, ofCode?.echo_guard]);
  return createEchoGuard(ctx, strictestOf([stored ?? tenant_echo_guard ?? 'off', asked]) as EchoMode);
};

const statusOf = (made: ReactResult | CodeResponse): number => (made instanceof CodeResponse ? made.status : 200);

const invoke = async (
  ctx: ReactorsContext,
  work: Work,
  reactor: ReactorForRun,
  body: { args: Json | undefined; message: string | undefined },
  {
    held,
    signal,
    run,
    guard,
    results,
  }: { held: RunBytes; signal: AbortSignal | undefined; run: Run; guard: EchoGuard; results: ResultGuard },
): Promise<ReactResult | CodeResponse> => {
  /** Log rows of the application in this run name the reactor, and its decisions count for the kept answer. */
  const actingHere = (application: Caller | undefined): Work | undefined => application && work.asCodeOf(application);
  const { formula, configuration, application_id } = reactor;
  // The contract of the formula may have changed since the reactor was written (docs/decisions/0017-formulas-in-use.md).
  const misfits = hasOwnCode(reactor.id, formula.id)
    ? undefined
    : checkConfiguration(configuration, formula.configuration);
  if (misfits) throw invalidInput(misfits);
  // Written with the rows of the tokens, where there are any: these are opened even if their values do not fit.
  const { message } = body;
  const entity = { entity_type: 'reactor', entity_ids: [reactor.id] };
  const use = logRow(ctx, work, { operation: 'use', ...entity, ...(message !== undefined && { message }) });
  const running: Use = { kind: 'run', reactor: { id: reactor.id, pin: (key) => pinOfReactor(key, reactor) } };
  const opening = { beside: [use], write: run.begin, held, use: running };
  const { args: opened, isLogged } = await openArgs(ctx, work, body.args, opening);
  const openedTexts = createOpenedTexts();
  const cast = castArgs(opened, formula.request_parameters);
  if (cast.errors) throw invalidInput(cast.errors);
  /** Called for each operation: permissions may be revoked during a run. */
  const findApplication: FindApplication = async () =>
    application_id === undefined
      ? undefined
      : actingHere(await ctx.callers.findCallerOfApplication(work, application_id));
  const has_svc = (await findApplication()) !== undefined;
  const given = { args: cast.args, configuration, has_svc };
  const input = await inputInTurns(ctx, work.tenant_id, given, held.bytes > 0);
  held.growTo(input.length);
  if (isLogged) await ctx.accounts.runInTurns(work.tenant_id, openedTexts.add(opened ?? null));
  // Code without token values may run while the row is written: no result or call leaves before.
  const logged = isLogged ? Promise.resolve() : run.begin([use]);
  logged.catch(() => undefined);
  // A caller with allowed hosts does not reach others by a reactor.
  const allowLists = work.caller.allowed_hosts ? [work.caller.allowed_hosts] : [];
  const outcome = await ctx.sandbox.run({
    tenant_id: work.tenant_id,
    application_id,
    signal,
    reserveBytes: held.growTo,
    code: formula.code,
    // Versions count the changes of one reactor and its formula: another reactor may have the same.
    key: `${reactor.id} ${formula.version}`,
    input,
    answerCall: answerCalls(ctx, {
      tenant_id: work.tenant_id,
      actor: work,
      entity: { entity_type: 'reactor', entity_id: reactor.id },
      logged,
      findApplication,
      allowLists,
      opened: openedTexts,
      run,
      answerProxy: (application, call) =>
        ctx.serviceCalls.forward(application, call, { depth: 1, allowLists, opened: openedTexts, guard }),
    }),
  });
  run.ran(outcome);
  await logged;
  // Calls have effects that no transaction rolls back: the answer is kept whatever it is (docs/decisions/0014-idempotency.md).
  if (outcome.hasCalled) work.keepAnyAnswer();
  if (!outcome.ok) {
    const answer = answerOfFault(has_svc ? outcome.fault : withoutService(outcome.fault, 'reactor'), {
      ...ctx.config.sandbox,
      outputBytesMax: RUN_BYTES_MAX,
    });
    run.codeFailed(outcome.fault, answer.status);
    if (answer instanceof CodeResponse) return results.guardResponse(answer);
    throw answer;
  }
  const returned = resultOf(outcome.value);
  const written = ctx.config.mode === 'development' && outcome.logs.length > 0 ? outcome.logs : undefined;
  const { logs, ...shown } = await results.guardResult({
    ...(Object.hasOwn(returned, 'raw') && { raw: returned['raw'] }),
    ...(written && { logs: written }),
  });
  const result: Record<string, unknown> = { ...returned, ...shown };
  const answerWith = (tokens: Tokenized | undefined): ReactResult => ({
    ...(tokens !== undefined && { tokens }),
    ...(Object.hasOwn(result, 'raw') && { raw: result['raw'] }),
    ...(logs && { logs }),
  });
  if (!Object.hasOwn(result, 'tokenize')) {
    const answer = answerWith(undefined);
    if (outcome.bytes <= WRITTEN_AT_ONCE) return answer;
    return new CodeResponse(200, {}, await ctx.accounts.runInTurns(work.tenant_id, stringifyInSlices(answer)));
  }
  // Looked up again too: a key that was revoked during the run writes nothing.
  const findCaller = async () => {
    if (work.actor_type !== 'application') return work;
    const caller = await ctx.callers.findCallerOfApplication(work, work.actor_id);
    return caller && work.as(caller);
  };
  const writer = await (has_svc ? findApplication() : findCaller());
  if (!writer) throw forbidden('token:create');
  // The transaction that writes the tokens keeps the answer of the invocation, not that of `tokenize`.
  let answer: ReactResult | undefined;
  const guarded = (tokens: Json): ReactResult => (answer ??= answerWith(results.guardTokens(tokens) as Tokenized));
  const writing = work.actingFor(writer).answering((tokens) => guarded(tokens as Json));
  return guarded((await tokenizeResult(ctx, writing, result['tokenize'] as Json)) as Json);
};

/** @throws code_failed for a value that is not a result. */
const resultOf = (value: unknown): Record<string, unknown> => {
  if (value === null || value === undefined) return {};
  if (typeof value !== 'object' || Array.isArray(value))
    throw runtimeError('The code must return an object with `raw`, `tokenize`, both or neither.');
  return value as Record<string, unknown>;
};

/** Tokenizes what the code returned, like the body of POST /tokenize. The paths of problems begin with `tokenize`. */
const tokenizeResult = async (ctx: ReactorsContext, writer: Work, body: Json): Promise<Tokenized> => {
  checkWeight(ctx, body, 'What the code has tokenized');
  try {
    return await tokenize(ctx, writer, body);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid_input') throw error;
    const places = (error.fieldErrors ?? []).map(({ path, ...rest }) => ({
      path: joinPaths('tokenize', path),
      ...rest,
    }));
    throw invalidInput(places, error);
  }
};
