// Deletes all tokens that a query finds, if they are as many as the caller expects.
import type { Work } from '../access/work.ts';
import { accessOf } from '../access/rules.ts';
import { logRow } from '../../platform/db/audit-record.ts';
import { type AppError, conflict } from '../../platform/base/errors.ts';
import type { TokensContext } from './context.ts';
import { admitQuery } from './read-tokens.ts';
import { countSelected, type LockedToken, lockTokens } from './rows/token-list.ts';
import { removeTokens } from './rows/token-transactions.ts';

/** One transaction deletes them: so many take some seconds and lock as many rows. */
export const DELETED_MAX = 10_000;

/** @returns the refusal. Its row in the log is written: it tells something of what is stored. */
const refuse = async (
  ctx: TokensContext,
  work: Work,
  place: 'expected_count' | 'unchanged_since',
  sentence: string,
): Promise<AppError> => {
  const of = { entity_type: 'tenant', entity_ids: [work.tenant_id], message: `Refused: ${place}` };
  await ctx.refusals.recordRow(work.tenant_id, logRow(ctx, work, { operation: 'delete', ...of, outcome: 'refused' }));
  return conflict(`${sentence} Nothing was deleted.`);
};

const refuseCount = (ctx: TokensContext, work: Work, count: number, expected: number): Promise<AppError> => {
  const found = count > DELETED_MAX ? `more than ${DELETED_MAX}` : count;
  const sentence = `Tokens that the query finds and the caller may find and delete: ${found}. expected_count is ${expected}.`;
  return refuse(ctx, work, 'expected_count', sentence);
};

const refuseChanged = (ctx: TokensContext, work: Work): Promise<AppError> =>
  refuse(ctx, work, 'unchanged_since', 'A token that the query finds was created or changed since unchanged_since.');

const isChangedSince = ({ created_at, modified_at }: LockedToken, since: Date): boolean =>
  (modified_at ?? created_at) >= since;

/**
 * Deletes the tokens that a query finds with their security codes and links, and writes a log row for each: all of them or none.
 * They are those that the caller may search and delete: the count tells how many tokens match, as a search does. As many tokens, of
 * which none was created or changed since a search, are those that the search found.
 * @throws conflict where the count is another, or a token was created or changed since; forbidden; what a search throws; StepUpNeeded; unavailable.
 */
export const deleteBySearch = async (
  ctx: TokensContext,
  work: Work,
  {
    query,
    expected_count,
    unchanged_since,
  }: { query: string; expected_count: number; unchanged_since?: Date | undefined },
): Promise<{ deleted_count: number }> => {
  work.needFreshFactor();
  const reached = (['token:search', 'token:delete'] as const)
    .map((permission) => accessOf(work.caller, permission))
    .filter((access) => access !== 'everything');
  const wanted = await admitQuery(ctx, work, query);
  const selection = {
    condition: { kind: 'and' as const, nodes: [wanted, ...reached] },
    now: ctx.now(),
    limit: DELETED_MAX + 1,
  };
  // Before anything is locked: a wrong number holds up nobody.
  const found = await countSelected(work.db, selection);
  if (found !== expected_count) throw await refuseCount(ctx, work, found, expected_count);
  // The kept answer is a number: it needs no rows of the log to be checked before a replay.
  const actor = work.with({ record: undefined });
  const logOf = ({ id, type }: LockedToken) =>
    logRow(ctx, actor, { operation: 'delete', entity_type: type, entity_ids: [id], entity: 'token' });
  let locked = expected_count;
  let isChanged = false;
  try {
    return await work.transaction(async (tx) => {
      const tokens = await lockTokens(tx, selection);
      locked = tokens.length;
      if (locked !== expected_count) throw conflict('The count has changed.');
      isChanged = unchanged_since !== undefined && tokens.some((token) => isChangedSince(token, unchanged_since));
      if (isChanged) throw conflict('A token has changed.');
      await removeTokens(tx, tokens, logOf);
      return { deleted_count: locked };
    });
  } catch (error) {
    if (isChanged) throw await refuseChanged(ctx, work);
    throw locked === expected_count ? error : await refuseCount(ctx, work, locked, expected_count);
  }
};
