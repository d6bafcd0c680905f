// `strongroom admin doctor`: what it warns of and refuses, by configuration and database.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { describe, expect, test as base } from 'vitest';
import { callCommand, type CommandResult } from './support/command.ts';
import { createDatabase, createEmptyDatabase, type TestDatabase } from './support/database.ts';

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

  test('warns where the console and the proxy share one host', async ({ directory }) => {
    const nowhere = { DATABASE_URL: 'postgresql://u:p@127.0.0.1:9/d' };
    const shared = await linesOf(directory, nowhere);
    expect(shared['console']).toBe(
      '⚠ console: the console and the proxy share one host. Give the console a host name of its own: set CONSOLE_HOST',
    );
    const apart = await linesOf(directory, { ...nowhere, CONSOLE_HOST: 'console.example.com' });
    expect(apart['console']).toBe('✔ console: on console.example.com alone');
    expect((await linesOf(directory, { ...nowhere, CONSOLE: 'off' }))['console']).toBe('✔ console: off');
  });

  test('warns where the frames of the fields library share a host', async ({ directory }) => {
    const nowhere = { DATABASE_URL: 'postgresql://u:p@127.0.0.1:9/d' };
    expect((await linesOf(directory, nowhere))['fields']).toMatch(/^⚠ .*set FIELDS_ORIGIN$/);
    const apart = await linesOf(directory, { ...nowhere, FIELDS_ORIGIN: 'https://fields.example.com/' });
    expect(apart['fields']).toBe('✔ fields: on https://fields.example.com alone');
  });

  test('warns where every client would have the address of the TLS terminator', async ({ directory }) => {
    const nowhere = { DATABASE_URL: 'postgresql://u:p@127.0.0.1:9/d' };
    expect((await linesOf(directory, nowhere))['client addresses']).toMatch(/^⚠ .*TRUSTED_PROXIES is not set/);
    const named = await linesOf(directory, { ...nowhere, TRUSTED_PROXIES: '10.0.0.0/8, 127.0.0.1' });
    expect(named['client addresses']).toBe('✔ client addresses: as 10.0.0.0/8, 127.0.0.1 name them');
  });

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
      expect(superuser['access reviews']).toMatch(/^✔ /);
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
