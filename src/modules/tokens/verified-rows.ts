// Looks up tokens and verifies their rows by opening them, for decisions that need no value.
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { ReplayChecks } from '../access/context.ts';
import { digestOfMask } from '../access/answer-record.ts';
import type { TokenRows } from './rows/batched-rows.ts';
import type { StoredValue } from './rows/token-row.ts';
import type { TokensContext } from './context.ts';
import { hasMask, openToken, type OpenContext } from './tokens.ts';

type Verifying = OpenContext & Pick<TokensContext, 'keyring' | 'now'> & { readonly tokenRows: TokenRows };

export type VerifiedRow = Omit<StoredValue, 'sealed'> & { masked: boolean };

/** Tokens that have not expired. Values beyond the limit of bytes are read and opened one by one. @throws internal for a changed row. */
export const findVerified = async (
  ctx: Verifying,
  tenant_id: string,
  ids: string[],
  keys: TenantKeys,
): Promise<VerifiedRow[]> => {
  const find = (of: string[]) => ctx.tokenRows.findValues({ tenant_id }, of, ctx.now());
  const verified: VerifiedRow[] = [];
  for (const found of await find(ids)) {
    const row = found.sealed === null ? (await find([found.id]))[0] : found;
    if (row) verified.push({ ...row, masked: hasMask(row, openToken(ctx, tenant_id, row, keys)) });
  }
  return verified;
};

export const createReplayChecks = (ctx: Verifying): ReplayChecks => ({
  findPlaces: async (tenant_id, ids) => findVerified(ctx, tenant_id, ids, await ctx.keyring.tenantKeys(tenant_id)),
  digestMasks: async (tenant_id, ids) => {
    const keys = await ctx.keyring.tenantKeys(tenant_id);
    const rows = (await ctx.tokenRows.findValues({ tenant_id }, ids, ctx.now())).filter(
      ({ sealed }) => sealed !== null,
    );
    return new Map(rows.map((row) => [row.id, digestOfMask(openToken(ctx, tenant_id, row, keys))]));
  },
});
