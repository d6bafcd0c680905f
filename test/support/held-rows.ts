// Holds row locks in a test, so that requests that need these rows run at the same time afterwards.
import { Client } from 'pg';
import { expect } from 'vitest';
import type { TestServer } from './server.ts';
import { seeingAllTenants } from './database.ts';

const WAITING = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;

/** Keeps everybody else from the row or table that a statement locks, until let go. `waiting` resolves when so many wait for such a row. */
export const holdRow = async (server: Pick<TestServer, 'databaseUrl' | 'sql'>, lock: string, values: unknown[]) => {
  const client = new Client({ connectionString: server.databaseUrl, ...seeingAllTenants });
  await client.connect();
  await client.query('BEGIN');
  expect((await client.query(lock, values)).rowCount).not.toBe(0);
  return {
    waiting: async (count: number): Promise<void> => {
      while ((await server.sql(WAITING)).length < count) await new Promise((resolve) => setTimeout(resolve, 5));
    },
    letGo: async (): Promise<void> => {
      await client.query('ROLLBACK');
      await client.end();
    },
  };
};
