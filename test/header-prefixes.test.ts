// A further prefix of the API's headers: what it means in requests, responses, CORS and the document, and what it never does.
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ConfigError, loadConfig } from '../src/platform/config/config.ts';
import { type Answer, type SharedServer, startServerBefore, type TestServer, useServer } from './support/server.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

let upstream: Upstream;
let server: TestServer;
let plain: SharedServer;

beforeAll(async () => {
  const answer = (_: unknown, response: import('node:http').ServerResponse, { body }: { body: Buffer }): void => {
    response.setHeader('BT-API-KEY', 'of the destination');
    response.end(body);
  };
  upstream = await startUpstream({ answer });
  server = await startServerBefore({ 'upstream.test': upstream.port }, { API_HEADER_PREFIXES: 'SVC,BT' });
  plain = await useServer();
});
afterAll(async () => {
  await server.close();
  await upstream.close();
});

type Sent = { headers?: Record<string, string>; json?: unknown };

/** A request without headers of the API but those that are given. */
const ask = (method: string, path: string, { headers = {}, json }: Sent = {}): Promise<Answer> =>
  server.request(method, path, { key: null, headers, ...(json !== undefined && { json }) });

const withKey = (headers: Record<string, string> = {}) => ({ 'BT-API-KEY': server.tenant.api_key, ...headers });

const fieldsOf = ({ status, body }: Answer) => [status, Object.keys((body.proxy_error ?? body).errors ?? {})];

describe('a request', () => {
  test('authenticates, is idempotent and is traced by the further prefix', async () => {
    const headers = withKey({ 'BT-IDEMPOTENCY-KEY': crypto.randomUUID(), 'BT-TRACE-ID': 'mine' });
    const create = () => ask('POST', '/tokens', { headers, json: { data: 'x' } });
    const [first, second] = [await create(), await create()];
    expect([first.status, second.body.id], first.text).toEqual([201, first.body.id]);
    const named = ['trace-id', 'idempotent-replayed'].map((name) =>
      ['svc', 'bt'].map((prefix) => second.headers.get(`${prefix}-${name}`)),
    );
    expect(named).toEqual([
      ['mine', 'mine'],
      ['true', 'true'],
    ]);
  });

  test('by SVC alone is answered by SVC alone', async () => {
    const answer = await server.request('GET', '/applications/key');
    expect([answer.status, answer.headers.get('bt-trace-id')]).toEqual([200, null]);
  });

  test('that fails names its trace by the prefix, too', async () => {
    const answer = await ask('GET', '/applications/key', { headers: { 'BT-API-KEY': 'x', 'BT-TRACE-ID': 'mine' } });
    expect([answer.status, answer.headers.get('bt-trace-id'), answer.body.trace_id]).toEqual([401, 'mine', 'mine']);
  });

  test('with two values under two prefixes is a 400 that names the header, and stores nothing', async () => {
    const id = crypto.randomUUID();
    const headers = withKey({ 'SVC-IDEMPOTENCY-KEY': 'one', 'BT-IDEMPOTENCY-KEY': 'two' });
    const answer = await ask('POST', '/tokens', { headers, json: { id, data: 'x' } });
    expect(answer.status).toBe(400);
    expect(answer.body.errors).toEqual({
      'headers.svc-idempotency-key': ['must have one value, under SVC-IDEMPOTENCY-KEY or BT-IDEMPOTENCY-KEY'],
    });
    expect((await server.request('GET', `/tokens/${id}`)).status).toBe(404);
    const other = await ask('GET', '/proxy', { headers: withKey({ 'SVC-API-KEY': 'other' }) });
    expect(fieldsOf(other)).toEqual([400, ['headers.svc-api-key']]);
  });

  test('with one value under two prefixes is one request', async () => {
    const headers = withKey({ 'SVC-API-KEY': server.tenant.api_key });
    expect((await ask('GET', '/applications/key', { headers })).status).toBe(200);
  });
});

test('an API key under a prefix that is not read is a 401 that names the setting', async () => {
  const { status, body } = await plain.request('GET', '/applications/key', {
    key: null,
    headers: { 'BT-API-KEY': 'x' },
  });
  expect([status, body.code, body.detail]).toEqual([
    401,
    'misplaced_key',
    'The API key belongs in the header SVC-API-KEY, not BT-API-KEY. A server with the setting API_HEADER_PREFIXES=SVC,BT takes that header, too.',
  ]);
});

describe('an idempotency key under a prefix that is not read', () => {
  test('is a 400 that says so, and nothing is stored', async () => {
    for (const name of ['BT-IDEMPOTENCY-KEY', 'X-Idempotency-Key']) {
      const id = crypto.randomUUID();
      const answer = await plain.request('POST', '/tokens', { headers: { [name]: 'k' }, json: { id, data: 'x' } });
      expect([answer.status, answer.body.errors[name.toUpperCase()]?.[0]]).toEqual([
        400,
        expect.stringContaining('API_HEADER_PREFIXES'),
      ]);
      expect((await plain.request('GET', `/tokens/${id}`)).status).toBe(404);
    }
  });

  test('is for the destination under /proxy', async () => {
    const headers = withKey({ 'BT-PROXY-URL': `https://upstream.test:${upstream.port}`, 'X-Idempotency-Key': 'k' });
    expect((await ask('POST', '/proxy', { headers, json: {} })).status).toBe(200);
    expect(upstream.received.at(-1)?.headers).toContainEqual(['X-Idempotency-Key', 'k']);
  });
});

/** The names of headers that the destination received last and that are of the API. */
const ownHeaders = (): string[] =>
  (upstream.received.at(-1)?.headers ?? []).map(([name]) => name).filter((name) => /^(?:svc|bt)-/i.test(name));

describe('the proxy', () => {
  const url = () => `https://upstream.test:${upstream.port}/base`;

  test('is addressed by the prefix, and forwards none of its headers in either direction', async () => {
    const headers = withKey({ 'BT-PROXY-URL': url(), 'BT-Anything': 'x', Other: 'y' });
    const answer = await ask('POST', '/proxy/a?b=c', { headers, json: {} });
    expect([answer.status, upstream.received.at(-1)?.url, ownHeaders()]).toEqual([200, '/base/a?b=c', []]);
    expect(upstream.received.at(-1)?.headers).toContainEqual(['Other', 'y']);
    expect([answer.headers.get('bt-api-key'), answer.headers.get('bt-proxy-destination-status')]).toEqual([
      null,
      '200',
    ]);
  });

  test('takes its key in the query by the prefix, and does not forward it', async () => {
    const json = { name: 'P', destination_url: url() };
    const { key } = (await server.request('POST', '/proxies', { json })).body;
    const answer = await ask('POST', `/proxy?bt-proxy-key=${key}&a=b`, { headers: withKey(), json: {} });
    expect([answer.status, upstream.received.at(-1)?.url]).toEqual([200, '/base?a=b']);
    const named = { name: 'P', destination_url: `${url()}?bt-proxy-key=x` };
    expect(fieldsOf(await server.request('POST', '/proxies', { json: named }))).toEqual([400, ['destination_url']]);
  });

  test('sends no header of the prefix that code sets', async () => {
    const code = `module.exports = async ({ args: { body, headers } }) => ({ body, headers: { ...headers, 'BT-API-KEY': 'x', 'x-kept': 'y' } });`;
    const json = { name: 'P', destination_url: url(), request_transform: { code } };
    const { key } = (await server.request('POST', '/proxies', { json })).body;
    const answer = await ask('POST', '/proxy', { headers: withKey({ 'BT-PROXY-KEY': key }), json: {} });
    expect([answer.status, ownHeaders()], answer.text).toEqual([200, []]);
    expect(upstream.received.at(-1)?.headers.map(([name]) => name)).toContain('x-kept');
  });

  test('refuses one of our keys in any header', async () => {
    const headers = withKey({ 'BT-PROXY-URL': url(), Authorization: `Bearer ${server.tenant.api_key}` });
    const before = upstream.received.length;
    expect(fieldsOf(await ask('POST', '/proxy', { headers, json: {} }))).toEqual([400, ['headers.Authorization']]);
    expect(upstream.received.length).toBe(before);
  });
});

test('no line of the log has a value of a header of the prefix', async () => {
  await ask('GET', '/applications/key', { headers: withKey({ 'BT-ANYTHING': 'canary-in-a-header' }) });
  const log = server.logLines.join('\n');
  expect([log.includes('canary-in-a-header'), log.includes(server.tenant.api_key)]).toEqual([false, false]);
});

test('a page may send and read the headers of each prefix', async () => {
  const json = { name: 'P', type: 'public', permissions: ['token:create'], allowed_origins: ['https://shop.example'] };
  const { key } = (await server.request('POST', '/applications', { json })).body;
  const origin = 'https://shop.example';
  const preflight = await ask('OPTIONS', '/tokens', { headers: { origin, 'access-control-request-method': 'POST' } });
  expect(preflight.headers.get('access-control-allow-headers')).toBe(
    'content-type, svc-api-key, bt-api-key, svc-idempotency-key, bt-idempotency-key, svc-trace-id, bt-trace-id',
  );
  const answer = await ask('POST', '/tokens', { headers: { origin, 'BT-API-KEY': key }, json: { data: 'x' } });
  expect([answer.status, answer.headers.get('access-control-expose-headers')]).toEqual([
    201,
    'retry-after, ratelimit, ratelimit-policy, svc-trace-id, bt-trace-id',
  ]);
});

test('the document names the prefix where the server has it, and nowhere else', async () => {
  const [document, committed] = [await ask('GET', '/openapi.json'), await plain.request('GET', '/openapi.json')];
  expect(document.body.components.securitySchemes.ApiKey.description).toContain('`BT-API-KEY`');
  expect(document.body.info.description).toContain('`BT-`');
  expect([document.text.includes('bt-proxy-key'), committed.text.includes('BT-')]).toEqual([true, false]);
});

test.each(['BT', 'SVC,X', 'SVC,bt', 'SVC,B', 'SVC,CONTENT', 'SVC,AA,BB,CC,DD'])('%s is no list of prefixes', (text) => {
  const load = () => loadConfig({ API_HEADER_PREFIXES: text, MASTER_KEY: Buffer.alloc(32).toString('base64') });
  expect(load).toThrow(ConfigError);
  expect(load).toThrow('API_HEADER_PREFIXES: must be SVC');
});

/** The least statements of a request of several: work of the background adds to some of them. */
const countStatements = async (request: () => Promise<Answer>): Promise<number> => {
  const { query } = Client.prototype;
  const counts: number[] = [];
  for (let times = 0; times < 5; times += 1) {
    let count = 0;
    Client.prototype.query = function counted(this: Client, ...given: unknown[]) {
      count += 1;
      return Reflect.apply(query, this, given);
    } as typeof query;
    try {
      expect((await request()).status).toBeLessThan(300);
    } finally {
      Client.prototype.query = query;
    }
    counts.push(count);
  }
  return Math.min(...counts);
};

test('a plain request has as many statements with one prefix as with two', async () => {
  const read = (each: SharedServer, id: string, headers?: Record<string, string>) =>
    countStatements(() => each.request('GET', `/tokens/${id}`, headers ? { key: null, headers } : {}));
  const create = (each: SharedServer, headers?: Record<string, string>) =>
    countStatements(() =>
      each.request('POST', '/tokens', { json: { data: 'x' }, ...(headers && { key: null, headers }) }),
    );
  const made = async (each: SharedServer) => (await each.request('POST', '/tokens', { json: { data: 'x' } })).body.id;
  expect([await read(plain, await made(plain)), await create(plain)]).toEqual([2, 1]);
  expect([await read(server, await made(server), withKey()), await create(server, withKey())]).toEqual([2, 1]);
});
