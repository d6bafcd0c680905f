// Creates the first tenant of a vault: at a development start, or with a key that the deployment supplies.
import { readFileSync } from 'node:fs';
import { describeApiKey, parseApiKey } from './modules/access/api-keys.ts';
import { readCredentials, writeCredentials } from './modules/access/dev-credentials.ts';
import { findApiKeyBeforeCaller } from './modules/access/rows/api-keys.ts';
import { findTenants, hasTenants } from './modules/access/rows/tenants.ts';
import { createApplication, createTenant, type MadeApplication } from './modules/people/bootstrap.ts';
import type { Context } from './modules.ts';
import { StartError } from './platform/base/errors.ts';
import { PROGRAM } from './platform/base/program.ts';

/** The name of the tenant and the application that a development start creates. */
const DEVELOPMENT = 'Development';

/** Whether a text is a key of applications in this environment. Keys of sessions end soon, and belong to none. */
const isKeyOf = ({ environment }: Context, key: string): boolean =>
  parseApiKey(key, environment)?.isOfSession === false;

const readBootstrapKey = (ctx: Context): string => {
  const path = ctx.config.bootstrapApiKeyFile as string;
  let key: string;
  try {
    key = readFileSync(path, 'utf8').trim();
  } catch {
    throw new StartError(`BOOTSTRAP_API_KEY_FILE: the file ${path} cannot be read. Mount it, or unset the variable.`);
  }
  if (isKeyOf(ctx, key)) return key;
  throw new StartError(
    `BOOTSTRAP_API_KEY_FILE: ${path} holds no well-formed svc_${ctx.environment}_ key, or it has a typo. Take one from another vault: ${PROGRAM} api-keys create`,
  );
};

/**
 * Replaces the key of the development tenant. A crash after the tenant was created and before its key was written leaves the
 * tenant without a usable key. Only for the embedded database: the credentials of a database that DATABASE_URL names may be
 * in another server's directory.
 */
const replaceLostKey = async (ctx: Context): Promise<MadeApplication | undefined> => {
  if (!ctx.embedded || readCredentials(ctx.config)) return undefined;
  const tenant = (await findTenants(ctx.db)).find(({ name }) => name === DEVELOPMENT);
  if (!tenant) return undefined;
  ctx.log.warn(
    `the data directory has no dev-credentials.json, as after a restore: this start makes a further API key with all permissions for the tenant Development. List its keys: ${PROGRAM} api-keys list`,
  );
  return createApplication(ctx, tenant.id, { name: DEVELOPMENT, applicationName: DEVELOPMENT });
};

/**
 * Makes an application with the key of STRONGROOM_DEV_KEY in a vault that was made without it.
 * @returns undefined if the vault has the key already, and the file of credentials names it.
 */
const addDevKey = async (ctx: Context, apiKey: string): Promise<MadeApplication | undefined> => {
  const { public_id, digest, key } = describeApiKey(ctx, apiKey);
  const found = await findApiKeyBeforeCaller(ctx.db, public_id);
  if (found && !found.digest.equals(digest))
    throw new StartError(
      'STRONGROOM_DEV_KEY: the vault has another key with the same public part. Take another key, or end that one: ' +
        `${PROGRAM} api-keys revoke svc_${ctx.environment}_${public_id}`,
    );
  if (found)
    return readCredentials(ctx.config)?.['api_key'] === apiKey
      ? undefined
      : { tenant_id: found.tenant_id, application_id: found.application_id, api_key: key };
  const tenant = (await findTenants(ctx.db)).find(({ name }) => name === DEVELOPMENT);
  if (!tenant)
    throw new StartError(
      `STRONGROOM_DEV_KEY: the vault has no tenant ${DEVELOPMENT} that a key with all permissions could be of. Unset it, or make a key of a tenant: ${PROGRAM} api-keys create`,
    );
  return createApplication(ctx, tenant.id, { name: DEVELOPMENT, applicationName: DEVELOPMENT, apiKey });
};

const createDevelopmentTenant = async (ctx: Context): Promise<MadeApplication | undefined> => {
  const { config } = ctx;
  const { devKey } = config;
  if (devKey !== undefined && !isKeyOf(ctx, devKey))
    throw new StartError(
      `STRONGROOM_DEV_KEY: is no well-formed svc_${ctx.environment}_ key, or it has a typo. Take one that a development server made: ${PROGRAM} api-keys create`,
    );
  const tenant = { name: DEVELOPMENT, applicationName: DEVELOPMENT, onlyFirst: true };
  const made =
    (await createTenant(ctx, { ...tenant, apiKey: devKey })) ??
    (await (devKey === undefined ? replaceLostKey(ctx) : addDevKey(ctx, devKey)));
  if (made)
    writeCredentials(config, {
      base_url: `http://${config.host}:${config.port}`,
      tenant_id: made.tenant_id,
      application_id: made.application_id,
      api_key: made.api_key.reveal(),
    });
  return made;
};

/**
 * Creates the first tenant: always in development, and in production with a key that the deployment supplies.
 * @returns the tenant that a development start made, whose key is in the file of credentials by then.
 */
export const createFirstTenant = async (ctx: Context): Promise<MadeApplication | undefined> => {
  const { config } = ctx;
  if (config.bootstrapApiKeyFile !== undefined) {
    const made = await createTenant(ctx, { name: 'Default', apiKey: readBootstrapKey(ctx), onlyFirst: true });
    if (!made) ctx.log.warn('BOOTSTRAP_API_KEY_FILE is ignored: the vault has a tenant already');
    return undefined;
  }
  if (config.mode === 'development') return createDevelopmentTenant(ctx);
  if (!(await hasTenants(ctx.db)))
    ctx.log.warn(
      `the vault has no tenant: every API route answers 503 until it has one. Create it: ${PROGRAM} bootstrap --tenant-name NAME`,
    );
  return undefined;
};
