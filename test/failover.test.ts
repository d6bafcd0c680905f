// Failover to a database without its unlogged rows: security codes stay readable, and the notice listener reconnects.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { listenForNotices } from '../src/platform/db/notices.ts';
import { createDatabase, type TestDatabase } from './support/database.ts';
import { deafen } from './support/notices.ts';
import { startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
let reader: TestTenant;

beforeAll(async () => {
  server = await startServer();
  const rule = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
  reader = await server.newKey(server.tenant, { rules: [rule] });
});
afterAll(() => server.close());

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

test('security codes stored around the promotion of a standby can be read afterwards', async () => {
  // The beginning of a slot, so that all of this is in one.
  server.clock.stoppedAtMs = Math.ceil(Date.now() / 30_000) * 30_000;
  const before = await newCard();
  expect(await codeOfCard(before)).toBe('737');
  // What a promotion and a crash leave of an unlogged table.
  await server.sql('TRUNCATE ephemeral_keys');
  const since = await newCard();
  expect(await codeOfCard(since)).toBeUndefined();
  await deafen(server);
  await expect.poll(() => codeOfCard(since), { timeout: 10_000 }).toBe('737');
  expect(await codeOfCard(before)).toBe('737');
  expect(await codeOfCard(await newCard())).toBe('737');
});

test('a code that does not open is gone, with an alarm, and its card can be read', async () => {
  const id = await newCard();
  await server.sql('UPDATE token_cvcs SET sealed = set_byte(sealed, 40, get_byte(sealed, 40) # 1) WHERE id = $1', [id]);
  expect(await codeOfCard(id)).toBeUndefined();
  expect(server.logLines.join('')).toContain('a cvc does not open');
});

/** Passes bytes on to a database, until it is told to go silent: no connection is closed then. */
const startRelay = async ({ address }: TestDatabase) => {
  let isSilent = false;
  const sockets: Socket[] = [];
  const relay = createServer((client) => {
    const upstream = connect(address.port, address.host);
    sockets.push(client, upstream);
    const pass = (from: Socket, to: Socket): void => {
      from.on('data', (bytes) => void (isSilent || to.write(bytes)));
      from.on('error', () => undefined);
      from.on('close', () => to.destroy());
    };
    pass(client, upstream);
    pass(upstream, client);
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  return {
    port: (relay.address() as AddressInfo).port,
    goSilent: (silent: boolean) => void (isSilent = silent),
    close: async () => {
      for (const socket of sockets) socket.destroy();
      relay.close();
      await once(relay, 'close');
    },
  };
};

test('a listener whose database has gone silent finds out, and hears the next one', async () => {
  const database = await createDatabase();
  const relay = await startRelay(database);
  const heard: string[] = [];
  const notices = listenForNotices(
    { ...database.address, host: '127.0.0.1', port: relay.port },
    { changed: (notice) => heard.push(notice), missed: () => heard.push('missed'), failed: () => heard.push('failed') },
    100,
  );
  try {
    await expect.poll(() => heard).toEqual(['missed']);
    relay.goSilent(true);
    await expect.poll(() => heard.slice(0, 2), { timeout: 10_000 }).toEqual(['missed', 'failed']);
    relay.goSilent(false);
    await expect.poll(() => heard.at(-1), { timeout: 10_000 }).toBe('missed');
  } finally {
    await notices.close();
    await relay.close();
    await database.drop();
  }
});
