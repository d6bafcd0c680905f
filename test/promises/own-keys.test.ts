// No caller sends an API key of a vault to a destination, and no row of the log holds what looks like a card number in a host.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { codeOf, makeReactor, react, type ReactorServer, startReactorServer } from '../support/reactors.ts';
import { askOnWire, makeProxy } from '../support/stored-proxies.ts';

const NUMBER = '4111117812343226';

let fixture: ReactorServer;
beforeAll(async () => {
  fixture = await startReactorServer();
});
afterAll(() => fixture.close());

/** Of every kind, and one whose checksum is wrong. */
const keys = (): string[] => [
  fixture.server.tenant.api_key,
  fixture.server.tenant.api_key.replace(/^svc_[a-z]+/, 'svc_live'),
  `svc_sess_${'a'.repeat(16)}_${'b'.repeat(39)}`,
];

type Sent = { path?: string; headers?: Record<string, string | string[]> };

const encoded = (text: string): string => text.replace(/_/g, '%5f').replace('svc', '%73vc');

const waysToSend: [string, (key: string) => Sent][] = [
  ['authorization', (key) => ({ headers: { authorization: `Bearer ${key}` } })],
  ['authorization of Basic', (key) => ({ headers: { authorization: `Basic ${btoa(`${key}:`)}` } })],
  ['x-api-key', (key) => ({ headers: { 'x-api-key': key } })],
  ['Base64 without a scheme', (key) => ({ headers: { 'x-api-key': btoa(key) } })],
  ['the second of two credentials', (key) => ({ headers: { authorization: `Bearer x, Basic ${btoa(`u:${key}`)}` } })],
  ['JSON in Base64 in a cookie', (key) => ({ headers: { cookie: `a=${btoa(JSON.stringify({ key }))}` } })],
  [
    'escapes of JSON',
    (key) => ({
      headers: { 'x-arg': `{"k":"\\u0${key.charCodeAt(0).toString(16).padStart(3, '0')}${key.slice(1)}"}` },
    }),
  ],
  ['three times percent-encoding', (key) => ({ path: `/proxy/own/${encoded(key).replaceAll('%', '%2525')}` })],
  ['a repeated header', (key) => ({ headers: { 'x-own': ['first', `key=${key}`] } })],
  ['a cookie', (key) => ({ headers: { cookie: `a=b; session=${key}; c=d` } })],
  ['a header in percent-encoding', (key) => ({ headers: { referer: `https://shop.test/?key=${encoded(key)}` } })],
  ['the name of a header', (key) => ({ headers: { [`x-${key}`]: 'yes' } })],
  ['the query', (key) => ({ path: `/proxy/own?api_key=${key}` })],
  ['the query, encoded', (key) => ({ path: `/proxy/own?api_key=${encoded(key)}` })],
  ['the query, encoded twice', (key) => ({ path: `/proxy/own?u=${encodeURIComponent(encoded(key))}` })],
  ['the name of a parameter', (key) => ({ path: `/proxy/own?${key}` })],
  ['the path', (key) => ({ path: `/proxy/own/${key}/charges` })],
  ['the path, encoded', (key) => ({ path: `/proxy/own/${encoded(key)}` })],
  ['the destination', (key) => ({ headers: { 'svc-proxy-url': `${fixture.url}/own?key=${key}` } })],
];

test.each(waysToSend)('a key in %s is a 400 that says so, and nothing is sent', async (_, way) => {
  const { key: proxyKey } = await makeProxy(fixture.server, { destination_url: fixture.url });
  for (const key of keys())
    for (const named of [{ 'svc-proxy-url': fixture.url }, { 'svc-proxy-key': proxyKey }] as Record<string, string>[]) {
      const { path = '/proxy/own', headers = {} } = way(key);
      if ('svc-proxy-url' in headers && 'svc-proxy-key' in named) continue;
      const before = fixture.upstream.received.length;
      const answer = await askOnWire(fixture.server, 'POST', path, { headers: { ...named, ...headers }, body: 'x' });
      const text = answer.body.toString();
      expect(answer.status, text).toBe(400);
      expect(text).toContain('must not hold an API key');
      expect(text).not.toContain(key.slice(-39));
      expect(fixture.upstream.received).toHaveLength(before);
    }
});

test.each([
  ['the query', (key: string) => `?key=${key}`],
  ['the name of a parameter', (key: string) => `?${key}`],
  ['the path', (key: string) => `/v1/${key}/charges`],
  ['the path, encoded', (key: string) => `/${encoded(key)}`],
])('a destination_url with a key in %s is not saved, and the proxy stays as it is', async (_, end) => {
  const stored = await makeProxy(fixture.server, { destination_url: fixture.url });
  const body = { name: 'p', destination_url: fixture.url };
  for (const key of keys())
    for (const [method, path, json] of [
      ['POST', '/proxies', { ...body, destination_url: fixture.url + end(key) }],
      ['PUT', `/proxies/${stored.id}`, { ...body, destination_url: fixture.url + end(key) }],
    ] as const) {
      const answer = await fixture.server.request(method, path, { json });
      expect(answer.status, answer.text).toBe(400);
      expect(answer.body.errors.destination_url).toEqual([expect.stringContaining('must not hold an API key')]);
      expect(answer.text).not.toContain(key.slice(-39));
    }
  const read = await fixture.server.request('GET', `/proxies/${stored.id}`);
  expect(read.body.destination_url).toBe(fixture.url);
});

test.each<[string, (key: string) => Sent]>(waysToSend.filter(([place]) => place !== 'the destination'))(
  'the key of the proxy itself in %s is a 400',
  async (_, way) => {
    const { key } = await makeProxy(fixture.server, { destination_url: fixture.url });
    const { path = '/proxy/own', headers = {} } = way(key);
    for (const inHeader of [true, false]) {
      const before = fixture.upstream.received.length;
      const to = inHeader ? path : `${path}${path.includes('?') ? '&' : '?'}svc-proxy-key=${key}`;
      const sent = { headers: { ...(inHeader && { 'svc-proxy-key': key }), ...headers }, body: 'x' };
      const answer = await askOnWire(fixture.server, 'POST', to, sent);
      expect(answer.status, answer.body.toString()).toBe(400);
      expect(answer.body.toString()).not.toContain(key);
      expect(fixture.upstream.received).toHaveLength(before);
    }
  },
);

test('a session leads no browser to a return_url with a key', async () => {
  for (const key of keys())
    for (const end of [`/?key=${key}`, `/${key}`, `/?u=${encodeURIComponent(encoded(key))}&k=${encoded(key)}`]) {
      const json = { allowed_origins: ['https://shop.test'], types: ['card'], return_url: `https://shop.test${end}` };
      const answer = await fixture.server.request('POST', '/sessions', { json });
      expect(answer.status, answer.text).toBe(400);
      expect(answer.body.errors.return_url).toEqual(['must not hold an API key of a vault']);
    }
});

test('configurations of stored proxies and reactors may hold the key of another vault', async () => {
  const [, key = ''] = keys();
  const code =
    'module.exports = async ({ args, configuration }) => ({ body: args.body, headers: { ...args.headers, authorization: `Bearer ${configuration.KEY}` } });';
  const proxy = await makeProxy(fixture.server, {
    destination_url: fixture.url,
    configuration: { KEY: key },
    request_transform: { code },
  });
  const answer = await fixture.server.request('POST', '/proxy/own', {
    headers: { 'svc-proxy-key': proxy.key },
    json: { amount: 1 },
  });
  expect(answer.status, answer.text).toBe(200);
  expect(answer.body.headers).toContainEqual(['authorization', `Bearer ${key}`]);
  const application = await fixture.server.newKey(fixture.server.tenant, { permissions: ['token:use'] });
  const reactor = await makeReactor(fixture.server, {
    code: codeOf(
      'return { raw: await svc.proxy.get({ headers: { "svc-proxy-url": args.url, "x-key": configuration.KEY } }) };',
    ),
    contract: [{ name: 'KEY', type: 'string' }],
    configuration: { KEY: key },
    application,
  });
  const run = await react(fixture.server, reactor, { url: fixture.url });
  expect(run.text).toContain(key);
});

test('a card number in a host is masked in the log, for every kind of sender', async () => {
  const hosts = [
    `${NUMBER}.upstream.test`,
    `${NUMBER.replace(/(\d{4})(?=\d)/g, '$1-')}.upstream.test`,
    '4111.1178.1234.3226.upstream.test',
  ];
  const reactor = await makeReactor(fixture.server, 'try { await fetch(args.url); } catch { } return { raw: 1 };');
  for (const host of hosts) {
    await fixture.server.request('GET', `/proxy/${NUMBER}?card=${NUMBER}`, {
      headers: { 'svc-proxy-url': `https://${host}/${NUMBER}` },
    });
    await react(fixture.server, reactor, { url: `https://${host}/${NUMBER}` });
  }
  // A row with the host as it was, which another writer of the database made.
  await fixture.server.sql(
    `INSERT INTO audit_log SELECT (jsonb_populate_record(l, jsonb_build_object('destination_host', $2::text, 'id', gen_random_uuid()))).*
       FROM audit_log l WHERE tenant_id = $1 AND destination_host IS NOT NULL LIMIT 1`,
    [fixture.server.tenant.tenant_id, `${NUMBER}.earlier.test`],
  );
  for (const accept of ['application/json', 'text/csv', 'application/x-ndjson']) {
    const log = await fixture.server.request('GET', '/logs?size=100', { headers: { accept } });
    expect(log.status, log.text).toBe(200);
    expect(log.text).toContain('XXXXXXXXXXXX3226.upstream.test');
    expect(log.text).toContain('XXXX-XXXX-XXXX-3226.upstream.test');
    expect(log.text).toContain('XXXX.XXXX.XXXX.3226.upstream.test');
    expect(log.text).toContain('XXXXXXXXXXXX3226.earlier.test');
    expect(log.text.replace(/[-.]/g, '')).not.toContain(NUMBER);
  }
  const kept = await fixture.server.sql(
    `SELECT destination_host FROM audit_log WHERE tenant_id = $1 AND destination_host LIKE '%upstream%'`,
    [fixture.server.tenant.tenant_id],
  );
  expect(kept.length).toBeGreaterThan(5);
  expect(JSON.stringify(kept).replace(/[-.]/g, '')).not.toContain(NUMBER);
});
