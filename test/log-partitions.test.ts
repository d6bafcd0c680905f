// The audit log has a partition for each month: a new vault begins with some, and the sweep has the next ones made.
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sweepInTurn } from '../src/modules/tokens/sweep.ts';
import { INSERT_LOGS } from '../src/platform/db/audit-rows.ts';
import { newTimeOrderedId } from '../src/platform/crypto/ids.ts';
import { randomBytesFromKernel } from '../src/platform/crypto/random.ts';
import { migrate } from '../src/platform/maintenance/migrate.ts';
import { createEmptyDatabase, seeingAllTenants } from './support/database.ts';
import { startServer, type TestServer } from './support/server.ts';

const migrationsDir = join(import.meta.dirname, '../prisma/migrations');
const TENANT = '00000000-0000-4000-8000-000000000001';

const rowAt = (at: Date, message = 'm') => ({
  id: newTimeOrderedId(at.getTime(), randomBytesFromKernel),
  entity_type: 'card',
  entity_ids: ['the card'],
  operation: 'read',
  message,
  created_at: at.toISOString(),
  disclosure: 'none',
  outcome: 'success',
});

const inMonths = (months: number): Date => {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months, 5));
};

let server: TestServer;
beforeAll(async () => (server = await startServer()));
afterAll(() => server.close());

test('a new log has months without a gap, and no role may change rows', async () => {
  const database = await createEmptyDatabase();
  const client = new Client(database.address);
  await client.connect();
  try {
    await client.query('ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO PUBLIC');
    await migrate(database.address, migrationsDir);
    const { rows: parts } = await client.query('SELECT name, from_id, to_id FROM log_partitions()');
    expect(parts[0].name).toMatch(/^audit_log_before_\d{4}_\d{2}$/);
    // From the lowest id to the highest.
    expect(parts.map(({ to_id }) => to_id)).toEqual([...parts.slice(1).map(({ from_id }) => from_id), null]);
    expect(parts[0].from_id).toBeNull();
    const { rows: rights } = await client.query(
      `SELECT relname, has_table_privilege('public', oid, 'SELECT') AS public, has_table_privilege(oid, 'INSERT') AS inserts,
         has_table_privilege(oid, 'UPDATE') OR has_table_privilege(oid, 'DELETE') OR has_table_privilege(oid, 'TRUNCATE') AS changes
       FROM pg_class WHERE relname LIKE 'audit\\_log%' AND relkind IN ('r', 'p')`,
    );
    expect(rights).toHaveLength(parts.length + 1);
    for (const right of rights)
      expect(right).toMatchObject({ public: right.relname === 'audit_log', inserts: true, changes: false });
    const { rows: emptied } = await client.query(
      `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
         AND has_table_privilege(oid, 'TRUNCATE') ORDER BY 1`,
    );
    expect(emptied.map(({ relname }) => relname)).toEqual(['_prisma_migrations', 'ephemeral_keys']);
  } finally {
    await client.end();
    await database.drop();
  }
});

test('a row of a month without a partition is written, and moves once the sweep has made it', async () => {
  const message = 'a row of the month after next';
  const sweeper = server.ctx.newUuid();
  // As if the months had come without a sweep: the last partition takes all that comes.
  await server.sql(`DO $$ DECLARE p record; BEGIN
    FOR p IN SELECT name FROM log_partitions() WHERE from_id IS NOT NULL LOOP EXECUTE 'DROP TABLE ' || p.name; END LOOP;
    PERFORM make_log_partition('audit_log_from_here', to_id, NULL) FROM log_partitions();
  END $$`);
  const place = async () =>
    (await server.sql('SELECT tableoid::regclass::text AS name FROM audit_log WHERE message = $1', [message]))[0]?.name;
  await server.sql(INSERT_LOGS, [
    TENANT,
    JSON.stringify([{ ...rowAt(inMonths(2), message), mac: crypto.randomUUID() }]),
  ]);
  expect(await place()).toBe('audit_log_from_here');
  const reader = new Client({ connectionString: server.databaseUrl, ...seeingAllTenants });
  await reader.connect();
  try {
    // A reader that stays keeps the sweep from making them, and writers wait for a moment only, once an hour.
    await reader.query('BEGIN; SELECT FROM audit_log LIMIT 1');
    await server.sql("DELETE FROM leases WHERE name = 'log-partitions'");
    expect(await sweepInTurn(server.ctx, sweeper)).toBe(true);
    expect(await place()).toBe('audit_log_from_here');
    await reader.query('COMMIT');
  } finally {
    await reader.end();
  }
  expect(await sweepInTurn(server.ctx, sweeper)).toBe(true);
  expect(await place()).toBe('audit_log_from_here');
  await server.sql("UPDATE leases SET ends_at = now() WHERE name = 'log-partitions'");
  expect(await sweepInTurn(server.ctx, sweeper)).toBe(true);
  expect(await place()).toBe(`audit_log_${inMonths(2).toISOString().slice(0, 7).replace('-', '_')}`);
  const count = (await server.sql('SELECT count(*)::int AS count FROM log_partitions()'))[0].count;
  await server.sql("UPDATE leases SET ends_at = now() WHERE name = 'log-partitions'");
  await sweepInTurn(server.ctx, sweeper);
  expect((await server.sql('SELECT count(*)::int AS count FROM log_partitions()'))[0].count).toBe(count);
});
