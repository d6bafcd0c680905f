// Reactors: formulas with a configuration and an application (docs/decisions/0018-reactor-applications.md).
import { findFormulas, lockFormulaForReactor, lockFormulaForUse } from '../code/rows/formulas.ts';
import {
  type ApplicationReference,
  findApplicationReferences,
  lockApplicationForUse,
  referenceOf,
  type StoredApplication,
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
import { type EchoMode, echoModeOf } from '../access/echo-mode.ts';
import { checkGrants } from '../access/grants.ts';
import type { CodeContext } from '../code/context.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import {
  type FieldCode,
  fieldErrors,
  internal,
  invalidField,
  invalidInput,
  notFound,
} from '../../platform/base/errors.ts';
import { formatPath, isStorableText, NOT_STORABLE } from '../../platform/json/json.ts';
import { checkConfiguration } from '../code/contract.ts';
import { configurationName, ELEMENTS_MAX } from '../code/formula-fields.ts';
import {
  changeReactorCode,
  checkFormulaCode,
  findOwnReactorCode,
  findReactorCode,
  type FormulaRecord,
  formulaRecordOf,
  insertReactorCode,
  isCutShort,
  pageTooLarge,
  restoreCode,
} from '../code/formulas.ts';
import type { CodeResource } from '../code/rows/code-versions.ts';
import type { VersionRecord } from '../code/versions.ts';
import { openText, type SealedPlace, sealText, type Sealing } from '../../platform/keys/sealed-text.ts';

/** Values by the names of the formula's contract. */
export type Configuration = { [name: string]: string | number | boolean };

/** A reactor on the wire. Undefined properties are left out. */
export type ReactorRecord = {
  id: string;
  tenant_id: string;
  name: string;
  formula: FormulaRecord;
  /** Code of a reactor that was created with it: that of its formula. */
  code: string | undefined;
  configuration: Configuration;
  application: ApplicationReference | undefined;
  echo_guard: EchoMode | undefined;
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
  echo_guard?: EchoMode | undefined;
  /** A change may leave it out: the formula stays. */
  formula_id?: string | undefined;
  /** In place of a formula. A change may leave it out: the code stays. */
  code?: string | undefined;
};

/** What is left out stays. In the configuration, null removes a value. */
export type ReactorPatch = {
  name?: string | undefined;
  configuration?: Record<string, unknown> | null | undefined;
  /** Null removes it. */
  application?: { id?: string | undefined } | null | undefined;
  /** Null removes it. */
  echo_guard?: EchoMode | null | undefined;
  formula?: { id: string } | undefined;
  code?: string | undefined;
};

/** Length of a value that is text: room for a certificate or a private key, and a bound on what every invocation carries. */
export const CONFIGURATION_TEXT_LENGTH_MAX = 4_000;

/** Reactors of a tenant. A revocation hashes the configuration of each, and signs it again. */
export const REACTORS_MAX = 1_000;

/** Whether a reactor was created with its code: its formula has its id, and declares nothing. */
export const hasOwnCode = (reactor_id: string, formula_id: string): boolean => formula_id === reactor_id;

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
  code: hasOwnCode(row.id, formula.id) ? formula.code : undefined,
  configuration,
  application,
  echo_guard: echoModeOf(row.echo_guard),
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

type ConfigurationProblem = [path: string, sentence: string, code?: FieldCode];

/** Problems of a configuration whose entries no formula declares. */
export const undeclaredProblems = (configuration: Record<string, unknown>): ConfigurationProblem[] => {
  const entries = Object.entries(configuration);
  if (entries.length > ELEMENTS_MAX)
    return [['configuration', `must have at most ${ELEMENTS_MAX} entries`, 'too_large']];
  const problems = entries.flatMap(([name, value]): ConfigurationProblem[] => {
    const path = formatPath(['configuration', name]);
    const validName = configurationName.safeParse(name);
    if (!validName.success) return [[path, validName.error.issues[0]?.message ?? 'is not valid']];
    return ['string', 'number', 'boolean'].includes(typeof value)
      ? []
      : [[path, 'must be text, a number or a boolean', 'wrong_type']];
  });
  return problems.length > 0 ? problems : textProblems(configuration as Configuration);
};

/** The configuration of a reactor with its own code, which declares nothing. @throws invalidInput. */
const parseUndeclared = (given: Record<string, unknown>): Configuration => {
  const problems = undeclaredProblems(given);
  if (problems.length > 0) throw invalidInput(fieldErrors(problems));
  return given as Configuration;
};

/** @throws invalidInput naming every value that does not fit: for a formula, what its contract does not say. */
export const parseConfiguration = (
  given: Record<string, unknown>,
  reactor_id: string,
  formula: Pick<FormulaRecord, 'id' | 'configuration'>,
): Configuration => {
  if (hasOwnCode(reactor_id, formula.id)) return parseUndeclared(given);
  const errors = checkConfiguration(given, formula.configuration);
  if (errors) throw invalidInput(errors);
  const configuration = given as Configuration;
  const sentences = textProblems(configuration);
  if (sentences.length > 0) throw invalidInput(fieldErrors(sentences));
  return configuration;
};

/** The patched configuration. Null, as a whole or for a value, removes. */
export const patchConfiguration = (
  current: Record<string, unknown>,
  patch: Record<string, unknown> | null | undefined,
): Record<string, unknown> => {
  if (patch === undefined) return current;
  if (patch === null) return {};
  return Object.fromEntries(Object.entries({ ...current, ...patch }).filter(([, value]) => value !== null));
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
 * Creates a reactor from a formula, or with its own code.
 * @throws as checkCode; notFound for a formula or application that is unknown or of another tenant; forbidden for an application with
 * permissions that the caller does not hold; invalidInput for a configuration that does not fit, and for a formula that is
 * coming soon.
 */
export const createReactor = async (ctx: CodeContext, work: Work, input: ReactorInput): Promise<ReactorRecord> => {
  const { tenant_id } = work;
  const { name, application_id, code, echo_guard = null } = input;
  if (code !== undefined) await checkFormulaCode(ctx, work, code);
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const id = ctx.newUuid();
  const made = { id, name, created_at: ctx.now(), created_by: work.actor_id };
  return reactors.create(ctx, work, id, async (tx) => {
    const stored = code === undefined ? await lockFormulaForReactor(tx, input.formula_id ?? '') : undefined;
    if (code === undefined && !stored) throw notFound('reactor formula');
    const application = await lockApplicationForUse(tx, application_id);
    checkApplication(ctx, work, application_id, application);
    if (stored?.status === 'coming_soon')
      throw invalidField('formula.id', 'must be a formula that is available: this one is coming soon');
    const formula = stored
      ? formulaRecordOf(ctx, tenant_id, keys, stored)
      : await insertReactorCode(ctx, work, tx, keys, { ...made, code: code as string });
    const configuration = parseConfiguration(input.configuration, id, formula);
    const sealed = sealText(ctx, keys, configurationPlace(tenant_id, id), JSON.stringify(configuration));
    await insertReactor(
      tx,
      { ...made, echo_guard, formula_id: formula.id, application_id: application?.id ?? null },
      sealed,
    );
    const shown = { formula, configuration, application: application && referenceOf(tx, application) };
    return recordOf(tenant_id, { ...made, echo_guard, modified_at: null, modified_by: null }, shown);
  });
};

/**
 * Replaces name, configuration and application; the formula stays. The caller must hold what the reactor's application holds,
 * before the change and after it.
 * @throws as createReactor.
 */
export const changeReactor = (ctx: CodeContext, work: Work, id: string, input: ReactorInput): Promise<ReactorRecord> =>
  replaceReactor(ctx, work, id, input.code, () => input);

/** Changes what the patch names; the rest stays. @throws as changeReactor. */
export const patchReactor = (ctx: CodeContext, work: Work, id: string, patch: ReactorPatch): Promise<ReactorRecord> =>
  replaceReactor(ctx, work, id, patch.code, (current) => ({
    name: patch.name ?? current.name,
    configuration: patchConfiguration(current.configuration, patch.configuration),
    application_id: patch.application === null ? undefined : (patch.application?.id ?? current.application_id),
    formula_id: patch.formula?.id,
    echo_guard: patch.echo_guard === undefined ? current.echo_guard : (patch.echo_guard ?? undefined),
  }));

/** @param code checked before the reactor is locked: the check runs it. @param inputOf called with the state of the locked reactor. */
const replaceReactor = async (
  ctx: CodeContext,
  work: Work,
  id: string,
  code: string | undefined,
  inputOf: (current: ReactorInput) => ReactorInput,
): Promise<ReactorRecord> => {
  const { tenant_id } = work;
  if (code !== undefined) await checkFormulaCode(ctx, work, code);
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const modified = { modified_at: ctx.now(), modified_by: work.actor_id };
  return reactors.change(ctx, work, id, async (tx, stored) => {
    const formulaRow = await lockFormulaForUse(tx, stored.formula_id);
    const before = await lockApplicationForUse(tx, stored.application_id);
    const kept = openConfiguration(ctx, tenant_id, keys, id, stored.sealed);
    const input = inputOf({
      name: stored.name,
      configuration: kept,
      application_id: before?.id,
      echo_guard: echoModeOf(stored.echo_guard),
    });
    const { name, formula_id, application_id } = input;
    const after = await lockApplicationForUse(tx, application_id);
    checkApplications(ctx, work, application_id, { before, after });
    if (formula_id !== undefined && formula_id !== stored.formula_id)
      throw invalidField('formula.id', 'must be the formula that the reactor is made of: it cannot change');
    // A formula with reactors cannot be deleted through the API.
    if (!formulaRow) throw internal();
    const isOwn = hasOwnCode(id, stored.formula_id);
    if (code !== undefined && !isOwn)
      throw invalidField('code', 'must be changed in the formula: the reactor was created from one', 'not_allowed');
    const changed = { name, ...modified };
    const { echo_guard = null } = input;
    const formula = isOwn
      ? await changeReactorCode(ctx, work, tx, keys, { row: formulaRow, ...changed, code })
      : formulaRecordOf(ctx, tenant_id, keys, formulaRow);
    const configuration = parseConfiguration(input.configuration, id, formula);
    const sealed = sealText(ctx, keys, configurationPlace(tenant_id, id), JSON.stringify(configuration));
    await updateReactor(tx, id, { ...changed, echo_guard, application_id: after?.id ?? null }, sealed);
    const shown = { formula, configuration, application: after && referenceOf(tx, after) };
    return recordOf(tenant_id, { ...stored, ...changed, echo_guard }, shown);
  });
};

/** The id of its formula, whose code the reactor runs. @throws notFound. */
const findFormulaId = async (work: Work, id: string): Promise<string> => {
  const row = await findReactor(work.db, id);
  if (!row) throw reactorNotFound();
  return row.formula_id;
};

export const findCodeOfReactor = async (work: Work, id: string): Promise<CodeResource> =>
  findReactorCode(work, await findFormulaId(work, id));

/** @throws as findOwnReactorCode. */
export const findOwnCodeOfReactor = async (work: Work, id: string): Promise<CodeResource> =>
  findOwnReactorCode(work, await findFormulaId(work, id));

/** Restores its own code, or its formula and so the code of all reactors of the formula. @throws as restoreFormula. */
export const restoreReactor = async (
  ctx: CodeContext,
  work: Work,
  id: string,
  given: { number: number; note: string | undefined },
): Promise<VersionRecord> => restoreCode(ctx, work, await findOwnCodeOfReactor(work, id), given);
