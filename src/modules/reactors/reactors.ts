// Reactors: formulas with a configuration and an application (docs/decisions/0018-reactor-applications.md).
import { findFormulas, lockFormulaForUse } from '../code/rows/formulas.ts';
import {
  type ApplicationReference,
  findApplicationReferences,
  lockApplicationForUse,
  referenceOf,
} from '../access/rows/applications.ts';
import { resourceOf } from '../access/resource.ts';
import { countNamed, type NamedFilter } from '../access/rows/names.ts';
import {
  countReactorRows,
  deleteReactorRow,
  findReactor,
  insertReactor,
  listReactors as listReactorRows,
  lockReactor,
  REACTORS,
  type StoredReactor,
  updateReactor,
} from './rows.ts';
import type { Work } from '../access/work.ts';
import { grantsOf } from '../access/applications.ts';
import { checkGrants } from '../access/grants.ts';
import type { CodeContext } from '../code/context.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { StoredApplication } from '../access/rows/applications.ts';
import { type FieldCode, fieldErrors, internal, invalidField, invalidInput, notFound } from '../../platform/errors.ts';
import { formatPath, isStorableText, NOT_STORABLE } from '../../platform/json/json.ts';
import { checkConfiguration } from '../code/contract.ts';
import {
  findCodeOfFormula,
  findOwnCode,
  type FormulaRecord,
  formulaRecordOf,
  isCutShort,
  pageTooLarge,
  restoreFormula,
} from '../code/formulas.ts';
import type { CodeResource } from '../code/rows/code-versions.ts';
import type { VersionRecord } from '../code/versions.ts';
import { openText, type SealedPlace, sealText, type Sealing } from '../../platform/crypto/sealed-text.ts';

/** Values by the names of the formula's contract. */
export type Configuration = { [name: string]: string | number | boolean };

/** A reactor on the wire. Undefined properties are left out. */
export type ReactorRecord = {
  id: string;
  tenant_id: string;
  name: string;
  formula: FormulaRecord;
  configuration: Configuration;
  application: ApplicationReference | undefined;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

export type ReactorInput = {
  name: string;
  /** Not checked yet. */
  configuration: Record<string, unknown>;
  application_id: string | undefined;
  /** A change may leave it out: the formula stays. */
  formula_id: string | undefined;
};

/** Of a value that is text: room for a certificate or a private key, and a bound on what every invocation carries. */
export const CONFIGURATION_TEXT_LENGTH_MAX = 4_000;

/** Reactors of a tenant. A revocation hashes the configuration of each, and signs it again. */
export const REACTORS_MAX = 1_000;

export const reactorNotFound = () => notFound('reactor');

const configurationPlace = (tenant_id: string, id: string): SealedPlace => ({
  tenant_id,
  record: 'reactor',
  id,
  field: 'configuration',
});

export const openConfiguration = (
  ctx: Sealing,
  tenant_id: string,
  keys: TenantKeys,
  id: string,
  sealed: Uint8Array,
): Configuration => JSON.parse(openText(ctx, keys, configurationPlace(tenant_id, id), sealed)) as Configuration;

const recordOf = (
  tenant_id: string,
  row: Omit<StoredReactor, 'formula_id' | 'sealed' | 'application_id'>,
  { formula, configuration, application }: Pick<ReactorRecord, 'formula' | 'configuration' | 'application'>,
): ReactorRecord => ({
  id: row.id,
  tenant_id,
  name: row.name,
  formula,
  configuration,
  application,
  created_by: row.created_by ?? undefined,
  created_at: row.created_at.toISOString(),
  modified_by: row.modified_by ?? undefined,
  modified_at: row.modified_at?.toISOString(),
});

type TextProblem = [path: string, sentence: string, code: FieldCode];

/** Problems with the texts of a configuration, by their paths. */
export const textProblems = (configuration: Configuration): TextProblem[] =>
  Object.entries(configuration).flatMap(([name, value]): TextProblem[] => {
    if (typeof value !== 'string') return [];
    const path = formatPath(['configuration', name]);
    if (value.length > CONFIGURATION_TEXT_LENGTH_MAX)
      return [[path, `must have at most ${CONFIGURATION_TEXT_LENGTH_MAX} characters`, 'too_large']];
    return isStorableText(value) ? [] : [[path, NOT_STORABLE, 'not_storable']];
  });

/** @throws invalidInput naming every value that is not declared, is missing or has another type. */
export const parseConfiguration = (given: unknown, elements: FormulaRecord['configuration']): Configuration => {
  const errors = checkConfiguration(given, elements);
  if (errors) throw invalidInput(errors);
  const configuration = given as Configuration;
  const sentences = textProblems(configuration);
  if (sentences.length > 0) throw invalidInput(fieldErrors(sentences));
  return configuration;
};

/** @throws notFound for an application that is unknown or of another tenant; forbidden for what the caller does not hold. */
export const checkApplication = (
  ctx: Pick<CodeContext, 'config'>,
  work: Work,
  application_id: string | undefined,
  application: StoredApplication | undefined,
): void => {
  if (application_id === undefined) return;
  if (!application) throw notFound('application');
  checkGrants(work, grantsOf(ctx, application));
};

/**
 * Checks that the caller may change a reactor or a proxy. The change decides what is done with the permissions of its
 * application, so the caller must hold all of them: of the application before the change, and of the one after it.
 * @throws as checkApplication.
 */
export const checkApplications = (
  ctx: Pick<CodeContext, 'config'>,
  work: Work,
  application_id: string | undefined,
  { before, after }: { before: StoredApplication | undefined; after: StoredApplication | undefined },
): void => {
  checkApplication(ctx, work, application_id, after);
  if (before) checkGrants(work, grantsOf(ctx, before));
};

const showReactors = async (ctx: CodeContext, work: Work, rows: readonly StoredReactor[]): Promise<ReactorRecord[]> => {
  const { tenant_id, db } = work;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const stored = await findFormulas(db, [...new Set(rows.map(({ formula_id }) => formula_id))]);
  if (rows.some(isCutShort) || stored.some(isCutShort)) throw pageTooLarge('reactors');
  const formulas = new Map(stored.map((formula) => [formula.id, formulaRecordOf(ctx, tenant_id, keys, formula)]));
  const references = await findApplicationReferences(
    db,
    rows.map(({ application_id }) => application_id),
  );
  return rows.flatMap((row) => {
    const formula = formulas.get(row.formula_id);
    // The reactor and its formula were deleted between two statements.
    if (!formula) return [];
    const configuration = openConfiguration(ctx, tenant_id, keys, row.id, row.sealed);
    return [
      recordOf(tenant_id, row, { formula, configuration, application: references.get(row.application_id ?? '') }),
    ];
  });
};

const reactors = resourceOf<CodeContext, StoredReactor, NamedFilter, ReactorRecord>({
  entity_type: 'reactor',
  noun: 'reactor',
  find: findReactor,
  count: (db, filter) => countNamed(db, REACTORS, filter),
  list: listReactorRows,
  lock: lockReactor,
  remove: deleteReactorRow,
  show: showReactors,
  changeOf: ({ tenant_id }) => ({ subject: 'runnable', id: tenant_id }),
  limit: { plural: 'reactors', max: REACTORS_MAX, count: countReactorRows },
});

/** Reads one. @throws notFound, the same for an unknown id and one of another tenant. */
export const getReactor = reactors.read;

/** A page, newest first. `ids`: only these; `name`: see modules/access/rows/names.ts; undefined for all. */
export const listReactors = reactors.list;

/** Removes a reactor; its formula stays. @throws notFound. */
export const deleteReactor = reactors.delete;

/**
 * Creates a reactor from a formula.
 * @throws notFound for a formula or application that is unknown or of another tenant; forbidden for an application with
 * permissions that the caller does not hold; invalidInput for a configuration that does not fit, and for a formula that is
 * coming soon.
 */
export const createReactor = async (
  ctx: CodeContext,
  work: Work,
  input: ReactorInput & { formula_id: string },
): Promise<ReactorRecord> => {
  const { tenant_id } = work;
  const { name, formula_id, application_id } = input;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const id = ctx.newUuid();
  const made = { id, name, created_at: ctx.now(), created_by: work.actor_id };
  return reactors.create(ctx, work, id, async (tx) => {
    const stored = await lockFormulaForUse(tx, formula_id);
    if (!stored) throw notFound('reactor formula');
    const application = await lockApplicationForUse(tx, application_id);
    checkApplication(ctx, work, application_id, application);
    if (stored.status === 'coming_soon')
      throw invalidField('formula.id', 'must be a formula that is available: this one is coming soon');
    const formula = formulaRecordOf(ctx, tenant_id, keys, stored);
    const configuration = parseConfiguration(input.configuration, formula.configuration);
    const sealed = sealText(ctx, keys, configurationPlace(tenant_id, id), JSON.stringify(configuration));
    await insertReactor(tx, { ...made, formula_id, application_id: application?.id ?? null }, sealed);
    const shown = { formula, configuration, application: application && referenceOf(tx, application) };
    return recordOf(tenant_id, { ...made, modified_at: null, modified_by: null }, shown);
  });
};

/**
 * Replaces name, configuration and application; the formula stays. The caller must hold what the reactor's application holds,
 * before the change and after it.
 * @throws as createReactor.
 */
export const changeReactor = async (
  ctx: CodeContext,
  work: Work,
  id: string,
  input: ReactorInput,
): Promise<ReactorRecord> => {
  const { tenant_id } = work;
  const { name, formula_id, application_id } = input;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const changed = { name, modified_at: ctx.now(), modified_by: work.actor_id };
  return reactors.change(ctx, work, id, async (tx, stored) => {
    const formulaRow = await lockFormulaForUse(tx, stored.formula_id);
    const before = await lockApplicationForUse(tx, stored.application_id);
    const after = await lockApplicationForUse(tx, application_id);
    checkApplications(ctx, work, application_id, { before, after });
    if (formula_id !== undefined && formula_id !== stored.formula_id)
      throw invalidField('formula.id', 'must be the formula that the reactor is made of: it cannot change');
    // A formula with reactors cannot be deleted through the API.
    if (!formulaRow) throw internal();
    const formula = formulaRecordOf(ctx, tenant_id, keys, formulaRow);
    const configuration = parseConfiguration(input.configuration, formula.configuration);
    const sealed = sealText(ctx, keys, configurationPlace(tenant_id, id), JSON.stringify(configuration));
    await updateReactor(tx, id, { ...changed, application_id: after?.id ?? null }, sealed);
    const shown = { formula, configuration, application: after && referenceOf(tx, after) };
    return recordOf(tenant_id, { ...stored, ...changed }, shown);
  });
};

/** The id of its formula, whose code the reactor runs. @throws notFound. */
const findFormulaId = async (work: Work, id: string): Promise<string> => {
  const row = await findReactor(work.db, id);
  if (!row) throw reactorNotFound();
  return row.formula_id;
};

export const findCodeOfReactor = async (work: Work, id: string): Promise<CodeResource> =>
  findCodeOfFormula(work, await findFormulaId(work, id));

/** @throws as findOwnCode. */
export const findOwnCodeOfReactor = async (work: Work, id: string): Promise<CodeResource> =>
  findOwnCode(work, await findFormulaId(work, id));

/** Restores its formula, and so the code of all reactors of the formula. @throws as restoreFormula. */
export const restoreReactor = async (
  ctx: CodeContext,
  work: Work,
  id: string,
  given: { number: number; note: string | undefined },
): Promise<VersionRecord> => restoreFormula(ctx, work, await findFormulaId(work, id), given);
