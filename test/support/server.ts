// Starts the real app on a real database, listening on loopback, with a second tenant and its log.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTenant, type NewTenantOptions, createApplication } from '../../src/modules/people/bootstrap.ts';
import type { Permission } from '../../src/modules/access/permissions.ts';
import { buildApp } from '../../src/app.ts';
import { loadConfig } from '../../src/platform/config/config.ts';
import type { Overrides } from '../../src/context.ts';
import { type Context, createContext } from '../../src/modules.ts';
import type { Resolver } from '../../src/platform/egress/client.ts';
import type { App } from '../../src/platform/http/app-type.ts';
import { createDatabase, seeingAllTenants, type TestDatabase } from './database.ts';
import { testCa } from './certificates.ts';
import { checkProblem } from './problem.ts';
import { freePort } from './process.ts';
import { collectRoutes } from './routes.ts';
import { signAsItIs } from './sign.ts';
import type { RouteOptions } from 'fastify';

/** Root key of test servers: all bytes are equal, so that it cannot be mistaken for a real one. */
export const TEST_ROOT_KEY = Buffer.alloc(32, 7).toString('base64');

export type TestTenant = { tenant_id: string; application_id: string; api_key: string };

export type Answer = { status: number; headers: Headers; text: string; body: any };

/** What a test file does with a tenant of its own, on a server that other files may use too. */
export type SharedServer = {
  ctx: Context;
  app: App;
  routes: RouteOptions[];
  base_url: string;
  databaseUrl: string;
  /** Of this file alone. */
  tenant: TestTenant;
  /** Every log line since this file began. */
  logLines: string[];
  newTenant(options?: Partial<NewTenantOptions>): Promise<TestTenant>;
  newKey(tenant: TestTenant, options: { permissions?: Permission[]; rules?: unknown }): Promise<TestTenant>;
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  tokenize(body: unknown, key?: string): Promise<Answer>;
  /** Rows of all tenants: on a shared server the statement names the tenant. */
  sql(text: string, values?: unknown[]): Promise<any[]>;
  /**
   * The clock of the server: what it adds to the real one, in ms; or when it stands, for what is so to the millisecond. The next
   * file has the real one.
   */
  clock: { offsetMs: number; stoppedAtMs?: number | undefined };
  /** Signs a tenant or a user as it is: for tests that change rows by SQL and mean a change of the vault. */
  sign(id: string, table?: 'tenants' | 'users'): Promise<void>;
};

/** A server of one file, which may change its environment and every row of its database. */
export type TestServer = SharedServer & {
  close(): Promise<void>;
};

export type RequestOptions = {
  key?: string | null;
  headers?: Record<string, string>;
  json?: unknown;
  body?: string | Uint8Array<ArrayBuffer> | ReadableStream;
};

/** Requests to a server with the key of a tenant, where a request names no other. */
const createClient = (base_url: string, tenant: TestTenant): Pick<SharedServer, 'request' | 'tokenize'> => {
  const request: SharedServer['request'] = async (method, path, options = {}) => {
    const headers: Record<string, string> = {};
    if (options.key !== null) headers['svc-api-key'] = options.key ?? tenant.api_key;
    if (options.json !== undefined) headers['content-type'] = 'application/json';
    Object.assign(headers, options.headers);
    const body = options.json === undefined ? options.body : JSON.stringify(options.json);
    const response = await fetch(base_url + path, {
      method,
      headers,
      redirect: 'manual',
      ...(body === undefined ? {} : { body, duplex: 'half' }),
    } as RequestInit);
    const text = await response.text();
    const type = response.headers.get('content-type') ?? '';
    const parsed = /[/+]json/.test(type) && text !== '' ? JSON.parse(text) : undefined;
    if (type.includes('problem+json') && parsed !== undefined) checkProblem(parsed);
    const isForwarded = response.headers.has('svc-proxy-destination-status');
    if (path.startsWith('/proxy') && !isForwarded && parsed?.proxy_error) checkProblem(parsed.proxy_error);
    return { status: response.status, headers: response.headers, text, body: parsed };
  };
  return {
    request,
    tokenize: (body, key) => request('POST', '/tokenize', { json: body, ...(key === undefined ? {} : { key }) }),
  };
};

/** Failed authentications count by address, and the files of a process have one. */
const SHARED = { RATE_LIMIT: 'off' };

/** A server that several files of a process use, one after another: a tenant for this file, the real clock, an empty log. */
const lend = async (server: TestServer): Promise<SharedServer> => {
  server.logLines.length = 0;
  Object.assign(server.clock, { offsetMs: 0, stoppedAtMs: undefined });
  const tenant = await server.newTenant();
  return { ...server, tenant, ...createClient(server.base_url, tenant) };
};

let plain: TestServer | undefined;

/**
 * A server with the default configuration, without the limit of failed authentications, for a file that changes no environment and no
 * rows of other tenants, and counts nothing of the whole vault: a process that runs several files starts it once, which takes 0.7 s of
 * CPU time; a tenant takes 15 ms. It ends with the process.
 */
export const useServer = async (): Promise<SharedServer> => lend((plain ??= await startServer(SHARED)));

/** Where every host is unless a file says otherwise. */
const onThisMachine: Resolver = () => Promise.resolve(['127.0.0.1']);

/** A server to which each of these names is a host of the operator, on its port of this machine. */
export const startServerBefore = (
  ports: Record<string, number>,
  environment: Record<string, string> = {},
  overrides: Overrides = {},
  options: { database?: Pick<TestDatabase, 'url' | 'drop'> } = {},
): Promise<TestServer> => {
  const hosts = Object.entries(ports).map(([host, port]) => `${host}:${port}`);
  return startServer(
    { EGRESS_PRIVATE_HOSTS: hosts.join(), ...environment },
    { ca: [testCa], resolve: onThisMachine, ...overrides },
    options,
  );
};

/** The names of TLS servers of this machine that code and proxies may reach, on one port. */
export const upstreamOn = (port: number): Record<string, number> => ({
  'upstream.test': port,
  'other.upstream.test': port,
  'moving.upstream.test': port,
});

let egress: { server: TestServer; port: number } | undefined;
let resolveForFile = onThisMachine;

/**
 * As `useServer`, for files whose code and proxies send requests to a TLS server of this machine: each file has its own, on this port,
 * and closes it at its end.
 */
export const useEgressServer = async (
  resolveOfFile = onThisMachine,
): Promise<{ server: SharedServer; port: number }> => {
  resolveForFile = resolveOfFile;
  if (!egress) {
    const port = await freePort();
    const resolve: Resolver = (...asked) => resolveForFile(...asked);
    egress = { server: await startServerBefore(upstreamOn(port), SHARED, { resolve }), port };
  }
  return { server: await lend(egress.server), port: egress.port };
};

/** The log lines of the servers that are open in this process: a test that fails prints their ends. */
export const openLogs = new Set<string[]>();

/** The least that argon2 allows: at the cost of a vault, hashing takes most of the time of tests that sign people in. */
const PASSWORD_COST = { memoryCost: 8, timeCost: 1, parallelism: 1 };

/** The database of another server, which drops it. */
const borrow = (url: string): Pick<TestDatabase, 'url' | 'drop'> => ({ url, drop: async () => undefined });

/** With `DATABASE_URL` it is another server of the same vault. */
export const startServer = async (
  environment: Record<string, string> = {},
  overrides: Overrides = {},
  options: { database?: Pick<TestDatabase, 'url' | 'drop'> } = {},
): Promise<TestServer> => {
  const { DATABASE_URL } = environment;
  const database = options.database ?? (DATABASE_URL ? borrow(DATABASE_URL) : await createDatabase());
  const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-test-'));
  const config = loadConfig({
    NODE_ENV: 'test',
    PORT: '0',
    DATA_DIR: dataDir,
    DATABASE_URL: database.url,
    MASTER_KEY: TEST_ROOT_KEY,
    ...environment,
  });
  const logLines: string[] = [];
  openLogs.add(logLines);
  const clock: TestServer['clock'] = { offsetMs: 0 };
  const ctx = await createContext(config, 'server', {
    logDestination: { write: (line: string) => void logLines.push(line) },
    now: () => new Date(clock.stoppedAtMs ?? Date.now() + clock.offsetMs),
    passwordCost: PASSWORD_COST,
    sandboxStart: 'with_first_run',
    ...overrides,
  });
  const { built: app, routes } = await collectRoutes(() => buildApp(ctx));
  await app.listen({ host: '127.0.0.1', port: 0 });
  const address = app.server.address() as { port: number };
  const base_url = `http://127.0.0.1:${address.port}`;
  const { Pool } = await import('pg');
  const pool = new Pool({ connectionString: database.url, ...seeingAllTenants, max: 2 });
  pool.on('error', () => undefined);

  const newTenant = async (options: Partial<NewTenantOptions> = {}): Promise<TestTenant> => {
    const made = await createTenant(ctx, { name: 'Test', ...options });
    if (!made) throw new Error('no tenant was made');
    return { ...made, api_key: made.api_key.reveal() };
  };
  const tenant = await newTenant();

  return {
    ctx,
    app,
    routes,
    base_url,
    databaseUrl: database.url,
    tenant,
    logLines,
    clock,
    newTenant,
    newKey: async (of, options) => {
      const made = await createApplication(ctx, of.tenant_id, { name: 'Key', ...options });
      return { ...made, api_key: made.api_key.reveal() };
    },
    ...createClient(base_url, tenant),
    sign: (id, table = 'tenants') => signAsItIs(ctx, pool, table, id),
    sql: async (text, values = []) => (await pool.query(text, values)).rows,
    close: async () => {
      openLogs.delete(logLines);
      await app.close();
      await ctx.close();
      await pool.end();
      await database.drop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
};
