// A caller cannot infer hidden values: not by fingerprints, deduplication, searches or changes of the token.
import { beforeAll, describe, expect, test } from 'vitest';
import { type SharedServer, type TestTenant, useServer } from './support/server.ts';

let server: SharedServer;
let tenant: TestTenant;

type Transform = 'redact' | 'mask' | 'reveal';
type Permission = 'token:create' | 'token:read' | 'token:update' | 'token:search' | 'token:use';

const rule = (transform: Transform, permissions: Permission[], container = '/', priority = 1) => ({
  priority,
  container,
  transform,
  permissions,
});

beforeAll(async () => {
  server = await useServer();
  tenant = await server.newTenant();
});

const NUMBER = '4242424242424242';
const SSN = '123-45-6789';

const create = async (request: object, key: TestTenant = tenant) => {
  const answer = await server.request('POST', '/tokens', { json: request, key: key.api_key });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const read = async (id: string, key: TestTenant) =>
  (await server.request('GET', `/tokens/${id}`, { key: key.api_key })).body;

const patch = (id: string, key: TestTenant, body: object) =>
  server.request('PATCH', `/tokens/${id}`, {
    key: key.api_key,
    headers: { 'content-type': 'application/merge-patch+json' },
    body: JSON.stringify(body),
  });

const found = async (query: string, key: TestTenant): Promise<string[]> => {
  const { status, body, text } = await server.request('POST', '/tokens/search', { key: key.api_key, json: { query } });
  expect(status, text).toBe(200);
  expect(body.pagination.total_items).toBe(body.data.length);
  return body.data.map(({ id }: { id: string }) => id);
};

describe('a fingerprint', () => {
  test.each<[string, () => Promise<TestTenant>, boolean]>([
    ['under a plain permission', async () => tenant, true],
    [
      'under a rule that reveals',
      () => server.newKey(tenant, { rules: [rule('reveal', ['token:read', 'token:search'])] }),
      true,
    ],
    [
      'under a rule that masks',
      () => server.newKey(tenant, { rules: [rule('mask', ['token:read', 'token:search'])] }),
      true,
    ],
    [
      'under a rule that redacts',
      () => server.newKey(tenant, { rules: [rule('redact', ['token:read', 'token:search'])] }),
      false,
    ],
  ])('of a card %s is shown: reading, listing, searching and detokenizing', async (_, reader, isShown) => {
    const { id } = await create({ type: 'card', data: { number: NUMBER } });
    const key = await reader();
    const listed = await server.request('GET', `/tokens?id=${id}`, { key: key.api_key });
    const searched = await server.request('POST', '/tokens/search', { key: key.api_key, json: { query: `id:${id}` } });
    const whole = await server.request('POST', '/detokenize', { key: key.api_key, json: `{{ token: ${id} }}` });
    for (const record of [await read(id, key), listed.body.data[0], searched.body.data[0], whole.body])
      expect(record.fingerprint !== undefined).toBe(isShown);
  });

  test('of a value without a mask is hidden under a rule that masks, which shows nothing of it', async () => {
    const { id } = await create({ data: 'no mask' });
    const key = await server.newKey(tenant, { rules: [rule('mask', ['token:read'])] });
    const record = await read(id, key);
    expect(record.data).toBeUndefined();
    expect(record.fingerprint).toBeUndefined();
  });

  test('is in the answer of a create for callers who may read the token, in their container', async () => {
    const creator = await server.newKey(tenant, { permissions: ['token:create'] });
    const reader = await server.newKey(tenant, {
      permissions: ['token:create'],
      rules: [rule('mask', ['token:read'], '/seen/')],
    });
    const card = { type: 'card', data: { number: NUMBER } };
    expect((await create(card, creator)).fingerprint).toBeUndefined();
    expect((await create({ ...card, containers: ['/unseen/'] }, reader)).fingerprint).toBeUndefined();
    expect((await create({ ...card, containers: ['/seen/'] }, reader)).fingerprint).toEqual(expect.any(String));
    const tokenized = await server.tokenize([card], creator.api_key);
    expect(tokenized.body[0].fingerprint).toBeUndefined();
  });
});

describe('deduplication', () => {
  const equal = (data: string, more: object = {}) => ({ type: 'card_number', data, deduplicate_token: true, ...more });

  test.each<[string, ReturnType<typeof rule>[]]>([
    ['without token:read', []],
    ['under a rule that redacts', [rule('redact', ['token:read'])]],
    ['by a rule that reaches elsewhere', [rule('reveal', ['token:read'], '/elsewhere/')]],
  ])('makes a new token for a caller %s, alone and among others', async (_, rules) => {
    const own = await server.newTenant();
    const before = await create(equal('5555555555554444'), own);
    const caller = await server.newKey(own, { permissions: ['token:create'], rules });
    for (const made of [
      await create(equal('5555555555554444'), caller),
      (await server.tokenize({ a: equal('5555555555554444') }, caller.api_key)).body.a,
    ]) {
      expect(made._extras).toEqual({ deduplicated: false });
      expect(made.id).not.toBe(before.id);
    }
    const changed = await create({ type: 'card_number', data: NUMBER }, own);
    const changer = await server.newKey(own, { permissions: ['token:update'], rules });
    expect((await patch(changed.id, changer, { data: '5555555555554444', deduplicate_token: true })).status).toBe(200);
  });

  test("finds the caller's own token behind older ones that it does not see", async () => {
    const own = await server.newTenant();
    for (let count = 0; count < 12; count += 1) await create({ type: 'card_number', data: NUMBER }, own);
    const caller = await server.newKey(own, {
      rules: [rule('mask', ['token:read', 'token:create'], '/mine/')],
    });
    const first = await create(equal(NUMBER, { containers: ['/mine/'] }), caller);
    expect(first._extras).toEqual({ deduplicated: false });
    const second = await create(equal(NUMBER, { containers: ['/mine/'] }), caller);
    expect(second).toMatchObject({ id: first.id, _extras: { deduplicated: true } });
  });

  test('follows a rule that redacts a part of what another one shows', async () => {
    const own = await server.newTenant();
    const hidden = await create(equal(NUMBER, { containers: ['/a/hidden/'] }), own);
    const caller = await server.newKey(own, {
      permissions: ['token:create'],
      rules: [rule('redact', ['token:read'], '/a/hidden/', 1), rule('reveal', ['token:read'], '/a/', 2)],
    });
    const made = await create(equal(NUMBER, { containers: ['/a/'] }), caller);
    expect(made.id).not.toBe(hidden.id);
    expect(await create(equal(NUMBER), caller)).toMatchObject({ id: made.id, _extras: { deduplicated: true } });
  });

  test('answers at most with the masked value and logs that', async () => {
    const own = await server.newTenant();
    const revealing = await server.newKey(own, {
      permissions: ['token:create'],
      rules: [rule('reveal', ['token:read'])],
    });
    const first = await create(equal(NUMBER), own);
    const again = await create(equal(NUMBER), revealing);
    expect(again).toMatchObject({ id: first.id, data: 'XXXXXXXXXXXX4242' });
    const { body } = await server.request('GET', `/logs?entity_id=${first.id}&operation=read`, { key: own.api_key });
    expect(body.data).toMatchObject([{ disclosure: 'masked', actor_id: revealing.application_id }]);
  });

  test('of many at once makes one token, whether callers come together or one by one', async () => {
    const own = await server.newTenant();
    const made = await Promise.all(Array.from({ length: 40 }, () => create(equal(NUMBER), own)));
    expect(new Set(made.map(({ id }) => id)).size).toBe(1);
    expect(made.filter(({ _extras }) => !_extras.deduplicated)).toHaveLength(1);
    const [{ count }] = await server.sql('SELECT sum(change)::int AS count FROM token_counts WHERE tenant_id = $1', [
      own.tenant_id,
    ]);
    expect(count).toBe(1);
    const log = await server.sql(
      "SELECT sum(cardinality(entity_ids))::int AS n FROM audit_log WHERE tenant_id = $1 AND operation = 'create' AND entity_type = 'card_number'",
      [own.tenant_id],
    );
    expect(log[0].n).toBe(1);
  });
});

describe('a search term about a value', () => {
  test('matches only where the rule of the caller would show the value', async () => {
    const own = await server.newTenant();
    const open = await create({ type: 'social_security_number', data: SSN, containers: ['/open/'] }, own);
    const closed = await create({ type: 'social_security_number', data: SSN, containers: ['/open/closed/'] }, own);
    const plain = await create({ data: SSN, search_indexes: ['{{ data }}'] }, own);
    const masked = await create({ data: SSN, mask: 'hidden', search_indexes: ['{{ data }}'] }, own);
    const searcher = await server.newKey(own, {
      rules: [
        rule('redact', ['token:search'], '/open/closed/', 1),
        rule('reveal', ['token:search'], '/open/', 2),
        rule('mask', ['token:search'], '/', 3),
      ],
    });
    const all = [open.id, closed.id, plain.id, masked.id];
    const expectFound = async (key: TestTenant, query: string, ids: string[]) =>
      expect((await found(query, key)).toSorted(), query).toEqual(ids.toSorted());
    await expectFound(searcher, `data:"${SSN}"`, [open.id]);
    await expectFound(own, `data:"${SSN}"`, [plain.id]);
    await expectFound(searcher, 'data:6789', [open.id]);
    await expectFound(own, 'data:6789', []);
    for (const [id, fingerprint] of all.map((each, index) => [
      each,
      [open, closed, plain, masked][index].fingerprint,
    ])) {
      const seen = (await found(`fingerprint:${fingerprint}`, searcher)).includes(id);
      expect(seen).toBe(id === open.id);
      expect((await found(`fingerprint:${fingerprint}`, own)).includes(id)).toBe(id === plain.id);
    }
    // What does not match is found by NOT, whatever its value.
    await expectFound(searcher, `NOT data:"${SSN}"`, [closed.id, plain.id, masked.id]);
    // Terms about what is in the clear are as before.
    await expectFound(searcher, 'type:social_security_number', [open.id, closed.id]);
  });

  test('follows a mask that a change has added or taken away', async () => {
    const own = await server.newTenant({
      permissions: ['token:create', 'token:update', 'token:search', 'token:read'],
      rules: [rule('reveal', ['token:read'])],
    });
    const { id } = await create({ data: 'findable', search_indexes: ['{{ data }}'] }, own);
    expect(await found('data:findable', own)).toEqual([id]);
    expect((await patch(id, own, { mask: 'hidden' })).status).toBe(200);
    expect(await found('data:findable', own)).toEqual([]);
    expect((await patch(id, own, { mask: null })).status).toBe(200);
    expect(await found('data:findable', own)).toEqual([id]);
  });
});

describe('a change without token:read', () => {
  test('answers with the id and times alone, and is logged without a disclosure', async () => {
    const { id } = await create({ type: 'card', data: { number: NUMBER }, metadata: { order: '1' } });
    const key = await server.newKey(tenant, { permissions: ['token:update'] });
    const { status, body } = await patch(id, key, {});
    expect(status).toBe(200);
    expect(Object.keys(body).toSorted()).toEqual(['created_at', 'id', 'modified_at', 'tenant_id']);
    const log = await server.request('GET', `/logs?entity_id=${id}&operation=update`, { key: tenant.api_key });
    expect(log.body.data).toMatchObject([{ disclosure: 'none' }]);
  });

  test('shows nothing of the value where a rule redacts reading', async () => {
    const { id } = await create({ type: 'card', data: { number: NUMBER } });
    const rules = [rule('redact', ['token:read'])];
    const key = await server.newKey(tenant, { permissions: ['token:update'], rules });
    const { body } = await patch(id, key, { metadata: { a: 'b' } });
    expect(body).toMatchObject({ id, type: 'card', metadata: { a: 'b' } });
    for (const name of ['data', 'mask', 'fingerprint']) expect(Object.keys(body)).not.toContain(name);
  });
});

describe('a change', () => {
  test.each<[string, string, ReturnType<typeof rule>[], Permission[], object]>([
    [
      'a value without a mask',
      '/hidden/',
      [rule('redact', ['token:read'], '/hidden/')],
      ['token:read'],
      { data: 'secret' },
    ],
    [
      'a masked value',
      '/hidden/',
      [rule('reveal', ['token:read'], '/shown/')],
      ['token:read'],
      { type: 'card', data: { number: NUMBER } },
    ],
    [
      'a value that is searched',
      '/hidden/',
      [rule('reveal', ['token:search'], '/shown/')],
      ['token:search'],
      { type: 'card', data: { number: NUMBER } },
    ],
    [
      'a security code, of which a search shows nothing',
      '/hidden/',
      [rule('reveal', ['token:search'], '/'), rule('reveal', ['token:read'], '/shown/')],
      ['token:search'],
      { type: 'card', data: { number: NUMBER, cvc: '737' } },
    ],
    [
      'a value for code',
      '/hidden/',
      [rule('reveal', ['token:use'], '/shown/')],
      [],
      { type: 'card', data: { number: NUMBER } },
    ],
  ])('does not move %s to where the caller gets more of it', async (_, container, rules, permissions, request) => {
    const { id } = await create({ ...request, containers: [container] });
    const key = await server.newKey(tenant, { permissions: ['token:update', ...permissions], rules });
    const { status } = await patch(id, key, { containers: ['/shown/'] });
    expect(status).toBe(403);
    expect((await read(id, tenant)).containers).toEqual([container]);
  });

  test('of a part of an object needs sight of the value, and a whole new value does not', async () => {
    const { id } = await create({ data: { pin: '4831', salt: 'x' }, mask: 'hidden', containers: ['/a/'] });
    const key = await server.newKey(tenant, { permissions: ['token:update', 'token:read'] });
    expect((await patch(id, key, { data: { salt: null } })).status).toBe(403);
    expect((await patch(id, key, { data: 'new' })).status).toBe(200);
    const revealing = await server.newKey(tenant, {
      permissions: ['token:update'],
      rules: [rule('reveal', ['token:read'], '/')],
    });
    const other = await create({ data: { pin: '4831', salt: 'x' }, mask: 'hidden', containers: ['/a/'] });
    expect((await patch(other.id, revealing, { data: { salt: null } })).status).toBe(200);
  });

  test('by a client that writes null for what it leaves out does not take the mask away', async () => {
    const { id } = await create({ data: 'secret', mask: '{{ data | last4 }}' });
    const key = await server.newKey(tenant, { permissions: ['token:update', 'token:read'] });
    expect((await patch(id, key, { mask: null, metadata: { a: 'b' } })).status).toBe(403);
    expect((await read(id, key)).data).toBe('cret');
  });
});
