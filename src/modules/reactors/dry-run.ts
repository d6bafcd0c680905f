// Answers a dry run of a reactor: what decides about each token, and the args with masks in place of values. No code runs.
import { DRY_RUN, logRow } from '../../platform/db/audit-record.ts';
import { ExpressionError } from '../tokens/expressions/expression-error.ts';
import type { Json } from '../../platform/json/json.ts';
import type { Work } from '../access/work.ts';
import { expressionFault } from '../tokens/detokenize.ts';
import {
  collectInSlices,
  createExpansion,
  createReferences,
  expandInSlices,
  maskExpressions,
} from '../tokens/expressions/expansion.ts';
import { findMaskedUse, isAllowed, maskRows, type MaskedUse } from '../tokens/masked-use.ts';
import type { Use } from '../access/bounds.ts';
import type { ReactorsContext } from './context.ts';
import { pinOfReactor } from './reactor-finder.ts';

export type ReactDryRun = Pick<MaskedUse, 'tokens' | 'checks'> & {
  decision: 'allowed' | 'refused';
  /** Before they are checked and cast by the request parameters. Left out where the request would be refused. */
  args?: Json | undefined;
};

/**
 * @throws notFound; badRequest for unknown tokens; invalidInput with places that begin with `args`; payloadTooLarge; unavailable.
 */
export const dryRunReactor = async (
  ctx: ReactorsContext,
  work: Work,
  id: string,
  args: Json | undefined,
): Promise<ReactDryRun> => {
  const reactor = await ctx.reactors.findReactorForRun(work, id);
  const references = createReferences();
  const inTurns = async <T>(slices: Parameters<typeof ctx.accounts.runInTurns<T>>[1]): Promise<T> => {
    try {
      return await ctx.accounts.runInTurns(work.tenant_id, slices);
    } catch (error) {
      throw error instanceof ExpressionError ? expressionFault(error, 'args') : error;
    }
  };
  if (args !== undefined) await inTurns(collectInSlices(args, references));
  const running: Use = { kind: 'run', reactor: { id: reactor.id, pin: (key) => pinOfReactor(key, reactor) } };
  const use = await findMaskedUse(ctx, work, references, running);
  const { tokens, checks } = use;
  const expansion = maskExpressions(createExpansion(use.maskOf, ctx.expressionEnvironment, references));
  const isLeaving = isAllowed(use);
  const shown = isLeaving && args !== undefined ? await inTurns(expandInSlices(args, expansion)) : undefined;
  const of = { entity_type: 'reactor', entity_ids: [reactor.id] };
  await work.log([logRow(ctx, work, { operation: 'read', ...of, message: DRY_RUN }), ...maskRows(ctx, work, use)]);
  return { decision: isLeaving ? 'allowed' : 'refused', tokens, checks, args: shown };
};
