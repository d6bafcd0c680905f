// The endpoints for tests: they advance the clock, make tenants, and tell what the fake processor received.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { cards } from '../src/modules/testing/processor.ts';
import { startServer, type TestServer, useServer } from './support/server.ts';

let server: TestServer;

beforeAll(async () => {
  // The clock that the endpoints advance, and not that of the test server.
  server = await startServer({ TEST_ENDPOINTS: 'on' }, { now: undefined });
});
afterAll(() => server.close());

const post = (path: string, json: unknown, key?: string | null) =>
  server.request('POST', path, { json, ...(key === undefined ? {} : { key }) });

test('the clock goes forward: a token expires, and is deleted before the answer', async () => {
  const expires_at = new Date(Date.now() + 30 * 60_000).toISOString();
  const { id } = (await post('/tokens', { type: 'token', data: 'short', expires_at })).body;
  const readStatus = async (): Promise<number> => (await server.request('GET', `/tokens/${id}`)).status;
  expect(await readStatus()).toBe(200);
  const before = Date.now();
  const { status, body } = await post('/test/clock', { advance: '1h' });
  expect(status).toBe(200);
  expect(Math.round((Date.parse(body.now) - before) / 60_000)).toBe(60);
  expect(await readStatus()).toBe(404);
  expect(await server.sql('SELECT id FROM tokens WHERE id = $1', [id])).toEqual([]);
});

test('a time that is no time, or is too far ahead, is a 400 that names it', async () => {
  for (const advance of ['1', '-1h', '1w', '0s', '1.5h', 3_600, null, undefined, '3661d', '999999999d']) {
    const { status, body } = await post('/test/clock', { advance });
    expect([status, Object.keys(body.errors)], String(advance)).toEqual([400, ['advance']]);
  }
});

test('a new tenant is apart from the others', async () => {
  const { status, body } = await post('/test/tenants', {});
  expect(status).toBe(201);
  const { id } = (await server.tokenize({ type: 'token', data: 'mine' })).body;
  expect((await server.request('GET', `/tokens/${id}`, { key: body.api_key })).status).toBe(404);
  expect((await server.request('GET', '/tenants/self', { key: body.api_key })).body).toMatchObject({
    id: body.tenant_id,
    name: 'Test',
  });
  const refused = await post('/test/tenants', { name: '', plan: 'gold' });
  expect([refused.status, Object.keys(refused.body.errors).toSorted()]).toEqual([400, ['name', 'plan']]);
});

test('the processor answers by the card, and tells what it received', async () => {
  const { processor_url } = (await server.request('GET', '/test/requests')).body;
  const pay = async (number: string) => {
    const data = { number, expiration_month: 12, expiration_year: 2030 };
    const { id } = (await post('/tokens', { type: 'card', data })).body;
    const answered = await server.request('POST', '/proxy', {
      json: { card: `{{ ${id} | json: '$.number' }}` },
      headers: { 'svc-proxy-url': `${processor_url}/payments` },
    });
    return { ...answered, id };
  };
  expect(await pay(cards.approved)).toMatchObject({ status: 200, body: { status: 'approved' } });
  expect(await pay(cards.declined)).toMatchObject({ status: 402, body: { code: 'card_declined' } });
  expect(await pay(cards.insufficientFunds)).toMatchObject({ status: 402, body: { code: 'insufficient_funds' } });
  expect(await pay(cards.resets)).toMatchObject({ status: 502 });
  expect(await pay(cards.echoes)).toMatchObject({
    status: 200,
    body: { method: 'POST', path: '/payments', body: { card: cards.echoes } },
  });
  const { data } = (await server.request('GET', '/test/requests')).body;
  expect(data.map(({ body }: { body: { card: string } }) => body.card)).toEqual([
    cards.approved,
    cards.declined,
    cards.insufficientFunds,
    cards.resets,
    cards.echoes,
  ]);
  expect((await server.request('DELETE', '/test/requests')).status).toBe(204);
  expect((await server.request('GET', '/test/requests')).body).toEqual({ processor_url, data: [] });
});

test('a card that times out is a 504 of the proxy after its time', async () => {
  const { processor_url } = (await server.request('GET', '/test/requests')).body;
  const proxy = await post('/proxies', { name: 'Slow', destination_url: processor_url, timeout_seconds: 1 });
  const { status } = await server.request('POST', '/proxy', {
    json: { card: cards.timesOut },
    headers: { 'svc-proxy-key': proxy.body.key },
  });
  expect(status).toBe(504);
});

test('they need a key, and a server without the variable does not have them', async () => {
  const other = await useServer();
  for (const [method, path, json] of [
    ['POST', '/test/clock', { advance: '1h' }],
    ['POST', '/test/tenants', {}],
    ['GET', '/test/requests', undefined],
    ['DELETE', '/test/requests', undefined],
  ] as const) {
    expect((await server.request(method, path, { json, key: null })).status, path).toBe(401);
    expect((await other.request(method, path, { json })).status, path).toBe(404);
  }
});
