// A database that closes a connection during work, or stops answering: waiting requests get a 503, and the next one is served.
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAccounts } from '../src/platform/base/accounts.ts';
import { createMetrics } from '../src/platform/metrics/metrics.ts';
import { POOL_NAME } from '../src/platform/db/application-names.ts';
import { NAME_TENANTS } from '../src/platform/db/named-tenants.ts';
import { createStatements, type Statements } from '../src/platform/db/statements.ts';
import { createTimedClient } from '../src/platform/db/timed-client.ts';
import { holdRow } from './support/held-rows.ts';
import { startServer, type TestServer } from './support/server.ts';
import { seeingAllTenants } from './support/database.ts';

/** As long as queries of `statements` may take. */
const QUERY_MAX_MS = 1_000;

let server: TestServer;
let pool: Pool;
let statements: Statements;

beforeAll(async () => {
  server = await startServer();
  pool = new Pool({
    connectionString: server.databaseUrl,
    ...seeingAllTenants,
    max: 1,
    Client: createTimedClient(QUERY_MAX_MS),
    // As of the server: statements name tenants by a statement that is prepared.
    onConnect: async (client) => void (await client.query({ ...NAME_TENANTS, values: [''] })),
  });
  pool.on('error', () => undefined);
  statements = createStatements(pool, 4, createAccounts(), createMetrics());
});

afterAll(async () => {
  await pool.end();
  await server.close();
});

const CUT_WAITING = `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = '${POOL_NAME}' AND wait_event_type = 'Lock'`;

const backend = async (): Promise<number> =>
  (await statements.query('pid', 'SELECT pg_backend_pid() AS pid', []))[0].pid;

test('a connection that is cut within a transaction is a 503, and the next request is served', async () => {
  const { body } = await server.tokenize({ type: 'token', data: 'a value' });
  const change = () =>
    server.request('PATCH', `/tokens/${body.id}`, {
      headers: { 'content-type': 'application/merge-patch+json' },
      body: JSON.stringify({ metadata: { a: 'b' } }),
    });
  const held = await holdRow(server, 'SELECT FROM tokens WHERE id = $1 FOR UPDATE', [body.id]);
  try {
    const changing = change();
    await held.waiting(1);
    await server.sql(CUT_WAITING);
    expect((await changing).status).toBe(503);
  } finally {
    await held.letGo();
  }
  expect((await change()).status).toBe(200);
});

test('a query that PostgreSQL does not answer is given up, and the next one is served', async () => {
  const before = await backend();
  await expect(statements.query('sleep', 'SELECT pg_sleep(30)', [])).rejects.toMatchObject({ code: 'unavailable' });
  expect(await backend()).not.toBe(before);
});

test('so is one within a transaction', async () => {
  const asleep = statements.transaction(async (on) => {
    await on('sleep', 'SELECT pg_sleep(30)', []);
  });
  await expect(asleep).rejects.toMatchObject({ code: 'unavailable' });
  expect(await backend()).toBeGreaterThan(0);
});

test('a commit that does not come is given up', async () => {
  await server.sql('CREATE TABLE deeds (id int)');
  await server.sql(
    `CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(30); RETURN NULL; END $$`,
  );
  await server.sql(
    `CREATE CONSTRAINT TRIGGER sleep AFTER INSERT ON deeds INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sleep()`,
  );
  const inserted = statements.query('insert', 'INSERT INTO deeds VALUES (1) RETURNING id', []);
  await expect(inserted).rejects.toMatchObject({ code: 'unavailable' });
});

test('a connection without a query is left alone, and each query has all of its time', async () => {
  const before = await backend();
  await pause(2 * QUERY_MAX_MS);
  for (let turn = 0; turn < 4; turn += 1) await statements.query('nap', 'SELECT pg_sleep(0.4)', []);
  expect(await backend()).toBe(before);
  await expect(statements.query('sleep', 'SELECT pg_sleep(30)', [])).rejects.toMatchObject({ code: 'unavailable' });
});

describe('queries that wait behind one another on a connection', () => {
  const ask = async (...texts: string[]): Promise<string[]> => {
    const client = await pool.connect();
    try {
      return (await Promise.allSettled(texts.map((text) => client.query(text)))).map(({ status }) => status);
    } finally {
      client.release(true);
    }
  };

  test('have all of their time, each from when its turn comes', async () => {
    expect(await ask('SELECT pg_sleep(0.6)', 'SELECT pg_sleep(0.6)')).toEqual(['fulfilled', 'fulfilled']);
  });

  test('are given up too', async () => {
    expect(await ask('SELECT pg_sleep(0.1)', 'SELECT pg_sleep(30)')).toEqual(['fulfilled', 'rejected']);
  });

  test('do not prolong the time of the first', async () => {
    const client = await pool.connect();
    try {
      const first = client.query('SELECT pg_sleep(30)').catch(() => performance.now());
      await pause((QUERY_MAX_MS * 3) / 4);
      const asked = performance.now();
      const other = client.query('SELECT 1').catch(() => undefined);
      // Prolonged, it would have all of its time from here on.
      expect(await first).toBeLessThan(asked + QUERY_MAX_MS);
      await other;
    } finally {
      client.release(true);
    }
  });
});
