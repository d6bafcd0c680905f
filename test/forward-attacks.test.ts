// Attacks on records of requests with an idempotency key: by other tenants, other applications, destinations, and a writer of the database.
import { randomUUID } from 'node:crypto';
import { type ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { openStored } from '../src/modules/proxy/forwards/records.ts';
import { tokenOf } from './support/reactors.ts';
import {
  type Answer,
  type RequestOptions,
  type SharedServer,
  type TestTenant,
  useEgressServer,
} from './support/server.ts';
import { askOnWire, changeProxy, makeApplication, makeProxy, type StoredProxy } from './support/stored-proxies.ts';
import { type Received, startUpstream, type Upstream } from './support/upstream.ts';

const NUMBER = '5555555555554444';
const CARD = { number: NUMBER, expiration_month: 12, expiration_year: 2040, cvc: '739' };

let server: SharedServer;
let upstream: Upstream;
let anonymous: TestTenant;
let destination_url: string;
let other_url: string;
let proxy: StoredProxy;
let other: StoredProxy;
let card: string;
let count = 0;

type Answering = (response: ServerResponse) => void;
const answers = new Map<string, Answering[]>();
const created: Answering = (response) => void response.writeHead(201).end('{"charge":"ch_secret"}');
const reset: Answering = (response) => void response.socket?.destroy();

beforeAll(async () => {
  const egress = await useEgressServer();
  ({ server } = egress);
  upstream = await startUpstream({
    port: egress.port,
    answer: (request, response) => (answers.get(pathOf(request.url ?? ''))?.shift() ?? created)(response),
  });
  destination_url = `https://upstream.test:${upstream.port}`;
  other_url = `https://other.upstream.test:${upstream.port}`;
  [proxy, other] = [
    await makeProxy(server, { destination_url }),
    await makeProxy(server, { destination_url: other_url }),
  ];
  card = await tokenOf(server, CARD, { type: 'card' });
  anonymous = await server.newTenant();
});
afterAll(() => upstream.close());

const pathOf = (url: string): string => new URL(url, 'https://upstream.test').pathname;

type Order = { path: string; id: string; answer: Answer };

const newPath = (): string => `/orders/${(count += 1)}`;

const send = (path: string, { headers, ...options }: RequestOptions = {}): Promise<Answer> =>
  server.request('POST', `/proxy${path}`, {
    body: `{"number":"{{ ${card} | json: '$.number' }}"}`,
    ...options,
    headers: {
      'svc-proxy-key': proxy.key,
      'svc-idempotency-key': `key-of${path}`,
      'content-type': 'application/json',
      authorization: 'Bearer of-the-first',
      ...headers,
    },
  });

const forward = async (answering: Answering[] = [], options: RequestOptions = {}): Promise<Order> => {
  const path = newPath();
  answers.set(path, answering);
  const answer = await send(path, options);
  return { path, id: answer.headers.get('svc-forward-id') as string, answer };
};

const sentTo = ({ path }: Pick<Order, 'path'>): Received[] =>
  upstream.received.filter(({ url }) => pathOf(url) === path);

const replay = (id: string, json: object = {}, options: RequestOptions = {}): Promise<Answer> =>
  server.request('POST', `/forwards/${id}/replay`, { json, ...options });

const readWhole = (id: string, key?: string): Promise<Answer> =>
  server.request('GET', `/forwards/${id}?include=bodies`, key === undefined ? {} : { key });

const keyWith = async (...permissions: string[]): Promise<string> =>
  (await makeApplication(server, { permissions, type: 'private' })).key;

/** As where its destination did not accept the connection. */
const fail = (id: string): Promise<unknown> =>
  server.sql(`UPDATE forwards SET state = 'failed', sent_at = NULL WHERE id = $1`, [id]);

const valuesIn = (order: Pick<Order, 'path'>, name: string): (string | undefined)[] =>
  sentTo(order).map(({ headers }) => headers.find(([each]) => each.toLowerCase() === name)?.[1]);

/** What is sealed of a record, with its request body as text. */
const openRecord = async (id: string): Promise<string> => {
  const { tenant_id } = server.tenant;
  const keys = await server.ctx.keyring.tenantKeys(tenant_id);
  const [{ sealed }] = (await server.sql('SELECT sealed FROM forwards WHERE id = $1', [id])) as [{ sealed: Buffer }];
  const stored = openStored(server.ctx, { tenant_id, keys }, { id, sealed });
  const { body, headers, path, query } = stored.request;
  return JSON.stringify([headers, path, query, body && Buffer.from(body, 'base64').toString('latin1')]);
};

const isRefused = ({ status }: Answer): boolean => status >= 400 && status < 500;

describe('another tenant', () => {
  test.each<[string, (order: Order) => Promise<Answer>]>([
    ['reads a record', ({ id }) => server.request('GET', `/forwards/${id}`, { key: anonymous.api_key })],
    ['reads its bodies', ({ id }) => readWhole(id, anonymous.api_key)],
    ['replays it', ({ id }) => replay(id, { accept_risk: true }, { key: anonymous.api_key })],
    ['replays it through its proxy', ({ id }) => replay(id, { proxy_id: proxy.id }, { key: anonymous.api_key })],
  ])('%s: it is not there', async (_, attack) => {
    const order = await forward();
    const answer = await attack(order);
    expect([answer.status, answer.text.includes(order.path)]).toEqual([404, false]);
    expect(sentTo(order)).toHaveLength(1);
  });

  test('finds none of them in its list, by no filter and no cursor', async () => {
    await forward();
    await forward();
    const { body } = await server.request('GET', '/forwards?size=1');
    for (const query of ['', `?proxy_id=${proxy.id}`, '?state=answered', `?start=${body.pagination.next}`]) {
      const listed = await server.request('GET', `/forwards${query}`, { key: anonymous.api_key });
      expect([listed.status, listed.body.data]).toEqual([200, []]);
    }
  });

  test('sends its own request through a proxy that is not its own: it is not there', async () => {
    const headers = { 'svc-proxy-url': destination_url, 'svc-idempotency-key': 'key' };
    const path = newPath();
    const own = await server.request('POST', `/proxy${path}`, { key: anonymous.api_key, body: 'a', headers });
    const id = own.headers.get('svc-forward-id') as string;
    expect((await replay(id, { proxy_id: proxy.id }, { key: anonymous.api_key })).status).toBe(404);
    expect(sentTo({ path })).toHaveLength(1);
  });
});

describe('another application', () => {
  test('gets no response under the key of the first, and sends its own request', async () => {
    const order = await forward();
    const answer = await send(order.path, { key: await keyWith('token:use') });
    expect(answer.headers.get('svc-idempotent-replayed')).toBeNull();
    expect(answer.headers.get('svc-forward-id')).not.toBe(order.id);
  });

  test.each([
    ['no permission of it', ['token:use', 'log:read', 'proxy:read']],
    ['the permission to read alone, and replays', ['forward:read', 'token:use']],
    ['the permission to replay alone, and reads', ['forward:replay', 'token:use']],
  ])('with %s is refused', async (_, permissions) => {
    const { id } = await forward();
    const key = await keyWith(...permissions);
    const isReader = permissions.includes('forward:read');
    expect((await (isReader ? replay(id, {}, { key }) : readWhole(id, key))).status).toBe(403);
  });

  test('that may not use the token sees no response, whatever the row says of its sender', async () => {
    const order = await forward();
    const reader = await makeApplication(server, { permissions: ['forward:read'], type: 'private' });
    await server.sql('UPDATE forwards SET actor_id = $2 WHERE id = $1', [order.id, reader.id]);
    await server.sql('UPDATE forwards SET actor_id = $2 WHERE id = $1', [order.id, randomUUID()]);
    const { status, text } = await readWhole(order.id, reader.key);
    expect([status, text.includes('ch_secret')]).toEqual([200, false]);
  });
});

test('another application without the token sees no header of a response that is not kept', async () => {
  const long: Answering = (response) => void response.writeHead(201, { 'x-charge': 'ch_1' }).end('a'.repeat(300_000));
  const { id } = await forward([long]);
  expect((await readWhole(id)).body.response.headers).toContainEqual({ name: 'x-charge', value: 'ch_1' });
  const { status, body } = await readWhole(id, await keyWith('forward:read'));
  expect([status, body.answer, body.response]).toEqual([200, 'not_kept', undefined]);
});

describe('a form that the vault does not know is refused', () => {
  test.each([
    '?start=%00',
    `?start=${Buffer.from('["x"]').toString('base64url')}`,
    `?start=${Buffer.from(`["${randomUUID().toUpperCase()}"]`).toString('base64url')}`,
    `?start=${Buffer.from('[{"id":1}]').toString('base64url')}`,
    `?start=${Buffer.from(`["'; DROP TABLE forwards; --"]`).toString('base64url')}`,
    '?size=0',
    '?size=101',
    '?size=-1',
    '?page=0',
    '?state=begun%27',
    '?state=begun&state=sent',
    '?proxy_id=%27',
    '?tenant_id=7f4c2b1e-9d3a-4a57-8f61-2c5b8e0d9a13',
    '?start_date=2026-11-20&end_date=2026-11-19',
  ])('in the list: %s', async (query) => {
    expect((await server.request('GET', `/forwards${query}`)).status).toBe(400);
  });

  test.each(['?include=sealed', '?include=bodies&include=bodies', '?include=', '?bodies=1'])(
    'in a reading: %s',
    async (query) => {
      const { id } = await forward();
      expect((await server.request('GET', `/forwards/${id}${query}`)).status).toBe(400);
    },
  );

  test.each(['', 'a b', `replay ${randomUUID()} x`, 'é', 'a'.repeat(256)])('as a key: %j', async (key) => {
    const path = newPath();
    const headers = { 'svc-proxy-key': proxy.key, 'svc-idempotency-key': Buffer.from(key).toString('latin1') };
    const answer = await askOnWire(server, 'POST', `/proxy${path}`, { headers, body: 'a' });
    expect([answer.status, sentTo({ path })]).toEqual([400, []]);
  });

  test.each(['SVC-API-KEY', 'Host', 'Content-Length', 'Transfer-Encoding', 'a b', 'X\r\nY', ''])(
    'as the header of the key: %j',
    async (idempotency_header) => {
      const json = { name: 'P', destination_url, idempotency_header };
      expect((await server.request('POST', '/proxies', { json })).status).toBe(400);
    },
  );
});

describe('a destination', () => {
  test('cannot say that it is the vault', async () => {
    const forged: Answering = (response) =>
      void response
        .writeHead(200, { 'SVC-FORWARD-ID': randomUUID(), 'SVC-IDEMPOTENT-REPLAYED': 'true', 'SVC-CVC': 'consumed' })
        .end('{}');
    const path = newPath();
    answers.set(path, [forged]);
    const ask = () =>
      askOnWire(server, 'POST', `/proxy${path}`, {
        headers: { 'svc-proxy-key': proxy.key, 'svc-idempotency-key': path },
        body: 'a',
      });
    const [first, again] = [await ask(), await ask()];
    expect(first.headers['svc-idempotent-replayed']).toBeUndefined();
    expect(first.headers['svc-cvc']).toBeUndefined();
    expect(again.headers['svc-idempotent-replayed']).toBe('true');
    const { body } = await server.request('GET', `/forwards/${String(first.headers['svc-forward-id'])}`);
    expect(body.state).toBe('answered');
  });

  test('gets one key, and none that the client writes beside it', async () => {
    const own = await makeProxy(server, { destination_url, idempotency_header: 'Idempotency-Key' });
    const headers = { 'svc-proxy-key': own.key, 'idempotency-key': 'of-the-client' };
    const order = await forward([], { headers });
    const keys = sentTo(order).flatMap((each) => each.headers.filter(([name]) => /^idempotency-key$/i.test(name)));
    expect(keys).toHaveLength(1);
    expect(keys[0]?.[1]).not.toContain('of-the-client');
    expect(JSON.stringify(sentTo(order)[0]?.headers)).not.toContain(`key-of${order.path}`);
  });

  test('that says the value back has it stored nowhere, also by a replay', async () => {
    const echo: Answering = (response) => void response.end(`{"number":"${NUMBER}"}`);
    const order = await forward([echo, echo]);
    const { body } = await replay(order.id);
    for (const id of [order.id, body.id]) expect((await readWhole(id)).text).not.toContain(NUMBER);
  });
});

describe('a retry', () => {
  test('repeats the attempt that was sent, not the one before it that was not', async () => {
    const own = await makeProxy(server, { destination_url, idempotency_header: 'Idempotency-Key' });
    const as = (authorization: string) => ({ headers: { 'svc-proxy-key': own.key, authorization } });
    const order = await forward([reset, reset], as('Bearer of-no-account'));
    await fail(order.id);
    expect((await send(order.path, as('Bearer of-one'))).status).toBe(502);
    expect((await send(order.path, as('Bearer of-two'))).status).toBe(201);
    expect(valuesIn(order, 'authorization').slice(1)).toEqual(['Bearer of-one', 'Bearer of-one']);
    expect(new Set(valuesIn(order, 'idempotency-key')).size).toBe(1);
  });

  test.each([
    ['recognises it', 'Idempotency-Key'],
    ['does not recognise it', undefined],
  ])('of a failed request that was replayed is not sent, where its destination %s', async (_, idempotency_header) => {
    const own = await makeProxy(server, { destination_url, idempotency_header });
    const headers = { 'svc-proxy-key': own.key };
    const order = await forward([reset], { headers });
    await fail(order.id);
    const { body } = await replay(order.id);
    expect(body.state).toBe('answered');
    const again = await send(order.path, { headers });
    expect([again.status, again.body.proxy_error?.code ?? again.body.code]).toEqual([409, 'outcome_unknown']);
    expect(again.text).toContain(body.id);
    expect(sentTo(order)).toHaveLength(2);
    expect(new Set(valuesIn(order, 'idempotency-key')).size).toBe(1);
  });

  test('and a replay at once of a failed request are one', async () => {
    const own = await makeProxy(server, { destination_url, idempotency_header: 'Idempotency-Key' });
    const headers = { 'svc-proxy-key': own.key };
    for (let round = 0; round < 10; round += 1) {
      const order = await forward([reset], { headers });
      await fail(order.id);
      await Promise.all([send(order.path, { headers }), replay(order.id), send(order.path, { headers })]);
      // A replay that comes after an answered retry has another key: it is another request.
      const [first, ...others] = valuesIn(order, 'idempotency-key');
      expect(others.filter((key) => key === first)).toHaveLength(1);
    }
  });
});

describe('a replay', () => {
  test.each([
    ['SVC-PROXY-URL', () => other_url],
    ['SVC-PROXY-KEY', () => other.key],
    ['Host', () => 'other.upstream.test'],
  ])('goes where it went, whatever %s says', async (name, value) => {
    const order = await forward();
    const headers: Record<string, string> = name === 'Host' ? { 'x-forwarded-host': value() } : { [name]: value() };
    await replay(order.id, {}, { headers });
    const hosts = sentTo(order).map(({ servername }) => servername);
    expect(new Set(hosts)).toEqual(new Set(['upstream.test']));
  });

  test('is no dry run: it is refused, and nothing is sent', async () => {
    const order = await forward();
    expect(isRefused(await replay(order.id, {}, { headers: { 'svc-dry-run': 'true' } }))).toBe(true);
    expect(sentTo(order)).toHaveLength(1);
  });

  test('through another proxy takes no credentials, by no spelling of the body', async () => {
    const order = await forward();
    await replay(order.id, { proxy_id: other.id.toUpperCase() });
    const [, second] = sentTo(order);
    expect(second?.servername).toBe('other.upstream.test');
    expect(JSON.stringify(second?.headers)).not.toContain('of-the-first');
  });

  test('through a proxy that was moved sends no credentials, also when it is moved back', async () => {
    const own = await makeProxy(server, { destination_url });
    const order = await forward([], { headers: { 'svc-proxy-key': own.key } });
    await changeProxy(server, own, { destination_url: other_url });
    const { body } = await replay(order.id);
    expect(body.state).toBe('answered');
    expect(JSON.stringify(sentTo(order)[1]?.headers)).not.toContain('of-the-first');
    // The record of the replay has what was sent then, and no more.
    await changeProxy(server, own, { destination_url });
    await replay(body.id);
    expect(JSON.stringify(sentTo(order)[2]?.headers)).not.toContain('of-the-first');
  });

  test('through a proxy that is moved while it begins sends nothing', async () => {
    const own = await makeProxy(server, { destination_url });
    const order = await forward([], { headers: { 'svc-proxy-key': own.key } });
    const { proxies } = server.ctx;
    const find = proxies.findProxyBeforeCaller.bind(proxies);
    const finding = vi.spyOn(proxies, 'findProxyBeforeCaller').mockImplementationOnce(async (key) => {
      const found = await find(key);
      await changeProxy(server, own, { destination_url: other_url });
      return found;
    });
    const answer = await replay(order.id);
    finding.mockRestore();
    expect([answer.status, sentTo(order).length]).toEqual([409, 1]);
  });

  test('of an unknown outcome is not sent by a truthy word', async () => {
    const order = await forward([reset]);
    for (const accept_risk of ['true', 1, {}, [true], null])
      expect(isRefused(await replay(order.id, { accept_risk }))).toBe(true);
    expect(sentTo(order)).toHaveLength(1);
  });

  test('50 at once of one key are one', async () => {
    const order = await forward();
    const headers = { 'svc-idempotency-key': 'again' };
    await Promise.all(Array.from({ length: 50 }, () => replay(order.id, {}, { headers })));
    expect(sentTo(order)).toHaveLength(2);
  });
});

describe('a literal security code is not stored', () => {
  const gzipped = { body: gzipSync('{"cvc":"739"}'), headers: { 'content-encoding': 'gzip' } };
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const utf16 = { 'content-type': 'application/json; charset=utf-16le' };

  test.each<[string, string, RequestOptions]>([
    ['its query', '?cvc=739', {}],
    ['its query, in percent', '?cvc%5Bcode%5D=%37%33%39', {}],
    ['its path', '/cvc=739', {}],
    ['a header', '', { headers: { 'x-cvc': '739' } }],
    ['the value of a header', '', { headers: { 'x-card': '{"cvc":"739"}' } }],
    ['a gzip body', '', gzipped],
    ['a body in UTF-16', '', { body: Buffer.from('{"cvc":"739"}', 'utf16le'), headers: utf16 }],
    ['a form, in percent', '', { body: 'a=b&cv%63=%37%33%39', headers: form }],
  ])('of a request that has it in %s', async (_, more, options) => {
    const path = newPath();
    const answer = await send(path + more, options);
    expect(answer.status, answer.text).toBe(201);
    const id = answer.headers.get('svc-forward-id') as string;
    expect(await openRecord(id)).not.toMatch(/739|%37%33%39/);
    const again = await replay(id);
    expect([again.status, again.body.detail]).toEqual([409, expect.stringContaining('security code')]);
  });
});

describe('a writer of the database', () => {
  test.each([
    ['the method', 'method', () => 'DELETE'],
    ['the proxy', 'proxy_id', () => other.id],
    ['the host', 'destination_host', () => 'other.upstream.test'],
  ])('who changes %s of a row changes nothing of its replay', async (_, column, value) => {
    const order = await forward();
    await server.sql(`UPDATE forwards SET ${column} = $2 WHERE id = $1`, [order.id, value()]);
    expect((await replay(order.id)).status).toBe(201);
    const [first, second] = sentTo(order);
    expect([second?.method, second?.servername]).toEqual([first?.method, first?.servername]);
  });

  test('who moves what is sealed to another row or tenant gets an error and no text', async () => {
    const [one, two] = [await forward(), await forward()];
    await server.sql('UPDATE forwards SET sealed = (SELECT sealed FROM forwards WHERE id = $2) WHERE id = $1', [
      one.id,
      two.id,
    ]);
    const path = newPath();
    const headers = { 'svc-proxy-url': destination_url, 'svc-idempotency-key': 'moved' };
    const theirs = await server.request('POST', `/proxy${path}`, { key: anonymous.api_key, body: 'a', headers });
    const id = theirs.headers.get('svc-forward-id') as string;
    await server.sql('UPDATE forwards SET sealed = (SELECT sealed FROM forwards WHERE id = $2) WHERE id = $1', [
      id,
      two.id,
    ]);
    for (const answer of [
      await readWhole(one.id),
      await replay(one.id),
      await send(one.path),
      await readWhole(id, anonymous.api_key),
    ])
      expect([answer.status, answer.text.includes('orders')]).toEqual([500, false]);
    await server.sql('DELETE FROM forwards WHERE id = ANY ($1)', [[one.id, id]]);
  });

  test('who sets a state sees it followed: the threat model says so', async () => {
    const order = await forward();
    await server.sql(`UPDATE forwards SET state = 'failed' WHERE id = $1`, [order.id]);
    expect((await send(order.path)).headers.get('svc-idempotent-replayed')).toBeNull();
    expect(sentTo(order)).toHaveLength(2);
  });
});
