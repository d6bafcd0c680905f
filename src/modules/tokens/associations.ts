// Creates, deletes and lists associations, which are links from a parent token to its children.
import { insertLink, removeLink } from './rows/token-transactions.ts';
import type { Work } from '../access/work.ts';
import { getTransform } from '../access/rules.ts';
import { linkLogRow, TOKEN_ASSOCIATED, TOKEN_DISSOCIATED } from '../../platform/db/audit-record.ts';
import type { TokensContext } from './context.ts';
import { alreadyExists, AppError, invalidField, notFound } from '../../platform/base/errors.ts';
import type { Page, PageRequest } from '../../platform/base/pagination.ts';
import { getTokenRow, listTokens, type TokenFilter } from './read-tokens.ts';
import type { TokenRecord } from './tokens.ts';

/**
 * Links a child to a parent.
 * @throws invalidInput for a token that would be its own child; notFound; forbidden without token:read on both;
 * conflict if the link exists.
 */
export const associateTokens = async (
  ctx: TokensContext,
  work: Work,
  { parent_id, child_id }: { parent_id: string; child_id: string },
): Promise<void> => {
  if (parent_id === child_id) throw invalidField('child_id', 'must not be the parent itself');
  const parent = await getTokenRow(ctx, work, parent_id);
  const child = await getTokenRow(ctx, work, child_id);
  for (const row of [parent, child]) getTransform(work, 'token:read', row);
  const log = linkLogRow(ctx, work, parent, TOKEN_ASSOCIATED);
  const link = { parent_id, child_id, created_at: log.created_at, created_by: work.actor_id };
  try {
    await work.transaction(async (tx) => {
      await insertLink(tx, link);
      tx.log(log);
    });
  } catch (error) {
    if (error instanceof AppError && error.code === 'conflict' && error.cause !== undefined)
      throw alreadyExists('These tokens are associated already.', error);
    throw error;
  }
};

/** Deletes a link. @throws notFound for a missing token or link; forbidden without token:delete on both. */
export const dissociateTokens = async (
  ctx: TokensContext,
  work: Work,
  { parent_id, child_id }: { parent_id: string; child_id: string },
): Promise<void> => {
  const parent = await getTokenRow(ctx, work, parent_id);
  const child = await getTokenRow(ctx, work, child_id);
  for (const row of [parent, child]) getTransform(work, 'token:delete', row);
  const log = linkLogRow(ctx, work, parent, TOKEN_DISSOCIATED);
  await work.transaction(async (tx) => {
    if (!(await removeLink(tx, parent_id, child_id))) throw notFound('association');
    tx.log(log);
  });
};

/** A page of a parent's children, newest first. @throws notFound; forbidden; unavailable. */
export const listChildren = async (
  ctx: TokensContext,
  work: Work,
  input: { parent_id: string; filter: TokenFilter; page: PageRequest },
): Promise<Page<TokenRecord>> => {
  getTransform(work, 'token:read', await getTokenRow(ctx, work, input.parent_id));
  return listTokens(ctx, work, input);
};
