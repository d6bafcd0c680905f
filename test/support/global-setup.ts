// Starts one real PostgreSQL for a test run, with a migrated template that test/support/database.ts clones; removes it at the end.
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import type { TestProject } from 'vitest/node';
import { randomBase62 } from '../../src/platform/crypto/digest.ts';
import { randomBytesFromKernel } from '../../src/platform/crypto/random.ts';
import { startEmbeddedPostgres } from '../../src/platform/dev-postgres/dev-postgres.ts';
import { type DatabaseAddress, superuser } from '../../src/platform/dev-postgres/connection.ts';
import { migrate } from '../../src/platform/maintenance/migrate.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The maintenance database of the run's server: where others are made and dropped. */
    databaseServer: DatabaseAddress;
    /** A data directory whose database is migrated and has no rows, to be copied; undefined with another server. */
    preparedDataDir: string | undefined;
  }
}

export const templateName = 'template_strongroom';

/**
 * Names another server as a URL, whose template the caller has made: drills/citus.ts runs the tests on distributed tables.
 * Its superuser has the same password.
 */
const EXTERNAL_SERVER = process.env['TEST_DATABASE_SERVER'];

/** Starts the server and provides its address; the function it returns stops and removes it. */
export const setup = async (project: TestProject): Promise<() => Promise<void>> => {
  if (EXTERNAL_SERVER !== undefined) {
    const { hostname: host, port, username: user, password, pathname } = new URL(EXTERNAL_SERVER);
    project.provide('databaseServer', { host, port: Number(port), user, password, database: pathname.slice(1) });
    return async () => undefined;
  }
  const directory = await mkdtemp(join(tmpdir(), 'strongroom-test-'));
  const dataDir = join(directory, 'data');
  const preparedDataDir = join(directory, 'prepared');
  const newPassword = () => randomBase62(32, randomBytesFromKernel);
  const start = () => startEmbeddedPostgres({ dataDir, newPassword, log: () => undefined });
  let postgres = await start();
  const teardown = async () => {
    await postgres.stop();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    await migrate(postgres.address, join(import.meta.dirname, '../../prisma/migrations'));
    await postgres.stop();
    await cp(dataDir, preparedDataDir, { recursive: true });
    postgres = await start();
    const server = { ...postgres.address, database: 'postgres' };
    await waitForNoDisk(server);
    await makeTemplate(server, postgres.address.database);
    project.provide('databaseServer', server);
    project.provide('preparedDataDir', preparedDataDir);
    return teardown;
  } catch (error) {
    await teardown();
    throw error;
  }
};

const runIn = async (server: DatabaseAddress, work: (client: Client) => Promise<void>): Promise<void> => {
  const client = new Client(server);
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
};

/** This server is never asked what outlived a crash, so that nothing has to wait for the disk: others are, in test/process/durability.test.ts. */
const waitForNoDisk = (server: DatabaseAddress): Promise<void> =>
  runIn({ ...server, user: superuser }, async (client) => {
    for (const setting of ['synchronous_commit', 'fsync', 'full_page_writes'])
      await client.query(`ALTER SYSTEM SET ${setting} = off`);
    await client.query('SELECT pg_reload_conf()');
  });

const makeTemplate = (server: DatabaseAddress, migrated: string): Promise<void> =>
  runIn(server, async (client) => {
    await client.query(`CREATE DATABASE ${templateName} TEMPLATE ${migrated}`);
    // A database with connections cannot be cloned.
    await client.query(`ALTER DATABASE ${templateName} ALLOW_CONNECTIONS false IS_TEMPLATE true`);
  });
