// Formulas: code with its contracts, a tenant's own or official. Code is compiled before it is kept, in the sandbox, and
// sealed at rest; official formulas are everybody's to read and the operator's to write.
import type { Caller } from '../access/caller.ts';
import { grantsOf } from '../access/applications.ts';
import { checkGrants } from '../access/grants.ts';
import { logRow, type Operation } from '../audit/record.ts';
import type { Context } from '../context.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import type { StoredElement, StoredFormula, StoredParameter } from '../db/formulas.ts';
import { AppError, conflict, notFound, payloadTooLarge } from '../errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../paging.ts';
import { checkCode } from './code.ts';
import type { ConfigurationElement, RequestParameter } from './formula-fields.ts';
import { forgetting } from './reactor-finder.ts';
import { openText, type SealedPlace, sealText } from './sealed.ts';

export const formulaTypes = ['private', 'official'] as const;
export const formulaStatuses = ['verified', 'coming_soon'] as const;

/** What code can rely on: its reactors' configuration, and the args of an invocation. */
export type Contracts = { configuration: StoredElement[]; request_parameters: StoredParameter[] };

/** As the wire knows it. What is undefined is left out. */
export type FormulaRecord = Contracts & {
  id: string;
  name: string;
  description: string | undefined;
  type: string;
  status: string;
  icon: string | undefined;
  code: string;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

export type FormulaInput = {
  name: string;
  description?: string | undefined;
  icon?: string | undefined;
  type: (typeof formulaTypes)[number];
  code: string;
  configuration: ConfigurationElement[];
  request_parameters: (RequestParameter & { optional: boolean })[];
};

const officialIsFixed = () =>
  new AppError(
    'forbidden',
    'Official formulas are installed by the operator, and are nobody else’s to make or change.',
  );

const formulaNotFound = () => notFound('reactor formula');

/** Columns of JSON come with their names in an order of the database's own. */
const elementsOf = (stored: readonly StoredElement[]): StoredElement[] =>
  stored.map(({ name, description, type }) => ({ name, description, type }));

const parametersOf = (stored: readonly StoredParameter[]): StoredParameter[] =>
  stored.map(({ name, description, type, optional }) => ({ name, description, type, optional }));

/** The contracts of a formula, as its row keeps them. */
export const contractsOf = (row: Contracts): Contracts => ({
  configuration: elementsOf(row.configuration),
  request_parameters: parametersOf(row.request_parameters),
});

export const codePlace = (tenant_id: string, id: string): SealedPlace => ({
  tenant_id,
  record: 'reactor_formula',
  id,
  field: 'code',
});

const recordOf = (row: Omit<StoredFormula, 'code' | 'sealed' | 'version'>, code: string): FormulaRecord => ({
  id: row.id,
  name: row.name,
  description: row.description ?? undefined,
  type: row.type,
  status: row.status,
  icon: row.icon ?? undefined,
  code,
  ...contractsOf(row),
  created_by: row.created_by ?? undefined,
  created_at: row.created_at.toISOString(),
  modified_by: row.modified_by ?? undefined,
  modified_at: row.modified_at?.toISOString(),
});

/** A stored formula as its readers see it. @throws internal, after an alarm, for code that does not open. */
export const formulaRecordOf = (ctx: Context, tenant_id: string, keys: TenantKeys, row: StoredFormula): FormulaRecord =>
  recordOf(
    row,
    row.type === 'official' ? (row.code as string) : openText(ctx, keys, codePlace(tenant_id, row.id), row.sealed),
  );

export const pageTooLarge = (what: string) =>
  payloadTooLarge(`The ${what} of this page are too large for one answer. Ask for fewer by \`size\`.`);

/** Whether a row of a list came without what it seals: there was too much of it together. */
export const isCutShort = (row: { sealed: Buffer | null }): boolean => row.sealed === null;

const logOf = (ctx: Context, caller: Caller, operation: Operation, entity_ids: string[]) =>
  logRow(ctx, caller, { operation, entity_type: 'reactor_formula', entity_ids });

const checkFormulaCode = (ctx: Context, caller: Caller, code: string): Promise<void> =>
  checkCode(ctx, caller, { of: 'formula', result: '{ raw: {} }' }, [['code', code]]);

const columnsOf = ({ name, description, icon, configuration, request_parameters }: FormulaInput) => ({
  name,
  description: description ?? null,
  icon: icon ?? null,
  configuration,
  request_parameters,
});

/**
 * Makes a formula of the tenant's own.
 * @param input.id undefined for a random one.
 * @throws forbidden for an official one; conflict for an id that a formula of the tenant or an official one has; as checkCode.
 */
export const createFormula = async (
  ctx: Context,
  caller: Caller,
  input: FormulaInput & { id?: string | undefined },
): Promise<FormulaRecord> => {
  if (input.type === 'official') throw officialIsFixed();
  if (input.id !== undefined && (await ctx.db.for(caller).findFormula(input.id)))
    throw conflict('A record with this id already exists.');
  await checkFormulaCode(ctx, caller, input.code);
  const { tenant_id } = caller;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const id = input.id ?? ctx.newUuid();
  const columns = { id, ...columnsOf(input), created_at: ctx.now(), created_by: caller.actor_id };
  const status = { type: 'private', status: 'verified', modified_at: null, modified_by: null };
  const result = recordOf({ ...columns, ...status }, input.code);
  const sealed = sealText(ctx, keys, codePlace(tenant_id, id), input.code);
  const log = logOf(ctx, caller, 'create', [id]);
  await ctx.db.for(caller).addFormula({ ...columns, sealed }, log, caller.keep?.(result));
  return result;
};

/** Reads one, official ones too. @throws notFound for an unknown and a foreign id, both alike. */
export const getFormula = async (ctx: Context, caller: Caller, id: string): Promise<FormulaRecord> => {
  const db = ctx.db.for(caller);
  const row = await db.findFormula(id);
  if (!row) throw formulaNotFound();
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  await db.insertLogs([logOf(ctx, caller, 'read', [id])]);
  return formulaRecordOf(ctx, caller.tenant_id, keys, row);
};

/** A page of official formulas and the tenant's own, newest first. @param input.name see db/names.ts; undefined for all. */
export const listFormulas = async (
  ctx: Context,
  caller: Caller,
  input: { name: string | undefined; page: PageRequest },
): Promise<Page<FormulaRecord>> => {
  const db = ctx.db.for(caller);
  const { name } = input;
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  const { pagination, rows } = await readPage(input.page, {
    page: countThenList(
      () => db.countFormulas(name),
      (offset, limit) => db.listFormulas(name, offset, limit),
    ),
  });
  if (rows.some((row) => row.type === 'private' && isCutShort(row))) throw pageTooLarge('formulas');
  const ids = rows.map(({ id }) => id);
  if (ids.length > 0) await db.insertLogs([logOf(ctx, caller, 'read', ids)]);
  return { pagination, data: rows.map((row) => formulaRecordOf(ctx, caller.tenant_id, keys, row)) };
};

/** @throws notFound for an unknown and a foreign id; forbidden for an official one. */
const checkIsOwn = async (ctx: Context, caller: Caller, id: string): Promise<void> => {
  const row = await ctx.db.for(caller).findFormula(id);
  if (!row) throw formulaNotFound();
  if (row.type === 'official') throw officialIsFixed();
};

/**
 * Changes all of a formula of the tenant's own. Its reactors go on with the new code, and with its new contracts from
 * their next invocation. Whoever writes code uses what its reactors' applications may: other code needs all of that.
 * @throws notFound; forbidden for an official one, and for what the caller does not hold; as checkCode.
 */
export const changeFormula = async (
  ctx: Context,
  caller: Caller,
  id: string,
  input: FormulaInput,
): Promise<FormulaRecord> => {
  if (input.type === 'official') throw officialIsFixed();
  await checkIsOwn(ctx, caller, id);
  await checkFormulaCode(ctx, caller, input.code);
  const { tenant_id } = caller;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const place = codePlace(tenant_id, id);
  const fields = { ...columnsOf(input), modified_at: ctx.now(), modified_by: caller.actor_id };
  const changed = await forgetting(ctx, caller, () =>
    ctx.db.for(caller).changeFormula(id, (row, applications) => {
      if (openText(ctx, keys, place, row.sealed) !== input.code)
        for (const application of applications) checkGrants(caller, grantsOf(application));
      const result = recordOf({ ...row, ...fields }, input.code);
      const sealed = sealText(ctx, keys, place, input.code);
      const log = logOf(ctx, caller, 'update', [id]);
      return { fields: { ...fields, sealed }, log, answer: caller.keep?.(result), result };
    }),
  );
  if (!changed) throw formulaNotFound();
  return changed;
};

/** Removes a formula of the tenant's own. @throws notFound; forbidden for an official one; conflict while reactors are made of it. */
export const deleteFormula = async (ctx: Context, caller: Caller, id: string): Promise<void> => {
  await checkIsOwn(ctx, caller, id);
  const outcome = await ctx.db.for(caller).deleteFormula(id, logOf(ctx, caller, 'delete', [id]));
  if (outcome === 'missing') throw formulaNotFound();
  if (outcome === 'used') throw conflict('Reactors are made of this formula. Delete them first.');
};
