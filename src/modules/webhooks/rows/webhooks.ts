// Rows of webhooks. Destinations, with their secrets, are sealed here.
import type { Database, TenantDatabase } from '../../../platform/db/database.ts';
import { signedColumns } from '../../../platform/db/signed-rows.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';
import { listNamed, type NamedFilter, type NamedRecords, searchNameOf } from '../../access/rows/names.ts';

export const webhookStatuses = ['enabled', 'paused'] as const;

export type WebhookStatus = (typeof webhookStatuses)[number];

export type StoredWebhook = {
  id: string;
  name: string;
  events: string[];
  /** Null for all containers, without masks. */
  container: string | null;
  /** Null in lists whose rows exceed what a request may read. */
  sealed: Uint8Array;
  status: string;
  /** Since when no delivery succeeds. */
  failing_since: Date | null;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

/** The columns that a request sets and that are not sealed. */
export type WebhookColumns = Pick<StoredWebhook, 'name' | 'events' | 'container' | 'status'>;

export const WEBHOOKS: NamedRecords = {
  from: 'webhooks',
  columns: `id, name, events, container, sealed, status, failing_since, created_at, created_by, modified_at, modified_by`,
};

/** What a delivery needs. The join with tenants hides webhooks of a deleted tenant that the sweep has not deleted yet. */
const FIND_FOR_DELIVERY = `
SELECT ${signedColumns('tenants', 't')}, ${signedColumns('webhooks', 'w')}, w.status, w.failing_since
FROM webhooks w JOIN tenants t ON t.id = w.tenant_id WHERE w.tenant_id = $1 AND w.id = $2`;

const LOCK = 'SELECT id FROM webhooks WHERE tenant_id = $1::uuid AND id = $2::uuid FOR UPDATE';

const keyOf = ({ tenant_id }: { tenant_id: string }, id: string) => ({ tenant_id_id: { tenant_id, id } });

export type WebhookForDelivery = Pick<StoredWebhook, 'id' | 'container' | 'sealed' | 'status' | 'failing_since'>;

/**
 * @returns undefined for one that is gone, or whose tenant does not verify: after a rollback of the database, tenants look changed until
 * the servers restart. `tampered`: the webhook itself was changed in the database.
 */
export const findWebhookForDelivery = async (
  db: Pick<TenantDatabase, 'tenant_id' | 'query' | 'signedRows'>,
  id: string,
): Promise<WebhookForDelivery | 'tampered' | undefined> => {
  let isTampered = false;
  const [found] = await db.signedRows.find(
    ['tenants', 'webhooks'],
    () => db.query('find-webhook-for-delivery', FIND_FOR_DELIVERY, [db.tenant_id, id]),
    (table) => (isTampered = table === 'webhooks'),
  );
  if (isTampered) return 'tampered';
  return found && { ...found.webhooks, status: found.joined.status, failing_since: found.joined.failing_since };
};

export const findWebhook = async (db: TenantDatabase, id: string): Promise<StoredWebhook | undefined> =>
  (await db.prisma((client) => client.webhooks.findFirst({ where: { tenant_id: db.tenant_id, id } }))) ?? undefined;

/** All of the tenant. */
export const countWebhookRows = ({ prisma, tenant_id }: PrismaTransaction): Promise<number> =>
  prisma.webhooks.count({ where: { tenant_id } });

/** Newest first, then by id. */
export const listWebhookRows = (db: TenantDatabase, filter: NamedFilter, offset: number, limit: number) =>
  listNamed<StoredWebhook>(db, WEBHOOKS, filter, offset, limit);

export const lockWebhook = async (tx: PrismaTransaction, id: string): Promise<StoredWebhook | undefined> => {
  if (!(await tx.signing.holds('tenants'))) return undefined;
  await tx.query('lock-webhook', LOCK, [tx.tenant_id, id]);
  const row = await tx.prisma.webhooks.findUnique({ where: keyOf(tx, id) });
  return row && (await tx.signing.isIntact('webhooks', row)) ? row : undefined;
};

export const insertWebhook = async (
  tx: PrismaTransaction,
  row: WebhookColumns & Pick<StoredWebhook, 'id' | 'created_at' | 'created_by'>,
  sealed: Uint8Array,
): Promise<void> => {
  await tx.signing.add('webhooks', row.id);
  const { tenant_id } = tx;
  await tx.prisma.webhooks.create({
    data: { ...row, tenant_id, search_name: searchNameOf(row.name), sealed: Uint8Array.from(sealed) },
  });
};

export const updateWebhook = async (
  tx: PrismaTransaction,
  id: string,
  row: Partial<WebhookColumns> & Partial<Pick<StoredWebhook, 'failing_since' | 'modified_at' | 'modified_by'>>,
  sealed?: Uint8Array,
): Promise<void> => {
  await tx.signing.change('webhooks', id);
  const named = row.name === undefined ? {} : { search_name: searchNameOf(row.name) };
  const data = { ...row, ...named, ...(sealed && { sealed: Uint8Array.from(sealed) }) };
  await tx.prisma.webhooks.update({ where: keyOf(tx, id), data });
};

/** Deletes a webhook and what waits for it. */
export const deleteWebhookRow = async (tx: PrismaTransaction, id: string): Promise<void> => {
  await tx.signing.revoke('tenants');
  const waiting = { tenant_id: tx.tenant_id, webhook_id: id, state: 'waiting' };
  await tx.prisma.webhook_deliveries.deleteMany({ where: waiting });
  await tx.prisma.webhooks.deleteMany({ where: { tenant_id: tx.tenant_id, id } });
};

const NOTE_FAILURE = `
UPDATE webhooks SET failing_since = coalesce(failing_since, $3) WHERE tenant_id = $1 AND id = $2 RETURNING failing_since`;

const NOTE_SUCCESS =
  'UPDATE webhooks SET failing_since = NULL WHERE tenant_id = $1 AND id = $2 AND failing_since IS NOT NULL RETURNING id';

/** @returns since when it fails; undefined where it is gone. */
export const noteFailure = async (
  { query, tenant_id }: Pick<TenantDatabase, 'query' | 'tenant_id'>,
  id: string,
  now: Date,
): Promise<Date | undefined> => {
  const [row] = (await query('note-webhook-failure', NOTE_FAILURE, [tenant_id, id, now])) as { failing_since: Date }[];
  return row?.failing_since;
};

export const noteSuccess = async (
  { query, tenant_id }: Pick<TenantDatabase, 'query' | 'tenant_id'>,
  id: string,
): Promise<void> => {
  await query('note-webhook-success', NOTE_SUCCESS, [tenant_id, id]);
};

/** API keys that end within an interval, of tenants. */
const FIND_EXPIRING = `
SELECT tenant_id, public_id, application_id, expires_at FROM api_keys
WHERE tenant_id = ANY ($1::uuid[]) AND expires_at > $2 AND expires_at <= $3`;

export type ExpiringKey = { tenant_id: string; public_id: string; application_id: string; expires_at: Date };

export const findExpiringKeys = async (
  { statements }: Pick<Database, 'statements'>,
  tenant_ids: readonly string[],
  after: Date,
  until: Date,
): Promise<ExpiringKey[]> =>
  (await statements.query('find-expiring-keys', FIND_EXPIRING, [tenant_ids, after, until])) as ExpiringKey[];
