// What one place, one account, one changed row and one silent peer can cause is bounded.
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join as joinPath } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { askUnsealSocket, openUnsealSocket } from '../../src/unseal-socket.ts';
import { join, openBrowser, PASSWORD } from '../support/people.ts';
import { startServer, TEST_ROOT_KEY, type TestServer } from '../support/server.ts';

const PUBLIC_URL = 'https://vault.example.com';

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ RATE_LIMIT: 'on', PUBLIC_URL, TRUSTED_PROXIES: '127.0.0.0/8' });
});
afterAll(() => server.close());

test('each page that is opened by a secret refuses a place that tries many', async () => {
  const urls = server.routes.filter(({ url, method }) => url.includes(':secret') && method === 'GET');
  expect(urls.map(({ url }) => url).toSorted()).toEqual([
    '/collect/:secret',
    '/console/sign-in/reset/:secret',
    '/join/:secret',
  ]);
  // The count is one for all of them.
  for (const [at, { url }] of urls.entries()) {
    const open = async (ip: string, index: number) => {
      const path = url.replace(':secret', `${index}`.padStart(32, 'x'));
      return (await server.request('GET', path, { key: null, headers: { 'x-forwarded-for': ip } })).status;
    };
    const statuses: number[] = [];
    for (let index = 0; index < 120; index += 1) statuses.push(await open(`198.51.${at}.1`, index));
    expect(new Set(statuses)).toEqual(new Set([410, 429]));
    expect(statuses.at(-1)).toBe(429);
    expect(await open(`198.51.${at}.2`, 0)).toBe(410);
  }
});

test('right passwords of an account from one place are limited, and others sign in meanwhile', async () => {
  const [loud, other] = [await join(server), await join(server)];
  const signIn = async (email: string, ip: string) =>
    (await openBrowser(server).post('/console/sign-in', { email, password: PASSWORD }, { 'x-forwarded-for': ip }))
      .status;
  const statuses: number[] = [];
  for (let count = 0; count < 101; count += 1) statuses.push(await signIn(loud.email, '198.51.100.3'));
  expect(statuses).toEqual([...Array.from({ length: 100 }, () => 303), 429]);
  expect([await signIn(loud.email, '198.51.100.4'), await signIn(other.email, '198.51.100.3')]).toEqual([303, 303]);
}, 60_000);

test('a row that was changed in the database is reported once, however many revocations follow', async () => {
  const tenant = await server.newTenant();
  const make = async () =>
    (
      await server.request('POST', '/applications', {
        key: tenant.api_key,
        json: { name: 'A', permissions: ['log:read'] },
      })
    ).body;
  const made = [await make(), await make(), await make()];
  const ids = made.map(({ id }) => id);
  await server.sql("UPDATE applications SET permissions = '{token:read}' WHERE id = ANY ($1)", [ids]);
  for (let count = 0; count < 5; count += 1) {
    const { id } = await make();
    const removed = await server.request('DELETE', `/applications/${id}`, { key: tenant.api_key });
    expect(removed.status).toBe(204);
  }
  const alarms = server.logLines.filter(
    (line) => line.includes('"alarm":"tampered"') && ids.some((id) => line.includes(id)),
  );
  expect(alarms).toHaveLength(ids.length);
});

test('the vault is its own origin by PUBLIC_URL, whatever Host a proxy sends', async () => {
  const json = { name: 'Page', type: 'public', permissions: ['token:create'], allowed_origins: [PUBLIC_URL] };
  const made = await server.request('POST', '/applications', { json });
  expect(made.status, made.text).toBe(201);
  const create = (origin: string) =>
    server.request('POST', '/tokens', { key: made.body.key, json: { type: 'token', data: 'x' }, headers: { origin } });
  // Without the session of a frame, a key that lists the origin of the vault is refused there.
  expect((await create(PUBLIC_URL)).status).toBe(403);
  expect((await create('https://other.example.com')).status).toBe(403);
});

test('silent peers do not keep an operator from the unseal socket', async () => {
  const path = joinPath(mkdtempSync(joinPath(tmpdir(), 'unseal-')), 'socket');
  const close = await openUnsealSocket(path, async () => ({ state: 'unsealed' }));
  const silent: Socket[] = [];
  try {
    for (let count = 0; count < 60; count += 1) {
      const socket = connect(path);
      socket.on('error', () => undefined);
      await once(socket, 'connect');
      silent.push(socket);
    }
    expect(await askUnsealSocket(path, 'status')).toEqual({ state: 'unsealed' });
  } finally {
    for (const socket of silent) socket.destroy();
    await close();
  }
});

test('in production no link follows the Host of a request: without PUBLIC_URL there is none', async () => {
  const production = await startServer({ NODE_ENV: 'production', MASTER_KEY: TEST_ROOT_KEY });
  try {
    const origin = 'https://shop.example.com';
    const session = { allowed_origins: [origin], types: ['card'], max_tokens: 1 };
    const ask = (json: object) =>
      production.request('POST', '/sessions', { json, headers: { 'x-forwarded-host': 'evil.example' } });
    const refused = await ask({ ...session, return_url: `${origin}/paid` });
    expect([refused.status, refused.body.detail]).toEqual([422, expect.stringContaining('PUBLIC_URL')]);
    expect((await ask(session)).status).toBe(201);
    const path = `/console/sso/${production.tenant.tenant_id}/callback`;
    expect((await production.request('GET', path, { key: null })).status).toBe(422);
  } finally {
    await production.close();
  }
});
