// The audit log streams to a file: each row at least once, over crashes, full disks and several processes.
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { INSERT_LOGS } from '../src/platform/db/audit-rows.ts';
import { STREAM_DELAY_MS, streamLogs } from '../src/platform/audit/stream.ts';
import { startServer, type TestServer } from './support/server.ts';
import { seeingAllTenants } from './support/database.ts';

let server: TestServer;
let directory: string;
let path: string;
let holder: string;

const stream = (to = path, by = holder) => streamLogs(server.ctx, to, by);
/** What was written now becomes old enough. */
const pass = () => void (server.clock.offsetMs += STREAM_DELAY_MS + 10_000);
const lines = (file = path): any[] =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('{"torn'))
    .map((line) => JSON.parse(line));
const create = async (data: string): Promise<string> => (await server.tokenize({ type: 'token', data })).body.id;
const streamed = (id: string, file = path): any[] => lines(file).filter(({ entity_ids }) => entity_ids.includes(id));

beforeAll(async () => {
  server = await startServer();
  directory = mkdtempSync(join(tmpdir(), 'strongroom-stream-'));
  path = join(directory, 'audit.jsonl');
  holder = server.ctx.newUuid();
  // The stream begins with what is written from now on.
  await stream();
});
afterAll(async () => {
  await server.close();
  rmSync(directory, { recursive: true, force: true });
});

test('a row is a line of JSON, once, when its transaction has surely ended', async () => {
  const id = await create('first');
  await stream().catch(() => undefined);
  expect(() => streamed(id)).toThrow('ENOENT');
  // This one commits after later rows, and is not left out.
  const late = new Client({ connectionString: server.databaseUrl, ...seeingAllTenants });
  await late.connect();
  const row = {
    id: server.ctx.newLogId(server.ctx.now()),
    entity_type: 'token',
    entity_ids: ['the late one'],
    operation: 'read',
    message: 'm',
    created_at: server.ctx.now(),
    disclosure: 'none',
    outcome: 'success',
    mac: crypto.randomUUID(),
  };
  await late.query('BEGIN');
  await late.query(INSERT_LOGS, [server.tenant.tenant_id, JSON.stringify([row])]);
  server.clock.offsetMs += STREAM_DELAY_MS / 2;
  await create('a later one');
  await stream();
  await late.query('COMMIT');
  await late.end();
  pass();
  await stream();
  await stream();
  expect(streamed(id)).toMatchObject([
    {
      tenant_id: server.tenant.tenant_id,
      operation: 'create',
      entity_type: 'token',
      entity_ids: [id],
      outcome: 'success',
    },
  ]);
  expect(streamed('the late one')).toHaveLength(1);
  const ids = lines().map((line) => line.id);
  expect(ids).toEqual(ids.toSorted());
});

test('what cannot be written is written later, and a torn line spoils no other', async () => {
  const id = await create('while the disk is away');
  pass();
  await expect(stream(join(directory, 'away', 'audit.jsonl'))).rejects.toMatchObject({ code: 'ENOENT' });
  mkdirSync(join(directory, 'away'));
  await expect(stream(join(directory, 'away'))).rejects.toMatchObject({ code: 'EISDIR' });
  appendFileSync(path, '{"torn');
  await stream();
  expect(streamed(id)).toHaveLength(1);
});

test('a crash after the write repeats rows, and loses none', async () => {
  const [{ position }] = await server.sql('SELECT position FROM log_streams');
  const id = await create('before the crash');
  pass();
  await stream();
  await server.sql('UPDATE log_streams SET position = $1', [position]);
  const next = await create('after the crash');
  pass();
  // Moved away meanwhile, as logrotate does.
  const rotated = join(directory, 'audit.jsonl.1');
  renameSync(path, rotated);
  await stream();
  expect([streamed(id, rotated), streamed(id), streamed(next)].map(({ length }) => length)).toEqual([1, 1, 1]);
});

test('one process streams at a time, and many rows come in order', async () => {
  const rows = Array.from({ length: 5_000 }, (_, at) => ({
    id: server.ctx.newLogId(new Date(server.ctx.now().getTime() + at)),
    entity_type: 'token',
    entity_ids: [`of many ${at}`],
    operation: 'read',
    message: 'm',
    created_at: server.ctx.now(),
    disclosure: 'none',
    outcome: 'success',
    mac: crypto.randomUUID(),
  }));
  await server.sql(INSERT_LOGS, [server.tenant.tenant_id, JSON.stringify(rows)]);
  pass();
  const before = lines().length;
  await stream(path, server.ctx.newUuid());
  expect(lines()).toHaveLength(before);
  await Promise.all([stream(), stream(path, server.ctx.newUuid())]);
  const found = lines().filter(({ entity_ids }) => entity_ids[0].startsWith('of many'));
  expect(found.map(({ id }) => id)).toEqual(rows.map(({ id }) => id));
});
