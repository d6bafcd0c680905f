// Rows of applications and their keys. A key is kept as a digest under its public id; who may use it is decided above.
import type { Prisma } from '../generated/prisma/client.ts';
import type { NewLog } from './hot.ts';
import type { KeptAnswer } from './idempotency.ts';
import { type Guarded, keepAnswerIn, notify } from './prisma.ts';
import type { Query } from './statements.ts';

export type StoredApplication = {
  id: string;
  name: string;
  type: string;
  permissions: string[];
  rules: unknown;
  /** Null and empty say the same: not narrowed. */
  allowed_hosts: string[] | null;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

/** More than a person reads on a terminal. */
const KEYS_LISTED_MAX = 10_000;

export type StoredKey = { public_id: string; application_id: string; application_name: string; created_at: Date };

export type NewApplication = {
  application: {
    id: string;
    name: string;
    type: string;
    permissions: string[];
    rules: readonly unknown[];
    allowed_hosts?: string[];
    created_at?: Date;
    created_by?: string;
  };
  apiKey: { public_id: string; digest: Uint8Array };
  logs: NewLog[];
  answer?: KeptAnswer | undefined;
};

/** What becomes of an application, decided over its row as it is. */
export type PlannedApplication<T> = {
  fields: {
    name?: string;
    permissions?: string[];
    rules?: unknown[];
    allowed_hosts?: string[];
    modified_at: Date;
    modified_by: string;
  };
  /** In place of every key it has. */
  apiKey?: NewApplication['apiKey'];
  log: NewLog;
  answer: KeptAnswer | undefined;
  result: T;
};

/** What the notice of a changed application says: whoever remembers its callers forgets them. */
export const applicationNotice = (application_id: string): string => `application ${application_id}`;

export const insertApplication = async (
  tx: Prisma.TransactionClient,
  tenant_id: string,
  { application, apiKey, logs, answer }: NewApplication,
): Promise<void> => {
  const rules = application.rules as Prisma.InputJsonValue;
  await tx.applications.create({ data: { ...application, tenant_id, rules } });
  await insertKey(tx, tenant_id, application.id, apiKey);
  await tx.audit_log.createMany({ data: logs.map((log) => ({ ...log, tenant_id })) });
  if (answer) await keepAnswerIn(tx, tenant_id, answer);
};

const insertKey = (
  tx: Prisma.TransactionClient,
  tenant_id: string,
  application_id: string,
  { public_id, digest }: NewApplication['apiKey'],
) => tx.api_keys.create({ data: { public_id, tenant_id, application_id, digest: Uint8Array.from(digest) } });

const LOCK_FOR_USE = 'SELECT * FROM applications WHERE tenant_id = $1 AND id = $2 FOR SHARE';

/** An application whose permissions are about to be lent: it stays as it is until the transaction ends. */
export const lockApplicationForUse = async (
  query: Query,
  tenant_id: string,
  id: string | null | undefined,
): Promise<StoredApplication | undefined> => {
  if (id === undefined || id === null) return undefined;
  return ((await query('lock-application-for-use', LOCK_FOR_USE, [tenant_id, id])) as StoredApplication[])[0];
};

/** What a list is narrowed to: undefined for all. */
export type ApplicationFilter = { ids: string[] | undefined; types: string[] | undefined };

const whereOf = (tenant_id: string, { ids, types }: ApplicationFilter) => ({
  tenant_id,
  ...(ids && { id: { in: ids } }),
  ...(types && { type: { in: types } }),
});

export const applicationStatements = (guarded: Guarded, tenant_id: string) => ({
  addApplication: (row: NewApplication): Promise<void> =>
    guarded((client) => client.$transaction((tx) => insertApplication(tx, tenant_id, row))),

  findApplication: (id: string): Promise<StoredApplication | undefined> =>
    guarded(
      async (client) =>
        (await client.applications.findUnique({ where: { tenant_id_id: { tenant_id, id } } })) ?? undefined,
    ),

  countApplications: (filter: ApplicationFilter): Promise<number> =>
    guarded((client) => client.applications.count({ where: whereOf(tenant_id, filter) })),

  /** Newest first, then by id. */
  listApplications: (filter: ApplicationFilter, offset: number, limit: number): Promise<StoredApplication[]> =>
    guarded((client) =>
      client.applications.findMany({
        where: whereOf(tenant_id, filter),
        orderBy: [{ created_at: 'desc' }, { id: 'asc' }],
        skip: offset,
        take: limit,
      }),
    ),

  /**
   * Changes an application, and its key where the plan brings one.
   * @param plan decides over the row, which nobody else changes meanwhile; what it throws leaves everything as it was.
   * @returns the plan's result; undefined where there is no such application.
   */
  changeApplication: <T>(id: string, plan: (row: StoredApplication) => PlannedApplication<T>): Promise<T | undefined> =>
    guarded((client) =>
      client.$transaction(async (tx) => {
        await tx.$queryRaw`SELECT id FROM applications WHERE tenant_id = ${tenant_id}::uuid AND id = ${id}::uuid FOR UPDATE`;
        const where = { tenant_id_id: { tenant_id, id } };
        const row = await tx.applications.findUnique({ where });
        if (!row) return undefined;
        const { fields, apiKey, log, answer, result } = plan(row);
        const { rules, ...columns } = fields;
        const data = { ...columns, ...(rules && { rules: rules as Prisma.InputJsonValue }) };
        await tx.applications.update({ where, data });
        if (apiKey) {
          await tx.api_keys.deleteMany({ where: { tenant_id, application_id: id } });
          await insertKey(tx, tenant_id, id, apiKey);
        }
        await tx.audit_log.create({ data: { ...log, tenant_id } });
        if (answer) await keepAnswerIn(tx, tenant_id, answer);
        await notify(tx, applicationNotice(id));
        return result;
      }),
    ),

  /** Oldest first. */
  listKeys: (): Promise<StoredKey[]> =>
    guarded(async (client) => {
      const [keys, applications] = await Promise.all([
        client.api_keys.findMany({
          where: { tenant_id },
          orderBy: [{ created_at: 'asc' }, { public_id: 'asc' }],
          take: KEYS_LISTED_MAX,
          select: { public_id: true, application_id: true, created_at: true },
        }),
        client.applications.findMany({ where: { tenant_id }, select: { id: true, name: true } }),
      ]);
      const nameOf = new Map(applications.map(({ id, name }) => [id, name]));
      return keys.map((key) => ({ ...key, application_name: nameOf.get(key.application_id) ?? '' }));
    }),

  /** Ends one key; its application stays. @param log what is recorded of its application. @returns whether it was there. */
  removeKey: (public_id: string, log: (application_id: string) => NewLog): Promise<boolean> =>
    guarded((client) =>
      client.$transaction(async (tx) => {
        const key = await tx.api_keys.findUnique({ where: { public_id } });
        if (key?.tenant_id !== tenant_id) return false;
        const { count } = await tx.api_keys.deleteMany({ where: { public_id, tenant_id } });
        if (count === 0) return false;
        await tx.audit_log.create({ data: { ...log(key.application_id), tenant_id } });
        await notify(tx, applicationNotice(key.application_id));
        return true;
      }),
    ),

  /** Removes an application with its keys. @returns whether it was there. */
  deleteApplication: (id: string, log: NewLog): Promise<boolean> =>
    guarded((client) =>
      client.$transaction(async (tx) => {
        const { count } = await tx.applications.deleteMany({ where: { tenant_id, id } });
        if (count === 0) return false;
        await tx.api_keys.deleteMany({ where: { tenant_id, application_id: id } });
        await tx.audit_log.create({ data: { ...log, tenant_id } });
        await notify(tx, applicationNotice(id));
        return true;
      }),
    ),
});
