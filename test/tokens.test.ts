// /tokens over HTTP: create, list under access rules, merge patches, delete.
import { beforeAll, describe, expect, test } from 'vitest';
import { permissions } from '../src/modules/access/permissions.ts';
import { type SharedServer, type TestTenant, useServer } from './support/server.ts';
import { withoutDrawn } from './support/text.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const HOUR_MS = 3_600_000;

const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };
const otherNumber = '5555555555554444';
const maskedCard = { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 };

const post = (tenant: TestTenant, body: unknown) =>
  server.request('POST', '/tokens', { key: tenant.api_key, json: body });

const create = async (tenant: TestTenant, body: unknown) => {
  const answer = await post(tenant, body);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const read = (tenant: TestTenant, id: string) =>
  server.request('GET', `/tokens/${encodeURIComponent(id)}`, { key: tenant.api_key });

const list = async (tenant: TestTenant, query = '') => {
  const answer = await server.request('GET', `/tokens${query}`, { key: tenant.api_key });
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

const idsOf = (page: { data: { id: string }[] }) => page.data.map(({ id }) => id);

const search = async (tenant: TestTenant, query: string) => {
  const answer = await server.request('POST', '/tokens/search', { key: tenant.api_key, json: { query } });
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

const patch = (tenant: TestTenant, id: string, body: unknown, headers: Record<string, string> = {}) =>
  server.request('PATCH', `/tokens/${encodeURIComponent(id)}`, {
    key: tenant.api_key,
    headers: { 'content-type': 'application/merge-patch+json', ...headers },
    body: JSON.stringify(body),
  });

const change = async (tenant: TestTenant, id: string, body: unknown) => {
  const answer = await patch(tenant, id, body);
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

const end = (tenant: TestTenant, id: string) =>
  server.request('DELETE', `/tokens/${encodeURIComponent(id)}`, { key: tenant.api_key });

/** A key that sees the values of its tenant, security codes among them. */
const newRevealer = (tenant: TestTenant) =>
  server.newKey(tenant, {
    rules: [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:search'] }],
  });

/** What was done to a token, oldest first, as the log says. */
const operationsOf = async (tenant: TestTenant, id: string): Promise<string[]> => {
  const path = `/logs?size=100&outcome=success&entity_id=${encodeURIComponent(id)}`;
  const answer = await server.request('GET', path, { key: tenant.api_key });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.data.map(({ operation }: { operation: string }) => operation).toReversed();
};

/** A tenant whose key may do everything and sees the value of every token. */
const newRevealingTenant = (): Promise<TestTenant> =>
  server.newTenant({
    permissions: [...permissions],
    rules: [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:search'] }],
  });

/** Everything stored of a tenant's tokens, and of what was done. */
const storedOf = async (tenant: TestTenant) => ({
  tokens: await server.sql('SELECT * FROM tokens WHERE tenant_id = $1 ORDER BY id', [tenant.tenant_id]),
  cvcs: await server.sql('SELECT * FROM token_cvcs WHERE tenant_id = $1 ORDER BY id', [tenant.tenant_id]),
  counts: await server.sql('SELECT * FROM token_counts WHERE tenant_id = $1 ORDER BY id', [tenant.tenant_id]),
  log: await server.sql("SELECT * FROM audit_log WHERE tenant_id = $1 AND outcome = 'success' ORDER BY id", [
    tenant.tenant_id,
  ]),
});

/** Runs with the server's clock put forward. */
const later = async <T>(ms: number, work: () => Promise<T>): Promise<T> => {
  server.clock.offsetMs += ms;
  try {
    return await work();
  } finally {
    server.clock.offsetMs -= ms;
  }
};

const inAnHour = () => new Date(Date.now() + HOUR_MS).toISOString();

describe('POST /tokens makes a token', () => {
  test('201 with the record, its Location, and a log entry', async () => {
    const tenant = await server.newTenant();
    const answer = await post(tenant, { type: 'card', data: card, metadata: { order: '1' } });
    expect(answer.status, answer.text).toBe(201);
    expect(answer.body).toMatchObject({
      id: expect.stringMatching(uuid),
      tenant_id: tenant.tenant_id,
      type: 'card',
      data: maskedCard,
      mask: maskedCard,
      containers: ['/pci/high/'],
      metadata: { order: '1' },
      created_by: tenant.application_id,
    });
    expect(withoutDrawn(answer.text)).not.toContain('737');
    expect(answer.headers.get('location')).toBe(`/tokens/${answer.body.id}`);
    const located = await server.request('GET', answer.headers.get('location') ?? '', { key: tenant.api_key });
    expect(located.body).toEqual(answer.body);
    expect(await operationsOf(tenant, answer.body.id)).toEqual(['create', 'read']);
  });

  test('without a type it is a generic token, whose value the answer does not hold', async () => {
    const token = await create(server.tenant, { data: 'Ada' });
    expect(token).toMatchObject({ type: 'token', containers: ['/general/high/'] });
    expect(Object.keys(token)).not.toContain('data');
    expect((await read(server.tenant, token.id)).body.data).toBe('Ada');
  });

  test.each([
    ['token', { any: ['json', 1, null] }, undefined, '/general/high/'],
    [
      'bank',
      { routing_number: '021000021', account_number: '000123456789' },
      { routing_number: '021000021', account_number: 'XXXXXXXX6789' },
      '/bank/high/',
    ],
    ['card', card, maskedCard, '/pci/high/'],
    ['card_number', card.number, 'XXXXXXXXXXXX4242', '/pci/high/'],
    ['us_bank_account_number', '0012345', 'XXX2345', '/bank/high/'],
    ['us_bank_routing_number', '021000021', 'XXXXX0021', '/bank/low/'],
    ['social_security_number', '123-45-6789', 'XXX-XX-6789', '/pii/high/'],
    ['employer_id_number', '12-3456789', 'XX-XXX6789', '/pii/high/'],
  ])(
    '%s is made in its container, masked in the answer and whole for who may see it',
    async (type, data, masked, container) => {
      const token = await create(server.tenant, { type, data });
      expect(token).toMatchObject({ type, containers: [container] });
      expect(token.data).toEqual(masked);
      const revealer = await newRevealer(server.tenant);
      expect((await read(revealer, token.id)).body.data).toEqual(data);
    },
  );

  test('a chosen id is found under its Location, with any characters', async () => {
    const tenant = await server.newTenant();
    const id = 'Größe 7: "ä"; a,b~c!';
    const answer = await post(tenant, { data: 'x', id });
    expect(answer.body.id).toBe(id);
    const located = await server.request('GET', answer.headers.get('location') ?? '', { key: tenant.api_key });
    expect(located.body).toMatchObject({ id, data: 'x' });
  });

  test('a taken id is a 409 and changes nothing; in another tenant it is free', async () => {
    const tenant = await server.newTenant();
    await create(tenant, { data: 'first', id: 'taken-id' });
    const before = await storedOf(tenant);
    expect((await post(tenant, { data: 'second', id: 'taken-id' })).status).toBe(409);
    expect(await storedOf(tenant)).toEqual(before);
    const neighbour = await server.newTenant();
    expect((await create(neighbour, { data: 'third', id: 'taken-id' })).id).toBe('taken-id');
    expect((await read(tenant, 'taken-id')).body.data).toBe('first');
  });

  test.each<[what: string, body: unknown, place: string]>([
    ['no object', ['4242424242424242'], 'body'],
    ['a bare string', '4242424242424242', 'body'],
    ['null', null, 'body'],
    ['no data', { type: 'token' }, 'data'],
    ['an unknown type', { type: 'passport', data: '4242424242424242' }, 'type'],
    ['a type that is no string', { type: 1, data: '4242424242424242' }, 'type'],
    ['a number that fails its check digit', { type: 'card', data: { number: '4242424242424241' } }, 'data.number'],
    ['a month that is none', { type: 'card', data: { ...card, expiration_month: 13 } }, 'data.expiration_month'],
    ['a container without slashes', { data: 'x', containers: ['4242424242424242'] }, 'containers[0]'],
    ['two containers', { data: 'x', containers: ['/a/', '/b/'] }, 'containers'],
    ['metadata that is no string', { data: 'x', metadata: { a: 4242424242424242 } }, 'metadata.a'],
    ['an index without a value', { data: 'x', search_indexes: ['{{ data.none }}'] }, 'search_indexes[0]'],
    ['an unknown filter', { data: 'x', fingerprint_expression: '{{ data | nope }}' }, 'fingerprint_expression'],
    ['a mask that cannot be read', { data: 'x', mask: '{{ data ' }, 'mask'],
    ['an id that is too short', { data: 'x', id: 'ab' }, 'id'],
    ['an id with a slash', { data: 'x', id: 'a/4242424242424242' }, 'id'],
    ['a date in the past', { data: 'x', expires_at: '2020-01-01' }, 'expires_at'],
    ['a day that does not exist', { data: 'x', expires_at: '2090-02-30' }, 'expires_at'],
    ['deduplication that is no boolean', { data: 'x', deduplicate_token: 'true' }, 'deduplicate_token'],
  ])('%s is a 400 that names the place, repeats nothing and stores nothing', async (_, body, place) => {
    const before = await storedOf(server.tenant);
    const answer = await post(server.tenant, body);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([place]);
    expect(answer.text).not.toContain('4242424242424');
    expect(await storedOf(server.tenant)).toEqual(before);
  });

  test('every bad place is named at once', async () => {
    const answer = await post(server.tenant, {
      type: 'card',
      data: { number: '1' },
      containers: ['x'],
      expires_at: 'soon',
    });
    expect(Object.keys(answer.body.errors).toSorted()).toEqual(['containers[0]', 'data.number', 'expires_at']);
  });

  test('deduplication answers with the token that is there, as it is', async () => {
    const tenant = await server.newTenant();
    const request = { type: 'card', data: card, deduplicate_token: true };
    const first = await create(tenant, request);
    expect(first._extras).toEqual({ deduplicated: false });
    const second = await create(tenant, { ...request, metadata: { late: 'x' } });
    expect(second).toMatchObject({ id: first.id, _extras: { deduplicated: true } });
    expect(second.metadata).toBeUndefined();
    expect((await list(tenant)).pagination.total_items).toBe(1);
    const third = await create(tenant, { type: 'card', data: card, deduplicate_token: false });
    expect(third.id).not.toBe(first.id);
  });

  test('what the caller may not set is not set', async () => {
    const foreign = '11111111-1111-4111-8111-111111111111';
    const token = await create(server.tenant, {
      data: 'x',
      tenant_id: foreign,
      created_by: foreign,
      created_at: '2001-01-01T00:00:00Z',
      modified_at: '2001-01-01T00:00:00Z',
      fingerprint: 'mine',
    });
    expect(token).toMatchObject({ tenant_id: server.tenant.tenant_id, created_by: server.tenant.application_id });
    expect(token.created_at > '2020').toBe(true);
    expect(token.modified_at).toBeUndefined();
    expect(token.fingerprint).not.toBe('mine');
  });

  test('a rule on a container makes tokens there and nowhere else', async () => {
    const rules = [{ priority: 1, container: '/a/', transform: 'mask', permissions: ['token:create'] }];
    const maker = await server.newKey(server.tenant, { rules });
    expect((await post(maker, { data: 'x', containers: ['/A/b/'] })).body.containers).toEqual(['/a/b/']);
    const before = await storedOf(server.tenant);
    expect((await post(maker, { data: 'x', containers: ['/ab/'] })).status).toBe(403);
    expect((await post(maker, { data: 'x' })).status).toBe(403);
    expect(await storedOf(server.tenant)).toEqual(before);
  });
});

describe('GET /tokens lists what the caller may read', () => {
  test('newest first, with totals, and nothing of another tenant', async () => {
    const tenant = await server.newTenant();
    const neighbour = await server.newTenant();
    const ids: string[] = [];
    for (const seconds of [1, 2, 3])
      await later(seconds * 1000, async () => {
        ids.unshift((await create(tenant, { data: 'x' })).id);
        await create(neighbour, { data: 'x' });
      });
    const page = await list(tenant);
    expect(idsOf(page)).toEqual(ids);
    expect(page.pagination).toEqual({ total_items: 3, page_number: 1, page_size: 20, total_pages: 1 });
    for (const token of page.data) expect(token.tenant_id).toBe(tenant.tenant_id);
    expect(await list(await server.newTenant())).toEqual({
      pagination: { total_items: 0, page_number: 1, page_size: 20, total_pages: 0 },
      data: [],
    });
  });

  test('filters by id, type and metadata combine, and each may be repeated', async () => {
    const tenant = await server.newTenant();
    const make = async (type: string, data: unknown, metadata?: object) =>
      (await create(tenant, { type, data, metadata })).id as string;
    const text = await make('token', 'a', { order: 'Straße 7', customer: 'x' });
    const number = await make('card_number', card.number, { order: 'straße 7', customer: 'y' });
    const ssn = await make('social_security_number', '123456789', { order: '8' });
    const plain = await make('token', 'b');
    const found = async (query: string) => {
      const page = await list(tenant, query);
      expect(page.pagination.total_items).toBe(page.data.length);
      return idsOf(page).toSorted();
    };
    expect(await found(`?id=${text}`)).toEqual([text]);
    expect(await found(`?id=${text}&id=${ssn}&id=${crypto.randomUUID()}`)).toEqual([text, ssn].toSorted());
    expect(await found('?type=token')).toEqual([text, plain].toSorted());
    expect(await found('?type=token&type=card_number&type=token')).toEqual([text, plain, number].toSorted());
    expect(await found('?type=bank')).toEqual([]);
    expect(await found(`?metadata.order=${encodeURIComponent('STRAßE 7')}`)).toEqual([text, number].toSorted());
    expect(await found(`?metadata.order=${encodeURIComponent('Straße 7')}&metadata.customer=Y`)).toEqual([number]);
    expect(await found('?metadata.order=8&type=social_security_number')).toEqual([ssn]);
    expect(await found('?metadata.order=8&type=token')).toEqual([]);
    expect(await found(`?id=${text}&id=${plain}&type=token&metadata.customer=x`)).toEqual([text]);
    expect(await found('?metadata.ORDER=8')).toEqual([]);
    expect(await found('?metadata.order=')).toEqual([]);
    expect(await found('?metadata.order=stra')).toEqual([]);
    expect(await found('?metadata.constructor=x&metadata.__proto__=y')).toEqual([]);
  });

  test.each([
    ['an unknown type', 'type=4242424242424242', 'type'],
    ['an unknown type among others', 'type=card&type=4242424242424242', 'type'],
    ['101 ids', Array.from({ length: 101 }, (_, index) => `id=token-${index}`).join('&'), 'id'],
    ['an empty id', 'id=', 'id'],
    ['an id with NUL', 'id=4242424242424242%00', 'id'],
    ['an id that is longer than any', `id=${'a'.repeat(401)}`, 'id'],
    ['an entry of the metadata that is asked for twice', 'metadata.a=1&metadata.a=2', 'metadata.a'],
    ['51 entries', Array.from({ length: 51 }, (_, index) => `metadata.k${index}=v`).join('&'), 'metadata'],
  ])('%s is a 400 that names the parameter and says what it must be', async (_, query, place) => {
    const answer = await server.request('GET', `/tokens?${query}`);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([place]);
    expect(answer.body.errors[place][0]).toMatch(/^must be /);
    expect(answer.text).not.toContain('4242424242424242');
  });

  test('a hundred ids are a filter like any other, and NUL in a value finds nothing', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { data: 'x', metadata: { a: 'b' } });
    const ids = [...Array.from({ length: 99 }, (_, index) => `token-${index}`), id];
    expect(idsOf(await list(tenant, `?${ids.map((each) => `id=${each}`).join('&')}`))).toEqual([id]);
    expect((await list(tenant, '?metadata.a=%00')).data).toEqual([]);
  });

  test('an expired token is absent at once, from pages and from totals, before any sweep', async () => {
    const tenant = await server.newTenant();
    const gone = (await create(tenant, { data: 'a', metadata: { k: 'v' }, expires_at: inAnHour() })).id;
    const kept = (await create(tenant, { data: 'b', metadata: { k: 'v' } })).id;
    expect((await list(tenant)).pagination.total_items).toBe(2);
    await later(HOUR_MS + 1000, async () => {
      for (const query of ['', '?type=token', '?metadata.k=v', `?id=${gone}&id=${kept}`]) {
        const page = await list(tenant, query);
        expect(idsOf(page)).toEqual([kept]);
        expect(page.pagination).toMatchObject({ total_items: 1, total_pages: 1 });
      }
      expect((await search(tenant, 'metadata.k:v')).pagination.total_items).toBe(1);
      expect((await read(tenant, gone)).status).toBe(404);
    });
    expect(await server.sql('SELECT 1 FROM tokens WHERE id = $1', [gone])).toHaveLength(1);
  });

  test('only what an access rule reaches is listed and counted', async () => {
    const tenant = await server.newTenant();
    const make = async (container: string, id?: string) =>
      (await create(tenant, { data: 'x', containers: [container], id })).id as string;
    const inside = await make('/a_b/');
    const below = await make('/a_b/c/');
    await make('/axb/');
    await make('/a_bc/');
    const named = await make('/z/', 'own_1');
    await make('/z/', 'ownx1');
    const other = await make('/y/', 'own_2');
    const seen = async (rules: unknown) => {
      const page = await list(await server.newKey(tenant, { rules }));
      expect(page.pagination.total_items).toBe(page.data.length);
      return idsOf(page).toSorted();
    };
    const rule = { priority: 1, transform: 'mask', permissions: ['token:read'] };
    const idStarts = { attribute: 'id', operator: 'starts_with', value: 'own_' };
    expect(await seen([{ ...rule, container: '/A_B/' }])).toEqual([inside, below].toSorted());
    expect(await seen([{ ...rule, conditions: [idStarts] }])).toEqual([named, other].toSorted());
    const inY = { attribute: 'container', operator: 'equals', value: '/Y/' };
    expect(await seen([{ ...rule, conditions: [idStarts, inY] }])).toEqual([other]);
    expect(
      await seen([
        { ...rule, container: '/a_b/c/' },
        { ...rule, priority: 2, conditions: [inY] },
      ]),
    ).toEqual([below, other].toSorted());
    expect(await seen([{ ...rule, container: '/' }])).toHaveLength(7);
    const blind = await server.newKey(tenant, { rules: [{ ...rule, permissions: ['token:create'], container: '/' }] });
    expect((await server.request('GET', '/tokens', { key: blind.api_key })).status).toBe(403);
  });

  test('a filter by id does not reach past a rule', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { data: 'x', containers: ['/z/'] });
    const rules = [{ priority: 1, container: '/a/', transform: 'reveal', permissions: ['token:read'] }];
    const page = await list(await server.newKey(tenant, { rules }), `?id=${id}`);
    expect(page).toMatchObject({ pagination: { total_items: 0 }, data: [] });
  });

  test('a plain permission shows what is masked, and the value itself of a token without a mask', async () => {
    const tenant = await server.newTenant();
    await create(tenant, { type: 'card', data: card });
    await create(tenant, { data: { a: 1 } });
    await create(tenant, { data: 'secret', mask: '{{ data | reveal_last: 2 }}' });
    const page = await list(tenant);
    const shown = page.data.map(({ data, mask }: { data: unknown; mask?: unknown }) => ({ data, mask }));
    expect(shown).toHaveLength(3);
    expect(shown).toContainEqual({ data: maskedCard, mask: maskedCard });
    expect(shown).toContainEqual({ data: { a: 1 }, mask: undefined });
    expect(shown).toContainEqual({ data: 'XXXXet', mask: '{{ data | reveal_last: 2 }}' });
    expect(JSON.stringify(page)).not.toContain(card.number);
  });

  test('the first rule that reaches a token says how much of it is shown', async () => {
    const tenant = await server.newTenant();
    for (const container of ['/mask/', '/reveal/', '/redact/']) {
      await create(tenant, { type: 'card', data: card, containers: [container] });
      await create(tenant, { data: 'no mask', containers: [container] });
    }
    const transforms = ['mask', 'reveal', 'redact'];
    const reader = await server.newKey(tenant, {
      rules: [
        ...transforms.map((transform) => ({
          priority: 2,
          container: `/${transform}/`,
          transform,
          permissions: ['token:read'],
        })),
        { priority: 1, container: '/', transform: 'reveal', permissions: ['token:update'] },
        { priority: 3, container: '/', transform: 'reveal', permissions: ['token:read'] },
      ],
    });
    const page = await list(reader);
    const { cvc: _, ...unmasked } = card;
    const shownIn = (container: string) =>
      page.data
        .filter((token: { containers: string[] }) => token.containers[0] === container)
        .map((token: { type: string; data?: unknown }) => [token.type, token.data])
        .toSorted();
    expect(shownIn('/mask/')).toEqual([
      ['card', maskedCard],
      ['token', undefined],
    ]);
    expect(shownIn('/reveal/')).toEqual([
      ['card', unmasked],
      ['token', 'no mask'],
    ]);
    expect(shownIn('/redact/')).toEqual([
      ['card', undefined],
      ['token', undefined],
    ]);
  });

  test('a security code is in no list, even where the value is revealed', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { type: 'card', data: { ...card, cvc: '9173' } });
    const revealer = await newRevealer(tenant);
    expect((await read(revealer, id)).body.data.cvc).toBe('9173');
    for (const page of [await list(revealer), await search(revealer, 'type:card')]) {
      expect(page.data).toHaveLength(1);
      expect(page.data[0].data.number).toBe(card.number);
      expect(withoutDrawn(JSON.stringify(page.data))).not.toMatch(/cvc|9173/);
    }
  });

  test('the log has one read for each token that was shown, and none for others', async () => {
    const tenant = await server.newTenant();
    const ids: string[] = (await server.tokenize(['a', 'b', 'c'], tenant.api_key)).body;
    const { id } = await create(tenant, { type: 'card', data: card });
    await list(tenant, '?size=3');
    const shown = idsOf(await list(tenant, '?size=3&page=1'));
    for (const each of [...ids, id])
      expect((await operationsOf(tenant, each)).filter((operation) => operation === 'read')).toHaveLength(
        shown.includes(each) ? 2 : 0,
      );
    await list(tenant, '?page=9');
    await search(tenant, 'type:bank');
    const [{ count }] = await server.sql(
      `SELECT coalesce(sum(cardinality(entity_ids)), 0) AS count FROM audit_log WHERE tenant_id = $1 AND operation = 'read' AND entity_type <> 'log'`,
      [tenant.tenant_id],
    );
    expect(Number(count)).toBe(6);
  });

  test('the masks of a page share the work limit of one request: a 413, and shorter pages pass', async () => {
    const tenant = await server.newTenant();
    const mask = `{{ data${' | upcase | downcase'.repeat(5)} | slice: 0, 2 }}`;
    for (let count = 0; count < 4; count += 1) await create(tenant, { data: 'жя'.repeat(150_000), mask });
    for (const method of ['GET', 'POST']) {
      const path = method === 'GET' ? '/tokens' : '/tokens/search';
      const json = method === 'GET' ? undefined : { query: 'type:token' };
      const answer = await server.request(method, path, { key: tenant.api_key, json });
      expect(answer.status).toBe(413);
    }
    expect((await storedOf(tenant)).log.filter(({ operation }) => operation === 'read')).toEqual([]);
    expect((await list(tenant, '?size=1')).data[0].data).toBe('жя');
  });
});

describe('PATCH /tokens/{id} changes a token by a merge patch', () => {
  test.each(['text/plain', 'application/merge-patch', 'application/merge-patch+jsonx', undefined])(
    'a body of the type %s is a 415 and changes nothing',
    async (type) => {
      const tenant = await server.newTenant();
      const { id } = await create(tenant, { data: 'x' });
      const before = await storedOf(tenant);
      const answer = await server.request('PATCH', `/tokens/${id}`, {
        key: tenant.api_key,
        headers: type === undefined ? {} : { 'content-type': type },
        body: new TextEncoder().encode('{"data":"y"}'),
      });
      expect(answer.status, answer.text).toBe(415);
      expect(await storedOf(tenant)).toEqual(before);
    },
  );

  test('the type may have parameters and capitals', async () => {
    const { id } = await create(server.tenant, { data: 'x' });
    const type = 'Application/Merge-Patch+JSON; charset=UTF-8';
    expect((await patch(server.tenant, id, { data: 'y' }, { 'content-type': type })).status).toBe(200);
    expect((await read(server.tenant, id)).body.data).toBe('y');
  });

  test('data, mask and metadata are merged as RFC 7396 says', async () => {
    const tenant = await newRevealingTenant();
    const { id } = await create(tenant, {
      data: { a: 1, b: { c: 2, d: 3 }, e: [1, 2], none: null },
      mask: { a: '{{ data.a }}', gone: 'x' },
      metadata: { kept: '1', replaced: '2', removed: '3' },
    });
    const changed = await change(tenant, id, {
      data: { b: { c: null, f: { g: 4 } }, e: [3, null] },
      mask: { gone: null, b: '{{ data.b }}' },
      metadata: { replaced: '4', removed: null, added: '5' },
    });
    const mask = { a: '{{ data.a }}', b: '{{ data.b }}' };
    const metadata = { kept: '1', replaced: '4', added: '5' };
    expect(changed).toMatchObject({ id, data: { a: 1, b: { d: 3, f: { g: 4 } } }, mask, metadata });
    expect(Object.keys(changed.metadata).toSorted()).toEqual(['added', 'kept', 'replaced']);
    const whole = (await read(await newRevealer(tenant), id)).body;
    expect(whole.data).toEqual({ a: 1, b: { d: 3, f: { g: 4 } }, e: [3, null], none: null });
    expect(whole.mask).toEqual(mask);
    expect(whole.metadata).toEqual(metadata);
    await change(tenant, id, { data: 'text', mask: null, metadata: null });
    const { data, ...rest } = (await read(tenant, id)).body;
    expect(data).toBe('text');
    expect(Object.keys(rest)).not.toContain('mask');
    expect(Object.keys(rest)).not.toContain('metadata');
  });

  test('the other attributes are replaced, and null brings back what the type has', async () => {
    const tenant = await newRevealingTenant();
    const { id } = await create(tenant, {
      type: 'social_security_number',
      data: '123-45-6789',
      containers: ['/a/'],
      search_indexes: ['{{ data | last4 }}'],
      fingerprint_expression: '{{ data | last4 }}',
      expires_at: inAnHour(),
    });
    const expires_at = '2090-01-02T03:04:05.000Z';
    const fields = { search_indexes: ["{{ data | split: '-' | first }}"], fingerprint_expression: '{{ data }}x' };
    expect(await change(tenant, id, { ...fields, containers: ['/B/c/'], expires_at })).toMatchObject({
      ...fields,
      containers: ['/b/c/'],
      expires_at,
    });
    expect((await read(tenant, id)).body).toMatchObject({ ...fields, containers: ['/b/c/'], expires_at });
    const nothing = { search_indexes: null, fingerprint_expression: null, containers: null, expires_at: null };
    const fresh = await create(tenant, { type: 'social_security_number', data: '123-45-6789' });
    const reset = await change(tenant, id, nothing);
    for (const name of ['search_indexes', 'fingerprint_expression', 'fingerprint', 'containers', 'data', 'mask'])
      expect(reset[name], name).toEqual(fresh[name]);
    expect(Object.keys(reset)).not.toContain('expires_at');
  });

  test('a token made without search indexes is not found by its value after another change', async () => {
    const tenant = await newRevealingTenant();
    const { id } = await create(tenant, { type: 'social_security_number', data: '123-45-6789', search_indexes: [] });
    expect((await search(tenant, 'data:123456789')).data).toEqual([]);
    expect((await change(tenant, id, { metadata: { a: 'b' } })).search_indexes).toEqual([]);
    expect((await search(tenant, 'data:123456789')).data).toEqual([]);
    expect((await change(tenant, id, { search_indexes: null })).search_indexes).toHaveLength(3);
    expect(idsOf(await search(tenant, 'data:123456789'))).toEqual([id]);
  });

  test('type, id and what else the caller may not set stay', async () => {
    const tenant = await server.newTenant();
    const made = await create(tenant, { type: 'card_number', data: card.number, id: 'fixed-id' });
    const foreign = '11111111-1111-4111-8111-111111111111';
    const changed = await change(tenant, 'fixed-id', {
      id: 'other-id',
      type: 'token',
      tenant_id: foreign,
      created_by: foreign,
      created_at: '2001-01-01T00:00:00Z',
      modified_by: foreign,
      fingerprint: 'x',
      metadata: { a: 'b' },
    });
    expect(changed).toMatchObject({ ...made, metadata: { a: 'b' } });
    expect(changed.modified_by).toBe(tenant.application_id);
    expect((await read(tenant, 'other-id')).status).toBe(404);
  });

  test('mask, fingerprint and search indexes are those of the new value, not of the old', async () => {
    const tenant = await newRevealingTenant();
    const request = {
      type: 'card',
      data: { number: card.number },
      search_indexes: ['{{ data.number }}', '{{ data.number | last4 }}'],
      metadata: { order: 'old' },
    };
    const made = await create(tenant, request);
    const changed = await change(tenant, made.id, { data: { number: otherNumber }, metadata: { order: 'new' } });
    expect(changed.data).toEqual({ number: 'XXXXXXXXXXXX4444' });
    expect(changed.mask).toEqual(changed.data);
    const twin = await create(tenant, { type: 'card', data: { number: otherNumber } });
    expect(changed.fingerprint).toBe(twin.fingerprint);
    expect(changed.fingerprint).not.toBe(made.fingerprint);
    await end(tenant, twin.id);
    for (const query of [
      `data:${otherNumber}`,
      'data:4444',
      'metadata.order:new',
      `fingerprint:${changed.fingerprint}`,
    ])
      expect(idsOf(await search(tenant, query)), query).toEqual([made.id]);
    for (const query of [`data:${card.number}`, 'data:4242', 'metadata.order:old', `fingerprint:${made.fingerprint}`])
      expect(idsOf(await search(tenant, query)), query).toEqual([]);
    expect(idsOf(await list(tenant, '?metadata.order=new'))).toEqual([made.id]);
    expect(idsOf(await list(tenant, '?metadata.order=old'))).toEqual([]);
  });

  test('with deduplication, a value that another token has is a 409 and changes nothing', async () => {
    const tenant = await server.newTenant();
    await create(tenant, { type: 'card_number', data: otherNumber });
    const { id } = await create(tenant, { type: 'card_number', data: card.number });
    const before = await storedOf(tenant);
    expect((await patch(tenant, id, { data: otherNumber, deduplicate_token: true })).status).toBe(409);
    expect(await storedOf(tenant)).toEqual(before);
    // Its own value is not another's.
    expect((await patch(tenant, id, { metadata: { a: 'b' }, deduplicate_token: true })).status).toBe(200);
    expect((await patch(tenant, id, { data: otherNumber })).status).toBe(200);
    // Nor is a value that it shares already: a change that does not touch it is made.
    expect((await patch(tenant, id, { metadata: { a: 'c' }, deduplicate_token: true })).status).toBe(200);
  });

  test("the tenant's own setting deduplicates changes too", async () => {
    const tenant = await server.newTenant();
    await create(tenant, { type: 'card_number', data: otherNumber });
    const { id } = await create(tenant, { type: 'card_number', data: card.number });
    await server.sql(`UPDATE tenants SET settings = '{"deduplicate_tokens":"true"}' WHERE id = $1`, [tenant.tenant_id]);
    await server.sign(tenant.tenant_id);
    // A caller of the last second is recalled with the settings of then.
    const fresh = await server.newKey(tenant, { permissions: ['token:update', 'token:read'] });
    expect((await patch(fresh, id, { data: otherNumber })).status).toBe(409);
    expect((await patch(fresh, id, { data: otherNumber, deduplicate_token: false })).status).toBe(200);
  });

  test('of many changes to one value at a time one is made, the others are a 409', async () => {
    const tenant = await server.newTenant();
    const values = Array.from({ length: 20 }, (_, index) => `value ${index}`);
    const ids: string[] = (await server.tokenize(values, tenant.api_key)).body;
    // First a round that brings up every connection, so that the next one really is at a time.
    await Promise.all(ids.map((id) => patch(tenant, id, { metadata: { a: 'b' } })));
    const answers = await Promise.all(ids.map((id) => patch(tenant, id, { data: 'same', deduplicate_token: true })));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(19);
  });

  test('another container needs token:update there as well as here', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { data: 'x', containers: ['/a/'] });
    const updater = (containers: string[]) =>
      server.newKey(tenant, {
        rules: containers.map((container) => ({
          priority: 1,
          container,
          transform: 'mask',
          permissions: ['token:update'],
        })),
      });
    const before = await storedOf(tenant);
    const onlySource = await updater(['/a/']);
    const onlyDestination = await updater(['/b/']);
    for (const key of [onlySource, onlyDestination]) {
      const answer = await patch(key, id, { containers: ['/b/'] });
      expect(answer.status).toBe(403);
      expect(answer.body.detail).toContain('token:update');
    }
    expect((await patch(onlyDestination, id, { metadata: { a: 'b' } })).status).toBe(403);
    expect((await storedOf(tenant)).tokens).toEqual(before.tokens);
    expect((await patch(await updater(['/a/', '/b/']), id, { containers: ['/b/'] })).status).toBe(200);
    expect((await read(tenant, id)).body.containers).toEqual(['/b/']);
    expect((await patch(onlySource, id, { metadata: { a: 'b' } })).status).toBe(403);
    expect((await patch(onlyDestination, id, { metadata: { a: 'b' } })).status).toBe(200);
  });

  describe('the security code', () => {
    const withCode = async () => {
      const tenant = await server.newTenant();
      const { id } = await create(tenant, { type: 'card', data: card });
      const revealer = await newRevealer(tenant);
      return { tenant, id, code: async () => (await read(revealer, id)).body.data.cvc };
    };

    test('stays with its number, and is not in the answer', async () => {
      const { tenant, id, code } = await withCode();
      const answer = await patch(tenant, id, { data: { expiration_year: 2031, number: card.number } });
      expect(answer.body.data).toEqual({ ...maskedCard, expiration_year: 2031 });
      expect(withoutDrawn(answer.text)).not.toContain('737');
      expect(await code()).toBe('737');
    });

    test('is replaced by another, which the answer does not hold', async () => {
      const { tenant, id, code } = await withCode();
      const answer = await patch(tenant, id, { data: { cvc: '9173' } });
      expect(answer.status).toBe(200);
      expect(withoutDrawn(answer.text)).not.toContain('9173');
      expect(await code()).toBe('9173');
      await change(tenant, id, { data: { number: otherNumber, cvc: '123' } });
      expect(await code()).toBe('123');
    });

    test('goes with its number', async () => {
      const { tenant, id, code } = await withCode();
      await change(tenant, id, { data: { number: otherNumber } });
      expect(await code()).toBeUndefined();
      expect((await storedOf(tenant)).cvcs).toEqual([]);
    });

    test('is taken away by null', async () => {
      const { tenant, id, code } = await withCode();
      await change(tenant, id, { data: { cvc: null } });
      expect(await code()).toBeUndefined();
      expect((await storedOf(tenant)).cvcs).toEqual([]);
    });

    test('lives no longer for a change that does not bring it, and its whole time for one that does', async () => {
      const { tenant, id, code } = await withCode();
      const expiryOf = async () => (await storedOf(tenant)).cvcs[0].expires_at as Date;
      const first = await expiryOf();
      await later(HOUR_MS / 2, () => change(tenant, id, { data: { expiration_year: 2031 } }));
      expect(await expiryOf()).toEqual(first);
      await later(HOUR_MS / 2, () => change(tenant, id, { data: { cvc: '555' } }));
      expect((await expiryOf()).getTime()).toBeGreaterThan(first.getTime());
      await later(HOUR_MS + 10_000, async () => expect(await code()).toBe('555'));
      await later(2 * HOUR_MS, async () => expect(await code()).toBeUndefined());
    });
  });

  test('who changed it and when is on the token and in the log', async () => {
    const tenant = await server.newTenant();
    const made = await create(tenant, { data: 'x' });
    expect(made.modified_at).toBeUndefined();
    const editor = await server.newKey(tenant, { permissions: ['token:update', 'token:read'] });
    const changed = await later(60_000, () => change(editor, made.id, { data: 'y' }));
    expect(changed).toMatchObject({
      created_by: tenant.application_id,
      created_at: made.created_at,
      modified_by: editor.application_id,
    });
    expect(Date.parse(changed.modified_at) - Date.parse(made.created_at)).toBeGreaterThanOrEqual(60_000);
    expect((await read(tenant, made.id)).body).toMatchObject({
      modified_by: editor.application_id,
      modified_at: changed.modified_at,
    });
    expect(await operationsOf(tenant, made.id)).toEqual(['create', 'read', 'update']);
  });

  test('the response never shows more than that of a create, whatever a rule reveals', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { data: 'plain' });
    const number = await create(tenant, { type: 'card_number', data: card.number });
    const rule = { priority: 1, container: '/', permissions: ['token:update', 'token:read'] };
    const revealing = await server.newKey(tenant, { rules: [{ ...rule, transform: 'reveal' }] });
    expect(Object.keys(await change(revealing, id, { metadata: { a: 'b' } }))).not.toContain('data');
    expect((await change(revealing, number.id, { metadata: { a: 'b' } })).data).toBe('XXXXXXXXXXXX4242');
    const redacting = await server.newKey(tenant, { rules: [{ ...rule, transform: 'redact' }] });
    const redacted = await change(redacting, number.id, { metadata: { a: 'c' } });
    expect(Object.keys(redacted)).not.toContain('data');
    expect(withoutDrawn(JSON.stringify(redacted))).not.toMatch(/X4242|4242"/);
  });

  test('an expiry can be set, moved and taken away', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { data: 'x' });
    await change(tenant, id, { expires_at: inAnHour() });
    await later(HOUR_MS + 1000, async () => expect((await read(tenant, id)).status).toBe(404));
    await change(tenant, id, { expires_at: null });
    await later(HOUR_MS + 1000, async () => expect((await read(tenant, id)).status).toBe(200));
  });

  test('unknown, expired and foreign tokens are one and the same 404, to change and to end', async () => {
    const tenant = await server.newTenant();
    const neighbour = await server.newTenant();
    const foreign = (await create(neighbour, { data: 'x' })).id;
    const expired = (await create(tenant, { data: 'x', expires_at: inAnHour() })).id;
    await later(HOUR_MS + 1000, async () => {
      const before = [await storedOf(tenant), await storedOf(neighbour)];
      const trace = { 'svc-trace-id': 'same' };
      const answers = [];
      for (const id of [crypto.randomUUID(), 'any text', '\u0000', expired, foreign]) {
        answers.push(await patch(tenant, id, { data: 'y' }, trace));
        const path = `/tokens/${encodeURIComponent(id)}`;
        answers.push(await server.request('DELETE', path, { key: tenant.api_key, headers: trace }));
      }
      for (const { status, text, headers } of answers) {
        expect(status).toBe(404);
        expect(text).toBe(answers[0]?.text);
        expect([...headers.keys()]).toEqual([...(answers[0]?.headers.keys() ?? [])]);
      }
      expect([await storedOf(tenant), await storedOf(neighbour)]).toEqual(before);
    });
  });

  test.each<[what: string, body: unknown, place: string]>([
    ['a list', [{ data: 'x' }], 'body'],
    ['a text', '4242424242424241', 'body'],
    ['null', null, 'body'],
    ['data taken away', { data: null }, 'data'],
    ['data of another shape', { data: '4242424242424241' }, 'data'],
    ['the number taken away', { data: { number: null } }, 'data.number'],
    ['a number that fails its check digit', { data: { number: '4242424242424241' } }, 'data.number'],
    ['a month that is none', { data: { expiration_month: 0 } }, 'data.expiration_month'],
    ['a code that is none', { data: { cvc: '12' } }, 'data.cvc'],
    ['a mask that cannot be read', { mask: { number: '{{ data.number ' } }, 'mask'],
    ['metadata that is no string', { metadata: { a: 4242424242424241 } }, 'metadata.a'],
    ['metadata that is no object', { metadata: 'x' }, 'metadata'],
    ['a container that is none', { containers: ['4242424242424241'] }, 'containers[0]'],
    ['two containers', { containers: ['/a/', '/b/'] }, 'containers'],
    ['an index that cannot be read', { search_indexes: ['{{ data.number'] }, 'search_indexes[0]'],
    ['an index on the code', { search_indexes: ['{{ data.cvc }}'], data: { cvc: '123' } }, 'search_indexes[0]'],
    ['a fingerprint of nothing', { fingerprint_expression: '{{ data.none }}' }, 'fingerprint_expression'],
    ['an expiry in the past', { expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    ['deduplication that is no boolean', { deduplicate_token: 'yes' }, 'deduplicate_token'],
  ])('%s is a 400 that names the place, and nothing is changed or logged', async (_, body, place) => {
    const tenant = await newRevealingTenant();
    const { id } = await create(tenant, { type: 'card', data: card, metadata: { a: 'b' } });
    const before = await storedOf(tenant);
    const answer = await patch(tenant, id, body);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([place]);
    expect(answer.text).not.toContain('4242424242424');
    expect(await storedOf(tenant)).toEqual(before);
  });

  test('concurrent changes of one token are all made, one after the other', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { data: {} });
    const names = Array.from({ length: 20 }, (_, index) => `k${index}`);
    const answers = await Promise.all(names.map((name) => patch(tenant, id, { data: { [name]: 1 } })));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(Object.keys((await read(tenant, id)).body.data).toSorted()).toEqual(names.toSorted());
  });
});

describe('DELETE /tokens/{id} ends a token', () => {
  test('204 without a body, then 404; its log stays and totals go down', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { type: 'card', data: card, metadata: { a: 'b' } });
    const kept = (await create(tenant, { type: 'card', data: card })).id;
    const answer = await end(tenant, id);
    expect(answer.status).toBe(204);
    expect(answer.text).toBe('');
    expect((await end(tenant, id)).status).toBe(404);
    expect((await read(tenant, id)).status).toBe(404);
    expect((await patch(tenant, id, { metadata: { a: 'c' } })).status).toBe(404);
    expect(await operationsOf(tenant, id)).toEqual(['create', 'delete']);
    for (const query of ['', '?type=card', `?id=${id}&id=${kept}`]) {
      const page = await list(tenant, query);
      expect(idsOf(page)).toEqual([kept]);
      expect(page.pagination.total_items).toBe(1);
    }
    expect((await search(tenant, 'metadata.a:b')).data).toEqual([]);
    expect((await storedOf(tenant)).cvcs.map((row) => row.id)).toEqual([kept]);
  });

  test('its links go with it, in both directions', async () => {
    const tenant = await server.newTenant();
    const [parent, middle, child]: string[] = (await server.tokenize(['a', 'b', 'c'], tenant.api_key)).body;
    for (const [from, to] of [
      [parent, middle],
      [middle, child],
    ]) {
      const path = `/tokens/${from}/children/${to}`;
      expect((await server.request('POST', path, { key: tenant.api_key })).status).toBe(204);
    }
    expect((await end(tenant, middle as string)).status).toBe(204);
    expect(await server.sql('SELECT 1 FROM token_associations WHERE tenant_id = $1', [tenant.tenant_id])).toEqual([]);
    const children = await server.request('GET', `/tokens/${parent}/children`, { key: tenant.api_key });
    expect(children.body).toMatchObject({ pagination: { total_items: 0 }, data: [] });
    expect((await read(tenant, child as string)).status).toBe(200);
  });

  test('a rule that does not reach the container is a 403 and leaves the token', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { data: 'x', containers: ['/ab/'] });
    const rules = [{ priority: 1, container: '/a/', transform: 'mask', permissions: ['token:delete'] }];
    const answer = await end(await server.newKey(tenant, { rules }), id);
    expect(answer.status).toBe(403);
    expect(answer.body.detail).toContain('token:delete');
    expect((await read(tenant, id)).status).toBe(200);
    expect(await operationsOf(tenant, id)).toEqual(['create', 'read']);
  });

  test('of two at a time one ends it, and its id is free again', async () => {
    const tenant = await server.newTenant();
    await create(tenant, { data: 'x', id: 'ends-once' });
    const answers = await Promise.all(Array.from({ length: 5 }, () => end(tenant, 'ends-once')));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 404, 404, 404, 404]);
    expect(await operationsOf(tenant, 'ends-once')).toEqual(['create', 'delete']);
    expect((await list(tenant)).pagination.total_items).toBe(0);
    expect((await create(tenant, { data: 'y', id: 'ends-once' })).id).toBe('ends-once');
  });
});

describe('what an attacker tried', () => {
  test('a right to change a token is no right to choose what its mask shows (mask as a window)', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { type: 'card', data: card });
    const changer = await server.newKey(tenant, { permissions: ['token:update', 'token:read'] });
    const rule = { priority: 1, container: '/shown/', transform: 'reveal', permissions: ['token:read'] };
    const mover = await server.newKey(tenant, { permissions: ['token:update'], rules: [rule] });
    const tries: [TestTenant, unknown][] = [
      [changer, { mask: { x: '{{ data.number }}' } }],
      [changer, { mask: null }],
      [changer, { fingerprint_expression: '{{ data.number | slice: 0, 2 }}' }],
      [changer, { search_indexes: ['{{ data.number | slice: 0, 1 }}'] }],
      [mover, { containers: ['/shown/'] }],
    ];
    for (const [who, body] of tries) {
      const answer = await patch(who, id, body);
      expect(answer.status, answer.text).toBe(403);
      expect(answer.text).not.toContain(card.number);
    }
    expect((await patch(changer, id, { metadata: { still: 'allowed' } })).status).toBe(200);
    expect((await read(changer, id)).body.data).toEqual(maskedCard);
    // Whoever may use a value does not get to see it by that.
    const user = await server.newKey(tenant, { permissions: ['token:update', 'token:read', 'token:use'] });
    const mask = { x: '{{ data.number | last4 }}' };
    expect((await patch(user, id, { mask })).status).toBe(403);
    const reveal = { ...rule, container: '/' };
    const seer = await server.newKey(tenant, { permissions: ['token:update'], rules: [reveal] });
    expect((await patch(seer, id, { mask })).body.data).toEqual({ x: '4242' });
  });

  test('patches do not add up to more than a create may bring', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { data: { a: 'a'.repeat(600_000) } });
    const answer = await patch(tenant, id, { data: { b: 'b'.repeat(600_000) } });
    expect(answer.status, answer.text).toBe(413);
    expect((await read(tenant, id)).body.data).not.toHaveProperty('b');
  });

  test('a security code does not outlive its card, however a change races the end of it', async () => {
    const tenant = await server.newTenant();
    const ids = Array.from({ length: 30 }, (_, index) => `racing-card-${index}`);
    for (const id of ids) await create(tenant, { id, type: 'card', data: { number: card.number } });
    await Promise.all(ids.flatMap((id) => [patch(tenant, id, { data: { cvc: '911' } }), end(tenant, id)]));
    expect(await server.sql('SELECT id FROM token_cvcs WHERE tenant_id = $1', [tenant.tenant_id])).toEqual([]);
    expect(await server.sql('SELECT id FROM tokens WHERE tenant_id = $1', [tenant.tenant_id])).toEqual([]);
  });
});
