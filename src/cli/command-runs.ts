// Runs each command of the command line and prints its result. With --json, stdout has JSON only, for scripts.
import { findTenants } from '../modules/access/rows/tenants.ts';
import { readFileSync } from 'node:fs';
import {
  createApplication,
  createTenant,
  inviteOwner,
  type MadeTenant,
  type NewTenantOptions,
  type OwnerLink,
  parsePermissions,
} from '../modules/people/bootstrap.ts';
import { listKeys, revokeKey } from '../modules/access/operator-keys.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { contract } from '../contract.ts';
import { type Context, createContext } from '../modules.ts';
import { distributeDatabase, migrateDatabase } from './inspection.ts';
import type { Sensitive } from '../platform/crypto/sensitive.ts';
import { readCredentials } from '../modules/access/dev-credentials.ts';
import { StartError } from '../platform/errors.ts';
import { INVITATION_HOURS } from '../modules/people/invitations.ts';
import { resetSecondFactor } from '../modules/people/lost-devices.ts';
import { resetPassword } from '../modules/people/passwords.ts';
import { bindDomain, listBoundDomains, unbindDomain } from '../modules/people/sso/domains.ts';
import { removeProvider } from '../modules/people/sso/provider.ts';
import { operator } from '../platform/audit/record.ts';
import { installOfficialFormulas } from '../modules/code/official.ts';
import type { CommandName, Values } from './command-table.ts';
import { writeGeneratedPages } from './configuration.ts';
import { doctor } from './doctor.ts';
import {
  certificateOf,
  certificatePublicKey,
  deletionText,
  listCertificates,
  verifyCertificate,
} from './erasure-certificates.ts';
import { combineKey, seal, sharesText, splitKey, stateText, unseal, withRootKey } from './key-shares.ts';
import {
  exportLog,
  logKeyText,
  makeSigningKey,
  proveLogRow,
  verifyDatabase,
  verifyLogFile,
  verifyRowProof,
} from './log-proofs.ts';
import { archiveLogs, readArchive } from './logs.ts';
import { becomeServer } from './become-server.ts';
import { runReactorFile } from './reactor-run.ts';
import { versionReport, versionText } from './version-report.ts';
import { COMPOSE_COMMANDS, setup } from './setup.ts';
import { UsageError } from './usage-error.ts';
import { listVaultKeys, rotateRootKey, rotateTenantKeys } from './vault-keys.ts';

/** Loaded by the commands that need them: their packages would add a tenth to the start of every other command. */
const loadBackup = () => import('./backup.ts');
const loadRestore = () => import('./restore.ts');
const loadExport = () => import('./export.ts');
const loadImport = () => import('./import.ts');

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Links lead to the running development server, on whatever port it listens. */
const withDevAddress = (config: Config): Config => {
  const base_url = config.mode === 'development' ? readCredentials(config)?.['base_url'] : undefined;
  return typeof base_url === 'string' ? { ...config, publicUrl: config.publicUrl ?? base_url } : config;
};

/** Without log lines, which would mix with the output. */
const quietConfig = (): Config => ({ ...loadConfig(), logLevel: 'silent' });

/** Runs work with its own context, whether a server is running or not. */
const withContext = async <T>(
  work: (ctx: Context) => Promise<T>,
  role: 'command' | 'bootstrap' = 'command',
): Promise<T> => {
  const ctx = await createContext(withDevAddress(await withRootKey(quietConfig())), role);
  try {
    return await work(ctx);
  } finally {
    await ctx.close();
  }
};

/** The value of an option or operand that the table requires. */
const required = (value: string | undefined): string => {
  if (value === undefined || value === '') throw new UsageError('An option or argument is empty.');
  return value;
};

const parseJsonOption = (text: string | undefined, option: string): unknown => {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new StartError(`The option --${option} must be JSON.`);
  }
};

const applicationOptions = (values: Values, name: string): NewTenantOptions => ({
  name,
  ownerEmail: values['owner-email'],
  permissions: values.permissions === undefined ? undefined : parsePermissions(values.permissions),
  rules: parseJsonOption(values.rules, 'rules'),
  limits: parseJsonOption(values.limits, 'limits'),
});

/** Reveals a secret that the command was run for. It is printed once and not stored. */
const revealed = (secret: Sensitive<string>): string => secret.reveal();

const linkOf = ({ link }: OwnerLink): string => revealed(link);

const ownerText = (owner: OwnerLink): string =>
  `owner_link      ${linkOf(owner)}\n\nThe person who opens the link and accepts becomes the owner. It works once, within ${INVITATION_HOURS} hours. ${owner.isMailed ? 'It is also sent by mail.' : 'No mail is sent: pass the link on yourself.'}`;

const printMade = ({ tenant_id, application_id, api_key, owner }: MadeTenant, json: boolean | undefined): void => {
  const key = revealed(api_key);
  const owner_link = owner && linkOf(owner);
  if (json) console.log(JSON.stringify({ tenant_id, application_id, api_key: key, owner_link }));
  else
    console.log(
      `tenant_id       ${tenant_id}\napplication_id  ${application_id}\napi_key         ${key}\n${owner ? `${ownerText(owner)}\n` : ''}\nThe key is shown once. Keep it in your secret manager.`,
    );
};

/** @param text of --tenant. */
const tenantId = (text: string): string => {
  if (!uuid.test(text)) throw new UsageError('The option --tenant must be a UUID.');
  return text.toLowerCase();
};

/** The tenant of --tenant, or the only one. */
const tenantOf = async (ctx: Context, tenant: string | undefined): Promise<string> => {
  if (tenant !== undefined) return tenantId(tenant);
  const tenants = await findTenants(ctx.db);
  if (tenants.length > 1)
    throw new UsageError(
      'There are several tenants. Name one by --tenant ID. List them: npm run -s strongroom -- tenants list',
    );
  const [only] = tenants;
  if (!only)
    throw new StartError('There is no tenant yet. Create one: npm run -s strongroom -- bootstrap --tenant-name NAME');
  return only.id;
};

const printVaultKeys = (values: Values): Promise<void> =>
  withContext(async (ctx) => {
    const roots = await listVaultKeys(ctx, values.tenant && tenantId(values.tenant), (key) =>
      console.log(
        values.json
          ? JSON.stringify({ kind: 'tenant', ...key })
          : `tenant ${key.tenant_id}  ${key.purpose.padEnd(6)}  ${key.id}  ${key.created_at.toISOString()}  under ${key.root_key}${key.rows === undefined ? '' : `  rows ${key.rows}`}`,
      ),
    );
    for (const { root_key, isFirst, keys } of roots)
      console.log(
        values.json
          ? JSON.stringify({ kind: 'root', root_key, current: isFirst, keys })
          : `root   ${root_key}  keys ${keys}${isFirst ? '  (MASTER_KEY)' : ''}`,
      );
  });

export const runs: Record<CommandName, (values: Values, operand: string | undefined) => Promise<void>> = {
  start: async () => becomeServer(),
  version: async (values) => {
    const report = versionReport();
    console.log(values.json ? JSON.stringify(report) : versionText(report));
  },
  bootstrap: async (values) => {
    const name = required(values['tenant-name']);
    const made = await withContext(
      (ctx) => createTenant(ctx, { ...applicationOptions(values, name), onlyFirst: true }),
      'bootstrap',
    );
    if (!made)
      throw new StartError(
        'The vault has a tenant already. Create a further one: npm run -s strongroom -- tenants create --name NAME',
      );
    printMade(made, values.json);
  },
  'tenants create': async (values) => {
    const name = required(values.name);
    const made = await withContext((ctx) => createTenant(ctx, applicationOptions(values, name)));
    if (made) printMade(made, values.json);
  },
  'tenants list': async (values) => {
    const tenants = await withContext((ctx) => findTenants(ctx.db));
    for (const { id, name, created_at } of tenants)
      console.log(values.json ? JSON.stringify({ id, name, created_at }) : `${id}  ${name}`);
  },
  'keys create': async (values) => {
    const made = await withContext(async (ctx) => {
      const tenantId = await tenantOf(ctx, values.tenant);
      const name = values.name ?? 'Application';
      return createApplication(ctx, tenantId, { ...applicationOptions(values, name), applicationName: name });
    });
    printMade(made, values.json);
  },
  'keys list': async (values) => {
    if (values.encryption) return printVaultKeys(values);
    const keys = await withContext(async (ctx) => listKeys(ctx, await tenantOf(ctx, values.tenant)));
    for (const key of keys)
      console.log(
        values.json
          ? JSON.stringify(key)
          : `${key.key}  ${key.created_at.toISOString()}  ${key.application_id}  ${key.application_name}`,
      );
  },
  'keys revoke': async (values, operand) => {
    const key = required(operand);
    await withContext(async (ctx) => revokeKey(ctx, await tenantOf(ctx, values.tenant), key));
    console.log(values.json ? JSON.stringify({ revoked: true }) : 'Revoked.');
  },
  'keys rotate-root': async (values) => {
    const { rotated, broken, root_key } = await withContext((ctx) => rotateRootKey(ctx, (line) => console.error(line)));
    const failed = broken.map(({ tenant_id, id }) => `key ${id} of ${tenant_id ?? 'security codes'}`);
    console.log(
      values.json
        ? JSON.stringify({ root_key, rotated, broken })
        : `Wrapped under ${root_key}: ${rotated} keys by this run.${failed.length > 0 ? ` These do not open and stay as they are:\n${failed.join('\n')}` : ' No key is left under another root key.'}`,
    );
    if (broken.length > 0) process.exitCode = 1;
  },
  'keys rotate-tenant': async (values) => {
    if (values.all && values.tenant !== undefined) throw new UsageError('Give either --tenant or --all.');
    const { made, early } = await withContext(async (ctx) =>
      rotateTenantKeys(ctx, values.all ? undefined : await tenantOf(ctx, values.tenant)),
    );
    console.log(
      values.json
        ? JSON.stringify({ made, early })
        : [
            `New data keys: ${made}. They seal after ten minutes; then servers re-seal what older keys have sealed.`,
            ...early.map((id) => `Tenant ${id} has a key that is newer than half an hour: no other was made.`),
          ].join('\n'),
    );
    if (early.length > 0) process.exitCode = 1;
  },
  'keys split': async (values) => {
    const config = values.new ? undefined : quietConfig();
    const { shares, threshold: needed } = values;
    const { set, threshold, texts } = await splitKey({ shares, threshold: needed, config });
    console.log(
      values.json ? JSON.stringify({ set, threshold, shares: texts }) : sharesText({ set, threshold, texts }),
    );
  },
  'keys combine': async () => console.log(await combineKey(quietConfig())),
  unseal: async (values) => {
    if (values.drop && values.status) throw new UsageError('Give either --drop or --status.');
    const found = await unseal(quietConfig(), { isDrop: values.drop ?? false, isStatus: values.status ?? false });
    console.log(values.json ? JSON.stringify(found) : stateText(found));
  },
  seal: async (values) => {
    const found = await seal(quietConfig());
    console.log(values.json ? JSON.stringify(found) : stateText(found));
  },
  'owner invite': async (values) => {
    const email = required(values.email);
    const owner = await withContext(async (ctx) => inviteOwner(ctx, await tenantOf(ctx, values.tenant), email));
    console.log(values.json ? JSON.stringify({ owner_link: linkOf(owner) }) : ownerText(owner));
  },
  'password reset': async (values) => {
    const email = required(values.email);
    const password = revealed(await withContext((ctx) => resetPassword(ctx, email)));
    console.log(
      values.json
        ? JSON.stringify({ password })
        : `password        ${password}\n\nIt is temporary: change it in the console under People. It is shown once, and all sessions of the account have\nended.`,
    );
  },
  'second-factor reset': async (values) => {
    const email = required(values.email);
    await withContext((ctx) => resetSecondFactor(ctx, email));
    console.log(
      values.json
        ? JSON.stringify({ reset: true })
        : 'The second factor was removed. All sessions of the account have ended.',
    );
  },
  'sso bind': async (values, operand) => {
    const text = required(operand);
    const domain = await withContext(async (ctx) => bindDomain(ctx, await tenantOf(ctx, values.tenant), text));
    console.log(values.json ? JSON.stringify({ domain }) : `Bound: ${domain}.`);
  },
  'sso unbind': async (values, operand) => {
    const text = required(operand);
    const domain = await withContext((ctx) => unbindDomain(ctx, text));
    console.log(values.json ? JSON.stringify({ domain }) : `Bound to no tenant any more: ${domain}.`);
  },
  'sso list': async (values) => {
    const domains = await withContext((ctx) => listBoundDomains(ctx));
    for (const { domain, tenant_id, isGenuine } of domains)
      console.log(
        values.json
          ? JSON.stringify({ domain, tenant_id, ...(!isGenuine && { tampered: true }) })
          : `${tenant_id}  ${domain}${isGenuine ? '' : '  (changed in the database: it does not count)'}`,
      );
  },
  'sso remove': async (values) => {
    const isRemoved = await withContext(async (ctx) =>
      removeProvider(ctx, await tenantOf(ctx, values.tenant), operator),
    );
    if (!isRemoved) throw new StartError('The tenant has no provider: nothing was changed.');
    console.log(values.json ? JSON.stringify({ removed: true }) : 'Removed. Members sign in by their passwords.');
  },
  'formulas install': async (values) => {
    const installed = await withContext((ctx) => installOfficialFormulas(ctx));
    for (const { id, name, outcome } of installed)
      console.log(values.json ? JSON.stringify({ id, name, outcome }) : `${id}  ${outcome.padEnd(9)}  ${name}`);
  },
  'db roles': async () => {
    process.stdout.write(readFileSync(new URL('../../deploy/postgres/roles.sql', import.meta.url), 'utf8'));
  },
  'db distribute': () => distributeDatabase(quietConfig(), (line) => console.log(line)),
  'reactor run': async (values, operand) => {
    const isWell = await runReactorFile({
      path: required(operand),
      args: parseJsonOption(values.args, 'args') ?? {},
      configuration: parseJsonOption(values.configuration, 'configuration') ?? {},
      json: values.json,
    });
    if (!isWell) process.exitCode = 1;
  },
  import: async (values, operand) => {
    const { importFile, parseImportOptions } = await loadImport();
    const options = await parseImportOptions(required(operand), values);
    const counts = await withContext(async (ctx) => importFile(ctx, await tenantOf(ctx, values.tenant), options));
    const { rows, created, existing, faults } = counts;
    const faultsPath = `${options.result}.${options.isDryRun ? 'dry-run.' : ''}faults`;
    console.log(
      values.json
        ? JSON.stringify({ ...counts, dry_run: options.isDryRun })
        : `${options.isDryRun ? 'Nothing was written. ' : ''}Rows: ${rows}. Created: ${created}. Already stored: ${existing}. Refused: ${faults}.${faults > 0 ? ` Reasons: ${faultsPath}` : ''}`,
    );
    if (faults > 0) process.exitCode = 1;
  },
  export: async (values, operand) => {
    const to = required(values.to);
    const file = required(operand);
    const { exportFile } = await loadExport();
    const counts = await withContext(async (ctx) => exportFile(ctx, await tenantOf(ctx, values.tenant), { file, to }));
    console.log(
      values.json ? JSON.stringify(counts) : `Exported: ${counts.tokens} tokens. Security codes are left out.`,
    );
  },
  migrate: async ({ contract: isContract }) => {
    const { applied, total } = await migrateDatabase(quietConfig());
    console.log(applied.length > 0 ? `Applied: ${applied.join(', ')}` : `Up to date: ${total} migrations.`);
    if (!isContract) return;
    await withContext((ctx) => contract(ctx, (line) => console.log(line), { isAlone: false }));
    console.log('The upgrade is over.');
  },
  backup: async (values, operand) => {
    const { backUp } = await loadBackup();
    await backUp(await withRootKey(quietConfig()), required(operand), required(values.to));
  },
  restore: async (values, operand) => {
    const { restore } = await loadRestore();
    await restore(await withRootKey(quietConfig()), {
      file: required(operand),
      identity: required(values.identity),
      erasures: values.erasures,
      isVerify: values.verify ?? false,
    });
  },
  'erasures export': async (_, operand) => {
    const { exportErasures } = await loadBackup();
    await exportErasures(await withRootKey(quietConfig()), required(operand));
  },
  'erasures list': (values) =>
    withContext((ctx) =>
      listCertificates(ctx, ({ tenant_id, deleted_at, state }) =>
        console.log(
          values.json
            ? JSON.stringify({ tenant_id, deleted_at, issued: state === 'issued', tampered: state === 'refused' })
            : `${tenant_id}  ${deleted_at.toISOString()}  ${deletionText(state)}`,
        ),
      ),
    ),
  'erasures certificate': async (_, operand) => {
    const id = required(operand).toLowerCase();
    if (!uuid.test(id)) throw new UsageError('TENANT must be a UUID.');
    console.log(await withContext((ctx) => certificateOf(ctx, id)));
  },
  'erasures verify': async (values, operand) => {
    const found = verifyCertificate(required(operand), required(values['public-key']));
    console.log(
      values.json
        ? JSON.stringify({ valid: true, ...found })
        : `The vault signed it. Tenant ${found.tenant_id}, deleted at ${found.deleted_at}.`,
    );
  },
  'erasures key': () => withContext(async (ctx) => console.log(certificatePublicKey(ctx))),
  'erasures replay': async (_, operand) => {
    const { replayErasureList } = await loadRestore();
    await replayErasureList(await withRootKey(quietConfig()), required(operand));
  },
  'logs archive': (values, operand) =>
    archiveLogs(quietConfig(), {
      directory: required(operand),
      month: values.month,
      isKept: values.keep ?? false,
      isJson: values.json ?? false,
    }),
  'logs read': async (values, operand) => readArchive(required(operand), values.tenant && tenantId(values.tenant)),
  'logs export': async (values, operand) => {
    const file = required(operand);
    const { rows } = await withContext(async (ctx) => exportLog(ctx, await tenantOf(ctx, values.tenant), file));
    console.log(values.json ? JSON.stringify({ rows }) : `Exported: ${rows} rows.`);
  },
  'logs verify': async (values, operand) => {
    const given = [operand, values.proof, values.database].filter((each) => each !== undefined);
    if (given.length !== 1) throw new UsageError('Give one of FILE, --proof FILE and --database.');
    if (values.tenant !== undefined && !values.database)
      throw new UsageError('The option --tenant goes with --database.');
    const options = { key: values.key, checkpoints: values.checkpoints, isJson: values.json ?? false };
    if (values.proof !== undefined) return verifyRowProof(required(values.proof), options);
    if (!values.database) return verifyLogFile(required(operand), options);
    await withContext((ctx) => verifyDatabase(ctx, values.tenant && tenantId(values.tenant), options));
  },
  'logs prove': async (values, operand) => {
    const id = required(operand).toLowerCase();
    if (!uuid.test(id)) throw new UsageError('ROW must be the id of a row, a UUID.');
    const proof = await withContext(async (ctx) => proveLogRow(ctx, await tenantOf(ctx, values.tenant), id));
    process.stdout.write(proof);
  },
  'logs key': async (values) => {
    console.log(await withContext(async (ctx) => logKeyText(ctx, values.tenant && tenantId(values.tenant))));
  },
  'logs keygen': async (_, operand) => console.log(await makeSigningKey(required(operand))),
  doctor: async (values) => {
    if (!(await doctor(process.stdout, values.json ?? false))) process.exitCode = 1;
  },
  setup: async () => {
    const written = setup('.');
    console.log(
      `Written: ${written.join(', ')}\nKeep a copy of secrets/master_key in your secret manager: without it nothing in the vault opens again.\nNext:\n\n${COMPOSE_COMMANDS.join('\n')}`,
    );
  },
  readme: async () => writeGeneratedPages(),
  openapi: async (values) => {
    // Imported here, because no other command needs the routes.
    const { writeOpenapi } = await import('./openapi.ts');
    await writeOpenapi({ isCheck: values.check ?? false });
  },
};
