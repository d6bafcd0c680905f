// Runs a draft of a reactor's code or configuration without deploying it. Everything else is as in an invocation.
import { uuidOfName } from '../../platform/crypto/ids.ts';
import type { Json } from '../../platform/json/json.ts';
import { checkGrants } from '../access/grants.ts';
import type { Work } from '../access/work.ts';
import type { CodeResponse } from '../code/code-errors.ts';
import { checkFormulaCode } from '../code/formulas.ts';
import type { ReactorsContext } from './context.ts';
import { type ReactResult, runReactor } from './invoke.ts';
import type { ReactorForRun } from './reactor-finder.ts';
import { parseConfiguration } from './reactors.ts';

/** As the version of its run. */
const DRAFT = 'draft';

export type Trial = {
  /** Undefined for the deployed code. */
  code?: string | undefined;
  /** Not checked yet. Undefined for that of the reactor. */
  configuration?: Record<string, unknown> | undefined;
  args?: Json | undefined;
};

/** The code acts with the permissions of the application: whoever chooses the code must hold all of them, as to deploy it. */
const checkApplicationOf = async (
  ctx: ReactorsContext,
  work: Work,
  { application_id }: ReactorForRun,
): Promise<void> => {
  if (application_id === undefined) return;
  const caller = await ctx.callers.findCallerOfApplication(work, application_id);
  if (!caller) return;
  const { permissions, rules, allowed_hosts, limits } = caller;
  checkGrants(work, { permissions, rules, allowed_hosts, limits, application_id });
};

/**
 * The permission for the values in `args` is token:use, as in an invocation.
 * @throws forbidden for what the application holds and the caller does not; invalidInput for a configuration that does not fit;
 * unprocessable for code that does not compile; as invokeReactor.
 */
export const testReactor = (
  ctx: ReactorsContext,
  work: Work,
  id: string,
  { code, configuration, args }: Trial,
  signal?: AbortSignal,
): Promise<ReactResult | CodeResponse> => {
  const prepare = async (reactor: ReactorForRun): Promise<ReactorForRun> => {
    await checkApplicationOf(ctx, work, reactor);
    const { formula } = reactor;
    const parsed = configuration && parseConfiguration(configuration, id, formula);
    if (code !== undefined) await checkFormulaCode(ctx, work, code);
    const tried = { code: code ?? formula.code, configuration: parsed ?? reactor.configuration };
    // An executor keeps compiled code by its version.
    const version = `${DRAFT} ${uuidOfName(JSON.stringify(tried))}`;
    return { ...reactor, formula: { ...formula, code: tried.code, version }, configuration: tried.configuration };
  };
  return runReactor(ctx, work, id, { args, signal, draft: { version: DRAFT, prepare } });
};
