// Applications and their API keys. A key is printed once, alone on standard output.
import type { Command } from 'commander';
import type { ApiKey, Application, Strongroom } from '@strongroom/node';
import { summarizeRights } from '../../../../src/modules/access/rights-summary.ts';
import { collect, define, defineGroup, type Scope } from '../define.ts';
import { CliError, EXIT, usageError } from '../exit-codes.ts';
import { findRecord, readAll } from '../find.ts';
import { readJsonOption } from '../input.ts';
import type { Columns, Io } from '../io.ts';
import { rightsOf } from '../rights.ts';

const SIZE = 100;

const findApplication = (vault: Strongroom, given: string): Promise<Application> =>
  findRecord(vault.applications, 'application', given);

const columns: Columns<Application> = [
  ['id', ({ id }) => id],
  ['name', ({ name }) => name],
  ['type', ({ type }) => type],
  [
    'permissions',
    ({ permissions, rules }) =>
      [...permissions, ...(rules.length > 0 ? [`${rules.length} ${rules.length === 1 ? 'rule' : 'rules'}`] : [])].join(
        ' ',
      ),
  ],
  ['last used', ({ last_used_at }) => last_used_at],
];

export const addApplications = (scope: Scope, program: Command): void => {
  const group = defineGroup(program, 'applications', 'applications: what API keys belong to');
  define(scope, group, {
    signature: 'list',
    summary: 'lists the applications',
    run: async ({ io, openVault }) =>
      io.list(await readAll((await openVault()).applications.list({ size: SIZE })), columns),
  });
  define(scope, group, {
    signature: 'show <application>',
    summary: 'prints an application, and in words what its keys can do and what they cannot',
    run: async ({ io, args: [name = ''], openVault }) => {
      const vault = await openVault();
      const { id } = await findApplication(vault, name);
      // A list does not say which rules are suspended.
      const application = await vault.applications.get(id);
      io.show(application);
      if (io.json) return;
      const { can, cannot } = summarizeRights(rightsOf(application));
      for (const line of can) io.print(`can     ${line}`);
      for (const line of cannot) io.print(`cannot  ${line}`);
    },
  });
  define<{ permission?: string[]; rules?: string; type?: string; key: boolean }>(scope, group, {
    signature: 'create <name>',
    summary: 'creates an application, and prints its API key once',
    options: [
      ['--permission <permission>', 'permission such as token:read; may be repeated', collect],
      ['--rules <json>', 'access rules as an array, or @FILE'],
      ['--type <type>', 'private, public or management; private if not given'],
      ['--no-key', 'without a key: api-keys add makes one'],
    ],
    run: async ({ io, args: [name = ''], options, openVault }) => {
      const vault = await openVault();
      const rules = options.rules === undefined ? undefined : await readJsonOption(io, options.rules, '--rules');
      const application = await vault.applications.create({
        name,
        permissions: options.permission,
        rules: rules as Application['rules'] | undefined,
        type: options.type as 'private' | undefined,
        create_key: options.key,
      });
      showKey(io, application, `Created the application ${application.id}.`);
    },
  });
  define(scope, group, {
    signature: 'delete <application>',
    summary: 'deletes an application, and ends its keys',
    run: async ({ io, args: [name = ''], openVault }) => {
      const vault = await openVault();
      const { id } = await findApplication(vault, name);
      await vault.applications.delete(id);
      if (io.json) io.show({ id, deleted: true });
      else io.say('Deleted. Its keys have ended.');
    },
  });
  addKeys(scope, program);
};

/** The key alone goes to standard output, so that a script can take it. */
const showKey = (io: Io, record: { key?: string }, sentence: string): void => {
  if (io.json) return io.show(record);
  io.say(sentence);
  if (record.key === undefined) return;
  io.print(record.key);
  io.say('The key is shown this once. Keep it where only its program reads it.');
};

/** The public part of a key, as it is or within a key or its beginning `svc_live_ID`. */
const readKeyId = (given: string): string => /^svc_[a-z]+_([A-Za-z0-9]{16})/.exec(given)?.[1] ?? given;

/** Says that the key of the command itself has ended, or ends. */
const sayOwn = (io: Io, { key }: { key: string }, id: string): void => {
  if (readKeyId(key) === id)
    io.say('This command used that key: store another one with strongroom login, or set STRONGROOM_API_KEY.');
};

type Found = { application: Application; key: ApiKey };

/** Looks through all applications, because a key does not say whose it is. */
const findKey = async (vault: Strongroom, given: string): Promise<Found> => {
  const id = readKeyId(given);
  for await (const application of vault.applications.list({ size: SIZE })) {
    const { data } = await vault.applications.listKeys(application.id);
    const key = data.find((each) => each.id === id);
    if (key) return { application, key };
  }
  throw new CliError('There is no API key with this id: api-keys list prints them.', EXIT.notFound);
};

const keyColumns: Columns<Found> = [
  ['id', ({ key }) => key.id],
  ['application', ({ application }) => application.name],
  ['name', ({ key }) => key.name],
  ['ends', ({ key }) => key.expires_at],
  ['last used', ({ key }) => key.last_used_at],
];

const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** @returns milliseconds. @throws CliError. */
const readDuration = (text: string): number => {
  const [, number, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const ms = UNITS[unit];
  if (number === undefined || ms === undefined) throw usageError('--after must be such as 90s, 15m, 24h or 7d.');
  return Number(number) * ms;
};

const addKeys = (scope: Scope, program: Command): void => {
  const group = defineGroup(program, 'api-keys', 'API keys of applications');
  define(scope, group, {
    signature: 'list [application]',
    summary: 'lists the API keys by their public part',
    run: async ({ io, args: [name], openVault }) => {
      const vault = await openVault();
      const applications =
        name === undefined
          ? await readAll(vault.applications.list({ size: SIZE }))
          : [await findApplication(vault, name)];
      const found: Found[] = [];
      for (const application of applications)
        for (const key of (await vault.applications.listKeys(application.id)).data) found.push({ application, key });
      if (io.json) found.forEach(({ key }) => io.show(key));
      else io.list(found, keyColumns);
    },
  });
  define<{ name?: string; expires?: string; address?: string[] }>(scope, group, {
    signature: 'add <application>',
    summary: 'adds an API key to an application, whose other keys go on to work',
    options: [
      ['--name <name>', 'what the key is for'],
      ['--expires <time>', 'when it ends, such as 2027-03-01T00:00:00Z'],
      ['--address <network>', 'address or network that may use it; may be repeated', collect],
    ],
    run: async ({ io, args: [given = ''], options, openVault }) => {
      const vault = await openVault();
      const { id } = await findApplication(vault, given);
      const { name, expires, address } = options;
      const request = { name, expires_at: expires, allowed_addresses: address };
      const key = await vault.applications.createKey(id, request);
      showKey(io, key, `Added the API key ${key.id}.`);
    },
  });
  define<{ after?: string }>(scope, group, {
    signature: 'rotate <key>',
    summary: 'adds an API key like another one, and ends the other: at once, or after a time',
    more: 'KEY is its public part, as api-keys list prints it.',
    options: [['--after <duration>', 'how long the old key still works, such as 15m or 24h']],
    run: async ({ io, args: [given = ''], options, openVault, findProfile }) => {
      const ms = options.after === undefined ? undefined : readDuration(options.after);
      const vault = await openVault();
      const { application, key } = await findKey(vault, given);
      const { name, expires_at, allowed_addresses } = key;
      const made = await vault.applications.createKey(application.id, { name, expires_at, allowed_addresses });
      // The new key is printed before the old one ends: whatever happens then, it is not lost.
      showKey(io, made, `Added the API key ${made.id}.`);
      const until = ms === undefined ? undefined : new Date(Date.now() + ms).toISOString();
      const ends = until === undefined || (expires_at !== undefined && expires_at < until) ? expires_at : until;
      if (ms === undefined) await vault.applications.deleteKey(application.id, key.id);
      else await vault.applications.updateKey(application.id, key.id, { name, allowed_addresses, expires_at: ends });
      if (!io.json) io.say(ms === undefined ? `Ended ${key.id}.` : `${key.id} ends at ${ends}.`);
      sayOwn(io, findProfile(), key.id);
    },
  });
  define(scope, group, {
    signature: 'revoke <key>',
    summary: 'ends one API key, at once',
    run: async ({ io, args: [given = ''], openVault, findProfile }) => {
      const vault = await openVault();
      const { application, key } = await findKey(vault, given);
      await vault.applications.deleteKey(application.id, key.id);
      if (io.json) io.show({ id: key.id, revoked: true });
      else io.say(`Ended ${key.id} of ${JSON.stringify(application.name)}.`);
      sayOwn(io, findProfile(), key.id);
    },
  });
};
