// Sessions for browsers: who may create them, what their keys may do, from which pages, how often and for how long.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeBadBodies, UNKNOWN_ID } from './support/resource.ts';
import { type Answer, startServer, type TestServer } from './support/server.ts';
import { withoutDrawn } from './support/text.ts';

const SHOP = 'https://shop.example.com';
const CARD = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const newSession = async (more: object = {}): Promise<{ id: string; session_key: string; [name: string]: any }> => {
  const made = await server.request('POST', '/sessions', {
    json: { allowed_origins: [SHOP], types: ['card'], ...more },
  });
  expect(made.status).toBe(201);
  return made.body;
};

const create = (key: string, json: unknown, headers: Record<string, string> = { origin: SHOP }, path = '/tokens') =>
  server.request('POST', path, { key, json, headers });

const errorsOf = ({ status, body }: Answer): [number, string[]] => [status, Object.keys(body.errors ?? {})];

describe('POST /sessions', () => {
  test('answers with a key that is stored as a digest, and is in no log', async () => {
    const session = await newSession({ metadata: { order: '4711' }, expires_in: '90s', max_tokens: 2 });
    expect(session.session_key).toMatch(/^svc_sess_[0-9A-Za-z]{16}_[0-9A-Za-z]{39}$/);
    expect(session).toMatchObject({ allowed_origins: [SHOP], types: ['card'], max_tokens: 2, tokens: [] });
    expect(Date.parse(session['expires_at']) - Date.parse(session['created_at'])).toBe(90_000);
    const secret = session.session_key.split('_')[3] as string;
    expect(JSON.stringify(await server.sql('SELECT * FROM collect_sessions'))).not.toContain(secret);
    expect(server.logLines.join('')).not.toContain(secret);
    const logged = await server.sql(`SELECT operation, message FROM audit_log WHERE $1 = ANY(entity_ids)`, [
      session.id,
    ]);
    expect(logged).toEqual([{ operation: 'create', message: 'Session created' }]);
  });

  test('has defaults of five tokens and 15 minutes', async () => {
    const session = await newSession();
    expect(session['max_tokens']).toBe(5);
    expect(Date.parse(session['expires_at']) - Date.parse(session['created_at'])).toBe(900_000);
    expect(session).not.toHaveProperty('collect_url');
  });

  test('needs session:create, and token:create on the containers of the tokens', async () => {
    const json = { allowed_origins: [SHOP], types: ['card'] };
    const without = await server.newKey(server.tenant, { permissions: ['token:create'] });
    expect((await server.request('POST', '/sessions', { key: without.api_key, json })).status).toBe(403);
    const elsewhere = await server.newKey(server.tenant, {
      permissions: ['session:create'],
      rules: [{ priority: 1, container: '/general/', transform: 'mask', permissions: ['token:create'] }],
    });
    expect((await server.request('POST', '/sessions', { key: elsewhere.api_key, json })).status).toBe(403);
    const there = { ...json, containers: ['/general/cards/'] };
    expect((await server.request('POST', '/sessions', { key: elsewhere.api_key, json: there })).status).toBe(201);
  });

  test('with return_url has the address of a page, once', async () => {
    const { id, collect_url } = await newSession({ return_url: `${SHOP}/paid?order=1` });
    expect(collect_url).toMatch(/\/collect\/[0-9A-Za-z]{33}$/);
    const read = await server.request('GET', `/sessions/${id}`);
    expect(read.body).not.toHaveProperty('collect_url');
    expect(read.body).not.toHaveProperty('session_key');
  });
});

describeBadBodies(
  () => server,
  '/sessions',
  async () => ({ post: { allowed_origins: [SHOP], types: ['card'] } }),
  [
    ['no origins', { allowed_origins: [] }, 'allowed_origins'],
    ['an origin with a path', { allowed_origins: ['https://shop.example.com/'] }, 'allowed_origins[0]'],
    ['an origin in capitals', { allowed_origins: ['https://SHOP.example.com'] }, 'allowed_origins[0]'],
    ['an origin without https', { allowed_origins: ['http://shop.example.com'] }, 'allowed_origins[0]'],
    ['a wildcard', { allowed_origins: ['*'] }, 'allowed_origins[0]'],
    [
      '51 origins',
      { allowed_origins: Array.from({ length: 51 }, (_, at) => `https://s${at}.example`) },
      'allowed_origins',
    ],
    ['no types', { types: [] }, 'types'],
    ['an unknown type', { types: ['cards'] }, 'types[0]'],
    ['no tokens', { max_tokens: 0 }, 'max_tokens'],
    ['101 tokens', { max_tokens: 101 }, 'max_tokens'],
    ['61 minutes', { expires_in: '61m' }, 'expires_in'],
    ['no duration', { expires_in: 'soon' }, 'expires_in'],
    ['a return_url elsewhere', { return_url: 'https://other.example.com/' }, 'return_url'],
    ['a return_url that is a script', { return_url: 'javascript:alert(1)' }, 'return_url'],
    ['two containers', { containers: ['/a/', '/b/'] }, 'containers'],
    ['metadata that is no map', { metadata: ['x'] }, 'metadata'],
  ],
);

describe('a session key', () => {
  test('creates tokens, and is told nothing that depends on what is stored', async () => {
    await server.request('POST', '/tokens', { json: CARD });
    const session = await newSession({ metadata: { order: '1', shop: 'a' }, containers: ['/shop/'] });
    const made = await create(session.session_key, { ...CARD, metadata: { order: '2', note: 'n' } });
    expect(made.status).toBe(201);
    expect(Object.keys(made.body).toSorted()).toEqual(['id', 'mask', 'type']);
    expect(made.body).toMatchObject({ type: 'card', mask: { number: 'XXXXXXXXXXXX4242' } });
    const token = (await server.request('GET', `/tokens/${made.body.id}`)).body;
    expect(token).toMatchObject({ containers: ['/shop/'], metadata: { order: '1', shop: 'a', note: 'n' } });
    expect(token.created_by).toBe(session.id);
    const logged = await server.sql(
      `SELECT actor_id, actor_type FROM audit_log WHERE $1 = ANY(entity_ids) AND operation = 'create'`,
      [made.body.id],
    );
    expect(logged).toEqual([{ actor_id: session.id, actor_type: 'session' }]);
    expect((await server.request('GET', `/sessions/${session.id}`)).body.tokens).toEqual([made.body.id]);
  });

  test('creates no token with more metadata than a token may have', async () => {
    const keysOf = (name: string, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`${name}${at}`, 'x']));
    const session = await newSession({ metadata: keysOf('shop', 30) });
    expect((await create(session.session_key, { ...CARD, metadata: keysOf('page', 20) })).status).toBe(201);
    const refused = await create(session.session_key, { ...CARD, metadata: keysOf('page', 21) });
    expect([refused.status, Object.keys(refused.body.errors)]).toEqual([400, ['metadata']]);
    expect((await create(session.session_key, { ...CARD, metadata: keysOf('shop', 30) })).status).toBe(201);
  });

  test('gets the same answer where the tenant deduplicates', async () => {
    const tenant = await server.newTenant();
    await server.request('PUT', '/tenants/self', {
      key: tenant.api_key,
      json: { name: 'Test', settings: { deduplicate_tokens: 'true' } },
    });
    const options = { key: tenant.api_key, json: { allowed_origins: [SHOP], types: ['card'] } };
    const { session_key } = (await server.request('POST', '/sessions', options)).body;
    const [one, other] = [await create(session_key, CARD), await create(session_key, CARD)];
    expect(other.body.id).not.toBe(one.body.id);
    expect(other.body).not.toHaveProperty('_extras');
  });

  test('creates in POST /tokenize what its types allow', async () => {
    const { session_key } = await newSession({ types: ['card', 'token'] });
    const made = await create(session_key, { card: CARD, name: 'Ada' }, { origin: SHOP }, '/tokenize');
    expect(made.status).toBe(200);
    expect(Object.keys(made.body.card).toSorted()).toEqual(['id', 'mask', 'type']);
    expect(made.body.name).toMatch(/^[0-9a-f-]{36}$/);
    const cards = await newSession();
    const refused = await create(cards.session_key, { card: CARD, name: 'Ada' }, { origin: SHOP }, '/tokenize');
    expect(errorsOf(refused)).toEqual([400, ['name.type']]);
  });

  test.each([
    ['id', { id: 'chosen' }],
    ['mask', { mask: '{{ data }}' }],
    ['fingerprint_expression', { fingerprint_expression: '{{ data.number }}' }],
    ['search_indexes', { search_indexes: ['{{ data.number }}'] }],
    ['deduplicate_token', { deduplicate_token: true }],
    ['containers', { containers: ['/pci/'] }],
  ])('may not send %s', async (name, more) => {
    const { session_key } = await newSession();
    expect(errorsOf(await create(session_key, { ...CARD, ...more }))).toEqual([400, [name]]);
  });

  test('may set an end of at most a day', async () => {
    const { session_key } = await newSession();
    const inHours = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString();
    expect(errorsOf(await create(session_key, { ...CARD, expires_at: inHours(25) }))).toEqual([400, ['expires_at']]);
    const made = await create(session_key, { ...CARD, expires_at: inHours(23) });
    expect(Object.keys(made.body).toSorted()).toEqual(['expires_at', 'id', 'mask', 'type']);
  });

  test('may do nothing else', async () => {
    const { session_key } = await newSession({ types: ['card', 'token'] });
    const { id } = (await create(session_key, CARD)).body;
    const refused = server.routes.filter(
      ({ config, method }) => config?.permission && !config.servesBrowsers && method !== 'HEAD',
    );
    expect(refused.length).toBeGreaterThan(40);
    for (const { method, url } of refused) {
      const path = url.replace(':id', id).replace(/:\w+/g, UNKNOWN_ID).replace('*', 'x');
      const answer = await server.request(String(method), path, { key: session_key, headers: { origin: SHOP } });
      expect([`${String(method)} ${url}`, answer.status]).toEqual([`${String(method)} ${url}`, 403]);
      expect(answer.headers.get('access-control-allow-origin')).toBeNull();
    }
  });

  test('may create so many tokens in all, also at once and in one body', async () => {
    const { session_key, id } = await newSession({ max_tokens: 3 });
    const answers = await Promise.all(Array.from({ length: 8 }, () => create(session_key, CARD)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 201, 201, 403, 403, 403, 403, 403]);
    expect((await server.request('GET', `/sessions/${id}`)).body.tokens).toHaveLength(3);
    const other = await newSession({ max_tokens: 3 });
    const four = [CARD, CARD, CARD, CARD];
    expect((await create(other.session_key, four, { origin: SHOP }, '/tokenize')).status).toBe(403);
    expect((await create(other.session_key, four.slice(1), { origin: SHOP }, '/tokenize')).status).toBe(200);
  });

  test('ends with its time, with its application and with its tenant', async () => {
    const { session_key } = await newSession({ expires_in: '5m' });
    expect((await create(session_key, CARD)).status).toBe(201);
    server.clock.offsetMs += 300_000;
    const ended = await create(session_key, CARD);
    expect([ended.status, ended.headers.get('access-control-allow-origin')]).toEqual([401, SHOP]);
    const elsewhere = await create(session_key, CARD, { origin: 'https://other.example.com' });
    expect([elsewhere.status, elsewhere.headers.get('access-control-allow-origin')]).toEqual([401, null]);
    server.clock.offsetMs = 0;

    const maker = await server.newKey(server.tenant, { permissions: ['session:create', 'token:create'] });
    const json = { allowed_origins: [SHOP], types: ['card'] };
    const made = (await server.request('POST', '/sessions', { key: maker.api_key, json })).body;
    expect((await create(made.session_key, CARD)).status).toBe(201);
    await server.request('DELETE', `/applications/${maker.application_id}`);
    expect((await create(made.session_key, CARD)).status).toBe(401);

    const tenant = await server.newTenant();
    const last = (await server.request('POST', '/sessions', { key: tenant.api_key, json })).body;
    expect((await create(last.session_key, CARD)).status).toBe(201);
    await server.request('DELETE', '/tenants/self', { key: tenant.api_key });
    expect((await create(last.session_key, CARD)).status).toBe(401);
  });

  test('of another vault, or with a typo, is refused like any other key', async () => {
    const { session_key } = await newSession();
    const typo = session_key.slice(0, -1) + (session_key.endsWith('0') ? '1' : '0');
    const answer = await create(typo, CARD);
    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([401, null]);
  });
});

describe('pages of other origins', () => {
  test('may use the key if the session lists them, and the vault its own frames', async () => {
    const { session_key, id } = await newSession({ allowed_origins: [SHOP, 'http://localhost:3000'] });
    for (const origin of [SHOP, 'http://localhost:3000', server.base_url]) {
      const ofFrame = origin === server.base_url && { 'svc-fields-session': id };
      const made = await create(session_key, CARD, { origin, ...ofFrame });
      expect([made.status, made.headers.get('access-control-allow-origin')]).toEqual([201, origin]);
      expect(made.headers.get('vary')).toContain('origin');
      expect(made.headers.get('access-control-allow-credentials')).toBeNull();
    }
    for (const origin of [
      'https://shop.example.com.evil.example',
      'https://example.com',
      'null',
      'http://shop.example.com',
    ]) {
      const refused = await create(session_key, CARD, { origin });
      expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([403, null]);
    }
    expect((await create(session_key, CARD, {})).status).toBe(403);
  });

  test('can read the problems of their requests', async () => {
    const { session_key } = await newSession();
    const refused = await create(session_key, { ...CARD, data: {} });
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([400, SHOP]);
  });

  test.each(['/tokens', '/tokenize'])('preflight POST %s, and nothing else', async (path) => {
    const preflight = (at: string, method: string) =>
      server.request('OPTIONS', at, { key: null, headers: { origin: SHOP, 'access-control-request-method': method } });
    const { status, headers } = await preflight(path, 'POST');
    expect(status).toBe(204);
    expect(headers.get('access-control-allow-origin')).toBe(SHOP);
    expect(headers.get('access-control-allow-methods')).toBe('POST');
    expect(headers.get('access-control-allow-headers')).toContain('svc-api-key');
    expect(headers.get('access-control-max-age')).toBe('600');
    expect(headers.get('vary')).toContain('origin');
    for (const [at, method] of [
      [path, 'GET'],
      ['/detokenize', 'POST'],
      ['/sessions', 'POST'],
      ['/tokens/search', 'POST'],
      ['/proxy', 'POST'],
    ] as const)
      expect((await preflight(at, method)).headers.get('access-control-allow-origin')).toBeNull();
  });
});

test('sessions are swept a day after they end', async () => {
  const { id } = await newSession({ expires_in: '1m' });
  const { sweep } = await import('../src/modules/tokens/sweep.ts');
  server.clock.offsetMs = 3_600_000;
  await sweep(server.ctx);
  expect((await server.request('GET', `/sessions/${id}`)).status).toBe(200);
  server.clock.offsetMs = 25 * 3_600_000;
  await sweep(server.ctx);
  server.clock.offsetMs = 0;
  expect((await server.request('GET', `/sessions/${id}`)).status).toBe(404);
});

describe('the page for redirects', () => {
  const RETURN_URL = `${SHOP}/paid?order=1`;
  const typed = { number: '4242 4242 4242 4242', expiry: '12/30', cvc: '123' };

  const newPage = async (more: object = {}): Promise<{ id: string; path: string }> => {
    const { id, collect_url } = await newSession({ return_url: RETURN_URL, ...more });
    return { id, path: new URL(collect_url).pathname };
  };
  const send = (path: string, form: Record<string, string>, headers: Record<string, string> = {}) =>
    server.request('POST', path, {
      key: null,
      body: new URLSearchParams(form).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    });

  test('stores a card once, and leads back with the id of the session', async () => {
    const { id, path } = await newPage();
    const page = await server.request('GET', path, { key: null });
    expect(page.status).toBe(200);
    expect(page.text).not.toContain('<script');
    expect(page.text).not.toContain(path.split('/')[2]);
    expect(page.headers.get('content-security-policy')).toBe(
      `default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self' ${SHOP}; base-uri 'none'; frame-ancestors 'none'`,
    );
    expect(page.headers.get('cache-control')).toBe('no-store');
    expect(page.headers.get('referrer-policy')).toBe('no-referrer');
    const sent = await send(path, typed);
    expect([sent.status, sent.headers.get('location')]).toEqual([303, `${RETURN_URL}&session=${id}`]);
    const { tokens } = (await server.request('GET', `/sessions/${id}`)).body;
    expect(tokens).toHaveLength(1);
    expect((await server.request('GET', `/tokens/${tokens[0]}`)).body).toMatchObject({
      type: 'card',
      data: { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 },
      created_by: id,
    });
    expect((await send(path, typed)).status).toBe(410);
    expect((await server.request('GET', path, { key: null })).status).toBe(410);
    expect(server.logLines.join('')).not.toContain('4242424242424242');
  });

  test('stores one card when the form is sent twice at once', async () => {
    const { id, path } = await newPage();
    const answers = await Promise.all(Array.from({ length: 5 }, () => send(path, typed)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([303, 410, 410, 410, 410]);
    expect((await server.request('GET', `/sessions/${id}`)).body.tokens).toHaveLength(1);
  });

  test.each([
    ['number', '4242 4242 4242 4241'],
    ['number', ''],
    ['expiry', '13/30'],
    ['expiry', '01/20'],
    ['expiry', 'soon'],
    ['cvc', '12'],
  ])('asks again for %s %s, without what was typed', async (name, value) => {
    const { path } = await newPage();
    const page = await send(path, { ...typed, [name]: value });
    expect(page.status).toBe(422);
    expect(page.text).toContain(`id="${name}-problem"`);
    expect(page.text.match(/-problem"[^>]*>/g)).toHaveLength(2);
    expect(withoutDrawn(page.text)).not.toContain('4242');
    expect((await send(path, typed)).status).toBe(303);
  });

  test('takes bank data and single values', async () => {
    const bank = await newPage({ types: ['bank'] });
    expect((await send(bank.path, { routing_number: '110000000', account_number: '12-34 567' })).status).toBe(303);
    const value = await newPage({ types: ['social_security_number'] });
    expect((await send(value.path, { value: 'x' })).status).toBe(422);
    expect((await send(value.path, { value: '123-45-6789' })).status).toBe(303);
  });

  test('ends with the session, and is not sent from other sites', async () => {
    const { path } = await newPage({ expires_in: '1m' });
    expect((await send(path, typed, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    server.clock.offsetMs = 60_000;
    expect((await send(path, typed)).status).toBe(410);
    server.clock.offsetMs = 0;
    expect((await server.request('GET', '/collect/unknown', { key: null })).status).toBe(410);
  });
});
