// Tenants and first keys: made by the operator's command line or a development start, never over the open API
// (decisions.md section 3).
import { logRow } from '../audit/record.ts';
import type { Context } from '../context.ts';
import type { Sensitive } from '../crypto/sensitive.ts';
import { StartError } from '../errors.ts';
import { describeApiKey, newApiKey, type NewApiKey } from './api-keys.ts';
import type { Caller } from './caller.ts';
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
};

export type MadeApplication = { tenant_id: string; application_id: string; api_key: Sensitive<string> };

const checkName = (name: string): string => {
  if (!nameSchema.safeParse(name).success) throw new StartError(`A name has 1 to ${NAME_LENGTH_MAX} characters.`);
  return name;
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

/** The operator, as the log names it: an actor without an id. */
const operatorLog = (ctx: Context, tenant_id: string, entity_type: string, entity_id: string) => {
  const operator = { tenant_id, actor_id: '', actor_type: 'application' } as Caller;
  const row = logRow(ctx, operator, { operation: 'create', entity_type, entity_ids: [entity_id] });
  return { ...row, actor_id: null, actor_type: 'operator' };
};

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
 * Makes a tenant with its keys, one application and that application's API key, in one transaction.
 * @returns the key in a Sensitive, to be shown once; undefined when `onlyFirst` found a tenant already there.
 * @throws StartError for a name, permission, rule or ready-made key that is not valid.
 */
export const createTenant = async (ctx: Context, options: NewTenantOptions): Promise<MadeApplication | undefined> => {
  const tenant = { id: ctx.newUuid(), name: checkName(options.name) };
  const application = applicationRow(ctx, options);
  const apiKey = apiKeyOf(ctx, options);
  const keys = await ctx.keyring.newTenantKeys(tenant.id);
  const logs = [
    operatorLog(ctx, tenant.id, 'tenant', tenant.id),
    operatorLog(ctx, tenant.id, 'application', application.id),
  ];
  const added = await ctx.db.addTenant({ tenant, keys, application, apiKey, logs }, options.onlyFirst ?? false);
  return added ? { tenant_id: tenant.id, application_id: application.id, api_key: apiKey.key } : undefined;
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
  const logs = [operatorLog(ctx, tenant_id, 'application', application.id)];
  await ctx.db.for({ tenant_id }).addApplication({ application, apiKey, logs });
  return { tenant_id, application_id: application.id, api_key: apiKey.key };
};
