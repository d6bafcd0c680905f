// Rows of reactors.
import type { TenantDatabase } from '../../platform/db/database.ts';
import { signedColumns } from '../../platform/db/signed-rows.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { listNamed, type NamedFilter, type NamedRecords, searchNameOf } from '../access/rows/names.ts';
import { removeFormula } from '../code/formulas.ts';
import type { StoredElement, StoredParameter } from '../code/rows/formulas.ts';

export type StoredReactor = {
  id: string;
  name: string;
  formula_id: string;
  /** Null in lists where the rows hold more than a request may read. */
  sealed: Uint8Array;
  application_id: string | null;
  echo_guard: string | null;
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
  echo_guard: string | null;
  /** Settings of the tenant. */
  settings: Record<string, string>;
  formula_id: string;
  formula_version: number;
  formula_sealed: Buffer | null;
  code: string | null;
  configuration: StoredElement[];
  request_parameters: StoredParameter[];
};

export const REACTORS: NamedRecords = {
  from: 'reactors',
  columns: 'id, name, formula_id, sealed, application_id, echo_guard, created_at, created_by, modified_at, modified_by',
};

/** Hot: each invocation that the cache does not answer. */
const FIND_FOR_RUN = `
SELECT ${signedColumns('tenants', 't')}, ${signedColumns('reactors', 'r')}, ${signedColumns('reactor_formulas', 'f')},
  a.id AS application_id, o.version AS formula_version, o.code, o.configuration, o.request_parameters
FROM reactors r JOIN tenants t ON t.id = r.tenant_id LEFT JOIN applications a ON a.tenant_id = r.tenant_id AND a.id = r.application_id
LEFT JOIN reactor_formulas f ON f.tenant_id = r.tenant_id AND f.id = r.formula_id
LEFT JOIN official_formulas o ON o.id = r.formula_id
WHERE r.tenant_id = $1 AND r.id = $2 AND (f.id IS NOT NULL OR o.id IS NOT NULL)`;

const LOCK = 'SELECT id FROM reactors WHERE tenant_id = $1::uuid AND id = $2::uuid FOR UPDATE';

const keyOf = ({ tenant_id }: { tenant_id: string }, id: string) => ({ tenant_id_id: { tenant_id, id } });

export const findReactor = async (db: TenantDatabase, id: string): Promise<StoredReactor | undefined> =>
  (await db.prisma((client) => client.reactors.findFirst({ where: { tenant_id: db.tenant_id, id } }))) ?? undefined;

const forRun = ['tenants', 'reactors', 'reactor_formulas'] as const;

export const findReactorForRun = async (
  { query, signedRows, tenant_id }: TenantDatabase,
  id: string,
): Promise<RunnableRow | undefined> => {
  const [found] = await signedRows.find(forRun, () => query('find-reactor-for-run', FIND_FOR_RUN, [tenant_id, id]));
  if (!found) return undefined;
  const { tenants, reactors, reactor_formulas: own, joined } = found;
  const formula = own
    ? { ...own, formula_version: own.version, formula_sealed: own.sealed, code: null }
    : { ...joined, formula_sealed: null };
  const { formula_version, formula_sealed, code, configuration, request_parameters } = formula;
  const ofFormula = { formula_version, formula_sealed, code, configuration, request_parameters };
  return { ...reactors, ...ofFormula, application_id: joined.application_id, settings: tenants.settings };
};

/** All of the tenant. */
export const countReactorRows = ({ prisma, tenant_id }: PrismaTransaction): Promise<number> =>
  prisma.reactors.count({ where: { tenant_id } });

/** Newest first, then by id. */
export const listReactors = (db: TenantDatabase, filter: NamedFilter, offset: number, limit: number) =>
  listNamed<StoredReactor>(db, REACTORS, filter, offset, limit);

export const lockReactor = async (tx: PrismaTransaction, id: string): Promise<StoredReactor | undefined> => {
  if (!(await tx.signing.holds('tenants'))) return undefined;
  await tx.query('lock-reactor', LOCK, [tx.tenant_id, id]);
  // Read once it is locked: a change that held the lock may have given it another application.
  const row = await tx.prisma.reactors.findUnique({ where: keyOf(tx, id) });
  return row && (await tx.signing.isIntact('reactors', row)) ? row : undefined;
};

export const insertReactor = async (
  tx: PrismaTransaction,
  row: Pick<
    StoredReactor,
    'id' | 'name' | 'formula_id' | 'application_id' | 'echo_guard' | 'created_at' | 'created_by'
  >,
  sealed: Uint8Array,
): Promise<void> => {
  const { tenant_id } = tx;
  await tx.signing.add('reactors', row.id);
  const data = { ...row, tenant_id, search_name: searchNameOf(row.name), sealed: Uint8Array.from(sealed) };
  await tx.prisma.reactors.create({ data });
};

/** The formula stays. */
export const updateReactor = async (
  tx: PrismaTransaction,
  id: string,
  row: Pick<StoredReactor, 'name' | 'application_id' | 'echo_guard' | 'modified_at' | 'modified_by'>,
  sealed: Uint8Array,
): Promise<void> => {
  await tx.signing.change('reactors', id);
  const changed = { ...row, search_name: searchNameOf(row.name), sealed: Uint8Array.from(sealed) };
  await tx.prisma.reactors.update({ where: keyOf(tx, id), data: { ...changed, version: { increment: 1 } } });
};

export const deleteReactorRow = async (tx: PrismaTransaction, id: string): Promise<void> => {
  const { prisma, tenant_id } = tx;
  await tx.signing.revoke('tenants');
  const row = await prisma.reactors.findUnique({ where: keyOf(tx, id), select: { formula_id: true } });
  await prisma.reactors.deleteMany({ where: { tenant_id, id } });
  if (row?.formula_id === id) await removeFormula(tx, id);
};
