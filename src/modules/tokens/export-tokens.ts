// Reads all tokens of a tenant as plaintext records, from one snapshot, for the operator's export.
import { logRow, operator, TOKENS_EXPORTED } from '../../platform/db/audit-record.ts';
import { runTransaction } from '../../platform/db/transaction.ts';
import type { Json } from '../../platform/json/json.ts';
import { type Bound, shownBound } from '../access/bounds.ts';
import type { TokensContext } from './context.ts';
import { findExportPage, takeSnapshot } from './rows/token-list.ts';
import { findTokenType } from './token-types.ts';
import { openToken } from './tokens.ts';

/** A line of an export. It has no security code: those are stored for minutes, and PCI DSS 3.3.1 forbids to keep them. */
export type ExportedToken = {
  id: string;
  type: string;
  data: Json;
  /** The mask as its creator sent it, or the expression of the type's default. */
  mask?: Json | undefined;
  metadata?: Record<string, string> | undefined;
  containers: string[];
  search_indexes?: string[] | undefined;
  fingerprint?: string | undefined;
  fingerprint_expression?: string | undefined;
  expires_at?: string | undefined;
  bound_to?: Bound | undefined;
  created_at: string;
};

/**
 * Writes the log row, then passes every token that has not expired to `write`, a page at a time, in the order of ids.
 * @throws internal for a token that does not open; unavailable; what `write` throws.
 */
export const exportTokens = async (
  ctx: TokensContext,
  tenant_id: string,
  write: (page: ExportedToken[]) => Promise<void>,
): Promise<void> => {
  const db = ctx.db.for({ tenant_id });
  // Before a value leaves. One row for all tokens: it names the tenant.
  const entity = { entity_type: 'tenant', entity_ids: [tenant_id], message: TOKENS_EXPORTED };
  await db.insertLogs([logRow(ctx, operator, { operation: 'read', disclosure: 'revealed', is_list: true, ...entity })]);
  // The export may take longer than keys are cached.
  const { keys, release } = await ctx.keyring.holdTenantKeys(tenant_id);
  await runTransaction(db, ctx.changes, undefined, async (tx) => {
    await takeSnapshot(tx);
    const now = ctx.now();
    for (let after = ''; ;) {
      const page = await findExportPage(tx, after, now);
      const last = page.at(-1);
      if (!last) return;
      after = last.id;
      await write(
        page.map((row) => {
          const { data, mask } = openToken(ctx, tenant_id, row, keys);
          return {
            id: row.id,
            type: row.type,
            data,
            mask: mask ?? findTokenType(row.type)?.mask,
            metadata: row.metadata ?? undefined,
            containers: [row.container],
            search_indexes: row.search_indexes ?? undefined,
            fingerprint: row.fingerprint ?? undefined,
            fingerprint_expression: row.fingerprint_expression ?? undefined,
            expires_at: row.expires_at?.toISOString(),
            bound_to: shownBound(row.bound_to),
            created_at: row.created_at.toISOString(),
          };
        }),
      );
    }
  }).finally(release);
};
