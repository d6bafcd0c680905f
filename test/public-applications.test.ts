// Public applications: their keys are in browsers. What they may hold and create, from which pages, and how much in a minute.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, startServer, type TestServer } from './support/server.ts';

const SHOP = 'https://shop.example.com';
const CARD = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };
const PUBLIC = { name: 'Shop', type: 'public', permissions: ['token:create'] };

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const make = (json: object): Promise<Answer> => server.request('POST', '/applications', { json });

const newKey = async (more: object = { allowed_origins: [SHOP] }): Promise<string> => {
  const made = await make({ ...PUBLIC, ...more });
  expect(made.status).toBe(201);
  return made.body.key;
};

const create = (
  key: string,
  json: unknown = CARD,
  headers: Record<string, string> = { origin: SHOP },
  path = '/tokens',
) => server.request('POST', path, { key, json, headers });

const errorsOf = ({ status, body }: Answer): [number, string[]] => [status, Object.keys(body.errors ?? {}).toSorted()];

describe('a public application', () => {
  test('shows its origins, container and limit', async () => {
    const json = { ...PUBLIC, allowed_origins: [SHOP], containers: ['/Shop/'], creates_per_minute: 10 };
    const made = (await make(json)).body;
    const shown = { allowed_origins: [SHOP], containers: ['/shop/'], creates_per_minute: 10 };
    expect(made).toMatchObject(shown);
    expect((await server.request('GET', `/applications/${made.id}`)).body).toMatchObject(shown);
    const changed = { name: 'Shop', permissions: ['token:create'], allowed_origins: ['https://two.example.com'] };
    const after = (await server.request('PUT', `/applications/${made.id}`, { json: changed })).body;
    expect(after).toMatchObject({ allowed_origins: ['https://two.example.com'], creates_per_minute: 50 });
    expect(after).not.toHaveProperty('containers');
  });

  test.each([
    ['another permission', { permissions: ['token:create', 'token:read'] }, ['permissions']],
    ['token:update', { permissions: ['token:update'] }, ['permissions']],
    ['a rule', { rules: [{ priority: 1, container: '/', transform: 'mask', permissions: ['token:read'] }] }, ['rules']],
    ['an origin without https', { allowed_origins: ['http://shop.example.com'] }, ['allowed_origins[0]']],
    ['an origin with a path', { allowed_origins: [`${SHOP}/cart`] }, ['allowed_origins[0]']],
    ['a limit of none', { creates_per_minute: 0 }, ['creates_per_minute']],
    ['two containers', { containers: ['/a/', '/b/'] }, ['containers']],
  ])('cannot have %s', async (_what, more, places) => {
    expect(errorsOf(await make({ ...PUBLIC, ...more }))).toEqual([400, places]);
    const { id } = (await make(PUBLIC)).body;
    const json = { name: 'Shop', permissions: ['token:create'], ...more };
    expect(errorsOf(await server.request('PUT', `/applications/${id}`, { json }))).toEqual([400, places]);
  });

  test('is the only kind with origins, a container and a limit of creates', async () => {
    const settings = { allowed_origins: [SHOP], containers: ['/a/'], creates_per_minute: 5 };
    const places = ['allowed_origins', 'containers', 'creates_per_minute'];
    for (const type of ['private', 'management'])
      expect(errorsOf(await make({ ...PUBLIC, type, ...settings }))).toEqual([400, places]);
    expect((await make({ ...PUBLIC, type: 'private' })).body).not.toHaveProperty('allowed_origins');
  });

  test('holds no more than a public one may, whatever its row says', async () => {
    const id = (await make(PUBLIC)).body.id;
    const { key } = (await server.request('POST', `/applications/${id}/regenerate`)).body;
    await server.sql(`UPDATE applications SET permissions = ARRAY['token:create', 'token:read'] WHERE id = $1`, [id]);
    await server.sign(server.tenant.tenant_id);
    const token = (await create(key, CARD, {})).body.id;
    expect((await server.request('GET', `/tokens/${token}`, { key })).status).toBe(403);
  });
});

describe('its key', () => {
  test('creates tokens in its container, and is told nothing that depends on what is stored', async () => {
    const key = await newKey({ allowed_origins: [SHOP], containers: ['/shop/'] });
    await server.request('POST', '/tokens', { json: CARD });
    const made = await create(key, { ...CARD, metadata: { order: '1' } });
    expect([made.status, Object.keys(made.body).toSorted()]).toEqual([201, ['id', 'mask', 'type']]);
    const { containers, metadata } = (await server.request('GET', `/tokens/${made.body.id}`)).body;
    expect([containers, metadata]).toEqual([['/shop/'], { order: '1' }]);
    for (const more of [{ deduplicate_token: true }, { id: 'chosen' }, { containers: ['/pci/'] }])
      expect(errorsOf(await create(key, { ...CARD, ...more }))).toEqual([400, Object.keys(more)]);
  });

  test('does nothing else', async () => {
    const key = await newKey();
    for (const [method, path] of [
      ['GET', '/tokens'],
      ['POST', '/detokenize'],
      ['POST', '/sessions'],
      ['GET', '/applications/key'],
      ['GET', '/permissions'],
      ['POST', '/proxy'],
    ] as const) {
      const refused = await server.request(method, path, { key, headers: { origin: SHOP } });
      expect([path, refused.status]).toEqual([path, 403]);
    }
  });

  test('works for the pages of its origins, and without any for clients that are no pages', async () => {
    const listed = await newKey();
    const made = await create(listed);
    expect([made.status, made.headers.get('access-control-allow-origin')]).toEqual([201, SHOP]);
    for (const headers of [
      { origin: 'https://other.example.com' },
      { origin: server.base_url },
      { origin: 'null' },
      {},
    ])
      expect((await create(listed, CARD, headers as Record<string, string>)).status).toBe(403);
    const open = await newKey({});
    expect((await create(open, CARD, {})).status).toBe(201);
    expect((await create(open)).status).toBe(403);
  });
});

test('a refusal can be read by the pages of listed origins, and by no other', async () => {
  const key = await newKey({ allowed_origins: [SHOP], rate_limit: { requests_per_second: 1, burst: 1 } });
  server.clock.stoppedAtMs = Date.now();
  try {
    expect((await create(key)).status).toBe(201);
    for (const [origin, allowed] of [
      [SHOP, SHOP],
      ['https://other.example.com', null],
      [`${SHOP}.`, null],
      [`${SHOP}:8443`, null],
    ] as const) {
      const refused = await create(key, CARD, { origin });
      expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([
        allowed ? 429 : 403,
        allowed,
      ]);
      expect(refused.headers.get('vary')).toContain('origin');
    }
  } finally {
    server.clock.stoppedAtMs = undefined;
  }
  const large = await create(await newKey(), 'x'.repeat(1_100_000), { origin: SHOP }, '/tokenize');
  expect([large.status, large.headers.get('access-control-allow-origin')]).toEqual([413, SHOP]);
});

describe('tokens in a minute', () => {
  test('are limited for each key and address, in one count of all processes', async () => {
    const key = await newKey({ allowed_origins: [SHOP], creates_per_minute: 4 });
    const other = await startServer({ DATABASE_URL: server.databaseUrl });
    try {
      const two = await create(key, [CARD, CARD], { origin: SHOP }, '/tokenize');
      expect(two.status).toBe(200);
      expect(two.headers.get('ratelimit-policy')).toBe('"creates_per_minute";q=4;w=60');
      expect(two.headers.get('ratelimit')).toMatch(/^"creates_per_minute";r=2;t=\d+$/);
      const third = await other.request('POST', '/tokens', { key, json: CARD, headers: { origin: SHOP } });
      expect(third.status).toBe(201);
      expect((await create(key)).status).toBe(201);
      const refused = await create(key);
      expect(refused.status).toBe(429);
      expect(refused.body.detail).toContain('creates_per_minute');
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(refused.headers.get('access-control-allow-origin')).toBe(SHOP);
      expect(
        await server.sql(
          `SELECT count(*)::int AS n FROM tokens WHERE created_by = (
        SELECT application_id FROM api_keys WHERE public_id = $1)`,
          [key.split('_')[2]],
        ),
      ).toEqual([{ n: 4 }]);
      expect((await create(await newKey())).status).toBe(201);
      server.clock.offsetMs = 61_000;
      expect((await create(key)).status).toBe(201);
    } finally {
      server.clock.offsetMs = 0;
      await other.close();
    }
  });
});
