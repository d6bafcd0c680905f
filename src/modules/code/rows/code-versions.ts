// Rows of deployed versions of code, and of drafts. Their MACs bind all columns but the code, which its seal binds.
import type { TenantDatabase } from '../../../platform/db/database.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';
import type { Counted } from '../../../platform/base/pagination.ts';

/** What has code: a formula, or a proxy with its transforms. */
export type CodeResource = { resource_type: 'reactor_formula' | 'proxy'; resource_id: string };

export type StoredVersion = CodeResource & {
  id: string;
  number: number;
  note: string | null;
  created_at: Date;
  created_by: string | null;
};

export type StoredDraft = CodeResource & { id: string; owner_id: string; modified_at: Date };

/** Versions of one resource: with the code at its limit they take 10 MB. */
export const VERSIONS_MAX = 50;

const VERSION_COLUMNS = {
  tenant_id: true,
  id: true,
  resource_type: true,
  resource_id: true,
  number: true,
  note: true,
  created_at: true,
  created_by: true,
  mac: true,
};

type Found<Row> = Omit<Row, 'resource_type'> & { resource_type: string; mac: Uint8Array | null };

/** The rows that a server wrote. Others are an alarm. */
const intactOf = <Row extends Found<object>>(
  { signedRows }: Pick<TenantDatabase, 'signedRows'>,
  name: 'code_versions' | 'code_drafts',
  rows: readonly Row[],
): Row[] => rows.filter((row) => signedRows.areIntact([[name, row]]));

export const countVersions = async (db: TenantDatabase, resource: CodeResource): Promise<Counted> => {
  const where = { tenant_id: db.tenant_id, ...resource };
  return { total: await db.prisma((client) => client.code_versions.count({ where })), capped: false };
};

/** Newest first, without their code. */
export const listVersionRows = async (
  db: TenantDatabase,
  resource: CodeResource,
  offset: number,
  limit: number,
): Promise<StoredVersion[]> => {
  const where = { tenant_id: db.tenant_id, ...resource };
  const found = await db.prisma((client) =>
    client.code_versions.findMany({
      where,
      select: VERSION_COLUMNS,
      orderBy: { number: 'desc' },
      skip: offset,
      take: limit,
    }),
  );
  return intactOf(db, 'code_versions', found) as StoredVersion[];
};

export const findVersion = async (
  db: TenantDatabase,
  resource: CodeResource,
  number: number,
): Promise<(StoredVersion & { sealed: Uint8Array }) | undefined> => {
  const where = { tenant_id: db.tenant_id, ...resource, number };
  const found = await db.prisma((client) => client.code_versions.findFirst({ where }));
  const [row] = intactOf(db, 'code_versions', found ? [found] : []);
  return row as (StoredVersion & { sealed: Uint8Array }) | undefined;
};

/** The last version. Call it after the row of the resource is locked. */
export const findLastVersion = async (
  { prisma, signedRows, tenant_id }: PrismaTransaction,
  resource: CodeResource,
): Promise<StoredVersion | undefined> => {
  const where = { tenant_id, ...resource };
  const found = await prisma.code_versions.findFirst({ where, select: VERSION_COLUMNS, orderBy: { number: 'desc' } });
  return intactOf({ signedRows }, 'code_versions', found ? [found] : [])[0] as StoredVersion | undefined;
};

/** Adds the next version, and deletes those beyond VERSIONS_MAX. Call it after the row of the resource is locked. */
export const insertVersion = async (
  { prisma, signedRows, tenant_id }: PrismaTransaction,
  version: Omit<StoredVersion, 'number'>,
  sealed: Uint8Array,
): Promise<StoredVersion> => {
  const { resource_type, resource_id } = version;
  const where = { tenant_id, resource_type, resource_id };
  const { _max: last } = await prisma.code_versions.aggregate({ where, _max: { number: true } });
  const row = { ...version, number: (last.number ?? 0) + 1 };
  const mac = signedRows.macOf('code_versions', { ...row, tenant_id }, null);
  await prisma.code_versions.create({
    data: { ...row, tenant_id, sealed: Uint8Array.from(sealed), mac: Uint8Array.from(mac) },
  });
  await prisma.code_versions.deleteMany({ where: { ...where, number: { lte: row.number - VERSIONS_MAX } } });
  return row;
};

/** With all versions and drafts of a resource that is deleted: a formula of the same id begins anew. */
export const deleteCodeOf = async (
  { prisma, tenant_id }: PrismaTransaction,
  { resource_type, resource_id }: CodeResource,
): Promise<void> => {
  const where = { tenant_id, resource_type, resource_id };
  await prisma.code_versions.deleteMany({ where });
  await prisma.code_drafts.deleteMany({ where });
};

export const findDraft = async (
  db: TenantDatabase,
  resource: CodeResource,
  owner_id: string,
): Promise<(StoredDraft & { sealed: Uint8Array }) | undefined> => {
  const where = { tenant_id: db.tenant_id, ...resource, owner_id };
  const found = await db.prisma((client) => client.code_drafts.findFirst({ where }));
  const [row] = intactOf(db, 'code_drafts', found ? [found] : []);
  return row as (StoredDraft & { sealed: Uint8Array }) | undefined;
};

/** All of the tenant. */
export const countDrafts = ({ prisma, tenant_id }: PrismaTransaction): Promise<number> =>
  prisma.code_drafts.count({ where: { tenant_id } });

export const findDraftId = async (
  { prisma, tenant_id }: PrismaTransaction,
  resource: CodeResource,
  owner_id: string,
): Promise<string | undefined> =>
  (await prisma.code_drafts.findFirst({ where: { tenant_id, ...resource, owner_id }, select: { id: true } }))?.id;

/** Adds a draft, or replaces the one with its id. */
export const putDraft = async (
  { prisma, signedRows, tenant_id }: PrismaTransaction,
  draft: StoredDraft,
  sealed: Uint8Array,
): Promise<void> => {
  const mac = signedRows.macOf('code_drafts', { ...draft, tenant_id }, null);
  const data = { ...draft, tenant_id, sealed: Uint8Array.from(sealed), mac: Uint8Array.from(mac) };
  const where = { tenant_id_id: { tenant_id, id: draft.id } };
  await prisma.code_drafts.upsert({ where, create: data, update: data });
};

/** @returns whether there was one. */
export const deleteDraftRow = async (
  { prisma, tenant_id }: PrismaTransaction,
  resource: CodeResource,
  owner_id: string,
): Promise<boolean> => (await prisma.code_drafts.deleteMany({ where: { tenant_id, ...resource, owner_id } })).count > 0;
