// The tenant of a caller: read, changed and deleted by itself, and its usage report.
import { logRow, type Operation } from '../../platform/db/audit-record.ts';
import { AppError, notFound } from '../../platform/base/errors.ts';
import type { AccessContext } from './context.ts';
import { DELEGATED_CONTAINER, delegatedPaymentsOf } from './delegated-payments.ts';
import { checkGrants } from './grants.ts';
import { asksForReason } from './reveal-reason.ts';
import { signDeletion } from './erasure-certificates.ts';
import { insertDeletion } from './rows/erasure-certificates.ts';
import { deleteTenantRow, findTenant, lockTenant, type StoredTenant, updateTenant } from './rows/tenants.ts';
import { countTokensByType } from './rows/usage.ts';
import { type HoursReport, reportHours, type UsageQuery } from './usage-report.ts';
import type { Work } from './work.ts';

/** A tenant on the wire. Undefined properties are left out. */
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
  total_tokens: number;
  token_report: { metrics_by_type: Record<string, { count: number; last_created_at: string | undefined }> };
  /** Undefined where the request asks for no hours. */
  usage_report: HoursReport | undefined;
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

const logOf = (ctx: AccessContext, work: Work, operation: Operation) =>
  logRow(ctx, work, { operation, entity_type: 'tenant', entity_ids: [work.tenant_id] });

/** Reads the caller's tenant. @throws notFound where it was deleted a moment ago. */
export const getTenant = async (ctx: AccessContext, work: Work): Promise<TenantRecord> => {
  const row = await findTenant(work.db);
  if (!row) throw notFound('tenant');
  await work.log([logOf(ctx, work, 'read')]);
  return recordOf(row);
};

/** Whether the members of a tenant need a second factor in the console. */
export const requiresSecondFactor = ({ config }: Pick<AccessContext, 'config'>, settings: unknown): boolean => {
  const { require_second_factor } = settings as Record<string, string>;
  return require_second_factor === undefined ? config.requireSecondFactor : require_second_factor === 'true';
};

type Settings = Record<string, string>;

/** A stolen key must not decide what is asked of people. A member has given the second factor for it. */
const checkPeople = (ctx: AccessContext, work: Work, before: Settings, after: Settings): void => {
  if (work.actor_type === 'user') return;
  const isLost = (asks: (settings: Settings) => boolean): boolean => asks(before) && !asks(after);
  const lost = isLost((settings) => requiresSecondFactor(ctx, settings))
    ? 'members need a second factor'
    : isLost(asksForReason) && 'members give a reason before they see a value';
  if (lost === false) return;
  throw new AppError(
    'forbidden',
    `A key cannot take away that ${lost}. A member does so in the console, under Settings.`,
    { permission: 'tenant:update' },
  );
};

/**
 * Who says where the cards of agents go, who signs them and what charges them could have them for itself.
 * @throws forbidden unless the caller may read and use what its container holds, before a change and after it.
 */
const checkDelegated = (work: Work, ...changed: Settings[]): void => {
  const [before, after] = changed.map((settings) => settings['delegated_payments']);
  // A member has given the second factor for it.
  if (before === after || work.actor_type === 'user') return;
  for (const settings of changed) {
    const found = delegatedPaymentsOf(settings);
    const container = found && (found.container ?? DELEGATED_CONTAINER);
    const permissions = ['token:create', 'token:read', 'token:use'] as const;
    const rule = { description: '', priority: 1, transform: 'mask' as const, permissions: [...permissions] };
    if (container !== undefined) checkGrants(work, { permissions: [], rules: [{ ...rule, container }] });
  }
};

/** Replaces name and settings. @throws notFound; forbidden for a key that would require less of members; as checkDelegated. */
export const changeTenant = (ctx: AccessContext, work: Work, input: TenantInput): Promise<TenantRecord> => {
  const fields = { ...input, modified_at: ctx.now(), modified_by: work.actor_id };
  return work.prismaTransaction(async (tx) => {
    const row = await lockTenant(tx);
    if (!row) throw notFound('tenant');
    checkPeople(ctx, work, row.settings as Settings, input.settings);
    checkDelegated(work, row.settings as Settings, input.settings);
    await updateTenant(tx, fields);
    tx.log(logOf(ctx, work, 'update'));
    tx.changed({ subject: 'tenant', id: work.tenant_id });
    return recordOf({ ...row, ...fields });
  });
};

/** Deletes the tenant with its keys: nothing can decrypt what it stored from then on. @throws notFound. */
export const deleteTenant = (ctx: AccessContext, work: Work): Promise<void> =>
  work.prismaTransaction(async (tx) => {
    const deleted_at = ctx.now();
    const gone = await deleteTenantRow(tx, deleted_at);
    if (!gone) throw notFound('tenant');
    const deletion = signDeletion(ctx, work, gone, deleted_at);
    await insertDeletion(tx, { deleted_at, deletion, rows_deleted: gone.rows_deleted });
    tx.log(logOf(ctx, work, 'delete'));
    tx.changed({ subject: 'tenant', id: work.tenant_id });
  });

/** How many tokens of each type the tenant has, and when the last one was created; and what requests did. @throws as reportHours. */
export const reportUsage = async (ctx: AccessContext, work: Work, query: UsageQuery): Promise<UsageReport> => {
  const usage_report = await reportHours(work, query, ctx.now());
  const counts = await countTokensByType(work.db);
  const present = counts.filter(({ count }) => count > 0);
  const total_tokens = present.reduce((sum, { count }) => sum + count, 0);
  const metrics = present.map(({ type, count, last_created_at }) => [
    type,
    { count, last_created_at: last_created_at?.toISOString() },
  ]);
  return { total_tokens, token_report: { metrics_by_type: Object.fromEntries(metrics) }, usage_report };
};
