// The figures of the audit log at size: the pages that lists and counts read with one partition and with a hundred, and the
// time that PostgreSQL plans.
import { Client } from 'pg';
import { databaseOf, remove, startServer } from './servers.ts';
import { round } from './turns.ts';
import { countLogEntries, listLogEntries, type LogFilter } from '../src/modules/logs/rows.ts';
import { firstIdAt } from '../src/platform/crypto/ids.ts';
import { migrate } from '../src/platform/maintenance/migrate.ts';
import { SEE_ALL_TENANTS } from '../src/platform/db/named-tenants.ts';
import type { Query } from '../src/platform/db/statements.ts';
import { type DatabaseAddress, superuser } from '../src/platform/dev-postgres/connection.ts';
import { migrationsDir } from '../src/platform/services/open-database.ts';

const ROWS = Number(process.env['BENCH_LOG_ROWS'] ?? 1_000_000);
const MONTHS = 98;
/** A list may read so many times as many pages from a hundred partitions as from one. */
const FACTOR_MAX = 3;

const TENANT = '00000000-0000-4000-8000-000000000001';
const actor = (number: number): string => `00000000-0000-4000-8000-0000000001${String(number).padStart(2, '0')}`;
const START_MS = Date.UTC(2018, 0, 1);
const monthMs = (month: number): number => Date.UTC(2018, month, 1);
const END_MS = monthMs(MONTHS);
const uuidBound = (ms: number): string => `'${firstIdAt(ms)}'`;

/** Nine tenths of the rows are of one tenant. One row in a thousand is a deletion, one in 500 a refusal. */
const FILL = `
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at, disclosure, outcome, mac)
SELECT ('00000000-0000-4000-8000-00000000000' || CASE WHEN n % 10 < 9 THEN 1 ELSE 2 + n % 7 END)::uuid,
  (lpad(to_hex(at), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
  ('00000000-0000-4000-8000-0000000001' || lpad((n % 20)::text, 2, '0'))::uuid, 'application', 'card',
  ARRAY[CASE WHEN n % 5 = 0 THEN 'busy' ELSE md5((n % ($1 / 10))::text) END],
  CASE WHEN n % 1000 = 1 THEN 'delete' ELSE 'read' END, 'Token retrieved', to_timestamp(at / 1000.0), 'masked',
  CASE WHEN n % 500 = 3 THEN 'refused' ELSE 'success' END, gen_random_uuid()
FROM (SELECT n, $2::bigint + (n * ($3::bigint - $2::bigint)) / $1 AS at FROM generate_series(1::bigint, $1::bigint - 1) AS n) AS rows`;

const partition = async (client: Client, isMonthly: boolean): Promise<void> => {
  const { rows } = await client.query('SELECT name FROM log_partitions()');
  for (const { name } of rows) await client.query(`DROP TABLE ${name}`);
  const make = (name: string, from: string, to: string) =>
    client.query(`SELECT make_log_partition('audit_log_${name}', ${from}, ${to})`);
  if (!isMonthly) return void (await make('all', 'NULL', 'NULL'));
  await make('before', 'NULL', uuidBound(START_MS));
  for (let month = 0; month < MONTHS; month += 1)
    await make(`month_${month}`, uuidBound(monthMs(month)), uuidBound(monthMs(month + 1)));
  await make('from', uuidBound(END_MS), 'NULL');
};

/** The mark is of one database. The embedded PostgreSQL sets it where a vault is; without it the log has a wall for writes only. */
const markLeakproof = async (address: DatabaseAddress): Promise<void> => {
  const client = new Client({ ...address, user: superuser });
  await client.connect();
  await client.query('ALTER FUNCTION pg_catalog.arraycontains(anyarray, anyarray) LEAKPROOF');
  await client.end();
};

type Figures = { buffers: number; planning_ms: number };

/** What all statements of a list or count read, as they are planned for their values. */
const measure = async (client: Client, work: (query: Query) => Promise<unknown>): Promise<Figures> => {
  const figures: Figures = { buffers: 0, planning_ms: 0 };
  const query: Query = async (_name, text, values) => {
    // The first run loads what PostgreSQL knows of the tables.
    await client.query(`EXPLAIN ${text}`, values);
    const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values);
    const [{ Plan: plan, 'Planning Time': planning }] = rows[0]['QUERY PLAN'];
    figures.buffers += plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
    figures.planning_ms = round(figures.planning_ms + planning);
    return (await client.query(text, values)).rows;
  };
  await work(query);
  return figures;
};

const PAGE = 21;
const middle = firstIdAt((START_MS + END_MS) / 2);
const lists: [string, LogFilter, { id: string; place: number }?][] = [
  ['page 1', { not_entity_type: 'log' }],
  ['cursor page', { not_entity_type: 'log' }, { id: middle, place: 1 }],
  ['actor', { actor_id: actor(3) }],
  ['operation', { operation: 'read' }],
  ['rare operation', { operation: 'delete' }],
  ['outcome', { outcome: 'refused' }],
  ['a month', { from_id: firstIdAt(monthMs(50)), to_id: firstIdAt(monthMs(51)) }],
  ['busy entity', { entity_id: 'busy' }],
];

const explainLists = async (client: Client): Promise<Record<string, Figures>> => {
  const found: Record<string, Figures> = {};
  const { rows } = await client.query(
    "SELECT entity_ids[1] AS id FROM audit_log WHERE tenant_id = $1 AND entity_ids[1] <> 'busy' LIMIT 1",
    [TENANT],
  );
  const all: typeof lists = [...lists, ['rare entity', { entity_id: rows[0].id }]];
  for (const [name, filter, after] of all)
    found[name] = await measure(client, (query) =>
      listLogEntries(
        { query, tenant_id: TENANT },
        filter,
        after ? { after } : { offset: 0 },
        PAGE,
        filter.entity_id === 'busy',
      ),
    );
  for (const [name, filter] of [
    ['count', { not_entity_type: 'log' }],
    ['count of an actor', { actor_id: actor(3) }],
  ] as const)
    found[name] = await measure(client, (query) => countLogEntries({ query, tenant_id: TENANT }, filter));
  return found;
};

/** @returns figures with one partition and with a hundred. */
export const logs = async (): Promise<Record<string, unknown>> => {
  const server = await startServer();
  const figures: Record<string, Record<string, Figures>> = {};
  try {
    const address = await databaseOf(server.dataDir);
    for (const [name, isMonthly] of [
      ['one', false],
      ['hundred', true],
    ] as const) {
      const admin = new Client(address);
      await admin.connect();
      await admin.query(`CREATE DATABASE logs_${name}`);
      await admin.end();
      const own = { ...address, database: `logs_${name}` };
      await markLeakproof(own);
      await migrate(own, migrationsDir);
      const client = new Client(own);
      await client.connect();
      await client.query(SEE_ALL_TENANTS);
      await partition(client, isMonthly);
      await client.query(FILL, [ROWS, START_MS, END_MS]);
      await client.query('VACUUM ANALYZE audit_log');
      // Every connection of the server has this setting.
      await client.query('SET enable_seqscan = off');
      // Behind row-level security, as the statements of a caller are.
      await client.query(`SET strongroom.tenants = '${TENANT}'`);
      figures[name] = await explainLists(client);
      await client.end();
    }
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
  const compared = Object.fromEntries(
    Object.entries(figures['one'] ?? {}).map(([name, one]) => {
      const hundred = figures['hundred']?.[name] as Figures;
      return [name, { buffers: [one.buffers, hundred.buffers], planning_ms: [one.planning_ms, hundred.planning_ms] }];
    }),
  );
  const more = Object.entries(compared).filter(
    ([
      ,
      {
        buffers: [one = 0, hundred = 0],
      },
    ]) => hundred > FACTOR_MAX * one,
  );
  return { rows: ROWS, ...compared, above_factor: more.map(([name]) => name) };
};
