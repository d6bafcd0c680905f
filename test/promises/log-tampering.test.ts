// Whatever a writer of the database takes from the audit log, or excuses in it, `logs verify` ends with 1 and names what is wrong.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { INSERT_LOGS } from '../../src/platform/audit/rows.ts';
import { STREAM_DELAY_MS } from '../../src/platform/audit/stream.ts';
import { createTreeBuilder } from '../../src/platform/audit/trees.ts';
import { type Backups, callToEnd, type Ended, openBackups } from '../support/backups.ts';
import { isDistributed } from '../support/database.ts';
import { startServer, type TestServer } from '../support/server.ts';

const TABLES = ['audit_log', 'log_trees', 'log_leaves', 'log_checkpoints', 'log_archives'];

let server: TestServer;
let backups: Backups;
let directory: string;
let held: string;
/** Has rows of two archived months and of today. */
let old: string;
/** Has rows of today. */
let young: string;

const cli = (...args: string[]): Promise<Ended> => backups.cli(server.databaseUrl, args);
const monthsAgo = (months: number, ms = 0): Date => {
  const now = server.ctx.now();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months, 5) + ms);
};
const rowAt = (at: Date) => ({
  id: server.ctx.newLogId(at),
  entity_type: 'token',
  entity_ids: ['a'],
  operation: 'read',
  message: 'Token retrieved',
  created_at: at,
  disclosure: 'none',
  outcome: 'success',
});
const insert = (tenant_id: string, times: Date[]) =>
  server.sql(INSERT_LOGS, [tenant_id, JSON.stringify(times.map(rowAt))]);
const verify = (...more: string[]): Promise<Ended> =>
  cli('logs', 'verify', '--database', '--json', '--archives', directory, '--checkpoints', held, ...more);
const build = async (): Promise<void> => {
  server.clock.offsetMs += STREAM_DELAY_MS + 1_000;
  await createTreeBuilder(server.ctx).build(server.ctx.newUuid());
  await server.sql(`DELETE FROM leases WHERE name = 'log-trees'`);
};

beforeAll(async () => {
  [server, backups] = await Promise.all([startServer(), openBackups(callToEnd)]);
  [old, young] = [server.ctx.newUuid(), server.ctx.newUuid()];
  await server.sql(`DO $$ DECLARE first record; month timestamptz := date_trunc('month', now(), 'UTC') - interval '16 months'; BEGIN
    PERFORM set_config('TimeZone', 'UTC', true);
    SELECT * INTO first FROM log_partitions() LIMIT 1;
    EXECUTE 'CREATE TEMP TABLE moved ON COMMIT DROP AS TABLE ' || first.name;
    EXECUTE 'DROP TABLE ' || first.name;
    PERFORM make_log_partition('audit_log_before_' || to_char(month, 'YYYY_MM'), NULL, log_id_at(month));
    WHILE log_id_at(month) < first.to_id LOOP
      PERFORM make_log_partition('audit_log_' || to_char(month, 'YYYY_MM'), log_id_at(month), log_id_at(month + interval '1 month'));
      month := month + interval '1 month';
    END LOOP;
    INSERT INTO audit_log SELECT * FROM moved;
  END $$`);
  const times = (months: number, count: number): Date[] =>
    Array.from({ length: count }, (_, at) => monthsAgo(months, at));
  await insert(old, [...times(15, 3), ...times(14, 300), ...times(2, 5)]);
  await insert(young, times(1, 4));
  await build();
  await insert(young, [server.ctx.now()]);
  await build();
  directory = backups.fileNamed('archive');
  mkdirSync(directory);
  expect(await cli('logs', 'archive', directory)).toMatchObject({ code: 0, stderr: '' });
  held = backups.fileNamed('held.jsonl');
  const notes = await server.sql('SELECT note FROM log_checkpoints ORDER BY id');
  writeFileSync(held, notes.map(({ note }) => `${JSON.stringify({ checkpoint: note })}\n`).join(''));
  for (const table of TABLES) await server.sql(`CREATE TABLE kept_${table} AS TABLE ${table}`);
  await server.sql('GRANT UPDATE, DELETE ON audit_log TO CURRENT_USER');
}, 120_000);
afterAll(async () => {
  await server.close();
  backups.close();
});

/** Runs an attack, then `check`, and puts all back. */
const afterAttack = async (statements: string[], check: () => Promise<unknown>): Promise<void> => {
  try {
    for (const sql of statements)
      await server.sql(sql.replaceAll(':old', `'${old}'`).replaceAll(':young', `'${young}'`));
    await check();
  } finally {
    for (const table of TABLES)
      await server.sql(`DELETE FROM ${table}; INSERT INTO ${table} SELECT * FROM kept_${table}`);
  }
};

const expectFinding = async (finding: object, ...more: string[]): Promise<void> => {
  const { code, stdout } = await verify(...more);
  expect([code, JSON.parse(stdout)]).toEqual([
    1,
    expect.objectContaining({ ok: false, finding: expect.objectContaining(finding) }),
  ]);
};

test('an untouched log with its archives verifies, of all tenants and of one', async () => {
  for (const more of [[], ['--tenant', old], ['--tenant', young]])
    expect(await verify(...more)).toMatchObject({ code: 0, stderr: '' });
}, 60_000);

const ofTenant = (tenant: string, tables: string[]): string[] =>
  tables.map((table) => `DELETE FROM ${table} WHERE tenant_id = ${tenant}`);
const wide = `INSERT INTO log_archives (name, from_id, to_id, archived_at) VALUES ('x', NULL, '01ffffff-ffff-7000-8000-000000000000', now())`;
const newest = (tenant: string): string =>
  `DELETE FROM log_checkpoints WHERE tenant_id = ${tenant} AND size = (SELECT max(size) FROM log_checkpoints WHERE tenant_id = ${tenant})`;

const attacks: [string, string[], object][] = [
  [
    'a row is gone',
    ['DELETE FROM audit_log WHERE id = (SELECT id FROM audit_log WHERE tenant_id = :young ORDER BY id DESC LIMIT 1)'],
    { kind: 'removed' },
  ],
  [
    'rows are gone behind a mark without a signature',
    [...ofTenant(':old', ['audit_log']), wide],
    { kind: 'archive', text: expect.stringContaining('archive x') },
  ],
  [
    'rows are gone behind a mark with the signature of another',
    [...ofTenant(':old', ['audit_log']), `UPDATE log_archives SET to_id = '01ffffff-ffff-7000-8000-000000000000'`],
    { kind: 'archive' },
  ],
  [
    'a mark says that another digest is its own',
    [`UPDATE log_archives SET sha256 = repeat('0', 64) WHERE rows = 300`],
    { kind: 'archive' },
  ],
  ['the marks are gone', ['DELETE FROM log_archives'], { kind: 'removed' }],
  [
    'rows of a month that is archived are said to be in it',
    [`UPDATE log_archives SET note = NULL`],
    { kind: 'archive' },
  ],
  [
    'the leaves of rows that nothing archived are gone',
    ['DELETE FROM log_leaves WHERE tenant_id = :old'],
    { kind: 'cut_off' },
  ],
  ['the newest checkpoint is gone', [newest(':young')], { kind: 'cut_off' }],
  [
    'all of a tenant is gone',
    ofTenant(':young', ['audit_log', 'log_trees', 'log_leaves', 'log_checkpoints']),
    { kind: 'cut_off' },
  ],
  ['all of all tenants is gone', TABLES.map((table) => `DELETE FROM ${table}`), { kind: 'cut_off' }],
  ['rows, and the tree alone', ofTenant(':young', ['audit_log', 'log_trees']), { kind: 'cut_off' }],
  [
    'a row comes between others',
    [
      `INSERT INTO audit_log SELECT (jsonb_populate_record(l, '{"id": "${'0'.repeat(8)}-0000-7000-8000-000000000001"}')).* FROM audit_log l WHERE tenant_id = :young LIMIT 1`,
    ],
    { kind: 'added' },
  ],
];

test.skipIf(isDistributed).each(attacks)(
  '%s: it shows',
  async (_, statements, finding) => {
    await afterAttack(statements, () => expectFinding(finding));
  },
  30_000,
);

test.skipIf(isDistributed)(
  'a tenant that is gone shows where only it is asked for, with checkpoints and without',
  async () => {
    await afterAttack(ofTenant(':young', TABLES.slice(0, -1)), async () => {
      await expectFinding({ kind: 'cut_off', tenant_id: young }, '--tenant', young);
      expect((await cli('logs', 'verify', '--database', '--tenant', young)).code).toBe(1);
    });
  },
  30_000,
);

test('an archive that is named and was not verified, was changed or is gone shows', async () => {
  const unnamed = await cli('logs', 'verify', '--database', '--checkpoints', held);
  expect([unnamed.code, unnamed.stdout]).toEqual([1, expect.stringContaining('--archives')]);
  const file = readdirSync(directory).find(
    (name) => name.includes(monthsAgo(14).toISOString().slice(0, 7)) && /\d\.jsonl/.test(name),
  );
  const path = join(directory, file ?? '');
  renameSync(path.replace('.jsonl.gz', '.manifest.json'), backups.fileNamed('manifest'));
  renameSync(path, backups.fileNamed('rows'));
  await expectFinding({ kind: 'unverified' });
  copyFileSync(backups.fileNamed('manifest'), path.replace('.jsonl.gz', '.manifest.json'));
  const lines = gunzipSync(readFileSync(backups.fileNamed('rows')))
    .toString()
    .replace('success', 'refused');
  writeFileSync(path, gzipSync(lines));
  await expectFinding({ kind: 'changed', text: expect.stringContaining(file ?? '') });
  // The bounds and the digest are signed, too.
  copyFileSync(backups.fileNamed('rows'), path);
  const manifest = readFileSync(backups.fileNamed('manifest'), 'utf8');
  writeFileSync(path.replace('.jsonl.gz', '.manifest.json'), manifest.replace(/"rows": 300/, '"rows": 299'));
  await expectFinding({ kind: 'archive', text: expect.stringContaining(file ?? '') });
  writeFileSync(path.replace('.jsonl.gz', '.manifest.json'), manifest);
  expect((await verify()).code).toBe(0);
}, 60_000);

test('an export excuses no row, and a held checkpoint of its tenant needs one', async () => {
  const file = backups.fileNamed('export.jsonl');
  const key = (await cli('logs', 'key')).stdout.trim();
  expect((await cli('logs', 'export', file, '--tenant', old)).code).toBe(0);
  const judge = async (...more: string[]): Promise<unknown> => {
    const { code, stdout } = await cli('logs', 'verify', file, '--key', key, '--json', ...more);
    return [code, JSON.parse(stdout).finding?.kind];
  };
  expect(await judge('--archives', directory)).toEqual([0, undefined]);
  expect(await judge()).toEqual([1, 'removed']);
  expect(await judge('--archives', directory, '--checkpoints', held, '--tenant', young)).toEqual([1, 'cut_off']);
}, 60_000);

test('no role may empty a table by TRUNCATE, which no policy sees', async () => {
  const found =
    await server.sql(`SELECT c.relname FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) AS a
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND a.privilege_type = 'TRUNCATE'
      AND c.relname NOT LIKE 'kept_%' AND c.relname NOT LIKE '%prisma_migrations'`);
  expect(found.map(({ relname }) => relname)).toEqual(['ephemeral_keys']);
});
