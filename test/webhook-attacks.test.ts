// What an attacker tried against webhooks: to reach this network, to read a secret or another tenant, to see more masks, to forge events.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Permission } from '../src/modules/access/permissions.ts';
import { BODY_BYTES_MAX } from '../src/modules/webhooks/bodies.ts';
import { createDelivering, type Delivering } from '../src/modules/webhooks/deliver.ts';
import { startServerBefore, type Answer, type TestServer, type TestTenant } from './support/server.ts';
import { startUpstream, type Received, type Upstream } from './support/upstream.ts';

let upstream: Upstream;
let server: TestServer;
let tenant: TestTenant;
let delivering: Delivering;
let status = 204;

const url = (end = ''): string => `https://upstream.test:${upstream.port}/${tenant.tenant_id}${end}`;

const send = (method: string, path: string, json?: unknown, key = tenant.api_key): Promise<Answer> =>
  server.request(method, path, { key, ...(json === undefined ? {} : { json }) });

const asked = (json: object = {}) => ({ name: 'W', url: url(), events: ['token.created'], ...json });

const create = async (json: object = {}): Promise<any> => {
  const answer = await send('POST', '/webhooks', asked(json));
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const newToken = async (json: object = {}): Promise<any> => {
  const answer = await send('POST', '/tokens', { data: 'canary-4711', ...json });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const keyWith = async (given: { permissions?: Permission[]; rules?: unknown[] }): Promise<string> =>
  (await server.newKey(tenant, given as never)).api_key;

const settle = async (): Promise<Received[]> => {
  await delivering.settle();
  return upstream.received.splice(0).filter(({ url: at }) => at.startsWith(`/${tenant.tenant_id}`));
};

/** A webhook whose event waits for its second attempt, so that its body is kept. */
const withFailed = async (json: object = {}) => {
  const webhook = await create(json);
  status = 500;
  await newToken({ type: 'card_number', data: '4242424242424242', containers: ['/pci/'] });
  await settle();
  status = 204;
  const [delivery] = await server.sql('SELECT id FROM webhook_deliveries WHERE webhook_id = $1', [webhook.id]);
  server.clock.offsetMs += 5_000;
  return { webhook, delivery_id: delivery.id as string };
};

beforeAll(async () => {
  upstream = await startUpstream({ answer: (_, response) => void response.writeHead(status).end() });
  server = await startServerBefore({ 'upstream.test': upstream.port }, { RATE_LIMIT: 'off' });
  delivering = createDelivering(server.ctx);
});
afterAll(async () => {
  await delivering.stop();
  await server.close();
  await upstream.close();
});
beforeEach(async () => {
  status = 204;
  server.clock.offsetMs = 0;
  tenant = await server.newTenant();
  upstream.received.length = 0;
});

describe('to reach this network', () => {
  const urls = [
    'http://example.com/',
    'HTTP://example.com/',
    'ftp://example.com/',
    'file:///etc/passwd',
    'javascript:alert(1)',
    '//example.com/',
    'https:example.com',
    'https://',
    '',
    'https://user@example.com/',
    'https://user:pw@example.com/',
    'https://:pw@example.com/',
    'https://example.com\\@127.0.0.1/',
    'https://example.com@127.0.0.1/',
    'https://example.com:22/',
    'https://example.com:25/',
    'https://example.com:6667/',
    'https://example.com:65536/',
    'https://127.0.0.1/',
    'https://127.0.0.1./',
    'https://127.1/',
    'https://2130706433/',
    'https://017700000001/',
    'https://0x7f000001/',
    'https://0/',
    'https://0.0.0.0/',
    'https://127。0。0。1/',
    'https://①②⑦.0.0.1/',
    'https://localhost/',
    'https://LOCALHOST./',
    'https://ⓛocalhost/',
    'https://shop.localhost/',
    'https://Printer.LOCAL/',
    'https://metadata.google.internal/',
    'https://router.home.arpa/',
    'https://[::1]/',
    'https://[::]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:a9fe:a9fe]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[2002:7f00:1::]/',
    'https://[fd00::1]/',
    'https://[fe80::1]/',
    'https://169.254.169.254/latest/meta-data/',
    'https://10.0.0.8/',
    'https://172.16.0.1/',
    'https://192.168.0.1/',
    'https://100.64.0.1/',
    'https://198.18.0.1/',
    'https://255.255.255.255/',
    'https://224.0.0.1/',
    'https://example.com/\r\nX-Header: 1',
    'https://example.com/\u0000',
    ' https://example.com/',
    'https://example.com/#fragment',
    `https://example.com/${'a'.repeat(400)}`,
  ];

  test.each(urls)('the URL %j is refused, and not shown', async (bad) => {
    const { id } = await create();
    for (const answer of [
      await send('POST', '/webhooks', asked({ url: bad })),
      await send('PUT', `/webhooks/${id}`, asked({ url: bad })),
      await send('PATCH', `/webhooks/${id}`, { url: bad }),
    ]) {
      expect([answer.status, Object.keys(answer.body.errors)]).toEqual([400, ['url']]);
      if (bad.length > 12) expect(answer.text).not.toContain(bad);
    }
    expect((await send('GET', `/webhooks/${id}`)).body.url).toBe(url());
  });

  test.each([301, 302, 303, 307, 308])('a redirect with %s is not followed', async (code) => {
    status = code;
    await create();
    await newToken();
    expect(await settle()).toHaveLength(1);
    status = 204;
  });
});

describe('to read more', () => {
  test('no answer after the create shows the secret, and a rotation shows the new one alone', async () => {
    const { id, secret } = await create();
    const { body: rotated } = await send('POST', `/webhooks/${id}/rotate-secret`);
    const answers = [
      await send('GET', `/webhooks/${id}`),
      await send('GET', '/webhooks'),
      await send('PUT', `/webhooks/${id}`, asked()),
      await send('PATCH', `/webhooks/${id}`, { name: 'X' }),
      await send('POST', `/webhooks/${id}/ping`),
      await send('GET', `/webhooks/${id}/deliveries`),
      await send('GET', `/logs?entity_id=${id}`),
    ];
    for (const { text, status: code } of answers) {
      expect(code).toBeLessThan(300);
      expect(text).not.toContain('whsec_');
      for (const each of [secret, rotated.secret]) expect(text).not.toContain(each.slice(6));
    }
  });

  test.each([
    ['GET', ''],
    ['PUT', ''],
    ['PATCH', ''],
    ['DELETE', ''],
    ['POST', '/ping'],
    ['POST', '/rotate-secret'],
    ['GET', '/deliveries'],
    ['POST', '/deliveries/ID/replay'],
  ])('%s /webhooks/{id}%s of another tenant is as one that is not there', async (method, rest) => {
    const { webhook, delivery_id } = await withFailed();
    const other = (await server.newTenant()).api_key;
    const json = { PUT: asked(), PATCH: { status: 'paused' } }[method];
    const ask = (id: string) => send(method, `/webhooks/${id}${rest.replace('ID', delivery_id)}`, json, other);
    const [theirs, none] = [await ask(webhook.id), await ask('6b1f8e0a-3d57-4c92-9e14-5a7c0d2b8f36')];
    expect(theirs.status).toBe(404);
    expect(theirs.body).toEqual({ ...none.body, trace_id: theirs.body.trace_id });
    expect((await send('GET', `/webhooks/${webhook.id}`)).body).toMatchObject({ status: 'enabled', name: 'W' });
  });

  test('a delivery is replayed by its own webhook alone', async () => {
    const { webhook, delivery_id } = await withFailed();
    await settle();
    const { id: other } = await create({ name: 'Other' });
    const replay = (id: string, of: string) => send('POST', `/webhooks/${id}/deliveries/${of}/replay`);
    expect((await replay(other, delivery_id)).status).toBe(404);
    expect((await replay(webhook.id, other)).status).toBe(404);
    expect((await replay(webhook.id, delivery_id)).status).toBe(200);
    expect((await send('GET', `/webhooks/${other}/deliveries`)).body.data).toEqual([]);
  });

  test.each<[string, { permissions?: Permission[]; rules?: object[] }]>([
    ['without token:read', { permissions: ['webhook:create', 'webhook:update'] }],
    [
      'that reads a part',
      {
        permissions: ['webhook:create', 'webhook:update'],
        rules: [{ priority: 1, container: '/pci/low/', transform: 'mask', permissions: ['token:read'] }],
      },
    ],
    [
      'that reads no value',
      {
        permissions: ['webhook:create', 'webhook:update'],
        rules: [{ priority: 1, container: '/', transform: 'redact', permissions: ['token:read'] }],
      },
    ],
  ])('a key %s gets no masks by create, PUT or PATCH, and no webhook that has them', async (_, given) => {
    const key = await keyWith(given);
    const mine = await send('POST', '/webhooks', asked(), key);
    expect(mine.status, mine.text).toBe(201);
    const { id: theirs } = await create({ container: '/pci/' });
    for (const [method, path, json] of [
      ['POST', '/webhooks', asked({ container: '/pci/' })],
      ['PUT', `/webhooks/${mine.body.id}`, asked({ container: '/pci/' })],
      ['PATCH', `/webhooks/${mine.body.id}`, { container: '/' }],
      ['PATCH', `/webhooks/${theirs}`, { url: url('/mine') }],
      ['PUT', `/webhooks/${theirs}`, asked({ url: url('/mine') })],
      ['PATCH', `/webhooks/${theirs}`, { container: null, url: url('/mine') }],
    ] as const)
      expect((await send(method, path, json, key)).status, `${method} ${path}`).toBe(403);
    expect((await send('GET', `/webhooks/${theirs}`)).body).toMatchObject({ url: url(), container: '/pci/' });
  });

  test('a large mask is left out: no body is above its limit', async () => {
    await create({ container: '/' });
    const { id } = await newToken({ data: 'x', mask: 'm'.repeat(BODY_BYTES_MAX) });
    const [event] = await settle();
    expect(event?.body.byteLength).toBeLessThan(1_000);
    expect(JSON.parse(String(event?.body)).data).toMatchObject({ id });
    expect(JSON.parse(String(event?.body)).data.mask).toBeUndefined();
  });
});

describe('to forge an event', () => {
  test.each([
    ['a line end in the name', { name: 'W\r\nwebhook-id: 1' }],
    ['a control character in the name', { name: 'W\u0000' }],
    ['an unknown type', { events: ['token.revealed'] }],
    ['the type of a ping', { events: ['webhook.ping'] }],
    ['a type of another case', { events: ['TOKEN.CREATED'] }],
    ['a container out of its tree', { container: '/pci/../' }],
    ['too many types', { events: Array.from({ length: 100 }, () => 'token.created') }],
  ])('a webhook with %s is a 400', async (_, more) => {
    const answer = await send('POST', '/webhooks', asked(more));
    expect(answer.status, answer.text).toBe(400);
    expect((await send('GET', '/webhooks')).body.data).toEqual([]);
  });

  test('secret, id, tenant and time of a webhook are not chosen by its maker', async () => {
    const [secret, id] = [`whsec_${'A'.repeat(43)}=`, '6b1f8e0a-3d57-4c92-9e14-5a7c0d2b8f36'];
    const chosen = { secret, id, tenant_id: id, status: 'paused', created_at: '2000-01-01T00:00:00Z', created_by: id };
    const made = await create(chosen);
    expect(made).toMatchObject({ tenant_id: tenant.tenant_id, status: 'enabled' });
    for (const [name, value] of Object.entries(chosen)) expect(made[name]).not.toBe(value);
    await send('PUT', `/webhooks/${made.id}`, asked({ secret, status: 'paused' }));
    await send('PATCH', `/webhooks/${made.id}`, { secret, id });
    expect((await send('GET', `/webhooks/${made.id}`)).body).toMatchObject({ id: made.id, status: 'enabled' });
    const [row] = await server.sql('SELECT count(*)::int AS n FROM webhooks WHERE id = $1', [id]);
    expect(row.n).toBe(0);
  });

  test('names do not become headers, and headers of the request are not sent on', async () => {
    await create({ name: 'webhook-id: 1' });
    await server.request('POST', '/tokens', {
      key: tenant.api_key,
      headers: { 'webhook-id': 'mine', 'webhook-signature': 'v1,AAAA', 'x-mine': 'x' },
      json: { data: 'x' },
    });
    const [event] = await settle();
    expect(event?.headers.map(([name]) => name.toLowerCase()).toSorted()).toEqual([
      'connection',
      'content-length',
      'content-type',
      'host',
      'user-agent',
      'webhook-id',
      'webhook-signature',
      'webhook-timestamp',
    ]);
    expect(JSON.stringify(event?.headers)).not.toMatch(/mine|AAAA/);
  });

  test.each([
    ['its type', `event = replace(event, 'token.created', 'token.deleted')`],
    ['its entity', `event = replace(event, '"id":"', '"id":"a')`],
    ['its MAC', `mac = gen_random_uuid()`],
    ['its kept body', `sealed = substr(sealed, 1, length(sealed) - 1)`],
    ['its id', `id = gen_random_uuid()`],
    [
      'its webhook',
      `webhook_id = (SELECT id FROM webhooks WHERE name = 'Other' AND tenant_id = webhook_deliveries.tenant_id)`,
    ],
  ])('a row of which a writer of the database changed %s is not sent', async (_, change) => {
    const { delivery_id } = await withFailed({ container: '/pci/' });
    await create({ name: 'Other', url: url('/other'), events: ['token.deleted'] });
    await server.sql(`UPDATE webhook_deliveries SET ${change} WHERE id = $1`, [delivery_id]);
    server.logLines.length = 0;
    expect(await settle()).toEqual([]);
    const states = 'SELECT state, error, attempts FROM webhook_deliveries WHERE tenant_id = $1';
    expect(await server.sql(states, [tenant.tenant_id])).toEqual([{ state: 'dead', error: 'TAMPERED', attempts: 2 }]);
    const lines = server.logLines.filter((line) => line.includes('"alarm"'));
    expect(lines).toEqual([expect.stringMatching(/"alarm":"tampered","table":"webhook_deliveries"/)]);
  });

  test('a changed row ends at once and holds up no later event, and is sent again if put back', async () => {
    const { webhook, delivery_id } = await withFailed({ events: ['token.created', 'token.updated'] });
    const [{ entity_id, sealed }] = await server.sql('SELECT entity_id, sealed FROM webhook_deliveries WHERE id = $1', [
      delivery_id,
    ]);
    expect((await send('PATCH', `/tokens/${entity_id}`, { metadata: { a: '1' } })).status).toBe(200);
    await server.sql(`UPDATE webhook_deliveries SET sealed = '\\x00' WHERE id = $1`, [delivery_id]);
    expect((await settle()).map(({ body }) => JSON.parse(String(body)).type)).toEqual(['token.updated']);
    const { data } = (await send('GET', `/webhooks/${webhook.id}/deliveries?state=dead`)).body;
    expect(data).toEqual([expect.objectContaining({ id: delivery_id, error: 'TAMPERED' })]);
    await server.sql('UPDATE webhook_deliveries SET sealed = $2 WHERE id = $1', [delivery_id, sealed]);
    expect((await send('POST', `/webhooks/${webhook.id}/deliveries/${delivery_id}/replay`)).status).toBe(200);
    expect((await settle()).map(({ body }) => JSON.parse(String(body)).type)).toEqual(['token.created']);
  });

  /** As the notice of a change says it to each process. */
  const announce = (): void => server.ctx.changes.announce({ subject: 'webhook', id: tenant.tenant_id });
  const alarms = (): string[] => server.logLines.filter((line) => line.includes('"alarm"'));
  const statesOf = (webhook_id: string) =>
    server.sql('SELECT state, error, attempts FROM webhook_deliveries WHERE webhook_id = $1', [webhook_id]);

  test.each([
    ['its container', `container = '/'`],
    ['its types', `events = '{token.created,token.updated}'`],
    [
      'its destination',
      `sealed = (SELECT sealed FROM webhooks o WHERE o.name = 'Other' AND o.tenant_id = w.tenant_id)`,
    ],
    ['its MAC', `mac = NULL`],
  ])('a webhook of which a writer of the database changed %s gets nothing until it is put back', async (_, change) => {
    const { webhook, delivery_id } = await withFailed({ container: '/pci/' });
    await create({ name: 'Other', url: url('/other'), events: ['token.deleted'] });
    const [before] = await server.sql('SELECT container, events, sealed, mac FROM webhooks WHERE id = $1', [
      webhook.id,
    ]);
    await server.sql(`UPDATE webhooks w SET ${change} WHERE id = $1`, [webhook.id]);
    announce();
    server.logLines.length = 0;
    expect(await settle()).toEqual([]);
    expect(await statesOf(webhook.id)).toEqual([{ state: 'dead', error: 'TAMPERED', attempts: 2 }]);
    expect(alarms()).toEqual([expect.stringMatching(/"alarm":"tampered".*"table":"webhooks"/)]);
    const { container, events, sealed, mac } = before;
    const restore = 'UPDATE webhooks SET container = $2, events = $3, sealed = $4, mac = $5 WHERE id = $1';
    await server.sql(restore, [webhook.id, container, events, sealed, mac]);
    announce();
    expect((await send('POST', `/webhooks/${webhook.id}/deliveries/${delivery_id}/replay`)).status).toBe(200);
    expect((await settle()).map(({ body }) => JSON.parse(String(body)).id)).toEqual([delivery_id]);
  });

  test('after a rollback of the database what waits is sent when the servers take its history', async () => {
    const { webhook } = await withFailed();
    const other = await create({ name: 'Other' });
    const [tenantRow] = await server.sql('SELECT auth_version, mac FROM tenants WHERE id = $1', [tenant.tenant_id]);
    const [row] = await server.sql('SELECT mac FROM webhooks WHERE id = $1', [webhook.id]);
    expect((await send('DELETE', `/webhooks/${other.id}`)).status).toBe(204);
    const { auth_version, mac } = tenantRow;
    await server.sql('UPDATE tenants SET auth_version = $2, mac = $3 WHERE id = $1', [
      tenant.tenant_id,
      auth_version,
      mac,
    ]);
    await server.sql('UPDATE webhooks SET mac = $2 WHERE id = $1', [webhook.id, row.mac]);
    announce();
    server.logLines.length = 0;
    expect(await settle()).toEqual([]);
    expect(await statesOf(webhook.id)).toEqual([{ state: 'waiting', error: 'STATUS', attempts: 2 }]);
    expect(alarms()).toEqual([expect.stringMatching(/"alarm":"tampered".*"table":"tenants"/)]);
    server.ctx.db.signedRows.forget();
    server.clock.offsetMs += 45_000;
    expect(await settle()).toHaveLength(1);
  });

  test('a row of which a writer of the database changed nothing is sent', async () => {
    await withFailed({ container: '/pci/' });
    const [event] = await settle();
    expect(JSON.parse(String(event?.body)).data.mask).toBe('XXXXXXXXXXXX4242');
  });
});
