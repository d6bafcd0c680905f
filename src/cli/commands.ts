// The operator's command line: reads arguments, calls the rule, prints. JSON goes to stdout alone, so that scripts can rely on it.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import {
  createApplication,
  createTenant,
  inviteOwner,
  type MadeTenant,
  type NewTenantOptions,
  type OwnerLink,
  parsePermissions,
} from '../access/bootstrap.ts';
import { type Config, loadConfig } from '../config.ts';
import { type Context, createContext, failureText, migrateDatabase } from '../context.ts';
import type { Sensitive } from '../crypto/sensitive.ts';
import { readCredentials } from '../dev-credentials.ts';
import { StartError } from '../errors.ts';
import { resetPassword } from '../people/passwords.ts';
import { installOfficialFormulas } from '../runtime/official.ts';
import { withConfigurationTable } from './configuration.ts';
import { doctor } from './doctor.ts';
import { openapiDocument } from './openapi.ts';
import { runReactorFile } from './reactor-run.ts';
import { setup } from './setup.ts';

const usage = `npm run -s strongroom -- COMMAND: the operator's commands. Each takes its database and keys from the same environment
as the server.

  bootstrap --tenant-name NAME [--permissions LIST] [--owner-email ADDRESS] [--json]
                                                               the first tenant of an empty vault, and its key; with
                                                               an address also the link by which its owner joins
  tenants create --name NAME [--permissions LIST] [--owner-email ADDRESS] [--json]
                                                               a further tenant with an application and its key
  tenants list [--json]
  keys create [--tenant ID] [--name NAME] [--permissions LIST] [--rules JSON] [--json]
                                                               an application with a key in a tenant
  owner invite --email ADDRESS [--tenant ID] [--json]          a link for the owner of a tenant that has none yet
  password reset --email ADDRESS [--json]                      a new password for somebody who cannot sign in; ends
                                                               their sessions
  formulas install [--json]                                    installs or updates the official formulas
  migrate                                                      applies pending migrations
  doctor                                                       checks what a start needs, each with its fix
  setup                                                        writes .env with random secrets for docker compose
  reactor run FILE [--args JSON] [--configuration JSON] [--json]
                                                               runs a file in the sandbox, on args and no vault
  openapi [--check]                                            writes openapi/openapi.json, or compares it
  readme                                                       writes the README's table of variables anew
`;

const options = {
  name: { type: 'string' },
  'tenant-name': { type: 'string' },
  tenant: { type: 'string' },
  'owner-email': { type: 'string' },
  email: { type: 'string' },
  permissions: { type: 'string' },
  rules: { type: 'string' },
  args: { type: 'string' },
  configuration: { type: 'string' },
  json: { type: 'boolean' },
  check: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

type Values = ReturnType<typeof parseArgs<{ options: typeof options; allowPositionals: true }>>['values'];

/** A link leads to the development server beside which a command runs, wherever that one listens. */
const withDevAddress = (config: Config): Config => {
  const base_url = config.mode === 'development' ? readCredentials(config)?.['base_url'] : undefined;
  return typeof base_url === 'string' ? { ...config, publicUrl: config.publicUrl ?? base_url } : config;
};

/** Log lines would mix with the answer. */
const quietConfig = (): Config => ({ ...loadConfig(), logLevel: 'silent' });

/** Runs work on a context of its own, beside a running server or without one. */
const withContext = async <T>(
  work: (ctx: Context) => Promise<T>,
  role: 'command' | 'bootstrap' = 'command',
): Promise<T> => {
  const ctx = await createContext(withDevAddress(quietConfig()), role);
  try {
    return await work(ctx);
  } finally {
    await ctx.close();
  }
};

const required = (value: string | undefined, what: string): string => {
  if (value === undefined || value === '') throw new StartError(`${what} is needed.\n\n${usage}`);
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
});

/** What a command was run for: it is printed once, and kept nowhere. */
const shown = (secret: Sensitive<string>): string => secret.reveal();

const linkOf = ({ link }: OwnerLink): string => shown(link);

const ownerText = (owner: OwnerLink): string =>
  `owner_link      ${linkOf(owner)}\n\nWhoever opens the link and accepts is the owner: it works once, within 72 hours. ${owner.isMailed ? 'It goes to them by mail, too.' : 'No mail is sent: pass it on yourself.'}`;

const printMade = ({ tenant_id, application_id, api_key, owner }: MadeTenant, json: boolean | undefined): void => {
  const key = shown(api_key);
  const owner_link = owner && linkOf(owner);
  if (json) console.log(JSON.stringify({ tenant_id, application_id, api_key: key, owner_link }));
  else
    console.log(
      `tenant_id       ${tenant_id}\napplication_id  ${application_id}\napi_key         ${key}\n${owner ? `${ownerText(owner)}\n` : ''}\nThe key is shown once. Keep it in your secret manager.`,
    );
};

/** The tenant that is named, or the only one. */
const tenantOf = async (ctx: Context, tenant: string | undefined): Promise<string> => {
  if (tenant !== undefined) {
    if (!uuid.test(tenant)) throw new StartError('The option --tenant must be a UUID.');
    return tenant;
  }
  const tenants = await ctx.db.findTenants();
  if (tenants.length > 1)
    throw new StartError(
      'There are several tenants: say which by --tenant ID. List them: npm run -s strongroom -- tenants list',
    );
  return required(tenants[0]?.id, 'The option --tenant');
};

const commands: Record<string, (values: Values, operand: string | undefined) => Promise<void>> = {
  bootstrap: async (values) => {
    const name = required(values['tenant-name'], 'The option --tenant-name');
    const made = await withContext(
      (ctx) => createTenant(ctx, { ...applicationOptions(values, name), onlyFirst: true }),
      'bootstrap',
    );
    if (!made)
      throw new StartError(
        'The vault has a tenant already. A further one: npm run -s strongroom -- tenants create --name NAME',
      );
    printMade(made, values.json);
  },
  'tenants create': async (values) => {
    const name = required(values.name, 'The option --name');
    const made = await withContext((ctx) => createTenant(ctx, applicationOptions(values, name)));
    if (made) printMade(made, values.json);
  },
  'tenants list': async (values) => {
    const tenants = await withContext((ctx) => ctx.db.findTenants());
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
  'owner invite': async (values) => {
    const email = required(values.email, 'The option --email');
    const owner = await withContext(async (ctx) => inviteOwner(ctx, await tenantOf(ctx, values.tenant), email));
    console.log(values.json ? JSON.stringify({ owner_link: linkOf(owner) }) : ownerText(owner));
  },
  'password reset': async (values) => {
    const email = required(values.email, 'The option --email');
    const password = shown(await withContext((ctx) => resetPassword(ctx, email)));
    console.log(
      values.json
        ? JSON.stringify({ password })
        : `password        ${password}\n\nIt is temporary: change it in the console under People. It is shown once, and all sessions of the account have\nended.`,
    );
  },
  'formulas install': async (values) => {
    const installed = await withContext((ctx) => installOfficialFormulas(ctx));
    for (const { id, name, outcome } of installed)
      console.log(values.json ? JSON.stringify({ id, name, outcome }) : `${id}  ${outcome.padEnd(9)}  ${name}`);
  },
  'reactor run': async (values, operand) => {
    const isWell = await runReactorFile({
      path: required(operand, 'A file'),
      args: parseJsonOption(values.args, 'args') ?? {},
      configuration: parseJsonOption(values.configuration, 'configuration') ?? {},
      json: values.json,
    });
    if (!isWell) process.exitCode = 1;
  },
  migrate: async () => {
    const { applied, total } = await migrateDatabase(quietConfig());
    console.log(applied.length > 0 ? `Applied: ${applied.join(', ')}` : `Up to date: ${total} migrations.`);
  },
  doctor: async () => {
    if (!(await doctor(process.stdout))) process.exitCode = 1;
  },
  setup: async () => {
    setup('.env');
    console.log('.env written with random secrets (0600). Next: docker compose up -d');
  },
  readme: async () => {
    const path = new URL('../../README.md', import.meta.url);
    writeFileSync(path, withConfigurationTable(readFileSync(path, 'utf8')));
  },
  openapi: async (values) => {
    const text = await openapiDocument();
    const path = new URL('../../openapi/openapi.json', import.meta.url);
    if (values.check) {
      if (readFileSync(path, 'utf8') !== text)
        throw new StartError('openapi/openapi.json is stale. Write it anew: npm run openapi');
      return;
    }
    mkdirSync(new URL('.', path), { recursive: true });
    writeFileSync(path, text);
    console.log('openapi/openapi.json written.');
  },
};

const run = async (): Promise<void> => {
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  if (values.help || positionals.length === 0) return void console.log(usage);
  const words = positionals.join(' ');
  // One command takes an operand.
  const [, name = words, operand] = /^(reactor run)(?: (.*))?$/.exec(words) ?? [];
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command) throw new StartError(`There is no command "${words}".\n\n${usage}`);
  await command(values, operand);
};

run()
  .catch((error: unknown) => {
    // What parseArgs refuses, it says about the command line alone.
    const isUsage = (error as NodeJS.ErrnoException)?.code?.startsWith('ERR_PARSE_ARGS');
    console.error(isUsage ? (error as Error).message : failureText(error));
    process.exitCode = 1;
  })
  // Everything is closed; the engine of the migrations leaves a timer behind that would hold the terminal for ten seconds.
  .finally(() => process.exit());
