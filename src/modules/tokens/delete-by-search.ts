// Deletes all tokens that a query finds, if they are as many as the caller expects.
import type { Work } from '../access/work.ts';
import { accessOf } from '../access/rules.ts';
import { logRow } from '../../platform/audit/record.ts';
import { conflict } from '../../platform/errors.ts';
import type { TokensContext } from './context.ts';
import { admitQuery } from './read-tokens.ts';
import { type LockedToken, lockTokens } from './rows/token-list.ts';
import { removeTokens } from './rows/token-transactions.ts';

/** One transaction deletes them: so many take some seconds and lock as many rows. */
export const DELETED_MAX = 10_000;

const otherCount = (count: number, expected: number) =>
  conflict(
    `The query finds ${count > DELETED_MAX ? `more than ${DELETED_MAX}` : count} tokens that the caller may find and delete, not ${expected}. Nothing was deleted.`,
  );

/**
 * Deletes the tokens that a query finds with their security codes and links, and writes a log row for each: all of them or none.
 * They are those that the caller may search and delete: the count tells how many tokens match, as a search does.
 * @throws conflict where the count is another; forbidden; what a search throws; StepUpNeeded; unavailable.
 */
export const deleteBySearch = async (
  ctx: TokensContext,
  work: Work,
  { query, expected_count }: { query: string; expected_count: number },
): Promise<{ deleted_count: number }> => {
  work.needFreshFactor();
  const reached = (['token:search', 'token:delete'] as const)
    .map((permission) => accessOf(work.caller, permission))
    .filter((access) => access !== 'everything');
  const wanted = await admitQuery(ctx, work, query);
  const now = ctx.now();
  // The kept answer is a number: it needs no rows of the log to be checked before a replay.
  const actor = work.with({ record: undefined });
  const logOf = ({ id, type }: LockedToken) =>
    logRow(ctx, actor, { operation: 'delete', entity_type: type, entity_ids: [id], entity: 'token' });
  return work.transaction(async (tx) => {
    const condition = { kind: 'and' as const, nodes: [wanted, ...reached] };
    const tokens = await lockTokens(tx, { condition, now, limit: DELETED_MAX + 1 });
    if (tokens.length !== expected_count) throw otherCount(tokens.length, expected_count);
    await removeTokens(tx, tokens, logOf);
    return { deleted_count: tokens.length };
  });
};
