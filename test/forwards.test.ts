// Requests of the proxy with an idempotency key: sent once, answered as often as asked.
import { type ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tokenOf } from './support/reactors.ts';
import { startServerBefore, type TestServer, upstreamOn } from './support/server.ts';
import {
  askOnWire,
  changeProxy,
  makeApplication,
  makeProxy,
  problemIn,
  remove,
  type StoredProxy,
  type WireAnswer,
} from './support/stored-proxies.ts';
import { type Received, startUpstream, type Upstream } from './support/upstream.ts';

const NUMBER = '5555555555554444';
const CARD = { number: NUMBER, expiration_month: 12, expiration_year: 2040, cvc: '739' };

let server: TestServer;
let upstream: Upstream;
let destination_url: string;
let card: string;
let plain: StoredProxy;
let repeating: StoredProxy;

type Answering = (response: ServerResponse, received: Received) => void;
/** By path. */
const answers = new Map<string, Answering>();
let count = 0;

const created: Answering = (response) => {
  response.writeHead(201, { 'content-type': 'application/json', 'x-charge': `${count}` });
  response.end(`{"charge":"${Math.random()}"}`);
};

beforeAll(async () => {
  upstream = await startUpstream({
    answer: (request, response, received) => {
      const { pathname } = new URL(request.url ?? '', 'https://upstream.test');
      (answers.get(pathname) ?? created)(response, received);
    },
  });
  server = await startServerBefore({ ...upstreamOn(upstream.port), 'closed.test': upstream.port });
  destination_url = `https://upstream.test:${upstream.port}`;
  card = await tokenOf(server, CARD, { type: 'card' });
  plain = await makeProxy(server, { destination_url });
  repeating = await makeProxy(server, { destination_url, idempotency_header: 'Idempotency-Key' });
});
afterAll(async () => {
  await server.close();
  await upstream.close();
});

type Charge = { path: string; key: string };

/** A new order: a path of its own at the destination, and a key. */
const charge = (answering?: Answering): Charge => {
  count += 1;
  const path = `/${count}`;
  if (answering) answers.set(path, answering);
  return { path, key: `order-${count}` };
};

const BODY = (): string => JSON.stringify({ amount: 1250, number: `{{ ${card} | json: '$.number' }}` });

type Options = {
  proxy?: Pick<StoredProxy, 'key'>;
  key?: string;
  body?: string;
  method?: string;
  headers?: Record<string, string>;
};

const send = (
  { path, key }: Charge,
  { proxy = plain, key: apiKey, body = BODY(), method = 'POST', headers }: Options = {},
): Promise<WireAnswer> =>
  askOnWire(server, method, `/proxy${path}`, {
    headers: {
      'svc-proxy-key': proxy.key,
      'svc-idempotency-key': key,
      'content-type': 'application/json',
      ...headers,
    },
    body,
    ...(apiKey !== undefined && { key: apiKey }),
  });

const sentTo = ({ path }: Charge): Received[] => upstream.received.filter(({ url }) => url === path);

const idOf = ({ headers }: WireAnswer): string => String(headers['svc-forward-id']);

const rowOf = async (answer: WireAnswer): Promise<any> =>
  (await server.sql('SELECT * FROM forwards WHERE id = $1', [idOf(answer)]))[0];

/** As its process would leave it if it died. */
const leave = async (answer: WireAnswer, state: 'begun' | 'sent'): Promise<void> => {
  await server.sql(
    `UPDATE forwards SET state = $2, claimed_until = now() - interval '1 second', answered_at = NULL, status = NULL, answer = 'none',
       sent_at = CASE WHEN $2 = 'sent' THEN now() END WHERE id = $1`,
    [idOf(answer), state],
  );
};

const reset: Answering = (response) => void response.socket?.destroy();

describe('a request that was answered', () => {
  test('is sent once, and its response is returned byte for byte', async () => {
    const order = charge();
    const first = await send(order);
    const again = await send(order);
    expect(first.status).toBe(201);
    expect(again.body).toEqual(first.body);
    expect(again.headers).toMatchObject({
      'x-charge': first.headers['x-charge'],
      'svc-idempotent-replayed': 'true',
      'svc-proxy-destination-status': '201',
      'svc-forward-id': idOf(first),
    });
    expect(first.headers['svc-idempotent-replayed']).toBeUndefined();
    expect(sentTo(order).map(({ body }) => JSON.parse(body.toString()).number)).toEqual([NUMBER]);
    expect(await rowOf(first)).toMatchObject({
      state: 'answered',
      status: 201,
      attempts: 1,
      token_ids: [card],
      answer: 'kept',
    });
  });

  test.each([500, 502, 402, 204])('with %i is answered so again', async (status) => {
    const order = charge((response) => void response.writeHead(status).end());
    const first = await send(order);
    const again = await send(order);
    expect([first.status, again.status, sentTo(order).length]).toEqual([status, status, 1]);
    expect(again.headers['svc-idempotent-replayed']).toBe('true');
  });

  test.each(['PUT', 'PATCH', 'DELETE'])('of the method %s is sent once', async (method) => {
    const order = charge();
    const headers = { 'content-length': String(BODY().length) };
    const all = [await send(order, { method, headers }), await send(order, { method, headers })];
    expect(all[0]?.status).toBe(201);
    expect(all[1]?.body).toEqual(all[0]?.body);
    expect(sentTo(order)).toHaveLength(1);
  });

  test('of the method GET is sent each time, and has no record', async () => {
    const order = charge();
    const first = await askOnWire(server, 'GET', `/proxy${order.path}`, {
      headers: { 'svc-proxy-key': plain.key, 'svc-idempotency-key': order.key },
    });
    expect(first.headers['svc-forward-id']).toBeUndefined();
  });

  test('to a named destination is sent once', async () => {
    const order = charge();
    const ask = () =>
      askOnWire(server, 'POST', `/proxy${order.path}`, {
        headers: { 'svc-proxy-url': destination_url, 'svc-idempotency-key': order.key },
        body: 'a',
      });
    expect((await ask()).body).toEqual((await ask()).body);
    expect(sentTo(order)).toHaveLength(1);
  });

  test('under a key with another body, method, path or type is a 422', async () => {
    const order = charge();
    await send(order);
    const others = [
      await send(order, { body: '{}' }),
      await send(order, { method: 'PUT' }),
      await send({ ...order, path: `${order.path}/other` }),
      await send(order, { headers: { 'content-type': 'text/plain' } }),
      await send(order, { proxy: repeating }),
    ];
    expect(others.map(({ status }) => status)).toEqual([422, 422, 422, 422, 422]);
    expect(others.map((each) => problemIn(each).code)).toEqual(Array(5).fill('idempotency_key_reused'));
    expect(sentTo(order)).toHaveLength(1);
  });

  test('under the key of another application is another request', async () => {
    const order = charge();
    const other = await makeApplication(server, { permissions: ['token:use'], type: 'private' });
    const mine = await send(order);
    const theirs = await send(order, { key: other.key });
    expect(theirs.headers['svc-idempotent-replayed']).toBeUndefined();
    expect(idOf(theirs)).not.toBe(idOf(mine));
    expect(sentTo(order)).toHaveLength(2);
  });

  test('is not shown to a caller who may no longer use its token', async () => {
    const order = charge();
    const id = await tokenOf(server, CARD, { type: 'card' });
    const body = JSON.stringify({ number: `{{ ${id} | json: '$.number' }}` });
    await send(order, { body });
    await remove(server, `/tokens/${id}`);
    const again = await send(order, { body });
    expect([again.status, problemIn(again).code]).toEqual([409, 'idempotency_not_shown']);
    expect(sentTo(order)).toHaveLength(1);
  });
});

describe('a response that is not kept', () => {
  const says =
    (body: string | Buffer, headers: Record<string, string> = {}): Answering =>
    (response) =>
      void response.writeHead(200, { 'content-type': 'text/plain', ...headers }).end(body);

  test.each([
    ['is large', says('a'.repeat(300_000)), {}],
    ['is large and its length is known', says('a'.repeat(300_000), { 'content-length': '300000' }), {}],
    ['is a stream of events', says('data: 1\n\n', { 'content-type': 'text/event-stream' }), {}],
    ['has the number', says(`{"number":"${NUMBER}"}`), {}],
    ['has the number in a header', says('{}', { 'x-echo': NUMBER }), {}],
    ['has a security code', says('{"cvc":"123"}'), {}],
    ['has a security code in gzip', says(gzipSync('{"cvc":"123"}'), { 'content-encoding': 'gzip' }), {}],
    ['has a security code in a header', says('{}', { 'x-cvc': '123' }), {}],
    ['is long without its coding', says(gzipSync('a'.repeat(2_000_000)), { 'content-encoding': 'gzip' }), {}],
    ['has a coding that is not known', says('{}', { 'content-encoding': 'zstd' }), {}],
  ])('because it %s goes to the first request alone', async (_, answering) => {
    const order = charge(answering);
    const first = await send(order);
    expect([first.status, first.isWhole]).toEqual([200, true]);
    expect(first.body.length).toBeGreaterThan(1);
    const again = await send(order);
    expect([again.status, problemIn(again).code]).toEqual([409, 'answer_not_kept']);
    expect(problemIn(again).detail).toContain('200');
    expect(await rowOf(first)).toMatchObject({ state: 'answered', status: 200, answer: 'not_kept' });
    expect(sentTo(order)).toHaveLength(1);
  });

  test('breaks off, and is recorded with its status', async () => {
    const order = charge((response) => {
      response.writeHead(201, { 'content-length': '100' });
      response.write('half');
      setImmediate(() => response.socket?.destroy());
    });
    const first = await send(order);
    expect(first.status).toBe(502);
    expect(await rowOf(first)).toMatchObject({ state: 'answered', status: 201 });
    expect(problemIn(await send(order)).code).toBe('answer_not_kept');
    expect(sentTo(order)).toHaveLength(1);
  });
});

describe('a request whose outcome is unknown', () => {
  test('is not sent again: 409 with the id of its record', async () => {
    const order = charge(reset);
    const first = await send(order);
    expect(first.status).toBe(502);
    const again = await send(order);
    expect(problemIn(again)).toMatchObject({
      status: 409,
      code: 'outcome_unknown',
      detail: 'The outcome of the first request is not known.',
      forward_id: idOf(first),
    });
    expect(await rowOf(first)).toMatchObject({ state: 'unknown', attempts: 1, status: null });
    expect(sentTo(order)).toHaveLength(1);
  });

  test('is sent again with the same key to a destination that recognises it', async () => {
    let isFirst = true;
    const order = charge((response, received) => {
      if (!isFirst) return created(response, received);
      isFirst = false;
      return reset(response, received);
    });
    const first = await send(order, { proxy: repeating, headers: { authorization: 'Bearer a' } });
    const again = await send(order, { proxy: repeating, headers: { authorization: 'Bearer b' } });
    expect([first.status, again.status, idOf(again)]).toEqual([502, 201, idOf(first)]);
    const keys = sentTo(order).map(({ headers }) => headers.filter(([name]) => /^idempotency-key$/i.test(name)));
    expect(keys[0]).toHaveLength(1);
    expect(keys[0]?.[0]?.[1]).toMatch(/^[\w-]{43}$/);
    expect(keys[1]).toEqual(keys[0]);
    // The destination knows the first request by its credentials too.
    const credentials = sentTo(order).map(({ headers }) => new Map(headers).get('authorization'));
    expect(credentials).toEqual(['Bearer a', 'Bearer a']);
    expect(await rowOf(first)).toMatchObject({ state: 'answered', attempts: 2, status: 201 });
    expect((await send(order, { proxy: repeating })).body).toEqual(again.body);
    expect(sentTo(order)).toHaveLength(2);
  });

  test('is not sent to another destination than the first', async () => {
    const order = charge(reset);
    const proxy = await makeProxy(server, { destination_url, idempotency_header: 'Idempotency-Key' });
    await send(order, { proxy });
    await changeProxy(server, proxy, {
      destination_url: `${destination_url}/moved`,
      idempotency_header: 'Idempotency-Key',
    });
    const again = await send(order, { proxy });
    expect(problemIn(again).code).toBe('outcome_unknown');
    await changeProxy(server, proxy, { destination_url, idempotency_header: 'X-Other-Key' });
    expect(problemIn(await send(order, { proxy })).code).toBe('outcome_unknown');
    expect(sentTo(order)).toHaveLength(1);
  });

  test('of a process that died is judged by another one', async () => {
    const order = charge();
    const first = await send(order);
    await leave(first, 'sent');
    expect(problemIn(await send(order)).code).toBe('outcome_unknown');
    expect(await rowOf(first)).toMatchObject({ state: 'unknown', claimed_until: null });
    expect(sentTo(order)).toHaveLength(1);
  });
});

describe('a request of which nothing was sent', () => {
  test('is sent again', async () => {
    const proxy = await makeProxy(server, { destination_url: destination_url.replace('upstream', 'closed') });
    const order = charge();
    const first = await send(order, { proxy });
    expect(first.status).toBe(502);
    expect(await rowOf(first)).toMatchObject({ state: 'failed', attempts: 1, sent_at: null });
    await changeProxy(server, proxy, { destination_url });
    const again = await send(order, { proxy });
    expect([again.status, idOf(again)]).toEqual([201, idOf(first)]);
    expect(await rowOf(first)).toMatchObject({ state: 'answered', attempts: 2 });
    expect(problemIn(await send(order, { proxy, body: '{}' })).code).toBe('idempotency_key_reused');
  });

  test('because its process died before that, is sent', async () => {
    const order = charge();
    const first = await send(order);
    await leave(first, 'begun');
    expect((await send(order)).status).toBe(201);
    expect(await rowOf(first)).toMatchObject({ state: 'answered', attempts: 2 });
  });

  test('because it was refused, leaves no record', async () => {
    const order = charge();
    const unknown = await send(order, { body: '{"a":"{{ none }}"}' });
    expect([unknown.status, unknown.headers['svc-forward-id']]).toEqual([400, undefined]);
    expect((await send(order)).status).toBe(201);
  });
});

describe('a request under way', () => {
  test('is not sent beside: 409 with Retry-After', async () => {
    const { promise, resolve } = Promise.withResolvers<ServerResponse>();
    const order = charge((response) => resolve(response));
    const first = send(order);
    const response = await promise;
    const beside = await send(order);
    expect([beside.status, problemIn(beside).code, beside.headers['retry-after']]).toEqual([
      409,
      'idempotency_in_progress',
      '1',
    ]);
    response.end('done');
    expect((await first).body.toString()).toBe('done');
    expect(sentTo(order)).toHaveLength(1);
  });

  test('goes on when its client leaves, who gets the response later', async () => {
    const { promise, resolve } = Promise.withResolvers<ServerResponse>();
    const order = charge((response) => resolve(response));
    const gone = new AbortController();
    const first = askOnWire(server, 'POST', `/proxy${order.path}`, {
      headers: { 'svc-proxy-key': plain.key, 'svc-idempotency-key': order.key },
      body: 'a',
      signal: gone.signal,
    });
    const response = await promise;
    gone.abort();
    await expect(first).rejects.toThrow();
    response.end('done');
    const again = () =>
      askOnWire(server, 'POST', `/proxy${order.path}`, {
        headers: { 'svc-proxy-key': plain.key, 'svc-idempotency-key': order.key },
        body: 'a',
      });
    await expect.poll(async () => (await again()).body.toString()).toBe('done');
    expect(sentTo(order)).toHaveLength(1);
  });

  test('50 at once are sent once', async () => {
    const order = charge();
    const all = await Promise.all(Array.from({ length: 50 }, () => send(order)));
    expect(sentTo(order)).toHaveLength(1);
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([201, 409]));
    expect(new Set(all.filter(({ status }) => status === 201).map(({ body }) => body.toString())).size).toBe(1);
  });
});

test('without an API key a key is refused: it would not be read', async () => {
  const open = await makeProxy(server, { destination_url, require_auth: false });
  const answer = await askOnWire(server, 'POST', '/proxy', {
    key: null,
    headers: { 'svc-proxy-key': open.key, 'svc-idempotency-key': 'a' },
    body: 'a',
  });
  expect(answer.status).toBe(401);
});

test('nothing of a value is in the table, and requests are not in clear', async () => {
  const order = charge((response) => void response.end(NUMBER));
  await send(order);
  const [{ text }] = (await server.sql('SELECT string_agg(f::text, $1) AS text FROM forwards f', ['\n'])) as any;
  expect(text).not.toContain(NUMBER);
  expect(text).not.toContain(Buffer.from(NUMBER).toString('hex'));
  expect(text).not.toContain('amount');
  expect(text).not.toContain(order.path);
});
