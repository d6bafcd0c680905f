// The e-mail domains whose people a tenant signs in by its own provider. Only the operator binds them.
import { operatorTransaction } from '../../access/work.ts';
import { findTenants } from '../../access/rows/tenants.ts';
import {
  type Actor,
  type LogRow,
  logRow,
  operator,
  SSO_DOMAIN_BOUND,
  SSO_DOMAIN_UNBOUND,
} from '../../../platform/db/audit-record.ts';
import { asciiMailDomain } from '../../../platform/base/host-names.ts';
import type { Platform } from '../../../platform/services/platform.ts';
import { StartError } from '../../../platform/base/errors.ts';
import { comparedAddress, parseAddress } from '../address.ts';
import type { AccessContext } from '../../access/context.ts';
import { lockTenant } from '../rows/people.ts';
import {
  deleteDomain,
  findDomainBeforeCaller,
  insertDomain,
  listAllDomains,
  listDomainsOfTenant,
  type StoredDomain,
} from '../rows/sso.ts';
import { PROGRAM } from '../../../platform/base/program.ts';

type Finding = Pick<Platform, 'db'>;

/** @param address a result of parseAddress. */
const domainOfAddress = (address: string): string => {
  const compared = comparedAddress(address);
  return compared.slice(compared.lastIndexOf('@') + 1);
};

/** The tenant whose provider signs in the people of an address; undefined for none. */
export const findTenantOfAddress = async (ctx: Finding, address: string): Promise<string | undefined> => {
  const row = await findDomainBeforeCaller(ctx.db, domainOfAddress(address));
  return row?.isGenuine ? row.tenant_id : undefined;
};

/** Whether the operator has bound the domain of an address to a tenant. */
export const isDomainOf = async (ctx: Finding, tenant_id: string, address: string): Promise<boolean> =>
  (await findTenantOfAddress(ctx, address)) === tenant_id;

export const listDomains = async (ctx: Finding, tenant_id: string): Promise<string[]> =>
  (await listDomainsOfTenant(ctx.db.for({ tenant_id })))
    .filter(({ isGenuine }) => isGenuine)
    .map(({ domain }) => domain);

/** @throws StartError for a text that is not a domain. */
const parseDomain = (text: string): string => {
  const domain = asciiMailDomain(text.trim());
  if (domain === undefined || parseAddress(`a@${domain}`) === undefined || domain.startsWith('['))
    throw new StartError('The domain is not valid. Give what follows the @ in addresses, such as example.com');
  return domain;
};

/** The log row of a change to the single sign-on of a tenant. */
export const tenantLog = (
  ctx: Pick<Platform, 'newLogId' | 'now'>,
  actor: Actor,
  tenant_id: string,
  message: string,
): LogRow => logRow(ctx, actor, { operation: 'update', entity_type: 'tenant', entity_ids: [tenant_id], message });

/** Binds a domain to a tenant, for the operator, who has checked whose it is. @throws StartError. */
export const bindDomain = async (ctx: AccessContext, tenant: string, text: string): Promise<string> => {
  const domain = parseDomain(text);
  const [found] = await findTenants(ctx.db, tenant);
  if (!found) throw new StartError(`There is no such tenant: ${tenant}.`);
  const tenant_id = found.id;
  const bound = await operatorTransaction(ctx, tenant_id, async (tx) => {
    if (!(await lockTenant(tx))) throw new StartError(`There is no such tenant: ${tenant}.`);
    if (!(await insertDomain(tx, { domain, created_at: ctx.now() }))) return false;
    tx.log(tenantLog(ctx, operator, tenant_id, SSO_DOMAIN_BOUND));
    return true;
  });
  if (bound) return domain;
  const other = await findDomainBeforeCaller(ctx.db, domain);
  if (other?.tenant_id === tenant_id && other.isGenuine) return domain;
  throw new StartError(
    `The domain is bound to tenant ${other?.tenant_id ?? ''} already. Remove that first: ${PROGRAM} sso unbind ${domain}`,
  );
};

/** @throws StartError where the domain is bound to no tenant. */
export const unbindDomain = async (ctx: AccessContext, text: string): Promise<string> => {
  const domain = parseDomain(text);
  const row = await findDomainBeforeCaller(ctx.db, domain);
  const isGone =
    row &&
    (await operatorTransaction(ctx, row.tenant_id, async (tx) => {
      if (!(await deleteDomain(tx, domain))) return false;
      tx.log(tenantLog(ctx, operator, row.tenant_id, SSO_DOMAIN_UNBOUND));
      return true;
    }));
  if (!isGone) throw new StartError('The domain is bound to no tenant: nothing was changed.');
  return domain;
};

/** For the operator. */
export const listBoundDomains = (ctx: Finding): Promise<StoredDomain[]> => listAllDomains(ctx.db);
