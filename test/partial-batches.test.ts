// POST /tokenize and /detokenize with SVC-PARTIAL: items that are right are done, the others are named, and the rest is as ever.
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { POOL_NAME } from '../src/platform/db/application-names.ts';
import { holdRow } from './support/held-rows.ts';
import { type Answer, type SharedServer, type TestTenant, useServer } from './support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});
afterEach(() => void vi.restoreAllMocks());

const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const ANY_ID = expect.stringMatching(uuid);

type More = { key?: string; headers?: Record<string, string> };

const send = (path: string, json: unknown, { key, headers }: More = {}): Promise<Answer> =>
  server.request('POST', path, {
    json,
    headers: { 'svc-partial': 'true', ...headers },
    ...(key === undefined ? {} : { key }),
  });

/** A batch that was done, in part or whole. */
const partly = async (path: string, json: unknown, more?: More): Promise<Answer['body']> => {
  const answer = await send(path, json, more);
  expect(answer.status, answer.text).toBe(207);
  expect(answer.headers.get('content-type')).toContain('application/json');
  const { body } = answer;
  expect(Object.keys(body)).toEqual(['data', 'errors', 'codes', 'errors_total']);
  expect(Object.keys(body.codes)).toEqual(Object.keys(body.errors));
  for (const [path, sentences] of Object.entries<string[]>(body.errors))
    expect(body.codes[path]).toHaveLength(sentences.length);
  return body;
};

const tokenize = (json: unknown, more?: More) => partly('/tokenize', json, more);
const detokenize = (json: unknown, more?: More) => partly('/detokenize', json, more);

const make = async (data: unknown, more: object = {}, key?: string): Promise<string> => {
  const json = { type: 'token', data, ...more };
  const answer = await server.request('POST', '/tokens', { json, ...(key === undefined ? {} : { key }) });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

const countTokens = async (): Promise<number> => {
  const tenant = [server.tenant.tenant_id];
  const [row] = await server.sql('SELECT count(*)::int AS n FROM tokens WHERE tenant_id = $1', tenant);
  return row.n;
};

const rowsOf = (operation: string, outcome = 'success', { application_id, tenant_id } = server.tenant) =>
  server.sql(
    `SELECT entity_ids, message, disclosure FROM audit_log
     WHERE tenant_id = $1 AND actor_id = $2 AND operation = $3 AND outcome = $4 ORDER BY created_at, id`,
    [tenant_id, application_id, operation, outcome],
  );

const ruled = (...rules: { container: string; transform?: string; permissions: string[] }[]): Promise<TestTenant> =>
  server.newKey(server.tenant, {
    rules: rules.map((rule, index) => ({ transform: 'reveal', ...rule, priority: index + 1 })),
  });

/** An application with a limit, whose rule reveals everything. */
const limited = async (daily_reveals: number): Promise<TestTenant> => {
  const rule = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
  const made = await server.request('POST', '/applications', {
    json: { name: 'Limited', rules: [rule], daily_reveals },
  });
  expect(made.status, made.text).toBe(201);
  return { ...server.tenant, application_id: made.body.id, api_key: made.body.key };
};

describe('/tokenize', () => {
  test('creates what is right, and names what is wrong with the others', async () => {
    const before = await countTokens();
    const body = await tokenize({
      name: 'Ada',
      none: null,
      cards: [
        { type: 'card', data: card },
        { type: 'card', data: { ...card, number: '4242424242424241', expiration_month: 13 } },
      ],
      deep: { odd: 2 ** 53, kind: { type: 'crad', data: 1 } },
    });
    expect(body.data).toEqual({
      name: ANY_ID,
      none: null,
      cards: [expect.objectContaining({ id: ANY_ID, type: 'card' }), null],
      deep: { odd: null, kind: null },
    });
    expect(body.errors['cards[1].data.number']).toEqual(['must have a valid check digit']);
    expect(body.codes).toEqual({
      'cards[1].data.number': ['check_digit'],
      'cards[1].data.expiration_month': ['too_large'],
      'deep.odd': ['inexact_number'],
      'deep.kind.type': ['not_allowed'],
    });
    expect(body.errors_total).toBe(4);
    expect(await countTokens()).toBe(before + 2);
    expect((await server.request('GET', `/tokens/${body.data.name}`)).body.data).toBe('Ada');
  });

  test('without a failure, and where all fail, is a 207 of the same form', async () => {
    expect(await tokenize('Ada')).toEqual({ data: ANY_ID, errors: {}, codes: {}, errors_total: 0 });
    expect(await tokenize([])).toEqual({ data: [], errors: {}, codes: {}, errors_total: 0 });
    expect(await tokenize(null)).toMatchObject({ data: null, errors_total: 0 });
    const before = await countTokens();
    expect(await tokenize({ type: 'card', data: { number: '1' } })).toMatchObject({ data: null });
    expect(await tokenize([{ type: 'card', data: 5 }])).toMatchObject({ data: [null] });
    expect(await countTokens()).toBe(before);
  });

  test('a container that the caller may not create in fails its items, and leaves a row of the log', async () => {
    const key = await ruled({ container: '/open/', permissions: ['token:create'] });
    const item = (container: string) => ({ type: 'token', data: 1, containers: [container] });
    const body = await tokenize([item('/open/'), item('/shut/'), item('/open/a/')], { key: key.api_key });
    expect(body.data).toMatchObject([{ id: ANY_ID }, null, { id: ANY_ID }]);
    expect(body.errors).toEqual({ '[1]': ['The permission token:create is needed for this.'] });
    expect(body.codes).toEqual({ '[1]': ['permission_missing'] });
    expect(await rowsOf('create', 'success', key)).toMatchObject([{ entity_ids: { length: 2 } }]);
    expect(await rowsOf('create', 'refused', key)).toMatchObject([{ message: 'Refused: token:create' }]);
  });

  test('a bound that is not valid, or names what is not there, fails its item alone', async () => {
    const item = (bound_to: object) => ({ type: 'token', data: 'x', bound_to });
    const unknown = randomUUID();
    const body = await tokenize({
      good: item({ hosts: ['api.example.com'] }),
      list: [item({ hosts: ['api.example.com'], proxies: [unknown], reactors: [unknown] }), item({ max_uses: 0 })],
      none: item({}),
      plain: 'Ada',
    });
    expect(body.data).toMatchObject({ good: { id: ANY_ID }, list: [null, null], none: null, plain: ANY_ID });
    expect(body.codes).toMatchObject({
      'list[0].bound_to.proxies[0]': ['not_found'],
      'list[0].bound_to.reactors[0]': ['not_found'],
      'list[1].bound_to.max_uses': [expect.any(String)],
      'none.bound_to': [expect.any(String)],
    });
    expect(JSON.stringify(body.errors)).not.toContain(unknown);
    const { body: read } = await server.request('GET', `/tokens/${body.data.good.id}`);
    expect(read.bound_to).toEqual({ hosts: ['api.example.com'] });
    const whole = await server.request('POST', '/tokenize', { json: ['Ada', item({ proxies: [unknown] })] });
    expect([whole.status, Object.keys(whole.body.errors)]).toEqual([400, ['[1].bound_to.proxies[0]']]);
  });

  test('an id in use fails its item: stored, expired, or of an item before', async () => {
    const stored = `stored-${randomUUID()}`;
    const expired = `expired-${randomUUID()}`;
    const fresh = `fresh-${randomUUID()}`;
    await make('first', { id: stored });
    await make('old', { id: expired, expires_at: new Date(Date.now() + 60_000).toISOString() });
    server.clock.offsetMs = 120_000;
    const item = (id: string) => ({ type: 'token', data: 'second', id });
    const body = await tokenize({ a: item(stored), b: item(fresh), c: item(fresh), d: item(expired), e: 'plain' });
    server.clock.offsetMs = 0;
    expect(body.data).toMatchObject({ a: null, b: { id: fresh }, c: null, d: null, e: ANY_ID });
    expect(body.codes).toEqual({ 'a.id': ['already_exists'], 'c.id': ['already_exists'], 'd.id': ['already_exists'] });
    expect((await server.request('GET', `/tokens/${stored}`)).body.data).toBe('first');
  });

  test('an id that another request takes meanwhile fails its item, and the others are created', async () => {
    const id = `raced-${randomUUID()}`;
    const items = [{ type: 'token', data: 'one', id }, 'other'];
    const answers = await Promise.all(Array.from({ length: 6 }, () => tokenize(items)));
    expect(answers.filter(({ data }) => data[0] !== null)).toHaveLength(1);
    expect(answers.every(({ data }) => uuid.test(data[1]))).toBe(true);
    expect(new Set(answers.map(({ errors_total }) => errors_total))).toEqual(new Set([0, 1]));
  });

  test('a large batch keeps its places', async () => {
    const values = Array.from({ length: 2_500 }, (_, index) =>
      index % 5 === 0 ? { type: 'us_bank_routing_number', data: 'x' } : `value-${index}`,
    );
    const body = await tokenize(values);
    expect(body.data.map((each: unknown) => each === null)).toEqual(values.map((_, index) => index % 5 === 0));
    expect(body.errors_total).toBe(500);
    const shown = await server.request('POST', '/detokenize', { json: `{{ ${body.data[2_499]} }}` });
    expect(shown.body).toBe('value-2499');
  });

  test('lists at most 1,000 errors, and says how many there are', async () => {
    const body = await tokenize([...Array.from({ length: 1_200 }, () => ({ type: 'card', data: 1 })), 'right']);
    expect(Object.values<string[]>(body.errors).flat()).toHaveLength(1_000);
    expect(Object.values<string[]>(body.codes).flat()).toHaveLength(1_000);
    expect(body.errors_total).toBe(1_200);
    expect(body.data.at(-1)).toMatch(uuid);
  });

  test('deduplicates the items that are left', async () => {
    const twin = { type: 'token', data: `twin-${randomUUID()}`, deduplicate_token: true };
    const body = await tokenize([twin, { type: 'card', data: 1 }, twin]);
    expect(body.data[0].id).toBe(body.data[2].id);
    expect(body.data[2]._extras).toEqual({ deduplicated: true });
  });

  test('an item whose value is stored needs no id: the token serves, as in a whole batch', async () => {
    const id = randomUUID();
    const again = { id, type: 'token', data: `again-${id}`, deduplicate_token: true };
    const [made] = (await tokenize([again])).data;
    const body = await tokenize([again, { type: 'card', data: 1 }, { ...again, data: 'another value' }, again]);
    expect(made.id).toBe(id);
    // The third item takes an id that is in use: the second attempt cannot tell which of the three needs it.
    expect(Object.keys(body.errors).toSorted()).toEqual(['[0].id', '[1].data', '[2].id', '[3].id']);
    const rerun = await tokenize([again, { type: 'card', data: 1 }, again]);
    expect(rerun.data.map((each: { id: string } | null) => each?.id)).toEqual([id, undefined, id]);
    expect(Object.keys(rerun.errors)).toEqual(['[1].data']);
  });

  test.each([
    ['too many values', Array.from({ length: 10_001 }, () => 1), 'body'],
    ['too much nesting', JSON.parse('['.repeat(66) + ']'.repeat(66)), ''],
  ])('%s fail the whole, and store nothing', async (_, json, place) => {
    const before = await countTokens();
    const answer = await send('/tokenize', json);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)[0]).toContain(place);
    expect(await countTokens()).toBe(before);
  });

  test('expressions that take too much work fail the whole', async () => {
    const mask = Array.from({ length: 900 }, () => "{{ data | replace: 'a', 'b' | upcase | downcase }}");
    const item = { type: 'token', data: 'a'.repeat(9_000), mask };
    const before = await countTokens();
    const answer = await send('/tokenize', ['first', item, item, item]);
    expect([400, 413]).toContain(answer.status);
    expect(await countTokens()).toBe(before);
  });

  test('bodies that are no JSON, have a key twice, or are missing fail the whole', async () => {
    const headers = { 'svc-partial': 'true', 'content-type': 'application/json' };
    for (const body of ['{', '{"a":1,"a":2}', '{"__proto__":1}', ''])
      expect((await server.request('POST', '/tokenize', { headers, body })).status).toBe(400);
  });
});

describe('/tokenize with an idempotency key', () => {
  const asked = () => ['right', { type: 'card', data: { ...card, number: '4242424242424241' } }];
  const keyed = () => ({ headers: { 'svc-idempotency-key': randomUUID() } });

  test('keeps the whole 207: the same key creates nothing more', async () => {
    const more = keyed();
    const first = await send('/tokenize', asked(), more);
    const before = await countTokens();
    const second = await send('/tokenize', asked(), more);
    expect([first.status, second.status]).toEqual([207, 207]);
    expect(second.text).toBe(first.text);
    expect(second.headers.get('svc-idempotent-replayed')).toBe('true');
    expect(first.headers.get('svc-idempotent-replayed')).toBeNull();
    expect(await countTokens()).toBe(before);
    expect(second.body).toMatchObject({ data: [ANY_ID, null], errors_total: 1 });
  });

  test('keeps a 207 in which nothing was created', async () => {
    const more = keyed();
    const first = await send('/tokenize', asked().slice(1), more);
    const second = await send('/tokenize', asked().slice(1), more);
    expect([first.text, second.headers.get('svc-idempotent-replayed')]).toEqual([second.text, 'true']);
  });

  test('without SVC-PARTIAL, or with it later, is another request', async () => {
    const more = keyed();
    expect((await send('/tokenize', ['right'], more)).status).toBe(207);
    const whole = await server.request('POST', '/tokenize', { json: ['right'], ...more });
    expect([whole.status, whole.body.code]).toEqual([422, 'idempotency_key_reused']);
    const other = keyed();
    expect((await server.request('POST', '/tokenize', { json: ['right'], ...other })).status).toBe(200);
    expect((await send('/tokenize', ['right'], other)).status).toBe(422);
  });

  test('a database that goes away meanwhile fails the whole, and the key is free again', async () => {
    const more = keyed();
    const held = await holdRow(server, 'LOCK TABLE tokens IN EXCLUSIVE MODE', []);
    try {
      const sending = send('/tokenize', asked(), more);
      await held.waiting(1);
      await server.sql(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = '${POOL_NAME}' AND wait_event_type = 'Lock'`,
      );
      expect((await sending).status).toBe(503);
    } finally {
      await held.letGo();
    }
    expect((await send('/tokenize', asked(), more)).status).toBe(207);
  });

  test('failed items are sent again under a new key', async () => {
    const first = await tokenize(asked(), keyed());
    const [, failed] = asked();
    const again = await tokenize([{ ...(failed as object), data: card }], keyed());
    expect(again.data[0].id).not.toBe(first.data[0]);
    expect(again.errors_total).toBe(0);
  });
});

describe('/detokenize', () => {
  test('gives what the caller may read, and names what is wrong with the others', async () => {
    const [id, gone] = [await make('Ada'), await make('gone')];
    await server.request('DELETE', `/tokens/${gone}`);
    const body = await detokenize({
      name: `{{ ${id} }}`,
      text: `Hello {{ ${id} }}`,
      gone: [`{{ ${gone} }}`, `{{ ${id} }} and {{ ${gone} }}`],
      open: '{{ ',
      filter: `{{ ${id} | nothing }}`,
      path: `{{ ${id} | json: '$.a' }}`,
      plain: [1, null, 'x'],
    });
    expect(body.data).toEqual({
      name: 'Ada',
      text: 'Hello Ada',
      gone: [null, null],
      open: null,
      filter: null,
      path: null,
      plain: [1, null, 'x'],
    });
    expect(body.codes).toEqual({
      'gone[0]': ['not_found'],
      'gone[1]': ['not_found'],
      open: ['bad_expression'],
      filter: ['bad_expression'],
      path: ['bad_expression'],
    });
    expect(body.errors_total).toBe(5);
    expect(JSON.stringify(body.errors)).not.toContain('Ada');
  });

  test('of plain JSON, and with no failure, is a 207 too, and reads nothing', async () => {
    const before = await rowsOf('read');
    expect(await detokenize({ a: [1, 'b'] })).toEqual({
      data: { a: [1, 'b'] },
      errors: {},
      codes: {},
      errors_total: 0,
    });
    expect(await detokenize('{{ }}')).toMatchObject({ data: null, codes: { body: ['bad_expression'] } });
    expect(await rowsOf('read')).toEqual(before);
  });

  test('tokens of another tenant and unknown ones look alike', async () => {
    const foreign = await make('secret', {}, (await server.newTenant()).api_key);
    const unknown = randomUUID();
    const one = await detokenize({ a: `{{ ${foreign} }}`, b: `{{ ${foreign} | json: '$.x' | last4 }}` });
    const other = await detokenize({ a: `{{ ${unknown} }}`, b: `{{ ${unknown} | json: '$.x' | last4 }}` });
    expect(JSON.stringify(one).replaceAll(foreign, 'ID')).toBe(JSON.stringify(other).replaceAll(unknown, 'ID'));
    expect(one).toMatchObject({ data: { a: null, b: null }, codes: { a: ['not_found'], b: ['not_found'] } });
  });

  test('a token that the caller may not read fails its items, and leaves a row of the log', async () => {
    const key = await ruled({ container: '/open/', permissions: ['token:read'] });
    const [open, shut] = [await make('o', { containers: ['/open/'] }), await make('s', { containers: ['/shut/'] })];
    const body = await detokenize([`{{ ${open} }}`, `{{ ${shut} }}`, `{{ ${open} }}{{ ${shut} }}`], {
      key: key.api_key,
    });
    expect(body.data).toEqual(['o', null, null]);
    expect(body.codes).toEqual({ '[1]': ['permission_missing'], '[2]': ['permission_missing'] });
    expect(await rowsOf('read', 'success', key)).toMatchObject([{ entity_ids: [open], disclosure: 'revealed' }]);
    expect(await rowsOf('read', 'refused', key)).toMatchObject([{ message: 'Refused: token:read' }]);
  });

  test('a request over its limits of tokens, expressions or size fails whole', async () => {
    const id = await make('x'.repeat(300_000));
    const many = Array.from({ length: 101 }, () => `{{ ${randomUUID()} }}`);
    expect((await send('/detokenize', many)).status).toBe(400);
    const crowded = Array.from({ length: 1_001 }, () => `{{ ${id} }}`);
    expect((await send('/detokenize', crowded)).status).toBe(400);
    const large = Array.from({ length: 50 }, () => `{{ ${id} }}`);
    expect((await send('/detokenize', ['{{ ', ...large])).status).toBe(413);
    expect((await send('/detokenize', JSON.parse('['.repeat(66) + ']'.repeat(66)))).status).toBe(400);
  });
});

describe('daily_reveals', () => {
  test('counts what succeeded; items over it fail, those that are counted already do not', async () => {
    const key = await limited(2);
    const more = { key: key.api_key };
    const ids = await Promise.all(['a', 'b', 'c'].map((value) => make(value)));
    const [a, b, c] = ids;
    const first = await send('/detokenize', { a: `{{ ${a} }}`, wrong: `{{ ${b} }}{{ ${randomUUID()} }}` }, more);
    expect(first.body).toMatchObject({ data: { a: 'a', wrong: null }, codes: { wrong: ['not_found'] } });
    expect(first.headers.get('ratelimit')).toContain('"daily_reveals";r=1');
    const second = await send('/detokenize', [`{{ ${b} }}{{ ${c} }}`, `{{ ${c} }}`, `{{ ${b} }}`, `{{ ${a} }}`], more);
    expect(second.status, second.text).toBe(207);
    expect(second.body.data).toEqual([null, 'c', null, 'a']);
    expect(second.body.codes).toEqual({ '[0]': ['daily_limit'], '[2]': ['daily_limit'] });
    expect(second.body.errors['[2]'][0]).toContain('daily_reveals');
    expect(second.headers.get('ratelimit')).toContain('"daily_reveals";r=0');
    const read = await rowsOf('read', 'success', key);
    expect(read.map(({ entity_ids }) => entity_ids.toSorted())).toEqual([[a], [a, c].toSorted()]);
  });

  test('an item over the limit says nothing of its value: its expressions are not evaluated', async () => {
    const key = await limited(0);
    const id = await make({ pin: '4711' });
    const guess = (pin: string) => `{{ ${id} | json: '$[?(@ == "${pin}")]' }}`;
    const body = await detokenize([guess('4711'), guess('4712'), `{{ ${id} | json: '$.nothing' }}`], {
      key: key.api_key,
    });
    expect(body.data).toEqual([null, null, null]);
    expect(Object.values(body.codes)).toEqual([['daily_limit'], ['daily_limit'], ['daily_limit']]);
    expect(new Set(Object.values<string[]>(body.errors).map(([sentence]) => sentence)).size).toBe(1);
  });

  test('an expression that fails on a value has counted: the failure tells something of the value', async () => {
    const key = await limited(1);
    const [id, other] = [await make({ pin: '4711' }), await make('other')];
    const first = await detokenize([`{{ ${id} | json: '$.nothing' }}`], { key: key.api_key });
    expect(first.codes).toEqual({ '[0]': ['bad_expression'] });
    expect(await detokenize([`{{ ${other} }}`], { key: key.api_key })).toMatchObject({
      codes: { '[0]': ['daily_limit'] },
    });
    expect(await rowsOf('read', 'success', key)).toMatchObject([{ entity_ids: [id], disclosure: 'revealed' }]);
  });

  test('is exact for requests at the same time', async () => {
    const key = await limited(5);
    const ids = await Promise.all(Array.from({ length: 12 }, (_, index) => make(`v${index}`)));
    const texts = ids.map((id) => `{{ ${id} }}`);
    const bodies = await Promise.all(
      [texts, texts.toReversed(), texts.slice(4)].map((json) => detokenize(json, { key: key.api_key })),
    );
    const seen = new Set(bodies.flatMap(({ data }) => data).filter((value) => value !== null));
    expect(seen.size).toBe(5);
  });
});

describe('the header', () => {
  test.each(['false', '1', 'TRUE', ''])('with the value %j is a 400 that names it', async (value) => {
    const before = await countTokens();
    for (const path of ['/tokenize', '/detokenize']) {
      const answer = await send(path, ['x'], { headers: { 'svc-partial': value } });
      expect([answer.status, answer.body.errors]).toEqual([400, { 'SVC-PARTIAL': ['must be true, or left out'] }]);
    }
    expect(await countTokens()).toBe(before);
  });

  test('with a public key is a 400', async () => {
    const made = await server.request('POST', '/applications', {
      json: { name: 'Page', type: 'public', permissions: ['token:create'] },
    });
    const answer = await send('/tokenize', ['x'], { key: made.body.key });
    expect([answer.status, answer.body.errors]).toEqual([
      400,
      { 'SVC-PARTIAL': ['must not be sent with a public key'] },
    ]);
  });

  test('on every other route is a 400; without a key it is a 401, and no route a 404', async () => {
    const paths = server.routes.flatMap(({ method, url, config }) => {
      const { methodGuard, takesPartial, permission } = (config ?? {}) as Record<string, unknown>;
      if (methodGuard || takesPartial || permission === null) return [];
      const path = url.replace('*', 'x').replaceAll(/:\w+/g, randomUUID());
      const methods = [method].flat().filter((each) => each !== 'HEAD' && each !== 'TRACE' && each !== 'CONNECT');
      return [[methods.includes('POST') ? 'POST' : (methods[0] as string), path] as const];
    });
    expect(paths.length).toBeGreaterThan(30);
    for (const [method, path] of paths) {
      const answer = await server.request(method, path, { headers: { 'svc-partial': 'true' } });
      const problem = answer.body?.proxy_error ?? answer.body;
      expect([`${method} ${path}`, answer.status]).toEqual([`${method} ${path}`, 400]);
      // The errors of a published interface are flat.
      expect(Object.keys(problem.errors ?? { [problem.param.slice('$.'.length)]: [] })).toEqual(['SVC-PARTIAL']);
    }
    const headers = { 'svc-partial': 'true' };
    expect((await server.request('POST', '/tokenize', { key: null, headers, json: 1 })).status).toBe(401);
    expect((await server.request('GET', '/nothing', { headers })).status).toBe(404);
  });
});

describe('statements', () => {
  const statementsOf = async (run: () => Promise<unknown>): Promise<string[]> => {
    const sent = vi.spyOn(Client.prototype, 'query');
    await run();
    const names = sent.mock.calls.map(([config]) => String((config as unknown as { name?: string }).name ?? config));
    sent.mockRestore();
    // A key is remembered for a second.
    return names.filter((name) => name !== 'find-api-key');
  };
  const post = (path: string, json: unknown) => server.request('POST', path, { json });

  test('are as ever without the header, and no more with it for plain values', async () => {
    const id = await make('x');
    await post('/tokenize', { type: 'card', data: card });
    const whole = await statementsOf(() => post('/tokenize', ['a', { type: 'card', data: card }]));
    const part = await statementsOf(() => send('/tokenize', ['a', { type: 'card', data: card }]));
    expect(part).toEqual(whole);
    expect(whole).toEqual(['insert-tokens']);
    const read = await statementsOf(() => post('/detokenize', `{{ ${id} }}`));
    expect(await statementsOf(() => send('/detokenize', `{{ ${id} }}`))).toEqual(read);
    expect(read).toEqual(['find-values', 'insert-logs']);
  });
});
