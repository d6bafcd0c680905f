// Rows of formulas, a tenant's own and official ones: listed together, written apart. Knows sealed code only, but for the
// code of official formulas, which is everybody's to read.
import type { StoredApplication } from './applications.ts';
import type { NewLog } from './hot.ts';
import { writeLog } from './finish.ts';
import { keepAnswer, type KeptAnswer } from './idempotency.ts';
import { nameCondition, searchNameOf } from './names.ts';
import { NOTIFY } from './notices.ts';
import type { Query, Statements } from './statements.ts';
import { COUNTED_MAX } from './token-list.ts';
import { boundSealed } from './token-sql.ts';

/** A value that a reactor is configured by, as its formula declares it. */
export type StoredElement = { name: string; description?: string | undefined; type: 'string' | 'boolean' | 'number' };

/** A value that an invocation passes in its args. */
export type StoredParameter = StoredElement & { optional: boolean };

/** What a formula says of itself beside its code. */
export type FormulaContent = {
  name: string;
  description: string | null;
  icon: string | null;
  configuration: StoredElement[];
  request_parameters: StoredParameter[];
};

/** A tenant's own has `sealed` and null for `code`; an official one has `code` and null for `sealed`. */
export type StoredFormula = FormulaContent & {
  id: string;
  type: string;
  status: string;
  code: string | null;
  /** Null, too, where the rows of a request hold more than SEALED_BYTES_MAX together. */
  sealed: Buffer;
  version: number;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

export type NewFormula = FormulaContent & { id: string; sealed: Uint8Array; created_at: Date; created_by: string };

/** What becomes of a formula, decided over its row as it is. */
export type PlannedFormula<T> = {
  fields: FormulaContent & { sealed: Uint8Array; modified_at: Date; modified_by: string };
  log: NewLog;
  answer: KeptAnswer | undefined;
  result: T;
};

export type OfficialFormula = FormulaContent & { id: string; status: string; code: string };

export type InstalledFormula = { id: string; name: string; outcome: 'created' | 'updated' | 'unchanged' };

const COLUMNS = `id, type, status, name, description, icon, code, sealed, configuration, request_parameters, version,
  created_at, created_by, modified_at, modified_by`;

const PRIVATE = `SELECT id, 'private'::text AS type, 'verified'::text AS status, name, description, icon, NULL::text AS code,
  sealed, configuration, request_parameters, version, created_at, created_by, modified_at, modified_by
FROM reactor_formulas`;

const OFFICIAL = `SELECT id, 'official'::text AS type, status, name, description, icon, code, NULL::bytea AS sealed,
  configuration, request_parameters, version, created_at, NULL::uuid AS created_by, modified_at, NULL::uuid AS modified_by
FROM official_formulas`;

const FIND = `${PRIVATE} WHERE tenant_id = $1 AND id = $2 UNION ALL ${OFFICIAL} WHERE id = $2`;

const FIND_MANY = boundSealed(
  COLUMNS,
  `${PRIVATE} WHERE tenant_id = $1 AND id = ANY($2::uuid[]) UNION ALL ${OFFICIAL} WHERE id = ANY($2::uuid[])`,
);

const LOCK_FOR_CHANGE = `${PRIVATE} WHERE tenant_id = $1 AND id = $2 FOR UPDATE`;

const LOCK_FOR_USE = `${PRIVATE} WHERE tenant_id = $1 AND id = $2 FOR SHARE`;

const FIND_OFFICIAL = `${OFFICIAL} WHERE id = $1`;

const INSERT = `
INSERT INTO reactor_formulas (tenant_id, id, name, search_name, description, icon, sealed, configuration,
  request_parameters, created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`;

const UPDATE = `
UPDATE reactor_formulas SET name = $3, search_name = $4, description = $5, icon = $6, sealed = $7, configuration = $8,
  request_parameters = $9, modified_at = $10, modified_by = $11, version = version + 1
WHERE tenant_id = $1 AND id = $2`;

/** Whose applications act for reactors of a formula: each once, and none that is gone. */
const FIND_APPLICATIONS = `
SELECT * FROM applications WHERE tenant_id = $1 AND id IN
  (SELECT application_id FROM reactors WHERE tenant_id = $1 AND formula_id = $2)`;

const IS_USED = 'SELECT FROM reactors WHERE tenant_id = $1 AND formula_id = $2 LIMIT 1';

const DELETE = 'DELETE FROM reactor_formulas WHERE tenant_id = $1 AND id = $2 RETURNING id';

const LOCK_INSTANCE = 'SELECT id FROM instance WHERE id = 1 FOR UPDATE';

const INSTALL = `
INSERT INTO official_formulas AS o (id, name, search_name, description, status, icon, code, configuration,
  request_parameters, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, search_name = excluded.search_name,
  description = excluded.description, status = excluded.status, icon = excluded.icon, code = excluded.code,
  configuration = excluded.configuration, request_parameters = excluded.request_parameters,
  modified_at = excluded.created_at, version = o.version + 1
WHERE (o.name, o.description, o.status, o.icon, o.code, o.configuration, o.request_parameters)
  IS DISTINCT FROM (excluded.name, excluded.description, excluded.status, excluded.icon, excluded.code,
  excluded.configuration, excluded.request_parameters)
RETURNING version`;

/** What the notice says of reactors that do other things from now on: a tenant's, or everybody's. */
export const runnableNotice = (tenant_id: string): string => `runnable ${tenant_id}`;

const contentOf = ({ name, description, icon }: FormulaContent): unknown[] => [
  name,
  searchNameOf(name),
  description,
  icon,
];

/** The formula that something is about to be made of: it stays as it is until the transaction ends. */
export const lockFormulaForUse = async (
  query: Query,
  tenant_id: string,
  id: string,
): Promise<StoredFormula | undefined> => {
  const [own] = (await query('lock-formula-for-use', LOCK_FOR_USE, [tenant_id, id])) as StoredFormula[];
  return own ?? ((await query('find-official-formula', FIND_OFFICIAL, [id])) as StoredFormula[])[0];
};

export const formulaStatements = ({ query, transaction }: Statements, tenant_id: string) => ({
  addFormula: (formula: NewFormula, log: NewLog, answer: KeptAnswer | undefined): Promise<void> =>
    transaction(async (on) => {
      await on('insert-formula', INSERT, [
        tenant_id,
        formula.id,
        ...contentOf(formula),
        formula.sealed,
        JSON.stringify(formula.configuration),
        JSON.stringify(formula.request_parameters),
        formula.created_at,
        formula.created_by,
      ]);
      await writeLog(on, tenant_id, log);
      if (answer) await keepAnswer(on, tenant_id, answer);
    }),

  /** One of the tenant's own, or an official one. */
  findFormula: async (id: string): Promise<StoredFormula | undefined> =>
    ((await query('find-formula', FIND, [tenant_id, id])) as StoredFormula[])[0],
  findFormulas: async (ids: string[]): Promise<StoredFormula[]> =>
    (await query('find-formulas', FIND_MANY, [tenant_id, ids])) as StoredFormula[],
  /** How many there are, official ones among them; with a name, up to COUNTED_MAX. */
  countFormulas: async (name: string | undefined): Promise<{ total: number; capped: boolean }> => {
    const values: unknown[] = [tenant_id];
    const matches = name === undefined ? '' : nameCondition(name, (value) => `$${values.push(value)}`);
    const most = matches && `LIMIT ${COUNTED_MAX + 1}`;
    const text = `SELECT
  (SELECT count(*) FROM (SELECT FROM reactor_formulas WHERE tenant_id = $1 ${matches && `AND ${matches}`} ${most}) AS own)
  + (SELECT count(*) FROM (SELECT FROM official_formulas ${matches && `WHERE ${matches}`} ${most}) AS official) AS count`;
    const [{ count }] = (await query(undefined, text, values)) as [{ count: string }];
    const counted = Number(count);
    const capped = name !== undefined && counted > COUNTED_MAX;
    return { total: capped ? COUNTED_MAX : counted, capped };
  },

  /** Newest first, then by id; the tenant's own and official ones together. */
  listFormulas: async (name: string | undefined, offset: number, limit: number): Promise<StoredFormula[]> => {
    const values: unknown[] = [tenant_id];
    const add = (value: unknown): string => `$${values.push(value)}`;
    const matches = name === undefined ? '' : nameCondition(name, add);
    const order = 'ORDER BY created_at DESC, id';
    // Each half brings as much as the page could need of it, in the order of its index.
    const most = `${order} LIMIT ${add(offset + limit)}`;
    const page = `SELECT * FROM (
(${PRIVATE} WHERE tenant_id = $1 ${matches && `AND ${matches}`} ${most}) UNION ALL (${OFFICIAL} ${matches && `WHERE ${matches}`} ${most})
) AS formulas ${order} LIMIT ${add(limit)} OFFSET ${add(offset)}`;
    return (await query(undefined, `${boundSealed(COLUMNS, page)} ${order}`, values)) as StoredFormula[];
  },

  /**
   * Changes one of the tenant's own.
   * @param plan decides over the row, which nobody else changes meanwhile, and over the applications of its reactors; what
   * it throws leaves everything as it was.
   * @returns the plan's result; undefined where there is no such formula.
   */
  changeFormula: <T>(
    id: string,
    plan: (row: StoredFormula, applications: StoredApplication[]) => PlannedFormula<T>,
  ): Promise<T | undefined> =>
    transaction(async (on) => {
      const [row] = (await on('lock-formula', LOCK_FOR_CHANGE, [tenant_id, id])) as StoredFormula[];
      if (!row) return undefined;
      const applications = (await on('find-applications-of-formula', FIND_APPLICATIONS, [
        tenant_id,
        id,
      ])) as StoredApplication[];
      const { fields, log, answer, result } = plan(row, applications);
      await on('update-formula', UPDATE, [
        tenant_id,
        id,
        ...contentOf(fields),
        fields.sealed,
        JSON.stringify(fields.configuration),
        JSON.stringify(fields.request_parameters),
        fields.modified_at,
        fields.modified_by,
      ]);
      await writeLog(on, tenant_id, log);
      await on('notify', NOTIFY, [runnableNotice(tenant_id)]);
      if (answer) await keepAnswer(on, tenant_id, answer);
      return result;
    }),

  /** Removes one of the tenant's own that no reactor is made of. */
  deleteFormula: (id: string, log: NewLog): Promise<'deleted' | 'missing' | 'used'> =>
    transaction(async (on) => {
      // Whoever makes a reactor of it meanwhile holds the row: one of the two sees what the other has done.
      if ((await on('lock-formula', LOCK_FOR_CHANGE, [tenant_id, id])).length === 0) return 'missing';
      if ((await on('is-formula-used', IS_USED, [tenant_id, id])).length > 0) return 'used';
      await on('delete-formula', DELETE, [tenant_id, id]);
      await writeLog(on, tenant_id, log);
      return 'deleted';
    }),
});

export const officialFormulaStatements = ({ transaction }: Pick<Statements, 'transaction'>) => ({
  /** Brings the official formulas to what is given, all of them or none. What is not given stays. */
  installFormulas: (formulas: OfficialFormula[], now: Date): Promise<InstalledFormula[]> =>
    transaction(async (on) => {
      // The instance row is the one lock that every process shares.
      await on('lock-instance', LOCK_INSTANCE, []);
      const installed: InstalledFormula[] = [];
      for (const formula of formulas) {
        const { id, name, status, code, configuration, request_parameters } = formula;
        const [written] = (await on('install-formula', INSTALL, [
          id,
          name,
          searchNameOf(name),
          formula.description,
          status,
          formula.icon,
          code,
          JSON.stringify(configuration),
          JSON.stringify(request_parameters),
          now,
        ])) as { version: number }[];
        const outcome = written === undefined ? 'unchanged' : written.version === 1 ? 'created' : 'updated';
        installed.push({ id, name, outcome });
      }
      await on('notify', NOTIFY, [runnableNotice('all')]);
      return installed;
    }),
});
