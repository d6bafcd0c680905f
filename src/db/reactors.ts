// Rows of reactors: each with its application, and with its formula where it is about to be run. Knows sealed configurations
// only; what may be written is decided above, over rows that nobody else changes meanwhile.
import { lockApplicationForUse, type StoredApplication } from './applications.ts';
import { finish, writeLog } from './finish.ts';
import {
  lockFormulaForUse,
  runnableNotice,
  type StoredElement,
  type StoredFormula,
  type StoredParameter,
} from './formulas.ts';
import type { NewLog } from './hot.ts';
import type { KeptAnswer } from './idempotency.ts';
import { countNamed, type NamedFilter, namedRows, searchNameOf } from './names.ts';
import { NOTIFY } from './notices.ts';
import type { Statements } from './statements.ts';
import { boundSealed } from './token-sql.ts';

/** The application's columns are null where it has none, and where that one is gone. */
export type StoredReactor = {
  id: string;
  name: string;
  formula_id: string;
  /** Null where the rows of a request hold more than SEALED_BYTES_MAX together. */
  sealed: Buffer;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
  application_id: string | null;
  application_name: string | null;
  application_type: string | null;
};

/** A reactor with all of its formula that a run takes: `formula_sealed` of a tenant's own, `code` of an official one. */
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

/** What is written of a reactor, decided over its formula and its application as they are. */
export type PlannedReactor<T> = {
  fields: { name: string; sealed: Uint8Array; application_id: string | null; at: Date; by: string };
  log: NewLog;
  answer: KeptAnswer | undefined;
  result: T;
};

const COLUMNS = `id, name, formula_id, sealed, created_at, created_by, modified_at, modified_by,
  application_id, application_name, application_type`;

const FROM = `FROM reactors r LEFT JOIN applications a ON a.tenant_id = r.tenant_id AND a.id = r.application_id`;

const SELECT = `SELECT r.id, r.name, r.formula_id, r.sealed, r.created_at, r.created_by, r.modified_at, r.modified_by,
  a.id AS application_id, a.name AS application_name, a.type AS application_type ${FROM}`;

const FIND = `${SELECT} WHERE r.tenant_id = $1 AND r.id = $2`;

const LOCK = 'SELECT FROM reactors WHERE tenant_id = $1 AND id = $2 FOR UPDATE';

const FIND_FOR_RUN = `
SELECT r.id, r.sealed, r.version, a.id AS application_id, r.formula_id,
  coalesce(f.version, o.version) AS formula_version, f.sealed AS formula_sealed, o.code,
  coalesce(f.configuration, o.configuration) AS configuration,
  coalesce(f.request_parameters, o.request_parameters) AS request_parameters
${FROM}
LEFT JOIN reactor_formulas f ON f.tenant_id = r.tenant_id AND f.id = r.formula_id
LEFT JOIN official_formulas o ON o.id = r.formula_id
WHERE r.tenant_id = $1 AND r.id = $2 AND (f.id IS NOT NULL OR o.id IS NOT NULL)`;

const INSERT = `
INSERT INTO reactors (tenant_id, id, formula_id, name, search_name, sealed, application_id, created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`;

const UPDATE = `
UPDATE reactors SET name = $3, search_name = $4, sealed = $5, application_id = $6, modified_at = $7, modified_by = $8,
  version = version + 1
WHERE tenant_id = $1 AND id = $2`;

const DELETE = 'DELETE FROM reactors WHERE tenant_id = $1 AND id = $2 RETURNING id';

const fieldsOf = ({ fields }: PlannedReactor<unknown>): unknown[] => [
  fields.name,
  searchNameOf(fields.name),
  fields.sealed,
  fields.application_id,
  fields.at,
  fields.by,
];

export const reactorStatements = ({ query, transaction }: Statements, tenant_id: string) => ({
  /**
   * Makes a reactor of a formula.
   * @param plan decides over the formula and the application, which nobody else changes or removes meanwhile; undefined
   * where there is none. What it throws leaves everything as it was.
   */
  addReactor: <T>(
    made: { id: string; formula_id: string; application_id: string | undefined },
    plan: (formula: StoredFormula | undefined, application: StoredApplication | undefined) => PlannedReactor<T>,
  ): Promise<T> =>
    transaction(async (on) => {
      const formula = await lockFormulaForUse(on, tenant_id, made.formula_id);
      const planned = plan(formula, await lockApplicationForUse(on, tenant_id, made.application_id));
      await on('insert-reactor', INSERT, [tenant_id, made.id, made.formula_id, ...fieldsOf(planned)]);
      return finish(on, tenant_id, planned);
    }),

  findReactor: async (id: string): Promise<StoredReactor | undefined> =>
    ((await query('find-reactor', FIND, [tenant_id, id])) as StoredReactor[])[0],
  findReactorForRun: async (id: string): Promise<RunnableRow | undefined> =>
    ((await query('find-reactor-for-run', FIND_FOR_RUN, [tenant_id, id])) as RunnableRow[])[0],
  countReactors: (filter: NamedFilter) => countNamed(query, 'reactors', tenant_id, filter),

  /** Newest first, then by id. */
  listReactors: async (filter: NamedFilter, offset: number, limit: number): Promise<StoredReactor[]> => {
    const { where, values, add } = namedRows('r', tenant_id, filter);
    const page = `${SELECT} WHERE ${where} ORDER BY r.created_at DESC, r.id LIMIT ${add(limit)} OFFSET ${add(offset)}`;
    const text = `${boundSealed(COLUMNS, page)} ORDER BY created_at DESC, id`;
    return (await query(undefined, text, values)) as StoredReactor[];
  },

  /**
   * Changes a reactor; its formula stays.
   * @param plan as for addReactor, and over the reactor as it is, with the application that it has so far.
   * @returns its result; undefined where there is no such reactor.
   */
  changeReactor: <T>(
    id: string,
    application_id: string | undefined,
    plan: (
      row: StoredReactor,
      formula: StoredFormula | undefined,
      applications: { before: StoredApplication | undefined; after: StoredApplication | undefined },
    ) => PlannedReactor<T>,
  ): Promise<T | undefined> =>
    transaction(async (on) => {
      // Found once it is locked: a change that held the lock may have given it another application.
      await on('lock-reactor', LOCK, [tenant_id, id]);
      const [row] = (await on('find-reactor', FIND, [tenant_id, id])) as StoredReactor[];
      if (!row) return undefined;
      const formula = await lockFormulaForUse(on, tenant_id, row.formula_id);
      const before = await lockApplicationForUse(on, tenant_id, row.application_id);
      const after = await lockApplicationForUse(on, tenant_id, application_id);
      const planned = plan(row, formula, { before, after });
      await on('update-reactor', UPDATE, [tenant_id, id, ...fieldsOf(planned)]);
      await on('notify', NOTIFY, [runnableNotice(tenant_id)]);
      return finish(on, tenant_id, planned);
    }),

  /** @returns whether it was there. */
  deleteReactor: (id: string, log: NewLog): Promise<boolean> =>
    transaction(async (on) => {
      if ((await on('delete-reactor', DELETE, [tenant_id, id])).length === 0) return false;
      await writeLog(on, tenant_id, log);
      await on('notify', NOTIFY, [runnableNotice(tenant_id)]);
      return true;
    }),
});
