// The operator's command line: its output, and what it does not change.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test as base } from 'vitest';
import { firstWords } from '../packages/cli/src/main.ts';
import { firstVariables } from '../src/cli/variable-help.ts';
import { environmentSchema } from '../src/platform/config/config.ts';
import { DEVELOPER_WORDS } from '../src/cli/developer-commands.ts';
import { callCommand, type CommandResult } from './support/command.ts';
import { createDataDir, createEmptyDatabase, type TestDatabase } from './support/database.ts';
import { root, type ServerProcess, spawnServer, untilReady } from './support/process.ts';

/** Calls a command with a data directory below `cwd`, and nothing else configured but `env`. */
const cli = (cwd: string, args: string[], env: Record<string, string> = {}): Promise<CommandResult> =>
  callCommand(args, { cwd, env });

const query = async (database: TestDatabase, sql: string): Promise<unknown[]> => {
  const client = new Client(database.address);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
};

const tablesOf = (database: TestDatabase) =>
  query(database, "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace");

const test = base.extend<{ directory: string; empty: TestDatabase }>({
  // vitest reads from the pattern what a fixture needs: nothing.
  // oxlint-disable-next-line no-empty-pattern
  directory: async ({}, use) => {
    const directory = mkdtempSync(join(tmpdir(), 'strongroom-cli-'));
    await use(directory);
    rmSync(directory, { recursive: true, force: true });
  },
  // oxlint-disable-next-line no-empty-pattern
  empty: async ({}, use) => {
    const database = await createEmptyDatabase();
    await use(database);
    await database.drop();
  },
});

/** Every command that works on a vault and must not make one. */
const vaultCommands = [
  'tenants list',
  'tenants create --name X',
  'keys create',
  'owner invite --email ada@example.com',
  'password reset --email ada@example.com',
  'formulas install',
];

describe.concurrent('in a directory without a vault', () => {
  test.for([...vaultCommands, 'migrate', 'bootstrap --tenant-name X'])(
    '%s makes none: it says what to do',
    async (words, { directory, expect }) => {
      const { code, stdout, stderr } = await cli(directory, words.split(' '));
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toContain(`There is no vault in ${join(directory, 'data')}, and this command makes none.`);
      for (const fix of ['DATA_DIR=', 'DATABASE_URL', 'npm start']) expect(stderr).toContain(fix);
      expect(readdirSync(directory)).toEqual([]);
    },
  );

  test('doctor says so, makes none, and fails nothing', async ({ directory, expect }) => {
    const { code, stdout } = await cli(directory, ['doctor']);
    expect(stdout).toMatch(/^⚠ database: there is none in .*data yet, and no vault\. To make both: npm start$/m);
    expect(code).toBe(0);
    expect(readdirSync(directory)).toEqual([]);
  });
});

describe('on a database without a vault', () => {
  test('commands make neither tables nor a key', async ({ directory, empty }) => {
    for (const words of vaultCommands.slice(0, 2)) {
      const { code, stderr } = await cli(directory, words.split(' '), { DATABASE_URL: empty.url });
      expect(code).toBe(1);
      expect(stderr).toContain('There is no vault in the database that DATABASE_URL names');
    }
    expect(await tablesOf(empty)).toEqual([]);
    expect(readdirSync(directory)).toEqual([]);
  });

  test('migrate makes the tables alone, and bootstrap the vault', async ({ directory, empty }) => {
    const environment = { DATABASE_URL: empty.url };
    expect((await cli(directory, ['migrate'], environment)).stdout).toMatch(/^Applied: /);
    expect(await query(empty, 'SELECT id FROM instance')).toEqual([]);
    expect((await cli(directory, ['tenants', 'list'], environment)).code).toBe(1);
    expect(readdirSync(directory)).toEqual([]);
    expect((await cli(directory, ['bootstrap', '--tenant-name', 'First'], environment)).code).toBe(0);
    expect((await cli(directory, ['tenants', 'list'], environment)).stdout).toMatch(/^\S{36} {2}First\n$/);
  });
});

describe('help', () => {
  test('of everything lists the commands; of each it says what it does, its options and an example', async ({
    directory,
  }) => {
    const first = (await cli(directory, [])).stdout;
    expect((await cli(directory, ['admin', '--help'])).stdout).toBe(first);
    expect(first.match(/^ {2}[a-z]/gm)).toHaveLength(12);
    expect(first.match(/^ {2}[A-Z_]+ {2,}\S/gm)).toHaveLength(12);
    const all = (await cli(directory, ['--help', '--all'])).stdout;
    const variables = Object.keys(environmentSchema.shape);
    expect([...all.matchAll(/^ {2}([A-Z][A-Z0-9_]+) {2,}\S.*\.$/gm)].map(([, name]) => name)).toEqual(variables);
    const ofStart = (await cli(directory, ['start', '--help'])).stdout;
    for (const text of Object.keys(firstVariables)) expect(ofStart).toContain(text);
    const commands = [...all.matchAll(/^ {2}([a-z]+(?: [a-z]+)?)(?: [A-Z]+)? {2,}\S/gm)].map(
      ([, name]) => name as string,
    );
    expect(commands.length).toBeGreaterThanOrEqual(15);
    const helps = await Promise.all(commands.map((name) => cli(directory, [...name.split(' '), '--help'])));
    for (const [index, { code, stdout }] of helps.entries()) {
      const name = commands[index] as string;
      expect([name, code]).toEqual([name, 0]);
      expect(stdout).toContain(`npm run -s strongroom -- admin ${name}`);
      expect(stdout).toMatch(/\n\nExamples:\n {2}npm run/);
      // Each option of the synopsis has a line that describes it.
      const [synopsis = ''] = stdout.split('\n');
      for (const [option] of synopsis.matchAll(/--[a-z-]+/g))
        if (option !== '--') expect(stdout).toMatch(new RegExp(`^ {2}${option}\\b.* {2}\\S`, 'm'));
    }
    expect(new Set(helps.map(({ stdout }) => stdout)).size).toBe(commands.length);
    expect(readdirSync(directory)).toEqual([]);
  });

  test('the first word of several commands lists them, and --version tells the release', async ({ directory }) => {
    const tenants = await cli(directory, ['tenants']);
    expect([tenants.code, tenants.stderr]).toEqual([0, '']);
    for (const name of ['tenants create', 'tenants list']) expect(tenants.stdout).toContain(name);
    expect(tenants.stdout).not.toContain('keys');
    expect((await cli(directory, ['--version'])).stdout).toBe('strongroom 0.2.0\n');
  });

  test('a misuse is one line: what is wrong, the nearest name, and where the help is', async ({ directory }) => {
    const help = (words: string) => `npm run -s strongroom -- admin ${words}--help\n`;
    const wrong: [words: string, sentence: string, help: string][] = [
      ['tenants create', 'The option --name is needed.', 'tenants create '],
      ['tenants list --email x', 'tenants list has no option --email.', 'tenants list '],
      ['keys revoke', 'api-keys revoke needs KEY.', 'api-keys revoke '],
      ['doctor now', 'doctor takes no "now".', 'doctor '],
      ['keys fly', 'There is no command "keys fly".', 'keys '],
      ['tenat list', 'There is no command "tenat list". Did you mean "tenants list"?', ''],
      ['tenants lst', 'There is no command "tenants lst". Did you mean "tenants list"?', 'tenants '],
      ['docter --json', 'There is no command "docter". Did you mean "doctor"?', ''],
      ['qqqqqqqqqqqq', 'There is no command "qqqqqqqqqqqq".', ''],
      ['tenants create --nme X', 'There is no option --nme. Did you mean --name?', 'tenants create '],
      [
        'keys create --permision=token:read',
        'There is no option --permision. Did you mean --permissions?',
        'api-keys create ',
      ],
    ];
    for (const [words, sentence, more] of wrong) {
      const { code, stderr } = await cli(directory, words.split(' '));
      expect(code, words).toBe(1);
      expect(stderr.slice(0, sentence.length)).toBe(sentence);
      expect(stderr.endsWith(help(more)), stderr).toBe(true);
      expect(stderr.trim().split('\n')).toHaveLength(1);
    }
  });
});

describe('beside a running server', { concurrent: false }, () => {
  let dataDir: string;
  let server: ServerProcess;
  beforeAll(async () => {
    dataDir = createDataDir('cli-server');
    server = await spawnServer(dataDir);
    await untilReady(server);
  });
  afterAll(async () => {
    server.child.kill();
    await server.exited;
    rmSync(dataDir, { recursive: true, force: true });
  });

  const command = (...args: string[]) => cli(root, args, { DATA_DIR: dataDir });

  test('keys are listed without their secrets, and a revoked one is refused within a second', async () => {
    const made = JSON.parse((await command('keys', 'create', '--name', 'Checkout', '--json')).stdout) as {
      api_key: string;
      application_id: string;
    };
    const statusOf = async () =>
      (await fetch(`${server.base_url}/logs`, { headers: { 'svc-api-key': made.api_key } })).status;
    expect(await statusOf()).toBe(200);
    const listed = (await command('keys', 'list', '--json')).stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(listed).toHaveLength(2);
    const [key] = listed.filter(({ application_name }) => application_name === 'Checkout');
    expect(key).toEqual({
      key: made.api_key.slice(0, made.api_key.lastIndexOf('_')),
      application_id: made.application_id,
      application_name: 'Checkout',
      created_at: expect.stringMatching(/Z$/),
    });
    expect((await command('keys', 'list')).stdout).toContain(`${key.key}  `);

    expect((await command('keys', 'revoke', 'svc_test_0000000000000000')).stderr).toContain(
      'The tenant has no such key.',
    );
    expect((await command('keys', 'revoke', key.key)).stdout).toBe('Revoked.\n');
    await expect.poll(statusOf, { timeout: 2_000 }).toBe(401);
    expect((await command('keys', 'list')).stdout).not.toContain(key.key);
    expect((await command('keys', 'revoke', key.key)).code).toBe(1);
    const logs = await fetch(`${server.base_url}/logs?entity_id=${made.application_id}`, {
      headers: { 'svc-api-key': server.credentials().api_key },
    });
    expect(((await logs.json()) as { data: object[] }).data).toContainEqual(
      expect.objectContaining({ message: 'API key revoked', actor_type: 'operator', operation: 'update' }),
    );
  });

  test('a key is added with an end, rotated at once or after a time, and revoked', async () => {
    const json = async (...words: string[]) => JSON.parse((await command(...words, '--json')).stdout);
    const statusOf = async (key: string) =>
      (await fetch(`${server.base_url}/logs`, { headers: { 'svc-api-key': key } })).status;
    const publicPart = (key: string) => key.slice(0, key.lastIndexOf('_'));
    const { application_id, api_key } = await json('keys', 'create', '--name', 'Rotated');
    const expires_at = '2099-03-01T00:00:00.000Z';
    const added = await json('api-keys', 'add', application_id, '--name', 'Second', '--expires', expires_at);
    expect(added).toMatchObject({ application_id, expires_at });
    expect(await Promise.all([api_key, added.api_key].map(statusOf))).toEqual([200, 200]);

    const later = await json('api-keys', 'rotate', publicPart(api_key), '--after', '1h');
    const endsInMs = Date.parse(later.old_key_ends_at) - Date.now();
    expect(endsInMs).toBeGreaterThan(3_500_000);
    expect(endsInMs).toBeLessThan(3_600_001);
    expect(await Promise.all([api_key, later.api_key].map(statusOf))).toEqual([200, 200]);

    const atOnce = await json('api-keys', 'rotate', publicPart(added.api_key));
    await expect.poll(() => statusOf(added.api_key), { timeout: 2_000 }).toBe(401);
    expect(await statusOf(atOnce.api_key)).toBe(200);

    const listed = (await command('api-keys', 'list')).stdout.split('\n').filter((line) => line.includes('Rotated'));
    expect(listed).toHaveLength(3);
    expect(listed.filter((line) => line.endsWith(`  ends ${later.old_key_ends_at}`))).toHaveLength(1);
    expect((await command('api-keys', 'revoke', publicPart(atOnce.api_key))).stdout).toBe('Revoked.\n');
    await expect.poll(() => statusOf(atOnce.api_key), { timeout: 2_000 }).toBe(401);
    expect(await statusOf(later.api_key)).toBe(200);

    const refused: [string[], string][] = [
      [['add', crypto.randomUUID()], 'The application was not found.'],
      [['add', 'Checkout'], 'APPLICATION must be a UUID.'],
      [['add', application_id, '--expires', 'tomorrow'], 'The option --expires must be a time (RFC 3339).'],
      [['add', application_id, '--expires', '2020-01-01T00:00:00Z'], 'The key must end in the future.'],
      [['rotate', 'svc_test_0000000000000000'], 'The API key was not found.'],
      [['rotate', publicPart(later.api_key), '--after', 'soon'], 'The option --after must be'],
    ];
    for (const [words, sentence] of refused) {
      const { code, stderr } = await command('api-keys', ...words);
      expect([code, stderr]).toEqual([1, expect.stringContaining(sentence)]);
    }
  });

  test('doctor --json is one line with every check', async () => {
    const { code, stdout } = await command('doctor', '--json');
    expect(code).toBe(0);
    expect(stdout.trim().split('\n')).toHaveLength(1);
    const { ok, checks } = JSON.parse(stdout) as {
      ok: boolean;
      checks: { check: string; status: string; detail: string }[];
    };
    expect(ok).toBe(true);
    expect(checks.map(({ check }) => check)).toEqual(
      expect.arrayContaining([
        'Node',
        'configuration',
        'sandbox',
        'mail',
        'database',
        'root key',
        'migrations',
        'tenants',
      ]),
    );
    for (const { status, detail } of checks)
      expect([status, detail]).toEqual([expect.stringMatching(/^(?:ok|warning)$/), expect.stringMatching(/./)]);
    const failed = await cli(root, ['doctor', '--json'], { DATABASE_URL: 'postgresql://u:p@127.0.0.1:9/d' });
    expect([failed.code, JSON.parse(failed.stdout)]).toEqual([1, expect.objectContaining({ ok: false })]);
  });
});

test("developers' commands are found too, and an operator's name of before comes first", async () => {
  expect(firstWords().toSorted()).toEqual(DEVELOPER_WORDS);
  const directory = mkdtempSync(join(tmpdir(), 'strongroom-cli-'));
  const env = { XDG_CONFIG_HOME: directory };
  const developers = await cli(directory, ['token', 'get', 'x'], env);
  expect([developers.code, developers.stderr]).toEqual([4, expect.stringContaining('Run strongroom login')]);
  expect((await cli(directory, ['logs', 'tail', '--help'], env)).stdout).toContain('--disclosure');
  expect((await cli(directory, ['api-keys', 'add', '--help'], env)).stdout).toContain('--tenant ID');
  expect((await cli(directory, ['admin', 'token', 'get', 'x'], env)).stderr).toContain('There is no command');
  expect((await cli(directory, ['admin', 'keys', 'create', '--help'], env)).stdout).toContain('admin api-keys create');
  rmSync(directory, { recursive: true, force: true });
});
