// What a request with an idempotency key costs and tells: uses of bound tokens, code that sends, and events.
import { type ServerResponse } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDelivering } from '../src/modules/webhooks/deliver.ts';
import { tokenOf } from './support/reactors.ts';
import { type Answer, startServerBefore, type TestServer, upstreamOn } from './support/server.ts';
import { changeProxy, makeProxy, type StoredProxy } from './support/stored-proxies.ts';
import { type Received, startUpstream, type Upstream } from './support/upstream.ts';

let server: TestServer;
let upstream: Upstream;
let delivering: ReturnType<typeof createDelivering>;
let destination_url: string;
let count = 0;

type Answering = (response: ServerResponse) => void;
const answers = new Map<string, Answering[]>();
const created: Answering = (response) => void response.writeHead(201).end('{}');
const reset: Answering = (response) => void response.socket?.destroy();

beforeAll(async () => {
  upstream = await startUpstream({
    answer: (request, response) => (answers.get(request.url ?? '')?.shift() ?? created)(response),
  });
  server = await startServerBefore(
    { ...upstreamOn(upstream.port), 'closed.test': upstream.port },
    { RATE_LIMIT: 'off' },
  );
  delivering = createDelivering(server.ctx);
  destination_url = `https://upstream.test:${upstream.port}`;
});
afterAll(async () => {
  await delivering.stop();
  await server.close();
  await upstream.close();
});

const newPath = (answering: Answering[] = []): string => {
  count += 1;
  answers.set(`/uses/${count}`, answering);
  return `/uses/${count}`;
};

const send = (proxy: StoredProxy, path: string, json: object): Promise<Answer> =>
  server.request('POST', `/proxy${path}`, {
    json,
    headers: { 'svc-proxy-key': proxy.key, 'svc-idempotency-key': `key-of${path}` },
  });

const sentTo = (path: string): Received[] => upstream.received.filter(({ url }) => url === path);

const usesOf = async (id: string): Promise<number> =>
  (await server.request('GET', `/tokens?id=${id}`)).body.data[0].uses ?? 0;

const stateOf = async ({ headers }: Answer): Promise<string> =>
  (await server.request('GET', `/forwards/${headers.get('svc-forward-id')}`)).body.state;

test('a recognised repetition is one use; one after nothing was sent is another', async () => {
  const token = await tokenOf(server, 'a-number-of-mine', { bound_to: { max_uses: 3 } });
  const json = { value: `{{ ${token} }}` };
  const proxy = await makeProxy(server, { destination_url, idempotency_header: 'Idempotency-Key' });
  const path = newPath([reset]);
  expect((await send(proxy, path, json)).status).toBe(502);
  expect((await send(proxy, path, json)).status).toBe(201);
  expect((await send(proxy, path, json)).headers.get('svc-idempotent-replayed')).toBe('true');
  expect([sentTo(path).length, await usesOf(token)]).toEqual([2, 1]);

  const closed = destination_url.replace('upstream', 'closed');
  const other = await makeProxy(server, { destination_url: closed });
  const second = newPath();
  expect(await stateOf(await send(other, second, json))).toBe('failed');
  await changeProxy(server, other, { destination_url });
  expect((await send(other, second, json)).status).toBe(201);
  expect(await usesOf(token)).toBe(3);
  // A replay is a use of now: none is left.
  const { body } = await server.request('GET', '/forwards?size=1');
  expect((await server.request('POST', `/forwards/${body.data[0].id}/replay`, { json: {} })).status).toBe(403);
});

test('a recognised repetition sends the code that its first attempt holds', async () => {
  const data = { number: '4242424242424242', expiration_month: 12, expiration_year: 2040, cvc: '737' };
  const card = await tokenOf(server, data, { type: 'card' });
  const more = { idempotency_header: 'Idempotency-Key', cvc: { until: 'answered' } };
  const proxy = await makeProxy(server, { destination_url, ...more });
  const json = { cvc: `{{ ${card} | json: '$.cvc' }}` };
  const path = newPath([reset, reset]);
  for (const attempts of [1, 2]) {
    expect([(await send(proxy, path, json)).status, sentTo(path).length]).toEqual([502, attempts]);
    // Another request is a second one.
    const other = await send(proxy, newPath(), json);
    expect([other.status, other.headers.get('retry-after')]).toEqual([409, '1']);
  }
  const answer = await send(proxy, path, json);
  expect([answer.status, answer.headers.get('svc-cvc')]).toEqual([201, 'consumed']);
  expect(sentTo(path).map(({ body }) => body.toString())).toEqual(Array(3).fill('{"cvc":"737"}'));
});

test('code that has called fetch counts as sent, also where it then throws', async () => {
  const path = newPath();
  const code = (rest: string) => `module.exports = async ({ args }) => { ${rest} throw new Error('no'); };`;
  const call = `await fetch('${destination_url}${path}', { method: 'POST', body: 'a' });`;
  const calling = await makeProxy(server, { destination_url, request_transform: { code: code(call) } });
  const first = await send(calling, `${path}/a`, { a: 1 });
  expect([await stateOf(first), sentTo(path).length]).toEqual(['unknown', 1]);
  const again = await send(calling, `${path}/a`, { a: 1 });
  expect([again.status, again.body.proxy_error.code, sentTo(path).length]).toEqual([409, 'outcome_unknown', 1]);

  const silent = await makeProxy(server, { destination_url, request_transform: { code: code('') } });
  expect(await stateOf(await send(silent, `${path}/b`, { a: 1 }))).toBe('failed');
});

test('a use is not taken back of a refused request that was noted as sent', async () => {
  const amount = { value: '$.amount', currency: '$.currency', unit: 'minor' };
  const code = 'module.exports = async ({ args }) => args;';
  for (const [request_transform, uses] of [
    [undefined, 0],
    [{ code }, 1],
  ] as const) {
    const proxy = await makeProxy(server, { destination_url, amount, request_transform });
    const token = await tokenOf(server, 'a-number-of-mine', {
      bound_to: { proxies: [proxy.id], max_uses: 3, allowance: { max_amount: 100, currency: 'usd' } },
    });
    const path = newPath();
    const answer = await send(proxy, path, { amount: 101, currency: 'usd', card: `{{ ${token} }}` });
    expect(answer.status, answer.text).toBe(403);
    expect([await stateOf(answer), await usesOf(token), sentTo(path).length]).toEqual(['failed', uses, 0]);
  }
});

test('an unknown outcome is told to a webhook, by ids and no value', async () => {
  const url = `${destination_url}/hook`;
  const made = await server.request('POST', '/webhooks', { json: { name: 'W', url, events: ['forward.unknown'] } });
  expect(made.status, made.text).toBe(201);
  const token = await tokenOf(server, 'a-number-of-mine', {});
  const proxy = await makeProxy(server, { destination_url });
  const answer = await send(proxy, newPath([reset]), { value: `{{ ${token} }}` });
  await delivering.settle();
  expect(sentTo('/hook')).toHaveLength(1);
  const text = sentTo('/hook')[0]?.body.toString() ?? '';
  expect(JSON.parse(text)).toMatchObject({
    type: 'forward.unknown',
    data: { id: answer.headers.get('svc-forward-id'), attempts: 1, proxy_id: proxy.id },
  });
  expect(text).not.toContain('a-number');
});
