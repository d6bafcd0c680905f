// The operator's command line as processes of its own: what it says, and what it leaves alone.
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { describe, expect, test as base } from 'vitest';
import { createEmptyDatabase, type TestDatabase } from './support/database.ts';
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
