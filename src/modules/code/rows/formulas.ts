// Rows of formulas. A tenant's own and official formulas are read and listed together; each kind is written by itself.
import { isDeepStrictEqual } from 'node:util';
import type { Prisma } from '../../../generated/prisma/client.ts';
import { EVERY_TENANT, noticeOf } from '../../../platform/base/cache.ts';
import type { Database, TenantDatabase, TenantQuery } from '../../../platform/db/database.ts';
import { NOTIFY } from '../../../platform/db/notices.ts';
import type { Separate } from '../../../platform/db/prisma.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';
import type { StoredApplication } from '../../access/rows/applications.ts';
import { countNamed, listNamed, type NamedFilter, type NamedRecords, searchNameOf } from '../../access/rows/names.ts';
import { lockInstance } from '../../access/rows/tenants.ts';

/** A value that a reactor is configured by, as its formula declares it. */
export type StoredElement = { name: string; description?: string | undefined; type: 'string' | 'boolean' | 'number' };

/** A value that an invocation passes in its args. */
export type StoredParameter = StoredElement & { optional: boolean };

export type FormulaContent = {
  name: string;
  description: string | null;
  icon: string | null;
  configuration: StoredElement[];
  request_parameters: StoredParameter[];
};

/** `isOfReactor`: it is the code of one reactor. */
type WrittenFormula = FormulaContent & { isOfReactor?: boolean };

export type StoredFormula = FormulaContent & {
  id: string;
  type: 'private' | 'official';
  /** Only where the formula is read by its id. */
  search_name?: string;
  status: string;
  /** Code of an official formula, which is public. Null for a tenant's own. */
  code: string | null;
  /** Code of a tenant's own formula. Null for an official one, and in lists whose rows hold more than a request may read. */
  sealed: Uint8Array | null;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

export type OfficialFormula = FormulaContent & { id: string; status: string; code: string };

export type InstalledFormula = { id: string; name: string; outcome: 'created' | 'updated' | 'unchanged' };

/**
 * The `search_name` of the code of one reactor. Such a formula has the id of its reactor: no list shows it, it is read and changed with
 * the reactor, and ends with it. The name of a formula is never empty.
 */
const OF_REACTOR = '';

export const isCodeOfReactor = ({ search_name }: Pick<StoredFormula, 'search_name'>): boolean =>
  search_name === OF_REACTOR;

/** Both kinds as one relation. PostgreSQL reads each half by its own index. */
const ALL_FORMULAS: NamedRecords = {
  columns: `id, type, status, name, description, icon, code, sealed, configuration, request_parameters, created_at,
  created_by, modified_at, modified_by`,
  from: `(
  SELECT tenant_id, id, 'private'::text AS type, 'verified'::text AS status, name, search_name, description, icon,
    NULL::text AS code, sealed, configuration, request_parameters, created_at, created_by, modified_at, modified_by
  FROM reactor_formulas
  UNION ALL
  SELECT $1::uuid, id, 'official'::text, status, name, search_name, description, icon,
    code, NULL::bytea, configuration, request_parameters, created_at, NULL::uuid, modified_at, NULL::uuid
  FROM official_formulas
) AS formulas`,
};

/** Within the union, the condition would keep PostgreSQL from reading in the order of an index. */
const LISTED_FORMULAS: NamedRecords = { ...ALL_FORMULAS, only: `search_name <> '${OF_REACTOR}'` };

/** Ids and names of official formulas, the newest first. */
export const listOfficialNames = async (
  { query }: TenantQuery,
  most: number,
): Promise<{ id: string; name: string }[]> =>
  (await query(
    'list-official-formulas',
    'SELECT id, name FROM official_formulas ORDER BY created_at DESC, id LIMIT $1',
    [most],
  )) as { id: string; name: string }[];

const LOCK = 'SELECT id FROM reactor_formulas WHERE tenant_id = $1::uuid AND id = $2::uuid FOR UPDATE';

const LOCK_FOR_USE = 'SELECT id FROM reactor_formulas WHERE tenant_id = $1::uuid AND id = $2::uuid FOR SHARE';

const keyOf = ({ tenant_id }: { tenant_id: string }, id: string) => ({ tenant_id_id: { tenant_id, id } });

const contractColumnsOf = (row: { configuration: unknown; request_parameters: unknown }) => ({
  configuration: row.configuration as StoredElement[],
  request_parameters: row.request_parameters as StoredParameter[],
});

const findOwn = async (
  prisma: Separate<Prisma.TransactionClient>,
  tenant_id: string,
  id: string,
): Promise<StoredFormula | undefined> => {
  const row = await prisma.reactor_formulas.findFirst({ where: { tenant_id, id } });
  return row ? { ...row, type: 'private', status: 'verified', code: null, ...contractColumnsOf(row) } : undefined;
};

const findOfficial = async (
  prisma: Separate<Prisma.TransactionClient>,
  id: string,
): Promise<StoredFormula | undefined> => {
  const row = await prisma.official_formulas.findFirst({ where: { id } });
  return row
    ? { ...row, type: 'official', sealed: null, created_by: null, modified_by: null, ...contractColumnsOf(row) }
    : undefined;
};

const findOwnOrOfficial = async (
  prisma: Separate<Prisma.TransactionClient>,
  tenant_id: string,
  id: string,
): Promise<StoredFormula | undefined> => {
  const own = await findOwn(prisma, tenant_id, id);
  return own ?? findOfficial(prisma, id);
};

/** One of the tenant's own, or an official one, that lists show. */
export const findListedFormula = async (db: TenantDatabase, id: string): Promise<StoredFormula | undefined> => {
  const row = await findFormula(db, id);
  return row && isCodeOfReactor(row) ? undefined : row;
};

/** One of the tenant's own, also the code of a reactor, or an official one. */
export const findFormula = ({ prisma, tenant_id }: TenantDatabase, id: string): Promise<StoredFormula | undefined> =>
  prisma((client) => findOwnOrOfficial(client, tenant_id, id));

/** Those of the ids that are there, of both kinds, and the code of reactors. */
export const findFormulas = (db: TenantQuery, ids: string[]): Promise<StoredFormula[]> =>
  listNamed<StoredFormula>(db, ALL_FORMULAS, { ids }, 0, ids.length);

export const countFormulas = (db: TenantQuery, filter: NamedFilter) => countNamed(db, LISTED_FORMULAS, filter);

/** The tenant's own, without the code of reactors. */
export const countFormulaRows = ({ prisma, tenant_id }: PrismaTransaction): Promise<number> =>
  prisma.reactor_formulas.count({ where: { tenant_id, search_name: { not: OF_REACTOR } } });

/** Both kinds together, newest first, then by id. */
export const listFormulas = (db: TenantQuery, filter: NamedFilter, offset: number, limit: number) =>
  listNamed<StoredFormula>(db, LISTED_FORMULAS, filter, offset, limit);

/** One of the tenant's own, which no other transaction changes or uses for a reactor until this one ends. */
export const lockFormula = async (tx: PrismaTransaction, id: string): Promise<StoredFormula | undefined> => {
  if (!(await tx.signing.holds('tenants'))) return undefined;
  const locked = await tx.query('lock-formula', LOCK, [tx.tenant_id, id]);
  if (locked.length === 0) return undefined;
  const row = await findOwn(tx.prisma, tx.tenant_id, id);
  return row && (await tx.signing.isIntact('reactor_formulas', row)) ? row : undefined;
};

/** The formula that a reactor is about to be created from, or that it has: it stays as it is until the transaction ends. */
export const lockFormulaForUse = async (tx: PrismaTransaction, id: string): Promise<StoredFormula | undefined> => {
  if (!(await tx.signing.holds('tenants'))) return undefined;
  const locked = await tx.query('lock-formula-for-use', LOCK_FOR_USE, [tx.tenant_id, id]);
  return locked.length > 0 ? findOwn(tx.prisma, tx.tenant_id, id) : findOfficial(tx.prisma, id);
};

/** Locks a formula like `lockFormulaForUse`, for a new reactor: the code of another reactor is no formula. */
export const lockFormulaForReactor = async (tx: PrismaTransaction, id: string): Promise<StoredFormula | undefined> => {
  const row = await lockFormulaForUse(tx, id);
  return row && isCodeOfReactor(row) ? undefined : row;
};

/** The applications of the reactors of a formula, without those that are gone. */
export const findApplicationsOfFormula = async (
  { prisma, tenant_id }: PrismaTransaction,
  formula_id: string,
): Promise<StoredApplication[]> => {
  const reactors = await prisma.reactors.groupBy({ by: ['application_id'], where: { tenant_id, formula_id } });
  const ids = reactors.flatMap(({ application_id }) => application_id ?? []);
  return ids.length === 0 ? [] : prisma.applications.findMany({ where: { tenant_id, id: { in: ids } } });
};

export const hasReactors = async ({ prisma, tenant_id }: PrismaTransaction, formula_id: string): Promise<boolean> =>
  (await prisma.reactors.findFirst({ where: { tenant_id, formula_id }, select: { id: true } })) !== null;

const writtenColumns = <Row extends WrittenFormula>({ isOfReactor = false, ...row }: Row, sealed: Uint8Array) => ({
  ...row,
  search_name: isOfReactor ? OF_REACTOR : searchNameOf(row.name),
  sealed: Uint8Array.from(sealed),
});

export const insertFormula = async (
  tx: PrismaTransaction,
  row: WrittenFormula & { id: string; created_at: Date; created_by: string },
  sealed: Uint8Array,
): Promise<void> => {
  await tx.signing.add('reactor_formulas', row.id);
  await tx.prisma.reactor_formulas.create({
    data: { ...writtenColumns(row, sealed), tenant_id: tx.tenant_id },
  });
};

export const updateFormula = async (
  tx: PrismaTransaction,
  id: string,
  row: WrittenFormula & { modified_at: Date; modified_by: string },
  sealed: Uint8Array,
): Promise<void> => {
  await tx.signing.change('reactor_formulas', id);
  const data = { ...writtenColumns(row, sealed), version: { increment: 1 } };
  await tx.prisma.reactor_formulas.update({ where: keyOf(tx, id), data });
};

export const deleteFormulaRow = async (tx: PrismaTransaction, id: string): Promise<void> => {
  await tx.signing.revoke('tenants');
  await tx.prisma.reactor_formulas.deleteMany({ where: { tenant_id: tx.tenant_id, id } });
};

const installFormula = async (
  prisma: Prisma.TransactionClient,
  { id, ...content }: OfficialFormula,
  now: Date,
): Promise<InstalledFormula['outcome']> => {
  const data = { ...content, search_name: searchNameOf(content.name) };
  const stored = await prisma.official_formulas.findUnique({ where: { id } });
  if (!stored) {
    await prisma.official_formulas.create({ data: { id, ...data, created_at: now } });
    return 'created';
  }
  const isSame = Object.entries(data).every(([column, value]) =>
    isDeepStrictEqual(stored[column as keyof typeof data], value),
  );
  if (isSame) return 'unchanged';
  await prisma.official_formulas.update({
    where: { id },
    data: { ...data, modified_at: now, version: { increment: 1 } },
  });
  return 'updated';
};

/** Adds and changes official formulas, all of them or none. Those that are not given stay. */
export const installFormulas = (
  db: Pick<Database, 'prismaTransaction'>,
  formulas: OfficialFormula[],
  now: Date,
): Promise<InstalledFormula[]> =>
  db.prismaTransaction(async (prisma, query) => {
    await lockInstance(query);
    const installed: InstalledFormula[] = [];
    for (const formula of formulas) {
      const { id, name } = formula;
      installed.push({ id, name, outcome: await installFormula(prisma, formula, now) });
    }
    await query('notify', NOTIFY, [noticeOf({ subject: 'runnable', id: EVERY_TENANT })]);
    return installed;
  });
