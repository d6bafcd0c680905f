// Rows of reactors.
import type { TenantDatabase } from '../../platform/db/database.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { listNamed, type NamedFilter, type NamedRecords, searchNameOf } from '../access/rows/names.ts';
import type { StoredElement, StoredParameter } from '../code/rows/formulas.ts';

export type StoredReactor = {
  id: string;
  name: string;
  formula_id: string;
  /** Null in lists where the rows hold more than a request may read. */
  sealed: Uint8Array;
  application_id: string | null;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

/** A reactor and its formula for a run: a tenant's own formula has `formula_sealed`, an official one has `code`. */
export type RunnableRow = {
  id: string;
  sealed: Buffer;
  version: number;
  application_id: string | null;
  formula_id: string;
  formula_version: number;
  formula_sealed: Buffer | null;
  code: string | null;
  configuration: StoredElement[];
  request_parameters: StoredParameter[];
};

export const REACTORS: NamedRecords = {
  from: 'reactors',
  columns: 'id, name, formula_id, sealed, application_id, created_at, created_by, modified_at, modified_by',
};

/** Hot: each invocation that the cache does not answer. */
const FIND_FOR_RUN = `
SELECT r.id, r.sealed, r.version, a.id AS application_id, r.formula_id,
  coalesce(f.version, o.version) AS formula_version, f.sealed AS formula_sealed, o.code,
  coalesce(f.configuration, o.configuration) AS configuration,
  coalesce(f.request_parameters, o.request_parameters) AS request_parameters
FROM reactors r LEFT JOIN applications a ON a.tenant_id = r.tenant_id AND a.id = r.application_id
LEFT JOIN reactor_formulas f ON f.tenant_id = r.tenant_id AND f.id = r.formula_id
LEFT JOIN official_formulas o ON o.id = r.formula_id
WHERE r.tenant_id = $1 AND r.id = $2 AND (f.id IS NOT NULL OR o.id IS NOT NULL)`;

const LOCK = 'SELECT id FROM reactors WHERE tenant_id = $1::uuid AND id = $2::uuid FOR UPDATE';

const keyOf = ({ tenant_id }: { tenant_id: string }, id: string) => ({ tenant_id_id: { tenant_id, id } });

export const findReactor = async (db: TenantDatabase, id: string): Promise<StoredReactor | undefined> =>
  (await db.prisma((client) => client.reactors.findFirst({ where: { tenant_id: db.tenant_id, id } }))) ?? undefined;

export const findReactorForRun = async (db: TenantDatabase, id: string): Promise<RunnableRow | undefined> =>
  ((await db.query('find-reactor-for-run', FIND_FOR_RUN, [db.tenant_id, id])) as RunnableRow[])[0];

/** Newest first, then by id. */
export const listReactors = (db: TenantDatabase, filter: NamedFilter, offset: number, limit: number) =>
  listNamed<StoredReactor>(db, REACTORS, filter, offset, limit);

export const lockReactor = async (tx: PrismaTransaction, id: string): Promise<StoredReactor | undefined> => {
  await tx.query('lock-reactor', LOCK, [tx.tenant_id, id]);
  // Read once it is locked: a change that held the lock may have given it another application.
  return (await tx.prisma.reactors.findUnique({ where: keyOf(tx, id) })) ?? undefined;
};

export const insertReactor = async (
  tx: PrismaTransaction,
  row: Pick<StoredReactor, 'id' | 'name' | 'formula_id' | 'application_id' | 'created_at' | 'created_by'>,
  sealed: Uint8Array,
): Promise<void> => {
  const { tenant_id } = tx;
  const data = { ...row, tenant_id, search_name: searchNameOf(row.name), sealed: Uint8Array.from(sealed) };
  await tx.prisma.reactors.create({ data });
};

/** The formula stays. */
export const updateReactor = async (
  tx: PrismaTransaction,
  id: string,
  row: Pick<StoredReactor, 'name' | 'application_id' | 'modified_at' | 'modified_by'>,
  sealed: Uint8Array,
): Promise<void> => {
  const changed = { ...row, search_name: searchNameOf(row.name), sealed: Uint8Array.from(sealed) };
  await tx.prisma.reactors.update({ where: keyOf(tx, id), data: { ...changed, version: { increment: 1 } } });
};

export const deleteReactorRow = (tx: PrismaTransaction, id: string): Promise<unknown> =>
  tx.prisma.reactors.deleteMany({ where: { tenant_id: tx.tenant_id, id } });
