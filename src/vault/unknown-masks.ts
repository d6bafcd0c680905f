// Looks into the tokens that an earlier version wrote and notes which have a mask: searches under a plain permission find
// values of tokens without one. Safe beside other processes, and done once for each token.
import type { Context } from '../context.ts';
import { TenantKeysGone } from '../crypto/keyring.ts';
import { AppError } from '../errors.ts';
import { openToken } from './tokens.ts';

/** Tokens looked into at a time: some milliseconds of work. */
const TOKENS_MAX = 200;

type Looking = Pick<Context, 'db' | 'keyring' | 'environment' | 'randomBytes' | 'log'>;

/** Looks into some tokens. @returns whether there may be more. @throws unavailable. */
export const noteUnknownMasks = async (ctx: Looking): Promise<boolean> => {
  const rows = await ctx.db.findTokensOfUnknownMask(TOKENS_MAX);
  const known: { tenant_id: string; id: string; masked: boolean }[] = [];
  for (const row of rows) {
    const { tenant_id, id, sealed } = row;
    if (sealed === null) continue;
    known.push({ tenant_id, id, masked: await hasMask(ctx, row) });
  }
  if (known.length > 0) await ctx.db.noteMasks(known);
  return known.length > 0;
};

const hasMask = async (ctx: Looking, row: { tenant_id: string; id: string; type: string; sealed: Buffer }) => {
  try {
    const keys = await ctx.keyring.tenantKeys(row.tenant_id);
    return openToken(ctx, row.tenant_id, row, keys).mask !== undefined;
  } catch (error) {
    // A tenant that was deleted, or a value that was altered: nobody is to find it.
    if (error instanceof TenantKeysGone || (error instanceof AppError && error.code === 'internal')) return true;
    throw error;
  }
};
