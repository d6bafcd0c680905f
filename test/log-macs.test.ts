// Each row of the audit log has the MAC of the server that wrote it, whatever wrote it, and no other row gets a leaf.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { resetPassword } from '../src/modules/people/passwords.ts';
import { STREAM_DELAY_MS } from '../src/platform/audit/stream.ts';
import { createTreeBuilder } from '../src/platform/audit/trees.ts';
import { LOG_LINE } from '../src/platform/db/log-partitions.ts';
import { sweepOnce } from '../src/platform/maintenance/sweep.ts';
import { INSERT_LOGS } from '../src/platform/db/audit-rows.ts';
import { bareTenant, insertLogRows, logRowAt } from './support/log-rows.ts';
import { join } from './support/people.ts';
import { startServer, type TestServer } from './support/server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const passed = async (of: TestServer, builder: ReturnType<typeof createTreeBuilder>): Promise<void> => {
  of.clock.offsetMs += STREAM_DELAY_MS + 1_000;
  await builder.build(of.ctx.newUuid());
  await of.sql(`DELETE FROM leases WHERE name = 'log-trees'`);
};
const sizeOf = async (tenant_id: string): Promise<number> =>
  Number((await server.sql('SELECT size FROM log_trees WHERE tenant_id = $1', [tenant_id]))[0]?.size ?? 0);

test('every statement that writes rows writes their MACs, and the trees take all rows', async () => {
  const { tenant_id } = server.tenant;
  const card = { type: 'card_number', data: '4242424242424242' };
  const unique = (data: string) => ({ type: 'token', data, deduplicate_token: true });
  const made = await server.tokenize({ type: 'token', data: 'one' });
  expect(made.status).toBe(200);
  // More than one statement has, two types in one request, and some that are there already.
  const many = Array.from({ length: 450 }, (_, at) => (at % 2 ? card : { type: 'token', data: `many ${at}` }));
  expect((await server.tokenize(many)).status).toBe(200);
  expect((await server.tokenize([card, { type: 'token', data: 'two' }, card])).status).toBe(200);
  expect((await server.tokenize(unique('a'))).status).toBe(200);
  expect((await server.tokenize([unique('a'), unique('b'), { type: 'token', data: 'c' }, unique('b')])).status).toBe(
    200,
  );
  expect((await server.tokenize([unique('d'), unique('e'), unique('f')])).status).toBe(200);
  const keyed = { headers: { 'svc-idempotency-key': 'k' }, json: { type: 'token', data: 'kept' } };
  for (const _ of [1, 2]) expect((await server.request('POST', '/tokens', keyed)).status).toBe(201);
  const child = await server.request('POST', '/tokens', { json: { type: 'token', data: 'child' } });
  expect((await server.request('POST', `/tokens/${made.body.id}/children/${child.body.id}`)).status).toBeLessThan(300);
  expect((await server.request('GET', `/tokens/${made.body.id}`)).status).toBe(200);
  expect((await server.request('DELETE', `/tokens/${child.body.id}`)).status).toBe(204);
  const weak = await server.newKey(server.tenant, { permissions: [] });
  expect((await server.request('GET', `/tokens/${made.body.id}`, { key: weak.api_key })).status).toBe(403);
  const { email } = await join(server);
  await resetPassword(server.ctx, email);
  const expires_at = new Date(Date.now() + 1_500).toISOString();
  expect((await server.tokenize({ type: 'token', data: 'short', expires_at })).status).toBe(200);
  server.clock.offsetMs += 60_000;
  await sweepOnce(server.ctx.db, server.ctx.now(), server.ctx.newLogId, server.ctx.config);

  const rows = await server.sql(`SELECT l.message, l.entity_ids, ${LOG_LINE} FROM audit_log AS l`);
  const forged = rows.filter(({ line }) => !server.ctx.db.logMacs.isIntact(line));
  expect(forged.map(({ message }) => message)).toEqual([]);
  const messages = new Set(rows.map(({ message }) => message));
  for (const message of [
    'Token created',
    'Token retrieved',
    'Token deleted',
    'Token expired',
    'Token association created',
    'Tenant created',
    'Tenant member password changed',
    'Refused: token:read',
  ])
    expect(messages).toContain(message);
  // The MAC of a row binds all of its entities.
  expect(Math.max(...rows.map(({ entity_ids }) => entity_ids.length))).toBe(225);
  await passed(server, createTreeBuilder(server.ctx));
  const [{ count }] = await server.sql('SELECT count(*)::int AS count FROM audit_log WHERE tenant_id = $1', [
    tenant_id,
  ]);
  expect(await sizeOf(tenant_id)).toBe(count);
  expect(server.logLines.filter((line) => line.includes('"tampered"'))).toEqual([]);
}, 60_000);

test('a row that no server wrote gets no leaf, in any process, and is named', async () => {
  const [busy, idle] = await Promise.all([bareTenant(server), bareTenant(server)]);
  const forge = (tenant_id: string) =>
    server.sql(INSERT_LOGS, [
      tenant_id,
      JSON.stringify([{ ...logRowAt(server, server.ctx.now()), mac: server.ctx.newUuid() }]),
    ]);
  const builder = createTreeBuilder(server.ctx);
  await insertLogRows(server, busy, [logRowAt(server, server.ctx.now())]);
  for (const tenant_id of [busy, idle]) await forge(tenant_id);
  for (const each of [builder, createTreeBuilder(server.ctx)]) await passed(server, each);
  await insertLogRows(server, busy, [logRowAt(server, server.ctx.now())]);
  await passed(server, builder);
  expect([await sizeOf(busy), await sizeOf(idle)]).toEqual([2, 0]);
  const alarms = server.logLines.filter((line) => line.includes('"table":"audit_log"'));
  expect(new Set(alarms.map((line) => JSON.parse(line).tenant_id))).toEqual(new Set([busy, idle]));
});

test('a row without a MAC is refused by the database', async () => {
  const row = JSON.stringify([logRowAt(server, server.ctx.now())]);
  await expect(server.sql(INSERT_LOGS, [await bareTenant(server), row])).rejects.toThrow('"mac"');
});
