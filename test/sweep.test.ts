// The sweep removes expired rows in time, and the keys of security codes from the database's files; counts and log stay right.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Client } from 'pg';
import { superuser } from '../src/platform/dev-postgres/connection.ts';
import { sweep, sweepInTurn } from '../src/modules/tokens/sweep.ts';
import { DELETED_TENANT_GRACE_MS } from '../src/platform/base/times.ts';
import { startServer, type TestServer, type TestTenant } from './support/server.ts';
import { seeingAllTenants } from './support/database.ts';

let server: TestServer;
let admin: Client;
beforeAll(async () => {
  server = await startServer();
  // The superuser of the test's own PostgreSQL, who may look into its files.
  const database = new URL(server.databaseUrl).pathname.slice(1);
  admin = new Client({ ...inject('databaseServer'), user: superuser, database });
  await admin.connect();
});
afterAll(async () => {
  await admin.end();
  await server.close();
});

const HOUR_MS = 3_600_000;
const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };

/** Time passes, for all tests of this file: it never goes back. */
const pass = (ms: number): void => {
  server.clock.offsetMs += ms;
};

const inMs = (ms: number) => new Date(Date.now() + server.clock.offsetMs + ms).toISOString();

const newToken = async (of: TestTenant, request: object = { data: 'x' }): Promise<string> => {
  const answer = await server.request('POST', '/tokens', { json: request, key: of.api_key });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

/** What a list says there is, of all types or of one. */
const totalOf = async (of: TestTenant, query = ''): Promise<number> =>
  (await server.request('GET', `/tokens?size=1${query}`, { key: of.api_key })).body.pagination.total_items;

const countOf = async (table: string, of: TestTenant): Promise<number> =>
  (await server.sql(`SELECT count(*)::int AS count FROM ${table} WHERE tenant_id = $1`, [of.tenant_id]))[0].count;

const expiryLog = (of: TestTenant) =>
  server.sql(
    `SELECT unnest(entity_ids) AS id, entity_type, actor_id, actor_type FROM audit_log
     WHERE tenant_id = $1 AND operation = 'delete' ORDER BY 1`,
    [of.tenant_id],
  );

describe('expired tokens', () => {
  test('are gone with all their rows, each with a log entry, and the totals stay right', async () => {
    const tenant = await server.newTenant();
    const expires_at = inMs(HOUR_MS);
    const expiring = [
      await newToken(tenant, { data: 'x', expires_at, search_indexes: ['{{ data }}'] }),
      await newToken(tenant, { type: 'card', data: card, expires_at }),
    ];
    const parent = await newToken(tenant);
    await newToken(tenant, { type: 'card', data: card });
    for (const child of expiring)
      await server.request('POST', `/tokens/${parent}/children/${child}`, { key: tenant.api_key });
    expect(await totalOf(tenant)).toBe(4);

    pass(HOUR_MS - 60_000);
    await sweep(server.ctx);
    expect(await countOf('tokens', tenant)).toBe(4);

    pass(61_000);
    const before = [await totalOf(tenant), await totalOf(tenant, '&type=card'), await totalOf(tenant, '&type=token')];
    expect(before).toEqual([2, 1, 1]);
    await sweep(server.ctx);
    expect(await countOf('tokens', tenant)).toBe(2);
    expect(await countOf('token_associations', tenant)).toBe(0);
    expect(await countOf('token_cvcs', tenant)).toBe(0);
    expect([await totalOf(tenant), await totalOf(tenant, '&type=card'), await totalOf(tenant, '&type=token')]).toEqual(
      before,
    );
    const log = await expiryLog(tenant);
    expect(log.map(({ id }) => id)).toEqual(expiring.toSorted());
    for (const { actor_id, actor_type } of log) expect([actor_id, actor_type]).toEqual([null, 'system']);
    const { body } = await server.request('GET', `/logs?entity_id=${expiring[1]}`, { key: tenant.api_key });
    expect(body.data[0]).toMatchObject({
      operation: 'delete',
      entity_type: 'card',
      message: 'Token expired',
      actor_type: 'system',
    });

    await sweep(server.ctx);
    expect(await expiryLog(tenant)).toHaveLength(2);
    expect(await totalOf(tenant)).toBe(2);
  });

  test('are all gone after one sweep, and of several sweeps each token is removed by one', async () => {
    const tenant = await server.newTenant();
    const expires_at = inMs(HOUR_MS);
    const { status } = await server.tokenize(
      Array.from({ length: 2300 }, (_, index) => ({ type: 'token', data: index, expires_at })),
      tenant.api_key,
    );
    expect(status).toBe(200);
    await newToken(tenant);
    pass(HOUR_MS + 1000);
    await Promise.all([sweep(server.ctx), sweep(server.ctx), sweep(server.ctx)]);
    await sweep(server.ctx);
    expect(await countOf('tokens', tenant)).toBe(1);
    const log = await expiryLog(tenant);
    expect([log.length, new Set(log.map(({ id }) => id)).size]).toEqual([2300, 2300]);
    expect(await totalOf(tenant)).toBe(1);
  });

  test('are kept where their expiry was put off in time', async () => {
    const tenant = await server.newTenant();
    const id = await newToken(tenant, { data: 'x', expires_at: inMs(HOUR_MS) });
    const headers = { 'content-type': 'application/merge-patch+json' };
    const body = JSON.stringify({ expires_at: inMs(3 * HOUR_MS) });
    expect((await server.request('PATCH', `/tokens/${id}`, { body, headers, key: tenant.api_key })).status).toBe(200);
    pass(2 * HOUR_MS);
    await sweep(server.ctx);
    expect((await server.request('GET', `/tokens/${id}`, { key: tenant.api_key })).status).toBe(200);
  });
});

describe('the key of security codes', () => {
  const reader = () =>
    server.newKey(server.tenant, {
      rules: [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }],
    });

  const keyRows = async (): Promise<{ id: string; wrapped: Buffer }[]> =>
    server.sql('SELECT id, wrapped FROM ephemeral_keys ORDER BY destroy_at');

  const pathOf = async (): Promise<string> =>
    (await admin.query(`SELECT pg_relation_filepath('ephemeral_keys') AS path`)).rows[0].path;

  /** The bytes on the disk; undefined where there is no such file. */
  const readFileOf = async (path: string): Promise<Buffer | undefined> => {
    // A checkpoint leaves unlogged tables in memory. Copying a database by its files writes everything out first.
    await admin.query('CREATE DATABASE written_out TEMPLATE template0 STRATEGY file_copy');
    await admin.query('DROP DATABASE written_out');
    return (
      (await admin.query('SELECT pg_read_binary_file($1, 0, 100000000, true) AS bytes', [path])).rows[0].bytes ??
      undefined
    );
  };

  /** Whether the table's files, as it was and as it is, hold the bytes. */
  const holds = async (path: string, bytes: Buffer): Promise<boolean> => {
    for (const each of new Set([path, await pathOf()])) if ((await readFileOf(each))?.includes(bytes)) return true;
    return false;
  };

  /** A card whose code lives, with the wrapped key that it was sealed under. */
  const cardWithKey = async () => {
    const id = await newToken(server.tenant, { type: 'card', data: card });
    const wrapped = (await keyRows()).at(-1)?.wrapped as Buffer;
    expect(wrapped.length).toBeGreaterThan(32);
    return { id, wrapped, path: await pathOf() };
  };

  test('is destroyed on time, with the codes: its bytes are in no file of its table any more', async () => {
    const { wrapped, path } = await cardWithKey();
    expect(await holds(path, wrapped)).toBe(true);
    pass(2 * HOUR_MS);
    await sweep(server.ctx);
    expect(await keyRows()).toEqual([]);
    expect(await countOf('token_cvcs', server.tenant)).toBe(0);
    expect(await holds(path, wrapped)).toBe(false);
  });

  test('is destroyed in the file also while another transaction still sees the time before', async () => {
    const { wrapped, path } = await cardWithKey();
    expect(await holds(path, wrapped)).toBe(true);
    const other = new Client({ connectionString: server.databaseUrl, ...seeingAllTenants });
    await other.connect();
    try {
      await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await other.query('SELECT count(*) FROM tokens');
      pass(2 * HOUR_MS);
      await sweep(server.ctx);
      expect(await holds(path, wrapped)).toBe(false);
      await other.query('COMMIT');
    } finally {
      await other.end();
    }
    expect(await keyRows()).toEqual([]);
  });

  test('of a later card lives on, and opens its code', async () => {
    const first = await cardWithKey();
    pass(HOUR_MS);
    const second = await cardWithKey();
    expect(second.wrapped.equals(first.wrapped)).toBe(false);
    pass(HOUR_MS / 2);
    await sweep(server.ctx);
    expect(await holds(first.path, first.wrapped)).toBe(false);
    expect((await keyRows()).map(({ wrapped }) => wrapped.equals(second.wrapped))).toEqual([true]);
    const { api_key: key } = await reader();
    expect((await server.request('GET', `/tokens/${second.id}`, { key })).body.data.cvc).toBe('737');
    expect(Object.keys((await server.request('GET', `/tokens/${first.id}`, { key })).body.data)).not.toContain('cvc');
  });

  test('that cannot be destroyed now does not stop the sweep, and is destroyed by a later one', async () => {
    const { wrapped, path } = await cardWithKey();
    const expiring = await newToken(server.tenant, { data: 'x', expires_at: inMs(HOUR_MS) });
    pass(2 * HOUR_MS);
    const other = new Client({ connectionString: server.databaseUrl, ...seeingAllTenants });
    await other.connect();
    try {
      // As a backup does that reads the table.
      await other.query('BEGIN');
      await other.query('LOCK TABLE ephemeral_keys IN ACCESS SHARE MODE');
      await expect(sweep(server.ctx)).rejects.toMatchObject({ code: 'unavailable' });
      expect(await server.sql('SELECT 1 FROM tokens WHERE id = $1', [expiring])).toEqual([]);
      await other.query('COMMIT');
    } finally {
      await other.end();
    }
    await sweep(server.ctx);
    expect(await holds(path, wrapped)).toBe(false);
  });
});

describe('kept answers', () => {
  test('are removed after a day, and not before', async () => {
    const tenant = await server.newTenant();
    const headers = { 'svc-idempotency-key': 'swept' };
    const first = await server.request('POST', '/tokens', { json: { data: 'x' }, headers, key: tenant.api_key });
    pass(24 * HOUR_MS - 60_000);
    await sweep(server.ctx);
    const replay = await server.request('POST', '/tokens', { json: { data: 'x' }, headers, key: tenant.api_key });
    expect(replay.body.id).toBe(first.body.id);
    pass(120_000);
    await sweep(server.ctx);
    expect(await countOf('idempotency_keys', tenant)).toBe(0);
  });
});

describe('counts', () => {
  const countRows = (of: TestTenant) => countOf('token_counts', of);

  test('that were added up give the totals they gave before', async () => {
    const tenant = await server.newTenant();
    const ids: string[] = [];
    for (let index = 0; index < 60; index += 1) ids.push(await newToken(tenant));
    for (let index = 0; index < 7; index += 1) await newToken(tenant, { type: 'card', data: card });
    for (const id of ids.slice(0, 5)) await server.request('DELETE', `/tokens/${id}`, { key: tenant.api_key });
    const lastOf = () =>
      server.sql(
        'SELECT type, max(last_created_at) AS at FROM token_counts WHERE tenant_id = $1 GROUP BY type ORDER BY type',
        [tenant.tenant_id],
      );
    const [rows, last] = [await countRows(tenant), await lastOf()];
    expect([await totalOf(tenant), await totalOf(tenant, '&type=token'), await totalOf(tenant, '&type=card')]).toEqual([
      62, 55, 7,
    ]);
    await sweep(server.ctx);
    expect(await countRows(tenant)).toBeLessThan(rows);
    expect([await totalOf(tenant), await totalOf(tenant, '&type=token'), await totalOf(tenant, '&type=card')]).toEqual([
      62, 55, 7,
    ]);
    expect(await lastOf()).toEqual(last);
  });

  test('stay right while tokens come and go and several sweeps add up', async () => {
    const tenant = await server.newTenant();
    let stays = 0;
    const work = async (): Promise<void> => {
      for (let index = 0; index < 40; index += 1) {
        const id = await newToken(tenant);
        if (index % 3 === 0) await server.request('DELETE', `/tokens/${id}`, { key: tenant.api_key });
        else stays += 1;
      }
    };
    let isDone = false;
    const sweeps = async (): Promise<void> => {
      while (!isDone) await Promise.all([sweep(server.ctx), sweep(server.ctx)]);
    };
    const sweeping = sweeps();
    await Promise.all(Array.from({ length: 6 }, work));
    isDone = true;
    await sweeping;
    expect(await totalOf(tenant)).toBe(stays);
    expect(await countOf('tokens', tenant)).toBe(stays);
  });
});

describe('several processes', () => {
  const [one, other] = [randomUUID(), randomUUID()];

  test('of one database sweep in turn, and another takes over from one that died', async () => {
    // Dropped with the first server.
    const address = inject('databaseServer');
    const shared = { url: server.databaseUrl, address, drop: async () => undefined };
    const second = await startServer({}, {}, { database: shared });
    try {
      const tenant = await server.newTenant();
      const newTokens = async () => {
        const expires_at = inMs(HOUR_MS);
        const tokens = Array.from({ length: 1500 }, (_, data) => ({ type: 'token', data, expires_at }));
        expect((await server.tokenize(tokens, tenant.api_key)).status).toBe(200);
        pass(HOUR_MS + 1000);
        second.clock.offsetMs = server.clock.offsetMs;
      };
      await newTokens();
      const swept = await Promise.all([sweepInTurn(server.ctx, one), sweepInTurn(second.ctx, other)]);
      expect(swept.filter(Boolean)).toHaveLength(1);
      const [sweeper, waiter] = swept[0] ? [one, other] : [other, one];
      expect(await countOf('tokens', tenant)).toBe(0);
      expect(await expiryLog(tenant)).toHaveLength(1500);

      // The sweeper keeps its turn, as long as it lives.
      await newTokens();
      expect(await sweepInTurn(second.ctx, waiter)).toBe(false);
      expect(await countOf('tokens', tenant)).toBe(1500);
      expect(await sweepInTurn(server.ctx, sweeper)).toBe(true);
      expect(await countOf('tokens', tenant)).toBe(0);

      // It dies: its lease ends by the clock of the database.
      await newTokens();
      expect(await sweepInTurn(second.ctx, waiter)).toBe(false);
      await server.sql('UPDATE leases SET ends_at = now()');
      expect(await sweepInTurn(second.ctx, waiter)).toBe(true);
      expect(await countOf('tokens', tenant)).toBe(0);
      const log = await expiryLog(tenant);
      expect([log.length, new Set(log.map(({ id }) => id)).size]).toEqual([4500, 4500]);
      expect(await sweepInTurn(server.ctx, sweeper)).toBe(false);
    } finally {
      await second.close();
    }
  });

  test('end a sweep that has lost its turn', async () => {
    const tenant = await server.newTenant();
    const expires_at = inMs(HOUR_MS);
    const tokens = Array.from({ length: 2500 }, (_, data) => ({ type: 'token', data, expires_at }));
    expect((await server.tokenize(tokens, tenant.api_key)).status).toBe(200);
    pass(HOUR_MS + 1000);
    await sweep(server.ctx, async () => false);
    expect(await countOf('tokens', tenant)).toBe(1500);
    await sweep(server.ctx);

    // Also between tenants.
    const others = [await server.newTenant(), await server.newTenant()];
    const token = { type: 'token', data: 'x', expires_at: inMs(HOUR_MS) };
    for (const { api_key } of others) expect((await server.tokenize(token, api_key)).status).toBe(200);
    pass(HOUR_MS + 1000);
    const left = async () => (await Promise.all(others.map((other) => countOf('tokens', other)))).toSorted();
    await sweep(server.ctx, async () => false);
    expect(await left()).toEqual([0, 1]);
    await sweep(server.ctx);
    expect(await left()).toEqual([0, 0]);
  });
});

describe('a tenant that was deleted', () => {
  test('leaves no token, code, link, count or answer, and other tenants keep theirs', async () => {
    const [gone, stays] = [await server.newTenant(), await server.newTenant()];
    for (const tenant of [gone, stays]) {
      const parent = await newToken(tenant, { type: 'card', data: card });
      const headers = { 'svc-idempotency-key': 'of-a-tenant' };
      await server.request('POST', `/tokens/${parent}/children`, { json: { data: 'x' }, headers, key: tenant.api_key });
    }
    const tables = ['tokens', 'token_cvcs', 'token_associations', 'token_counts', 'idempotency_keys'];
    const rowsOf = (of: TestTenant) => Promise.all(tables.map((table) => countOf(table, of)));
    const before = await rowsOf(stays);
    expect(before.every((count) => count > 0)).toBe(true);
    const [logged] = await server.sql('SELECT count(*)::int AS count FROM audit_log WHERE tenant_id = $1', [
      gone.tenant_id,
    ]);

    expect((await server.request('DELETE', '/tenants/self', { key: gone.api_key })).status).toBe(204);
    expect(await countOf('tenant_keys', gone)).toBe(0);
    await sweep(server.ctx);
    expect(await rowsOf(gone)).toEqual([0, 0, 0, 0, 0]);
    expect(await rowsOf(stays)).toEqual(before);
    expect(await totalOf(stays)).toBe(2);
    // What was done is on record for good, and that it was deleted too.
    expect(await countOf('audit_log', gone)).toBe(logged.count + 1);

    // A request that was under way may still have written: the sweep comes back for it, for a while.
    const remembered = () => server.sql('SELECT id FROM deleted_tenants WHERE id = $1', [gone.tenant_id]);
    expect(await remembered()).toHaveLength(1);
    pass(DELETED_TENANT_GRACE_MS + 60_000);
    await sweep(server.ctx);
    expect(await remembered()).toEqual([]);
  });
});
