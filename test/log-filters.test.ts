// Filters of GET /logs, who asked, names of today, and one entry for a page of tokens that shows no value.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { join } from './support/people.ts';
import { codeOf, makeReactor, rawOf, react, type SharedReactorServer, useReactorServer } from './support/reactors.ts';
import type { SharedServer, TestTenant } from './support/server.ts';
import { askProxy, makeProxy } from './support/stored-proxies.ts';

let fixture: SharedReactorServer;
let server: SharedServer;
let host: string;

beforeAll(async () => {
  fixture = await useReactorServer();
  ({ server } = fixture);
  host = new URL(fixture.url).host;
});
afterAll(() => fixture.close());

type Entry = Record<string, string | boolean | string[] | undefined> & { id: string; entity_id: string };

const card = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };

const entries = async (query: Record<string, string>, key = server.tenant.api_key): Promise<Entry[]> => {
  const { status, body, text } = await server.request('GET', `/logs?${new URLSearchParams(query)}`, { key });
  expect(status, text).toBe(200);
  return body.data;
};

const tokens = async (wanted: object[], key: string): Promise<string[]> => {
  const ids: string[] = [];
  for (const json of wanted) {
    const { status, body, text } = await server.request('POST', '/tokens', { json, key });
    expect(status, text).toBe(201);
    ids.push(body.id);
  }
  return ids;
};

describe('filters', () => {
  test('find entries by disclosure, trace, host and application, also together', async () => {
    const tenant = await server.newTenant();
    const { api_key: key } = tenant;
    const other = await server.newKey(tenant, { permissions: ['token:read', 'token:use'] });
    const [id = ''] = await tokens([{ data: 'value' }], key);
    const headers = { 'svc-trace-id': 'trace of a filter' };
    await server.request('GET', `/tokens/${id}`, { key: other.api_key, headers });
    const sent = { headers: { ...headers, 'svc-proxy-url': fixture.url }, json: { a: `{{ ${id} }}` } };
    expect((await server.request('POST', '/proxy', { key, ...sent })).status).toBe(200);
    const found = async (query: Record<string, string>) =>
      (await entries(query, key)).map(({ operation, disclosure }) => `${operation} ${disclosure}`).toSorted();
    const asked = { application_id: other.application_id };
    expect(await found({ disclosure: 'revealed' })).toEqual(['read revealed']);
    expect(await found({ disclosure: 'masked' })).toEqual([]);
    expect(await found({ trace_id: 'trace of a filter' })).toEqual(['read revealed', 'use used']);
    expect(await found({ destination_host: host })).toEqual(['use used']);
    expect(await found(asked)).toEqual(['read revealed']);
    expect(await found({ ...asked, disclosure: 'used' })).toEqual([]);
    expect(await found({ trace_id: 'trace of a filter', disclosure: 'used', entity_id: id })).toEqual(['use used']);
    expect(await found({ application_id: tenant.tenant_id })).toEqual([]);
    const anonymous = await server.newTenant();
    const queries: Record<string, string>[] = [
      { trace_id: 'trace of a filter' },
      asked,
      { destination_host: host },
      { entity_id: id },
    ];
    for (const query of queries) expect(await entries(query, anonymous.api_key)).toEqual([]);
  });

  test('by a host find it as rows have it: digits of a card number are masked', async () => {
    const named = `4242424242424242.${host}`;
    const headers = { 'svc-proxy-url': fixture.url.replace(host, named), 'svc-trace-id': 'card in a host' };
    await server.request('POST', '/proxy', { json: {}, headers });
    const [entry] = await entries({ destination_host: named, trace_id: 'card in a host' });
    expect(entry?.['destination_host']).toBe(named.replace('424242424242', 'XXXXXXXXXXXX'));
  });

  test.each([
    ['an unknown value', 'disclosure', 'disclosure=shown'],
    ['two values', 'disclosure', 'disclosure=masked&disclosure=used'],
    ['an empty text', 'trace_id', 'trace_id='],
    ['a long text', 'trace_id', `trace_id=${'t'.repeat(129)}`],
    ['NUL', 'trace_id', 'trace_id=%00'],
    ['no UUID', 'application_id', 'application_id=x'],
    ['a long text', 'destination_host', `destination_host=${'h'.repeat(261)}`],
    ['two values', 'destination_host', 'destination_host=a&destination_host=b'],
    ['a name that is no filter', 'actor_name', 'actor_name=x'],
  ])('with %s are refused by name: %s', async (_, name, query) => {
    const { status, body } = await server.request('GET', `/logs?${query}`);
    expect(status).toBe(400);
    expect(Object.keys(body.errors)).toEqual([name]);
  });
});

describe('who asked', () => {
  const newCaller = () => server.newKey(server.tenant, { permissions: ['token:read', 'token:use'] });

  test('is in the rows of what its code did, with the application of the code', async () => {
    const [caller, helper] = [await newCaller(), await server.newKey(server.tenant, { permissions: ['token:read'] })];
    const [id = ''] = await tokens([{ data: 'value' }], server.tenant.api_key);
    const code = codeOf('return { raw: await svc.tokens.retrieve(args.id) };');
    const reactor = await makeReactor(server, { code, application: helper });
    await rawOf(react(server, reactor, { id }, { key: caller.api_key }));
    const asked = await entries({ application_id: caller.application_id });
    expect(
      asked.map(({ operation, actor_id, code_application_id }) => [operation, actor_id, code_application_id]),
    ).toEqual([
      ['read', helper.application_id, helper.application_id],
      ['use', caller.application_id, undefined],
    ]);
    expect(await entries({ application_id: helper.application_id })).toEqual([]);
  });

  test('is nobody for an anonymous client: an open proxy acts with its application', async () => {
    const helper = await newCaller();
    const [id = ''] = await tokens([{ data: 'value' }], server.tenant.api_key);
    const open = { destination_url: fixture.url, require_auth: false, application: { id: helper.application_id } };
    await askProxy(server, await makeProxy(server, open), { key: null, json: [`{{ ${id} }}`] });
    const [entry] = await entries({ entity_id: id, operation: 'use' });
    expect(entry).toMatchObject({ actor_id: helper.application_id, code_application_id: helper.application_id });
    expect(entry?.['application_id']).toBeUndefined();
  });

  test('is the application that made a session', async () => {
    const json = { types: ['card'], allowed_origins: ['https://shop.example.com'] };
    const made = await server.request('POST', '/sessions', { json });
    expect(made.status, made.text).toBe(201);
    const headers = { origin: 'https://shop.example.com' };
    const created = await server.request('POST', '/tokens', { json: card, key: made.body.session_key, headers });
    expect(created.status, created.text).toBe(201);
    const [entry] = await entries({ entity_id: created.body.id });
    expect(entry).toMatchObject({ actor_type: 'session', application_id: server.tenant.application_id });
  });
});

test('names are those of today, of actors and entities, never of tokens, and no addresses', async () => {
  const tenant = await server.newTenant();
  const { api_key: key } = tenant;
  const member = await join(server, { tenant });
  const [id = ''] = await tokens([{ data: 'value' }], key);
  await member.browser.get('/console/tokens');
  const helper = await server.newKey(tenant, { permissions: ['token:read'] });
  await server.request('GET', `/tokens/${id}`, { key: helper.api_key });
  const application = `/applications/${helper.application_id}`;
  const json = { name: 'Renamed since', permissions: ['token:read'] };
  expect((await server.request('PUT', application, { key, json })).status).toBe(200);

  const [renamed] = await entries({ entity_id: helper.application_id }, key);
  expect(renamed).toMatchObject({ entity_name: 'Renamed since', actor_name: expect.any(String) });
  const [read] = await entries({ actor_id: helper.application_id }, key);
  expect(read).toMatchObject({ actor_name: 'Renamed since', entity_id: id });
  expect(read?.['entity_name']).toBeUndefined();
  const [listed] = await entries({ actor_id: member.user_id, operation: 'read' }, key);
  expect(listed?.['actor_name']).toEqual(expect.any(String));
  const all = await server.request('GET', '/logs?size=100', { key });
  expect(all.text).not.toContain(member.email);

  expect((await server.request('DELETE', application, { key })).status).toBe(204);
  const [gone] = await entries({ actor_id: helper.application_id }, key);
  expect(gone?.['actor_name']).toBeUndefined();
  const csv = await server.request('GET', '/logs', { key, headers: { accept: 'text/csv' } });
  expect(csv.text.split('\r\n')[0]?.split(',').slice(-6)).toEqual([
    'application_id',
    'code_application_id',
    'actor_name',
    'entity_name',
    'reason',
    'id',
  ]);
});

test('an entry has the id of its row, which proves it', async () => {
  const tenant = await server.newTenant();
  const [id = ''] = await tokens([{ data: 'value' }], tenant.api_key);
  const [entry] = await entries({ entity_id: id }, tenant.api_key);
  const rows = await server.sql('SELECT id FROM audit_log WHERE tenant_id = $1 AND entity_ids = ARRAY[$2]', [
    tenant.tenant_id,
    id,
  ]);
  expect(rows).toEqual([{ id: entry?.id }]);
});

describe('a page of tokens of the API', () => {
  const pageOf = async (tenant: TestTenant, ids: readonly string[], search: boolean): Promise<Entry[]> => {
    const { api_key: key } = tenant;
    const trace = `list ${search} ${tenant.tenant_id}`;
    const headers = { 'svc-trace-id': trace };
    const answer = search
      ? await server.request('POST', '/tokens/search', { key, headers, json: { query: 'metadata.of:list' } })
      : await server.request('GET', '/tokens?metadata.of=list', { key, headers });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body.data).toHaveLength(ids.length);
    return entries({ trace_id: trace }, key);
  };
  const metadata = { of: 'list' };

  test.each([false, true])('that shows masks is one entry, which each id finds; by search: %s', async (search) => {
    const tenant = await server.newTenant();
    const ids = await tokens(
      [0, 1, 2].map(() => ({ ...card, metadata })),
      tenant.api_key,
    );
    const found = await pageOf(tenant, ids, search);
    expect(found).toMatchObject([
      { is_list: true, message: 'Tokens listed', operation: 'read', disclosure: 'masked', entity_type: 'card' },
    ]);
    const listed = found.flatMap((entry) => (entry['entity_ids'] as string[]) ?? []);
    expect(listed.toSorted()).toEqual(ids.toSorted());
    for (const entity_id of ids)
      expect(await entries({ entity_id, operation: 'read' }, tenant.api_key)).toMatchObject([
        { id: found[0]?.id, entity_id, is_list: true },
      ]);
  });

  test('that shows values is an entry for each of these, and one for the others', async () => {
    const tenant = await server.newTenant();
    const shown = ['a', 'b'].map((data) => ({ data, metadata }));
    const ids = await tokens([...shown, { ...card, metadata }, { ...card, metadata }], tenant.api_key);
    const found = await pageOf(tenant, ids, false);
    const [lists, others] = [true, undefined].map((is_list) => found.filter((entry) => entry['is_list'] === is_list));
    expect(lists).toMatchObject([{ disclosure: 'masked', entity_type: 'card' }]);
    expect(others?.map(({ entity_id }) => entity_id).toSorted()).toEqual(ids.slice(0, 2).toSorted());
    for (const entry of others ?? [])
      expect(entry).toMatchObject({ disclosure: 'revealed', message: 'Token revealed' });
  });
});
