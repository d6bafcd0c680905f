// Opens tokens that an earlier version wrote and stores whether they have a mask, once for each token.
// Searches without a rule match values of tokens without a mask only. Several processes may run this at once.
import { maskRows, type TokenOfUnknownMask } from './rows/masks.ts';
import type { TokensContext } from './context.ts';
import { TenantKeysGone } from '../../platform/crypto/keyring.ts';
import { AppError } from '../../platform/errors.ts';
import { openToken } from './tokens.ts';

/** Tokens in one batch: some milliseconds of work. */
const TOKENS_MAX = 200;

type MaskContext = Pick<TokensContext, 'db' | 'keyring' | 'environment' | 'log' | 'metrics'>;

/** Processes one batch. @returns whether there may be more. @throws unavailable. */
export const noteUnknownMasks = async (ctx: MaskContext): Promise<boolean> => {
  const rows = await maskRows(ctx.db).findTokensOfUnknownMask(TOKENS_MAX);
  const known: { tenant_id: string; id: string; masked: boolean }[] = [];
  for (const row of rows) {
    const { tenant_id, id, sealed } = row;
    if (sealed === null) continue;
    known.push({ tenant_id, id, masked: await hasMask(ctx, row) });
  }
  if (known.length > 0) await maskRows(ctx.db).noteMasks(known);
  return known.length > 0;
};

const hasMask = async (ctx: MaskContext, row: TokenOfUnknownMask) => {
  try {
    const keys = await ctx.keyring.tenantKeys(row.tenant_id);
    return openToken(ctx, row.tenant_id, row, keys).mask !== undefined;
  } catch (error) {
    // A deleted tenant or an altered value: assume a mask, so that searches do not match it.
    if (error instanceof TenantKeysGone || (error instanceof AppError && error.code === 'internal')) return true;
    throw error;
  }
};
