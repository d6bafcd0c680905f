// The operator's command line as processes of its own: what it says, and what it leaves alone.
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { describe, expect, test as base } from 'vitest';
import { createDatabase, createEmptyDatabase, type TestDatabase } from './support/database.ts';
import { root, sourceEnvironment } from './support/process.ts';

type Ended = { code: number; stdout: string; stderr: string };

const main = join(root, 'src/cli/main.ts');

/** Runs a command in a directory, with nothing configured but `environment`. */
const cli = (cwd: string, args: string[], environment: Record<string, string> = {}): Promise<Ended> =>
  promisify(execFile)(process.execPath, [main, ...args], { cwd, env: { ...sourceEnvironment, ...environment } }).then(
    (output) => ({ code: 0, ...output }),
    (error: Ended) => error,
  );

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

test('sslmode=require says in its refusal what is wrong, and no library adds a warning', async ({
  directory,
  empty,
}) => {
  const { code, stdout, stderr } = await cli(directory, ['doctor'], { DATABASE_URL: `${empty.url}?sslmode=require` });
  expect([code, stderr]).toEqual([1, '']);
  expect(stdout).toMatch(/^✘ database: The database cannot be used: it offers no TLS, and sslmode asks for it\./m);
});

describe('doctor, in production', () => {
  const linesOf = async (directory: string, environment: Record<string, string>): Promise<Record<string, string>> => {
    const { stdout } = await cli(directory, ['doctor'], {
      NODE_ENV: 'production',
      MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
      ...environment,
    });
    const lines = stdout.trim().split('\n');
    return Object.fromEntries(lines.map((line) => [line.slice(2, line.indexOf(': ')), line]));
  };

  test('warns of a superuser, an owner of the log, a connection in the clear and what is missing', async ({
    directory,
  }) => {
    const database = await createDatabase();
    const { host, port, password } = database.address;
    const urlOf = (user: string, at = host) =>
      `postgresql://${user}:${encodeURIComponent(password)}@${at}:${port}/${database.address.database}`;
    const name = `server_${database.address.database}`;
    try {
      const asSuperuser = { ...database, address: { ...database.address, user: 'postgres' } };
      await query(asSuperuser, `CREATE ROLE ${name} LOGIN PASSWORD '${password}'`);
      await query(asSuperuser, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${name}`);

      const superuser = await linesOf(directory, { DATABASE_URL: urlOf('postgres') });
      expect(superuser['database role']).toMatch(/^⚠ .*"postgres" is a superuser/);
      expect(superuser['database connection']).toMatch(/^✔ .*without TLS, on this machine/);
      expect(superuser['mail']).toMatch(/^⚠ .*SMTP_URL/);
      expect(superuser['public URL']).toMatch(/^⚠ .*PUBLIC_URL is not set/);
      expect(superuser['tenants']).toMatch(/^⚠ .*none yet: .*bootstrap/);
      // On Linux this address leads to loopback; it stands for one of another machine.
      const owner = await linesOf(directory, {
        DATABASE_URL: urlOf(database.address.user, '0.0.0.0'),
        PUBLIC_URL: 'https://vault.example.com',
      });
      expect(owner['database role']).toMatch(/^⚠ .*owns the tables/);
      expect(owner['database connection']).toMatch(/^⚠ .*without TLS.*sslmode=verify-full/);
      expect(owner['public URL']).toBe('✔ public URL: https://vault.example.com');
      const server = await linesOf(directory, { DATABASE_URL: urlOf(name) });
      expect(server['database role']).toBe(`✔ database role: "${name}" can append to the audit log, and not change it`);
      await query(asSuperuser, `DROP OWNED BY ${name}`);
      await query(asSuperuser, `DROP ROLE ${name}`);
    } finally {
      await database.drop();
    }
  });
});
