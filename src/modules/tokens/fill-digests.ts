// Makes the search digests of tokens that have not all of them, such as after a release that makes more. A part of the sweep.
import type { TenantDatabase } from '../../platform/db/database.ts';
import { AppError } from '../../platform/base/errors.ts';
import { type DraftContext, draftOf } from './change-token.ts';
import type { TokensContext } from './context.ts';
import { DIGESTS_DUE_MAX, findTokensDue, lockTokensDue, writeDigests } from './rows/digests-due.ts';
import type { StoredToken } from './rows/token-row.ts';
import { openToken, searchDigestsOf } from './tokens.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';

export type FillContext = DraftContext &
  Pick<TokensContext, 'db' | 'keyring' | 'accounts' | 'environment' | 'log' | 'metrics'>;

/** Undefined for a token that does not open, after an alarm, or whose request is not valid any more: it keeps its digests. */
const digestsOf = async (
  ctx: FillContext,
  tenant_id: string,
  row: StoredToken,
  keys: TenantKeys,
): Promise<{ digests: string[] | undefined } | undefined> => {
  try {
    const kept = openToken(ctx, tenant_id, row, keys);
    // In turns: the tenant's own requests go on meanwhile.
    return { digests: searchDigestsOf(keys, await ctx.accounts.runInTurns(tenant_id, draftOf(ctx, row, kept, {}))) };
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
};

/** @returns how many tokens have their digests now. */
const fillOf = async (ctx: FillContext, db: TenantDatabase, ids: readonly string[]): Promise<number> => {
  const { tenant_id } = db;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  return db.transaction(async (query) => {
    const rows = await lockTokensDue(query, tenant_id, ids);
    // The others are too much for one statement together: the next round has fewer.
    const read = rows.filter(({ sealed }) => sealed !== null);
    for (const row of read) await writeDigests(query, tenant_id, row.id, await digestsOf(ctx, tenant_id, row, keys));
    return read.length;
  });
};

const fillOrWarn = async (ctx: FillContext, tenant_id: string, ids: readonly string[]): Promise<number> => {
  try {
    return await fillOf(ctx, ctx.db.for({ tenant_id }), ids);
  } catch (error) {
    ctx.log.warn({ error, tenant_id }, 'the search digests of a tenant could not be made');
    return 0;
  }
};

/** Of one sweep, so that the next one is in time to destroy security codes. It goes on with the digests. */
const FILL_MS_MAX = 5_000;

/**
 * Makes the digests that are due. A tenant whose tokens cannot be read or are locked is left to the next sweep.
 * @param mayGoOn called before each further tenant. @throws unavailable.
 */
export const fillDigests = async (ctx: FillContext, mayGoOn: () => Promise<boolean>): Promise<void> => {
  const left = new Set<string>();
  const beganMs = performance.now();
  while (performance.now() - beganMs < FILL_MS_MAX) {
    const found = await findTokensDue(ctx.db.statements.query, [...left]);
    for (const [tenant_id, rows] of Map.groupBy(found, (row) => row.tenant_id)) {
      if (!(await mayGoOn())) return;
      const ids = rows.map(({ id }) => id);
      if ((await fillOrWarn(ctx, tenant_id, ids)) === 0) left.add(tenant_id);
    }
    if (found.length < DIGESTS_DUE_MAX) return;
  }
};
