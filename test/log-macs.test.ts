// Each row of the audit log has the MAC of the server that wrote it, whatever wrote it; rows of the time before are taken once.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { contract } from '../src/contract.ts';
import { resetPassword } from '../src/modules/people/passwords.ts';
import { STREAM_DELAY_MS } from '../src/platform/audit/stream.ts';
import { createTreeBuilder } from '../src/platform/audit/trees.ts';
import { LOG_LINE } from '../src/platform/db/log-stream.ts';
import { sweepOnce } from '../src/platform/db/sweep.ts';
import { INSERT_LOGS } from '../src/platform/audit/rows.ts';
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
  const states = rows.map(({ message, line }) => `${message}: ${server.ctx.db.logMacs.stateOf(line)}`);
  expect([...new Set(states)].filter((state) => !state.endsWith(': intact'))).toEqual([]);
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

test('rows without a MAC are taken up to the position of the contract step, and none afterwards', async () => {
  const [busy, idle] = await Promise.all([bareTenant(server), bareTenant(server)]);
  await server.sql('UPDATE instance SET contracted_at = NULL, new_forms_at = NULL');
  const url = server.databaseUrl;
  const other = await startServer({ DATABASE_URL: url });
  other.clock.offsetMs = server.clock.offsetMs;
  try {
    const unsigned = (of: string, at: Date) => other.sql(INSERT_LOGS, [of, JSON.stringify([logRowAt(other, at)])]);
    const builder = createTreeBuilder(other.ctx);
    // Servers of the earlier version write beside this one.
    await unsigned(busy, other.ctx.now());
    await insertLogRows(other, idle, [logRowAt(other, other.ctx.now())]);
    const early = new Date(other.ctx.now().getTime() + 1);
    await passed(other, builder);
    expect([await sizeOf(busy), await sizeOf(idle)]).toEqual([1, 1]);

    await unsigned(busy, other.ctx.now());
    await contract(other.ctx, () => undefined, { isAlone: true });
    await other.ctx.contract.refresh();
    const forged = new Date(other.ctx.now().getTime() + 1_000);
    await unsigned(busy, forged);
    await passed(other, builder);
    expect(await sizeOf(busy)).toBe(2);
    expect(await other.sql(`SELECT FROM log_streams WHERE name = 'unsigned-rows'`)).toEqual([]);

    // A row of before the step, in a log that ended before it, and a position that no server has set: also after a restart.
    await unsigned(idle, early);
    await other.sql(
      `INSERT INTO log_streams (name, position, mac) VALUES ('unsigned-rows', log_id_at(now() + interval '1 year'), gen_random_uuid())`,
    );
    await insertLogRows(other, idle, [logRowAt(other, other.ctx.now())]);
    for (const each of [builder, createTreeBuilder(other.ctx)]) await passed(other, each);
    expect([await sizeOf(busy), await sizeOf(idle)]).toEqual([2, 2]);
    const alarms = other.logLines.filter((line) => line.includes('"table":"audit_log"'));
    expect(new Set(alarms.map((line) => JSON.parse(line).tenant_id))).toEqual(new Set([busy, idle]));
  } finally {
    await other.close();
  }
}, 60_000);

test('REQUIRE_SIGNED_ROWS: no row without a MAC is taken, whatever the database says', async () => {
  const tenant_id = await bareTenant(server);
  await server.sql('UPDATE instance SET new_forms_at = NULL');
  const strict = await startServer({ DATABASE_URL: server.databaseUrl, REQUIRE_SIGNED_ROWS: 'true' });
  strict.clock.offsetMs = server.clock.offsetMs + 600_000;
  try {
    await strict.sql(INSERT_LOGS, [tenant_id, JSON.stringify([logRowAt(strict, strict.ctx.now())])]);
    await passed(strict, createTreeBuilder(strict.ctx));
    expect(await sizeOf(tenant_id)).toBe(0);
  } finally {
    await strict.close();
  }
}, 60_000);
