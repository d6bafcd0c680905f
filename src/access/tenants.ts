// A tenant, as it sees and changes itself. Ending it destroys its keys, and with them everything that they sealed.
import { z } from 'zod';
import { logRow, type Operation } from '../audit/record.ts';
import type { Context } from '../context.ts';
import type { StoredTenant } from '../db/tenants.ts';
import { notFound } from '../errors.ts';
import { isStorableText } from '../vault/json.ts';
import type { Caller } from './caller.ts';

/** background.md section 1. */
export const NAME_LENGTH_MAX = 200;

/** What a tenant, or an application of one, is called. */
export const nameSchema = z
  .string(`must be text of 1 to ${NAME_LENGTH_MAX} characters`)
  .min(1, `must have 1 to ${NAME_LENGTH_MAX} characters`)
  .max(NAME_LENGTH_MAX, `must have 1 to ${NAME_LENGTH_MAX} characters`)
  .refine(isStorableText, 'must be text without NUL and in whole characters');

/** As the wire knows it. What is absent or undefined is left out. */
export type TenantRecord = {
  id: string;
  owner_id: string | undefined;
  name: string;
  settings: Record<string, string>;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

export type TenantInput = { name: string; settings: Record<string, string> };

export type UsageReport = {
  token_report: { metrics_by_type: Record<string, { count: number; last_created_at: string | undefined }> };
};

const recordOf = (row: StoredTenant): TenantRecord => ({
  id: row.id,
  owner_id: row.owner_id ?? undefined,
  name: row.name,
  settings: row.settings as Record<string, string>,
  created_by: row.created_by ?? undefined,
  created_at: row.created_at.toISOString(),
  modified_by: row.modified_by ?? undefined,
  modified_at: row.modified_at?.toISOString(),
});

const logOf = (ctx: Context, caller: Caller, operation: Operation) =>
  logRow(ctx, caller, { operation, entity_type: 'tenant', entity_ids: [caller.tenant_id] });

/** The caller's tenant. @throws notFound where it was deleted a moment ago. */
export const getTenant = async (ctx: Context, caller: Caller): Promise<TenantRecord> => {
  const row = await ctx.db.for(caller).findTenant();
  if (!row) throw notFound('tenant');
  await ctx.db.for(caller).insertLogs([logOf(ctx, caller, 'read')]);
  return recordOf(row);
};

/** Changes name and settings, both of them. @throws notFound. */
export const changeTenant = async (ctx: Context, caller: Caller, input: TenantInput): Promise<TenantRecord> => {
  const fields = { ...input, modified_at: ctx.now(), modified_by: caller.actor_id };
  const changed = await forgetting(ctx, caller, () =>
    ctx.db.for(caller).changeTenant((row) => {
      const result = recordOf({ ...row, ...fields });
      return { fields, log: logOf(ctx, caller, 'update'), answer: caller.keep?.(result), result };
    }),
  );
  if (!changed) throw notFound('tenant');
  return changed;
};

/** Ends the tenant: its keys, its applications, and so everything it has sealed. @throws notFound. */
export const deleteTenant = async (ctx: Context, caller: Caller): Promise<void> => {
  const gone = await forgetting(ctx, caller, () =>
    ctx.db.for(caller).deleteTenant(logOf(ctx, caller, 'delete'), ctx.now()),
  );
  if (!gone) throw notFound('tenant');
};

/**
 * Does a deed and forgets the tenant's callers, sessions and keys in this process before anybody hears of it; others hear it from
 * the database. Whatever came of it: a deed that failed on its way back may have been done.
 */
const forgetting = async <T>(ctx: Context, { tenant_id }: Caller, deed: () => Promise<T>): Promise<T> => {
  try {
    return await deed();
  } finally {
    ctx.callers.forget({ tenant_id });
    ctx.reactors.forget({ tenant_id });
    ctx.proxies.forget({ tenant_id });
    ctx.sessions.forget({ tenant_id });
    ctx.keyring.forgetTenant(tenant_id);
  }
};

/** What the tenant keeps: how many tokens of each type, and when the last one came. */
export const reportUsage = async (ctx: Context, caller: Caller): Promise<UsageReport> => {
  const counts = await ctx.db.for(caller).countTokensByType();
  const metrics = counts
    .filter(({ count }) => count > 0)
    .map(({ type, count, last_created_at }) => [type, { count, last_created_at: last_created_at?.toISOString() }]);
  return { token_report: { metrics_by_type: Object.fromEntries(metrics) } };
};
