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
import { addApplicationKey, type AddedKey, listKeys, revokeKey, rotateKey } from '../modules/access/operator-keys.ts';
import { type Config, loadConfig } from '../platform/config/config.ts';
import { type Context, createContext } from '../modules.ts';
import { distributeDatabase, migrateDatabase } from './inspection.ts';
import type { Sensitive } from '../platform/crypto/sensitive.ts';
import { readCredentials } from '../modules/access/dev-credentials.ts';
import { duration } from '../platform/config/forms.ts';
import { StartError } from '../platform/base/errors.ts';
import { parseDate } from '../platform/json/dates.ts';
import { INVITATION_HOURS } from '../modules/people/invitations.ts';
import { resetSecondFactor } from '../modules/people/members.ts';
import { resetPassword } from '../modules/people/passwords.ts';
import { bindDomain, listBoundDomains, unbindDomain } from '../modules/people/sso/domains.ts';
import { removeProvider } from '../modules/people/sso/provider.ts';
import { operator } from '../platform/db/audit-record.ts';
import { installOfficialFormulas } from '../modules/code/official.ts';
import { type CommandIo, UsageError } from './command.ts';
import type { CommandName, Values } from './command-table.ts';
import { writeGeneratedPages } from './docs-tables.ts';
import { doctor, versionReport, versionText } from './doctor.ts';
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
import { nextText, setup } from './setup.ts';
import { listVaultKeys, rotateRootKey, rotateTenantKeys } from './vault-keys.ts';
import { PROGRAM } from '../platform/base/program.ts';

/** Loaded by the commands that need them: their packages would add a tenth to the start of every other command. */
const loadBackup = () => import('./backup.ts');
const loadRestore = () => import('./restore.ts');
const loadExport = () => import('./export.ts');
const loadImport = () => import('./import.ts');

/** What `logs prove` takes, for errors. */
const ROW_ID = 'the id of a row of the audit log, a UUID: `id` of an entry in GET /logs?entity_id=ID or in logs export';

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Links lead to the running development server, on whatever port it listens. */
const withDevAddress = (config: Config): Config => {
  const base_url = config.mode === 'development' ? readCredentials(config)?.['base_url'] : undefined;
  return typeof base_url === 'string' ? { ...config, publicUrl: config.publicUrl ?? base_url } : config;
};

/** Without log lines, which would mix with the output. */
const quietConfig = ({ env }: CommandIo): Config => ({ ...loadConfig(env), logLevel: 'silent' });

/** Runs work with its own context, whether a server is running or not. */
const withContext = async <T>(
  io: CommandIo,
  work: (ctx: Context) => Promise<T>,
  role: 'command' | 'bootstrap' = 'command',
): Promise<T> => {
  const ctx = await createContext(withDevAddress(await withRootKey(io, quietConfig(io))), role, io.overrides);
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

const printMade = (
  io: CommandIo,
  { tenant_id, application_id, api_key, owner }: MadeTenant,
  json: boolean | undefined,
): void => {
  const key = revealed(api_key);
  const owner_link = owner && linkOf(owner);
  if (json) io.print(JSON.stringify({ tenant_id, application_id, api_key: key, owner_link }));
  else
    io.print(
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
    throw new UsageError(`There are several tenants. Name one by --tenant ID. List them: ${PROGRAM} tenants list`);
  const [only] = tenants;
  if (!only) throw new StartError(`There is no tenant yet. Create one: ${PROGRAM} bootstrap --tenant-name NAME`);
  return only.id;
};

const printVaultKeys = (io: CommandIo, values: Values): Promise<void> =>
  withContext(io, async (ctx) => {
    const roots = await listVaultKeys(ctx, values.tenant && tenantId(values.tenant), (key) =>
      io.print(
        values.json
          ? JSON.stringify({ kind: 'tenant', ...key })
          : `tenant ${key.tenant_id}  ${key.purpose.padEnd(6)}  ${key.id}  ${key.created_at.toISOString()}  under ${key.root_key}${key.rows === undefined ? '' : `  rows ${key.rows}`}`,
      ),
    );
    for (const { root_key, isFirst, keys } of roots)
      io.print(
        values.json
          ? JSON.stringify({ kind: 'root', root_key, current: isFirst, keys })
          : `root   ${root_key}  keys ${keys}${isFirst ? '  (MASTER_KEY)' : ''}`,
      );
  });

type Run = (io: CommandIo, values: Values, operand: string | undefined) => Promise<void>;

const printApiKeys: Run = async (io, values) => {
  const keys = await withContext(io, async (ctx) => listKeys(ctx, await tenantOf(ctx, values.tenant)));
  for (const key of keys)
    io.print(
      values.json
        ? JSON.stringify(key)
        : `${key.key}  ${key.created_at.toISOString()}  ${key.application_id}  ${key.application_name}${key.expires_at ? `  ends ${key.expires_at.toISOString()}` : ''}`,
    );
};

const revokeApiKey: Run = async (io, values, operand) => {
  const key = required(operand);
  await withContext(io, async (ctx) => revokeKey(ctx, await tenantOf(ctx, values.tenant), key));
  io.print(values.json ? JSON.stringify({ revoked: true }) : 'Revoked.');
};

const printAdded = (io: CommandIo, { json }: Values, { application_id, api_key, expires_at }: AddedKey, old?: Date) => {
  const key = revealed(api_key);
  if (json) return io.print(JSON.stringify({ application_id, api_key: key, expires_at, old_key_ends_at: old }));
  const lines = [`application_id  ${application_id}`, `api_key         ${key}`];
  if (expires_at) lines.push(`expires_at      ${expires_at.toISOString()}`);
  if (old) lines.push(`The old key ends at ${old.toISOString()}.`);
  io.print([...lines, '', 'The key is shown once. Keep it in your secret manager.'].join('\n'));
};

export const runs: Record<CommandName, Run> = {
  start: async () => becomeServer(),
  version: async (io, values) => {
    const report = versionReport();
    io.print(values.json ? JSON.stringify(report) : versionText(report));
  },
  bootstrap: async (io, values) => {
    const name = required(values['tenant-name']);
    const made = await withContext(
      io,
      (ctx) => createTenant(ctx, { ...applicationOptions(values, name), onlyFirst: true }),
      'bootstrap',
    );
    if (!made)
      throw new StartError(
        `The vault has a tenant already. Create a further one: ${PROGRAM} tenants create --name NAME`,
      );
    printMade(io, made, values.json);
  },
  'tenants create': async (io, values) => {
    const name = required(values.name);
    const made = await withContext(io, (ctx) => createTenant(ctx, applicationOptions(values, name)));
    if (made) printMade(io, made, values.json);
  },
  'tenants list': async (io, values) => {
    const tenants = await withContext(io, (ctx) => findTenants(ctx.db));
    for (const { id, name, created_at } of tenants)
      io.print(values.json ? JSON.stringify({ id, name, created_at }) : `${id}  ${name}`);
  },
  'api-keys create': async (io, values) => {
    const made = await withContext(io, async (ctx) => {
      const tenantId = await tenantOf(ctx, values.tenant);
      const name = values.name ?? 'Application';
      return createApplication(ctx, tenantId, { ...applicationOptions(values, name), applicationName: name });
    });
    printMade(io, made, values.json);
  },
  'keys list': (io, values) => (values.encryption ? printVaultKeys(io, values) : printApiKeys(io, values, undefined)),
  'api-keys list': printApiKeys,
  'api-keys add': async (io, values, operand) => {
    const application_id = required(operand).toLowerCase();
    if (!uuid.test(application_id)) throw new UsageError('APPLICATION must be a UUID.');
    const { name, expires } = values;
    const expires_at = expires === undefined ? undefined : parseDate(expires);
    if (expires !== undefined && !expires_at) throw new UsageError('The option --expires must be a time (RFC 3339).');
    const added = await withContext(io, async (ctx) =>
      addApplicationKey(ctx, await tenantOf(ctx, values.tenant), application_id, { name, expires_at }),
    );
    printAdded(io, values, added);
  },
  'api-keys rotate': async (io, values, operand) => {
    const key = required(operand);
    const after = duration.safeParse(values.after ?? '0');
    if (!after.success) throw new UsageError('The option --after must be a number of seconds, or like 90s, 15m or 1h.');
    const { old_ends_at, ...added } = await withContext(io, async (ctx) =>
      rotateKey(ctx, await tenantOf(ctx, values.tenant), key, after.data),
    );
    printAdded(io, values, added, old_ends_at);
  },
  'api-keys revoke': revokeApiKey,
  'keys rotate-root': async (io, values) => {
    const { rotated, broken, root_key } = await withContext(io, (ctx) => rotateRootKey(ctx, (line) => io.say(line)));
    const failed = broken.map(({ tenant_id, id }) => `key ${id} of ${tenant_id ?? 'security codes'}`);
    io.print(
      values.json
        ? JSON.stringify({ root_key, rotated, broken })
        : `Wrapped under ${root_key}: ${rotated} keys by this run.${failed.length > 0 ? ` These do not open and stay as they are:\n${failed.join('\n')}` : ' No key is left under another root key.'}`,
    );
    if (broken.length > 0) io.fail();
  },
  'keys rotate-tenant': async (io, values) => {
    if (values.all && values.tenant !== undefined) throw new UsageError('Give either --tenant or --all.');
    const { made, early } = await withContext(io, async (ctx) =>
      rotateTenantKeys(ctx, values.all ? undefined : await tenantOf(ctx, values.tenant)),
    );
    io.print(
      values.json
        ? JSON.stringify({ made, early })
        : [
            `New data keys: ${made}. They seal after ten minutes; then servers re-seal what older keys have sealed.`,
            ...early.map((id) => `Tenant ${id} has a key that is newer than half an hour: no other was made.`),
          ].join('\n'),
    );
    if (early.length > 0) io.fail();
  },
  'keys split': async (io, values) => {
    const config = values.new ? undefined : quietConfig(io);
    const { shares, threshold: needed } = values;
    const { set, threshold, texts } = await splitKey(io, { shares, threshold: needed, config });
    io.print(values.json ? JSON.stringify({ set, threshold, shares: texts }) : sharesText({ set, threshold, texts }));
  },
  'keys combine': async (io) => io.print(await combineKey(io, quietConfig(io))),
  unseal: async (io, values) => {
    if (values.drop && values.status) throw new UsageError('Give either --drop or --status.');
    const found = await unseal(io, quietConfig(io), {
      isDrop: values.drop ?? false,
      isStatus: values.status ?? false,
    });
    io.print(values.json ? JSON.stringify(found) : stateText(found));
  },
  seal: async (io, values) => {
    const found = await seal(quietConfig(io));
    io.print(values.json ? JSON.stringify(found) : stateText(found));
  },
  'owner invite': async (io, values) => {
    const email = required(values.email);
    const owner = await withContext(io, async (ctx) => inviteOwner(ctx, await tenantOf(ctx, values.tenant), email));
    io.print(values.json ? JSON.stringify({ owner_link: linkOf(owner) }) : ownerText(owner));
  },
  'password reset': async (io, values) => {
    const email = required(values.email);
    const password = revealed(await withContext(io, (ctx) => resetPassword(ctx, email)));
    io.print(
      values.json
        ? JSON.stringify({ password })
        : `password        ${password}\n\nIt is temporary: change it in the console under People. It is shown once, and all sessions of the account have\nended.`,
    );
  },
  'second-factor reset': async (io, values) => {
    const email = required(values.email);
    await withContext(io, (ctx) => resetSecondFactor(ctx, email));
    io.print(
      values.json
        ? JSON.stringify({ reset: true })
        : 'The second factor was removed. All sessions of the account have ended.',
    );
  },
  'sso bind': async (io, values, operand) => {
    const text = required(operand);
    const domain = await withContext(io, async (ctx) => bindDomain(ctx, await tenantOf(ctx, values.tenant), text));
    io.print(values.json ? JSON.stringify({ domain }) : `Bound: ${domain}.`);
  },
  'sso unbind': async (io, values, operand) => {
    const text = required(operand);
    const domain = await withContext(io, (ctx) => unbindDomain(ctx, text));
    io.print(values.json ? JSON.stringify({ domain }) : `Bound to no tenant any more: ${domain}.`);
  },
  'sso list': async (io, values) => {
    const domains = await withContext(io, (ctx) => listBoundDomains(ctx));
    for (const { domain, tenant_id, isGenuine } of domains)
      io.print(
        values.json
          ? JSON.stringify({ domain, tenant_id, ...(!isGenuine && { tampered: true }) })
          : `${tenant_id}  ${domain}${isGenuine ? '' : '  (changed in the database: it does not count)'}`,
      );
  },
  'sso remove': async (io, values) => {
    const isRemoved = await withContext(io, async (ctx) =>
      removeProvider(ctx, await tenantOf(ctx, values.tenant), operator),
    );
    if (!isRemoved) throw new StartError('The tenant has no provider: nothing was changed.');
    io.print(values.json ? JSON.stringify({ removed: true }) : 'Removed. Members sign in by their passwords.');
  },
  'formulas install': async (io, values) => {
    const installed = await withContext(io, (ctx) => installOfficialFormulas(ctx));
    for (const { id, name, outcome } of installed)
      io.print(values.json ? JSON.stringify({ id, name, outcome }) : `${id}  ${outcome.padEnd(9)}  ${name}`);
  },
  'db roles': async (io) => {
    io.stdout.write(readFileSync(new URL('../../deploy/postgres/roles.sql', import.meta.url), 'utf8'));
  },
  'db distribute': (io) => distributeDatabase(quietConfig(io), (line) => io.print(line)),
  'reactor run': async (io, values, operand) => {
    const isWell = await runReactorFile(io, {
      path: required(operand),
      args: parseJsonOption(values.args, 'args') ?? {},
      configuration: parseJsonOption(values.configuration, 'configuration') ?? {},
      json: values.json,
    });
    if (!isWell) io.fail();
  },
  import: async (io, values, operand) => {
    const { importFile, parseImportOptions } = await loadImport();
    const options = await parseImportOptions(io, required(operand), values);
    const counts = await withContext(io, async (ctx) =>
      importFile(io, ctx, await tenantOf(ctx, values.tenant), options),
    );
    const { rows, created, existing, faults } = counts;
    const faultsPath = `${options.result}.${options.isDryRun ? 'dry-run.' : ''}faults`;
    io.print(
      values.json
        ? JSON.stringify({ ...counts, dry_run: options.isDryRun })
        : `${options.isDryRun ? 'Nothing was written. ' : ''}Rows: ${rows}. ${options.isDryRun ? 'Would create' : 'Created'}: ${created}. Already stored: ${existing}. Refused: ${faults}.${faults > 0 ? ` Reasons: ${faultsPath}` : ''}`,
    );
    if (faults > 0) io.fail();
  },
  export: async (io, values, operand) => {
    const to = required(values.to);
    const file = required(operand);
    const { exportFile } = await loadExport();
    const counts = await withContext(io, async (ctx) =>
      exportFile(ctx, await tenantOf(ctx, values.tenant), { file, to }),
    );
    io.print(values.json ? JSON.stringify(counts) : `Exported: ${counts.tokens} tokens. Security codes are left out.`);
  },
  migrate: async (io) => {
    const { applied, total } = await migrateDatabase(quietConfig(io));
    io.print(applied.length > 0 ? `Applied: ${applied.join(', ')}` : `Up to date: ${total} migrations.`);
  },
  backup: async (io, values, operand) => {
    const { backUp } = await loadBackup();
    await backUp(io, await withRootKey(io, quietConfig(io)), required(operand), required(values.to));
  },
  restore: async (io, values, operand) => {
    const { restore } = await loadRestore();
    await restore(io, await withRootKey(io, quietConfig(io)), {
      file: required(operand),
      identity: required(values.identity),
      erasures: values.erasures,
      isVerify: values.verify ?? false,
    });
  },
  'erasures export': async (io, _values, operand) => {
    const { exportErasures } = await loadBackup();
    await exportErasures(io, await withRootKey(io, quietConfig(io)), required(operand));
  },
  'erasures list': (io, values) =>
    withContext(io, (ctx) =>
      listCertificates(ctx, ({ tenant_id, deleted_at, state }) =>
        io.print(
          values.json
            ? JSON.stringify({ tenant_id, deleted_at, issued: state === 'issued', tampered: state === 'refused' })
            : `${tenant_id}  ${deleted_at.toISOString()}  ${deletionText(state)}`,
        ),
      ),
    ),
  'erasures certificate': async (io, _values, operand) => {
    const id = required(operand).toLowerCase();
    if (!uuid.test(id)) throw new UsageError('TENANT must be a UUID.');
    io.print(await withContext(io, (ctx) => certificateOf(ctx, id)));
  },
  'erasures verify': async (io, values, operand) => {
    const found = verifyCertificate(required(operand), required(values['public-key']));
    io.print(
      values.json
        ? JSON.stringify({ valid: true, ...found })
        : `The vault signed it. Tenant ${found.tenant_id}, deleted at ${found.deleted_at}.`,
    );
  },
  'erasures key': (io) => withContext(io, async (ctx) => io.print(certificatePublicKey(ctx))),
  'erasures replay': async (io, _values, operand) => {
    const { replayErasureList } = await loadRestore();
    await replayErasureList(io, await withRootKey(io, quietConfig(io)), required(operand));
  },
  'logs archive': (io, values, operand) =>
    withContext(io, (ctx) =>
      archiveLogs(io, ctx, {
        directory: required(operand),
        month: values.month,
        isKept: values.keep ?? false,
        isJson: values.json ?? false,
      }),
    ),
  'logs read': async (io, values, operand) =>
    readArchive(io, required(operand), values.tenant && tenantId(values.tenant)),
  'logs export': async (io, values, operand) => {
    const file = required(operand);
    const { rows } = await withContext(io, async (ctx) => exportLog(ctx, await tenantOf(ctx, values.tenant), file));
    io.print(values.json ? JSON.stringify({ rows }) : `Exported: ${rows} rows.`);
  },
  'logs verify': async (io, values, operand) => {
    const given = [operand, values.proof, values.database].filter((each) => each !== undefined);
    if (given.length !== 1) throw new UsageError('Give one of FILE, --proof FILE and --database.');
    const options = {
      key: values.key,
      checkpoints: values.checkpoints,
      archives: values.archives,
      isJson: values.json ?? false,
    };
    if (values.proof !== undefined) return verifyRowProof(io, required(values.proof), options);
    const tenant = values.tenant && tenantId(values.tenant);
    if (!values.database) return verifyLogFile(io, required(operand), options, tenant);
    await withContext(io, (ctx) => verifyDatabase(io, ctx, tenant, options));
  },
  'logs prove': async (io, values, operand) => {
    const id = required(operand).toLowerCase();
    if (!uuid.test(id)) throw new UsageError(`ROW must be ${ROW_ID}.`);
    const proof = await withContext(io, async (ctx) => proveLogRow(ctx, await tenantOf(ctx, values.tenant), id));
    io.stdout.write(proof);
  },
  'logs key': async (io, values) => {
    io.print(await withContext(io, async (ctx) => logKeyText(ctx, values.tenant && tenantId(values.tenant))));
  },
  'logs keygen': async (io, _values, operand) => io.print(await makeSigningKey(required(operand))),
  doctor: async (io, values) => {
    if (!(await doctor(io, values.json ?? false))) io.fail();
  },
  setup: async (io) => io.print(nextText(setup('.'))),
  readme: async () => writeGeneratedPages(),
  openapi: async (io, values) => {
    // Imported here, because no other command needs the routes.
    const { writeOpenapi } = await import('./docs-tables.ts');
    await writeOpenapi(io, { isCheck: values.check ?? false });
  },
};
