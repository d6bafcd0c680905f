// A data directory, a database and servers for one test of processes; nothing of it is left after the test.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test as base } from 'vitest';
import { createDatabase, seeingAllTenants, type TestDatabase } from './database.ts';
import { runCommand, type ServerProcess, spawnServer, untilReady } from './process.ts';

export type Place = {
  dataDir: string;
  database: TestDatabase;
  /** A server in the data directory. What is left of it is ended with the test. */
  start(environment?: Record<string, string>, command?: [string, ...string[]]): Promise<ServerProcess>;
};

/** Where a test is alone: a data directory and a migrated database, which only what is told of it uses. */
export const test = base.extend<Place>({
  // vitest reads from the pattern what a fixture needs: nothing.
  // oxlint-disable-next-line no-empty-pattern
  dataDir: async ({}, use) => {
    const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-place-'));
    await use(dataDir);
    rmSync(dataDir, { recursive: true, force: true });
  },
  // oxlint-disable-next-line no-empty-pattern
  database: async ({}, use) => {
    const database = await createDatabase();
    await use(database);
    await database.drop();
  },
  start: async ({ dataDir }, use) => {
    const servers: ServerProcess[] = [];
    await use(async (environment, command) => {
      const server = await spawnServer(dataDir, environment, command);
      servers.push(server);
      return server;
    });
    for (const { child, exited } of servers) {
      child.kill();
      await exited;
    }
  },
});

/** A command beside a data directory. */
export const cli = (dataDir: string, args: string[], environment: Record<string, string> = {}) =>
  runCommand(args, { DATA_DIR: dataDir, ...environment });

export const failing = (dataDir: string, args: string[], environment: Record<string, string> = {}) =>
  cli(dataDir, args, environment).then(
    () => expect.unreachable('the command succeeded'),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );

/** Rows of all tenants, over a connection of its own. */
export const query = async (url: string, sql: string, values: unknown[] = []): Promise<any[]> => {
  const client = new Client({ connectionString: url, ...seeingAllTenants });
  await client.connect();
  try {
    return (await client.query(sql, values)).rows;
  } finally {
    await client.end();
  }
};

/** Sent with each request, it gives each a connection of its own. */
export const OWN_CONNECTION = { connection: 'close' };

/** A request with the key of the server's first tenant. */
export const post = (server: ServerProcess, path: string, json: unknown, headers = {}): Promise<Response> =>
  fetch(server.base_url + path, {
    method: 'POST',
    headers: { 'svc-api-key': server.credentials().api_key, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(json),
  });

/** Makes a reactor whose code waits for `args.ms`, or for ever. @returns what invokes it. */
export const makeWaiting = async (
  server: ServerProcess,
  headers = {},
): Promise<(args: object) => Promise<Response>> => {
  const made = async (path: string, json: object): Promise<string> => {
    const answer = await post(server, path, json, headers);
    expect(answer.status).toBe(201);
    return ((await answer.json()) as { id: string }).id;
  };
  const code = `module.exports = async ({ args }) => {
    await new Promise((resolve) => setTimeout(resolve, args.ms ?? 1e9));
    return { raw: 'ended', tokenize: 'made' };
  };`;
  const formula = await made('/reactor-formulas', { name: 'Waits', type: 'private', code });
  const reactor = await made('/reactors', { name: 'Waits', formula: { id: formula } });
  return (args) => post(server, `/reactors/${reactor}/react`, { args }, headers);
};

/** A server with nothing configured for the tests of a group. One that ends it leaves another in its place. */
export const shareServer = () => {
  const shared = {
    dataDir: '',
    server: undefined as unknown as ServerProcess,
    start: async (): Promise<void> => {
      shared.server = await spawnServer(shared.dataDir);
      await untilReady(shared.server);
    },
    stop: async (): Promise<void> => {
      shared.server.child.kill('SIGTERM');
      await shared.server.exited;
    },
    tokenize: (api_key = shared.server.credentials().api_key): Promise<Response> =>
      fetch(`${shared.server.base_url}/tokenize`, {
        method: 'POST',
        headers: { 'svc-api-key': api_key, 'content-type': 'application/json' },
        body: '"x"',
      }),
  };
  beforeAll(async () => {
    shared.dataDir = mkdtempSync(join(tmpdir(), 'strongroom-shared-'));
    await shared.start();
  });
  afterAll(async () => {
    await shared.stop();
    rmSync(shared.dataDir, { recursive: true, force: true });
  });
  return shared;
};
