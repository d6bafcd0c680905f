// An invocation from args to answer, in order: tokens opened and logged, args cast, code run, its result tokenized. Knows
// neither how code is run nor how an answer is sent.
import type { Caller } from '../access/caller.ts';
import { logRow } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { AppError, forbidden, invalidInput } from '../errors.ts';
import { forwardForCode } from '../proxy/forward.ts';
import { type LogLine, RUN_BYTES_MAX } from '../sandbox/sandbox.ts';
import type { Json } from '../vault/json.ts';
import { createOpenedTexts } from '../vault/opened-texts.ts';
import { tokenize, type Tokenized } from '../vault/tokenize.ts';
import { answerCalls, type FindApplication } from './answer-calls.ts';
import { inputOf, openArgs } from './args.ts';
import { answerOfFault, CodeResponse, runtimeError } from './code-errors.ts';
import { castArgs, checkConfiguration } from './contract.ts';
import { checkWeight } from './service-client.ts';

export type ReactResult = { tokens?: Tokenized; raw?: unknown; logs?: LogLine[] };

/**
 * Runs a reactor's code on args.
 * @param body.args any JSON with expressions in its texts; undefined for none.
 * @returns the code's result; or a response of the code's own making, which is sent as it is.
 * @throws notFound; badRequest and invalidInput for args; forbidden for their tokens, or for what is to be tokenized;
 * payloadTooLarge; a code_failed for what the code throws; too_many_requests; unavailable.
 */
export const invokeReactor = async (
  ctx: Context,
  asking: Caller,
  id: string,
  body: { args?: Json | undefined },
): Promise<ReactResult | CodeResponse> => {
  const reactor = await ctx.reactors.findReactorForRun(asking, id);
  const origin = { ...asking.origin, reactor_id: reactor.id };
  const caller: Caller = { ...asking, origin };
  /** What an application does in the run is in the log with the reactor, and what it is shown counts for the kept answer. */
  const actingHere = (application: Caller | undefined): Caller | undefined =>
    application && { ...application, origin, record: caller.record };
  const { formula, configuration, application_id } = reactor;
  // A formula's contract may have changed since the reactor was made (docs/decisions/0017).
  const misfits = checkConfiguration(configuration, formula.configuration);
  if (misfits) throw invalidInput(misfits);
  // Written with the rows of the tokens, where there are any: they are opened for it, whether their values fit or not.
  const use = logRow(ctx, caller, { operation: 'use', entity_type: 'reactor', entity_ids: [reactor.id] });
  const { args: opened, isLogged } = await openArgs(ctx, caller, body.args, [use]);
  const openedTexts = createOpenedTexts();
  if (isLogged) openedTexts.add(opened ?? null);
  const cast = castArgs(opened, formula.request_parameters);
  if (cast.errors) throw invalidInput(cast.errors);
  /** Asked anew for each deed: a run may outlive what its application may. */
  const findApplication: FindApplication = async () =>
    application_id === undefined
      ? undefined
      : actingHere(await ctx.callers.findCallerOfApplication(caller, application_id));
  const has_svc = (await findApplication()) !== undefined;
  const input = inputOf({ args: cast.args, configuration, has_svc });
  // Code without a token's value may run while this is written: nothing of it comes out before.
  const logged = isLogged ? Promise.resolve() : ctx.db.for(caller).insertLogs([use]);
  logged.catch(() => undefined);
  // Whoever may send values to some hosts only does not reach others by a reactor.
  const allowLists = caller.allowed_hosts ? [caller.allowed_hosts] : [];
  const outcome = await ctx.sandbox.run({
    tenant_id: caller.tenant_id,
    code: formula.code,
    // A version counts the changes of one reactor and its formula: without the id, another's has the same.
    key: `${reactor.id} ${formula.version}`,
    input,
    answerCall: answerCalls(ctx, {
      tenant_id: caller.tenant_id,
      actor: caller,
      entity: { entity_type: 'reactor', entity_id: reactor.id },
      logged,
      findApplication,
      allowLists,
      opened: openedTexts,
      answerProxy: (application, call) =>
        forwardForCode(ctx, application, call, { depth: 1, allowLists, opened: openedTexts }),
    }),
  });
  await logged;
  // Something was done then that no transaction undoes: the answer is kept whatever it is (docs/decisions/0014).
  if (outcome.hasCalled) caller.keepAnyAnswer?.();
  if (!outcome.ok) {
    const answer = answerOfFault(outcome.fault, { ...ctx.config.sandbox, outputBytesMax: RUN_BYTES_MAX });
    if (answer instanceof CodeResponse) return answer;
    throw answer;
  }
  const result = resultOf(outcome.value);
  const logs = ctx.config.mode === 'development' && outcome.logs.length > 0 ? outcome.logs : undefined;
  const answerWith = (tokens: Tokenized | undefined): ReactResult => ({
    ...(tokens !== undefined && { tokens }),
    ...(Object.hasOwn(result, 'raw') && { raw: result['raw'] }),
    ...(logs && { logs }),
  });
  if (!Object.hasOwn(result, 'tokenize')) return answerWith(undefined);
  // Asked anew as well: a key that was taken away during the run writes nothing.
  const findCaller = async () =>
    caller.actor_type === 'application'
      ? actingHere(await ctx.callers.findCallerOfApplication(caller, caller.actor_id))
      : caller;
  const writer = await (has_svc ? findApplication() : findCaller());
  if (!writer) throw forbidden('token:create');
  // The answer to be kept is the invocation's, written with the tokens; what `keep` would be told otherwise is the tokens alone.
  const { keep } = caller;
  const keeping = keep && ((tokens: unknown) => keep(answerWith(tokens as Tokenized)));
  return answerWith(await tokenizeResult(ctx, { ...writer, keep: keeping }, result['tokenize'] as Json));
};

/** @throws a code_failed for what is not a result. */
const resultOf = (value: unknown): Record<string, unknown> => {
  if (value === null || value === undefined) return {};
  if (typeof value !== 'object' || Array.isArray(value))
    throw runtimeError('The code must return an object with `raw`, `tokenize`, both or neither.');
  return value as Record<string, unknown>;
};

/** Exactly as the body of a tokenize request; its problems have places that begin with `tokenize`. */
const tokenizeResult = async (ctx: Context, writer: Caller, body: Json): Promise<Tokenized> => {
  checkWeight(ctx, body, 'What the code has tokenized');
  try {
    return await tokenize(ctx, writer, body);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid_input') throw error;
    const places = Object.entries(error.errors ?? {}).map(([place, sentences]) => [
      place === '' || place.startsWith('[') ? `tokenize${place}` : `tokenize.${place}`,
      sentences,
    ]);
    throw invalidInput(Object.fromEntries(places), error);
  }
};
