// Rows of applications.
import { Prisma } from '../../../generated/prisma/client.ts';
import type { RateLimit } from '../../../platform/base/application-limits.ts';
import type { TenantDatabase, TenantQuery } from '../../../platform/db/database.ts';
import { signedColumns } from '../../../platform/db/signed-rows.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';
import { COUNTED_MAX, type Counted } from '../../../platform/base/pagination.ts';
import { type ApiKeyRow, deleteApiKeysOf, type FoundApplication, insertApiKey } from './api-keys.ts';
import { nameCondition, searchNameOf } from './names.ts';

export type StoredApplication = {
  id: string;
  name: string;
  type: string;
  permissions: string[];
  rules: unknown;
  /** Empty: it narrows nothing. */
  allowed_hosts: string[];
  rate_limit: unknown;
  daily_reveals: number | null;
  daily_uses: number | null;
  echo_guard: string | null;
  allowed_origins: string[];
  container: string | null;
  creates_per_minute: number | null;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

type ApplicationColumns = {
  name: string;
  permissions: string[];
  rules: readonly unknown[];
  allowed_hosts?: string[];
  /** Null for none. */
  rate_limit?: RateLimit | null | undefined;
  daily_reveals?: number | null | undefined;
  daily_uses?: number | null | undefined;
  echo_guard?: string | null | undefined;
  allowed_origins?: string[];
  container?: string | null;
  creates_per_minute?: number | null;
};

export type NewApplication = ApplicationColumns & { id: string; type: string; created_at?: Date; created_by?: string };

/** What a list is narrowed to: undefined for all. */
export type ApplicationFilter = {
  ids: string[] | undefined;
  name: string | undefined;
  types: string[] | undefined;
};

const LOCK = 'SELECT id FROM applications WHERE tenant_id = $1::uuid AND id = $2::uuid FOR UPDATE';

const FIND_AS_CALLER = `SELECT ${signedColumns('tenants', 't')}, ${signedColumns('applications', 'a')}
FROM applications a JOIN tenants t ON t.id = a.tenant_id WHERE a.tenant_id = $1::uuid AND a.id = $2::uuid`;

const asCaller = ['tenants', 'applications'] as const;

const LOCK_FOR_USE = 'SELECT id FROM applications WHERE tenant_id = $1::uuid AND id = $2::uuid FOR SHARE';

const keyOf = ({ tenant_id }: { tenant_id: string }, id: string) => ({ tenant_id_id: { tenant_id, id } });

/** The newest applications of a name, as many as lists count. */
const findIdsByName = async ({ query, tenant_id }: TenantQuery, name: string): Promise<string[]> => {
  const values: unknown[] = [tenant_id];
  const condition = nameCondition(name, (value) => `$${values.push(value)}`);
  const text = `SELECT id FROM applications WHERE tenant_id = $1 AND ${condition}
    ORDER BY created_at DESC, id LIMIT ${COUNTED_MAX}`;
  const rows = (await query(undefined, text, values)) as { id: string }[];
  return rows.map(({ id }) => id);
};

const whereOf = async (db: TenantQuery, { ids, name, types }: ApplicationFilter) => {
  const named = name === undefined ? undefined : await findIdsByName(db, name);
  const wanted = named && ids ? named.filter((id) => ids.includes(id)) : (named ?? ids);
  return {
    tenant_id: db.tenant_id,
    ...(wanted && { id: { in: wanted } }),
    ...(types && { type: { in: types } }),
  };
};

export const findApplication = async (db: TenantDatabase, id: string): Promise<StoredApplication | undefined> =>
  (await db.prisma((client) => client.applications.findFirst({ where: { tenant_id: db.tenant_id, id } }))) ?? undefined;

/** The application with the settings of its tenant, as the look-up of its key finds it. */
export const findApplicationAsCaller = async (
  { query, signedRows, tenant_id }: TenantDatabase,
  id: string,
): Promise<FoundApplication | undefined> => {
  const [found] = await signedRows.find(asCaller, () =>
    query('find-application-as-caller', FIND_AS_CALLER, [tenant_id, id]),
  );
  return found && { ...found.applications, application_id: id, settings: found.tenants.settings };
};

export const countApplications = async (db: TenantDatabase, filter: ApplicationFilter): Promise<Counted> => {
  const where = await whereOf(db, filter);
  const total = await db.prisma((client) => client.applications.count({ where }));
  return { total, capped: filter.name !== undefined && total >= COUNTED_MAX };
};

/** All of the tenant. */
export const countApplicationRows = ({ prisma, tenant_id }: PrismaTransaction): Promise<number> =>
  prisma.applications.count({ where: { tenant_id } });

/** Newest first, then by id. */
export const listApplications = async (
  db: TenantDatabase,
  filter: ApplicationFilter,
  offset: number,
  limit: number,
): Promise<StoredApplication[]> => {
  const where = await whereOf(db, filter);
  return db.prisma((client) =>
    client.applications.findMany({
      where,
      orderBy: [{ created_at: 'desc' }, { id: 'asc' }],
      skip: offset,
      take: limit,
    }),
  );
};

/** Undefined too where it does not verify: nothing may be decided by what it holds. */
const findLocked = async (tx: PrismaTransaction, id: string): Promise<StoredApplication | undefined> => {
  const row = await tx.prisma.applications.findUnique({ where: keyOf(tx, id) });
  return row && (await tx.signing.isIntact('applications', row)) ? row : undefined;
};

/** The application as no other transaction changes it until this one ends. */
export const lockApplication = async (tx: PrismaTransaction, id: string): Promise<StoredApplication | undefined> => {
  if (!(await tx.signing.holds('tenants'))) return undefined;
  await tx.query('lock-application', LOCK, [tx.tenant_id, id]);
  return findLocked(tx, id);
};

/** An application whose permissions are about to be lent: it stays as it is until the transaction ends. */
export const lockApplicationForUse = async (
  tx: PrismaTransaction,
  id: string | null | undefined,
): Promise<StoredApplication | undefined> => {
  if (id === undefined || id === null || !(await tx.signing.holds('tenants'))) return undefined;
  await tx.query('lock-application-for-use', LOCK_FOR_USE, [tx.tenant_id, id]);
  return findLocked(tx, id);
};

/** Adds an application with its API key. */
export const insertApplication = async (
  tx: PrismaTransaction,
  row: NewApplication,
  apiKey: ApiKeyRow | undefined,
): Promise<void> => {
  const rules = row.rules as Prisma.InputJsonValue;
  const rate_limit = row.rate_limit ?? Prisma.DbNull;
  const search_name = searchNameOf(row.name);
  await tx.signing.add('applications', row.id);
  await tx.prisma.applications.create({ data: { ...row, tenant_id: tx.tenant_id, search_name, rules, rate_limit } });
  if (apiKey) await insertApiKey(tx, row.id, apiKey);
};

/** @param row without columns that stay as they are. */
export const updateApplication = async (
  tx: PrismaTransaction,
  id: string,
  { rules, rate_limit, ...columns }: Partial<ApplicationColumns> & { modified_at: Date; modified_by: string },
): Promise<void> => {
  await tx.signing.change('applications', id);
  const data = {
    ...columns,
    ...(columns.name !== undefined && { search_name: searchNameOf(columns.name) }),
    ...(rules && { rules: rules as Prisma.InputJsonValue }),
    ...(rate_limit !== undefined && { rate_limit: rate_limit ?? Prisma.DbNull }),
  };
  await tx.prisma.applications.update({ where: keyOf(tx, id), data });
};

/** Removes an application with its API keys. */
export const deleteApplicationRow = async (tx: PrismaTransaction, id: string): Promise<void> => {
  await tx.prisma.applications.deleteMany({ where: { tenant_id: tx.tenant_id, id } });
  await deleteApiKeysOf(tx, id);
};

/** What a record shows of the application that it has. */
export type ApplicationReference = { id: string; tenant_id: string; name: string; type: string };

export const referenceOf = ({ tenant_id }: { tenant_id: string }, row: StoredApplication): ApplicationReference => ({
  id: row.id,
  tenant_id,
  name: row.name,
  type: row.type,
});

/** The applications of records, by id. Those that are gone are left out. */
export const findApplicationReferences = async (
  { prisma, tenant_id }: TenantDatabase,
  ids: readonly (string | null)[],
): Promise<Map<string, ApplicationReference>> => {
  const wanted = [...new Set(ids.filter((id) => id !== null))];
  if (wanted.length === 0) return new Map();
  const select = { id: true, tenant_id: true, name: true, type: true };
  const rows = await prisma((client) =>
    client.applications.findMany({ where: { tenant_id, id: { in: wanted } }, select }),
  );
  return new Map(rows.map((row) => [row.id, row]));
};
