// A migrated database for one test file, cloned from the template of the run.
import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { inject } from 'vitest';
import { type DatabaseAddress, superuser, urlOf } from '../../src/platform/dev-postgres/connection.ts';
import { templateName } from './global-setup.ts';

export type TestDatabase = { url: string; address: DatabaseAddress; drop(): Promise<void> };

/** Clones the migrated template under a random name. drop() closes remaining connections. */
export const createDatabase = (): Promise<TestDatabase> => makeDatabase(templateName);

/** A database without any table. */
export const createEmptyDatabase = (): Promise<TestDatabase> => makeDatabase('template0');

const makeDatabase = async (template: string): Promise<TestDatabase> => {
  const server = inject('databaseServer');
  const database = `test_${randomBytes(6).toString('hex')}`;
  await runOn(server, `CREATE DATABASE ${database} TEMPLATE ${template}`);
  const address = { ...server, database };
  return {
    url: urlOf(address),
    address,
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
