// The command line for developers: webhooks, their deliveries and their secrets.
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { useCli } from './support/developer-cli.ts';
import { UNKNOWN_ID } from './support/resource.ts';
import { type SharedServer, type TestTenant, useServer } from './support/server.ts';

let server: SharedServer;
let tenant: TestTenant;
beforeAll(async () => {
  server = await useServer();
});
beforeEach(async () => {
  tenant = await server.newTenant();
});
const { run, json } = useCli(() => ({ base_url: server.base_url, api_key: tenant.api_key }));

const url = 'https://hooks.example.com/a';
const create = (name: string) =>
  run(['webhooks', 'create', name, '--url', url, '--event', 'token.created', '--event', 'token.deleted']);
const find = async () => (await server.request('GET', '/webhooks', { key: tenant.api_key })).body.data;

test('a webhook is made with several types, and its secret alone goes to standard output', async () => {
  const { code, out, err } = await create('Orders');
  expect([code, out]).toEqual([0, expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=\n$/)]);
  expect(err).not.toContain('whsec_');
  const [listed] = await json(['webhooks', 'list']);
  expect(listed).toMatchObject({ name: 'Orders', url, events: ['token.created', 'token.deleted'], status: 'enabled' });
  expect((await run(['webhooks', 'list'])).out).not.toContain('whsec_');
  const rotated = await run(['webhooks', 'rotate-secret', 'Orders']);
  expect([rotated.code, rotated.out === out]).toEqual([0, false]);
  expect(rotated.out).toMatch(/^whsec_\S{44}\n$/);
});

test('it is changed in parts, and deleted', async () => {
  await create('Orders');
  const update = (...words: string[]) => run(['webhooks', 'update', 'Orders', ...words]);
  expect((await update('--container', '/pci/', '--event', '*')).code).toBe(0);
  expect(await find()).toMatchObject([{ name: 'Orders', url, events: ['*'], container: '/pci/' }]);
  expect((await update('--no-container', '--status', 'paused')).code).toBe(0);
  expect(await find()).toMatchObject([{ events: ['*'], status: 'paused' }]);
  expect((await find())[0].container).toBeUndefined();
  expect((await update()).code).toBe(2);
  expect((await update('--url', 'https://127.0.0.1/')).code).toBe(1);
  expect((await run(['webhooks', 'delete', 'Orders'])).code).toBe(0);
  expect(await find()).toEqual([]);
});

test('a test event is sent, listed, and sent again', async () => {
  await create('Orders');
  expect((await run(['webhooks', 'ping', 'Orders'])).code).toBe(0);
  const [delivery] = await json(['webhooks', 'deliveries', 'Orders', '--state', 'waiting']);
  expect(delivery).toMatchObject({ type: 'webhook.ping', state: 'waiting' });
  expect((await run(['webhooks', 'replay', 'Orders', delivery.id])).err).toContain('waits to be sent');
  await server.sql(`UPDATE webhook_deliveries SET state = 'dead' WHERE id = $1`, [delivery.id]);
  expect(await json(['webhooks', 'replay', 'Orders', delivery.id])).toMatchObject([{ id: delivery.id, attempts: 0 }]);
  expect((await run(['webhooks', 'replay', 'Orders', UNKNOWN_ID])).code).toBe(5);
});

test('what is missing or wrong is one line, and nothing is sent', async () => {
  await create('Orders');
  for (const [words, code] of [
    [['create', 'X'], 2],
    [['create', 'X', '--url', url], 2],
    [['create', 'X', '--url', url, '--event', 'token.made'], 1],
    [['update', 'Orders', '--status', 'dead'], 2],
    [['deliveries', 'Orders', '--state', 'lost'], 2],
    [['ping', 'Order'], 5],
  ] as const) {
    const answer = await run(['webhooks', ...words]);
    expect([answer.code, answer.err.split('\n').length], words.join(' ')).toEqual([code, 2]);
  }
  expect(await find()).toHaveLength(1);
});
