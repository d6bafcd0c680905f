// Formulas: code with its contracts, of a tenant or official. Code is compiled in the sandbox before it is stored.
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { openText, type SealedPlace, sealText } from '../../platform/keys/sealed-text.ts';
import { alreadyExists, AppError, failure, notFound, payloadTooLarge } from '../../platform/base/errors.ts';
import { grantsOf } from '../access/applications.ts';
import { checkGrants } from '../access/grants.ts';
import { resourceOf } from '../access/resource.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import type { Work } from '../access/work.ts';
import { checkCode } from './code.ts';
import type { CodeContext } from './context.ts';
import type { ConfigurationElement, RequestParameter } from './formula-fields.ts';
import {
  countFormulaRows,
  countFormulas,
  deleteFormulaRow,
  findApplicationsOfFormula,
  findFormula,
  findListedFormula,
  isCodeOfReactor,
  hasReactors,
  insertFormula,
  listFormulas as listFormulaRows,
  lockFormula,
  type StoredElement,
  type StoredFormula,
  type StoredParameter,
  updateFormula,
} from './rows/formulas.ts';
import { type CodeResource, deleteCodeOf } from './rows/code-versions.ts';
import { CODE_RESTORED, findCodeOfVersion, keepVersion, type VersionRecord } from './versions.ts';

export const formulaTypes = ['private', 'official'] as const;
export const formulaStatuses = ['verified', 'coming_soon'] as const;

/** Formulas of a tenant's own. A revocation hashes the code of each, which is up to CODE_LENGTH_MAX characters, and signs it again. */
export const FORMULAS_MAX = 1_000;

/** What code can rely on: the configuration of its reactors, and the args of an invocation. */
export type Contracts = { configuration: StoredElement[]; request_parameters: StoredParameter[] };

/** A formula on the wire. Undefined properties are left out. */
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
  /** Note of the version of its code. */
  note?: string | undefined;
};

const officialIsFixed = () =>
  new AppError(
    'forbidden',
    'Official formulas are installed by the operator. Clients cannot create, change or delete them.',
  );

/** The database does not keep the order of names in JSON. */
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

const recordOf = (row: Omit<StoredFormula, 'code' | 'sealed'>, code: string): FormulaRecord => ({
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

/** @param row as `isCutShort` says, with its code. @throws internal, after an alarm, for code that does not open. */
export const formulaRecordOf = (
  ctx: CodeContext,
  tenant_id: string,
  keys: TenantKeys,
  row: StoredFormula,
): FormulaRecord => recordOf(row, row.code ?? openCode(ctx, tenant_id, keys, row));

const openCode = (ctx: CodeContext, tenant_id: string, keys: TenantKeys, { id, sealed }: StoredFormula): string =>
  openText(ctx, keys, codePlace(tenant_id, id), sealed as Uint8Array);

export const pageTooLarge = (what: string) =>
  payloadTooLarge(`The ${what} of this page are too large for one answer. Ask for fewer by \`size\`.`);

/** Whether a row of a list came without its sealed part, since the rows of the list hold too much of it together. */
export const isCutShort = (row: { type?: string; sealed: Uint8Array | null }): boolean =>
  row.type !== 'official' && row.sealed === null;

const codeOfFormula = (resource_id: string): CodeResource => ({ resource_type: 'reactor_formula', resource_id });

export const checkFormulaCode = (ctx: CodeContext, work: Work, code: string): Promise<void> =>
  checkCode(ctx, work, { of: 'formula', result: '{ raw: {} }' }, [['code', code]]);

/** What a formula has that is the code of one reactor. It has no contracts. */
const ofReactor = (name: string) => ({
  name,
  description: null,
  icon: null,
  configuration: [],
  request_parameters: [],
  isOfReactor: true,
});

/** Writes the code of a new reactor as a formula with its id. @returns the formula as the reactor shows it. */
export const insertReactorCode = async (
  ctx: CodeContext,
  work: Work,
  tx: PrismaTransaction,
  keys: TenantKeys,
  { id, name, code, ...created }: { id: string; name: string; code: string; created_at: Date; created_by: string },
): Promise<FormulaRecord> => {
  const row = { id, ...ofReactor(name), ...created };
  await insertFormula(tx, row, sealText(ctx, keys, codePlace(tx.tenant_id, id), code));
  const deployed = { before: undefined, code: { code }, note: undefined };
  await keepVersion(ctx, work, tx, { keys, resource: codeOfFormula(id), ...deployed });
  const rest = { type: 'private', status: 'verified', modified_at: null, modified_by: null } as const;
  return recordOf({ ...row, ...rest }, code);
};

/** Removes a formula, or the code of a reactor that is gone, with its versions. */
export const removeFormula = async (tx: PrismaTransaction, id: string): Promise<void> => {
  await deleteFormulaRow(tx, id);
  await deleteCodeOf(tx, codeOfFormula(id));
};

/** Replaces the code of a locked reactor. @param code undefined: it stays. @throws forbidden for what the caller does not hold. */
export const changeReactorCode = async (
  ctx: CodeContext,
  work: Work,
  tx: PrismaTransaction,
  keys: TenantKeys,
  {
    row,
    name,
    code,
    ...modified
  }: {
    row: StoredFormula;
    name: string;
    code: string | undefined;
    modified_at: Date;
    modified_by: string;
  },
): Promise<FormulaRecord> => {
  const written = code ?? openCode(ctx, tx.tenant_id, keys, row);
  const fields = { ...ofReactor(name), ...modified };
  await deploy(ctx, work, tx, { keys, row, fields, code: written, note: undefined });
  return recordOf({ ...row, ...fields }, written);
};

const columnsOf = ({ name, description, icon, configuration, request_parameters }: FormulaInput) => ({
  name,
  description: description ?? null,
  icon: icon ?? null,
  configuration,
  request_parameters,
});

const showFormulas = async (
  ctx: CodeContext,
  { tenant_id }: Work,
  rows: readonly StoredFormula[],
): Promise<FormulaRecord[]> => {
  if (rows.some(isCutShort)) throw pageTooLarge('formulas');
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  return rows.map((row) => formulaRecordOf(ctx, tenant_id, keys, row));
};

const formulas = resourceOf<CodeContext, StoredFormula, { name: string | undefined }, FormulaRecord>({
  entity_type: 'reactor_formula',
  noun: 'reactor formula',
  find: findListedFormula,
  count: countFormulas,
  list: listFormulaRows,
  lock: lockFormula,
  remove: removeFormula,
  show: showFormulas,
  changeOf: ({ tenant_id }) => ({ subject: 'runnable', id: tenant_id }),
  limit: { plural: 'formulas', max: FORMULAS_MAX, count: countFormulaRows },
});

/** Reads one, official ones too. @throws notFound, the same for an unknown id and one of another tenant. */
export const getFormula = formulas.read;

/** A page of official formulas and the tenant's own, newest first. `name`: see modules/access/rows/names.ts; undefined for all. */
export const listFormulas = formulas.list;

/**
 * Creates a formula of the tenant.
 * @param input.id undefined for a random one.
 * @throws forbidden for an official one; conflict for an id that a formula of the tenant or an official one has; as checkCode.
 */
export const createFormula = async (
  ctx: CodeContext,
  work: Work,
  input: FormulaInput & { id?: string | undefined },
): Promise<FormulaRecord> => {
  if (input.type === 'official') throw officialIsFixed();
  if (input.id !== undefined && (await findFormula(work.db, input.id))) throw alreadyExists();
  await checkFormulaCode(ctx, work, input.code);
  const { tenant_id } = work;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const id = input.id ?? ctx.newUuid();
  const row = { id, ...columnsOf(input), created_at: ctx.now(), created_by: work.actor_id };
  return formulas.create(ctx, work, id, async (tx) => {
    await insertFormula(tx, row, sealText(ctx, keys, codePlace(tenant_id, id), input.code));
    const deployed = { before: undefined, code: { code: input.code }, note: input.note };
    await keepVersion(ctx, work, tx, { keys, resource: codeOfFormula(id), ...deployed });
    const rest = { type: 'private', status: 'verified', modified_at: null, modified_by: null } as const;
    return recordOf({ ...row, ...rest }, input.code);
  });
};

/** @throws notFound for an unknown id and one of another tenant; forbidden for an official one. */
const checkIsOwn = async (work: Work, id: string, find = findListedFormula): Promise<void> => {
  const row = await find(work.db, id);
  if (!row) throw notFound('reactor formula');
  if (row.type === 'official') throw officialIsFixed();
};

/**
 * Replaces all of a formula of the tenant. Its reactors run the new code, and are held to the new contracts, from their next
 * invocation. Code acts with the permissions of the reactors' applications: a caller that changes it must hold all of them.
 * @throws notFound; forbidden for an official one, and for what the caller does not hold; as checkCode.
 */
export const changeFormula = async (
  ctx: CodeContext,
  work: Work,
  id: string,
  input: FormulaInput,
): Promise<FormulaRecord> => {
  if (input.type === 'official') throw officialIsFixed();
  await checkIsOwn(work, id);
  await checkFormulaCode(ctx, work, input.code);
  const { tenant_id } = work;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const fields = { ...columnsOf(input), modified_at: ctx.now(), modified_by: work.actor_id };
  return formulas.change(ctx, work, id, async (tx, row) => {
    await deploy(ctx, work, tx, { keys, row, fields, code: input.code, note: input.note });
    return recordOf({ ...row, ...fields }, input.code);
  });
};

type Deployment = {
  keys: TenantKeys;
  row: StoredFormula;
  fields: Parameters<typeof updateFormula>[2];
  code: string;
  note: string | undefined;
};

/** Writes a change of a locked formula, and keeps the version of its code. @throws forbidden for what the caller does not hold. */
const deploy = async (
  ctx: CodeContext,
  work: Work,
  tx: PrismaTransaction,
  { keys, row, fields, code, note }: Deployment,
): Promise<VersionRecord | undefined> => {
  const { id } = row;
  const before = openCode(ctx, work.tenant_id, keys, row);
  if (before !== code)
    for (const application of await findApplicationsOfFormula(tx, id)) checkGrants(work, grantsOf(ctx, application));
  await updateFormula(tx, id, fields, sealText(ctx, keys, codePlace(work.tenant_id, id), code));
  const resource = codeOfFormula(id);
  return keepVersion(ctx, work, tx, { keys, resource, before: { code: before }, code: { code }, note });
};

/** The formula whose versions are read. @throws notFound. */
export const findCodeOfFormula = async (work: Work, id: string): Promise<CodeResource> => {
  if (!(await findListedFormula(work.db, id))) throw notFound('reactor formula');
  return codeOfFormula(id);
};

/** That of a reactor, which may be the reactor's own code. @param id of the formula. @throws notFound. */
export const findReactorCode = async (work: Work, id: string): Promise<CodeResource> => {
  if (!(await findFormula(work.db, id))) throw notFound('reactor formula');
  return codeOfFormula(id);
};

/** @throws notFound; forbidden for an official formula. */
export const findOwnReactorCode = async (work: Work, id: string): Promise<CodeResource> => {
  await checkIsOwn(work, id, findFormula);
  return codeOfFormula(id);
};

/** The formula whose code is to be changed. @throws notFound; forbidden for an official one. */
export const findOwnCode = async (work: Work, id: string): Promise<CodeResource> => {
  await checkIsOwn(work, id);
  return codeOfFormula(id);
};

/**
 * Deploys the code of an earlier version, as the next one. Contracts and all else stay.
 * @throws notFound, also for an unknown version; as changeFormula.
 */
export const restoreFormula = async (
  ctx: CodeContext,
  work: Work,
  id: string,
  given: { number: number; note: string | undefined },
): Promise<VersionRecord> => restoreCode(ctx, work, await findOwnCode(work, id), given);

/** Does the same as `restoreFormula`, for code that the caller may change. */
export const restoreCode = async (
  ctx: CodeContext,
  work: Work,
  resource: CodeResource,
  { number, note }: { number: number; note: string | undefined },
): Promise<VersionRecord> => {
  const { code = '' } = (await findCodeOfVersion(ctx, work, resource, number)).code;
  await checkFormulaCode(ctx, work, code);
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const modified = { modified_at: ctx.now(), modified_by: work.actor_id };
  const restore = async (tx: PrismaTransaction, row: StoredFormula): Promise<VersionRecord> => {
    const { name, description, icon } = row;
    const isOfReactor = isCodeOfReactor(row);
    const fields = { name, description, icon, isOfReactor, ...contractsOf(row), ...modified };
    const version = await deploy(ctx, work, tx, { keys, row, fields, code, note });
    if (!version) throw notFound('version');
    return version;
  };
  return formulas.change(ctx, work, resource.resource_id, restore, CODE_RESTORED);
};

/** Removes a formula of the tenant. @throws notFound; forbidden for an official one; conflict while it has reactors. */
export const deleteFormula = async (ctx: CodeContext, work: Work, id: string): Promise<void> => {
  await checkIsOwn(work, id);
  await formulas.delete(ctx, work, id, async (tx) => {
    if (await hasReactors(tx, id)) throw failure('in_use', 'The formula has reactors. Delete them first.');
  });
};
