// Whatever a writer of the database takes from the audit log, or excuses in it, `logs verify` ends with 1 and names what is wrong.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { STREAM_DELAY_MS } from '../../src/platform/audit/stream.ts';
import { createTreeBuilder } from '../../src/platform/audit/trees.ts';
import { type Backups, callToEnd, type Ended, openBackups } from '../support/backups.ts';
import { isDistributed } from '../support/database.ts';
import { bareTenant, insertLogRows, logRowAt } from '../support/log-rows.ts';
import { startServer, type TestServer } from '../support/server.ts';

const OF_TENANTS = ['audit_log', 'log_trees', 'log_leaves', 'log_checkpoints'];
const TABLES = [...OF_TENANTS, 'log_archives', 'tenants'];

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
const insert = (tenant_id: string, times: Date[]) =>
  insertLogRows(
    server,
    tenant_id,
    times.map((at) => logRowAt(server, at)),
  );
const verify = (...more: string[]): Promise<Ended> =>
  cli('logs', 'verify', '--database', '--json', '--archives', directory, '--checkpoints', held, ...more);
const build = async (): Promise<void> => {
  server.clock.offsetMs += STREAM_DELAY_MS + 1_000;
  await createTreeBuilder(server.ctx).build(server.ctx.newUuid());
  await server.sql(`DELETE FROM leases WHERE name = 'log-trees'`);
};

beforeAll(async () => {
  [server, backups] = await Promise.all([startServer(), openBackups(callToEnd)]);
  [old, young] = await Promise.all([bareTenant(server), bareTenant(server)]);
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
const wide = `INSERT INTO log_archives (name, from_id, to_id, archived_at, rows, sha256, note) VALUES ('x', NULL, '01ffffff-ffff-7000-8000-000000000000', now(), 0, '', '')`;
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
  ['rows of a month that is archived are said to be in it', [`UPDATE log_archives SET note = ''`], { kind: 'archive' }],
  [
    'the leaves of rows that nothing archived are gone',
    ['DELETE FROM log_leaves WHERE tenant_id = :old'],
    { kind: 'cut_off' },
  ],
  ['the newest checkpoint is gone', [newest(':young')], { kind: 'cut_off' }],
  ['all of a tenant is gone', ofTenant(':young', OF_TENANTS), { kind: 'cut_off' }],
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
    await afterAttack(ofTenant(':young', OF_TENANTS), async () => {
      await expectFinding({ kind: 'cut_off', tenant_id: young }, '--tenant', young);
      expect((await cli('logs', 'verify', '--database', '--tenant', young)).code).toBe(1);
    });
  },
  30_000,
);

/** Without the checkpoints that somebody holds. */
const expectFindingAlone = async (finding: object): Promise<void> => {
  const { code, stdout } = await cli('logs', 'verify', '--database', '--json', '--archives', directory);
  expect([code, JSON.parse(stdout).finding]).toEqual([1, expect.objectContaining(finding)]);
};

test.skipIf(isDistributed)(
  'without held checkpoints, tenants and their logs must fit each other',
  async () => {
    await afterAttack(ofTenant(':young', OF_TENANTS), () => expectFindingAlone({ kind: 'cut_off', tenant_id: young }));
    // A time of the future hides no tenant.
    const later = `UPDATE tenants SET created_at = now() + interval '1 year' WHERE id = :young`;
    await afterAttack([...ofTenant(':young', OF_TENANTS), later], () =>
      expectFindingAlone({ kind: 'cut_off', tenant_id: young }),
    );
    await afterAttack(['DELETE FROM tenants WHERE id = :young'], () =>
      expectFindingAlone({ kind: 'tenant', tenant_id: young }),
    );
  },
  60_000,
);

test.skipIf(isDistributed)(
  'a tenant that was deleted by the API is not missing',
  async () => {
    const { tenant_id, api_key } = await server.newTenant();
    const deleted = await server.request('DELETE', '/tenants/self', { key: api_key });
    expect(deleted.status).toBe(204);
    await build();
    expect(await cli('logs', 'verify', '--database', '--archives', directory)).toMatchObject({ code: 0, stderr: '' });
    await server.sql('DELETE FROM audit_log WHERE tenant_id = $1', [tenant_id]);
    for (const table of ['log_trees', 'log_leaves', 'log_checkpoints'])
      await server.sql(`DELETE FROM ${table} WHERE tenant_id = $1`, [tenant_id]);
  },
  60_000,
);

/** Copies a row, as the role of the server may. */
const copied = (from: string, to: string, id: string, more = ''): string =>
  `INSERT INTO audit_log SELECT (jsonb_populate_record(l, '{"tenant_id": "${to}", "id": "${id}"${more}}')).* FROM audit_log l
  WHERE tenant_id = '${from}' ORDER BY id DESC LIMIT 1`;

test.skipIf(isDistributed)(
  'a row that no server wrote gets no leaf, raises an alarm once, and shows before and after',
  async () => {
    const newId = (): string => server.ctx.newLogId(server.ctx.now());
    const [{ id: last }] = await server.sql('SELECT id FROM audit_log WHERE tenant_id = $1 ORDER BY id DESC LIMIT 1', [
      young,
    ]);
    const treeOf = async (of: string) =>
      (await server.sql('SELECT size, last_id FROM log_trees WHERE tenant_id = $1', [of]))[0];
    const forgeries: [what: string, of: string, id: () => string, more: string][] = [
      ['with the MAC of another row', young, newId, ''],
      ['of another tenant', old, () => last, ''],
      ['with a MAC of nobody', young, newId, `, "mac": "${server.ctx.newUuid()}"`],
    ];
    for (const [what, of, idOf, more] of forgeries) {
      const forged = idOf();
      const before = await treeOf(of);
      const builder = createTreeBuilder(server.ctx);
      const buildAgain = async (): Promise<void> => {
        server.clock.offsetMs += STREAM_DELAY_MS + 1_000;
        await builder.build(server.ctx.newUuid());
        await server.sql(`DELETE FROM leases WHERE name = 'log-trees'`);
      };
      const alarms = () =>
        server.logLines.filter((line) => line.includes('"table":"audit_log"') && line.includes(`"row_id":"${forged}"`));
      await afterAttack([copied(young, of, forged, more)], async () => {
        await expectFinding({ kind: 'added', tenant_id: of, id: forged });
        await buildAgain();
        expect([what, await treeOf(of)]).toEqual([what, before]);
        // A row that a server writes afterwards does not hide it.
        await insert(of, [server.ctx.now()]);
        await buildAgain();
        await buildAgain();
        expect(alarms().map((line) => JSON.parse(line))).toMatchObject([{ alarm: 'tampered', tenant_id: of }]);
        expect(Number((await treeOf(of)).size)).toBe(Number(before.size) + 1);
        await expectFinding({ kind: 'added', tenant_id: of, id: forged });
      });
    }
  },
  180_000,
);

test.skipIf(isDistributed)(
  'thousands of rows that no server wrote are counted, hold no leaf up, and do not fill the log',
  async () => {
    const isOf = (line: string): boolean => line.includes('"table":"audit_log"');
    const counted = async (): Promise<number> =>
      Number(/strongroom_tampered_rows_total\{table="audit_log"\} (\d+)/.exec(await server.ctx.metricsText())?.[1]);
    const [linesBefore, countBefore] = [server.logLines.filter(isOf).length, await counted()];
    const [before] = await server.sql('SELECT size FROM log_trees WHERE tenant_id = $1', [young]);
    const at = server.ctx.now().getTime();
    // More than a step of the builder reads, and then one that a server wrote.
    const many = `INSERT INTO audit_log (tenant_id, id, entity_type, entity_ids, operation, message, created_at, disclosure, mac)
      SELECT :young, overlay(log_id_at(to_timestamp(${at / 1000}))::text PLACING lpad(to_hex(n), 8, '0') FROM 29 FOR 8)::uuid,
        'token', '{a}', 'read', 'forged', now(), 'none', gen_random_uuid() FROM generate_series(1, 4500) AS n`;
    await afterAttack([many], async () => {
      await insert(young, [new Date(at + 1)]);
      await build();
      const [{ size }] = await server.sql('SELECT size FROM log_trees WHERE tenant_id = $1', [young]);
      expect(Number(size)).toBe(Number(before.size) + 1);
      expect([server.logLines.filter(isOf).length - linesBefore, (await counted()) - countBefore]).toEqual([
        100, 4_500,
      ]);
    });
  },
  60_000,
);

test.skipIf(isDistributed)(
  'a row that was changed before it had a leaf gets none',
  async () => {
    await insert(young, [server.ctx.now()]);
    const change = `UPDATE audit_log SET message = 'Token revealed' WHERE id = (SELECT max(id::text)::uuid FROM audit_log WHERE tenant_id = :young)`;
    await afterAttack([change], async () => {
      await build();
      await expectFinding({ kind: 'added', tenant_id: young });
    });
  },
  60_000,
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
