// Versions of the transforms of stored proxies: finds them, and deploys an earlier one.
import { lockApplicationForUse } from '../access/rows/applications.ts';
import { hostsNotHeld } from '../access/grants.ts';
import type { Work } from '../access/work.ts';
import type { CodeResource } from '../code/rows/code-versions.ts';
import { CODE_RESTORED, findCodeOfVersion, keepVersion, type VersionRecord } from '../code/versions.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { coversHosts, hostsOf } from '../../platform/egress/allowed-hosts.ts';
import { notFound } from '../../platform/base/errors.ts';
import type { ReactorsContext } from '../reactors/context.ts';
import { checkApplications } from '../reactors/reactors.ts';
import { changeLockedProxy, checkTransforms, codeOf, codeOfProxy } from './proxies.ts';
import { openRoute, sealRoute } from './proxy-finder.ts';
import { findProxy, type StoredProxy, updateProxy } from './rows.ts';

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
    const application = await lockApplicationForUse(tx, stored.application_id);
    checkApplications(ctx, work, application?.id, { before: application, after: application });
    const kept = openRoute(ctx, tenant_id, keys, id, stored.sealed);
    const { request_transform, response_transform } = code;
    const route = { ...kept, request_transform, response_transform };
    const modified = { modified_at: ctx.now(), modified_by: work.actor_id };
    await updateProxy(tx, id, modified, sealRoute(ctx, tenant_id, keys, id, route));
    const version = await keepVersion(ctx, work, tx, { keys, resource, before: codeOf(kept), code, note });
    if (!version) throw notFound('version');
    return version;
  };
  return changeLockedProxy(ctx, work, id, restore, CODE_RESTORED);
};
