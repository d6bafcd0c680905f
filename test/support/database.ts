// A migrated database for one test file, cloned from the template of the run.
import { randomBytes } from 'node:crypto';
import { chmodSync, cpSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { inject } from 'vitest';
import { type DatabaseAddress, superuser, urlOf } from '../../src/platform/dev-postgres/connection.ts';
import { templateName } from './global-setup.ts';

/** Whether Citus distributes the tables of the run (drills/citus.ts): it refuses triggers on them. */
export const isDistributed = process.env['TEST_IS_DISTRIBUTED'] !== undefined;

/** Of a connection that sees the rows of all tenants. */
export const seeingAllTenants = { options: '-c strongroom.tenants=*' };

/** The connections of `address` see the rows of all tenants. */
export type TestDatabase = { url: string; address: DatabaseAddress; drop(): Promise<void> };

/** Clones the migrated template under a random name. drop() closes remaining connections. */
export const createDatabase = (): Promise<TestDatabase> => makeDatabase(templateName);

/**
 * A data directory for a server of its own, whose database is made and migrated already: a first start takes three times as long.
 * @param name distinguishes it in the system's directory of temporary files.
 */
export const createDataDir = (name: string): string => {
  const path = mkdtempSync(join(tmpdir(), `strongroom-${name}-`));
  prepareDataDir(path);
  return path;
};

/** Puts a migrated database without rows into an empty data directory. */
export const prepareDataDir = (path: string): void => {
  const prepared = inject('preparedDataDir');
  if (prepared === undefined) return;
  cpSync(prepared, path, { recursive: true });
  // PostgreSQL refuses a directory that others may read; a copy has the mode of new ones.
  chmodSync(join(path, 'pg'), 0o700);
};

/** A database without any table. */
export const createEmptyDatabase = (): Promise<TestDatabase> => makeDatabase('template0');

const makeDatabase = async (template: string): Promise<TestDatabase> => {
  const server = inject('databaseServer');
  const database = `test_${randomBytes(6).toString('hex')}`;
  await runOn(server, `CREATE DATABASE ${database} TEMPLATE ${template}`);
  const address = { ...server, database };
  return {
    url: urlOf(address),
    address: { ...address, ...seeingAllTenants },
    // On Citus a process of the superuser is in every database.
    drop: () => runOn({ ...server, user: superuser }, `DROP DATABASE IF EXISTS ${database} WITH (FORCE)`),
  };
};

const runOn = async (server: DatabaseAddress, sql: string): Promise<void> => {
  const client = new Client(server);
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
};
