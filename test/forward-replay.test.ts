// A recorded request is sent once more: as a new request of its caller, with the rights of now.
import { randomUUID } from 'node:crypto';
import { type ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tokenOf } from './support/reactors.ts';
import { type Answer, type RequestOptions, type SharedServer, useEgressServer } from './support/server.ts';
import { changeProxy, makeApplication, makeProxy, remove, type StoredProxy } from './support/stored-proxies.ts';
import { type Received, startUpstream, type Upstream } from './support/upstream.ts';

const NUMBER = '5555555555554444';
const CARD = { number: NUMBER, expiration_month: 12, expiration_year: 2040, cvc: '739' };

let server: SharedServer;
let upstream: Upstream;
let destination_url: string;
let other_url: string;
let proxy: StoredProxy;
let card: string;
let count = 0;

type Answering = (response: ServerResponse) => void;
const created: Answering = (response) => void response.writeHead(201).end('{"charge":"ch_1"}');
const reset: Answering = (response) => void response.socket?.destroy();
/** By path, in the order of requests. */
const answers = new Map<string, Answering[]>();

beforeAll(async () => {
  const egress = await useEgressServer();
  ({ server } = egress);
  upstream = await startUpstream({
    port: egress.port,
    answer: (request, response) => (answers.get(pathOf(request.url ?? ''))?.shift() ?? created)(response),
  });
  destination_url = `https://upstream.test:${upstream.port}`;
  other_url = `https://other.upstream.test:${upstream.port}`;
  proxy = await makeProxy(server, { destination_url });
  card = await tokenOf(server, CARD, { type: 'card' });
});
afterAll(() => upstream.close());

const pathOf = (url: string): string => new URL(url, 'https://upstream.test').pathname;

type Order = { path: string; id: string };

type Options = RequestOptions & { to?: Record<string, string>; token?: string; answering?: Answering[]; path?: string };

/** Sends a request with a path of its own at the destination. */
const forward = async (options: Options = {}): Promise<Order> => {
  count += 1;
  const { to = { 'svc-proxy-key': proxy.key }, token = card, answering = [], ...rest } = options;
  const path = rest.path ?? `/charges/${count}`;
  answers.set(path, answering);
  const answer = await server.request('POST', `/proxy${path}?a=%20b`, {
    body: `{"number":"{{ ${token} | json: '$.number' }}"}`,
    ...rest,
    headers: {
      ...to,
      'svc-idempotency-key': `order-${count}`,
      'content-type': 'application/json',
      accept: 'application/json',
      authorization: 'Bearer of-the-first',
      'x-account': 'acct_1',
      ...rest.headers,
    },
  });
  const id = answer.headers.get('svc-forward-id');
  expect(id, answer.text).toBeTruthy();
  return { path, id: id as string };
};

const replay = ({ id }: Pick<Order, 'id'>, json: object = {}, options: RequestOptions = {}): Promise<Answer> =>
  server.request('POST', `/forwards/${id}/replay`, { json, ...options });

const sentTo = ({ path }: Order): Received[] => upstream.received.filter(({ url }) => pathOf(url) === path);

const valueOf = (received: Received | undefined, name: string): string | undefined =>
  received?.headers.find(([each]) => each.toLowerCase() === name)?.[1];

const leave = (id: string, state: string): Promise<unknown> =>
  server.sql(`UPDATE forwards SET state = $2, claimed_until = now() + interval '1 minute' WHERE id = $1`, [id, state]);

describe('a replay', () => {
  test('through the same proxy sends the same request, and has a record of its own', async () => {
    const order = await forward();
    const answer = await replay(order);
    expect(answer.status, answer.text).toBe(201);
    expect(answer.body).toMatchObject({ state: 'answered', status: 201, replay_of: order.id, token_ids: [card] });
    expect(answer.body.id).not.toBe(order.id);
    expect(answer.headers.get('location')).toBe(`/forwards/${answer.body.id}`);
    expect(answer.text).not.toContain('ch_1');
    const [first, second] = sentTo(order);
    expect(second?.body.toString()).toBe(first?.body.toString());
    expect(second?.body.toString()).toContain(NUMBER);
    expect(second?.url).toBe(first?.url);
    for (const name of ['authorization', 'x-account', 'content-type', 'accept'])
      expect(valueOf(second, name)).toBe(valueOf(first, name));
    const read = await server.request('GET', `/forwards/${answer.body.id}?include=bodies`);
    expect(read.body.response.body.text).toContain('ch_1');
    const { body: logs } = await server.request('GET', `/logs?entity_id=${order.id}`);
    expect(logs.data).toMatchObject([{ operation: 'use', message: 'Forward replayed' }]);
  });

  test('of a named destination goes there, with expressions in its path', async () => {
    const name = await tokenOf(server, 'ada', {});
    const order = await forward({
      to: { 'svc-proxy-url': `${destination_url}/base` },
      path: `/%7B%7B%20${name}%20%7D%7D`,
    });
    expect((await replay(order)).body).toMatchObject({ state: 'answered', replay_of: order.id });
    const paths = upstream.received.map(({ url }) => pathOf(url)).filter((path) => path.startsWith('/base'));
    expect(paths).toHaveLength(2);
    expect(paths[1]).toBe(paths[0]);
  });

  test('through another proxy takes no header of the caller but the type of the body and Accept', async () => {
    const order = await forward();
    const other = await makeProxy(server, { destination_url: other_url });
    const answer = await replay(order, { proxy_id: other.id });
    expect(answer.body).toMatchObject({ state: 'answered', proxy_id: other.id });
    const [, second] = sentTo(order);
    expect(valueOf(second, 'host')).toContain('other.upstream.test');
    expect(second?.body.toString()).toContain(NUMBER);
    expect(valueOf(second, 'content-type')).toBe('application/json');
    expect(valueOf(second, 'accept')).toBe('application/json');
    expect(JSON.stringify(second?.headers)).not.toMatch(/of-the-first|acct_1/);
  });

  test.each([
    ['goes elsewhere', { destination_url: () => other_url }],
    ['has other code', { request_transform: () => ({ code: 'module.exports = async ({ args }) => args;' }) }],
  ])('through a proxy that %s since takes no credentials there', async (_, changed) => {
    const own = await makeProxy(server, { destination_url });
    const order = await forward({ to: { 'svc-proxy-key': own.key } });
    const change = Object.fromEntries(Object.entries(changed).map(([name, of]) => [name, of()]));
    await changeProxy(server, own, { destination_url, ...change });
    expect((await replay(order)).body).toMatchObject({ state: 'answered' });
    const [, second] = sentTo(order);
    expect(JSON.stringify(second?.headers)).not.toMatch(/of-the-first|acct_1/);
  });

  test('with a key is sent once, and another replay under it is a 422', async () => {
    const order = await forward();
    const headers = { 'svc-idempotency-key': randomUUID() };
    const first = await replay(order, {}, { headers });
    const again = await replay(order, {}, { headers });
    expect([again.status, again.body.id]).toEqual([201, first.body.id]);
    const other = await makeProxy(server, { destination_url: other_url });
    expect((await replay(order, { proxy_id: other.id }, { headers })).status).toBe(422);
    expect(sentTo(order)).toHaveLength(2);
  });

  test('20 at once under one key are sent once', async () => {
    const order = await forward();
    const headers = { 'svc-idempotency-key': randomUUID() };
    const all = await Promise.all(Array.from({ length: 20 }, () => replay(order, {}, { headers })));
    expect(all.filter(({ status }) => status !== 201 && status !== 409)).toEqual([]);
    expect(sentTo(order)).toHaveLength(2);
  });

  test('that is not answered says so', async () => {
    const order = await forward({ answering: [created, reset] });
    const answer = await replay(order);
    expect([answer.status, answer.body.state]).toEqual([201, 'unknown']);
  });

  test('of a failed request that the destination then answers with a long body is recorded', async () => {
    const order = await forward({ answering: [created, (response) => void response.end('a'.repeat(2_000_000))] });
    expect((await replay(order)).body).toMatchObject({ state: 'answered', status: 200, answer: 'not_kept' });
  });
});

describe('a request whose outcome is unknown', () => {
  test('is sent again with accept_risk alone, under the same key of the destination', async () => {
    const own = await makeProxy(server, { destination_url, idempotency_header: 'Idempotency-Key' });
    const order = await forward({ to: { 'svc-proxy-key': own.key }, answering: [reset] });
    const refused = await replay(order);
    expect([refused.status, refused.body.code, refused.body.forward_id]).toEqual([409, 'outcome_unknown', order.id]);
    expect((await replay(order, { accept_risk: false })).status).toBe(409);
    expect((await replay(order, { accept_risk: true })).body).toMatchObject({ state: 'answered' });
    const keys = sentTo(order).map((each) => valueOf(each, 'idempotency-key'));
    expect(keys).toHaveLength(2);
    expect(keys[1]).toBe(keys[0]);
    // One that was answered is to be done anew.
    const again = await replay({ id: order.id }, { accept_risk: true });
    expect((await replay({ id: again.body.id })).body.state).toBe('answered');
    expect(valueOf(sentTo(order).at(-1), 'idempotency-key')).not.toBe(keys[0]);
  });
});

describe('a replay is refused', () => {
  test.each(['begun', 'sent'])('while the request is %s', async (state) => {
    const order = await forward();
    await leave(order.id, state);
    const answer = await replay(order, { accept_risk: true });
    expect([answer.status, answer.body.code]).toEqual([409, 'idempotency_in_progress']);
    expect(sentTo(order)).toHaveLength(1);
    await server.sql(`UPDATE forwards SET state = 'answered', claimed_until = NULL WHERE id = $1`, [order.id]);
  });

  test.each([
    ['has a security code', '{"cvc":"123"}'],
    ['has over 256 KB', `{"a":"${'a'.repeat(300_000)}"}`],
  ])('where the body %s', async (_, body) => {
    const order = await forward({ body });
    const answer = await replay(order);
    expect([answer.status, answer.body.detail]).toEqual([409, expect.stringContaining('256 KB')]);
  });

  test('after a day', async () => {
    const { id } = await forward();
    const old = `019a0000-0000-7000-8000-${id.slice(-12)}`;
    await server.sql('UPDATE forwards SET id = $2 WHERE id = $1', [id, old]);
    const answer = await replay({ id: old });
    expect([answer.status, answer.body.detail]).toEqual([409, expect.stringContaining('day')]);
  });

  test('without the permissions that it needs today', async () => {
    const order = await forward();
    const other = await makeProxy(server, { destination_url: other_url });
    const ask = async (permissions: string[], json = {}) => {
      const { key } = await makeApplication(server, { permissions, type: 'private' });
      const { status, body } = await replay(order, json, { key });
      return [status, body.detail ?? body.state];
    };
    expect(await ask(['token:use', 'forward:read'])).toEqual([403, expect.stringContaining('forward:replay')]);
    expect(await ask(['forward:replay'])).toEqual([403, expect.stringContaining('token:use')]);
    const own = ['forward:replay', 'token:use'];
    expect(await ask(own, { proxy_id: other.id })).toEqual([403, expect.stringContaining('proxy:read')]);
    expect(await ask(own)).toEqual([201, 'answered']);
  });

  test('where a rule or a bound of now lets the value go nowhere', async () => {
    const token = await tokenOf(server, CARD, { type: 'card' });
    const order = await forward({ token });
    const rules = [{ priority: 1, container: '/elsewhere/', transform: 'reveal', permissions: ['token:use'] }];
    const { key } = await makeApplication(server, { permissions: ['forward:replay'], rules, type: 'private' });
    expect((await replay(order, {}, { key })).status).toBe(403);
    await server.request('PATCH', `/tokens/${token}`, {
      json: { bound_to: { hosts: ['other.upstream.test'] } },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    const bound = await replay(order);
    expect([bound.status, Object.keys(bound.body.errors)]).toEqual([403, ['bound_to.hosts']]);
    await remove(server, `/tokens/${token}`);
    expect((await replay(order)).status).toBe(400);
    expect(sentTo(order)).toHaveLength(1);
  });

  test.each([{ proxy_id: 'x' }, { accept_risk: 'yes' }, { url: 'https://other.test' }, { headers: {} }])(
    'with a body such as %j',
    async (json) => {
      expect((await replay(await forward(), json)).status).toBe(400);
    },
  );

  test('through a proxy that is not there', async () => {
    const order = await forward();
    expect((await replay(order, { proxy_id: randomUUID() })).status).toBe(404);
    const gone = await makeProxy(server, { destination_url });
    const own = await forward({ to: { 'svc-proxy-key': gone.key } });
    await remove(server, `/proxies/${gone.id}`);
    expect((await replay(own)).status).toBe(404);
  });
});
