// What a start refuses, and with which words: pending migrations, missing and wrong keys, a database or a directory that cannot be used.
// Tests run concurrently, in few lanes: executors of servers that run as root would share a limit of the system.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { createEmptyDatabase } from '../support/database.ts';
import { cli, failing, query, test } from '../support/place.ts';
import { untilReady } from '../support/process.ts';

describe.concurrent('a server with a database of its own', () => {
  describe('pending migrations', { concurrent: false }, () => {
    test('are a failed check of doctor, which applies none', async ({ dataDir, start }) => {
      const database = await createEmptyDatabase();
      const environment = { DATABASE_URL: database.url };
      for (const MIGRATE_ON_START of ['true', 'false']) {
        const { code, stdout } = await failing(dataDir, ['doctor'], { ...environment, MIGRATE_ON_START });
        expect(code).toBe(1);
        expect(stdout).toMatch(/✘ migrations: .* pending .*npm run migrate/);
        expect(stdout).toContain('✔ root key');
        expect(stdout).toContain('npm run -s strongroom -- admin bootstrap');
      }
      const tables = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace";
      expect(await query(database.url, tables)).toEqual([]);
      expect(readdirSync(dataDir)).toEqual([]);

      const refused = await start({ ...environment, MIGRATE_ON_START: 'false' });
      expect(await refused.exited).toBe(1);
      expect(refused.output()).toContain('npm run migrate');
      await cli(dataDir, ['migrate'], environment);
      await cli(dataDir, ['bootstrap', '--tenant-name', 'First'], environment);
      await query(
        database.url,
        `DELETE FROM _prisma_migrations WHERE migration_name = (SELECT max(migration_name) FROM _prisma_migrations)`,
      );
      const behind = await failing(dataDir, ['doctor'], { ...environment, MIGRATE_ON_START: 'false' });
      expect(behind.stdout).toMatch(/✔ root key: opens[^]*✘ migrations: 1 of \d+ pending/);
      const early = await start({ ...environment, MIGRATE_ON_START: 'false' });
      expect(await early.exited).toBe(1);
      const [{ left }] = await query(database.url, 'SELECT count(*)::int AS left FROM _prisma_migrations');
      expect(early.output()).toMatch(
        left === 0 ? /no tables yet.*npm run migrate/ : /1 of \d+ migrations are pending \(\w+\).*npm run migrate/,
      );
      await database.drop();
    });
  });

  describe('with DATABASE_URL set', { concurrent: false }, () => {
    test('the embedded database is never touched, and production needs its keys', async ({
      expect,
      dataDir,
      database,
      start,
    }) => {
      const production = { NODE_ENV: 'production', DATABASE_URL: database.url };
      const keyless = await start(production);
      expect(await keyless.exited).toBe(1);
      expect(keyless.output()).toMatch(/MASTER_KEY: .*openssl|MASTER_KEY: .*urandom/);

      const MASTER_KEY = Buffer.alloc(32, 5).toString('base64');
      const server = await start({ ...production, MASTER_KEY, SANDBOX_JAILL: 'bwrap' });
      await untilReady(server);
      // The log is written a moment after a line.
      await expect.poll(() => server.output(), { timeout: 10_000 }).toContain('"listening"');
      expect(server.output()).toMatch(/"warn".*no tenant: every API route answers 503.*bootstrap --tenant-name NAME/);
      expect(server.output()).toMatch(/"warn".*SANDBOX_JAILL is no variable .* did you mean SANDBOX_JAIL\?/);
      expect(server.output()).toContain('the console and the proxy share one host');
      expect(server.output()).toMatch(/"warn".*the frames that collect cards share a host .* set FIELDS_ORIGIN/);
      expect(await (await fetch(`${server.base_url}/readyz`)).json()).toEqual({
        status: 'ok',
        initialized: false,
      });
      expect((await fetch(`${server.base_url}/tokens/x`)).status).toBe(503);
      const made = JSON.parse(
        (await cli(dataDir, ['bootstrap', '--tenant-name', 'First', '--json'], { ...production, MASTER_KEY })).stdout,
      );
      expect(made.api_key).toMatch(/^svc_live_[0-9A-Za-z]{16}_[0-9A-Za-z]{39}$/);
      const answer = await fetch(`${server.base_url}/tokenize`, {
        method: 'POST',
        headers: { 'svc-api-key': made.api_key, 'content-type': 'application/json' },
        body: '"x"',
      });
      expect(answer.status).toBe(200);
      expect(() => statSync(join(dataDir, 'pg'))).toThrow();
      expect(() => statSync(join(dataDir, 'dev-credentials.json'))).toThrow();
      server.child.kill('SIGTERM');
      expect(await server.exited).toBe(0);
      // It drains without being told to: DRAIN_SECONDS is not set.
      expect(server.output()).toMatch(/"seconds":5.*"draining"|"draining".*"seconds":5/);

      // A development server must not open what production sealed, nor the other way round.
      const other = await start({ DATABASE_URL: database.url, MASTER_KEY });
      expect(await other.exited).toBe(1);
      expect(other.output()).toContain('belongs to a production vault');
      const keylessOther = await start({ DATABASE_URL: database.url });
      expect(await keylessOther.exited).toBe(1);
      expect(keylessOther.output()).toContain('belongs to a production vault');
      expect(readdirSync(dataDir)).toEqual([]);
    });

    test('a deployment supplies the first key in a file; a typo in it stops the start', async ({
      dataDir,
      database,
      start,
    }) => {
      const environment = {
        DATABASE_URL: database.url,
        MASTER_KEY: Buffer.alloc(32, 6).toString('base64'),
        BOOTSTRAP_API_KEY_FILE: join(dataDir, 'key'),
      };
      writeFileSync(environment.BOOTSTRAP_API_KEY_FILE, 'svc_test_typo');
      const refused = await start(environment);
      expect(await refused.exited).toBe(1);
      expect(refused.output()).toContain('BOOTSTRAP_API_KEY_FILE');
      expect(refused.output()).not.toContain('svc_test_typo');
    });
  });

  describe('the root key of a development server', { concurrent: false }, () => {
    const keyFiles = (dataDir: string) => readdirSync(dataDir).filter((name) => name.startsWith('master.key'));

    test('is kept before the vault that needs it exists, and the next start goes on with it', async ({
      dataDir,
      database,
      start,
    }) => {
      const environment = { DATABASE_URL: database.url };
      // The start fails where the vault is written, which is where a crash would lose a key that is kept later.
      await query(database.url, 'REVOKE INSERT ON instance FROM CURRENT_USER');
      const failed = await start(environment);
      expect(await failed.exited).toBe(1);
      expect(failed.output()).toContain('This failure is unexpected');
      expect(failed.output()).not.toMatch(/permission denied|INSERT/);
      expect(keyFiles(dataDir)).toEqual(['master.key']);
      const path = join(dataDir, 'master.key');
      expect(statSync(path).mode & 0o777).toBe(0o600);
      const key = readFileSync(path, 'utf8');
      await query(database.url, 'GRANT INSERT ON instance TO CURRENT_USER');
      const server = await start(environment);
      await untilReady(server);
      expect(readFileSync(path, 'utf8')).toBe(key);
      server.child.kill('SIGTERM');
      expect(await server.exited).toBe(0);
    });

    test('is one for servers that start at once', async ({ dataDir, database, start }) => {
      const servers = await Promise.all([1, 2, 3].map(() => start({ DATABASE_URL: database.url })));
      await Promise.all(servers.map(untilReady));
      expect(keyFiles(dataDir)).toEqual(['master.key']);
      for (const { child } of servers) child.kill('SIGTERM');
      expect(await Promise.all(servers.map(({ exited }) => exited))).toEqual([0, 0, 0]);
    });
  });
});

test.concurrent('a database that does not answer is reported with a command that checks it', async ({ start }) => {
  const refused = await start({ DATABASE_URL: 'postgresql://user:hidden-password@127.0.0.1:9/none' });
  expect(await refused.exited).toBe(1);
  expect(refused.output()).toContain(
    'The database cannot be used: nothing listens there (ECONNREFUSED). Tried: 127.0.0.1:9, user "user", database "none".',
  );
  expect(refused.output()).not.toContain('hidden-password');
});

test.concurrent('a data directory below /proc is refused at once', async ({ start }) => {
  const refused = await start({ DATA_DIR: '/proc/strongroom/data' });
  const ended = await Promise.race([refused.exited, pause(20_000).then(() => 'still running')]);
  if (ended === 'still running') refused.child.kill('SIGKILL');
  expect(ended).toBe(1);
  expect(refused.output()).toContain('The data directory /proc/strongroom/data cannot be created (ENOENT)');
});

test.concurrent('all problems of the environment are reported at once, each with its fix', async ({ start }) => {
  const refused = await start({
    PORT: '99999',
    MASTER_KEY: 'short',
    CVC_TTL: '48h',
    DATABASE_URL: 'mysql://x',
    HOST: '0.0.0.0',
  });
  expect(await refused.exited).toBe(1);
  for (const name of ['PORT', 'MASTER_KEY', 'CVC_TTL', 'DATABASE_URL'])
    expect(refused.output()).toContain(`- ${name}:`);
});
