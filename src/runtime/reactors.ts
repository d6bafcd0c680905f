// Reactors: a formula with its configuration, and with an application whose permissions the code may use. A configuration
// fits the formula's contract when it is written and is sealed at rest; nobody gives a reactor an application that may
// what they may not (docs/decisions/0018-reactor-applications.md). Runs nothing.
import type { Caller } from '../access/caller.ts';
import { grantsOf } from '../access/applications.ts';
import { checkGrants } from '../access/grants.ts';
import { logRow, type Operation } from '../audit/record.ts';
import type { Context } from '../context.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import type { StoredApplication } from '../db/applications.ts';
import type { StoredReactor } from '../db/reactors.ts';
import { fieldErrors, internal, invalidField, invalidInput, notFound } from '../errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../paging.ts';
import { formatPath, isStorableText } from '../vault/json.ts';
import { checkConfiguration } from './contract.ts';
import { contractsOf, type FormulaRecord, formulaRecordOf, isCutShort, pageTooLarge } from './formulas.ts';
import { forgetting } from './reactor-finder.ts';
import { openText, type SealedPlace, sealText, type Sealing } from './sealed.ts';

/** Values by the names of the formula's contract. */
export type Configuration = { [name: string]: string | number | boolean };

/** As the wire knows it. What is undefined is left out. */
export type ReactorRecord = {
  id: string;
  tenant_id: string;
  name: string;
  formula: FormulaRecord;
  configuration: Configuration;
  application: { id: string; tenant_id: string; name: string; type: string } | undefined;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

export type ReactorInput = {
  name: string;
  /** Not looked at yet. */
  configuration: Record<string, unknown>;
  application_id: string | undefined;
  /** A change may leave it out. */
  formula_id: string | undefined;
};

/** Of a value that is text: room for a certificate or a private key, and a bound on what every invocation carries. */
export const CONFIGURATION_TEXT_LENGTH_MAX = 4_000;

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
  row: Omit<StoredReactor, 'formula_id' | 'sealed'>,
  formula: FormulaRecord,
  configuration: Configuration,
): ReactorRecord => ({
  id: row.id,
  tenant_id,
  name: row.name,
  formula,
  configuration,
  application:
    row.application_id === null
      ? undefined
      : {
          id: row.application_id,
          tenant_id,
          name: row.application_name as string,
          type: row.application_type as string,
        },
  created_by: row.created_by ?? undefined,
  created_at: row.created_at.toISOString(),
  modified_by: row.modified_by ?? undefined,
  modified_at: row.modified_at?.toISOString(),
});

const logOf = (ctx: Context, caller: Caller, operation: Operation, entity_ids: string[]) =>
  logRow(ctx, caller, { operation, entity_type: 'reactor', entity_ids });

/** What is wrong with the texts of a configuration, each under its name. */
export const textProblems = (configuration: Configuration): [path: string, sentence: string][] =>
  Object.entries(configuration).flatMap(([name, value]): [string, string][] => {
    if (typeof value !== 'string') return [];
    const path = formatPath(['configuration', name]);
    if (value.length > CONFIGURATION_TEXT_LENGTH_MAX)
      return [[path, `must have at most ${CONFIGURATION_TEXT_LENGTH_MAX} characters`]];
    return isStorableText(value) ? [] : [[path, 'must be text without NUL and in whole characters']];
  });

/** @throws invalidInput naming every value that the contract does not have, misses or wants otherwise. */
const parseConfiguration = (given: unknown, elements: FormulaRecord['configuration']): Configuration => {
  const errors = checkConfiguration(given, elements);
  if (errors) throw invalidInput(errors);
  const configuration = given as Configuration;
  const sentences = textProblems(configuration);
  if (sentences.length > 0) throw invalidInput(fieldErrors(sentences));
  return configuration;
};

/** @throws notFound for an application that is unknown or another tenant's, both alike; forbidden for what the caller does not hold. */
export const checkApplication = (
  caller: Caller,
  application_id: string | undefined,
  application: StoredApplication | undefined,
): void => {
  if (application_id === undefined) return;
  if (!application) throw notFound('application');
  checkGrants(caller, grantsOf(application));
};

/**
 * Whether the caller may change a reactor or a proxy. The change says what is done with the rights of its application, so
 * the caller must hold all of them: of the application that it had, and of the one that it gets.
 * @throws as checkApplication.
 */
export const checkApplications = (
  caller: Caller,
  application_id: string | undefined,
  { before, after }: { before: StoredApplication | undefined; after: StoredApplication | undefined },
): void => {
  checkApplication(caller, application_id, after);
  if (before) checkGrants(caller, grantsOf(before));
};

const applicationColumns = (application: StoredApplication | undefined) => ({
  application_id: application?.id ?? null,
  application_name: application?.name ?? null,
  application_type: application?.type ?? null,
});

/**
 * Makes a reactor of a formula.
 * @throws notFound for a formula or application that is unknown or another tenant's, both alike; forbidden for an
 * application that may what the caller may not; invalidInput for a configuration that does not fit, and for a formula
 * that is not there yet.
 */
export const createReactor = async (
  ctx: Context,
  caller: Caller,
  input: ReactorInput & { formula_id: string },
): Promise<ReactorRecord> => {
  const { tenant_id } = caller;
  const { name, formula_id, application_id } = input;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const id = ctx.newUuid();
  const created_at = ctx.now();
  return ctx.db.for(caller).addReactor({ id, formula_id, application_id }, (formula, application) => {
    if (!formula) throw notFound('reactor formula');
    checkApplication(caller, application_id, application);
    if (formula.status === 'coming_soon')
      throw invalidField('formula.id', 'must be a formula that is available: this one is coming soon');
    const configuration = parseConfiguration(input.configuration, contractsOf(formula).configuration);
    const columns = { id, name, created_at, created_by: caller.actor_id, modified_at: null, modified_by: null };
    const row = { ...columns, ...applicationColumns(application) };
    const result = recordOf(tenant_id, row, formulaRecordOf(ctx, tenant_id, keys, formula), configuration);
    const sealed = sealText(ctx, keys, configurationPlace(tenant_id, id), JSON.stringify(configuration));
    return {
      fields: { name, sealed, application_id: row.application_id, at: created_at, by: caller.actor_id },
      log: logOf(ctx, caller, 'create', [id]),
      answer: caller.keep?.(result),
      result,
    };
  });
};

/** Reads one. @throws notFound for an unknown and a foreign id, both alike. */
export const getReactor = async (ctx: Context, caller: Caller, id: string): Promise<ReactorRecord> => {
  const { tenant_id } = caller;
  const db = ctx.db.for(caller);
  const row = await db.findReactor(id);
  if (!row) throw reactorNotFound();
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const formula = await db.findFormula(row.formula_id);
  // Between the two looks the reactor was deleted, and its formula after it.
  if (!formula) throw reactorNotFound();
  await db.insertLogs([logOf(ctx, caller, 'read', [id])]);
  const configuration = openConfiguration(ctx, tenant_id, keys, id, row.sealed);
  return recordOf(tenant_id, row, formulaRecordOf(ctx, tenant_id, keys, formula), configuration);
};

/** A page, newest first. @param input.ids only these; @param input.name see db/names.ts; undefined for all. */
export const listReactors = async (
  ctx: Context,
  caller: Caller,
  input: { ids: string[] | undefined; name: string | undefined; page: PageRequest },
): Promise<Page<ReactorRecord>> => {
  const { tenant_id } = caller;
  const db = ctx.db.for(caller);
  const { ids, name } = input;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const { pagination, rows } = await readPage(input.page, {
    page: countThenList(
      () => db.countReactors({ ids, name }),
      (offset, limit) => db.listReactors({ ids, name }, offset, limit),
    ),
  });
  if (rows.length === 0) return { pagination, data: [] };
  const stored = await db.findFormulas([...new Set(rows.map(({ formula_id }) => formula_id))]);
  if (rows.some(isCutShort) || stored.some((formula) => formula.type === 'private' && isCutShort(formula)))
    throw pageTooLarge('reactors');
  const formulas = new Map(stored.map((formula) => [formula.id, formulaRecordOf(ctx, tenant_id, keys, formula)]));
  const data = rows.flatMap((row) => {
    const formula = formulas.get(row.formula_id);
    // As in getReactor.
    if (!formula) return [];
    return [recordOf(tenant_id, row, formula, openConfiguration(ctx, tenant_id, keys, row.id, row.sealed))];
  });
  await db.insertLogs([
    logOf(
      ctx,
      caller,
      'read',
      data.map(({ id }) => id),
    ),
  ]);
  return { pagination, data };
};

/**
 * Changes name, configuration and application, all of them; the formula stays. The caller must hold what the reactor's
 * application may, before the change and after it.
 * @throws notFound; as createReactor.
 */
export const changeReactor = async (
  ctx: Context,
  caller: Caller,
  id: string,
  input: ReactorInput,
): Promise<ReactorRecord> => {
  const { tenant_id } = caller;
  const { name, formula_id, application_id } = input;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const modified_at = ctx.now();
  const changed = await forgetting(ctx, caller, () =>
    ctx.db.for(caller).changeReactor(id, application_id, (stored, formula, applications) => {
      checkApplications(caller, application_id, applications);
      if (formula_id !== undefined && formula_id !== stored.formula_id)
        throw invalidField('formula.id', 'must be the formula that the reactor is made of: it cannot change');
      // Formulas outlive their reactors: one that is missing was taken out of the database by hand.
      if (!formula) throw internal();
      const record = formulaRecordOf(ctx, tenant_id, keys, formula);
      const configuration = parseConfiguration(input.configuration, record.configuration);
      const modification = { name, modified_at, modified_by: caller.actor_id };
      const row = { ...stored, ...modification, ...applicationColumns(applications.after) };
      const result = recordOf(tenant_id, row, record, configuration);
      const sealed = sealText(ctx, keys, configurationPlace(tenant_id, id), JSON.stringify(configuration));
      return {
        fields: { name, sealed, application_id: row.application_id, at: modified_at, by: caller.actor_id },
        log: logOf(ctx, caller, 'update', [id]),
        answer: caller.keep?.(result),
        result,
      };
    }),
  );
  if (!changed) throw reactorNotFound();
  return changed;
};

/** Removes a reactor; its formula stays. @throws notFound. */
export const deleteReactor = async (ctx: Context, caller: Caller, id: string): Promise<void> => {
  const log = logOf(ctx, caller, 'delete', [id]);
  const isGone = await forgetting(ctx, caller, () => ctx.db.for(caller).deleteReactor(id, log));
  if (!isGone) throw reactorNotFound();
};
