// One server per data directory: real processes, whose connections to the embedded database are closed.
import { rmSync } from 'node:fs';
import { Client } from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findRunningPostgres } from '../../src/platform/dev-postgres/dev-postgres.ts';
import {
  isAlive,
  killIfAlive,
  postgresProcesses,
  type ServerProcess,
  spawnServer,
  untilReady,
} from '../support/process.ts';
import { createDataDir, seeingAllTenants } from '../support/database.ts';

/** As in src/platform/dev-postgres/dev-postgres.ts: it never changes. */
const LOCK_KEY = '91616979177031';

let dataDir: string;
let server: ServerProcess;
let others: ServerProcess[];
let postgres: number[];

beforeEach(async () => {
  others = [];
  dataDir = createDataDir('directory');
  server = await spawnServer(dataDir);
  await untilReady(server);
  postgres = postgresProcesses(dataDir);
});

afterEach(async () => {
  for (const { child, exited } of [server, ...others]) {
    child.kill();
    await exited;
  }
  for (const pid of postgres) killIfAlive(pid);
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 20 });
});

/** A session in the embedded database, beside the server's. */
const openSession = async (): Promise<Client> => {
  const client = new Client({ ...(await findRunningPostgres(dataDir)), ...seeingAllTenants });
  client.on('error', () => undefined);
  await client.connect();
  return client;
};

/** Ends every connection of the server, the one that holds the lock included. */
const cutConnections = async (): Promise<void> => {
  const session = await openSession();
  await session.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'strongroom%'",
  );
  await session.end();
};

const tokenize = () =>
  fetch(`${server.base_url}/tokenize`, {
    method: 'POST',
    headers: { 'svc-api-key': server.credentials().api_key, 'content-type': 'application/json' },
    body: '"x"',
  });

const linesWith = (words: string) => server.output().split(words).length - 1;

test('a server whose database connections are cut takes its lock again before another can', async () => {
  for (const times of [1, 2]) {
    await cutConnections();
    await expect.poll(() => linesWith('"lock_retaken"'), { timeout: 10_000 }).toBe(times);
  }
  const second = await spawnServer(dataDir);
  others.push(second);
  expect(await second.exited).toBe(1);
  expect(second.output()).toContain('Another server is running');
  await expect.poll(async () => (await tokenize()).status, { timeout: 10_000 }).toBe(200);

  server.child.kill('SIGTERM');
  expect(await server.exited).toBe(0);
  expect(postgres.filter(isAlive)).toEqual([]);
});

test('a server whose lock another process took meanwhile stops, and leaves the database running', async () => {
  const other = await openSession();
  // Waits in the queue of the lock, and so has it the moment the session of the server ends.
  const taken = other.query('SELECT pg_advisory_lock($1)', [LOCK_KEY]);
  await cutConnections();
  await taken;
  expect(await server.exited).toBe(1);
  expect(server.output()).toContain('one data directory serves one server: this one stops');
  expect((await other.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  await other.end();
});
