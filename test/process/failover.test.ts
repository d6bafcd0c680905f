// Failover to a database without its unlogged rows: security codes stay readable, and a dead connection for notices is noticed.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DEAD_PEER_NOTICED_MS } from '../../src/platform/db/notices.ts';
import { createDatabase } from '../support/database.ts';
import { hearChanges } from '../support/notices.ts';
import { type Relay, startRelay } from '../support/relay.ts';
import { startServer, type TestServer, type TestTenant } from '../support/server.ts';

let relay: Relay;
let server: TestServer;
let reader: TestTenant;

beforeAll(async () => {
  const database = await createDatabase();
  relay = await startRelay(database.address);
  server = await startServer({ DATABASE_URL: relay.url }, {}, { database });
  const rule = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
  reader = await server.newKey(server.tenant, { rules: [rule] });
});
afterAll(async () => {
  await server.close();
  await relay.close();
});

const card = { type: 'card', data: { number: '4242424242424242', cvc: '737' } };

const newCard = async (): Promise<string> => {
  const { status, body, text } = await server.request('POST', '/tokens', { json: card });
  expect(status, text).toBe(201);
  return body.id;
};

const codeOfCard = async (id: string): Promise<string | undefined> => {
  const { status, body, text } = await server.request('GET', `/tokens/${id}`, { key: reader.api_key });
  expect(status, text).toBe(200);
  return body.data.cvc;
};

/** A promotion and a crash empty an unlogged table, and end all connections. */
const failOver = async (): Promise<void> => {
  await server.sql('TRUNCATE ephemeral_keys');
  await server.sql(
    `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
     WHERE application_name LIKE 'strongroom%' AND datname = current_database()`,
  );
  await expect.poll(async () => (await server.request('GET', '/readyz')).status).toBe(200);
};

test('security codes of before a promotion can be read after it, and new ones at once', async () => {
  // Keys serve half a minute: these cards have different ones.
  server.clock.stoppedAtMs = Date.now();
  const earlier = await newCard();
  server.clock.stoppedAtMs += 60_000;
  const before = await newCard();
  await failOver();
  expect(await codeOfCard(await newCard())).toBe('737');
  expect(await codeOfCard(before)).toBe('737');
  expect(await codeOfCard(earlier)).toBe('737');
  server.clock.stoppedAtMs = undefined;
});

test('a dead connection for notices is noticed: caches are dropped, and notices are heard again', async () => {
  const changes = hearChanges(server);
  const losses = (): number =>
    server.logLines.filter((line) => line.includes('connection for notices was lost')).length;
  const lossesBefore = losses();
  relay.goSilent(true);
  // The next database does not respond at first either.
  await expect.poll(losses, { timeout: 3 * DEAD_PEER_NOTICED_MS }).toBe(lossesBefore + 2);
  relay.goSilent(false);
  await changes.of('anything');
  await server.sql("SELECT pg_notify('strongroom_changed', 'member 1')");
  await changes.of({ subject: 'member', id: '1' });
});

test('a code that does not open is gone, with an alarm, and its card can be read', async () => {
  const id = await newCard();
  await server.sql('UPDATE token_cvcs SET sealed = set_byte(sealed, 40, get_byte(sealed, 40) # 1) WHERE id = $1', [id]);
  expect(await codeOfCard(id)).toBeUndefined();
  expect(server.logLines.join('')).toContain('"alarm":"tampered","table":"token_cvcs"');
});
