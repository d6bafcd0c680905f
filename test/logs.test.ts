// GET /logs over HTTP: what is recorded, how it is filtered, and that no client can change it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, startServer, type TestServer, type TestTenant } from './support/server.ts';

/** 12:00 of a day, to the millisecond, until a test moves it. */
const NOON = Date.UTC(2026, 2, 1, 12);
let nowMs = NOON;
let server: TestServer;
beforeAll(async () => {
  server = await startServer({}, { now: () => new Date(nowMs) });
});
afterAll(() => server.close());

const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };

type Entry = { entity_type: string; entity_id: string; operation: string; message: string; created_at: string };

const logs = (query: Record<string, string | number> | string, of: TestTenant = server.tenant): Promise<Answer> => {
  const text = typeof query === 'string' ? query : String(new URLSearchParams(query as Record<string, string>));
  return server.request('GET', `/logs?${text}`, { key: of.api_key });
};
const entriesOf = async (query: Record<string, string | number> | string, of?: TestTenant): Promise<Entry[]> => {
  const answer = await logs(query, of);
  expect(answer.status, answer.text).toBe(200);
  return answer.body.data;
};
const createdIds = async (query: Record<string, string | number>, of: TestTenant): Promise<string[]> =>
  (await entriesOf({ entity_type: 'token', ...query }, of)).map(({ entity_id }) => entity_id);

const newToken = async (of: TestTenant, request: object = { data: 'x' }): Promise<string> => {
  const answer = await server.request('POST', '/tokens', { json: request, key: of.api_key });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

/** Every entry of a tenant as the table holds them. */
const storedEntries = async (of: TestTenant): Promise<string[]> => {
  const text = 'SELECT operation, unnest(entity_ids) AS id FROM audit_log WHERE tenant_id = $1';
  return (await server.sql(text, [of.tenant_id])).map(({ operation, id }) => `${operation} ${id}`).toSorted();
};
const nameOf = ({ operation, entity_id }: Entry): string => `${operation} ${entity_id}`;

describe('what is recorded', () => {
  test('lists every operation on a token with its actor, newest first', async () => {
    const tenant = await server.newTenant();
    const { api_key: key } = tenant;
    const id = await newToken(tenant, { type: 'card', data: card });
    const steps: [string, string, object][] = [
      ['GET', `/tokens/${id}`, {}],
      [
        'PATCH',
        `/tokens/${id}`,
        { body: '{"metadata":{"a":"b"}}', headers: { 'content-type': 'application/merge-patch+json' } },
      ],
      ['GET', '/tokens', {}],
      ['POST', '/tokens/search', { json: { query: 'type:card' } }],
      ['POST', '/detokenize', { json: `{{ ${id} }}` }],
      ['DELETE', `/tokens/${id}`, {}],
    ];
    for (const [method, path, options] of steps) {
      nowMs += 1;
      const { status, text } = await server.request(method, path, { ...options, key });
      expect(status, text).toBeLessThan(300);
    }
    const entries = await entriesOf({ entity_id: id }, tenant);
    expect(entries.map(({ operation, message }) => `${operation}: ${message}`)).toEqual([
      'delete: Token deleted',
      'read: Token retrieved',
      'read: Tokens listed',
      'read: Tokens listed',
      'update: Token updated',
      'read: Token retrieved',
      'create: Token created',
    ]);
    for (const entry of entries)
      expect(entry).toMatchObject({
        tenant_id: tenant.tenant_id,
        actor_id: tenant.application_id,
        actor_type: 'application',
        entity_type: 'card',
      });
    expect(entries.map(({ created_at }) => Date.parse(created_at))).toEqual(
      Array.from({ length: 7 }, (_, index) => nowMs - index),
    );
  });

  test('the operator who made the tenant, as an actor without an id', async () => {
    const tenant = await server.newTenant();
    const [entry] = await entriesOf({ entity_type: 'tenant' }, tenant);
    expect(entry).toMatchObject({ operation: 'create', entity_id: tenant.tenant_id, actor_type: 'operator' });
    expect(Object.keys(entry as object)).not.toContain('actor_id');
  });

  test('nothing of what was refused', async () => {
    const tenant = await server.newTenant();
    const before = await storedEntries(tenant);
    await server.tokenize(['fine', { type: 'card', data: { number: '1' } }], tenant.api_key);
    await server.request('GET', '/tokens/no-such-token', { key: tenant.api_key });
    await server.request('DELETE', '/tokens/no-such-token', { key: tenant.api_key });
    await logs({ page: 0 }, tenant);
    expect(await storedEntries(tenant)).toEqual(before);
  });

  test('no value of any kind: no data, no metadata, no line forged in either', async () => {
    const tenant = await server.newTenant();
    const forged = 'needle\r\n{"level":60,"msg":"forged"}\u001b[31m\u2028';
    const request = {
      type: 'token',
      data: forged,
      mask: '{{ data | upcase }}',
      metadata: { note: forged },
      search_indexes: ['{{ data }}'],
    };
    const id = await newToken(tenant, request);
    const { api_key: key } = tenant;
    await server.request('GET', `/tokens/${id}`, { key });
    await server.request('GET', `/tokens?metadata.note=${encodeURIComponent(forged)}`, { key });
    await server.request('POST', '/tokens/search', { json: { query: 'data:needle' }, key });
    await server.request('POST', '/detokenize', { json: `{{ ${id} }}`, key });
    await logs({ entity_id: 'needle', entity_type: 'needle' }, tenant);
    await server.request('DELETE', `/tokens/${id}`, { key });
    const all = await server.request('GET', '/logs?size=100', { key });
    expect(all.body.data.length).toBeGreaterThan(5);
    expect(all.text.toLowerCase()).not.toContain('needle');
    const rows = await server.sql('SELECT audit_log::text AS text FROM audit_log');
    expect(rows.filter(({ text }) => text.toLowerCase().includes('needle'))).toEqual([]);
    const lines = server.logLines.join('');
    expect(lines.toLowerCase()).not.toContain('needle');
    for (const line of lines.trimEnd().split('\n')) expect(JSON.parse(line)).toBeTypeOf('object');
  });
});

describe('filters', () => {
  let tenant: TestTenant;
  let cardId: string;
  let tokenIds: string[];
  beforeAll(async () => {
    tenant = await server.newTenant();
    nowMs = NOON + 1000;
    tokenIds = (await server.tokenize(['a', 'b', 'c'], tenant.api_key)).body;
    nowMs = NOON + 2000;
    cardId = await newToken(tenant, { type: 'card', data: card });
    nowMs = NOON + 3000;
    for (const id of [tokenIds[1], cardId])
      expect((await server.request('GET', `/tokens/${id}`, { key: tenant.api_key })).status).toBe(200);
  });
  afterAll(() => (nowMs = NOON));

  const at = (ms: number) => new Date(NOON + ms).toISOString();

  test('by kind of entity', async () => {
    expect((await entriesOf({ entity_type: 'card' }, tenant)).map(nameOf)).toEqual([
      `read ${cardId}`,
      `create ${cardId}`,
    ]);
    expect((await entriesOf({ entity_type: 'token' }, tenant)).map(nameOf).toSorted()).toEqual(
      [`read ${tokenIds[1]}`, ...tokenIds.map((id) => `create ${id}`)].toSorted(),
    );
    expect(await entriesOf({ entity_type: 'reactor' }, tenant)).toEqual([]);
    expect(await entriesOf({ entity_type: 'no_such_kind' }, tenant)).toEqual([]);
  });

  test('by entity: only the entry of this entity, for an operation on many', async () => {
    for (const id of [tokenIds[0], tokenIds[2]]) {
      const { body } = await logs({ entity_id: id as string }, tenant);
      expect(body.data.map(nameOf)).toEqual([`create ${id}`]);
      expect(body.pagination).toMatchObject({ total_items: 1, total_pages: 1 });
    }
    expect((await entriesOf({ entity_id: tokenIds[1] as string }, tenant)).map(({ operation }) => operation)).toEqual([
      'read',
      'create',
    ]);
    for (const entity_id of ['no-such-token', '%', "'", tokenIds[0]?.slice(0, 8) as string, '{}', '💳'])
      expect(await entriesOf({ entity_id }, tenant)).toEqual([]);
  });

  test('by time, from a start on and before an end', async () => {
    const operations = async (query: Record<string, string>) =>
      (await entriesOf({ ...query, entity_id: cardId }, tenant)).map(({ operation }) => operation);
    expect(await operations({ start_date: at(2000) })).toEqual(['read', 'create']);
    expect(await operations({ start_date: at(2001) })).toEqual(['read']);
    expect(await operations({ end_date: at(3000) })).toEqual(['create']);
    expect(await operations({ end_date: at(3001) })).toEqual(['read', 'create']);
    expect(await operations({ start_date: at(2000), end_date: at(3000) })).toEqual(['create']);
    expect(await operations({ start_date: at(2000), end_date: at(2000) })).toEqual([]);
  });

  test('all together', async () => {
    const all = { entity_type: 'token', entity_id: tokenIds[1] as string, start_date: at(1000), end_date: at(3000) };
    const { body } = await logs(all, tenant);
    expect(body.data.map(nameOf)).toEqual([`create ${tokenIds[1]}`]);
    expect(body.pagination.total_items).toBe(1);
    expect(await entriesOf({ ...all, entity_type: 'card' }, tenant)).toEqual([]);
    expect(await entriesOf({ ...all, start_date: at(1001) }, tenant)).toEqual([]);
    expect(await entriesOf({ ...all, end_date: at(1000) }, tenant)).toEqual([]);
    expect((await entriesOf({ ...all, end_date: at(3001) }, tenant)).map(({ operation }) => operation)).toEqual([
      'read',
      'create',
    ]);
  });

  test.each([
    ['entity_type=no-such', 'entity_type'],
    ['entity_type=', 'entity_type'],
    ['entity_type=card&entity_type=token', 'entity_type'],
    ['entity_type=a%00', 'entity_type'],
    ['entity_id=', 'entity_id'],
    ['entity_id=a&entity_id=b', 'entity_id'],
    ['entity_id=a%00b', 'entity_id'],
    [`entity_id=${'x'.repeat(401)}`, 'entity_id'],
    ['page=0', 'page'],
    ['page=1.5', 'page'],
    ['size=0', 'size'],
    ['size=101', 'size'],
    ['size=0x10', 'size'],
    ['start=none', 'start'],
    ['start=WyJ4IiwieSJd', 'start'],
    [`start=${Buffer.from('["00000000-0000-7000-8000-000000000000","-1"]').toString('base64url')}`, 'start'],
    [`start=${Buffer.from('{}').toString('base64url')}`, 'start'],
  ])('%s is refused by name', async (query, name) => {
    const answer = await logs(query);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([name]);
  });
});

describe('the interval of time', () => {
  let tenant: TestTenant;
  /** One token at each of five milliseconds around noon. */
  const ids = new Map<number, string>();
  beforeAll(async () => {
    tenant = await server.newTenant();
    for (const ms of [-1, 0, 1, 2, 1000]) {
      nowMs = NOON + ms;
      ids.set(ms, await newToken(tenant));
    }
  });
  afterAll(() => (nowMs = NOON));

  const found = async (query: Record<string, string>) => {
    const names = new Map([...ids].map(([ms, id]) => [id, ms]));
    return (await createdIds(query, tenant)).map((id) => names.get(id)).toReversed();
  };

  test.each([
    ['2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.002Z', [0, 1]],
    ['2026-03-01T12:00:00Z', '2026-03-01T12:00:00.001Z', [0]],
    ['2026-03-01T12:00:00.001Z', '2026-03-01T12:00:01Z', [1, 2]],
    ['2026-03-01T12:00:00.001Z', '2026-03-01T12:00:01.001Z', [1, 2, 1000]],
    // Finer than a record's time can be: what lies between two milliseconds is behind the one and before the other.
    ['2026-03-01T12:00:00.000001Z', '2026-03-01T12:00:00.002Z', [1]],
    ['2026-03-01T12:00:00.000999999Z', '2026-03-01T12:00:00.002Z', [1]],
    ['2026-03-01T12:00:00.001000Z', '2026-03-01T12:00:00.001001Z', [1]],
    ['2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000001Z', [0]],
    ['2026-03-01T11:59:59.999999Z', '2026-03-01T12:00:00.000000Z', []],
    ['2026-03-01T11:59:59.999Z', '2026-03-01T12:00:00.0000009Z', [-1, 0]],
    ['2026-03-01T12:00:00.0005Z', '2026-03-01T12:00:00.0007Z', []],
    // Other ways to write an instant.
    ['2026-03-01T14:00:00.001+02:00', '2026-03-01T06:30:00.002-05:30', [1]],
    ['2026-03-01 12:00:00.001', '2026-03-01t12:00:00.002z', [1]],
    ['2026-03-01', '2026-03-01T12:00:00', [-1]],
    ['2026-03-01', '2026-03-02', [-1, 0, 1, 2, 1000]],
    ['2026-02-28', '2026-03-01', []],
    ['3/1/2026 12:00:01 PM', '3/2/2026', [1000]],
    ['1500-01-01', '9999-12-31', [-1, 0, 1, 2, 1000]],
  ])('from %s and before %s', async (start_date, end_date, expected) => {
    expect(await found({ start_date, end_date })).toEqual(expected);
  });

  test('may be open on either side', async () => {
    expect(await found({ start_date: '2026-03-01T12:00:00.0015Z' })).toEqual([2, 1000]);
    expect(await found({ end_date: '2026-03-01T12:00:00.0005Z' })).toEqual([-1, 0]);
  });

  test.each([
    'yesterday',
    '',
    '2026-02-30',
    '2026-13-01',
    '2026-03-01T24:00:00Z',
    '2026-03-01T23:59:60Z',
    '2026-03-01T12:00:00+25:00',
    '2026-03-01T12:00:00.1234567890Z',
    '1772366400',
    '2026-03-01T12:00:00Z; DROP TABLE audit_log',
  ])('is refused where an end of it is %j, which names that end', async (date) => {
    for (const name of ['start_date', 'end_date']) {
      const answer = await logs({ [name]: date });
      expect(answer.status, answer.text).toBe(400);
      expect(Object.keys(answer.body.errors)).toEqual([name]);
    }
    expect(Object.keys((await logs({ start_date: date, end_date: date })).body.errors)).toEqual([
      'start_date',
      'end_date',
    ]);
  });

  test('is refused where it ends before it begins, or has two ends', async () => {
    for (const [query, name] of [
      ['start_date=2026-03-02&end_date=2026-03-01', 'start_date'],
      ['start_date=2026-03-01T12:00:00.001Z&end_date=2026-03-01T12:00:00Z', 'start_date'],
      ['end_date=2026-03-01&end_date=2026-03-02', 'end_date'],
    ] as const) {
      const answer = await logs(query);
      expect(answer.status, answer.text).toBe(400);
      expect(Object.keys(answer.body.errors)).toEqual([name]);
    }
  });
});

describe('pages over operations on many entities', () => {
  let tenant: TestTenant;
  let stored: string[];
  beforeAll(async () => {
    tenant = await server.newTenant();
    const cards = Array.from({ length: 5 }, () => ({ type: 'card', data: card }));
    const ids: string[] = [];
    for (const size of [7, 1, 4]) {
      const { status, body } = await server.tokenize(
        [...Array.from({ length: size }, (_, index) => `${index}`), ...cards],
        tenant.api_key,
      );
      expect(status).toBe(200);
      ids.push(...body.map((made: string | { id: string }) => (typeof made === 'string' ? made : made.id)));
    }
    const json = ids.slice(0, 9).map((id) => `{{ ${id} }}`);
    expect((await server.request('POST', '/detokenize', { json, key: tenant.api_key })).status).toBe(200);
    stored = await storedEntries(tenant);
    // 12 tokens, 15 cards, 9 reads, a tenant and an application.
    expect(stored).toHaveLength(38);
  });

  test.each([1, 2, 3, 5, 8, 37, 38, 100])('by number, %i on each: every entry once', async (size) => {
    const seen: string[] = [];
    for (let page = 1; page <= Math.ceil(38 / size); page += 1) {
      const { body } = await logs({ size, page }, tenant);
      expect(body.pagination).toMatchObject({
        total_items: 38,
        page_number: page,
        page_size: size,
        total_pages: Math.ceil(38 / size),
      });
      seen.push(...body.data.map(nameOf));
    }
    expect(seen.toSorted()).toEqual(stored);
    for (const page of [Math.ceil(38 / size) + 1, 1_000_000_000])
      expect((await logs({ size, page }, tenant)).body.data).toEqual([]);
  });

  test.each([1, 2, 3, 5, 8, 37, 38, 100])('by cursor, %i on each: every entry once', async (size) => {
    const seen: string[] = [];
    let query: Record<string, string | number> = { size };
    for (let pages = 0; pages <= 38; pages += 1) {
      const { body } = await logs(query, tenant);
      seen.push(...body.data.map(nameOf));
      if (body.pagination.next === undefined) break;
      query = { size, start: body.pagination.next };
    }
    expect(seen.toSorted()).toEqual(stored);
  });

  test('by cursor under a filter: every entry of that kind once', async () => {
    const seen: string[] = [];
    let query: Record<string, string | number> = { size: 4, entity_type: 'card' };
    for (let pages = 0; pages <= 10; pages += 1) {
      const { body } = await logs(query, tenant);
      expect(body.data.every(({ entity_type }: Entry) => entity_type === 'card')).toBe(true);
      seen.push(...body.data.map(nameOf));
      if (body.pagination.next === undefined) break;
      query = { ...query, start: body.pagination.next };
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((name) => name.startsWith('create'))).toHaveLength(15);
  });

  test('by cursor while more is written: what was there is seen once', async () => {
    const busy = await server.newTenant();
    await server.tokenize(
      Array.from({ length: 30 }, (_, index) => `${index}`),
      busy.api_key,
    );
    const before = await storedEntries(busy);
    const seen: string[] = [];
    let query: Record<string, string | number> = { size: 7 };
    for (let pages = 0; pages <= 10; pages += 1) {
      const { body } = await logs(query, busy);
      seen.push(...body.data.map(nameOf));
      if (body.pagination.next === undefined) break;
      query = { size: 7, start: body.pagination.next };
      nowMs += 1;
      await server.tokenize(['later', 'still later'], busy.api_key);
    }
    expect(seen.toSorted()).toEqual(before);
  });

  test('a cursor of one tenant shows another its own entries only', async () => {
    const otherTenant = await server.newTenant();
    nowMs -= 60_000;
    const { next } = (await logs({ size: 1 }, tenant)).body.pagination;
    nowMs += 60_000;
    const { status, body, text } = await logs({ start: next, size: 100 }, otherTenant);
    expect(status, text).toBe(200);
    expect(body.data.every(({ tenant_id }: { tenant_id: string }) => tenant_id === otherTenant.tenant_id)).toBe(true);
    expect(text).not.toContain(tenant.tenant_id);
  });
});

describe('who may read it', () => {
  test('a tenant sees no entries of another tenant, even with its own ids', async () => {
    const [mine, theirs] = [await server.newTenant(), await server.newTenant()];
    const id = await newToken(mine);
    for (const [method, path, json] of [
      ['GET', `/tokens/${id}`, undefined],
      ['DELETE', `/tokens/${id}`, undefined],
      ['POST', '/detokenize', `{{ ${id} }}`],
      ['POST', `/tokens/${id}/children`, { data: 'x' }],
    ] as const)
      expect((await server.request(method, path, { key: theirs.api_key, json })).status).toBeGreaterThanOrEqual(400);
    expect((await entriesOf({ entity_id: id }, mine)).map(({ operation }) => operation)).toEqual(['create']);
    expect((await logs({ entity_id: id }, theirs)).body).toMatchObject({
      data: [],
      pagination: { total_items: 0, total_pages: 0 },
    });
    const seen = await entriesOf({ size: 100 }, theirs);
    expect(seen.map(({ entity_type }) => entity_type).toSorted()).toEqual(['application', 'tenant']);
  });
});

describe('the kinds of entities', () => {
  test('are an alphabetical list of names and values, with every kind that the log has', async () => {
    const { body, status } = await server.request('GET', '/logs/entity-types');
    expect(status).toBe(200);
    for (const kind of [
      { display_name: 'Application', value: 'application' },
      { display_name: 'Bank', value: 'bank' },
      { display_name: 'Card', value: 'card' },
      { display_name: 'Proxy', value: 'proxy' },
      { display_name: 'Reactor Formula', value: 'reactor_formula' },
      { display_name: 'Tenant', value: 'tenant' },
      { display_name: 'Token', value: 'token' },
    ])
      expect(body).toContainEqual(kind);
    const values = body.map(({ value }: { value: string }) => value);
    expect(values).toEqual(values.toSorted());
    expect(new Set(values).size).toBe(values.length);
    const [{ kinds }] = await server.sql('SELECT array_agg(DISTINCT entity_type) AS kinds FROM audit_log');
    for (const kind of kinds) expect(values).toContain(kind);
  });
});

describe('no client can change the log', () => {
  test.each(['POST', 'PUT', 'PATCH', 'DELETE'])('%s is not a method of it', async (method) => {
    for (const path of ['/logs', '/logs/', '/logs/entity-types']) {
      const answer = await server.request(method, path, { json: {} });
      expect(answer.status).toBe(405);
      expect(answer.headers.get('allow')).toContain('GET');
    }
    expect((await server.request(method, '/logs/00000000-0000-7000-8000-000000000000', { json: {} })).status).toBe(404);
  });

  test("the server's database role can append and read, and cannot change, delete or empty it", async ({ skip }) => {
    const [{ super: isSuperuser }] = await server.sql(
      'SELECT rolsuper AS super FROM pg_roles WHERE rolname = current_user',
    );
    if (isSuperuser) skip('the test database connects as a superuser, which no privilege holds back');
    for (const statement of [
      `UPDATE audit_log SET message = 'forged'`,
      'UPDATE audit_log SET actor_id = NULL WHERE false',
      'DELETE FROM audit_log',
      'TRUNCATE audit_log',
    ])
      await expect(server.sql(statement), statement).rejects.toMatchObject({ code: '42501' });
    expect((await server.sql('SELECT 1 FROM audit_log LIMIT 1')).length).toBe(1);
  });
});
