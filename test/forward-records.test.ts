// Records of requests of the proxy with an idempotency key: who reads what of them.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tokenOf } from './support/reactors.ts';
import { type Answer, type RequestOptions, type SharedServer, useEgressServer } from './support/server.ts';
import { makeApplication, makeProxy, remove, type StoredProxy } from './support/stored-proxies.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

const NUMBER = '5555555555554444';
const CARD = { number: NUMBER, expiration_month: 12, expiration_year: 2040, cvc: '739' };

let server: SharedServer;
let upstream: Upstream;
let proxy: StoredProxy;
let card: string;
let count = 0;

beforeAll(async () => {
  const egress = await useEgressServer();
  ({ server } = egress);
  upstream = await startUpstream({
    port: egress.port,
    answer: (_, response) => void response.writeHead(201, { 'x-charge': 'ch_1' }).end('{"charge":"ch_1"}'),
  });
  proxy = await makeProxy(server, { destination_url: `https://upstream.test:${upstream.port}` });
  card = await tokenOf(server, CARD, { type: 'card' });
});
afterAll(() => upstream.close());

/** @returns the id of its record. */
const forward = async (options: RequestOptions & { token?: string } = {}): Promise<string> => {
  count += 1;
  const { token = card, body = `{"number":"{{ ${token} | json: '$.number' }}"}`, headers, ...rest } = options;
  const answer = await server.request('POST', `/proxy/charges/${count}?a=b`, {
    ...rest,
    body,
    headers: {
      'svc-proxy-key': proxy.key,
      'svc-idempotency-key': `order-${count}`,
      'content-type': 'application/json',
      authorization: 'Bearer of-the-destination',
      ...headers,
    },
  });
  expect(answer.status, answer.text).toBe(201);
  return answer.headers.get('svc-forward-id') as string;
};

const read = (path: string, options: RequestOptions = {}): Promise<Answer> =>
  server.request('GET', `/forwards${path}`, options);

describe('a record', () => {
  test('says what became of a request, and has no body unless it is asked for', async () => {
    const id = await forward();
    const { status, body, text } = await read(`/${id}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      id,
      tenant_id: server.tenant.tenant_id,
      state: 'answered',
      method: 'POST',
      destination_host: `upstream.test:${upstream.port}`,
      proxy_id: proxy.id,
      token_ids: [card],
      status: 201,
      answer: 'kept',
      attempts: 1,
      actor_id: server.tenant.application_id,
    });
    expect([body.request, body.response]).toEqual([undefined, undefined]);
    expect(text).not.toContain('/charges');
  });

  test('has the request with expressions, the names of its headers, and the kept response', async () => {
    const id = await forward();
    const { body, text } = await read(`/${id}?include=bodies`);
    expect(body.request).toMatchObject({
      path: `/charges/${count}`,
      query: 'a=b',
      body: { text: `{"number":"{{ ${card} | json: '$.number' }}"}` },
      is_body_stored: true,
    });
    expect(body.request.header_names.map((name: string) => name.toLowerCase())).toContain('authorization');
    expect(body.response).toMatchObject({ status: 201, body: { text: '{"charge":"ch_1"}' } });
    expect(body.response.headers).toContainEqual({ name: 'x-charge', value: 'ch_1' });
    expect(text).not.toContain(NUMBER);
    expect(text).not.toContain('of-the-destination');
  });

  test('says that a body is not stored', async () => {
    const id = await forward({ body: '{"cvc":"123"}' });
    const { body } = await read(`/${id}?include=bodies`);
    expect(body.request).toMatchObject({ is_body_stored: false });
    expect(body.request.body).toBeUndefined();
  });

  test('has bytes that are no text in base64', async () => {
    const body = Buffer.from([0, 255]);
    const id = await forward({ body, headers: { 'content-type': 'application/octet-stream' } });
    expect((await read(`/${id}?include=bodies`)).body.request.body).toEqual({ base64: body.toString('base64') });
  });

  test('has no bodies after a day, also where the sweep is late', async () => {
    const id = await forward();
    const old = `019a0000-0000-7000-8000-${String(count).padStart(12, '0')}`;
    await server.sql('UPDATE forwards SET id = $2 WHERE id = $1', [id, old]);
    const { status, body } = await read(`/${old}?include=bodies`);
    expect([status, body.request, body.response]).toEqual([200, undefined, undefined]);
  });

  test('of a process that died says that its outcome is unknown', async () => {
    const id = await forward();
    await server.sql(
      `UPDATE forwards SET state = 'sent', answer = 'none', claimed_until = now() - interval '1 second' WHERE id = $1`,
      [id],
    );
    expect((await read(`/${id}`)).body.state).toBe('unknown');
  });

  test('whose row was moved to another id does not open', async () => {
    const [one, other] = [await forward(), await forward()];
    await server.sql('UPDATE forwards SET sealed = (SELECT sealed FROM forwards WHERE id = $2) WHERE id = $1', [
      one,
      other,
    ]);
    expect((await read(`/${one}?include=bodies`)).status).toBe(500);
    await server.sql('DELETE FROM forwards WHERE id = $1', [one]);
  });
});

describe('the kept response is shown', () => {
  const rule = (container: string, transform = 'reveal') => ({
    priority: 1,
    container,
    transform,
    permissions: ['token:use'],
  });
  const keyOf = async (application: object): Promise<string> =>
    (await makeApplication(server, { type: 'private', ...application })).key;

  test.each([
    ['to another application that may use the token', { permissions: ['forward:read', 'token:use'] }, true],
    ['to none that may not use tokens', { permissions: ['forward:read'] }, false],
    ['to none with another container', { permissions: ['forward:read'], rules: [rule('/elsewhere/')] }, false],
    ['to none that gets the mask alone', { permissions: ['forward:read'], rules: [rule('/', 'mask')] }, false],
  ])('%s', async (_, application, isShown) => {
    const id = await forward();
    const { status, body } = await read(`/${id}?include=bodies`, { key: await keyOf(application) });
    expect(status).toBe(200);
    expect(body.request.body.text).toContain(card);
    expect(body.response !== undefined).toBe(isShown);
  });

  test('to none when its token is gone', async () => {
    const token = await tokenOf(server, CARD, { type: 'card' });
    const id = await forward({ token });
    await remove(server, `/tokens/${token}`);
    expect((await read(`/${id}?include=bodies`)).body.response).toBeUndefined();
  });

  test('with rows of the log for its tokens', async () => {
    const id = await forward();
    await read(`/${id}?include=bodies`);
    const { body } = await server.request('GET', `/logs?entity_id=${id}`);
    expect(body.data).toMatchObject([{ entity_type: 'forward', operation: 'read', outcome: 'success' }]);
    const { body: ofCard } = await server.request('GET', `/logs?entity_id=${card}&outcome=replayed`);
    expect(ofCard.data.length).toBeGreaterThan(0);
  });
});

describe('a list', () => {
  test('has the newest first, by proxy, state and time, with a cursor', async () => {
    const own = await makeProxy(server, { destination_url: `https://upstream.test:${upstream.port}` });
    const ids: string[] = [];
    for (let each = 0; each < 3; each += 1) ids.unshift(await forward({ headers: { 'svc-proxy-key': own.key } }));
    const first = await read(`?proxy_id=${own.id}&size=2`);
    expect(first.body.pagination.total_items).toBe(3);
    expect(first.body.data.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 2));
    const next = await read(`?proxy_id=${own.id}&size=2&start=${first.body.pagination.next}`);
    expect(next.body.data.map(({ id }: { id: string }) => id)).toEqual(ids.slice(2));
    expect(next.body.pagination.next).toBeUndefined();
    expect((await read(`?proxy_id=${own.id}&state=failed`)).body.data).toEqual([]);
    expect((await read(`?proxy_id=${own.id}&state=answered`)).body.data).toHaveLength(3);
    expect((await read(`?proxy_id=${own.id}&start_date=2099-01-01`)).body.data).toEqual([]);
    expect(first.text).not.toContain('response');
  });

  test.each(['?state=gone', '?proxy_id=x', '?start=WyJ4Il0', '?start=x', '?start_date=never', '?sealed=1'])(
    'refuses %s',
    async (query) => {
      expect((await read(query)).status).toBe(400);
    },
  );
});
