// Rotation of a proxy's key: which key works when, in every process, who may rotate, and what replays show.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startServerBefore, type TestServer, type TestTenant } from './support/server.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

const HOST = 'backend.test';
const HOUR_MS = 3_600_000;

let server: TestServer;
/** Another process of the same vault. */
let other: TestServer;
let upstream: Upstream;
let destination_url: string;

beforeAll(async () => {
  upstream = await startUpstream({ hosts: [HOST] });
  server = await startServerBefore({ [HOST]: upstream.port });
  other = await startServerBefore({ [HOST]: upstream.port }, { DATABASE_URL: server.ctx.config.databaseUrl as string });
  destination_url = `https://${HOST}:${upstream.port}/`;
});
afterAll(async () => {
  await other?.close();
  await server.close();
  await upstream.close();
});

const makeProxy = async (more: object = {}) => {
  const json = { name: 'Inbound', destination_url, require_auth: false, ...more };
  const made = await server.request('POST', '/proxies', { json });
  expect(made.status, made.text).toBe(201);
  return made.body as { id: string; key: string };
};

const rotate = (id: string, json: object = {}, of?: TestTenant, headers: Record<string, string> = {}) =>
  server.request('POST', `/proxies/${id}/rotate-key`, { json, headers, ...(of && { key: of.api_key }) });

const statusOf = async (key: string, at = server): Promise<number> =>
  (await fetch(`${at.base_url}/proxy/`, { headers: { 'svc-proxy-key': key } })).status;

test('a new key works at once, and the old one ends at once, in both processes', async () => {
  const { id, key } = await makeProxy();
  expect([await statusOf(key), await statusOf(key, other)]).toEqual([200, 200]);
  const { status, body } = await rotate(id);
  expect([status, body.key.length, body.previous_key_ends_at]).toEqual([200, 32, undefined]);
  expect(body.key).not.toBe(key);
  expect([await statusOf(key), await statusOf(body.key), await statusOf(body.key, other)]).toEqual([404, 200, 200]);
  await expect.poll(() => statusOf(key, other)).toBe(404);
  expect((await server.request('GET', `/proxies/${id}`)).body.key).toBe(body.key);
  const rows = await server.sql("SELECT message FROM audit_log WHERE entity_ids @> $1 AND operation = 'update'", [
    [id],
  ]);
  expect(rows).toEqual([{ message: 'Proxy key rotated' }]);
});

test('with a grace period both keys work until its end, also after a change', async () => {
  const { id, key } = await makeProxy();
  const { body } = await rotate(id, { grace_seconds: 3600 });
  const json = { name: 'Changed', destination_url, require_auth: false };
  const changed = await server.request('PUT', `/proxies/${id}`, { json });
  expect(changed.body).toMatchObject({ key: body.key, previous_key_ends_at: body.previous_key_ends_at });
  for (const at of [server, other]) expect([await statusOf(key, at), await statusOf(body.key, at)]).toEqual([200, 200]);
  server.clock.offsetMs = other.clock.offsetMs = HOUR_MS;
  try {
    for (const at of [server, other])
      expect([await statusOf(key, at), await statusOf(body.key, at)]).toEqual([404, 200]);
    expect((await server.request('GET', `/proxies/${id}`)).body.previous_key_ends_at).toBeUndefined();
  } finally {
    server.clock.offsetMs = other.clock.offsetMs = 0;
  }
  expect(server.logLines.join('')).not.toContain('seal_broken');
});

test('a second rotation ends the first key, whatever its grace period', async () => {
  const { id, key } = await makeProxy();
  const second = (await rotate(id, { grace_seconds: 86_400 })).body.key;
  const third = (await rotate(id, { grace_seconds: 60 })).body.key;
  expect([await statusOf(key), await statusOf(second), await statusOf(third)]).toEqual([404, 200, 200]);
});

test.each([[-1], [86_401], [1.5], ['60']])('a grace period of %j is a 400', async (grace_seconds) => {
  const { id } = await makeProxy();
  const { status, body } = await rotate(id, { grace_seconds });
  expect([status, Object.keys(body.errors)]).toEqual([400, ['grace_seconds']]);
});

test('only a caller with proxy:update and all rights of the application rotates', async () => {
  const application = await server.newKey(server.tenant, { permissions: ['token:use'] });
  const { id, key } = await makeProxy({ application: { id: application.application_id } });
  const reader = await server.newKey(server.tenant, { permissions: ['proxy:read', 'token:use'] });
  const weak = await server.newKey(server.tenant, { permissions: ['proxy:update'] });
  const strong = await server.newKey(server.tenant, { permissions: ['proxy:update', 'token:use'] });
  const foreign = await server.newTenant();
  const statuses = [];
  for (const caller of [reader, weak, foreign]) statuses.push((await rotate(id, {}, caller)).status);
  expect(statuses).toEqual([403, 403, 404]);
  expect(await statusOf(key)).toBe(200);
  const made = await rotate(id, {}, strong);
  expect([made.status, await statusOf(made.body.key)]).toEqual([200, 200]);
});

test('a repeated request gets its answer while the key lives, and no ended key', async () => {
  const json = { name: 'Inbound', destination_url };
  const headers = (name: string) => ({ 'svc-idempotency-key': name });
  const create = () => server.request('POST', '/proxies', { json, headers: headers('make-1') });
  const made = await create();
  expect((await create()).body).toEqual(made.body);
  const first = await rotate(made.body.id, {}, undefined, headers('rotate-1'));
  expect((await rotate(made.body.id, {}, undefined, headers('rotate-1'))).body).toEqual(first.body);
  const replayed = await create();
  expect([replayed.status, replayed.text.includes(made.body.key)]).toEqual([409, false]);
  await rotate(made.body.id);
  const again = await rotate(made.body.id, {}, undefined, headers('rotate-1'));
  expect([again.status, again.text.includes(first.body.key)]).toEqual([409, false]);
});

test('a repeated change gets its answer while the key lives, also in the grace period', async () => {
  const { id, key } = await makeProxy();
  const json = { name: 'Changed', destination_url };
  const headers = { 'svc-idempotency-key': 'change-1' };
  const change = () => server.request('PUT', `/proxies/${id}`, { json, headers });
  const changed = await change();
  expect([changed.status, changed.body.key]).toEqual([200, key]);
  await rotate(id, { grace_seconds: 60 });
  expect((await change()).body).toEqual(changed.body);
  await rotate(id);
  const again = await change();
  expect([again.status, again.text.includes(key)]).toEqual([409, false]);
});

test('an answer that shows no key is repeated also after a rotation', async () => {
  const writer = await server.newKey(server.tenant, { permissions: ['proxy:create'] });
  const json = { name: 'Inbound', destination_url };
  const create = () =>
    server.request('POST', '/proxies', { json, key: writer.api_key, headers: { 'svc-idempotency-key': 'make-2' } });
  const made = await create();
  expect([made.status, made.body.key]).toEqual([201, undefined]);
  await rotate(made.body.id);
  expect((await create()).body).toEqual(made.body);
});
