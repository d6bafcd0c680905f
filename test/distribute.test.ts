// What a distributed database needs, on plain PostgreSQL: a server whose hot statements are functions, and whose tables have no
// triggers and no policies, does what it does otherwise.
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { shardFunctions } from '../src/modules.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { DISTRIBUTED_TABLES } from '../src/platform/base/tables.ts';
import { LOG_LINE } from '../src/platform/db/log-partitions.ts';
import { createFunctionText, functionName } from '../src/platform/db/shard-functions.ts';
import { lowerWalls } from '../src/platform/db/tenant-walls.ts';
import { createDatabase, type TestDatabase } from './support/database.ts';
import { startServer, type TestServer } from './support/server.ts';

const connected = async (database: TestDatabase, user: string, work: (client: Client) => Promise<void>) => {
  const client = new Client({ ...database.address, user });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
};

describe('a server whose hot statements are functions', () => {
  let server: TestServer;
  beforeAll(async () => {
    const database = await createDatabase();
    await connected(database, inject('databaseServer').user, async (client) => {
      for (const each of shardFunctions) await client.query(createFunctionText(each));
      await client.query('DROP TRIGGER tokens_record_erasures ON tokens');
    });
    server = await startServer({}, {}, { database });
    // The start of the server makes missing policies, so they are removed after it.
    for (const table of DISTRIBUTED_TABLES) await lowerWalls(server.sql, table);
  });
  afterAll(() => server.close());

  const logOf = (id: string) =>
    server.sql('SELECT operation FROM audit_log WHERE entity_ids @> ARRAY[$1::text] ORDER BY id', [id]);
  const erasuresOf = (id: string) => server.sql(`SELECT tenant_id, made_at FROM erasures WHERE id = $1`, [id]);
  const total = async () => (await server.request('GET', '/tokens?size=1')).body.pagination.total_items;
  const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };

  test('creates, reads, changes and deletes a card, with its log, its counts and its erasure', async () => {
    const made = await server.request('POST', '/tokens', { json: { type: 'card', data: card } });
    expect(made.status, made.text).toBe(201);
    const { id, created_at } = made.body;
    const reader = await server.newKey(server.tenant, {
      rules: [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }],
    });
    expect((await server.request('GET', `/tokens/${id}`, { key: reader.api_key })).body.data.cvc).toBe('737');
    const headers = { 'content-type': 'application/merge-patch+json' };
    const patch = { body: JSON.stringify({ metadata: { order: '1' } }), headers };
    expect((await server.request('PATCH', `/tokens/${id}`, patch)).body.metadata).toEqual({ order: '1' });
    expect(await total()).toBe(1);
    expect((await server.request('DELETE', `/tokens/${id}`)).status).toBe(204);
    expect((await server.request('DELETE', `/tokens/${id}`)).status).toBe(404);
    expect(await total()).toBe(0);
    expect(await server.sql('SELECT FROM token_cvcs')).toEqual([]);
    const operations = (await logOf(id)).map(({ operation }) => operation);
    expect(operations).toEqual(['create', 'read', 'update', 'read', 'delete']);
    expect(await erasuresOf(id)).toEqual([{ tenant_id: server.tenant.tenant_id, made_at: new Date(created_at) }]);
  });

  test('finds equal tokens, in one batch and in those before it', async () => {
    const request = { type: 'token', data: 'equal', deduplicate_token: true };
    const first = await server.tokenize([request, request, { type: 'token', data: 'other' }]);
    expect(first.status, first.text).toBe(200);
    const ids = first.body.map(({ id }: { id: string }) => id);
    expect(new Set(ids).size).toBe(2);
    const again = await Promise.all(
      Array.from({ length: 5 }, () => server.request('POST', '/tokens', { json: request })),
    );
    expect(new Set(again.map(({ body }) => body.id))).toEqual(new Set([ids[0]]));
    expect((await logOf(ids[0])).filter(({ operation }) => operation === 'create')).toHaveLength(1);
  });

  test('keeps the answer of an idempotency key, and writes all of a request or nothing', async () => {
    const headers = { 'svc-idempotency-key': randomUUID() };
    const ask = () => server.request('POST', '/tokens', { json: { type: 'token', data: 'once' }, headers });
    const [one, other] = [await ask(), await ask()];
    expect([one.status, other.body.id]).toEqual([201, one.body.id]);
    const before = await total();
    const taken = await server.tokenize([
      { type: 'token', data: 'x' },
      { type: 'token', data: 'y', id: one.body.id },
    ]);
    expect(taken.status).toBe(409);
    expect(await total()).toBe(before);
  });

  test('deletes an expired token with its log row and its erasure', async () => {
    const expires_at = new Date(Date.now() + 60_000).toISOString();
    const { body } = await server.request('POST', '/tokens', { json: { type: 'token', data: 'x', expires_at } });
    server.clock.offsetMs += 61_000;
    await sweep(server.ctx);
    expect(await server.sql('SELECT FROM tokens WHERE id = $1', [body.id])).toEqual([]);
    expect((await logOf(body.id)).map(({ operation }) => operation)).toEqual(['create', 'delete']);
    expect(await erasuresOf(body.id)).toHaveLength(1);
  });

  test('writes the MAC of each log row', async () => {
    const rows = await server.sql(`SELECT l.message, ${LOG_LINE} FROM audit_log AS l`);
    expect(rows.length).toBeGreaterThan(10);
    expect(rows.filter(({ line }) => !server.ctx.db.logMacs.isIntact(line))).toEqual([]);
  });

  test('has no policy on these tables and their partitions, and one on every other', async () => {
    const rows = await server.sql(`
      SELECT c.relname AS name, c.relrowsecurity OR c.relforcerowsecurity AS is_walled,
        (SELECT count(*)::int FROM pg_policy p WHERE p.polrelid = c.oid) AS policies
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
      WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')`);
    const known: readonly string[] = DISTRIBUTED_TABLES;
    // Of `forwards_2026_11` the table is `forwards`.
    const isDistributed = (name: string) => known.includes(name.replace(/(?:_from|_before)?_\d{4}_\d{2}$/, ''));
    expect(rows.filter(({ name }) => isDistributed(name)).length).toBeGreaterThan(known.length);
    expect(rows).toEqual(
      rows.map(({ name }) => ({ name, is_walled: !isDistributed(name), policies: isDistributed(name) ? 0 : 1 })),
    );
  });

  test('calls the functions: without them it writes nothing', async () => {
    for (const each of shardFunctions) await server.sql(`DROP FUNCTION ${functionName(each)}`);
    expect((await server.request('POST', '/tokens', { json: { type: 'token', data: 'x' } })).status).toBe(500);
    expect((await server.request('DELETE', `/tokens/${randomUUID()}`)).status).toBe(404);
  });
});
