// Creates tenants, their first applications and owners, for the operator's command line and a development server.
import { nearestName } from '../../platform/base/unknown-names.ts';
import { applicationLimit } from '../access/applications.ts';
import { limitsSchema } from '../access/applications.schema.ts';
import type { z } from 'zod';
import { accessRuleSchema } from '../access/access-rule.ts';
import { checkRoom } from '../access/resource.ts';
import { operatorTransaction } from '../access/work.ts';
import { withNewKeys } from '../access/data-keys.ts';
import { insertApplication } from '../access/rows/applications.ts';
import { findTenants, insertTenant } from '../access/rows/tenants.ts';
import { describeApiKey, newApiKey, type NewApiKey } from '../access/api-keys.ts';
import { isPermission, type Permission, permissions as allPermissions } from '../access/permissions.ts';
import { nameSchema } from '../access/names.ts';
import type { ApplicationLimits } from '../../platform/base/application-limits.ts';
import { logRow, operator } from '../../platform/db/audit-record.ts';
import { consoleUrlOf } from '../../platform/config/config.ts';
import { Sensitive } from '../../platform/crypto/sensitive.ts';
import { runPrismaTransaction } from '../../platform/db/transaction.ts';
import { AppError, StartError } from '../../platform/base/errors.ts';
import { enqueueInvitation } from '../../platform/mail/mail-outbox.ts';
import { newAddressProblem } from './address.ts';
import type { PeopleContext } from './context.ts';
import { invitationLink } from './mail-texts.ts';
import { draftInvitation, writeInvitation } from './invitations.ts';
import { PROGRAM } from '../../platform/base/program.ts';

export type NewTenantOptions = {
  name: string;
  /** Default: all, or none where there are rules. */
  permissions?: readonly Permission[] | undefined;
  /** Access rules, not parsed yet. */
  rules?: unknown;
  /** Limits of the application, not parsed yet. */
  limits?: unknown;
  applicationName?: string | undefined;
  /** Instead of a random key. */
  apiKey?: string | undefined;
  /** Only where there is no tenant yet. */
  onlyFirst?: boolean | undefined;
  /** The address of the owner, who is invited. */
  ownerEmail?: string | undefined;
};

export type MadeApplication = { tenant_id: string; application_id: string; api_key: Sensitive<string> };

/** A link for an owner. `isMailed`: a mail brings it too. */
export type OwnerLink = { link: Sensitive<string>; isMailed: boolean };

export type MadeTenant = MadeApplication & { owner?: OwnerLink };

const checkName = (name: string): string => {
  const { error } = nameSchema.safeParse(name);
  if (error) throw new StartError(`The name ${error.issues[0]?.message}.`);
  return name;
};

const checkEmail = (email: string): void => {
  const problem = newAddressProblem(email);
  if (problem !== undefined) throw new StartError(`The e-mail address ${problem}, such as ada@example.com`);
};

const withNearest = (name: string): string => {
  const nearest = nearestName(name, allPermissions);
  return nearest === undefined ? name : `${name} (did you mean ${nearest}?)`;
};

/** @param text a comma-separated list. @throws StartError naming unknown permissions. */
export const parsePermissions = (text: string): Permission[] => {
  const names = text
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean);
  const unknown = names.filter((name) => !isPermission(name));
  if (names.length === 0 || unknown.length > 0)
    throw new StartError(
      `These are not permissions: ${unknown.map(withNearest).join(', ')}. Known: ${allPermissions.join(', ')}`,
    );
  return names.filter(isPermission);
};

const notValid = (what: string, { issues }: z.ZodError): StartError =>
  new StartError(
    `The ${what} are not valid: ${issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')}`,
  );

const parseRules = (rules: unknown): unknown[] => {
  const parsed = accessRuleSchema.array().safeParse(rules ?? []);
  if (parsed.success) return parsed.data;
  throw notValid('access rules', parsed.error);
};

const parseLimits = (limits: unknown): ApplicationLimits => {
  const parsed = limitsSchema.safeParse(limits ?? {});
  if (parsed.success) return parsed.data;
  throw notValid('limits', parsed.error);
};

const operatorLog = (ctx: PeopleContext, entity_type: string, entity_id: string) =>
  logRow(ctx, operator, { operation: 'create', entity_type, entity_ids: [entity_id] });

const applicationRow = (ctx: PeopleContext, options: NewTenantOptions) => ({
  id: ctx.newUuid(),
  name: checkName(options.applicationName ?? 'First application'),
  type: 'private',
  permissions: [...(options.permissions ?? (options.rules === undefined ? allPermissions : []))],
  rules: parseRules(options.rules),
  ...parseLimits(options.limits),
});

const apiKeyOf = (ctx: PeopleContext, options: NewTenantOptions): NewApiKey =>
  options.apiKey === undefined ? newApiKey(ctx) : describeApiKey(ctx, options.apiKey);

/**
 * Creates a tenant with its keys, one application and its API key in one transaction, and then an invitation for its owner where
 * there is an address.
 * @returns undefined where `onlyFirst` found a tenant.
 * @throws StartError for a name, permission, rule, key or address that is not valid.
 */
export const createTenant = async (ctx: PeopleContext, options: NewTenantOptions): Promise<MadeTenant | undefined> => {
  const { ownerEmail } = options;
  if (ownerEmail !== undefined) checkEmail(ownerEmail);
  const tenant = { id: ctx.newUuid(), name: checkName(options.name) };
  const application = applicationRow(ctx, options);
  const apiKey = apiKeyOf(ctx, options);
  const added = await withNewKeys(ctx, tenant.id, ['data', 'digest'], (keys) =>
    operatorTransaction(ctx, tenant.id, async (tx) => {
      if (!(await insertTenant(tx, { name: tenant.name, keys }, options.onlyFirst ?? false))) return false;
      await insertApplication(tx, application, apiKey);
      tx.log(operatorLog(ctx, 'tenant', tenant.id), operatorLog(ctx, 'application', application.id));
      return true;
    }),
  );
  if (!added) return undefined;
  const made = { tenant_id: tenant.id, application_id: application.id, api_key: apiKey.key };
  return ownerEmail === undefined ? made : { ...made, owner: await inviteOwner(ctx, tenant.id, ownerEmail) };
};

/** The operator reads the sentence of a refusal. */
const asStartError = (error: unknown): unknown =>
  error instanceof AppError && (error.code === 'conflict' || error.code === 'not_found')
    ? new StartError(error.message)
    : error;

/** @throws StartError. */
const findTenant = async (ctx: PeopleContext, id: string) => {
  const [tenant] = await findTenants(ctx.db, id);
  if (!tenant) throw new StartError(`There is no such tenant: ${id}. List them: ${PROGRAM} tenants list`);
  return tenant;
};

/**
 * Invites the owner of a tenant that has none. An existing member becomes the owner by accepting.
 * @returns the link, which a mail brings too where mail is set up and the address has not had too many.
 * @throws StartError.
 */
export const inviteOwner = async (ctx: PeopleContext, tenant: string, email: string): Promise<OwnerLink> => {
  checkEmail(email);
  const { config } = ctx;
  // The id as the database spells it: what is sealed is bound to it.
  const { id: tenant_id } = await findTenant(ctx, tenant);
  const draft = await draftInvitation(ctx, { tenant_id, email, role: 'OWNER', created_by: null });
  const write = (isMailed: boolean): Promise<boolean> =>
    runPrismaTransaction(ctx.db.for({ tenant_id }), ctx.changes, undefined, async (tx) => {
      await writeInvitation(tx, draft);
      if (isMailed) await enqueueInvitation(tx, draft.mail, draft.row.created_at);
      tx.log(operatorLog(ctx, 'tenant_invitation', draft.row.id));
      return isMailed;
    });
  const isMailed = await write(config.mail !== undefined)
    .catch((error: unknown) => {
      // The operator gets the link anyway.
      if (error instanceof AppError && error.code === 'too_many_requests') return write(false);
      throw error;
    })
    .catch((error: unknown) => {
      throw asStartError(error);
    });
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  const base_url = consoleUrlOf(config, `http://${host}:${config.port}`);
  return { link: new Sensitive(invitationLink(base_url, draft.secret)), isMailed };
};

/** Creates a further application with a key in a tenant. @throws StartError for an unknown tenant and as createTenant. */
export const createApplication = async (
  ctx: PeopleContext,
  tenant_id: string,
  options: NewTenantOptions,
): Promise<MadeApplication> => {
  await findTenant(ctx, tenant_id);
  const application = applicationRow(ctx, options);
  const apiKey = apiKeyOf(ctx, options);
  await operatorTransaction(ctx, tenant_id, async (tx) => {
    await checkRoom(tx, applicationLimit);
    await insertApplication(tx, application, apiKey);
    tx.log(operatorLog(ctx, 'application', application.id));
  }).catch((error: unknown) => {
    throw asStartError(error);
  });
  return { tenant_id, application_id: application.id, api_key: apiKey.key };
};
