// Requests through stored proxies: the key, the caller, allowed destinations, log rows, and how soon a change applies.
// proxies.test.ts creates and changes them; proxy-transforms.test.ts runs their code.
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { certificateFor, selfSignedCertificateFor, testCa } from './support/certificates.ts';
import { proxyErrorOf } from './support/proxy.ts';
import { type ReactorServer, startReactorServer, tokenOf, usesOf, withoutLog } from './support/reactors.ts';
import { type Answer, startServerBefore, type TestServer, type TestTenant, upstreamOn } from './support/server.ts';
import {
  askOnWire,
  askProxy,
  changeProxy,
  makeApplication,
  makeProxy,
  problemIn,
  remove,
  type StoredProxy,
} from './support/stored-proxies.ts';
import { type Received, startUpstream, type Upstream } from './support/upstream.ts';

let fixture: ReactorServer;
let server: TestServer;
let otherTenant: TestTenant;
/** Where names lead that are not the destination's own. */
const addresses = new Map<string, string[]>();

beforeAll(async () => {
  // Anonymous clients fail here more often than the limit of an address allows.
  fixture = await startReactorServer({ RATE_LIMIT: 'off' }, (host) => Promise.resolve(addresses.get(host) ?? []));
  ({ server } = fixture);
  otherTenant = await server.newTenant();
});
afterAll(() => fixture.close());

const UNKNOWN_KEY = 'Zz0'.repeat(11).slice(0, 32);
const CARD = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' };

const make = (wanted: object = {}, key?: string): Promise<StoredProxy> =>
  makeProxy(server, { destination_url: fixture.url, ...wanted }, key);

const last = (): Received => fixture.upstream.received.at(-1) as Received;

/** What reached the destination meanwhile. */
const reaching = async (work: () => Promise<unknown>): Promise<Received[]> => {
  const from = fixture.upstream.received.length;
  await work();
  return fixture.upstream.received.slice(from);
};

/** The response without its random parts. */
const bytesOf = ({ status, headers, text }: Answer) => {
  const { 'svc-trace-id': traceId, ...result } = Object.fromEntries(headers);
  return { status, headers: { ...result, date: '' }, text: text.replaceAll(traceId ?? '', 'TRACE') };
};

describe('the key of a proxy', () => {
  test('leads to its destination, in the header and in the query, and goes no further', async () => {
    const { key } = await make({ destination_url: `${fixture.url}/base` });
    const json = { a: 1 };
    const asks: [path: string, headers: Record<string, string>][] = [
      ['/proxy/x?a=1', { 'svc-proxy-key': key }],
      ['/proxy/x?a=1', { 'SVC-PROXY-KEY': key }],
      [`/proxy/x?a=1&svc-proxy-key=${key}`, {}],
      [`/proxy/x?svc-proxy-key=${key}&a=1`, {}],
      [`/proxy/x?SVC-Proxy-Key=${key}&a=1`, {}],
      [`/proxy/x?a=1&svc%2Dproxy%2Dkey=${key}`, {}],
      [`/proxy/x?a=1&svc-proxy-key=${key}&svc-proxy-key=${key}`, {}],
      [`/proxy/x?a=1&svc-proxy-key=${key}`, { 'svc-proxy-key': key }],
    ];
    for (const [path, headers] of asks) {
      const answer = await server.request('POST', path, { json, headers });
      expect(answer.status, answer.text).toBe(200);
      expect(answer.headers.get('svc-proxy-destination-status')).toBe('200');
      expect(last().url, path).toBe('/base/x?a=1');
      const result = JSON.stringify([last().headers, last().url, last().body.toString()]);
      expect(result).not.toContain(key);
      expect(result).not.toMatch(/svc-/i);
      expect(result).not.toContain(server.tenant.api_key);
    }
  });

  test('in the header and another in the query is a 400, and nothing is sent or logged', async () => {
    const [one, other] = [await make({ require_auth: false }), await make({ require_auth: false })];
    const asks: [path: string, key: string | undefined][] = [
      [`/proxy?svc-proxy-key=${other.key}`, one.key],
      [`/proxy?svc-proxy-key=${UNKNOWN_KEY}`, one.key],
      [`/proxy?svc-proxy-key=${one.key}`, UNKNOWN_KEY],
      [`/proxy?svc-proxy-key=`, one.key],
      [`/proxy?svc-proxy-key=${one.key}&svc-proxy-key=${other.key}`, undefined],
      [`/proxy?svc-proxy-key=${one.key}&SVC-PROXY-KEY=${one.key.toLowerCase()}`, undefined],
    ];
    const reached = await reaching(async () => {
      for (const [path, header] of asks)
        for (const key of [server.tenant.api_key, null]) {
          const headers: Record<string, string> = header === undefined ? {} : { 'svc-proxy-key': header };
          const { status, errors } = proxyErrorOf(await server.request('POST', path, { key, headers, json: {} }));
          expect([status, Object.keys(errors)], path).toEqual([400, ['SVC-PROXY-KEY']]);
        }
      const twice = await askOnWire(server, 'POST', '/proxy', { headers: { 'svc-proxy-key': [one.key, other.key] } });
      expect([twice.status, problemIn(twice).status]).toEqual([400, 400]);
    });
    expect(reached).toEqual([]);
    expect(await usesOf(server, one.id, other.id)).toEqual([]);
  });

  test('that is unknown, ended, malformed or another tenant’s is a 404, all alike to the byte', async () => {
    const ended = await make();
    await remove(server, `/proxies/${ended.id}`);
    const theirs = await make({}, otherTenant.api_key);
    const open = await make({ require_auth: false }, otherTenant.api_key);
    const keys = [UNKNOWN_KEY, ended.key, 'x', '-'.repeat(32), 'a'.repeat(8_000), theirs.key, open.key];
    const reached = await reaching(async () => {
      const result = [];
      for (const key of keys) result.push(bytesOf(await askProxy(server, { key }, { json: {} })));
      for (const key of [UNKNOWN_KEY, ended.key])
        result.push(bytesOf(await askProxy(server, { key }, { key: null, json: {} })));
      expect(result[0]).toMatchObject({ status: 404 });
      expect(new Set(result.map((each) => JSON.stringify(each))).size).toBe(1);
    });
    expect(reached).toEqual([]);
    expect(await usesOf(server, theirs.id, open.id)).toEqual([]);
  });

  test('is not one by its id, its digest or a part of it', async () => {
    const { id, key } = await make({ require_auth: false });
    const guesses = [id, key.slice(0, -1), `${key}x`, key.toLowerCase(), key.toUpperCase(), ` ${key.slice(1)}`];
    const reached = await reaching(async () => {
      for (const guess of guesses) {
        const path = `/proxy?svc-proxy-key=${encodeURIComponent(guess)}`;
        expect((await server.request('POST', path, { key: null })).status, guess).toBe(404);
      }
    });
    expect(reached).toEqual([]);
  });

  test('stands in no log line of the server', async () => {
    const { key } = await make({ require_auth: false });
    await askProxy(server, { key }, { key: null });
    await server.request('POST', `/proxy?svc-proxy-key=${key}`, { key: null });
    await server.request('POST', `/proxy?svc-proxy-key=${key}&svc-proxy-key=x`, { key: null });
    expect(server.logLines.join('')).not.toContain(key);
  });
});

describe('who acts', () => {
  const app = async (wanted: object) => {
    const { id, key } = await makeApplication(server, wanted);
    return { application: { id }, id, key };
  };

  test('without an API key no caller, if the proxy requires one: 401', async () => {
    const proxy = await make();
    const reached = await reaching(async () => {
      const answer = await askProxy(server, proxy, { key: null, json: {} });
      expect(proxyErrorOf(answer)).toMatchObject({ status: 401 });
      expect(answer.headers.get('www-authenticate')).toContain('SVC-API-KEY');
    });
    expect(reached).toEqual([]);
    expect(await usesOf(server, proxy.id)).toEqual([]);
  });

  test('an API key in SVC-PROXY-KEY is told apart, in header and query: 400', async () => {
    for (const [path, headers] of [
      ['/proxy/', { 'svc-proxy-key': server.tenant.api_key }],
      [`/proxy/?svc-proxy-key=${server.tenant.api_key}`, {}],
    ] as const) {
      const answer = await server.request('GET', path, { headers });
      expect(answer.status).toBe(400);
      expect(answer.text).toContain('An API key belongs into SVC-API-KEY');
      expect(answer.text).not.toContain(server.tenant.api_key);
    }
  });

  test('an API key that is none is a 401, though the proxy asks for none', async () => {
    const proxy = await make({ require_auth: false });
    const reached = await reaching(async () => {
      for (const key of ['x', `${server.tenant.api_key}x`, otherTenant.api_key.toLowerCase()])
        expect((await askProxy(server, proxy, { key })).status).toBe(401);
    });
    expect(reached).toEqual([]);
  });

  test('an API key without token:use is a 403, though the proxy asks for none', async () => {
    const proxy = await make({ require_auth: false });
    const weak = await server.newKey(server.tenant, { permissions: ['token:read', 'proxy:read'] });
    expect(await reaching(() => askProxy(server, proxy, { key: weak.api_key }))).toEqual([]);
    expect((await askProxy(server, proxy, { key: weak.api_key })).status).toBe(403);
  });

  test('no caller, without key and application: requests without expressions pass and are logged', async () => {
    const proxy = await make({ require_auth: false });
    const answer = await askProxy(server, proxy, { key: null, json: { plain: true } });
    expect(answer.status, answer.text).toBe(200);
    expect(JSON.parse(last().body.toString())).toEqual({ plain: true });
    expect(await usesOf(server, proxy.id)).toEqual([{ actor_id: null, entity_type: 'proxy', entity_ids: [proxy.id] }]);
  });

  test('no anonymous client can use a token or learn which tokens exist', async () => {
    const proxy = await make({ require_auth: false });
    const known = await tokenOf(server, 'value');
    const theirs = await tokenOf(server, 'value', {}, otherTenant.api_key);
    const reached = await reaching(async () => {
      const result = [];
      for (const id of [known, crypto.randomUUID(), theirs, 'not-a-token']) {
        const inPlaces = [
          { json: { a: `{{ ${id} }}` } },
          { path: `/proxy/${encodeURIComponent(`{{ ${id} }}`)}` },
          { path: `/proxy?a=${encodeURIComponent(`{{ ${id} }}`)}` },
          { headers: { 'x-value': `{{ ${id} }}` } },
        ];
        for (const options of inPlaces) result.push(bytesOf(await askProxy(server, proxy, { key: null, ...options })));
      }
      expect(result[0]).toMatchObject({ status: 403 });
      expect(new Set(result.map((each) => JSON.stringify(each))).size).toBe(1);
    });
    expect(reached).toEqual([]);
    expect(await usesOf(server, proxy.id, known, theirs)).toEqual([]);
  });

  test('the application of an open proxy, with its rights and no others', async () => {
    const { application, id } = await app({
      rules: [{ priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:use'] }],
    });
    const proxy = await make({ require_auth: false, application });
    const card = await tokenOf(server, CARD, { type: 'card' });
    const other = await tokenOf(server, 'value');
    const answer = await askProxy(server, proxy, { key: null, json: { card: `{{ ${card} }}` } });
    expect(answer.status, answer.text).toBe(200);
    expect(JSON.parse(last().body.toString())).toEqual({ card: CARD });
    const reached = await reaching(async () => {
      const both = { a: `{{ ${card} }}`, b: `{{ ${other} }}` };
      expect(proxyErrorOf(await askProxy(server, proxy, { key: null, json: both }))).toMatchObject({ status: 403 });
    });
    expect(reached).toEqual([]);
    const uses = await usesOf(server, proxy.id, card, other);
    expect(uses).toHaveLength(2);
    expect(uses).toContainEqual({ actor_id: id, entity_type: 'card', entity_ids: [card] });
    expect(uses).toContainEqual({ actor_id: id, entity_type: 'proxy', entity_ids: [proxy.id] });
  });

  test('the application of an open proxy, which gets as much as its rules show', async () => {
    const { application } = await app({
      rules: [{ priority: 1, container: '/', transform: 'mask', permissions: ['token:use'] }],
    });
    const proxy = await make({ require_auth: false, application });
    const card = await tokenOf(server, CARD, { type: 'card' });
    const json = { number: `{{ ${card} | json: '$.number' }}` };
    expect((await askProxy(server, proxy, { key: null, json })).status).toBe(200);
    expect(JSON.parse(last().body.toString())).toEqual({ number: 'XXXXXXXXXXXX4242' });
  });

  test('an application without token:use opens nothing: 403', async () => {
    const { application } = await app({ permissions: ['token:read', 'token:create'] });
    const proxy = await make({ require_auth: false, application });
    const id = await tokenOf(server, 'value');
    const reached = await reaching(async () => {
      for (const each of [id, crypto.randomUUID()]) {
        const answer = await askProxy(server, proxy, { key: null, json: { a: `{{ ${each} }}` } });
        expect(proxyErrorOf(answer)).toMatchObject({ status: 403, detail: expect.stringContaining('token:use') });
      }
    });
    expect(reached).toEqual([]);
    expect(await usesOf(server, proxy.id, id)).toEqual([]);
  });

  test('tokens of another tenant are unknown to the application of a proxy', async () => {
    const { application } = await app({ permissions: ['token:use'] });
    const proxy = await make({ require_auth: false, application });
    const theirs = await tokenOf(server, 'value', {}, otherTenant.api_key);
    const unknown = crypto.randomUUID();
    const reached = await reaching(async () => {
      const result = [];
      for (const id of [theirs, unknown]) {
        const { status, text } = await askProxy(server, proxy, {
          key: null,
          json: { a: `{{ ${id} }}` },
          headers: { 'svc-trace-id': 'trace' },
        });
        result.push({ status, text: text.replaceAll(id, 'ID') });
      }
      expect(result[0]).toMatchObject({ status: 400 });
      expect(result[0]).toEqual(result[1]);
    });
    expect(reached).toEqual([]);
    expect(await usesOf(server, theirs)).toEqual([]);
  });

  test("the application of the API key, with its own permissions, not the proxy's", async () => {
    const strong = await app({ permissions: ['token:use'] });
    const weak = await app({
      rules: [{ priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:use'] }],
    });
    const id = await tokenOf(server, 'value');
    for (const require_auth of [true, false]) {
      const proxy = await make({ require_auth, application: strong.application });
      const reached = await reaching(async () => {
        const answer = await askProxy(server, proxy, { key: weak.key, json: { a: `{{ ${id} }}` } });
        expect(proxyErrorOf(answer)).toMatchObject({ status: 403 });
      });
      expect(reached).toEqual([]);
      expect((await askProxy(server, proxy, { key: weak.key, json: {} })).status).toBe(200);
      expect((await usesOf(server, proxy.id)).map(({ actor_id }) => actor_id)).toEqual([weak.id]);
    }
  });

  test('what the application may not any more is refused with the next request', async () => {
    const { application, id } = await app({ permissions: ['token:use'] });
    const proxy = await make({ require_auth: false, application });
    const json = { a: `{{ ${await tokenOf(server, 'value')} }}` };
    expect((await askProxy(server, proxy, { key: null, json })).status).toBe(200);
    const change = { json: { name: 'Application', permissions: ['token:read'] } };
    expect((await server.request('PUT', `/applications/${id}`, change)).status).toBe(200);
    const reached = await reaching(async () =>
      expect((await askProxy(server, proxy, { key: null, json })).status).toBe(403),
    );
    expect(reached).toEqual([]);
  });

  test('an application that is gone leaves the proxy without one, with the next request', async () => {
    const { application, id } = await app({ permissions: ['token:use'] });
    const proxy = await make({ require_auth: false, application });
    const json = { a: `{{ ${await tokenOf(server, 'value')} }}` };
    expect((await askProxy(server, proxy, { key: null, json })).status).toBe(200);
    await remove(server, `/applications/${id}`);
    expect((await askProxy(server, proxy, { key: null, json })).status).toBe(403);
    expect((await askProxy(server, proxy, { key: null, json: {} })).status).toBe(200);
  });

  test('a proxy that begins to ask for an API key does so with the next request', async () => {
    const proxy = await make({ require_auth: false });
    let isSwitched = false;
    let isOver = false;
    const result: { begunAfter: boolean; status: number }[] = [];
    const keepAsking = async (): Promise<void> => {
      while (!isOver) {
        const begunAfter = isSwitched;
        const { status } = await askProxy(server, proxy, { key: null, json: {} });
        result.push({ begunAfter, status });
      }
    };
    const asking = Array.from({ length: 8 }, keepAsking);
    while (result.length < 20) await new Promise(setImmediate);
    await changeProxy(server, proxy, { destination_url: fixture.url, require_auth: true });
    isSwitched = true;
    const before = result.length;
    while (result.length < before + 40) await new Promise(setImmediate);
    isOver = true;
    await Promise.all(asking);
    expect(new Set(result.filter(({ begunAfter }) => begunAfter).map(({ status }) => status))).toEqual(new Set([401]));
    expect(result.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(20);
    expect(result.every(({ status }) => status === 200 || status === 401)).toBe(true);
  });
});

describe('where it goes', () => {
  test.each([
    ['', '', '/'],
    ['', '/', '/'],
    ['', '/a', '/a'],
    ['', '/a/', '/a/'],
    ['', '?x=1', '/?x=1'],
    ['/', '/a', '/a'],
    ['/base', '', '/base'],
    ['/base', '/', '/base'],
    ['/base', '/a/b', '/base/a/b'],
    ['/base', '/a/b/', '/base/a/b/'],
    ['/base', '//a', '/base//a'],
    ['/base', '/a%2Fb%20c', '/base/a%2Fb%20c'],
    ['/base', '?x=1', '/base?x=1'],
    ['/base/', '', '/base/'],
    ['/base/', '/', '/base/'],
    ['/base/', '/a', '/base/a'],
    ['/base//', '/a', '/base//a'],
    ['/base?k=1', '', '/base?k=1'],
    ['/base?k=1', '/a', '/base/a?k=1'],
    ['/base?k=1', '/a?x=1&y', '/base/a?k=1&x=1&y'],
    ['/base?k=1', '?k=2', '/base?k=1&k=2'],
    ['?k=1', '/a', '/a?k=1'],
    ['/base', '/a?', '/base/a?'],
    ['/base', '/a?x=%26&x=+&=&&', '/base/a?x=%26&x=+&=&&'],
    ['/base', '/a?u=https://evil.test/', '/base/a?u=https://evil.test/'],
  ])('the path %j of a proxy, and %j behind /proxy, are %j', async (base, asked, reached) => {
    const proxy = await make({ destination_url: fixture.url + base });
    const headers = { 'svc-proxy-key': proxy.key };
    const result = await askOnWire(server, 'GET', `/proxy${asked}`, { headers });
    expect(result.status, result.body.toString()).toBe(200);
    expect(last().url).toBe(reached);
  });

  test.each([
    '/..',
    '/../admin',
    '/a/../../admin',
    '/%2e%2e/admin',
    '/%2E%2e/admin',
    '/.%2e/admin',
    '/a/..%2f..%2fadmin',
    '/..%5cadmin',
    '/..;/admin',
    '/.',
    '/./a',
    '/%2e',
  ])('%s behind /proxy leads out of no path of a proxy: 400, and no use of it is logged', async (path) => {
    const proxy = await make({ destination_url: `${fixture.url}/base/deep` });
    const reached = await reaching(async () => {
      const result = await askOnWire(server, 'GET', `/proxy${path}`, { headers: { 'svc-proxy-key': proxy.key } });
      expect([result.status, problemIn(result).status]).toEqual([400, 400]);
    });
    expect(reached).toEqual([]);
    expect(await usesOf(server, proxy.id)).toEqual([]);
  });

  test('a token’s value in the path leads out of no path of a proxy', async () => {
    const proxy = await make({ destination_url: `${fixture.url}/base` });
    for (const value of ['..', '.', '../admin', '..\\admin', '%2e%2e']) {
      const id = await tokenOf(server, value);
      const reached = await reaching(() =>
        askOnWire(server, 'GET', `/proxy/${encodeURIComponent(`{{ ${id} }}`)}/x`, {
          headers: { 'svc-proxy-key': proxy.key },
        }),
      );
      for (const { url } of reached) expect(new URL(url, fixture.url).pathname).toMatch(/^\/base\/[^/]+\/x$/);
    }
  });

  test('a stored proxy wins over SVC-PROXY-URL', async () => {
    const proxy = await make({ destination_url: `${fixture.url}/stored` });
    for (const url of [`${fixture.otherUrl}/named`, 'http://127.0.0.1/', 'nonsense', '']) {
      const answer = await askProxy(server, proxy, { headers: { 'svc-proxy-url': url } });
      expect(answer.status, answer.text).toBe(200);
      expect([last().url, last().servername]).toEqual(['/stored', 'upstream.test']);
    }
  });

  test('neither key nor URL is a 400', async () => {
    const { status, errors } = proxyErrorOf(await server.request('POST', '/proxy', { json: {} }));
    expect([status, Object.keys(errors)]).toEqual([400, ['SVC-PROXY-URL']]);
    expect((await server.request('POST', '/proxy', { key: null, json: {} })).status).toBe(401);
  });

  test('a change is in force with the next request, and so is an end', async () => {
    const proxy = await make({ destination_url: `${fixture.url}/one` });
    await askProxy(server, proxy);
    expect(last().url).toBe('/one');
    await changeProxy(server, proxy, { destination_url: `${fixture.otherUrl}/two` });
    await askProxy(server, proxy);
    expect([last().url, last().servername]).toEqual(['/two', 'other.upstream.test']);
    await remove(server, `/proxies/${proxy.id}`);
    expect(await reaching(async () => expect((await askProxy(server, proxy)).status).toBe(404))).toEqual([]);
  });

  test('a tenant that is gone has no proxies, with the next request', async () => {
    const gone = await server.newTenant();
    const proxy = await make({ require_auth: false }, gone.api_key);
    expect((await askProxy(server, proxy, { key: null })).status).toBe(200);
    await remove(server, '/tenants/self', gone.api_key);
    const reached = await reaching(async () => {
      expect((await askProxy(server, proxy, { key: null })).status).toBe(404);
      expect((await askProxy(server, proxy, { key: gone.api_key })).status).toBe(401);
    });
    expect(reached).toEqual([]);
  });

  test('a name that was public at creation and is internal later is refused when it is used', async () => {
    const { port } = fixture.upstream;
    const inside = await make({ destination_url: `https://later.test:${port}` });
    const moving = await make({ destination_url: fixture.movingUrl });
    addresses.set('moving.upstream.test', ['127.0.0.1']);
    fixture.routes.set('/closing', (_, response) => void response.setHeader('connection', 'close').end());
    expect((await askProxy(server, moving, { path: '/proxy/closing' })).status).toBe(200);
    const connections = fixture.upstream.connectionCount();
    for (const address of ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', '::ffff:10.0.0.1']) {
      addresses.set('later.test', [address]);
      expect(proxyErrorOf(await askProxy(server, inside, { json: {} }))).toMatchObject({ status: 400 });
    }
    addresses.set('moving.upstream.test', ['169.254.169.254']);
    expect(proxyErrorOf(await askProxy(server, moving, { json: {} }))).toMatchObject({ status: 400 });
    expect(fixture.upstream.connectionCount()).toBe(connections);
  });
});

describe('hosts', () => {
  const narrowed = (...allowed_hosts: string[]) =>
    makeApplication(server, { permissions: ['token:use'], allowed_hosts });

  /** @returns the status, and whether the destination was reached. */
  const go = async (work: () => Promise<Answer>): Promise<[status: number, reached: number]> => {
    let status = 0;
    const reached = await reaching(async () => ({ status } = await work()));
    return [status, reached.length];
  };

  test('an application that is narrowed reaches no others, by either form of the proxy', async () => {
    const mine = await narrowed('other.upstream.test');
    const below = await narrowed('*.upstream.test');
    const proxy = await make();
    const other = await make({ destination_url: fixture.otherUrl });
    const byUrl = (url: string, key: string) =>
      go(() => server.request('POST', '/proxy', { key, headers: { 'svc-proxy-url': url }, json: {} }));
    const byKey = (of: StoredProxy, key: string) => go(() => askProxy(server, of, { key, json: {} }));
    for (const { key } of [mine, below]) {
      expect(await byUrl(fixture.otherUrl, key)).toEqual([200, 1]);
      expect(await byKey(other, key)).toEqual([200, 1]);
      expect(await byUrl(fixture.url, key)).toEqual([400, 0]);
      expect(await byKey(proxy, key)).toEqual([400, 0]);
    }
  });

  test('a forbidden host is refused before a token is looked up, and nothing is logged', async () => {
    const mine = await narrowed('other.upstream.test');
    const proxy = await make();
    const id = await tokenOf(server, 'value');
    for (const each of [id, crypto.randomUUID()]) {
      const answer = await askProxy(server, proxy, { key: mine.key, json: { a: `{{ ${each} }}` } });
      expect(proxyErrorOf(answer)).toMatchObject({
        status: 400,
        detail: 'The host of the destination is not allowed.',
      });
    }
    expect(await usesOf(server, proxy.id, id)).toEqual([]);
  });

  test('the application of an open proxy narrows it too', async () => {
    const mine = await narrowed('other.upstream.test');
    const application = { id: mine.id };
    const proxy = await make({ require_auth: false, application });
    const other = await make({ require_auth: false, application, destination_url: fixture.otherUrl });
    expect(await go(() => askProxy(server, proxy, { key: null }))).toEqual([400, 0]);
    expect(await go(() => askProxy(server, other, { key: null }))).toEqual([200, 1]);
  });

  test('both lists must cover the host, that of the proxy and that of who acts', async () => {
    const proxy = await make({ allowed_hosts: ['upstream.test'] });
    const [no, yes] = [await narrowed('other.upstream.test'), await narrowed('x.test', 'upstream.test')];
    expect(await go(() => askProxy(server, proxy))).toEqual([200, 1]);
    expect(await go(() => askProxy(server, proxy, { key: yes.key }))).toEqual([200, 1]);
    expect(await go(() => askProxy(server, proxy, { key: no.key }))).toEqual([400, 0]);
  });

  test('a list that is narrowed is in force with the next request', async () => {
    const { id, key } = await makeApplication(server, { permissions: ['token:use'] });
    const proxy = await make();
    expect(await go(() => askProxy(server, proxy, { key }))).toEqual([200, 1]);
    const json = { name: 'Application', permissions: ['token:use'], allowed_hosts: ['x.test'] };
    expect((await server.request('PUT', `/applications/${id}`, { json })).status).toBe(200);
    expect(await go(() => askProxy(server, proxy, { key }))).toEqual([400, 0]);
  });
});

describe('the log', () => {
  test('has a row of the proxy for each request, beside those of the tokens', async () => {
    const proxy = await make();
    const id = await tokenOf(server, 'value');
    const actor_id = server.tenant.application_id;
    await askProxy(server, proxy, { json: {} });
    await askProxy(server, proxy, { json: { a: `{{ ${id} }}` } });
    const ofProxy = { actor_id, entity_type: 'proxy', entity_ids: [proxy.id] };
    const uses = await usesOf(server, proxy.id, id);
    expect(uses).toHaveLength(3);
    expect(uses.filter(({ entity_type }) => entity_type === 'proxy')).toEqual([ofProxy, ofProxy]);
    expect(uses).toContainEqual({ actor_id, entity_type: 'token', entity_ids: [id] });
  });

  test('has it though the destination fails, and not where nothing was to be sent', async () => {
    const proxy = await make({ destination_url: 'https://nowhere.test/' });
    expect((await askProxy(server, proxy)).status).toBe(502);
    expect(await usesOf(server, proxy.id)).toHaveLength(1);
    expect((await askProxy(server, proxy, { json: { a: '{{ unknown-token }}' } })).status).toBe(400);
    expect(await usesOf(server, proxy.id)).toHaveLength(1);
  });

  test('that cannot be written is a 503, and nothing is sent, with a token or without one', async () => {
    const open = await make({ require_auth: false });
    const proxy = await make({
      request_transform: { code: 'module.exports = async ({ args }) => ({ body: args.body, headers: args.headers });' },
    });
    const id = await tokenOf(server, 'value');
    const reached = await reaching(() =>
      withoutLog(server, async () => {
        const asks = [
          () => askProxy(server, proxy, { json: {} }),
          () => askProxy(server, proxy, { json: { a: `{{ ${id} }}` } }),
          () => askProxy(server, open, { key: null, json: {} }),
        ];
        for (const ask of asks) {
          const answer = await ask();
          expect(proxyErrorOf(answer)).toMatchObject({ status: 503 });
          expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
        }
      }),
    );
    expect(reached).toEqual([]);
    expect((await askProxy(server, proxy, { json: {} })).status).toBe(200);
  });
});

describe('a destination that asks for a certificate', () => {
  /** Answers with what it was shown. */
  let strict: Upstream;
  let own: TestServer;
  let url: string;
  const shown = certificateFor('client.test');
  const other = certificateFor('other-client.test');

  const storedWith = (pair: { cert: string; key: string } | undefined, more: object = {}, key?: string) =>
    makeProxy(
      own,
      {
        destination_url: url,
        ...more,
        ...(pair && { client_certificate: { certificate: pair.cert, private_key: pair.key } }),
      },
      key,
    );

  const seen = async (proxy: StoredProxy, key?: string) => {
    const { status, body } = await askProxy(own, proxy, { json: { a: 1 }, ...(key !== undefined && { key }) });
    return status === 200 ? body.names : status;
  };

  beforeAll(async () => {
    strict = await startUpstream({
      hosts: ['strict.test'],
      tls: { requestCert: true, rejectUnauthorized: true, ca: [testCa] },
      answer: (request, response) => {
        const { subjectaltname } = (request.socket as TLSSocket).getPeerCertificate();
        response.setHeader('content-type', 'application/json').end(JSON.stringify({ names: subjectaltname }));
      },
    });
    own = await startServerBefore({ 'strict.test': strict.port });
    url = `https://strict.test:${strict.port}`;
  });
  afterAll(async () => {
    await own.close();
    await strict.close();
  });

  test('gets that of the proxy, and of no other', async () => {
    const [one, two] = [await storedWith(shown), await storedWith(other)];
    const none = await storedWith(undefined);
    const theirs = await own.newTenant();
    const foreign = await storedWith(undefined, {}, theirs.api_key);
    for (let round = 0; round < 2; round += 1) {
      expect(await seen(one)).toBe('DNS:client.test');
      expect(await seen(none)).toBe(502);
      expect(await seen(two)).toBe('DNS:other-client.test');
      expect(await seen(foreign, theirs.api_key)).toBe(502);
    }
    const named = await own.request('POST', '/proxy', { headers: { 'svc-proxy-url': url }, json: {} });
    expect(proxyErrorOf(named)).toMatchObject({ status: 502 });
  });

  test('gets the new one with the next request, and none where it was taken away', async () => {
    const proxy = await storedWith(shown);
    expect(await seen(proxy)).toBe('DNS:client.test');
    await changeProxy(own, proxy, { destination_url: url });
    expect(await seen(proxy)).toBe('DNS:client.test');
    const client_certificate = { certificate: other.cert, private_key: other.key };
    await changeProxy(own, proxy, { destination_url: url, client_certificate });
    expect(await seen(proxy)).toBe('DNS:other-client.test');
    await changeProxy(own, proxy, { destination_url: url, client_certificate: null });
    expect(await seen(proxy)).toBe(502);
  });

  test('and does not trust ours gets nothing of the request', async () => {
    const proxy = await storedWith(selfSignedCertificateFor('client.test'));
    const before = strict.received.length;
    expect(await seen(proxy)).toBe(502);
    expect(strict.received).toHaveLength(before);
  });

  test('is shown it for requests of the proxy, and not for those of its code', async () => {
    const code = `module.exports = async ({ args, configuration, svc }) => {
      const outcome = await fetch(configuration.URL).then(({ status }) => status, ({ cause }) => cause.code);
      const proxied = await svc.proxy.post({ headers: { 'svc-proxy-url': configuration.URL }, body: {} }).catch(({ status }) => ({ status }));
      return { body: [outcome, proxied.status, args.body.names], headers: {} };
    };`;
    const { id } = await makeApplication(own, { permissions: ['token:use'] });
    const more = { response_transform: { code }, configuration: { URL: url }, application: { id } };
    const answer = await askProxy(own, await storedWith(shown, more), { json: {} });
    const [fetched, ...rest] = answer.body;
    // With TLS 1.3 a destination refuses us when we are done already.
    expect(['TLS', 'RESET']).toContain(fetched);
    expect(rest).toEqual([502, 'DNS:client.test']);
  });

  test('is shown no key by anybody: not in an answer, not in a log line, not to code', async () => {
    const code = 'module.exports = async (req) => ({ body: JSON.stringify(req), headers: {} });';
    const proxy = await storedWith(shown, { response_transform: { code } });
    const answer = await askProxy(own, proxy, { json: {} });
    expect(answer.status, answer.text).toBe(200);
    const secret = shown.key.split('\n')[1] as string;
    expect(answer.text).not.toContain(secret);
    expect(own.logLines.join('')).not.toContain(secret);
  });
});

describe('a row that was changed by another hand', () => {
  const alarms = () => server.logLines.filter((line) => line.includes('"alarm":"seal_broken"')).length;

  test('leads nowhere: what was sealed for one proxy opens for no other', async () => {
    const [one, other] = [await make({ require_auth: false }), await make({ destination_url: `${fixture.url}/other` })];
    await server.sql('UPDATE proxies SET sealed = (SELECT sealed FROM proxies WHERE id = $2) WHERE id = $1', [
      one.id,
      other.id,
    ]);
    // As if its row were signed: the seal alone refuses it.
    await server.sign(server.tenant.tenant_id);
    server.ctx.changes.announce('anything');
    const before = alarms();
    const reached = await reaching(async () => {
      for (const key of [null, server.tenant.api_key])
        expect(proxyErrorOf(await askProxy(server, one, { key, json: {} }))).toMatchObject({ status: 500 });
    });
    expect(reached).toEqual([]);
    expect(alarms()).toBeGreaterThan(before);
  });

  test('leads nowhere: the key of one proxy finds no other, of its tenant or of another', async () => {
    const others = [await make(), await make({}, otherTenant.api_key)];
    for (const other of others) {
      const one = await make({ require_auth: false });
      await server.sql(
        `UPDATE proxy_keys SET (tenant_id, proxy_id) = (SELECT tenant_id, id FROM proxies WHERE id = $2) WHERE proxy_id = $1`,
        [one.id, other.id],
      );
      server.ctx.changes.announce('anything');
      const before = alarms();
      const reached = await reaching(async () =>
        expect((await askProxy(server, one, { key: null, json: {} })).status).toBe(404),
      );
      expect(reached).toEqual([]);
      expect(alarms()).toBeGreaterThan(before);
    }
  });
});

describe('two servers of one vault', () => {
  let other: TestServer;
  beforeAll(async () => {
    other = await startServerBefore(upstreamOn(fixture.upstream.port), { DATABASE_URL: server.databaseUrl });
  });
  afterAll(() => other.close());

  /** What a request at the other server is answered, as soon as it is this; a notice takes its way, a second at most. */
  const soon = async (ask: () => Promise<Answer>, status: number): Promise<void> => {
    const endMs = performance.now() + 10_000;
    let result = await ask();
    while (result.status !== status && performance.now() < endMs) result = await ask();
    expect(result.status, result.text).toBe(status);
  };

  const askThere = (proxy: StoredProxy, options: Parameters<typeof askProxy>[2] = {}) =>
    askProxy(other, proxy, { key: null, json: {}, ...options });

  test('a proxy that one makes is used at the other', async () => {
    const proxy = await make({ require_auth: false });
    expect((await askThere(proxy)).status).toBe(200);
  });

  test('what one changes or ends holds at the other', async () => {
    const proxy = await make({ require_auth: false });
    expect((await askThere(proxy)).status).toBe(200);
    await changeProxy(server, proxy, { destination_url: fixture.url });
    await soon(() => askThere(proxy), 401);
    await changeProxy(server, proxy, { destination_url: fixture.url, require_auth: false });
    await soon(() => askThere(proxy), 200);
    await remove(server, `/proxies/${proxy.id}`);
    await soon(() => askThere(proxy), 404);
  });

  test('an application that loses a right, or is ended, at one loses it at the other', async () => {
    const { id } = await makeApplication(server, { permissions: ['token:use'] });
    const proxy = await make({ require_auth: false, application: { id } });
    const json = { a: `{{ ${await tokenOf(server, 'value')} }}` };
    expect((await askThere(proxy, { json })).status).toBe(200);
    const change = { json: { name: 'Application', permissions: ['token:use'], allowed_hosts: ['x.test'] } };
    expect((await server.request('PUT', `/applications/${id}`, change)).status).toBe(200);
    await soon(() => askThere(proxy), 400);
    await remove(server, `/applications/${id}`);
    await soon(() => askThere(proxy), 200);
    expect((await askThere(proxy, { json })).status).toBe(403);
  });

  test('a client that guesses keys must wait, and a client with a valid key does not', async () => {
    const proxy = await make({ require_auth: false });
    const guess = () => askThere({ id: '', key: UNKNOWN_KEY });
    const result = [];
    for (let each = 0; each < 120; each += 1) result.push(await guess());
    expect(result[0]?.status).toBe(404);
    const refused = result.at(-1) as Answer;
    expect(proxyErrorOf(refused)).toMatchObject({ status: 429 });
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
    expect((await askThere(proxy)).status).toBe(200);
    expect((await askThere(proxy, { key: server.tenant.api_key })).status).toBe(200);
  });
});
