// Tenants, first keys and first people: made by the operator's command line or a development start, never over the open API
// (decisions.md section 3).
import { logRow, operator } from '../audit/record.ts';
import { consoleUrlOf } from '../config.ts';
import type { Context } from '../context.ts';
import { Sensitive } from '../crypto/sensitive.ts';
import type { InvitationRefusal } from '../db/invitations.ts';
import { AppError, StartError } from '../errors.ts';
import { parseNewAddress } from '../people/address.ts';
import { invitationLink } from '../people/invitation-mail.ts';
import { draftInvitation, mailOfDraft, PEOPLE_MAX } from '../people/invitations.ts';
import { describeApiKey, newApiKey, type NewApiKey } from './api-keys.ts';
import { isPermission, type Permission, permissions as allPermissions } from './permissions.ts';
import { accessRuleSchema } from './rules.ts';
import { NAME_LENGTH_MAX, nameSchema } from './tenants.ts';

export type NewTenantOptions = {
  name: string;
  /** Narrower than every permission. */
  permissions?: readonly Permission[] | undefined;
  /** Access rules as they come from outside; parsed here. */
  rules?: unknown;
  applicationName?: string | undefined;
  /** A ready-made key instead of a drawn one. */
  apiKey?: string | undefined;
  /** Only into a vault without any tenant. */
  onlyFirst?: boolean | undefined;
  /** Who is invited to be its owner. */
  ownerEmail?: string | undefined;
};

export type MadeApplication = { tenant_id: string; application_id: string; api_key: Sensitive<string> };

/** A link for an owner. `isMailed`: it goes to them by mail as well. */
export type OwnerLink = { link: Sensitive<string>; isMailed: boolean };

export type MadeTenant = MadeApplication & { owner?: OwnerLink };

const checkName = (name: string): string => {
  if (!nameSchema.safeParse(name).success) throw new StartError(`A name has 1 to ${NAME_LENGTH_MAX} characters.`);
  return name;
};

const checkEmail = (email: string): void => {
  if (parseNewAddress(email) === undefined)
    throw new StartError('The e-mail address must be one address, without a name beside it: ada@example.com');
};

/** @param text a comma-separated list. @throws StartError naming what is not a permission. */
export const parsePermissions = (text: string): Permission[] => {
  const names = text
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean);
  const unknown = names.filter((name) => !isPermission(name));
  if (names.length === 0 || unknown.length > 0)
    throw new StartError(`These are not permissions: ${unknown.join(', ')}. Known: ${allPermissions.join(', ')}`);
  return names.filter(isPermission);
};

const parseRules = (rules: unknown): unknown[] => {
  const parsed = accessRuleSchema.array().safeParse(rules ?? []);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  throw new StartError(`The access rules are not valid: ${problems.join('; ')}`);
};

const operatorLog = (ctx: Context, entity_type: string, entity_id: string) =>
  logRow(ctx, operator, { operation: 'create', entity_type, entity_ids: [entity_id] });

const applicationRow = (ctx: Context, options: NewTenantOptions) => ({
  id: ctx.newUuid(),
  name: checkName(options.applicationName ?? 'First application'),
  type: 'private',
  permissions: [...(options.permissions ?? (options.rules === undefined ? allPermissions : []))],
  rules: parseRules(options.rules),
});

const apiKeyOf = (ctx: Context, options: NewTenantOptions): NewApiKey =>
  options.apiKey === undefined ? newApiKey(ctx) : describeApiKey(ctx, options.apiKey);

/**
 * Makes a tenant with its keys, one application and that application's API key, in one transaction; and then, where one is
 * named, an invitation for its owner.
 * @returns the key in a Sensitive, to be shown once; undefined when `onlyFirst` found a tenant already there.
 * @throws StartError for a name, permission, rule, ready-made key or address that is not valid.
 */
export const createTenant = async (ctx: Context, options: NewTenantOptions): Promise<MadeTenant | undefined> => {
  const { ownerEmail } = options;
  if (ownerEmail !== undefined) checkEmail(ownerEmail);
  const tenant = { id: ctx.newUuid(), name: checkName(options.name) };
  const application = applicationRow(ctx, options);
  const apiKey = apiKeyOf(ctx, options);
  const keys = await ctx.keyring.newTenantKeys(tenant.id);
  const logs = [operatorLog(ctx, 'tenant', tenant.id), operatorLog(ctx, 'application', application.id)];
  const added = await ctx.db.addTenant({ tenant, keys, application, apiKey, logs }, options.onlyFirst ?? false);
  if (!added) return undefined;
  const made = { tenant_id: tenant.id, application_id: application.id, api_key: apiKey.key };
  return ownerEmail === undefined ? made : { ...made, owner: await inviteOwner(ctx, tenant.id, ownerEmail) };
};

const refusalOf: Record<InvitationRefusal, string> = {
  tenant_gone: 'There is no such tenant. List them: npm run -s strongroom -- tenants list',
  inviter_gone: 'Whoever invites is no member any more.',
  owned: 'The tenant has an owner already.',
  full: `The tenant has ${PEOPLE_MAX} members and invitations: delete some first.`,
  member: 'The address belongs to a member of the tenant already.',
};

/**
 * Invites the owner of a tenant that has none. Whoever is a member already becomes the owner by accepting.
 * @returns the link, which goes out by mail too where mail is set up and the address has not had too many.
 * @throws StartError.
 */
export const inviteOwner = async (ctx: Context, tenant: string, email: string): Promise<OwnerLink> => {
  checkEmail(email);
  const [found] = await ctx.db.findTenants(tenant);
  if (!found) throw new StartError(refusalOf.tenant_gone);
  // As the database spells it: what is sealed is bound to it.
  const { id: tenant_id } = found;
  const { config } = ctx;
  const draft = await draftInvitation(ctx, { tenant_id, email, role: 'OWNER', created_by: null });
  const add = (mail: ReturnType<typeof mailOfDraft> | undefined) =>
    ctx.db.for({ tenant_id }).addInvitation(draft.made, PEOPLE_MAX, {
      mail,
      log: operatorLog(ctx, 'tenant_invitation', draft.made.id),
      answer: undefined,
      result: { isMailed: mail !== undefined },
    });
  // The link is at hand: a full mailbox is no reason against it.
  const added = await add(config.mail && mailOfDraft(ctx, tenant_id, draft)).catch((error: unknown) => {
    if (error instanceof AppError && error.code === 'too_many_requests') return add(undefined);
    throw error;
  });
  if (added.refused) throw new StartError(refusalOf[added.refused]);
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  const base_url = consoleUrlOf(config, `http://${host}:${config.port}`);
  return { link: new Sensitive(invitationLink(base_url, draft.secret)), ...added.result };
};

/** Makes a further application with a key in a tenant. @throws StartError for an unknown tenant and as createTenant. */
export const createApplication = async (
  ctx: Context,
  tenant_id: string,
  options: NewTenantOptions,
): Promise<MadeApplication> => {
  const [tenant] = await ctx.db.findTenants(tenant_id);
  if (!tenant)
    throw new StartError(`There is no tenant ${tenant_id}. List them: npm run -s strongroom -- tenants list`);
  const application = applicationRow(ctx, options);
  const apiKey = apiKeyOf(ctx, options);
  const logs = [operatorLog(ctx, 'application', application.id)];
  await ctx.db.for({ tenant_id }).addApplication({ application, apiKey, logs });
  return { tenant_id, application_id: application.id, api_key: apiKey.key };
};
