// Rows of tenants: made by the operator, changed and deleted by themselves. Deleting one destroys its keys first of all.
import type { Prisma } from '../generated/prisma/client.ts';
import { insertApplication, type NewApplication } from './applications.ts';
import type { NewLog } from './hot.ts';
import type { KeptAnswer } from './idempotency.ts';
import { type Guarded, keepAnswerIn, notify } from './prisma.ts';

/** More than anyone lists on a terminal. */
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
  tenant: { id: string; name: string };
  keys: { id: string; purpose: string; wrapped: Uint8Array; created_at: Date }[];
} & NewApplication;

/** What becomes of a tenant, decided over its row as it is. */
export type PlannedTenant<T> = {
  fields: { name: string; settings: Record<string, string>; modified_at: Date; modified_by: string };
  log: NewLog;
  answer: KeptAnswer | undefined;
  result: T;
};

/** What the notice of a changed or deleted tenant says: whoever remembers its callers or keys forgets them. */
export const tenantNotice = (tenant_id: string): string => `tenant ${tenant_id}`;

/** What the operator does, over all tenants. */
export const operatorStatements = (guarded: Guarded) => ({
  hasTenants: () => guarded(async (client) => (await client.tenants.findFirst({ select: { id: true } })) !== null),

  findTenants: (id?: string): Promise<StoredTenant[]> =>
    guarded((client) =>
      client.tenants.findMany({
        where: id === undefined ? {} : { id },
        orderBy: [{ created_at: 'asc' }, { id: 'asc' }],
        take: TENANTS_LISTED_MAX,
      }),
    ),

  /**
   * Adds a tenant with its keys, its first application and that one's key, in one transaction.
   * @param onlyFirst when true, adds nothing and answers false where a tenant already exists; two processes agree.
   */
  addTenant: (row: NewTenant, onlyFirst: boolean): Promise<boolean> =>
    guarded((client) =>
      client.$transaction(async (tx) => {
        // The instance row is the one lock that every process shares.
        await tx.$queryRaw`SELECT id FROM instance WHERE id = 1 FOR UPDATE`;
        if (onlyFirst && (await tx.tenants.findFirst({ select: { id: true } }))) return false;
        const tenant_id = row.tenant.id;
        await tx.tenants.create({ data: row.tenant });
        await tx.tenant_keys.createMany({
          data: row.keys.map((key) => ({ ...key, tenant_id, wrapped: Uint8Array.from(key.wrapped) })),
        });
        await insertApplication(tx, tenant_id, row);
        return true;
      }),
    ),
});

/**
 * Ends sessions, memberships, links and mails of a tenant whose row this transaction holds, and users who are nowhere a member
 * any more. Mails stay as rows: what was sent to an address counts, whoever is gone.
 */
const endPeople = async (tx: Prisma.TransactionClient, tenant_id: string): Promise<void> => {
  const where = { tenant_id };
  // In one order, since another tenant of the same users may end at this moment; the later one sees that it was the last. Before
  // their sessions: whoever changes a password takes them in this order too.
  await tx.$executeRaw`SELECT id FROM users WHERE id IN (SELECT user_id FROM memberships WHERE tenant_id = ${tenant_id}::uuid)
    ORDER BY id FOR UPDATE`;
  await tx.sessions.deleteMany({ where });
  await tx.invitation_secrets.deleteMany({ where });
  await tx.mail_outbox.updateMany({ where, data: { sealed: null } });
  await tx.$executeRaw`WITH gone AS (DELETE FROM memberships WHERE tenant_id = ${tenant_id}::uuid RETURNING user_id)
    DELETE FROM users u USING gone WHERE u.id = gone.user_id
    AND NOT EXISTS (SELECT FROM memberships m WHERE m.user_id = u.id AND m.tenant_id <> ${tenant_id}::uuid)`;
};

export const tenantStatements = (guarded: Guarded, tenant_id: string) => ({
  findTenant: (): Promise<StoredTenant | undefined> =>
    guarded(async (client) => (await client.tenants.findUnique({ where: { id: tenant_id } })) ?? undefined),

  /** @param plan decides over the row, which nobody else changes meanwhile. @returns its result; undefined where the tenant is gone. */
  changeTenant: <T>(plan: (row: StoredTenant) => PlannedTenant<T>): Promise<T | undefined> =>
    guarded((client) =>
      client.$transaction(async (tx) => {
        await tx.$queryRaw`SELECT id FROM tenants WHERE id = ${tenant_id}::uuid FOR UPDATE`;
        const where = { id: tenant_id };
        const row = await tx.tenants.findUnique({ where });
        if (!row) return undefined;
        const { fields, log, answer, result } = plan(row);
        await tx.tenants.update({ where, data: fields });
        await tx.audit_log.create({ data: { ...log, tenant_id } });
        if (answer) await keepAnswerIn(tx, tenant_id, answer);
        await notify(tx, tenantNotice(tenant_id));
        return result;
      }),
    ),

  /** Destroys the tenant's keys and everyone's access to it; the sweep removes what nobody can read any more. */
  deleteTenant: (log: NewLog, deleted_at: Date): Promise<boolean> =>
    guarded((client) =>
      client.$transaction(async (tx) => {
        const { count } = await tx.tenants.deleteMany({ where: { id: tenant_id } });
        if (count === 0) return false;
        await tx.tenant_keys.deleteMany({ where: { tenant_id } });
        await tx.api_keys.deleteMany({ where: { tenant_id } });
        await tx.proxy_keys.deleteMany({ where: { tenant_id } });
        await tx.applications.deleteMany({ where: { tenant_id } });
        await endPeople(tx, tenant_id);
        await tx.deleted_tenants.create({ data: { id: tenant_id, deleted_at } });
        await tx.audit_log.create({ data: { ...log, tenant_id } });
        await notify(tx, tenantNotice(tenant_id));
        return true;
      }),
    ),
});
