// The second wall between tenants: what a statement that forgets its tenant, or that an attacker has written into, sees of others.
import { Client, Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createContext } from '../src/modules.ts';
import { urlOf } from '../src/platform/dev-postgres/connection.ts';
import { beginNaming, queryNaming } from '../src/platform/db/named-tenants.ts';
import { runPrismaTransaction } from '../src/platform/db/transaction.ts';
import { findWalls, lowerWalls, raiseWalls } from '../src/platform/db/tenant-walls.ts';
import { createDatabase, type TestDatabase } from './support/database.ts';
import { startServer, type TestServer, type TestTenant } from './support/server.ts';

let database: TestDatabase;
let server: TestServer;
let one: TestTenant;
let other: TestTenant;
/** As the server connects: no setting names a tenant. */
let bare: Pool;

beforeAll(async () => {
  database = await createDatabase();
  server = await startServer({}, {}, { database });
  bare = new Pool({ connectionString: database.url, max: 1 });
  [one, other] = [server.tenant, await server.newTenant()];
  for (const { api_key } of [one, other])
    for (const data of ['a', 'b'])
      expect((await server.request('POST', '/tokens', { json: { data }, key: api_key })).status).toBe(201);
});
afterAll(async () => {
  await bare.end();
  await server.close();
});

const TENANTS_OF_TOKENS = 'SELECT DISTINCT tenant_id FROM tokens ORDER BY tenant_id';
const own = ({ tenant_id }: TestTenant) => [{ tenant_id }];
/** A statement of a tenant into which somebody has written. */
const INJECTED =
  "SELECT tenant_id FROM tokens WHERE tenant_id = $1 AND id = '' OR true UNION SELECT tenant_id FROM api_keys";

test('a statement without the condition of its tenant sees no row of others', async () => {
  for (const tenant of [one, other]) {
    const db = server.ctx.db.for(tenant);
    expect(await db.query(undefined, TENANTS_OF_TOKENS, [])).toEqual(own(tenant));
    expect(await db.query('forgetful', TENANTS_OF_TOKENS, [])).toEqual(own(tenant));
    expect(await db.query(undefined, INJECTED, [tenant.tenant_id])).toEqual(own(tenant));
    expect(await db.query(undefined, 'SELECT id FROM tenants', [])).toEqual([{ id: tenant.tenant_id }]);
  }
});

test('for all tenants, a statement that waited for a changed row sees it', async () => {
  const change = () =>
    server.ctx.db.statements.transaction(async (query) => {
      await query(undefined, 'SELECT id FROM tenants WHERE id = $1 FOR UPDATE', [one.tenant_id]);
      await query(undefined, 'UPDATE tenants SET modified_at = now() WHERE id = $1', [one.tenant_id]);
      await query(undefined, 'SELECT pg_sleep(0.1)', []);
    });
  await Promise.all([change(), change(), change()]);
});

test('nor in a batch, in a transaction, or through Prisma', async () => {
  const { db, changes } = server.ctx;
  for (const tenant of [one, other]) {
    const handle = db.for(tenant);
    expect(await db.statements.queryForBatch(tenant.tenant_id)('forgetful', TENANTS_OF_TOKENS, [])).toEqual(
      own(tenant),
    );
    const inTransaction = await handle.transaction(async (query) => [
      await query(undefined, TENANTS_OF_TOKENS, []),
      await query('forgetful', TENANTS_OF_TOKENS, []),
    ]);
    expect(inTransaction).toEqual([own(tenant), own(tenant)]);

    const distinct = { distinct: ['tenant_id' as const], select: { tenant_id: true } };
    expect(await handle.prisma((client) => client.tokens.findMany(distinct))).toEqual(own(tenant));
    const inPrisma = await runPrismaTransaction(handle, changes, undefined, async (tx) => [
      await tx.prisma.tokens.findMany(distinct),
      await tx.query('forgetful', TENANTS_OF_TOKENS, []),
    ]);
    expect(inPrisma).toEqual([own(tenant), own(tenant)]);
  }
});

test('requests of several tenants at once each see their own', async () => {
  const { db } = server.ctx;
  const asked = Array.from({ length: 40 }, (_, place) => (place % 2 === 0 ? one : other));
  const select = { distinct: ['tenant_id' as const], select: { tenant_id: true } };
  const found = await Promise.all(
    asked.flatMap((tenant) => [
      db.for(tenant).query('forgetful', TENANTS_OF_TOKENS, []),
      db.for(tenant).prisma((client) => client.tokens.findMany(select)),
      db.for(tenant).prisma((client) => client.applications.findMany(select)),
      db.for(tenant).transaction((query) => query('forgetful', TENANTS_OF_TOKENS, [])),
    ]),
  );
  expect(found).toEqual(asked.flatMap((tenant) => [own(tenant), own(tenant), own(tenant), own(tenant)]));
});

test('a batch for several tenants sees those that it names', async () => {
  const third = await server.newTenant();
  const found = await server.ctx.db.statements.queryOf(one.tenant_id, third.tenant_id)(
    undefined,
    'SELECT id FROM tenants ORDER BY id',
    [],
  );
  expect(found).toEqual([one, third].map(({ tenant_id: id }) => ({ id })).sort((a, b) => (a.id < b.id ? -1 : 1)));
});

test('a statement that names no tenant sees and writes nothing', async () => {
  const { tenant_id } = one;
  for (const table of ['tokens', 'audit_log', 'api_keys', 'applications', 'members', 'tenant_keys', 'tenants'])
    expect((await bare.query(`SELECT 1 FROM ${table}`)).rowCount, table).toBe(0);
  for (const text of ["UPDATE tokens SET container = '/'", 'DELETE FROM api_keys', "UPDATE tenants SET name = ''"])
    expect((await bare.query(text)).rowCount, text).toBe(0);
  const insert = 'INSERT INTO token_counts (tenant_id, id, type, change) VALUES ($1, gen_random_uuid(), $2, 1)';
  await expect(bare.query(insert, [tenant_id, 'token'])).rejects.toThrow('row-level security');
  // Not even by the partition of the log that has the rows.
  const { rows } = await bare.query('SELECT name FROM log_partitions()');
  for (const { name } of rows) expect((await bare.query(`SELECT 1 FROM ${name}`)).rowCount, name).toBe(0);
});

test('a tenant writes no row of another one', async () => {
  const db = server.ctx.db.for(one);
  const insert = 'INSERT INTO token_counts (tenant_id, id, type, change) VALUES ($1, gen_random_uuid(), $2, 1)';
  await expect(db.query(undefined, insert, [other.tenant_id, 'token'])).rejects.toThrow();
  await expect(db.query(undefined, 'UPDATE tokens SET tenant_id = $1', [other.tenant_id])).rejects.toThrow();
  expect(await db.query(undefined, 'DELETE FROM tokens WHERE tenant_id = $1 RETURNING id', [other.tenant_id])).toEqual(
    [],
  );
  const { body } = await server.request('GET', '/tokens', { key: other.api_key });
  expect(body.data).toHaveLength(2);
});

test('the tenant of a statement is forgotten after it, also after one that failed', async () => {
  const { db } = server.ctx;
  const client = await db.pool.connect();
  try {
    const named = async () =>
      (await client.query("SELECT current_setting('strongroom.tenants', true) AS named")).rows[0].named || undefined;
    await queryNaming(client, one.tenant_id, { text: TENANTS_OF_TOKENS });
    expect(await named()).toBeUndefined();
    await expect(queryNaming(client, one.tenant_id, { text: 'SELECT 1/0' })).rejects.toThrow('division');
    expect(await named()).toBeUndefined();
    await expect(queryNaming(client, 'not an id', { text: TENANTS_OF_TOKENS })).rejects.toThrow('uuid');
    expect((await client.query(TENANTS_OF_TOKENS)).rows).toEqual([]);
    await beginNaming(client, one.tenant_id);
    expect(await named()).toBe(one.tenant_id);
    await client.query('ROLLBACK');
    expect(await named()).toBeUndefined();
  } finally {
    client.release();
  }
});

test('every table that has tenants has a forced policy, also one that a later release adds', async () => {
  const rows = await server.sql(`
    SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity AS is_forced,
      ARRAY(SELECT polname::text FROM pg_policy p WHERE p.polrelid = c.oid) AS policies
    FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
      AND (c.relname = 'tenants' OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id'))`);
  expect(rows.length).toBeGreaterThan(25);
  for (const { relname, is_forced, policies } of rows)
    expect({ relname, is_forced, policies }).toEqual({ relname, is_forced: true, policies: ['named_tenants'] });

  const ask = async (text: string, values: unknown[]) => server.sql(text, values);
  await server.sql('CREATE TABLE later (tenant_id uuid NOT NULL)');
  expect(await findWalls(ask)).toEqual({ missing: ['later'], open: [], isSlow: false, isDistributed: false });
  await raiseWalls(ask);
  await server.sql('INSERT INTO later VALUES ($1)', [one.tenant_id]);
  expect((await bare.query('SELECT 1 FROM later')).rowCount).toBe(0);
  expect(await findWalls(ask)).toEqual({ missing: [], open: [], isSlow: false, isDistributed: false });
  await server.sql('DROP TABLE later');
});

test('without the mark of a superuser, tables that are searched by @> are open to reads alone', async () => {
  const asOwner = new Client({ ...database.address });
  const asSuperuser = new Client({ ...database.address, user: 'postgres' });
  await Promise.all([asOwner.connect(), asSuperuser.connect()]);
  const ask = async (text: string, values: unknown[]) => (await asOwner.query(text, values)).rows;
  const mark = (leakproof: string) =>
    asSuperuser.query(`ALTER FUNCTION pg_catalog.arraycontains(anyarray, anyarray) ${leakproof}`);
  try {
    await mark('NOT LEAKPROOF');
    await lowerWalls(ask);
    await raiseWalls(ask);
    expect(await findWalls(ask)).toEqual({
      missing: [],
      open: ['audit_log', 'tokens'],
      isSlow: false,
      isDistributed: false,
    });
    expect((await bare.query('SELECT 1 FROM tokens')).rowCount).toBe(4);
    expect((await bare.query('DELETE FROM tokens')).rowCount).toBe(0);
    expect((await bare.query('SELECT 1 FROM api_keys')).rowCount).toBe(0);
    await mark('LEAKPROOF');
    await raiseWalls(ask);
    expect(await findWalls(ask)).toEqual({ missing: [], open: [], isSlow: false, isDistributed: false });
    expect((await bare.query('SELECT 1 FROM tokens')).rowCount).toBe(0);
  } finally {
    await Promise.all([asOwner.end(), asSuperuser.end()]);
  }
});

test('in production no server starts as a superuser, or with BYPASSRLS', async () => {
  const role = `bypass_${crypto.randomUUID().slice(0, 8)}`;
  const asSuperuser = new Client({ ...database.address, user: 'postgres' });
  await asSuperuser.connect();
  await asSuperuser.query(`CREATE ROLE ${role} LOGIN BYPASSRLS PASSWORD '${database.address.password}'`);
  const startAs = (user: string) => {
    const config = {
      ...server.ctx.config,
      mode: 'production' as const,
      databaseUrl: urlOf({ ...database.address, user }),
    };
    return createContext(config, 'server', { logDestination: { write: () => undefined } });
  };
  try {
    await expect(startAs('postgres')).rejects.toThrow(/"postgres", a superuser.*db roles --print-sql/);
    await expect(startAs(role)).rejects.toThrow(
      new RegExp(`"${role}", a role with BYPASSRLS.*ALTER ROLE "${role}" NOBYPASSRLS`),
    );
  } finally {
    await asSuperuser.query(`DROP ROLE ${role}`);
    await asSuperuser.end();
  }
});
