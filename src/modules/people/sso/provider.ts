// The OpenID Connect provider of a tenant: its settings, sealed as a whole. An administrator changes them in the console.
import { type Actor, SSO_CHANGED, SSO_REMOVED } from '../../../platform/db/audit-record.ts';
import { memoryDigest } from '../../../platform/crypto/digest.ts';
import { openText, sealText, type SealedPlace, type Sealing } from '../../../platform/keys/sealed-text.ts';
import { type PrismaTransaction, runPrismaTransaction } from '../../../platform/db/transaction.ts';
import { EgressFault } from '../../../platform/base/egress-fault.ts';
import { fieldErrors, invalidInput, notFound } from '../../../platform/base/errors.ts';
import type { Platform } from '../../../platform/services/platform.ts';
import type { AccessContext } from '../../access/context.ts';
import { type GivenRole, givenRoles } from '../roles.ts';
import { lockTenant } from '../rows/people.ts';
import {
  deleteIdentities,
  deleteProvider,
  deleteSessionStates,
  findProvider,
  lockProvider,
  putProvider,
} from '../rows/sso.ts';
import { findTenantOfAddress, tenantLog } from './domains.ts';

/** Length of an issuer, a client id and a client secret. Providers use less than half of it. */
export const SETTING_LENGTH_MAX = 500;

export type SsoSettings = {
  issuer: string;
  client_id: string;
  client_secret: string;
  /** Role of people who sign in for the first time; null: only members sign in. */
  default_role: GivenRole | null;
  /** Whether the provider asks for a second factor, so that the vault need not. */
  trusts_second_factor: boolean;
  /** Whether members with an address of a bound domain may sign in to this tenant by a password too. */
  allows_passwords: boolean;
};

/** `version` changes with the settings. */
export type Provider = { settings: SsoSettings; version: string };

type Opening = Sealing & Pick<Platform, 'db' | 'keyring'>;

const placeOf = (tenant_id: string): SealedPlace => ({
  tenant_id,
  record: 'sso_provider',
  id: tenant_id,
  field: 'settings',
});

/** @returns undefined for a tenant without one, and where the row was changed or put back. */
export const findProviderOf = async (ctx: Opening, tenant_id: string): Promise<Provider | undefined> => {
  const sealed = await findProvider(ctx.db.for({ tenant_id }));
  if (!sealed) return undefined;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const text = openText(ctx, keys, placeOf(tenant_id), sealed);
  return { settings: JSON.parse(text) as SsoSettings, version: memoryDigest(`${tenant_id} ${text}`) };
};

/** The provider that signs in the people of an address, and its tenant. @param address a result of parseAddress. */
export const findProviderOfAddress = async (
  ctx: Opening,
  address: string,
): Promise<{ tenant_id: string; provider: Provider } | undefined> => {
  const tenant_id = await findTenantOfAddress(ctx, address);
  const provider = tenant_id === undefined ? undefined : await findProviderOf(ctx, tenant_id);
  return tenant_id !== undefined && provider ? { tenant_id, provider } : undefined;
};

/**
 * The tenant that does not let a person in by a password: the one that their domain is bound to, if its settings say so. Undefined for
 * none. No tenant decides for another one.
 */
export const findTenantWithoutPasswords = async (ctx: Opening, address: string): Promise<string | undefined> => {
  const found = await findProviderOfAddress(ctx, address);
  return found?.provider.settings.allows_passwords === false ? found.tenant_id : undefined;
};

/** Settings as the form of the console sends them. An empty secret keeps the one that is stored. */
export type SettingsInput = Record<'issuer' | 'client_id' | 'client_secret' | 'default_role', string> &
  Pick<SsoSettings, 'trusts_second_factor' | 'allows_passwords'>;

const isGivenRole = (text: string): text is GivenRole => (givenRoles as readonly string[]).includes(text);

const issuerProblem = (ctx: Pick<Platform, 'egress'>, issuer: string): string | undefined => {
  const url = issuer.length <= SETTING_LENGTH_MAX ? URL.parse(issuer) : null;
  if (!url || url.search !== '' || url.hash !== '' || issuer.includes('?') || issuer.includes('#'))
    return `must be a URL without a query, of at most ${SETTING_LENGTH_MAX} characters`;
  try {
    ctx.egress.check(issuer);
    return undefined;
  } catch (error) {
    if (error instanceof EgressFault) return `cannot be used. ${error.message}`;
    throw error;
  }
};

const textProblem = (text: string): string | undefined =>
  text.length > 0 && text.length <= SETTING_LENGTH_MAX && !/[\p{C}\s]/u.test(text)
    ? undefined
    : `must have 1 to ${SETTING_LENGTH_MAX} visible characters`;

/** @throws invalidInput with all problems. */
const parseSettings = (
  ctx: Pick<Platform, 'egress'>,
  input: SettingsInput,
  { before, hasSignedInBySso }: { before: SsoSettings | undefined; hasSignedInBySso: boolean },
): SsoSettings => {
  const { issuer, client_id, default_role, trusts_second_factor, allows_passwords } = input;
  const isSame = before?.issuer === issuer && before.client_id === client_id;
  const client_secret = input.client_secret === '' && isSame ? before.client_secret : input.client_secret;
  const problems: [string, string | undefined][] = [
    ['issuer', issuerProblem(ctx, issuer)],
    ['client_id', textProblem(client_id)],
    // Otherwise an administrator could have a secret that they do not know sent to a server of their own.
    ['client_secret', textProblem(client_secret) && 'must be given with another issuer or client id'],
    [
      'default_role',
      default_role === '' || isGivenRole(default_role) ? undefined : 'must be a role that members are given',
    ],
    // Otherwise a wrong setting would lock everyone out.
    [
      'allows_passwords',
      allows_passwords || (isSame && hasSignedInBySso)
        ? undefined
        : 'can be turned off by a member who is signed in by single sign-on, while issuer and client id stay',
    ],
  ];
  const found = problems.filter((entry): entry is [string, string] => entry[1] !== undefined);
  if (found.length > 0) throw invalidInput(fieldErrors(found));
  return {
    issuer,
    client_id,
    client_secret,
    default_role: isGivenRole(default_role) ? default_role : null,
    trusts_second_factor,
    allows_passwords,
  };
};

type Changing = Opening & Pick<AccessContext, 'changes' | 'egress' | 'newLogId' | 'now'>;

/** Accounts at an earlier provider sign no one in, and their sessions end. */
const forgetAccounts = async (tx: PrismaTransaction): Promise<void> => {
  await deleteIdentities(tx);
  await deleteSessionStates(tx);
};

/** @throws invalidInput; notFound for a deleted tenant. */
export const saveSettings = async (
  ctx: Changing,
  { tenant_id, actor, hasSignedInBySso }: { tenant_id: string; actor: Actor; hasSignedInBySso: boolean },
  input: SettingsInput,
): Promise<void> => {
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  await runPrismaTransaction(ctx.db.for({ tenant_id }), ctx.changes, undefined, async (tx) => {
    if (!(await lockTenant(tx))) throw notFound('tenant');
    const sealed = await lockProvider(tx);
    const before = sealed && (JSON.parse(openText(ctx, keys, placeOf(tenant_id), sealed)) as SsoSettings);
    const settings = parseSettings(ctx, input, { before, hasSignedInBySso });
    await putProvider(tx, {
      sealed: sealText(ctx, keys, placeOf(tenant_id), JSON.stringify(settings)),
      modified_at: ctx.now(),
    });
    // Without settings there are no accounts, unless the settings were changed in the database.
    if (before?.issuer !== settings.issuer || before.client_id !== settings.client_id) await forgetAccounts(tx);
    tx.log(tenantLog(ctx, actor, tenant_id, SSO_CHANGED));
    tx.changed({ subject: 'tenant', id: tenant_id });
  });
};

/** Removes the provider. Its domains stay bound; passwords work for every member again. @returns whether there was one. */
export const removeProvider = async (
  ctx: Pick<Changing, 'changes' | 'db' | 'newLogId' | 'now'>,
  tenant_id: string,
  actor: Actor,
): Promise<boolean> =>
  runPrismaTransaction(ctx.db.for({ tenant_id }), ctx.changes, undefined, async (tx) => {
    if (!(await lockTenant(tx)) || !(await deleteProvider(tx))) return false;
    await forgetAccounts(tx);
    tx.log(tenantLog(ctx, actor, tenant_id, SSO_REMOVED));
    tx.changed({ subject: 'tenant', id: tenant_id });
    return true;
  });
