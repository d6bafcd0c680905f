// Behaviour of every route: problems, methods, trailing slashes, trace ids, API keys.
import { CALLER_CACHE_MS } from '../src/modules/access/caller-finder.ts';
import { METHODS } from 'node:http';
import { connect } from 'node:net';
import { Pool } from 'pg';
import { beforeAll, expect, test } from 'vitest';
import { type SharedServer, startServer, useServer } from './support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

test('a problem is RFC 9457 with the trace id of its response', async () => {
  const answer = await server.request('GET', '/tokens/unknown-token');
  expect(answer.status).toBe(404);
  expect(answer.headers.get('content-type')).toContain('application/problem+json');
  expect(answer.body).toEqual({
    title: 'Not Found',
    status: 404,
    code: 'not_found',
    detail: 'The token was not found.',
    trace_id: answer.headers.get('svc-trace-id'),
  });
});

test('an unknown path is a 404 that does not repeat it', async () => {
  const answer = await server.request('GET', '/nowhere?svc-proxy-key=secret');
  expect(answer.status).toBe(404);
  expect(answer.text).not.toContain('secret');
  expect(server.logLines.join('')).not.toContain('secret');
});

test('a method a path does not have is a 405 with Allow; OPTIONS answers 204', async () => {
  for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
    const answer = await server.request(method, '/tokenize');
    expect(answer.status, method).toBe(405);
    expect(answer.headers.get('allow')).toBe('POST, OPTIONS');
    expect(answer.body.status).toBe(405);
  }
  const options = await server.request('OPTIONS', '/tokens/abc');
  expect(options.status).toBe(204);
  expect(options.headers.get('allow')).toBe('GET, HEAD, PATCH, DELETE, OPTIONS');
});

/** Sends bytes on a connection of their own. @returns all that comes back before it ends. */
const exchange = (bytes: string, to = server): Promise<string> =>
  new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(Number(new URL(to.base_url).port), '127.0.0.1');
    socket.on('data', (piece) => (text += piece.toString()));
    socket.on('end', () => resolve(text));
    socket.on('error', reject);
    socket.write(bytes);
  });

test('any other method is a 405 with Allow on a path that exists, and a 404 on one that does not', async () => {
  const send = (method: string, path: string, more = '') =>
    exchange(`${method} ${path} HTTP/1.1\r\nHost: vault.test\r\nConnection: close\r\n${more}\r\n`);
  for (const method of METHODS) {
    if (['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS', 'CONNECT'].includes(method)) continue;
    const answer = await send(method, '/tokens/abc');
    expect(answer, method).toMatch(/^HTTP\/1\.1 405 /);
    expect(answer, method).toMatch(/^allow: GET, HEAD, PATCH, DELETE, OPTIONS\r$/im);
    expect(answer, method).toContain('application/problem+json');
  }
  expect(await send('QUERY', '/tokens', 'Content-Length: 2\r\nContent-Type: text/plain\r\n\r\nxx')).toMatch(
    /^HTTP\/1\.1 405 /,
  );
  for (const method of ['TRACE', 'QUERY', 'PROPFIND'])
    expect(await send(method, '/nowhere'), method).toMatch(/^HTTP\/1\.1 404 /);
});

test('a target in absolute form is served where its authority is ours, on every route', async () => {
  const named = await startServer({
    PUBLIC_URL: 'https://vault.example',
    PUBLIC_HOSTS: 'other.example,*.below.example,münchen.example',
  });
  const { host, port } = new URL(named.base_url);
  const send = async (target: string, hostLine: string): Promise<string> => {
    const lines = `Host: ${hostLine}\r\nSVC-API-KEY: ${named.tenant.api_key}\r\nConnection: close\r\n`;
    const [start = '', ...rest] = (await exchange(`GET ${target} HTTP/1.1\r\n${lines}\r\n`, named)).split('\r\n');
    const body = rest.join('\r\n');
    return `${start.split(' ')[1]} ${/must [^"]*/.exec(body)?.[0] ?? ''}`.trim();
  };
  const refused = '400 must be a path, or a URL of this server and of its Host header';
  const names = ['vault.example', 'VAULT.example:443', 'other.example', 'a.below.example', 'xn--mnchen-3ya.example'];
  for (const authority of [host, `localhost:${port}`, ...names])
    for (const path of ['/healthz', '/tokens?size=1', '/proxy', '/proxy/charges?x=1']) {
      const ordinary = await send(path, authority);
      expect(ordinary, path).not.toMatch(/^404/);
      expect(await send(`http://${authority}${path}`, authority), `${authority}${path}`).toBe(ordinary);
      expect(await send(`HTTPS://${authority}${path}`, authority), `${authority}${path}`).toBe(ordinary);
      expect(await send(`http://evil.example${path}`, authority)).toBe(refused);
      expect(await send(`http://${authority}${path}`, 'evil.example')).toBe(refused);
      expect(await send(`http://me@${authority}${path}`, authority)).toBe(refused);
    }
  for (const authority of [
    'evil.example',
    `evil.example:${port}`,
    '127.0.0.1:1',
    'vault.example.evil.example',
    'below.example',
    '',
  ])
    for (const path of ['/healthz', '/proxy/charges'])
      expect(await send(`http://${authority}${path}`, authority), authority).toBe(refused);
  await named.close();
});

test('HEAD exists where GET does', async () => {
  expect((await server.request('HEAD', '/healthz')).status).toBe(200);
});

test('a trailing slash is accepted', async () => {
  expect((await server.request('POST', '/tokenize/', { json: 'x' })).status).toBe(200);
  expect((await server.request('GET', '/healthz/')).status).toBe(200);
});

test('a fair trace id comes back, another is replaced, traceparent is honoured', async () => {
  const trace = async (headers: Record<string, string>) =>
    (await server.request('GET', '/healthz', { headers })).headers.get('svc-trace-id');
  expect(await trace({ 'svc-trace-id': 'order-4711/retry' })).toBe('order-4711/retry');
  expect(await trace({ 'svc-trace-id': 'x'.repeat(129) })).not.toBe('x'.repeat(129));
  expect(await trace({ traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' })).toBe(
    '4bf92f3577b34da6a3ce929d0e0e4736',
  );
  expect(await trace({})).toMatch(/^[0-9a-f-]{36}$/);
});

test('answers are not to be stored', async () => {
  expect((await server.tokenize('x')).headers.get('cache-control')).toBe('no-store');
});

test('no key, an empty, long, malformed, mistyped or unknown one: one and the same 401', async () => {
  const key = server.tenant.api_key;
  const other = (await server.newTenant()).api_key;
  const swapped = key.slice(0, 26) + other.slice(26);
  const bodies = new Set<string>();
  for (const bad of [
    null,
    '',
    'x'.repeat(9000),
    'svc_test_x',
    `${key}\t"`,
    key.toUpperCase(),
    key.slice(0, -1),
    `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`,
    swapped,
    `"${key}"`,
    key.replace('test', 'live'),
  ]) {
    const answer = await server.request('POST', '/tokenize', { key: bad, json: 'x' });
    expect(answer.status, String(bad)).toBe(401);
    expect(answer.headers.get('www-authenticate')).toBe('ApiKey header="SVC-API-KEY"');
    bodies.add(answer.text.replace(/"trace_id":"[^"]*"/, ''));
  }
  expect(bodies.size).toBe(1);
});

test('a key in the wrong place is a 401, and not in the log', async () => {
  const key = server.tenant.api_key;
  expect((await server.request('POST', `/tokenize?svc-api-key=${key}`, { key: null, json: 'x' })).status).toBe(401);
  expect(
    (await server.request('POST', '/tokenize', { key: null, json: 'x', headers: { cookie: `svc-api-key=${key}` } }))
      .status,
  ).toBe(401);
  const bearer = await server.request('POST', '/tokenize', {
    key: null,
    json: 'x',
    headers: { authorization: `Bearer ${key}` },
  });
  expect(bearer.status).toBe(401);
  expect(bearer.body.detail).toBe('The API key belongs in the header SVC-API-KEY, not Authorization.');
  for (const [name, value] of [
    ['BT-API-KEY', key],
    ['X-API-KEY', key],
    ['Authorization', key],
    ['Authorization', `Basic ${btoa(`${key}:`)}`],
  ] as const) {
    const { status, body } = await server.request('POST', '/tokenize', {
      key: null,
      json: 'x',
      headers: { [name]: value },
    });
    const setting = ' A server with the setting API_HEADER_PREFIXES=SVC,BT takes that header, too.';
    const more = name === 'BT-API-KEY' ? setting : '';
    expect([status, body.detail]).toEqual([401, `The API key belongs in the header SVC-API-KEY, not ${name}.${more}`]);
  }
  expect(server.logLines.join('')).not.toContain(key.slice(-40));
});

test('two key headers are a 400', async () => {
  const answer = await raw(
    server,
    `POST /tokenize HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${server.tenant.api_key}\r\nSVC-API-KEY: svc_test_other\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
  );
  expect(answer).toMatch(/^HTTP\/1.1 400 /);
});

test('headers beyond the limit are a 431, broken HTTP is a 400, both as problems', async () => {
  const big = await raw(server, `GET /healthz HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(40_000)}\r\n\r\n`);
  expect(big).toMatch(/^HTTP\/1.1 431 [\s\S]*application\/problem\+json/);
  const broken = await raw(
    server,
    'POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  expect(broken).toMatch(/^HTTP\/1.1 400 [\s\S]*application\/problem\+json/);
});

test('a request has one Host: none or two are a 400, but HTTP/1.0 may have none', async () => {
  const ask = (path: string, hosts: string, version = '1.1') =>
    raw(server, `GET ${path} HTTP/${version}\r\n${hosts}Connection: close\r\n\r\n`);
  for (const hosts of ['', 'Host: x\r\nHost: x\r\n', 'Host: x\r\nhOST: y\r\n']) {
    const answer = await ask('/healthz', hosts);
    expect(answer).toMatch(/^HTTP\/1.1 400 [\s\S]*application\/problem\+json/);
    expect(answer).toContain('the request must have one Host header');
    expect(await ask('/proxy/a', hosts)).toMatch(/^HTTP\/1.1 400 [\s\S]*\{"proxy_error":\{"title"/);
  }
  expect(await ask('/healthz', 'Host: x\r\n')).toMatch(/^HTTP\/1.1 200 /);
  expect(await ask('/healthz', '', '1.0')).toMatch(/^HTTP\/1.1 200 /);
});

test('what is expected beyond 100-continue is a 417 as a problem, of the proxy in its frame', async () => {
  const ask = (expected: string, path = '/tokens/x') =>
    raw(server, `GET ${path} HTTP/1.1\r\nHost: x\r\nExpect: ${expected}\r\nConnection: close\r\n\r\n`);
  expect(await ask('100-continue')).toMatch(/^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 401 [\s\S]*application\/problem/);
  expect(await ask('a miracle')).toMatch(/^HTTP\/1.1 417 [\s\S]*application\/problem\+json/);
  expect(await ask('a miracle', '/proxy/a')).toMatch(
    /^HTTP\/1.1 417 [\s\S]*\{"proxy_error":\{"title":"Expectation Failed"/,
  );
});

test('each request has a line in the log that names its trace, and so has a failure', async () => {
  const linesOf = (trace_id: string) =>
    server.logLines.map((line) => JSON.parse(line)).filter((line) => line.trace_id === trace_id);
  const ask = async (trace_id: string) =>
    (await server.request('GET', '/tokens/x', { headers: { 'svc-trace-id': trace_id } })).status;
  expect(await ask('trace-of-a-request')).toBe(404);
  await expect
    .poll(() => linesOf('trace-of-a-request'))
    .toMatchObject([{ msg: 'request', method: 'GET', route: '/tokens/:id', status: 404 }]);
  await server.sql('ALTER TABLE tokens RENAME TO tokens_away');
  try {
    expect(await ask('trace-of-a-failure')).toBe(503);
  } finally {
    await server.sql('ALTER TABLE tokens_away RENAME TO tokens');
  }
  await expect
    .poll(() => linesOf('trace-of-a-failure'))
    .toMatchObject([
      { level: 'error', msg: 'a request failed', code: 'unavailable' },
      { level: 'info', msg: 'request', status: 503 },
    ]);
});

test('a path that is no URL, and an id too long for any token: problems that do not repeat it', async () => {
  const bad = await server.request('GET', '/tokens/%ff');
  expect(bad.status).toBe(400);
  const long = await server.request('GET', `/tokens/${'y'.repeat(5000)}`);
  expect(long.status).toBe(404);
  for (const answer of [bad, long]) {
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
    expect(answer.headers.get('svc-trace-id')).toBe(answer.body.trace_id);
    expect(answer.text).not.toMatch(/%ff|yyyy/);
  }
  expect((await server.request('GET', '/tokens/a%00b')).status).toBe(404);
});

test('a permission that is missing is a 403 that names it', async () => {
  const { api_key } = await server.newKey(server.tenant, { permissions: ['token:read'] });
  const answer = await server.tokenize('x', api_key);
  expect(answer.status).toBe(403);
  expect(answer.body.detail).toContain('token:create');
});

test('a revoked key is refused everywhere within a second', async () => {
  const { api_key, application_id } = await server.newKey(server.tenant, { permissions: ['token:create'] });
  expect((await server.tokenize('x', api_key)).status).toBe(200);
  await server.sql('DELETE FROM api_keys WHERE application_id = $1', [application_id]);
  await new Promise((resolve) => setTimeout(resolve, CALLER_CACHE_MS + 50));
  expect((await server.tokenize('x', api_key)).status).toBe(401);
});

test('an address that keeps failing gets 429 with Retry-After, and others do not', async () => {
  const limited = await startServer();
  try {
    const statuses = new Map<number, number>();
    for (let index = 0; index < 150; index += 1) {
      const { status, headers } = await limited.request('GET', '/tokens/x', { key: 'wrong' });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 429) expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect(statuses.get(401)).toBe(100);
    expect(statuses.get(429)).toBe(50);
    expect((await limited.tokenize('x')).status).toBe(200);
  } finally {
    await limited.close();
  }
});

test('DOCS=off leaves out the start page, the reference and the document, and nothing else', async () => {
  const paths = ['/', '/docs', '/docs/tokens', '/guides', '/guides/start.md', '/llms.txt', '/openapi.json'];
  const bare = await startServer({ DOCS: 'off' });
  try {
    const statuses = async (base_url: string) =>
      Promise.all(paths.map(async (path) => (await fetch(base_url + path, { redirect: 'manual' })).status));
    expect(await statuses(bare.base_url)).toEqual(paths.map(() => 404));
    expect(await statuses(server.base_url)).toEqual(paths.map(() => 200));
    expect((await bare.tokenize('x')).status).toBe(200);
    expect((await bare.request('GET', '/console/sign-in', { key: null })).status).toBe(200);
  } finally {
    await bare.close();
  }
});

test('anonymous clients see nothing of the sandbox by /readyz, and a live process by /healthz', async () => {
  const bare = await startServer({ SANDBOX_JAIL: 'none' }, { sandboxStart: undefined });
  try {
    const ready = await fetch(`${bare.base_url}/readyz`);
    expect(await ready.json()).toEqual({ status: 'ok', initialized: true });
    // The operator reads it in the log.
    expect(bare.logLines.join('')).toContain('no_wall');
    expect(await (await fetch(`${bare.base_url}/healthz`)).json()).toEqual({ status: 'ok' });
  } finally {
    await bare.close();
  }
});

test('X-Forwarded-For of an untrusted proxy is ignored', async () => {
  await server.request('GET', '/healthz', { headers: { 'x-forwarded-for': '203.0.113.9' } });
  expect(server.logLines.join('')).not.toContain('203.0.113.9');
});

test('a vault without a tenant answers 503 until it has one', async () => {
  const empty = await startServer();
  try {
    await empty.sql('DELETE FROM tenants');
    const before = await fetch(`${empty.base_url}/readyz`);
    expect(await before.json()).toEqual({ status: 'ok', initialized: false });
    expect((await empty.request('POST', '/tokenize', { json: 'x' })).status).toBe(503);
  } finally {
    await empty.close();
  }
});

test('a database that is away is a 503 with Retry-After, and comes back by itself', async () => {
  const own = await startServer();
  const elsewhere = new Pool({ connectionString: new URL('/postgres', own.databaseUrl).href, max: 1 });
  try {
    const name = new URL(own.databaseUrl).pathname.slice(1);
    await own.tokenize('x');
    await elsewhere.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS false`);
    await elsewhere.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [name]);
    const away = await own.tokenize('x');
    expect(away.status).toBe(503);
    expect(Number(away.headers.get('retry-after'))).toBeGreaterThan(0);
    await elsewhere.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS true`);
    expect((await own.tokenize('x')).status).toBe(200);
  } finally {
    await elsewhere.end();
    await own.close();
  }
});

const raw = (of: SharedServer, text: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { port, hostname } = new URL(of.base_url);
    const socket = connect(Number(port), hostname, () => socket.write(text));
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk));
    socket.on('close', () => resolve(answer));
    socket.on('error', reject);
  });
