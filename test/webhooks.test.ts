// Webhooks over HTTP: the resource, the events of changes, and what a receiver gets.
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sweepOnce } from '../src/platform/maintenance/sweep.ts';
import type { Permission } from '../src/modules/access/permissions.ts';
import { createDelivering, type Delivering, RETRY_MS } from '../src/modules/webhooks/deliver.ts';
import {
  FAILING_MS_MAX,
  pauseOverfull,
  queueExpiringKeys,
  WAITING_OF_TENANT_MAX,
} from '../src/modules/webhooks/notices.ts';
import { WEBHOOKS_MAX } from '../src/modules/webhooks/webhooks.ts';
import { UNKNOWN_ID } from './support/resource.ts';
import { startServerBefore, type Answer, type TestServer, type TestTenant } from './support/server.ts';
import { startUpstream, type Received, type Upstream } from './support/upstream.ts';

let upstream: Upstream;
let server: TestServer;
let tenant: TestTenant;
let delivering: Delivering;
/** What the receiver answers, by default 200. */
let respond: (received: Received) => number | 'huge' | Promise<number>;

/** Each test has its own path: events of earlier ones may be due meanwhile. */
const path = () => `/hook/${tenant.tenant_id}`;
const url = () => `https://upstream.test:${upstream.port}${path()}`;

const send = (method: string, path: string, json?: unknown, key = tenant.api_key): Promise<Answer> =>
  server.request(method, path, { key, ...(json === undefined ? {} : { json }) });

const create = async (json: object = {}, key?: string) => {
  const answer = await send('POST', '/webhooks', { name: 'W', url: url(), events: ['*'], ...json }, key);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const newToken = async (json: object = {}) => {
  const answer = await send('POST', '/tokens', { type: 'token', data: 'canary-4711', ...json });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const keyWith = async (...held: Permission[]): Promise<string> =>
  (await server.newKey(tenant, { permissions: held })).api_key;

/** Sends what is due. @returns what the receiver got meanwhile. */
const settle = async (): Promise<Received[]> => {
  await delivering.settle();
  return upstream.received.splice(0).filter(({ url: at }) => at.startsWith(path()));
};

const headersOf = ({ headers }: Received) =>
  Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));

/** Opened and verified by the published library. */
const open = (received: Received[], secret: string) =>
  received.map((each) => new Webhook(secret).verify(each.body.toString(), headersOf(each)) as any);

const typesOf = (received: Received[]): string[] => received.map(({ body }) => JSON.parse(body.toString()).type);

const deliveriesOf = async (id: string, query = '') => (await send('GET', `/webhooks/${id}/deliveries${query}`)).body;

beforeAll(async () => {
  upstream = await startUpstream({
    answer: async (_, response, received) => {
      const status = await respond(received);
      if (status === 'huge') {
        response.writeHead(200);
        for (let part = 0; part < 10 && !response.destroyed; part += 1) response.write('x'.repeat(1024 * 1024));
        return void response.end();
      }
      if (status === 302) response.setHeader('location', `https://upstream.test:${upstream.port}/elsewhere`);
      response.writeHead(status).end('{}');
    },
  });
  server = await startServerBefore({ 'upstream.test': upstream.port }, { RATE_LIMIT: 'off' });
  delivering = createDelivering(server.ctx);
});
afterAll(async () => {
  await delivering.stop();
  await server.close();
  await upstream.close();
});
beforeEach(async () => {
  respond = () => 200;
  server.clock.offsetMs = 0;
  tenant = await server.newTenant();
  upstream.received.length = 0;
});

describe('a webhook', () => {
  test('shows its secret once, and nothing of it is in the database in clear', async () => {
    const made = await create({ events: ['token.created'] });
    expect(made).toMatchObject({ name: 'W', url: url(), events: ['token.created'], status: 'enabled' });
    expect(made.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    const { body: read } = await send('GET', `/webhooks/${made.id}`);
    const { secret: _, ...shown } = made;
    expect(read).toEqual(shown);
    expect((await send('GET', '/webhooks')).body.data).toEqual([shown]);
    const [row] = await server.sql('SELECT w::text AS row FROM webhooks w WHERE id = $1', [made.id]);
    expect(row.row).not.toContain('upstream.test');
  });

  test('is changed as a whole and in parts, and deleted', async () => {
    const { id } = await create({ container: '/pci/' });
    const put = await send('PUT', `/webhooks/${id}`, { name: 'X', url: `${url()}2`, events: ['proxy.created'] });
    expect(put.body).toMatchObject({ name: 'X', url: `${url()}2`, events: ['proxy.created'] });
    expect(put.body.container).toBeUndefined();
    const patched = await send('PATCH', `/webhooks/${id}`, { container: '/a/', status: 'paused' });
    expect(patched.body).toMatchObject({ name: 'X', container: '/a/', status: 'paused', events: ['proxy.created'] });
    expect((await send('PATCH', `/webhooks/${id}`, { container: null })).body.container).toBeUndefined();
    expect((await send('DELETE', `/webhooks/${id}`)).status).toBe(204);
    expect((await send('GET', `/webhooks/${id}`)).status).toBe(404);
  });

  test.each([
    ['http://example.com/', 'https'],
    ['https://127.0.0.1/', 'destination'],
    ['https://[::1]/', 'destination'],
    ['https://10.0.0.8/', 'destination'],
    ['https://169.254.169.254/latest/', 'destination'],
    ['https://localhost/', 'destination'],
    ['https://2130706433/', 'destination'],
    ['https://0x7f.1/', 'destination'],
    ['https://user:pw@example.com/', 'user'],
    ['https://example.com/#part', 'fragment'],
    ['https://example.com/ a', 'blanks'],
    ['https://exa\\mple.com/', 'blanks'],
    ['https://example.com:25/', 'port'],
    ['ftp://example.com/', 'https'],
  ])('refuses %s', async (bad) => {
    const answer = await send('POST', '/webhooks', { name: 'W', url: bad, events: ['*'] });
    expect(answer.status, answer.text).toBe(400);
    expect(answer.body.errors.url).toHaveLength(1);
  });

  test.each([
    [{ events: [] }, 'events'],
    [{ events: ['token.made'] }, 'events[0]'],
    [{ events: ['*', 'token.created'] }, 'events'],
    [{ name: '' }, 'name'],
    [{ container: 'pci' }, 'container'],
  ])('refuses %j', async (bad, at) => {
    const answer = await send('POST', '/webhooks', { name: 'W', url: url(), events: ['*'], ...bad });
    expect([answer.status, Object.keys(answer.body.errors)]).toEqual([400, [at]]);
  });

  test('needs a permission for each operation, and is not seen from another tenant', async () => {
    const { id } = await create();
    const read = await keyWith('webhook:read');
    for (const [method, at, json] of [
      ['POST', '/webhooks', { name: 'W', url: url(), events: ['*'] }],
      ['PATCH', `/webhooks/${id}`, { name: 'Y' }],
      ['POST', `/webhooks/${id}/ping`, undefined],
      ['POST', `/webhooks/${id}/rotate-secret`, undefined],
      ['POST', `/webhooks/${id}/deliveries/${UNKNOWN_ID}/replay`, undefined],
      ['DELETE', `/webhooks/${id}`, undefined],
    ] as const)
      expect((await send(method, at, json, read)).status, at).toBe(403);
    const other = (await server.newTenant()).api_key;
    for (const [method, at] of [
      ['GET', `/webhooks/${id}`],
      ['GET', `/webhooks/${id}/deliveries`],
      ['POST', `/webhooks/${id}/ping`],
      ['POST', `/webhooks/${id}/rotate-secret`],
      ['DELETE', `/webhooks/${id}`],
    ] as const)
      expect((await send(method, at, undefined, other)).status, at).toBe(404);
  });

  test('sends no masks that its maker may not see', async () => {
    const maker = await keyWith('webhook:create', 'webhook:update');
    const refused = await send(
      'POST',
      '/webhooks',
      { name: 'W', url: url(), events: ['*'], container: '/pci/' },
      maker,
    );
    expect([refused.status, refused.body.detail]).toEqual([403, 'The permission token:read is needed for this.']);
    const { id } = await create({ container: '/pci/' });
    // Who moves it elsewhere would get the masks.
    expect((await send('PATCH', `/webhooks/${id}`, { url: `${url()}/mine` }, maker)).status).toBe(403);
  });

  test('is one of a limited number, also for concurrent requests', async () => {
    const answers = await Promise.all(
      Array.from({ length: WEBHOOKS_MAX + 3 }, () =>
        send('POST', '/webhooks', { name: 'W', url: url(), events: ['*'] }),
      ),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(WEBHOOKS_MAX);
  });
});

describe('events', () => {
  test('tell of a token that is made, changed and deleted, in order, without its value', async () => {
    const { secret } = await create();
    const { id } = await newToken();
    await send('PATCH', `/tokens/${id}`, { metadata: { a: 'b' } });
    await send('DELETE', `/tokens/${id}`);
    const received = await settle();
    const events = open(received, secret);
    expect(events.map(({ type }) => type)).toEqual(['token.created', 'token.updated', 'token.deleted']);
    expect(events[0]).toEqual({
      id: headersOf(received[0] as Received)['webhook-id'],
      type: 'token.created',
      timestamp: expect.stringMatching(/Z$/),
      data: {
        id,
        token_type: 'token',
        actor: { id: tenant.application_id, type: 'application' },
        log_id: expect.any(String),
      },
    });
    for (const { body } of received) expect(body.toString()).not.toContain('canary');
  });

  test('show masks of the container alone, and tell of its tokens alone', async () => {
    const { secret } = await create({ container: '/pci/high/', events: ['token.created', 'token.deleted'] });
    const data = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' };
    const { id } = await newToken({ type: 'card', data, containers: ['/pci/high/'] });
    const other = await newToken({ type: 'card', data, containers: ['/pci/low/'] });
    await newToken({ containers: ['/pci/high/'], metadata: { note: 'canary' } });
    for (const each of [id, other.id]) await send('DELETE', `/tokens/${each}`);
    const received = await settle();
    const events = open(received, secret).toSorted((a, b) => a.timestamp.localeCompare(b.timestamp));
    expect(events.map(({ type, data: of }) => [type, of.mask, of.containers])).toEqual([
      ['token.created', undefined, undefined],
      ['token.created', undefined, ['/pci/high/']],
      ['token.deleted', undefined, undefined],
    ]);
    const again = await newToken({ type: 'card', data, containers: ['/pci/high/'] });
    const [shown] = open(await settle(), secret);
    expect(shown.data).toMatchObject({ id: again.id, mask: { number: 'XXXXXXXXXXXX4242', expiration_month: 12 } });
    for (const { body } of received) expect(body.toString()).not.toMatch(/4242424242424242|canary|fingerprint|123"/);
  });

  test('come of every way to make and end tokens', async () => {
    const { secret } = await create({ events: ['token.created', 'token.deleted', 'token.expired'] });
    await send('POST', '/tokenize', { a: 'one', b: { type: 'token', data: 'two' } });
    const soon = new Date(Date.now() + 60_000).toISOString();
    const expiring = await newToken({ expires_at: soon });
    await newToken({ deduplicate_token: true, data: 'same' });
    await newToken({ deduplicate_token: true, data: 'same' });
    await server.request('POST', '/tokens', {
      key: tenant.api_key,
      headers: { 'svc-idempotency-key': 'k-1' },
      json: { type: 'token', data: 'kept' },
    });
    await send('POST', '/tokenize', Object.fromEntries(Array.from({ length: 250 }, (_, at) => [`n${at}`, `v${at}`])));
    expect(open(await settle(), secret).filter(({ type }) => type === 'token.created')).toHaveLength(255);
    server.clock.offsetMs = 61_000;
    await sweepOnce(server.ctx.db, server.ctx.now(), server.ctx.newLogId, server.ctx.config);
    const [expired] = open(await settle(), secret);
    expect([expired.type, expired.data.id, expired.data.actor]).toEqual([
      'token.expired',
      expiring.id,
      { id: null, type: 'system' },
    ]);
  });

  test('tell of applications, keys, proxies and reactors', async () => {
    const { secret } = await create();
    const { body: application } = await send('POST', '/applications', {
      name: 'A',
      type: 'private',
      permissions: ['token:read'],
    });
    const { body: key } = await send('POST', `/applications/${application.id}/keys`, { name: 'K' });
    await send('DELETE', `/applications/${application.id}/keys/${key.id}`);
    const { body: proxy } = await send('POST', '/proxies', { name: 'P', destination_url: url() });
    await send('PUT', `/proxies/${proxy.id}/draft`, { request_transform: { code: 'module.exports = async (r) => r' } });
    await send('DELETE', `/proxies/${proxy.id}`);
    const received = await settle();
    const events = open(received, secret);
    expect(events.map(({ type }) => type).toSorted()).toEqual([
      'application.created',
      'application_key.created',
      'application_key.deleted',
      'proxy.created',
      'proxy.deleted',
    ]);
    const made = events.find(({ type }) => type === 'application_key.created');
    expect(made.data).toMatchObject({ id: key.id, application_id: application.id });
    for (const { body } of received) expect(body.toString()).not.toContain(key.key);
  });

  test('count refusals: one event a minute for each caller', async () => {
    const { secret } = await create({ events: ['access.refused'] });
    const weak = await server.newKey(tenant, { permissions: ['token:create'] });
    server.clock.stoppedAtMs = Math.floor(Date.now() / 60_000) * 60_000 + 1_000;
    for (let count = 0; count < 3; count += 1) await send('GET', '/logs', undefined, weak.api_key);
    expect(await settle()).toEqual([]);
    server.clock.stoppedAtMs += 60_000;
    const [event] = open(await settle(), secret);
    expect(event.data).toMatchObject({ id: weak.application_id, count: 3 });
    server.clock.stoppedAtMs = undefined;
  });

  test('tell of alarms about the tenant, and of runs that fail', async () => {
    const { secret } = await create({ events: ['alarm.raised', 'reactor.failed'] });
    const { id } = await newToken();
    await server.sql('UPDATE tokens SET container = $3 WHERE tenant_id = $1 AND id = $2', [
      tenant.tenant_id,
      id,
      '/x/',
    ]);
    await send('GET', `/tokens/${id}`);
    const code = "module.exports = async () => { throw new Error('canary-4711'); };";
    const { body: formula } = await send('POST', '/reactor-formulas', { name: 'F', type: 'private', code });
    const { body: reactor } = await send('POST', '/reactors', {
      name: 'R',
      formula: { id: formula.id },
      configuration: {},
    });
    expect((await send('POST', `/reactors/${reactor.id}/react`, { args: {} })).status).toBeGreaterThanOrEqual(400);
    const received: Received[] = [];
    await expect.poll(async () => received.push(...(await settle())), { timeout: 10_000 }).toBe(2);
    const events = open(received, secret).toSorted((one, other) => one.type.localeCompare(other.type));
    expect(events.map(({ type, data }) => [type, data.id, data.alarm, data.outcome])).toEqual([
      ['alarm.raised', id, expect.any(String), undefined],
      ['reactor.failed', reactor.id, undefined, 'crashed'],
    ]);
    for (const { body } of received) expect(body.toString()).not.toContain('canary');
  });

  test('tell of API keys that end: seven days before, and again one day before', async () => {
    const { secret } = await create({ events: ['application_key.expiring'] });
    const expires_at = new Date(Date.now() + 8 * 86_400_000).toISOString();
    const { body: key } = await send('POST', `/applications/${tenant.application_id}/keys`, { name: 'K', expires_at });
    const result = async (days: number) => {
      server.clock.offsetMs = days * 86_400_000;
      await queueExpiringKeys(server.ctx);
      await queueExpiringKeys(server.ctx);
      const received = await settle();
      return received.map((each) => JSON.parse(each.body.toString()).data.id);
    };
    expect([await result(0), await result(1.5), await result(3), await result(7.5), await result(7.6)]).toEqual([
      [],
      [key.id],
      [],
      [key.id],
      [],
    ]);
    expect(secret).toBeDefined();
  });

  test('are not written where no webhook asks for them', async () => {
    await create({ events: ['proxy.created'] });
    await newToken();
    const paused = await create({ events: ['token.created'] });
    await send('PATCH', `/webhooks/${paused.id}`, { status: 'paused' });
    await newToken();
    const rows = await server.sql('SELECT FROM webhook_deliveries WHERE tenant_id = $1', [tenant.tenant_id]);
    expect(rows).toHaveLength(0);
  });
});

describe('a delivery', () => {
  test('is tried again after 5 s to 10 h, then dead, under one id with one body', async () => {
    const { id } = await create({ events: ['token.created'] });
    respond = () => 500;
    await newToken();
    const bodies: string[] = [];
    const ids = new Set<string | undefined>();
    for (const waitMs of [0, ...RETRY_MS]) {
      server.clock.offsetMs += waitMs;
      const [received, ...more] = await settle();
      expect(more).toEqual([]);
      bodies.push((received as Received).body.toString());
      ids.add(headersOf(received as Received)['webhook-id']);
    }
    expect([new Set(bodies).size, ids.size]).toEqual([1, 1]);
    const { data } = await deliveriesOf(id, '?state=dead');
    expect(data).toEqual([
      expect.objectContaining({ state: 'dead', attempts: 7, response_status: 500, error: 'STATUS' }),
    ]);
    server.clock.offsetMs += 86_400_000;
    expect(await settle()).toEqual([]);
    respond = () => 200;
    const replayed = await send('POST', `/webhooks/${id}/deliveries/${data[0].id}/replay`);
    expect(replayed.body).toMatchObject({ id: data[0].id, state: 'waiting', attempts: 0 });
    expect((await send('POST', `/webhooks/${id}/deliveries/${data[0].id}/replay`)).status).toBe(409);
    const [again] = await settle();
    expect([again?.body.toString(), headersOf(again as Received)['webhook-id']]).toEqual([bodies[0], data[0].id]);
    expect((await deliveriesOf(id)).data[0]).toMatchObject({ state: 'delivered', response_status: 200 });
  });

  test('waits for the earlier ones of its entity, and not for those of others', async () => {
    await create({ events: ['token.created', 'token.updated'] });
    const { id } = await newToken();
    respond = () => 503;
    expect(typesOf(await settle())).toEqual(['token.created']);
    await send('PATCH', `/tokens/${id}`, { metadata: { a: '1' } });
    respond = () => 200;
    await newToken();
    expect(typesOf(await settle())).toEqual(['token.created']);
    server.clock.offsetMs += 5_000;
    expect(typesOf(await settle())).toEqual(['token.created', 'token.updated']);
  });

  test('follows no redirect, and reads no long answer', async () => {
    const { id } = await create({ events: ['token.created'] });
    respond = () => 302;
    await newToken();
    expect((await settle()).map(({ url: at }) => at)).toEqual([path()]);
    expect(upstream.received.some(({ url: at }) => at === '/elsewhere')).toBe(false);
    expect((await deliveriesOf(id)).data[0]).toMatchObject({ state: 'waiting', response_status: 302, error: 'STATUS' });
    respond = () => 'huge';
    server.clock.offsetMs += 5_000;
    await settle();
    expect((await deliveriesOf(id)).data[0]).toMatchObject({ state: 'delivered', response_status: 200 });
  });

  test('to a name that leads to a private address by now is refused', async () => {
    const { id } = await create({ events: ['token.created'], url: 'https://rebound.example.com/' });
    await newToken();
    await settle();
    expect((await deliveriesOf(id)).data[0]).toMatchObject({ state: 'waiting', error: 'DESTINATION_REFUSED' });
  });

  test('is signed by both secrets for a day after a rotation', async () => {
    const { id, secret } = await create({ events: ['token.created'] });
    const { body: rotated } = await send('POST', `/webhooks/${id}/rotate-secret`);
    expect([rotated.secret === secret, Date.parse(rotated.previous_secret_ends_at) > Date.now()]).toEqual([
      false,
      true,
    ]);
    await newToken();
    const both = await settle();
    for (const each of [secret, rotated.secret]) expect(open(both, each)).toHaveLength(1);
    server.clock.offsetMs = 24 * 3_600_000 + 1_000;
    await newToken();
    const [late] = await settle();
    expect(headersOf(late as Received)['webhook-signature']?.split(' ')).toHaveLength(1);
  });

  test('of a ping tells nothing, and a paused webhook has none', async () => {
    const { id, secret } = await create({ events: ['token.created'] });
    expect((await send('POST', `/webhooks/${id}/ping`)).body).toMatchObject({ type: 'webhook.ping', state: 'waiting' });
    const [event] = open(await settle(), secret);
    expect(event).toMatchObject({ type: 'webhook.ping', data: { id } });
    await send('PATCH', `/webhooks/${id}`, { status: 'paused' });
    expect((await send('POST', `/webhooks/${id}/ping`)).status).toBe(409);
  });

  test('fails for five days: the webhook is paused, and resumed it goes on', async () => {
    const { id } = await create({ events: ['token.created'] });
    respond = () => 500;
    await newToken();
    await settle();
    server.clock.offsetMs += FAILING_MS_MAX + 60_000;
    await newToken();
    await settle();
    expect((await send('GET', `/webhooks/${id}`)).body).toMatchObject({
      status: 'paused',
      failing_since: expect.any(String),
    });
    respond = () => 200;
    const { body: resumed } = await send('PATCH', `/webhooks/${id}`, { status: 'enabled' });
    expect([resumed.status, resumed.failing_since]).toEqual(['enabled', undefined]);
    server.clock.offsetMs += 60_000;
    expect((await settle()).length).toBeGreaterThan(0);
  });

  test('to a receiver that does not answer holds up no other one, of the same tenant neither', async () => {
    const slow = await create({ url: `${url()}/slow`, events: ['token.created'] });
    await create({ url: `${url()}/fast`, events: ['token.created'] });
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    respond = ({ url: at }) => (at.endsWith('/slow') ? held.then(() => 200) : 200);
    const values = Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`n${at}`, `v${at}`]));
    expect((await send('POST', '/tokenize', values)).status).toBe(200);
    const countOf = (end: string): number =>
      upstream.received.filter(({ url: at }) => at === `${path()}/${end}`).length;
    const look = () => {
      delivering.soon();
      return countOf('fast');
    };
    await expect.poll(look, { timeout: 60_000, interval: 50 }).toBe(200);
    expect(countOf('slow')).toBeGreaterThan(0);
    expect(countOf('slow')).toBeLessThanOrEqual(8);
    expect((await deliveriesOf(slow.id, '?state=delivered')).data).toEqual([]);
    await send('DELETE', `/webhooks/${slow.id}`);
    release();
    await settle();
  });

  test('of two processes at once arrives once', async () => {
    const { secret } = await create({ events: ['token.created'] });
    const other = createDelivering(server.ctx);
    const values = Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`n${at}`, `v${at}`]));
    await send('POST', '/tokenize', values);
    await Promise.all([delivering.settle(), other.settle()]);
    const events = open(await settle(), secret);
    await other.stop();
    expect([events.length, new Set(events.map(({ id }) => id)).size]).toEqual([60, 60]);
  });

  test('is one too many: the webhook with the most is paused, nothing is dropped in silence', async () => {
    const { id } = await create({ events: ['token.created'] });
    const counted = [{ tenant_id: tenant.tenant_id, webhook_id: id, count: WAITING_OF_TENANT_MAX + 1 }];
    await pauseOverfull(server.ctx, counted);
    expect((await send('GET', `/webhooks/${id}`)).body.status).toBe('paused');
    const { body: logs } = await send('GET', `/logs?entity_type=webhook&entity_id=${id}`);
    expect(logs.data).toContainEqual(expect.objectContaining({ message: 'Webhook paused', actor_type: 'system' }));
  });
});
