// The provable log: an attacker who may write the database changes, removes, moves or cuts off rows, and is found out.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { judgeLogFile as judgeFile, type VerifyOptions } from '../src/cli/log-proofs.ts';
import { exportCheckpoints, STREAM_DELAY_MS } from '../src/platform/audit/stream.ts';
import { proveRow, readTreeWithRows } from '../src/platform/audit/log-proof.ts';
import { createLogVerifier, type Finding, type HeldCheckpoints } from '../src/platform/audit/log-verifier.ts';
import { INSERT_LOGS } from '../src/platform/db/audit-rows.ts';
import { createTreeBuilder } from '../src/platform/audit/trees.ts';
import { openCheckpoint, signCheckpoint, signingKeyOfSeed } from '../src/platform/crypto/signed-note.ts';
import { findArchivedMonths } from '../src/platform/db/log-trees.ts';
import type { Query } from '../src/platform/db/statements.ts';
import { type Backups, callToEnd, type Ended, openBackups } from './support/backups.ts';
import { callCommand } from './support/command.ts';
import { isDistributed, seeingAllTenants } from './support/database.ts';
import { root, sourceEnvironment } from './support/process.ts';
import { bareTenant, insertLogRows, logRowAt } from './support/log-rows.ts';
import { startServer, type TestServer } from './support/server.ts';

let server: TestServer;
let backups: Backups;
let tenant_id: string;
let holder: string;
let builder: ReturnType<typeof createTreeBuilder>;

const judgeLogFile = (path: string, options: Omit<VerifyOptions, 'isJson'>) =>
  judgeFile({ say: () => undefined }, path, options);
const cli = (...args: string[]): Promise<Ended> => backups.cli(server.databaseUrl, args);
/** What was written now becomes old enough. */
const pass = (): void => void (server.clock.offsetMs += STREAM_DELAY_MS + 1_000);
const build = async (by = builder): Promise<void> => {
  pass();
  await by.build(holder);
};
const rowAt = (at: Date, entity: string) => logRowAt(server, at, entity);
const insert = async (count: number, of = tenant_id): Promise<void> => {
  const now = server.ctx.now().getTime();
  const rows = Array.from({ length: count }, (_, at) => rowAt(new Date(now + at / 10), `row ${at}`));
  await insertLogRows(server, of, rows);
};
const treeOf = async (of = tenant_id) => (await server.sql('SELECT * FROM log_trees WHERE tenant_id = $1', [of]))[0];
const checkpointsOf = (of = tenant_id) =>
  server.sql('SELECT size::int AS size, note FROM log_checkpoints WHERE tenant_id = $1 ORDER BY size', [of]);
const idsOf = async (): Promise<string[]> =>
  (await server.sql('SELECT id FROM audit_log WHERE tenant_id = $1 ORDER BY id', [tenant_id])).map(({ id }) => id);

const verify = async (query: Query, held?: HeldCheckpoints): Promise<Finding | undefined> => {
  const verifier = createLogVerifier(server.ctx.logSigning.publicKeys, held);
  const archives = await findArchivedMonths(query);
  for await (const event of readTreeWithRows(query, tenant_id, archives)) verifier.take(event);
  return verifier.end().finding;
};

/** What an attack with the rights of a superuser leads to. It is taken back. */
const attacked = async (
  attack: (sql: (text: string, values?: unknown[]) => Promise<any[]>) => Promise<unknown>,
  held?: HeldCheckpoints,
): Promise<Finding | undefined> => {
  const client = new Client({ connectionString: server.databaseUrl, ...seeingAllTenants });
  await client.connect();
  try {
    await client.query('BEGIN; GRANT UPDATE, DELETE ON audit_log TO CURRENT_USER');
    await attack(async (text, values = []) => (await client.query(text, values)).rows);
    return await verify(async (_, text, values) => (await client.query(text, values)).rows, held);
  } finally {
    await client.end();
  }
};

beforeAll(async () => {
  [server, backups] = await Promise.all([startServer(), openBackups(callToEnd)]);
  ({ tenant_id } = server.tenant);
  holder = server.ctx.newUuid();
  builder = createTreeBuilder(server.ctx);
  // A few rows of the API, then more than two blocks of leaves, with a checkpoint between.
  for (let at = 0; at < 3; at += 1) await server.tokenize({ type: 'token', data: `value ${at}` });
  await insert(300);
  await build();
  await insert(300);
  await build();
});
afterAll(async () => {
  await server.close();
  backups.close();
});

test('final rows are in a signed tree, and an export is verified without a database', async () => {
  const ids = await idsOf();
  expect(await treeOf()).toMatchObject({
    size: String(ids.length),
    signed_size: String(ids.length),
    last_id: ids.at(-1),
  });
  expect((await checkpointsOf()).map(({ size }) => size)).toEqual([ids.length - 300, ids.length]);
  expect(builder.figures()).toEqual({ signedUntilMs: expect.any(Number), unhashed: 0, tampered: 0 });
  expect(await verify(server.ctx.db.statements.query)).toBeUndefined();

  const file = backups.fileNamed('export.jsonl');
  expect(await cli('logs', 'export', file, '--tenant', tenant_id)).toMatchObject({
    code: 0,
    stdout: `Exported: ${ids.length} rows.\n`,
  });
  const key = (await cli('logs', 'key')).stdout.trim();
  expect(key).toMatch(/^[A-Za-z0-9+/]{43}=$/);
  const verified = await backups.cli('postgresql://nowhere.invalid/none', ['logs', 'verify', file, '--key', key]);
  expect([verified.code, verified.stderr]).toEqual([0, '']);
  expect(verified.stdout).toContain(`tenant ${tenant_id}  rows 0 to ${ids.length - 1}, 2 checkpoints`);
  expect(verified.stdout).toContain('All rows are as they were signed.');
  expect((await cli('logs', 'verify', '--database')).stdout).toContain('All rows are as they were signed.');

  const proof = await cli('logs', 'prove', ids[290] as string, '--tenant', tenant_id);
  const ofOther = await cli('logs', 'prove', 'token-id', '--tenant', tenant_id);
  expect([ofOther.code, ofOther.stderr]).toEqual([1, expect.stringContaining('`id` of an entry in GET /logs')]);
  const unknown = await cli('logs', 'prove', tenant_id, '--tenant', tenant_id);
  expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining(`GET /logs?entity_id=${tenant_id}`)]);
  const proofFile = backups.fileNamed('row.tlog-proof');
  writeFileSync(proofFile, proof.stdout);
  const proven = await cli('logs', 'verify', '--proof', proofFile, '--key', key);
  expect([proven.code, proven.stdout]).toEqual([0, expect.stringContaining(`number 290 of ${ids.length} in the log`)]);
  const line = proof.stdout.replace(/extra .*/, (text) => {
    const row = Buffer.from(text.slice(6), 'base64').toString();
    return `extra ${Buffer.from(row.replace('success', 'refused')).toString('base64')}`;
  });
  writeFileSync(proofFile, line);
  expect((await cli('logs', 'verify', '--proof', proofFile, '--key', key)).code).toBe(1);
}, 120_000);

test.skipIf(isDistributed)(
  'a writer of the database cannot change, remove, add or move a row unnoticed',
  async () => {
    const ids = await idsOf();
    const at = (position: number): string => ids[position] as string;
    const named = (kind: string, position: number, id = at(position)) => ({ kind, tenant_id, position, id });

    expect(
      await attacked((sql) => sql(`UPDATE audit_log SET outcome = 'refused' WHERE id = $1`, [at(5)])),
    ).toMatchObject(named('changed', 5));
    expect(await attacked((sql) => sql(`UPDATE audit_log SET ip = '' WHERE id = $1`, [at(400)]))).toMatchObject(
      named('changed', 400),
    );
    expect(await attacked((sql) => sql('DELETE FROM audit_log WHERE id = $1', [at(260)]))).toMatchObject(
      named('removed', 260),
    );
    expect(await attacked((sql) => sql('DELETE FROM audit_log WHERE id >= $1', [at(599)]))).toMatchObject(
      named('removed', 599),
    );
    const swapped = await attacked(async (sql) => {
      await sql(
        `UPDATE audit_log l SET entity_ids = o.entity_ids, message = o.message, created_at = o.created_at FROM audit_log o
      WHERE (l.id = $1 AND o.id = $2) OR (l.id = $2 AND o.id = $1)`,
        [at(300), at(310)],
      );
    });
    expect(swapped).toMatchObject(named('changed', 300));
    const added = rowAt(new Date(), 'a new one');
    added.id = `${at(100).slice(0, -4)}ffff`;
    expect(
      await attacked((sql) => sql(INSERT_LOGS, [tenant_id, JSON.stringify([{ ...added, mac: crypto.randomUUID() }])])),
    ).toMatchObject({
      kind: 'added',
      id: added.id,
    });
    // A month may be missing if it is archived, a single row may not.
    expect(
      await attacked(async (sql) => {
        await sql('DELETE FROM audit_log WHERE id = $1', [at(260)]);
        await sql(`INSERT INTO log_archives VALUES ('x', $1, $2, now(), 1, '', '')`, [at(260), at(261)]);
      }),
    ).toMatchObject({ kind: 'removed', id: at(260) });
  },
  60_000,
);

test('nor with the leaf hashes, the tree and the checkpoints, which only the key can sign', async () => {
  const ids = await idsOf();
  const [first, last] = (await checkpointsOf()) as [{ size: number; note: string }, { size: number; note: string }];
  const flip = (number: number) =>
    `UPDATE log_leaves SET hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1) WHERE number = ${number} AND tenant_id = '${tenant_id}'`;
  expect(await attacked((sql) => sql(flip(0)))).toMatchObject({ kind: 'leaf_hash', position: 1 });
  const both = await attacked(async (sql) => {
    await sql(flip(1));
    await sql(`UPDATE audit_log SET outcome = 'refused' WHERE id = $1`, [ids[257]]);
  });
  expect(both).toMatchObject({
    kind: 'interval',
    position: 0,
    text: expect.stringContaining(`positions 0 and ${first.size - 1}`),
  });
  const later = await attacked(async (sql) => {
    await sql(flip(2));
    await sql(`UPDATE audit_log SET outcome = 'refused' WHERE id = $1`, [ids[513]]);
  });
  expect(later).toMatchObject({ kind: 'interval', position: first.size });

  const forged = signCheckpoint(signingKeyOfSeed(Buffer.alloc(32, 9)), {
    tenant_id,
    size: last.size,
    root: Buffer.alloc(32),
    at: new Date(),
  });
  for (const note of [forged, last.note.replace(/(?<=\n\n— \S+ .{9})./, (char) => (char === 'A' ? 'B' : 'A'))])
    expect(
      await attacked((sql) =>
        sql('UPDATE log_checkpoints SET note = $1 WHERE size = $2 AND tenant_id = $3', [note, last.size, tenant_id]),
      ),
    ).toMatchObject({ kind: 'checkpoint' });

  // The tail is cut off with all that knows of it: only what others hold shows it.
  const cut = async (sql: (text: string, values?: unknown[]) => Promise<any[]>): Promise<void> => {
    const block = Math.floor((first.size - 1) / 256);
    const kept = first.size - block * 256;
    const signed = openCheckpoint(first.note, server.ctx.logSigning.publicKeys);
    await sql('DELETE FROM audit_log WHERE tenant_id = $1 AND id >= $2', [tenant_id, ids[first.size]]);
    await sql('DELETE FROM log_checkpoints WHERE tenant_id = $1 AND size > $2', [tenant_id, first.size]);
    await sql('DELETE FROM log_leaves WHERE tenant_id = $1 AND number > $2', [tenant_id, block]);
    await sql(
      `UPDATE log_leaves SET ids = substr(ids, 1, $3 * 16), hashes = substr(hashes, 1, $3 * 32), last_id = $4 WHERE tenant_id = $1 AND number = $2`,
      [tenant_id, block, kept, ids[first.size - 1]],
    );
    await sql('UPDATE log_trees SET size = $2, signed_size = $2, root = $3, last_id = $4 WHERE tenant_id = $1', [
      tenant_id,
      first.size,
      signed?.root,
      ids[first.size - 1],
    ]);
  };
  expect(await attacked(cut)).toBeUndefined();
  const heldLast = openCheckpoint(last.note, server.ctx.logSigning.publicKeys);
  const held: HeldCheckpoints = new Map([[tenant_id, new Map(heldLast ? [[last.size, heldLast]] : [])]]);
  expect(await attacked(cut, held)).toMatchObject({ kind: 'cut_off', position: first.size });

  // A server that knew the longer tree does not go on from the shorter one. Another that starts now has only the signature.
  const state = async () => JSON.stringify([await treeOf(), await checkpointsOf()]);
  const saved =
    'CREATE TABLE saved_trees AS TABLE log_trees; CREATE TABLE saved_leaves AS TABLE log_leaves; CREATE TABLE saved_checkpoints AS TABLE log_checkpoints';
  await server.sql(saved);
  const audit = await server.sql('SELECT * FROM audit_log WHERE tenant_id = $1 AND id >= $2', [
    tenant_id,
    ids[first.size],
  ]);
  await server.sql('GRANT DELETE ON audit_log TO CURRENT_USER');
  await cut((text, values) => server.sql(text, values));
  const shorter = await state();
  await insert(2);
  await build();
  expect(builder.figures().tampered).toBe(1);
  expect(await state()).toBe(shorter);
  const alarms = server.logLines.filter((text) => text.includes('"alarm":"tampered"'));
  expect(alarms).toHaveLength(1);
  expect(JSON.parse(alarms[0] ?? '')).toMatchObject({ tenant_id, reason: expect.stringContaining('smaller') });
  await server.sql(
    'DELETE FROM log_trees; DELETE FROM log_leaves; DELETE FROM log_checkpoints; INSERT INTO log_trees TABLE saved_trees; INSERT INTO log_leaves TABLE saved_leaves; INSERT INTO log_checkpoints TABLE saved_checkpoints',
  );
  await server.sql(INSERT_LOGS, [tenant_id, JSON.stringify(audit)]);
  await build();
  expect(builder.figures().tampered).toBe(0);
  expect(await verify(server.ctx.db.statements.query)).toBeUndefined();
}, 60_000);

test('an export that was changed names the row', async () => {
  const file = backups.fileNamed('attacked.jsonl');
  expect((await cli('logs', 'export', file, '--tenant', tenant_id)).code).toBe(0);
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  const key = server.ctx.logSigning.key.publicKey.bytes.toString('base64');
  const held = backups.fileNamed('held.jsonl');
  writeFileSync(
    held,
    (await checkpointsOf()).map(({ note }) => `${JSON.stringify({ tenant_id, checkpoint: note })}\n`).join(''),
  );
  /** The third line is the first leaf. */
  const idOf = (line: number): string => JSON.parse(lines[line] ?? '').id;
  const without = (...gone: number[]) => lines.filter((_, at) => !gone.includes(at));
  const replaced = (at: number, line: string) => lines.with(at, line);
  const line10 = lines[10] ?? '';
  const attacks: [string, string[], object][] = [
    ['a field', replaced(10, line10.replace('"success"', '"failed"')), { kind: 'changed', position: 8, id: idOf(10) }],
    ['a name twice', replaced(10, line10.replace('"row":{', '"row":{"message":"x",')), { kind: 'damaged' }],
    ['a line', without(10), { kind: 'removed', position: 8 }],
    ['a row', replaced(10, line10.replace(/,"row":.*/, '}')), { kind: 'removed', position: 8, id: idOf(10) }],
    ['two lines', lines.with(10, lines[11] ?? '').with(11, line10), { kind: 'reordered', position: 8, id: idOf(10) }],
    ['the tail', lines.slice(0, -5), { kind: 'cut_off' }],
    ['half a line', [...lines.slice(0, -5), line10.slice(0, 100)], { kind: 'damaged' }],
    ['all rows', lines.slice(0, 1), { kind: 'cut_off' }],
    ['the newest checkpoint', replaced(1, (lines[1] ?? '').replace(/\\n\d+\\n/, '\\n1\\n')), { kind: 'checkpoint' }],
  ];
  for (const [what, changed, finding] of attacks) {
    const path = backups.fileNamed('attack.jsonl');
    writeFileSync(path, `${changed.join('\n')}\n`);
    const verdict = await judgeLogFile(path, { key, checkpoints: held });
    expect([what, verdict.finding]).toEqual([what, expect.objectContaining(finding)]);
    expect(JSON.stringify(verdict)).not.toContain('of row');
  }
  const tree = JSON.parse(lines[1] ?? '');
  const other = backups.fileNamed('frontier.jsonl');
  writeFileSync(other, `${lines.with(1, JSON.stringify({ ...tree, from: 256 })).join('\n')}\n`);
  expect((await judgeLogFile(other, { key, checkpoints: undefined })).finding).toMatchObject({ kind: 'damaged' });
  // The key signed two logs of one size: a holder of both checkpoints sees it, in any order.
  const [{ size, note }] = (await checkpointsOf()) as [{ size: number; note: string }];
  const root = Buffer.alloc(32);
  const second = signCheckpoint(server.ctx.logSigning.key, { tenant_id, size, root, at: new Date() });
  for (const notes of [
    [note, second],
    [second, note],
  ]) {
    const forked = backups.fileNamed('forked.jsonl');
    writeFileSync(forked, notes.map((checkpoint) => `${JSON.stringify({ tenant_id, checkpoint })}\n`).join(''));
    expect((await judgeLogFile(file, { key, checkpoints: forked })).finding).toMatchObject({
      kind: 'forked',
      tenant_id,
    });
  }
  const otherKey = signingKeyOfSeed(Buffer.alloc(32, 3)).publicKey.bytes.toString('base64');
  expect((await judgeLogFile(file, { key: otherKey, checkpoints: undefined })).finding).toMatchObject({
    kind: 'checkpoint',
  });
  expect((await judgeLogFile(file, { key: `${otherKey},${key}`, checkpoints: held })).finding).toBeUndefined();
  const { code, stdout } = await cli('logs', 'verify', backups.fileNamed('attack.jsonl'), '--key', key, '--json');
  expect([code, JSON.parse(stdout)]).toEqual([1, expect.objectContaining({ ok: false })]);
}, 60_000);

test('the tree goes on exactly after a stop in the middle, and with several processes', async () => {
  const before = await idsOf();
  await insert(5_000);
  pass();
  // As a kill between two steps: the first step is written, without a checkpoint.
  let steps = 0;
  await createTreeBuilder(server.ctx).build(holder, () => (steps += 1) >= 1);
  expect(Number((await treeOf()).size)).toBe(before.length + 2_000);
  const [one, two] = [createTreeBuilder(server.ctx), createTreeBuilder(server.ctx)];
  await Promise.all([one.build(holder), two.build(holder), one.build(server.ctx.newUuid())]);
  await insert(700);
  // A position that an attacker has moved leaves no row out.
  await server.sql(`UPDATE log_streams SET position = log_id_at(now() + interval '1 year') WHERE name = 'trees'`);
  await build(two);
  await insert(700);
  await build(one);
  await build();
  expect(Number((await treeOf()).size)).toBe(before.length + 6_400);
  expect([builder, one, two].map((each) => each.figures().tampered)).toEqual([0, 0, 0]);
  expect(await verify(server.ctx.db.statements.query)).toBeUndefined();
}, 60_000);

test('moving the end of a tree into the future does not switch signing off', async () => {
  const own = await server.newTenant();
  await insert(2, own.tenant_id);
  await build();
  const end = 'ffffffff-ffff-7fff-bfff-ffffffffffff';
  const { last_id } = await treeOf(own.tenant_id);
  const move = async (id: string): Promise<void> => {
    await server.sql('UPDATE log_trees SET last_id = $2 WHERE tenant_id = $1', [own.tenant_id, id]);
    await server.sql(
      'UPDATE log_leaves SET last_id = $2, ids = substr(ids, 1, length(ids) - 16) || uuid_send($2) WHERE tenant_id = $1',
      [own.tenant_id, id],
    );
  };
  await move(end);
  await insert(1, own.tenant_id);
  await build();
  expect(builder.figures().tampered).toBe(1);
  await move(last_id);
  // Nor are rows left out of a verification whose end was moved.
  await server.sql('UPDATE log_trees SET last_id = $2 WHERE tenant_id = $1', [own.tenant_id, end]);
  const key = server.ctx.logSigning.key.publicKey.bytes.toString('base64');
  const later = await callCommand(['logs', 'verify', '--database', '--tenant', own.tenant_id, '--key', key, '--json'], {
    env: backups.environmentOf(server.databaseUrl),
    overrides: { now: () => new Date(server.ctx.now().getTime() + 3_600_000) },
  });
  expect(JSON.parse(later.stdout)).toMatchObject({ ok: false, finding: { kind: 'unsigned' } });
  await move(last_id);
  await build();
  expect(builder.figures().tampered).toBe(0);
}, 60_000);

test('checkpoints go to a file and an address, and none is lost while these are away', async () => {
  const received: string[] = [];
  let isAway = true;
  const receiver = createServer((request, response) => {
    let body = '';
    request.on('data', (piece) => (body += piece));
    request.on('end', () => {
      if (!isAway) received.push(...body.trim().split('\n'));
      response.writeHead(isAway ? 503 : 204).end();
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  const file = backups.fileNamed('checkpoints.jsonl');
  const config = {
    ...server.ctx.config,
    logCheckpointFile: file,
    logCheckpointUrl: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`,
  };
  await expect(exportCheckpoints({ ...server.ctx, config }, holder)).rejects.toThrow('answered 503');
  isAway = false;
  await insert(1);
  await build();
  await exportCheckpoints({ ...server.ctx, config }, holder);
  await exportCheckpoints({ ...server.ctx, config }, holder);
  // A position that an attacker has moved stops no export, and is told.
  received.length = 0;
  writeFileSync(file, '');
  await server.sql(
    `UPDATE log_streams SET position = log_id_at(now() + interval '1 year') WHERE name LIKE 'checkpoints-%'`,
  );
  await exportCheckpoints({ ...server.ctx, config }, holder);
  await exportCheckpoints({ ...server.ctx, config }, holder);
  expect(server.logLines.filter((text) => text.includes('"sink":"checkpoints-'))).toHaveLength(2);
  receiver.close();
  const [{ count }] = await server.sql('SELECT count(*)::int AS count FROM log_checkpoints');
  expect(received).toHaveLength(count);
  expect(readFileSync(file, 'utf8').trim().split('\n')).toEqual(received);
  expect((await cli('logs', 'verify', '--database', '--checkpoints', file)).code).toBe(0);
}, 60_000);

/** The rows of an archive, changed as an attacker would, with a manifest that fits again. */
const rewrite = (path: string, change: (lines: string[]) => string[]): void => {
  const lines = gunzipSync(readFileSync(path)).toString().trim().split('\n');
  writeFileSync(path, gzipSync(`${change(lines).join('\n')}\n`));
};

test('archived months have a proof, and the tree goes on without their leaf hashes', async () => {
  const other = await bareTenant(server);
  const monthsAgo = (months: number, ms = 0): Date => {
    const now = new Date();
    return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months, 5) + ms);
  };
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
  const old = [...Array(3).keys()].map((at) => rowAt(monthsAgo(15, at), `old ${at}`));
  const later = [...Array(300).keys()].map((at) => rowAt(monthsAgo(14, at), `later ${at}`));
  await insertLogRows(server, other, old);
  // A process that builds the first leaves, and comes back when these are archived.
  const early = createTreeBuilder(server.ctx);
  await server.sql(`UPDATE log_streams SET position = log_id_at(now() + interval '1 year') WHERE name = 'trees'`);
  await build(early);
  await insertLogRows(server, other, later);
  await insert(2, other);
  await build();
  const sizes = await server.sql(
    'SELECT size::int AS size, ends_month FROM log_checkpoints WHERE tenant_id = $1 ORDER BY size',
    [other],
  );
  expect(sizes).toEqual([
    { size: 3, ends_month: true },
    { size: 303, ends_month: true },
    { size: 305, ends_month: false },
  ]);

  const directory = backups.fileNamed('archive');
  mkdirSync(directory);
  expect(await cli('logs', 'archive', directory)).toMatchObject({ code: 0, stderr: '' });
  const fileOf = (months: number): string =>
    join(directory, `audit-log-${monthsAgo(months).toISOString().slice(0, 7)}.jsonl.gz`);
  const key = server.ctx.logSigning.key.publicKey.bytes.toString('base64');
  const judge = async (path: string) => (await judgeLogFile(path, { key, checkpoints: undefined })).finding;
  expect(await judge(fileOf(15))).toBeUndefined();
  const held = backups.fileNamed('held-of-all.jsonl');
  const notes = (await checkpointsOf(other)).map(({ note }) => `${JSON.stringify({ checkpoint: note })}\n`);
  writeFileSync(held, notes.join(''));
  const verified = await cli('logs', 'verify', fileOf(14), '--key', key, '--checkpoints', held);
  expect([verified.code, verified.stdout]).toEqual([0, expect.stringContaining(`tenant ${other}  rows 3 to 302`)]);

  // What is left is verified from the first block that was kept.
  const blocks = await server.sql('SELECT number::int AS number FROM log_leaves WHERE tenant_id = $1', [other]);
  expect(blocks).toEqual([{ number: 1 }]);
  await insert(2, other);
  await build(early);
  expect(early.figures().tampered).toBe(0);
  const alone = await cli('logs', 'verify', '--database', '--tenant', other);
  expect([alone.code, alone.stdout]).toEqual([1, expect.stringMatching(/in the archive .* was not verified/)]);
  const rest = await cli('logs', 'verify', '--database', '--tenant', other, '--archives', directory);
  expect([rest.code, rest.stdout]).toEqual([0, expect.stringContaining('rows 256 to 306')]);
  expect(rest.stdout).toContain('47 rows are in archives');
  const [{ id }] = await server.sql('SELECT id FROM audit_log WHERE tenant_id = $1 ORDER BY id DESC LIMIT 1', [other]);
  const proof = await proveRow(server.ctx.db.statements.query, other, id, server.ctx.logSigning.publicKeys);
  expect(proof?.index).toBe(306);

  const whole = readFileSync(fileOf(14));
  const idAt = (at: number): string => later[at]?.id ?? '';
  const attacks: [(lines: string[]) => string[], object][] = [
    [
      (lines) => lines.with(7, (lines[7] ?? '').replace('success', 'failed')),
      { kind: 'changed', position: 10, id: idAt(7) },
    ],
    [(lines) => lines.toSpliced(7, 1), { kind: 'removed', position: 10, id: idAt(7) }],
    [(lines) => lines.slice(0, -1), { kind: 'removed', position: 302, id: idAt(299) }],
    [(lines) => lines.with(7, lines[8] ?? '').with(8, lines[7] ?? ''), { kind: 'reordered', id: idAt(7) }],
    [(lines) => [...lines, (lines[7] ?? '').replace(idAt(7), `${idAt(299).slice(0, -4)}ffff`)], { kind: 'added' }],
  ];
  for (const [change, finding] of attacks) {
    rewrite(fileOf(14), change);
    expect(await judge(fileOf(14))).toMatchObject(finding);
    writeFileSync(fileOf(14), whole);
  }
  rewrite(fileOf(14), (lines) => lines.slice(0, -1));
  rewrite(fileOf(14).replace('.jsonl.gz', '.proof.jsonl.gz'), (lines) => lines.slice(0, -2));
  expect(await judge(fileOf(14))).toMatchObject({ kind: 'cut_off', position: 302 });
}, 120_000);

test('a process that is killed while it builds leaves a tree that goes on', async () => {
  await insert(9_000);
  pass();
  await server.sql(`DELETE FROM leases WHERE name = 'log-trees'`);
  const before = Number((await treeOf()).size);
  const environment = {
    ...backups.environmentOf(server.databaseUrl),
    TREES_HOLDER: holder,
    TREES_OFFSET_MS: String(server.clock.offsetMs),
  };
  const child = spawn(process.execPath, [join(root, 'test/support/build-trees.ts')], {
    env: { ...sourceEnvironment, ...environment },
    stdio: 'ignore',
  });
  while (child.exitCode === null && Number((await treeOf()).size) === before) await pause(1);
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(child.signalCode).toBe('SIGKILL');
  await build();
  expect(Number((await treeOf()).size)).toBe(before + 9_000);
  expect(await verify(server.ctx.db.statements.query)).toBeUndefined();
}, 60_000);
