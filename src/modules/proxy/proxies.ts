// Stored proxies: create, read, list, change and delete. Destination, transforms and key are sealed.
// A caller cannot create a proxy with an application that has more rights than the caller.
import {
  findApplicationReferences,
  lockApplicationForUse,
  type StoredApplication,
} from '../access/rows/applications.ts';
import { resourceOf } from '../access/resource.ts';
import { countNamed, type NamedFilter } from '../access/rows/names.ts';
import {
  countProxyRows,
  deleteProxyRow,
  findProxy,
  insertProxy,
  listProxies as listProxyRows,
  lockProxy,
  PROXIES,
  replaceProxyKey,
  type StoredProxy,
  updateProxy,
} from './rows.ts';
import {
  checkFields,
  checkInput,
  checkTransforms,
  codeOf,
  currentOf,
  patchedInput,
  type ProxyInput,
  type ProxyPatch,
} from './proxy-input.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { notFound } from '../../platform/base/errors.ts';
import type { Work } from '../access/work.ts';
import { coversHosts, hostsOf } from '../../platform/egress/allowed-hosts.ts';
import { hostsNotHeld } from '../access/grants.ts';
import {
  digestOfProxyKey,
  findPreviousEnd,
  newProxyKey,
  openRoute,
  type ProxyRoute,
  sealRoute,
} from './proxy-finder.ts';
import type { AmountRule } from './amount-rule.ts';
import type { CodeRule } from './code-rule.ts';
import type { EchoMode } from '../access/echo-mode.ts';
import { mayAnywhere } from '../access/rules.ts';
import type { ReactorsContext } from '../reactors/context.ts';
import { type ClientCertificate, describeCertificate } from '../../platform/crypto/client-certificate.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { type CodeResource, deleteCodeOf } from '../code/rows/code-versions.ts';
import { CODE_RESTORED, findCodeOfVersion, keepVersion, type VersionRecord } from '../code/versions.ts';
import { isCutShort, pageTooLarge } from '../code/formulas.ts';
import { checkApplication, checkApplications, type Configuration } from '../reactors/reactors.ts';
import { TIMEOUT_SECONDS } from '../../platform/base/times.ts';
import { type Mask, maskOfCode } from './mask-transform.ts';

/** Proxies of a tenant. A revocation hashes the route of each, with its transforms and certificate, and signs it again. */
export const PROXIES_MAX = 1_000;

/** A mask is shown as what it was made of, beside its code. */
type Transform = { code: string } & Partial<{ type: 'mask'; matcher: 'regex' } & Mask>;

/** A proxy in a response. Undefined attributes are left out. */
export type ProxyRecord = {
  id: string;
  tenant_id: string;
  /** Only for callers who may read proxies. */
  key: string | undefined;
  /** While the replaced key lives. */
  previous_key_ends_at: string | undefined;
  name: string;
  destination_url: string;
  require_auth: boolean;
  expressions: 'on' | 'off';
  timeout_seconds: number;
  echo_guard: EchoMode | undefined;
  cvc: CodeRule | undefined;
  amount: AmountRule | undefined;
  idempotency_header: string | undefined;
  request_transform: Transform | undefined;
  response_transform: Transform | undefined;
  application_id: string | undefined;
  /** Null if none was set. */
  configuration: Configuration | null;
  allowed_hosts: string[] | undefined;
  client_certificate: { certificate: string; fingerprint_sha256: string; expires_at: string } | undefined;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

const transformOf = (code: string | undefined): Transform | undefined => {
  if (code === undefined) return undefined;
  const mask = maskOfCode(code);
  return mask ? { type: 'mask', matcher: 'regex', ...mask, code } : { code };
};

const shownCertificate = ({ certificate }: ClientCertificate): ProxyRecord['client_certificate'] => {
  const { fingerprint_sha256, expires_at } = describeCertificate(certificate);
  return { certificate, fingerprint_sha256, expires_at: expires_at.toISOString() };
};

/** @param isKeyShown The key alone gives the use of a proxy that requires no API key. */
const recordOf = (
  { now }: Pick<ReactorsContext, 'now'>,
  work: Work,
  row: Omit<StoredProxy, 'sealed'>,
  route: ProxyRoute,
  isKeyShown = mayAnywhere(work, 'proxy:read'),
): ProxyRecord => {
  if (isKeyShown) work.record?.showsProxyKey(route.key);
  return {
    id: row.id,
    tenant_id: work.tenant_id,
    key: isKeyShown ? route.key : undefined,
    previous_key_ends_at: findPreviousEnd(route, now())?.toISOString(),
    name: row.name,
    destination_url: route.destination_url,
    require_auth: row.require_auth,
    expressions: route.expressions,
    timeout_seconds: route.timeout_seconds ?? TIMEOUT_SECONDS.usual,
    echo_guard: route.echo_guard,
    cvc: route.cvc,
    amount: route.amount,
    idempotency_header: route.idempotency_header,
    request_transform: transformOf(route.request_transform),
    response_transform: transformOf(route.response_transform),
    application_id: row.application_id ?? undefined,
    configuration: route.configuration,
    allowed_hosts: hostsOf(row.allowed_hosts),
    client_certificate: route.client_certificate && shownCertificate(route.client_certificate),
    created_by: row.created_by ?? undefined,
    created_at: row.created_at.toISOString(),
    modified_by: row.modified_by ?? undefined,
    modified_at: row.modified_at?.toISOString(),
  };
};

const codeOfProxy = (resource_id: string): CodeResource => ({ resource_type: 'proxy', resource_id });

const columnsOf = ({ name, require_auth, allowed_hosts }: ProxyInput, application: StoredApplication | undefined) => ({
  name,
  require_auth,
  allowed_hosts: allowed_hosts ?? [],
  application_id: application?.id ?? null,
});

const showProxies = async (ctx: ReactorsContext, work: Work, rows: readonly StoredProxy[]): Promise<ProxyRecord[]> => {
  const { tenant_id } = work;
  if (rows.some(isCutShort)) throw pageTooLarge('proxies');
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const applications = await findApplicationReferences(
    work.db,
    rows.map(({ application_id }) => application_id),
  );
  return rows.map((row) => {
    const application_id = applications.get(row.application_id ?? '')?.id ?? null;
    return recordOf(ctx, work, { ...row, application_id }, openRoute(ctx, tenant_id, keys, row.id, row.sealed));
  });
};

const proxies = resourceOf<ReactorsContext, StoredProxy, NamedFilter, ProxyRecord>({
  entity_type: 'proxy',
  noun: 'proxy',
  find: findProxy,
  count: (db, filter) => countNamed(db, PROXIES, filter),
  list: listProxyRows,
  lock: lockProxy,
  remove: async (tx, id) => {
    await deleteProxyRow(tx, id);
    await deleteCodeOf(tx, codeOfProxy(id));
  },
  show: showProxies,
  changeOf: ({ tenant_id }) => ({ subject: 'runnable', id: tenant_id }),
  limit: { plural: 'proxies', max: PROXIES_MAX, count: countProxyRows },
});

/** Reads a proxy. @throws notFound, the same for an unknown and another tenant's id. */
export const getProxy = proxies.read;

/** A page, newest first. */
export const listProxies = proxies.list;

/** Deletes a proxy and its key. @throws notFound. */
export const deleteProxy = proxies.delete;

/**
 * Creates a proxy and its key.
 * @throws invalidInput; unprocessable for a transform that does not compile; notFound for an unknown application, or another
 * tenant's; forbidden for an application with rights that the caller lacks.
 */
export const createProxy = async (ctx: ReactorsContext, work: Work, input: ProxyInput): Promise<ProxyRecord> => {
  const { application_id } = input;
  const checked = await checkInput(ctx, work, input);
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const { key, digest } = newProxyKey(ctx);
  const route = { ...checked, key, client_certificate: checked.client_certificate ?? undefined };
  const id = ctx.newUuid();
  const made = { id, created_at: ctx.now(), created_by: work.actor_id };
  return proxies.create(ctx, work, id, async (tx) => {
    const application = await lockApplicationForUse(tx, application_id);
    checkApplication(ctx, work, application_id, application);
    const row = { ...made, ...columnsOf(input, application) };
    await insertProxy(tx, row, sealRoute(ctx, work.tenant_id, keys, id, route), digest);
    const deployed = { before: undefined, code: codeOf(route), note: input.note };
    await keepVersion(ctx, work, tx, { keys, resource: codeOfProxy(id), ...deployed });
    return recordOf(ctx, work, { ...row, modified_at: null, modified_by: null }, route);
  });
};

/**
 * Changes a proxy. The key stays, and so does the client certificate if the request does not have one. The change decides
 * what happens with the rights of the proxy's application, so the caller must hold all rights of the application that the
 * proxy had, and of the one that it gets.
 * @throws notFound; as createProxy.
 */
export const changeProxy = async (
  ctx: ReactorsContext,
  work: Work,
  id: string,
  input: ProxyInput,
): Promise<ProxyRecord> => {
  await checkInput(ctx, work, input);
  return replaceProxy(ctx, work, id, () => input);
};

/** Changes what the patch names; the rest stays. @throws as changeProxy. */
export const patchProxy = async (
  ctx: ReactorsContext,
  work: Work,
  id: string,
  patch: ProxyPatch,
): Promise<ProxyRecord> => {
  const { request_transform, response_transform } = patch;
  const code = codeOf({
    request_transform: request_transform ?? undefined,
    response_transform: response_transform ?? undefined,
  });
  // Checked before the proxy is locked: the check runs it. Code that stays was checked already.
  await checkTransforms(ctx, work, code);
  return replaceProxy(ctx, work, id, (current) => patchedInput(current, patch));
};

/** @param inputOf called with the state of the locked proxy. Its code is checked. */
const replaceProxy = async (
  ctx: ReactorsContext,
  work: Work,
  id: string,
  inputOf: (current: ProxyInput) => ProxyInput,
): Promise<ProxyRecord> => {
  const { tenant_id } = work;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const modified = { modified_at: ctx.now(), modified_by: work.actor_id };
  return proxies.change(ctx, work, id, async (tx, stored) => {
    const before = await lockApplicationForUse(tx, stored.application_id);
    const kept = openRoute(ctx, tenant_id, keys, id, stored.sealed);
    const input = inputOf(currentOf(stored, kept, before?.id));
    const { application_id } = input;
    const after = await lockApplicationForUse(tx, application_id);
    checkApplications(ctx, work, application_id, { before, after });
    const checked = checkFields(ctx, work, input);
    const certificate = checked.client_certificate;
    const client_certificate = certificate === undefined ? kept.client_certificate : (certificate ?? undefined);
    const route = { ...checked, key: kept.key, previous_key: kept.previous_key, client_certificate };
    const row = { ...columnsOf(input, after), ...modified };
    await updateProxy(tx, id, row, sealRoute(ctx, tenant_id, keys, id, route));
    const deployed = { before: codeOf(kept), code: codeOf(route), note: input.note };
    await keepVersion(ctx, work, tx, { keys, resource: codeOfProxy(id), ...deployed });
    return recordOf(ctx, work, { ...stored, ...row }, route);
  });
};

/** A locked proxy whose route is changed, but not its application. @throws forbidden for rights of it that the caller lacks. */
const openLocked = async (
  ctx: ReactorsContext,
  work: Work,
  tx: PrismaTransaction,
  keys: TenantKeys,
  stored: StoredProxy,
) => {
  const application = await lockApplicationForUse(tx, stored.application_id);
  checkApplications(ctx, work, application?.id, { before: application, after: application });
  return { application, kept: openRoute(ctx, work.tenant_id, keys, stored.id, stored.sealed) };
};

/**
 * Replaces the key. The replaced one ends at once or after the grace period, and one that was replaced before ends at once.
 * The new key of an open proxy gives the rights of its application, so the caller must hold all of them.
 * @returns the proxy with the new key, whatever the caller may read. @throws notFound; forbidden.
 */
export const rotateProxyKey = async (
  ctx: ReactorsContext,
  work: Work,
  id: string,
  { grace_seconds }: { grace_seconds: number },
): Promise<ProxyRecord> => {
  const { tenant_id } = work;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const { key, digest } = newProxyKey(ctx);
  const now = ctx.now();
  const modified = { modified_at: now, modified_by: work.actor_id };
  const rotate = async (tx: PrismaTransaction, stored: StoredProxy): Promise<ProxyRecord> => {
    const { application, kept } = await openLocked(ctx, work, tx, keys, stored);
    const replaced = grace_seconds > 0 ? digestOfProxyKey(ctx, kept.key) : undefined;
    const ends_at = new Date(now.getTime() + grace_seconds * 1000).toISOString();
    const previous_key = replaced && { digest: replaced.toString('base64'), ends_at };
    const route = { ...kept, key, previous_key };
    await replaceProxyKey(tx, id, digest, replaced);
    await updateProxy(tx, id, modified, sealRoute(ctx, tenant_id, keys, id, route));
    const row = { ...stored, ...modified, application_id: application?.id ?? null };
    return recordOf(ctx, work, row, route, true);
  };
  return proxies.change(ctx, work, id, rotate, 'Proxy key rotated');
};

/** The proxy whose transforms have versions. @throws notFound. */
export const findCodeOfProxy = async (work: Work, id: string): Promise<CodeResource> => {
  if (!(await findProxy(work.db, id))) throw notFound('proxy');
  return codeOfProxy(id);
};

/**
 * Deploys the transforms of an earlier version, as the next one. All else of the proxy stays.
 * @throws notFound, also for an unknown version; forbidden for hosts beyond the caller's, and for rights that the caller lacks; as
 * checkCode.
 */
export const restoreProxy = async (
  ctx: ReactorsContext,
  work: Work,
  id: string,
  { number, note }: { number: number; note: string | undefined },
): Promise<VersionRecord> => {
  const { tenant_id } = work;
  const resource = await findCodeOfProxy(work, id);
  const { code } = await findCodeOfVersion(ctx, work, resource, number);
  await checkTransforms(ctx, work, code);
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const restore = async (tx: PrismaTransaction, stored: StoredProxy): Promise<VersionRecord> => {
    if (!coversHosts(work.caller.allowed_hosts, hostsOf(stored.allowed_hosts))) throw hostsNotHeld('proxy');
    const { kept } = await openLocked(ctx, work, tx, keys, stored);
    const { request_transform, response_transform } = code;
    const route = { ...kept, request_transform, response_transform };
    const modified = { modified_at: ctx.now(), modified_by: work.actor_id };
    await updateProxy(tx, id, modified, sealRoute(ctx, tenant_id, keys, id, route));
    const version = await keepVersion(ctx, work, tx, { keys, resource, before: codeOf(kept), code, note });
    if (!version) throw notFound('version');
    return version;
  };
  return proxies.change(ctx, work, id, restore, CODE_RESTORED);
};
