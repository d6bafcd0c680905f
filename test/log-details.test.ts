// Details of audit log rows: disclosure, outcome and origin; filters, export, and the limit on refusals.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { REFUSALS_PER_MINUTE_MAX } from '../src/modules/access/refusals.ts';
import { join, type Joined } from './support/people.ts';
import { startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
let reveal: TestTenant;
let redacted: TestTenant;

const rule = (transform: 'redact' | 'mask' | 'reveal', container = '/') => [
  { priority: 1, container, transform, permissions: ['token:read', 'token:search', 'token:use'] },
];

beforeAll(async () => {
  server = await startServer();
  reveal = await server.newKey(server.tenant, { rules: rule('reveal') });
  redacted = await server.newKey(server.tenant, { rules: rule('redact') });
});
afterAll(() => server.close());

const card = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };

const newToken = async (request: object): Promise<string> => {
  const { status, body, text } = await server.request('POST', '/tokens', { json: request });
  expect(status, text).toBe(201);
  return body.id;
};

type Entry = Record<string, unknown> & { entity_id: string; operation: string; entity_ids?: string[] };

const entries = async (query: Record<string, string>, key = server.tenant.api_key): Promise<Entry[]> => {
  const { status, body, text } = await server.request('GET', `/logs?${new URLSearchParams(query)}`, { key });
  expect(status, text).toBe(200);
  return body.data;
};

const newest = async (entity_id: string): Promise<Entry> => (await entries({ entity_id }))[0] as Entry;

describe('disclosure', () => {
  test.each([
    ['a card under a plain permission', card, () => server.tenant, 'masked'],
    ['a card under a rule that reveals', card, () => reveal, 'revealed'],
    ['a card under a rule that redacts', card, () => redacted, 'none'],
    ['a value without a mask under a plain permission', { data: 'x' }, () => server.tenant, 'revealed'],
    ['a value with a mask under a plain permission', { data: 'x', mask: '{{ data }}' }, () => server.tenant, 'masked'],
  ])('of reading %s, by id, in a list, by search and by an expression', async (_, request, reader, disclosure) => {
    const id = await newToken({ ...request, metadata: { order: 'o-1' } });
    const key = reader().api_key;
    const ways = [
      () => server.request('GET', `/tokens/${id}`, { key }),
      () => server.request('GET', `/tokens?id=${id}`, { key }),
      () => server.request('POST', '/tokens/search', { key, json: { query: `id:${id}` } }),
      () => server.request('POST', '/detokenize', { key, json: [`{{ ${id} }}`] }),
    ];
    for (const way of ways) {
      server.clock.offsetMs += 1;
      const { status, text } = await way();
      expect(status, text).toBe(200);
      expect(await newest(id)).toMatchObject({ operation: 'read', disclosure, outcome: 'success' });
    }
  });

  test('is none for what a caller sent itself, and for what shows nothing', async () => {
    const id = await newToken(card);
    expect(await newest(id)).toMatchObject({ operation: 'create', disclosure: 'none' });
    await server.request('DELETE', `/tokens/${id}`);
    expect(await newest(id)).toMatchObject({ operation: 'delete', disclosure: 'none' });
  });
});

describe('the origin of a request', () => {
  test('is in every row that it writes: trace id and address', async () => {
    const headers = { 'svc-trace-id': 'trace-of-a-test' };
    const made = await server.request('POST', '/tokenize', { json: [card, 'a', 'b'], headers });
    const [{ id }, other] = made.body;
    await server.request('GET', `/tokens/${id}`, { headers });
    const application = await server.request('POST', '/applications', {
      json: { name: 'A', type: 'private', permissions: ['token:create'] },
      headers,
    });
    const found = [...(await entries({ entity_id: id })), ...(await entries({ entity_id: other }))];
    found.push(...(await entries({ entity_id: application.body.id })));
    expect(found.map(({ operation }) => operation)).toEqual(['read', 'create', 'create', 'create']);
    for (const entry of found) expect(entry).toMatchObject({ trace_id: 'trace-of-a-test', ip: '127.0.0.1' });
  });
});

describe('a refusal', () => {
  test('is logged with the permission, the entity that the path names, and the application', async () => {
    const key = await server.newKey(server.tenant, { permissions: ['token:create'] });
    const id = await newToken(card);
    const asked: [string, string, object | undefined][] = [
      ['GET', `/tokens/${id}`, undefined],
      ['DELETE', `/tokens/${id}`, undefined],
      ['GET', '/logs', undefined],
      ['POST', '/applications', { name: 'x', type: 'private', permissions: ['token:read'] }],
    ];
    for (const [method, path, json] of asked) {
      server.clock.offsetMs += 1;
      expect((await server.request(method, path, { key: key.api_key, json })).status).toBe(403);
    }
    const refused = await entries({ outcome: 'refused', actor_id: key.application_id });
    expect(refused.map(({ operation, message, entity_id }) => [operation, message, entity_id])).toEqual([
      ['create', 'Refused: application:create', server.tenant.tenant_id],
      ['read', 'Refused: log:read', server.tenant.tenant_id],
      ['delete', 'Refused: token:delete', id],
      ['read', 'Refused: token:read', id],
    ]);
    for (const entry of refused) expect(entry).toMatchObject({ ip: '127.0.0.1', disclosure: 'none' });
  });

  test.each([
    ['NUL', 'abc%00'],
    ['more characters than an id', 'a'.repeat(3_000)],
  ])('of a path with %s is logged with the tenant as the entity', async (_, id) => {
    const key = await server.newKey(server.tenant, { permissions: ['token:create'] });
    expect((await server.request('DELETE', `/tokens/${id}`, { key: key.api_key })).status).toBe(403);
    const refused = await entries({ outcome: 'refused', actor_id: key.application_id });
    expect(refused).toMatchObject([{ message: 'Refused: token:delete', entity_id: server.tenant.tenant_id }]);
  });

  test('by a rule is logged too', async () => {
    const id = await newToken(card);
    const elsewhere = await server.newKey(server.tenant, { rules: rule('reveal', '/bank/') });
    expect((await server.request('GET', `/tokens/${id}`, { key: elsewhere.api_key })).status).toBe(403);
    expect(await newest(id)).toMatchObject({ outcome: 'refused', actor_id: elsewhere.application_id });
  });

  test('is written sixty times a minute for a tenant, then counted in one row', async () => {
    const tenant = await server.newTenant({ permissions: ['log:read', 'token:create'] });
    // A whole minute, so that all of them are in one.
    const started = Math.ceil((Date.now() + server.clock.offsetMs) / 60_000) * 60_000;
    server.clock.stoppedAtMs = started;
    const refuse = async (): Promise<void> => {
      expect((await server.request('GET', '/tenants/self', { key: tenant.api_key })).status).toBe(403);
    };
    const more = 7;
    for (let count = 0; count < REFUSALS_PER_MINUTE_MAX + more; count += 1) await refuse();
    const refused = () => entries({ outcome: 'refused', size: '100' }, tenant.api_key);
    expect(await refused()).toHaveLength(REFUSALS_PER_MINUTE_MAX);
    server.clock.stoppedAtMs = started + 60_000;
    await refuse();
    const after = await refused();
    expect(after).toHaveLength(REFUSALS_PER_MINUTE_MAX + 2);
    expect(after.filter(({ actor_type }) => actor_type === 'system')).toMatchObject([
      { message: `${more} more refusals within a minute`, entity_id: tenant.tenant_id },
    ]);
    server.clock.stoppedAtMs = undefined;
  });

  test('of an unknown key is in the process log alone', async () => {
    const [{ count: before }] = await server.sql('SELECT count(*) FROM audit_log');
    const headers = { 'svc-trace-id': 'trace-of-an-unknown-key' };
    expect((await server.request('GET', '/tokens', { key: 'svc_test_unknown', headers })).status).toBe(401);
    const [{ count: after }] = await server.sql('SELECT count(*) FROM audit_log');
    expect(after).toBe(before);
    const lines = server.logLines.filter((line) => line.includes('trace-of-an-unknown-key'));
    expect(lines.join()).toContain('"status":401');
    expect(lines.join()).toContain('127.0.0.1');
  });
});

describe('reading the log', () => {
  test('is logged, and listed where the filter asks for it', async () => {
    const tenant = await server.newTenant();
    await entries({}, tenant.api_key);
    const all = await entries({}, tenant.api_key);
    expect(all.filter(({ entity_type }) => entity_type === 'log')).toEqual([]);
    const readings = await entries({ entity_type: 'log' }, tenant.api_key);
    expect(readings).toHaveLength(2);
    expect(readings[0]).toMatchObject({
      operation: 'read',
      message: 'Logs retrieved',
      entity_id: tenant.tenant_id,
      actor_id: tenant.application_id,
    });
  });
});

describe('the filters', () => {
  test('find entries by actor, operation, outcome and entity, and all of these together', async () => {
    const tenant = await server.newTenant();
    const other = await server.newKey(tenant, { permissions: ['token:create', 'token:read'] });
    const create = async (key: TestTenant) => (await server.tokenize('x', key.api_key)).body as string;
    const [first, second] = [await create(tenant), await create(other)];
    await server.request('GET', `/tokens/${first}`, { key: other.api_key });
    await server.request('DELETE', `/tokens/${second}`, { key: other.api_key });
    const found = async (query: Record<string, string>) =>
      (await entries(query, tenant.api_key)).map(
        (entry) => `${entry.operation} ${entry.entity_id} ${entry['outcome']}`,
      );
    const { application_id: actor_id } = other;
    expect(await found({ actor_id })).toEqual([
      `delete ${second} refused`,
      `read ${first} success`,
      `create ${second} success`,
    ]);
    expect(await found({ actor_id, operation: 'create' })).toEqual([`create ${second} success`]);
    expect(await found({ outcome: 'refused' })).toEqual([`delete ${second} refused`]);
    expect(
      await found({ actor_id, outcome: 'success', operation: 'read', entity_id: first, entity_type: 'token' }),
    ).toEqual([`read ${first} success`]);
    expect(await found({ actor_id: tenant.tenant_id })).toEqual([]);
  });

  test.each([
    ['actor_id=x', 'actor_id'],
    ['operation=look', 'operation'],
    ['operation=read&operation=use', 'operation'],
    ['outcome=', 'outcome'],
  ])('%s is refused by name', async (query, name) => {
    const { status, body } = await server.request('GET', `/logs?${query}`);
    expect(status).toBe(400);
    expect(Object.keys(body.errors)).toEqual([name]);
  });
});

describe('a member who looks at a list in the console', () => {
  let tenant: TestTenant;
  let member: Joined;
  beforeAll(async () => {
    tenant = await server.newTenant();
    member = await join(server, { tenant });
  });

  test('leaves one entry with the ids of all tokens, which is found by each', async () => {
    const { body } = await server.tokenize([card, 'a', 'b'], tenant.api_key);
    const ids = [body[0].id, body[1], body[2]];
    await member.browser.get('/console/tokens');
    const listed = (await entries({ actor_id: member.user_id, operation: 'read' }, tenant.api_key)).filter(
      ({ message }) => message === 'Tokens listed',
    );
    expect(listed).toHaveLength(1);
    expect(listed[0]).toMatchObject({ actor_type: 'user', disclosure: 'masked', entity_type: 'token' });
    expect(listed[0]?.entity_ids?.toSorted()).toEqual(ids.toSorted());
    for (const id of ids) {
      const of = (await entries({ entity_id: id }, tenant.api_key)).filter(({ operation }) => operation === 'read');
      expect(of).toMatchObject([{ message: 'Tokens listed', entity_id: id }]);
    }
  });
});

describe('an export', () => {
  const read = (accept: string, query = '', key = server.tenant.api_key) =>
    server.request('GET', `/logs${query}`, { key, headers: { accept } });

  test('has every entry of the filter as a line of JSON, newest first, and is logged itself', async () => {
    const tenant = await server.newTenant();
    const values = Array.from({ length: 1_500 }, (_, index) => `value ${index}`);
    const { body: ids } = await server.tokenize(values, tenant.api_key);
    const { status, text, headers } = await read(
      'application/x-ndjson',
      '?operation=create&entity_type=token',
      tenant.api_key,
    );
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8');
    const lines = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines).toHaveLength(values.length);
    expect(new Set(lines.map(({ entity_id }) => entity_id))).toEqual(new Set(ids));
    expect(text).not.toContain('value 7');
    const [own] = await entries({ entity_type: 'log' }, tenant.api_key);
    expect(own).toMatchObject({ message: 'Logs exported', actor_id: tenant.application_id });
  });

  test('is a table in CSV, in which no id becomes a formula', async () => {
    const tenant = await server.newTenant();
    const made = await server.request('POST', '/tokens', {
      json: { data: 'x', id: '@SUM(1),"a"' },
      key: tenant.api_key,
    });
    expect(made.status, made.text).toBe(201);
    const { text, headers } = await read('text/csv', '?entity_type=token', tenant.api_key);
    expect(headers.get('content-type')).toBe('text/csv; charset=utf-8');
    const [head, row, end] = text.split('\r\n');
    expect(head?.split(',').slice(0, 9)).toEqual([
      'created_at',
      'tenant_id',
      'actor_type',
      'actor_id',
      'operation',
      'outcome',
      'disclosure',
      'entity_type',
      'entity_id',
    ]);
    expect(row).toContain(`create,success,none,token,"'@SUM(1),""a""",`);
    expect(end).toBe('');
  });

  test.each([
    ['text/csv;q=0.5, application/x-ndjson', 'application/x-ndjson; charset=utf-8'],
    ['text/csv;q=0, */*', 'application/json; charset=utf-8'],
    ['application/json, text/csv;q=0.9', 'application/json; charset=utf-8'],
    ['*/*', 'application/json; charset=utf-8'],
    ['text/html', 'application/json; charset=utf-8'],
  ])('for the header Accept: %s is %s', async (accept, type) => {
    expect((await read(accept, '?entity_type=tenant')).headers.get('content-type')).toBe(type);
  });

  test('needs log:read', async () => {
    const key = await server.newKey(server.tenant, { permissions: ['token:read'] });
    expect((await read('text/csv', '', key.api_key)).status).toBe(403);
  });
});
