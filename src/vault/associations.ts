// Links between tokens, from a parent to a child: made, taken away, and read as the children of a parent.
import type { Caller } from '../access/caller.ts';
import { getTransform } from '../access/rules.ts';
import { linkLogRow, TOKEN_ASSOCIATED, TOKEN_DISSOCIATED } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { AppError, conflict, invalidField, notFound } from '../errors.ts';
import type { Page, PageRequest } from '../paging.ts';
import { getTokenRow, listTokens, type TokenFilter } from './read-tokens.ts';
import type { TokenRecord } from './tokens.ts';

/**
 * Links a child to a parent.
 * @throws invalidInput for a token that would be its own child; notFound; forbidden without token:read on both; conflict where the link is there.
 */
export const associateTokens = async (
  ctx: Context,
  caller: Caller,
  { parent_id, child_id }: { parent_id: string; child_id: string },
): Promise<void> => {
  if (parent_id === child_id) throw invalidField('child_id', 'must not be the parent itself');
  const parent = await getTokenRow(ctx, caller, parent_id);
  const child = await getTokenRow(ctx, caller, child_id);
  for (const row of [parent, child]) getTransform(caller, 'token:read', row);
  const log = linkLogRow(ctx, caller, parent, TOKEN_ASSOCIATED);
  const link = { parent_id, child_id, created_at: log.created_at, created_by: caller.actor_id };
  try {
    await ctx.db.for(caller).insertAssociation(link, log, caller.keep?.(undefined));
  } catch (error) {
    if (error instanceof AppError && error.code === 'conflict' && error.cause !== undefined)
      throw conflict('These tokens are associated already.', error);
    throw error;
  }
};

/** Takes a link away. @throws notFound for a token or a link that is not there; forbidden without token:delete on both. */
export const dissociateTokens = async (
  ctx: Context,
  caller: Caller,
  { parent_id, child_id }: { parent_id: string; child_id: string },
): Promise<void> => {
  const parent = await getTokenRow(ctx, caller, parent_id);
  const child = await getTokenRow(ctx, caller, child_id);
  for (const row of [parent, child]) getTransform(caller, 'token:delete', row);
  const log = linkLogRow(ctx, caller, parent, TOKEN_DISSOCIATED);
  if (!(await ctx.db.for(caller).deleteAssociation(parent_id, child_id, log))) throw notFound('association');
};

/** A page of a parent's children, newest first. @throws notFound; forbidden; unavailable. */
export const listChildren = async (
  ctx: Context,
  caller: Caller,
  input: { parent_id: string; filter: TokenFilter; page: PageRequest },
): Promise<Page<TokenRecord>> => {
  getTransform(caller, 'token:read', await getTokenRow(ctx, caller, input.parent_id));
  return listTokens(ctx, caller, input);
};
