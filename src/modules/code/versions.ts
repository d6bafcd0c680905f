// Versions of code: each deploy of a formula or of transforms is kept. Drafts are code that a caller has saved and not deployed.
import { DRAFT_DELETED, DRAFT_SAVED, logRow, type Operation } from '../../platform/db/audit-record.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { openText, type SealedPlace, sealText } from '../../platform/keys/sealed-text.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { notFound } from '../../platform/base/errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../../platform/base/pagination.ts';
import { checkRoom } from '../access/resource.ts';
import type { Work } from '../access/work.ts';
import type { CodeContext } from './context.ts';
import {
  type CodeResource,
  countDrafts,
  countVersions,
  deleteDraftRow,
  findDraft,
  findDraftId,
  findLastVersion,
  findVersion,
  insertVersion,
  listVersionRows,
  putDraft,
  type StoredVersion,
} from './rows/code-versions.ts';

/** Drafts of a tenant: with the code at its limit they take 200 MB. */
export const DRAFTS_MAX = 1_000;

/** Code by its property: `code` of a formula; `request_transform` and `response_transform` of a proxy, where it has them. */
export type Code = Readonly<Record<string, string>>;

/** A version on the wire, without its code. Undefined properties are left out. */
export type VersionRecord = {
  number: number;
  note: string | undefined;
  created_by: string | undefined;
  created_at: string;
};

const VERSIONS_READ = 'Versions of code retrieved';
const DRAFT_READ = 'Draft of code retrieved';
/** The message of a change that deploys an earlier version. */
export const CODE_RESTORED = 'Version of code restored';

const versionPlace = (tenant_id: string, id: string): SealedPlace => ({
  tenant_id,
  record: 'code_version',
  id,
  field: 'code',
});

const draftPlace = (tenant_id: string, id: string): SealedPlace => ({
  tenant_id,
  record: 'code_draft',
  id,
  field: 'code',
});

const recordOf = ({ number, note, created_at, created_by }: StoredVersion): VersionRecord => ({
  number,
  note: note ?? undefined,
  created_by: created_by ?? undefined,
  created_at: created_at.toISOString(),
});

const logOf = (ctx: CodeContext, work: Work, { resource_type, resource_id }: CodeResource, message: string) => {
  const operation: Operation = message === DRAFT_SAVED || message === DRAFT_DELETED ? 'update' : 'read';
  return logRow(ctx, work, { operation, entity_type: resource_type, entity_ids: [resource_id], message });
};

export const isSameCode = (one: Code, other: Code): boolean => {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...names].every((name) => one[name] === other[name]);
};

/**
 * Keeps code that is deployed in this transaction. Code that did not change is no new version.
 * @param before what was deployed, of the locked row; undefined for a new resource.
 * @returns the version that is deployed now; undefined for a resource that never had code.
 */
export const keepVersion = async (
  ctx: CodeContext,
  work: Work,
  tx: PrismaTransaction,
  {
    keys,
    resource,
    ...deployed
  }: {
    keys: TenantKeys;
    resource: CodeResource;
    before: Code | undefined;
    code: Code;
    note: string | undefined;
  },
): Promise<VersionRecord | undefined> => {
  const { before = {}, code, note } = deployed;
  if (isSameCode(before, code)) {
    if (note !== undefined) work.warn('The code did not change: there is no new version, and the note was not kept.');
    const last = await findLastVersion(tx, resource);
    return last && recordOf(last);
  }
  const { tenant_id } = tx;
  const id = ctx.newUuid();
  const version = { id, ...resource, note: note ?? null, created_at: ctx.now(), created_by: work.actor_id };
  const sealed = sealText(ctx, keys, versionPlace(tenant_id, id), JSON.stringify(code));
  return recordOf(await insertVersion(tx, version, sealed));
};

/** A page, newest first. */
export const listVersions = async (
  ctx: CodeContext,
  work: Work,
  resource: CodeResource,
  page: PageRequest,
): Promise<Page<VersionRecord>> => {
  const { pagination, rows } = await readPage(page, {
    page: countThenList(
      () => countVersions(work.db, resource),
      (offset, limit) => listVersionRows(work.db, resource, offset, limit),
    ),
  });
  await work.log([logOf(ctx, work, resource, VERSIONS_READ)]);
  return { pagination, data: rows.map(recordOf) };
};

/** @throws notFound for a version that never was, and for one that was deleted; internal. */
export const findCodeOfVersion = async (
  ctx: CodeContext,
  { db, tenant_id }: Work,
  resource: CodeResource,
  number: number,
): Promise<{ version: VersionRecord; code: Code }> => {
  const row = await findVersion(db, resource, number);
  if (!row) throw notFound('version');
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const code = JSON.parse(openText(ctx, keys, versionPlace(tenant_id, row.id), row.sealed)) as Code;
  return { version: recordOf(row), code };
};

/** Finds code like `findCodeOfVersion`, and writes a row of the log. */
export const getVersion = async (
  ctx: CodeContext,
  work: Work,
  resource: CodeResource,
  number: number,
): Promise<{ version: VersionRecord; code: Code }> => {
  const found = await findCodeOfVersion(ctx, work, resource, number);
  await work.log([logOf(ctx, work, resource, VERSIONS_READ)]);
  return found;
};

export type Draft = { code: Code; modified_at: string };

/** The caller's own draft. @throws notFound; internal. */
export const getDraft = async (ctx: CodeContext, work: Work, resource: CodeResource): Promise<Draft> => {
  const { tenant_id } = work;
  const row = await findDraft(work.db, resource, work.actor_id);
  if (!row) throw notFound('draft');
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const code = JSON.parse(openText(ctx, keys, draftPlace(tenant_id, row.id), row.sealed)) as Code;
  await work.log([logOf(ctx, work, resource, DRAFT_READ)]);
  return { code, modified_at: row.modified_at.toISOString() };
};

/** Adds or replaces the caller's own draft. Its code is not compiled. @throws conflict where the tenant has DRAFTS_MAX. */
export const saveDraft = async (ctx: CodeContext, work: Work, resource: CodeResource, code: Code): Promise<Draft> => {
  const { tenant_id, actor_id: owner_id } = work;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  return work.prismaTransaction(async (tx) => {
    await tx.signing.holds('tenants');
    const known = await findDraftId(tx, resource, owner_id);
    if (known === undefined) await checkRoom(tx, { plural: 'drafts', max: DRAFTS_MAX, count: countDrafts });
    const id = known ?? ctx.newUuid();
    const modified_at = ctx.now();
    const sealed = sealText(ctx, keys, draftPlace(tenant_id, id), JSON.stringify(code));
    await putDraft(tx, { id, ...resource, owner_id, modified_at }, sealed);
    tx.log(logOf(ctx, work, resource, DRAFT_SAVED));
    return { code, modified_at: modified_at.toISOString() };
  });
};

/** @throws notFound. */
export const deleteDraft = (ctx: CodeContext, work: Work, resource: CodeResource): Promise<void> =>
  work.prismaTransaction(async (tx) => {
    if (!(await deleteDraftRow(tx, resource, work.actor_id))) throw notFound('draft');
    tx.log(logOf(ctx, work, resource, DRAFT_DELETED));
  });
