// Rows of tenants: created by the operator, changed and deleted by the tenant.
import type { Database, TenantDatabase } from '../../../platform/db/database.ts';
import type { NewTenantKeys } from '../../../platform/crypto/keyring.ts';
import { conflict } from '../../../platform/base/errors.ts';
import type { Query } from '../../../platform/db/statements.ts';
import { amongAllTenants } from '../../../platform/db/named-tenants.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';

/** The command line prints no more. */
const TENANTS_LISTED_MAX = 1_000;

export type StoredTenant = {
  id: string;
  name: string;
  owner_id: string | null;
  settings: unknown;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

export type NewTenant = {
  name: string;
  keys: NewTenantKeys;
};

const LOCK = 'SELECT id FROM tenants WHERE id = $1::uuid FOR UPDATE';

const LOCK_INSTANCE = 'SELECT wrapped_pepper FROM instance WHERE id = 1 FOR UPDATE';

/** Takes the one lock that all processes of the vault share, until the transaction ends. */
export const lockInstance = async (query: Query): Promise<{ wrapped_pepper: Uint8Array } | undefined> =>
  (await query('lock-instance', LOCK_INSTANCE, []))[0] as { wrapped_pepper: Uint8Array } | undefined;

/**
 * Takes the lock, so that a rotation of the root key finds these keys, or they are not stored.
 * @throws conflict where a rotation began after the keys were wrapped: they must be wrapped again.
 */
const lockRootKey = async (query: Query, { wrapped_pepper }: NewTenantKeys): Promise<void> => {
  const instance = await lockInstance(query);
  if (!instance || !Buffer.from(instance.wrapped_pepper).equals(wrapped_pepper))
    throw conflict('The root key of the vault was changed meanwhile. Try again.');
};

/** The time is that of the database: by it, processes agree on which key seals and when an older one is deleted. */
const INSERT_KEY = `
INSERT INTO tenant_keys (tenant_id, id, purpose, wrapped, created_at) VALUES ($1::uuid, $2::uuid, $3, $4, now())`;

const insertKeys = async (query: Query, { rows }: NewTenantKeys): Promise<void> => {
  for (const { tenant_id, id, purpose, wrapped } of rows)
    await query('insert-tenant-key', INSERT_KEY, [tenant_id, id, purpose, wrapped]);
};

/** Whether the vault has any tenant. */
export const hasTenants = ({ prisma }: Pick<Database, 'prisma'>): Promise<boolean> =>
  prisma(async (client) => (await client.tenants.findFirst({ select: { id: true } })) !== null);

/** For the operator: all tenants, oldest first, or the one with an id. */
export const findTenants = ({ prisma }: Pick<Database, 'prisma'>, id?: string): Promise<StoredTenant[]> =>
  prisma((client) =>
    client.tenants.findMany({
      where: id === undefined ? {} : { id },
      orderBy: [{ created_at: 'asc' }, { id: 'asc' }],
      take: TENANTS_LISTED_MAX,
    }),
  );

/**
 * Adds the tenant of the transaction, with its keys.
 * @param onlyFirst when true, adds nothing and returns false where a tenant already exists. Two processes agree on it.
 */
export const insertTenant = async (
  tx: PrismaTransaction,
  { name, keys }: NewTenant,
  onlyFirst: boolean,
): Promise<boolean> => {
  const { prisma, query, tenant_id } = tx;
  await lockRootKey(query, keys);
  const findAny = () => prisma.tenants.findFirst({ select: { id: true } });
  if (onlyFirst && (await amongAllTenants(tx, findAny))) return false;
  await prisma.tenants.create({ data: { id: tenant_id, name } });
  tx.signing.addHead('tenants', tenant_id);
  await insertKeys(query, keys);
  return true;
};

/** Adds a key of the tenant of the transaction. @returns false where the tenant is gone. @throws conflict. */
export const insertTenantKeys = async (
  { query, tenant_id }: PrismaTransaction,
  keys: NewTenantKeys,
): Promise<boolean> => {
  await lockRootKey(query, keys);
  if ((await query('lock-tenant', LOCK, [tenant_id])).length === 0) return false;
  await insertKeys(query, keys);
  return true;
};

export const findTenant = async ({ prisma, tenant_id }: TenantDatabase): Promise<StoredTenant | undefined> =>
  (await prisma((client) => client.tenants.findFirst({ where: { id: tenant_id } }))) ?? undefined;

/** The tenant as no other transaction changes it until this one ends. */
export const lockTenant = async ({
  prisma,
  signing,
  tenant_id,
}: PrismaTransaction): Promise<StoredTenant | undefined> => {
  if (!(await signing.holds('tenants'))) return undefined;
  return (await prisma.tenants.findUnique({ where: { id: tenant_id } })) ?? undefined;
};

export const updateTenant = async (
  { prisma, signing, tenant_id }: PrismaTransaction,
  row: { name: string; settings: Record<string, string>; modified_at: Date; modified_by: string },
): Promise<void> => {
  await signing.change('tenants', tenant_id);
  await prisma.tenants.update({ where: { id: tenant_id }, data: row });
};

/**
 * Ends sessions, memberships, links and mails of a tenant whose row this transaction holds, and users that are members of no
 * other tenant. Mails stay as rows without content, since those sent to an address are counted. @returns how many rows it deleted.
 */
const deletePeople = async (tx: PrismaTransaction): Promise<Record<string, number>> => {
  const { prisma, tenant_id } = tx;
  const where = { tenant_id };
  // Users are locked by id, since another tenant of the same users may be deleted at the same time: the later transaction sees
  // that it was the last. Before their sessions, like a change of a password does.
  await prisma.$executeRaw`SELECT id FROM users WHERE id IN (SELECT user_id FROM memberships WHERE tenant_id = ${tenant_id}::uuid)
    ORDER BY id FOR UPDATE`;
  const sessions = await prisma.sessions.deleteMany({ where });
  const sso_sessions = await prisma.sso_sessions.deleteMany({ where });
  const sso_domains = await prisma.sso_domains.deleteMany({ where });
  const sso_providers = await prisma.sso_providers.deleteMany({ where });
  const sso_identities = await prisma.sso_identities.deleteMany({ where });
  const invitation_secrets = await prisma.invitation_secrets.deleteMany({ where });
  await prisma.mail_outbox.updateMany({ where, data: { sealed: null } });
  const [people] = await amongAllTenants(
    tx,
    () => prisma.$queryRaw<{ memberships: number; users: number }[]>`
    WITH gone AS (DELETE FROM memberships WHERE tenant_id = ${tenant_id}::uuid RETURNING user_id),
    nowhere AS (DELETE FROM users u USING gone WHERE u.id = gone.user_id
      AND NOT EXISTS (SELECT FROM memberships m WHERE m.user_id = u.id AND m.tenant_id <> ${tenant_id}::uuid) RETURNING u.id)
    SELECT (SELECT count(*)::int FROM gone) AS memberships, (SELECT count(*)::int FROM nowhere) AS users`,
  );
  const deleted = { sessions, sso_sessions, sso_domains, sso_providers, sso_identities, invitation_secrets };
  return { ...Object.fromEntries(Object.entries(deleted).map(([table, { count }]) => [table, count])), ...people };
};

/** A tenant that was deleted: its keys, and how many rows of each table went with it. */
export type DeletedTenant = {
  created_at: Date;
  keys: { id: string; purpose: string; created_at: Date }[];
  rows_deleted: Record<string, number>;
};

/**
 * Removes the tenant of the transaction, its keys and every access to it. The sweep removes the rest, which nothing can decrypt.
 * @returns undefined where it was not there.
 */
export const deleteTenantRow = async (tx: PrismaTransaction, deleted_at: Date): Promise<DeletedTenant | undefined> => {
  const { prisma, tenant_id } = tx;
  const where = { tenant_id };
  const [tenant] = await prisma.$queryRaw<{ created_at: Date }[]>`
    DELETE FROM tenants WHERE id = ${tenant_id}::uuid RETURNING created_at`;
  if (!tenant) return undefined;
  const keys = await prisma.$queryRaw<DeletedTenant['keys']>`
    DELETE FROM tenant_keys WHERE tenant_id = ${tenant_id}::uuid RETURNING id, purpose, created_at`;
  // Before its keys, as other transactions lock them: in another order two of them would wait for each other.
  const applications = await prisma.applications.deleteMany({ where });
  const api_keys = await prisma.api_keys.deleteMany({ where });
  const proxy_keys = await prisma.proxy_keys.deleteMany({ where });
  const collect_sessions = await prisma.collect_sessions.deleteMany({ where });
  const people = await deletePeople(tx);
  await prisma.deleted_tenants.create({ data: { id: tenant_id, deleted_at } });
  const rows_deleted = {
    tenants: 1,
    tenant_keys: keys.length,
    applications: applications.count,
    api_keys: api_keys.count,
    proxy_keys: proxy_keys.count,
    collect_sessions: collect_sessions.count,
    ...people,
  };
  return { ...tenant, keys, rows_deleted };
};
