// Old months of the audit log move into files by the command line: verified, read again, and dropped only when they are safe.
import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { INSERT_LOGS } from '../src/platform/db/audit-rows.ts';
import { newTimeOrderedId } from '../src/platform/crypto/ids.ts';
import { randomBytesFromKernel } from '../src/platform/crypto/random.ts';
import { findLogState } from '../src/platform/db/log-partitions.ts';
import { type Backups, callToEnd, type Ended, openBackups } from './support/backups.ts';
import { root } from './support/process.ts';
import { startServer, type TestServer } from './support/server.ts';

const TENANT = '00000000-0000-4000-8000-000000000001';
const OTHER_TENANT = '00000000-0000-4000-8000-000000000002';

/** The fifth of a month, counted from this one. */
const inMonths = (months: number): Date => {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months, 5));
};
const monthOf = (months: number): string => inMonths(months).toISOString().slice(0, 7);
const partitionOf = (months: number): string => `audit_log_${monthOf(months).replace('-', '_')}`;
const fileOf = (months: number): string => `audit-log-${monthOf(months)}.jsonl.gz`;

let server: TestServer;
let backups: Backups;
let directory: string;
let count = 0;

const insert = (months: number, tenant_id = TENANT, message = `row "${(count += 1)}" \\ ü`) =>
  server.sql(INSERT_LOGS, [
    tenant_id,
    JSON.stringify([
      {
        id: newTimeOrderedId(inMonths(months).getTime(), randomBytesFromKernel),
        entity_type: 'card',
        entity_ids: ['a', 'b'],
        operation: 'read',
        message,
        created_at: inMonths(months).toISOString(),
        disclosure: 'none',
        outcome: 'success',
        mac: crypto.randomUUID(),
      },
    ]),
  ]);

const rowsIn = async (months: number): Promise<number> => {
  const [from, to] = [inMonths(months), inMonths(months + 1)];
  return (
    await server.sql('SELECT count(*)::int AS count FROM audit_log WHERE id >= log_id_at($1) AND id < log_id_at($2)', [
      from,
      to,
    ])
  )[0].count;
};
const partitions = async (): Promise<string[]> =>
  (await server.sql('SELECT name FROM log_partitions()')).map(({ name }) => name);

const archive = (...more: string[]): Promise<Ended> =>
  backups.cli(server.databaseUrl, ['logs', 'archive', directory, ...more]);
const read = (file: string, ...more: string[]): Promise<Ended> =>
  backups.cli(server.databaseUrl, ['logs', 'read', join(directory, file), ...more]);

beforeAll(async () => {
  [server, backups] = await Promise.all([startServer(), openBackups(callToEnd)]);
});
afterAll(async () => {
  await server.close();
  backups.close();
});

/** A log with months from sixteen months ago on. The months -15 and -14 have rows that are old enough. */
beforeEach(async () => {
  directory = backups.fileNamed(`archive-${(count += 1)}`);
  mkdirSync(directory);
  await server.sql(`DO $$ DECLARE p record; month timestamptz := date_trunc('month', now(), 'UTC') - interval '16 months'; BEGIN
    PERFORM set_config('TimeZone', 'UTC', true);
    FOR p IN SELECT name FROM log_partitions() LOOP EXECUTE 'DROP TABLE ' || p.name; END LOOP;
    PERFORM make_log_partition('audit_log_before_' || to_char(month, 'YYYY_MM'), NULL, log_id_at(month));
    WHILE month <= now() + interval '1 month' LOOP
      PERFORM make_log_partition('audit_log_' || to_char(month, 'YYYY_MM'), log_id_at(month), log_id_at(month + interval '1 month'));
      month := month + interval '1 month';
    END LOOP;
    PERFORM make_log_partition('audit_log_from_' || to_char(month, 'YYYY_MM'), log_id_at(month), NULL);
  END $$`);
  for (const months of [-15, -14, -2, 0]) await insert(months);
  await insert(-15, OTHER_TENANT, 'of another tenant');
});

test('whole months above the retention move into files, which are read again', async () => {
  const state = () => findLogState(server.ctx.db.statements.query, new Date(), 13);
  expect(await state()).toMatchObject({ isOverdue: true, hasRowsAhead: false });
  const { code, stdout, stderr } = await archive();
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain(`${fileOf(-15)}  2 rows`);
  expect(await Promise.all([-15, -14, -2, 0].map(rowsIn))).toEqual([0, 0, 1, 1]);
  expect((await partitions()).slice(0, 2)).toEqual([partitionOf(-13).replace('log_', 'log_before_'), partitionOf(-13)]);
  const names = [-16, -15, -14].flatMap((months) => [
    fileOf(months),
    fileOf(months).replace('jsonl.gz', 'manifest.json'),
  ]);
  expect(readdirSync(directory).toSorted()).toEqual(names.toSorted());
  const manifest = JSON.parse(readFileSync(join(directory, names[3] ?? ''), 'utf8'));
  expect(manifest).toMatchObject({ rows: 2, tenants: { [TENANT]: 1, [OTHER_TENANT]: 1 }, signed_roots: [] });

  const all = await read(fileOf(-15));
  expect(all.stdout.trim().split('\n')).toHaveLength(2);
  const [line] = (await read(fileOf(-15), '--tenant', TENANT)).stdout.trim().split('\n');
  expect(JSON.parse(line ?? '')).toMatchObject({
    tenant_id: TENANT,
    entity_ids: ['a', 'b'],
    message: expect.stringMatching(/^row "\d+" \\ ü$/),
  });
  expect(await state()).toMatchObject({ isOverdue: false });
});

test('an archive that was changed, cut off or lost its manifest is not printed', async () => {
  await archive('--month', monthOf(-15), '--keep');
  expect(await rowsIn(-15)).toBe(2);
  const path = join(directory, fileOf(-15));
  const whole = readFileSync(path);
  const changed = Buffer.from(whole);
  changed[whole.length >> 1] = (changed[whole.length >> 1] as number) ^ 1;
  for (const bytes of [changed, whole.subarray(0, -9)]) {
    writeFileSync(path, bytes);
    const { code, stdout, stderr } = await read(fileOf(-15));
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining('was cut off or changed')]);
  }
  copyFileSync(path, join(directory, 'alone.jsonl.gz'));
  expect((await read('alone.jsonl.gz')).stderr).toContain('has no manifest');
  // Nothing is dropped on the word of such a file.
  const { code, stderr } = await archive();
  expect([code, stderr]).toEqual([1, expect.stringContaining('was cut off or changed')]);
  expect(await rowsIn(-15)).toBe(2);
});

test('a full disk, and a file with other rows in its place, drop nothing', async () => {
  for (let at = 0; at < 300; at += 1) await insert(-15, TENANT, randomBytesFromKernel(400).toString('hex'));
  const script = 'ulimit -f 64; exec "$0" src/cli/main.ts logs archive "$1"';
  const full = await promisify(execFile)('bash', ['--norc', '-c', script, process.execPath, directory], {
    cwd: root,
    env: { PATH: process.env['PATH'], ...backups.environmentOf(server.databaseUrl) },
  }).catch((error: Ended) => error);
  expect([(full as Ended).code, full.stderr]).toEqual([1, expect.stringMatching(/cannot be written: .*\(EFBIG\)/)]);
  expect(readdirSync(directory).filter((name) => name.includes(monthOf(-15)))).toEqual([]);
  expect(await rowsIn(-15)).toBe(302);
  await archive('--month', monthOf(-15), '--keep');
  await insert(-15);
  const { code, stderr } = await archive();
  expect([code, stderr]).toEqual([1, expect.stringContaining('exists, and has other rows')]);
  expect(await rowsIn(-15)).toBe(303);
}, 120_000);

test('a run after one that was killed uses its file, and first puts back what it took out', async () => {
  await archive('--keep');
  const [name, detached] = [partitionOf(-15), partitionOf(-15).replace('log_', 'log_detached_')];
  await server.sql(`DO $$ DECLARE p record; BEGIN
    SELECT * INTO p FROM log_partitions() WHERE name = '${name}';
    ALTER TABLE audit_log DETACH PARTITION ${name};
    ALTER TABLE ${name} RENAME TO ${detached};
    PERFORM make_log_partition('${name}', p.from_id, p.to_id);
  END $$`);
  expect(await rowsIn(-15)).toBe(0);
  const kept = await archive('--keep');
  expect([kept.code, kept.stderr]).toEqual([
    0,
    expect.stringContaining(`${detached} was left by a run that was stopped`),
  ]);
  expect(await rowsIn(-15)).toBe(2);
  const { code, stdout } = await archive('--json');
  expect(code).toBe(0);
  expect(JSON.parse(stdout.split('\n')[1] ?? '')).toMatchObject({ partition: name, rows: 2, dropped: true });
  expect(await rowsIn(-15)).toBe(0);
}, 120_000);

test('months that have not ended, have no partition or are no month are refused', async () => {
  const refusals = [
    [monthOf(0), 'has not ended'],
    ['1999-01', 'has no partition of its own'],
    ['August', 'must be like 2026-08'],
  ] as const;
  for (const [month, message] of refusals) {
    const { code, stderr } = await archive('--month', month);
    expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
  }
  expect(await Promise.all([-15, -14, -2, 0].map(rowsIn))).toEqual([2, 1, 1, 1]);
});
