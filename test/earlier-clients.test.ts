// Attributes of published clients of the earlier API: mapped, ignored or refused (docs/earlier-clients.md).
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type SharedServer, type TestTenant, useServer } from './support/server.ts';

let server: SharedServer;
let tenant: TestTenant;

beforeAll(async () => {
  server = await useServer();
  tenant = await server.newTenant();
});

const send = (method: string, path: string, json?: unknown, headers = {}): Promise<Answer> =>
  server.request(method, path, { key: tenant.api_key, headers, ...(json !== undefined && { json }) });

const made = async (path: string, json: unknown): Promise<any> => {
  const answer = await send('POST', path, json);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const refusalOf = ({ status, body }: Answer) => [status, body?.errors];
const notSupported = (...names: string[]) => [
  400,
  Object.fromEntries(names.map((name) => [name, ['is not supported: leave it out']])),
];

const card = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };
const patchType = { 'content-type': 'application/merge-patch+json' };
const formula = { name: 'F', type: 'private', code: 'module.exports = async () => ({ raw: {} });' };
const proxy = { name: 'P', destination_url: 'https://api.example.com' };

describe('privacy of a token request', () => {
  test.each([
    [{ classification: 'pci', impact_level: 'high', restriction_policy: 'mask' }, '/pci/high/'],
    [{ classification: 'pci', impact_level: 'moderate' }, '/pci/moderate/'],
    [{ classification: 'pii', impact_level: null, restriction_policy: null }, '/pii/high/'],
    [{ impact_level: 'low' }, '/general/low/'],
    [{ restriction_policy: 'redact' }, '/general/high/'],
    [{}, '/general/high/'],
    [null, '/general/high/'],
  ])('%j is the container %s', async (privacy, container) => {
    expect((await made('/tokens', { data: 'x', privacy })).containers).toEqual([container]);
    const { body } = await send('POST', '/tokenize', { a: { type: 'token', data: 'x', privacy } });
    expect(body.a.containers).toEqual([container]);
    const parent = await made('/tokens', { data: 'parent' });
    expect((await made(`/tokens/${parent.id}/children`, { data: 'x', privacy })).containers).toEqual([container]);
  });

  test('leaves what it does not say to the type of the token', async () => {
    expect((await made('/tokens', { ...card, privacy: { impact_level: 'low' } })).containers).toEqual(['/pci/low/']);
  });

  test('needs the permission on the container that it stands for', async () => {
    const rules = [{ priority: 1, container: '/general/', transform: 'mask', permissions: ['token:create'] }];
    const { api_key } = await server.newKey(tenant, { permissions: [], rules });
    const privacy = { classification: 'pci', impact_level: 'high' };
    const answer = await server.request('POST', '/tokens', { key: api_key, json: { data: 'x', privacy } });
    expect(answer.status).toBe(403);
  });

  test.each([
    [{ privacy: { classification: 'pci' }, containers: ['/pci/high/'] }, 'privacy'],
    [{ privacy: { classification: 'pci/high' } }, 'privacy.classification'],
    [{ privacy: { impact_level: 3 } }, 'privacy.impact_level'],
    [{ privacy: { impact: 'high' } }, 'privacy.impact'],
    [{ privacy: 'pci' }, 'privacy'],
  ])('%j is a 400 at %s', async (more, path) => {
    const answer = await send('POST', '/tokens', { data: 'x', ...more });
    expect([answer.status, Object.keys(answer.body.errors)]).toEqual([400, [path]]);
  });

  test('of a change moves the token', async () => {
    const { id } = await made('/tokens', { data: 'x', containers: ['/pci/high/'] });
    const change = (privacy: unknown) => send('PATCH', `/tokens/${id}`, { privacy }, patchType);
    const answer = await change({ impact_level: 'low', restriction_policy: 'mask' });
    expect([answer.status, answer.body.containers], answer.text).toEqual([200, ['/pci/low/']]);
    expect((await change({ restriction_policy: 'redact' })).body.containers).toEqual(['/pci/low/']);
    const both = await send(
      'PATCH',
      `/tokens/${id}`,
      { privacy: { impact_level: 'low' }, containers: ['/a/'] },
      patchType,
    );
    expect([both.status, Object.keys(both.body.errors)]).toEqual([400, ['privacy']]);
  });

  test('of a change follows the rules of a move', async () => {
    const { id } = await made('/tokens', { ...card, containers: ['/pci/high/'] });
    const { api_key } = await server.newKey(tenant, {
      permissions: ['token:update'],
      rules: [{ priority: 1, container: '/pci/low/', transform: 'reveal', permissions: ['token:read'] }],
    });
    const json = { privacy: { impact_level: 'low' } };
    const answer = await server.request('PATCH', `/tokens/${id}`, { key: api_key, json, headers: patchType });
    expect(answer.status).toBe(403);
  });

  test('of a change says all of a container that is not a pair of names', async () => {
    const { id } = await made('/tokens', { data: 'x', containers: ['/deep/er/still/'] });
    const change = (privacy: unknown) => send('PATCH', `/tokens/${id}`, { privacy }, patchType);
    const answer = await change({ impact_level: 'low' });
    expect([answer.status, Object.keys(answer.body.errors)]).toEqual([400, ['privacy.classification']]);
    expect((await change({ classification: 'pci', impact_level: 'low' })).body.containers).toEqual(['/pci/low/']);
  });
});

describe('token requests', () => {
  test.each(['encryption', 'encrypted'])('%s is not supported, and null is nothing', async (name) => {
    const value = { cek: { key: 'x', alg: 'y' }, kek: { key: 'z' } };
    expect(refusalOf(await send('POST', '/tokens', { data: 'x', [name]: value }))).toEqual(notSupported(name));
    const { body } = await send('POST', '/tokenize', [{ type: 'token', data: 'x', [name]: value }]);
    expect(Object.keys(body.errors)).toEqual([`[0].${name}`]);
    await made('/tokens', { data: 'x', [name]: null });
  });

  test('read-only attributes of a record that is sent back are ignored', async () => {
    const record = await made('/tokens', { data: 'x', metadata: { a: 'b' } });
    const again = await made('/tokens', { ...record, id: undefined, data: 'x', fingerprint: 'mine', _extras: {} });
    expect([again.id !== record.id, again.fingerprint]).toEqual([true, record.fingerprint]);
    const { fingerprint_expression: _, ...kept } = record;
    const changed = await send('PATCH', `/tokens/${record.id}`, { ...kept, metadata: { c: 'd' } }, patchType);
    expect([changed.status, changed.body.metadata], changed.text).toEqual([200, { a: 'b', c: 'd' }]);
  });
});

describe('metadata in the query of a list', () => {
  test('in brackets filters as behind a dot', async () => {
    const { id: parent } = await made('/tokens', { data: 'p' });
    const { id } = await made(`/tokens/${parent}/children`, {
      data: 'x',
      metadata: { 'order.no': '4711', shop: 'one' },
    });
    await made(`/tokens/${parent}/children`, { data: 'y', metadata: { shop: 'two' } });
    for (const path of ['/tokens', `/tokens/${parent}/children`])
      for (const query of [
        'metadata[shop]=one',
        'metadata%5Bshop%5D=ONE&metadata[order.no]=4711',
        'metadata.shop=one',
      ]) {
        const { body } = await send('GET', `${path}?${query}`);
        expect(
          body.data.map((token: { id: string }) => token.id),
          `${path} ${query}`,
        ).toEqual([id]);
      }
    const both = await send('GET', '/tokens?metadata[shop]=one&metadata.shop=two');
    expect(refusalOf(both)[0]).toBe(400);
  });

  test.each(['metadata=map%5Bshop%3Aone%5D', 'metadata=%7Bshop%3Done%7D', 'metadata=', 'metadata[]=x'])(
    '%s is a 400: it would find everything',
    async (query) => {
      const answer = await send('GET', `/tokens?${query}`);
      expect([answer.status, Object.keys(answer.body.errors)]).toEqual([
        400,
        [decodeURIComponent(query.split('=')[0] as string)],
      ]);
    },
  );
});

describe('applications', () => {
  test('are listed by type, and not from a cursor', async () => {
    const app = await made('/applications', { name: 'Public', type: 'public', permissions: ['token:create'] });
    const { body } = await send('GET', '/applications?type=public');
    expect([body.pagination.total_items, body.data.map(({ id }: { id: string }) => id)]).toEqual([1, [app.id]]);
    const { total_items } = (await send('GET', '/applications')).body.pagination;
    expect((await send('GET', '/applications?type=private')).body.pagination.total_items).toBe(total_items - 1);
    expect((await send('GET', '/applications?type=public&type=private')).body.pagination.total_items).toBe(total_items);
    expect(refusalOf(await send('GET', '/applications?type=expiring'))[0]).toBe(400);
    expect(refusalOf(await send('GET', '/applications?start=x'))).toEqual(notSupported('start'));
  });

  test('expires_at is not supported, nor create_key in a change, and null is nothing', async () => {
    const json = { name: 'A', permissions: ['token:read'], expires_at: null, create_key: null };
    const { id, key } = await made('/applications', json);
    expect(key).toBeDefined();
    const ending = { ...json, expires_at: '2030-01-01T00:00:00Z' };
    expect(refusalOf(await send('POST', '/applications', ending))).toEqual(notSupported('expires_at'));
    expect(refusalOf(await send('PUT', `/applications/${id}`, { ...ending, create_key: true }))).toEqual(
      notSupported('expires_at', 'create_key'),
    );
  });

  test('with permissions null have rules alone', async () => {
    const rules = [{ priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] }];
    const app = await made('/applications', { name: 'A', permissions: null, rules });
    expect(app.permissions).toEqual([]);
    const changed = await send('PUT', `/applications/${app.id}`, { name: 'B', permissions: null, rules });
    expect([changed.status, changed.body.permissions]).toEqual([200, []]);
    expect((await send('POST', '/applications', { name: 'A', permissions: null })).status).toBe(400);
  });

  test('are changed by the record as it was read', async () => {
    const { key: _, ...app } = await made('/applications', { name: 'A', permissions: ['token:read'] });
    const changed = await send('PUT', `/applications/${app.id}`, { ...app, name: 'B' });
    expect([changed.status, changed.body.name, changed.body.created_at]).toEqual([200, 'B', app.created_at]);
  });
});

describe('reactor formulas', () => {
  test('take an id that is a free UUID', async () => {
    const id = '3B7d9e40-61c5-4f8a-9d12-8e3a5c7f0b65';
    const first = await made('/reactor-formulas', { ...formula, id, status: 'verified' });
    expect(first.id).toBe(id.toLowerCase());
    expect((await send('GET', `/reactor-formulas/${id}`)).body).toEqual(first);
    expect((await send('POST', '/reactor-formulas', { ...formula, id })).status).toBe(409);
    expect(refusalOf(await send('POST', '/reactor-formulas', { ...formula, id: 'mine' }))[0]).toBe(400);
    expect((await made('/reactor-formulas', { ...formula, id: null })).id).toMatch(/^[0-9a-f-]{36}$/);
    // Another tenant's ids are its own: whether one is taken cannot be seen from here.
    const other = await server.newTenant();
    const theirs = await server.request('POST', '/reactor-formulas', { key: other.api_key, json: { ...formula, id } });
    expect([theirs.status, theirs.body.id]).toEqual([201, id.toLowerCase()]);
  });

  test('do not take the id of an official formula', async () => {
    const id = '9d1f6c52-7a3e-4b80-8c25-6e0f4d3b2a19';
    await server.sql(
      `INSERT INTO official_formulas (id, name, search_name, status, code, configuration, request_parameters, created_at)
       VALUES ($1, 'Official', 'official', 'verified', 'x', '[]', '[]', now())`,
      [id],
    );
    expect((await send('POST', '/reactor-formulas', { ...formula, id })).status).toBe(409);
  });

  test('are changed by the record as it was read', async () => {
    const record = await made('/reactor-formulas', { ...formula, status: 'coming_soon' });
    expect(record.status).toBe('verified');
    const changed = await send('PUT', `/reactor-formulas/${record.id}`, { ...record, name: 'G' });
    expect([changed.status, changed.body.name, changed.body.status]).toEqual([200, 'G', 'verified']);
  });
});

describe('reactors', () => {
  test('read only the ids of an application and a formula', async () => {
    const { id: formula_id } = await made('/reactor-formulas', formula);
    const app = await made('/applications', { name: 'A', permissions: ['token:read'] });
    const first = await made('/reactors', {
      name: 'R',
      formula: { id: formula_id },
      application: { id: app.id },
      configuration: null,
    });
    const again = await made('/reactors', { ...first, id: undefined, application: { ...app, expires_at: null } });
    expect([again.formula, again.application]).toEqual([first.formula, first.application]);
    const changed = await send('PUT', `/reactors/${first.id}`, { ...first, application: app, name: 'S' });
    expect([changed.status, changed.body.name, changed.body.application.id], changed.text).toEqual([200, 'S', app.id]);
    const typo = await send('PUT', `/reactors/${first.id}`, { name: 'S', application: { ids: app.id } });
    expect(refusalOf(typo)).toEqual([400, { 'application.ids': ['is not known here; did you mean `id`?'] }]);
  });

  test('have a formula or code of their own, no runtime and no callback', async () => {
    const { id: formula_id } = await made('/reactor-formulas', formula);
    const json = { name: 'R', formula: { id: formula_id }, configuration: {} };
    const reactor = await made('/reactors', { ...json, code: null });
    const { code } = formula;
    expect(Object.keys((await send('POST', '/reactors', { ...json, code })).body.errors)).toEqual(['code']);
    expect(Object.keys((await send('PUT', `/reactors/${reactor.id}`, { name: 'R', code })).body.errors)).toEqual([
      'code',
    ]);
    const own = { name: 'R', code, runtime: { image: 'node22' } };
    expect(refusalOf(await send('POST', '/reactors', own))).toEqual(notSupported('runtime'));
    expect(refusalOf(await send('PATCH', `/reactors/${reactor.id}`, own, patchType))).toEqual(notSupported('runtime'));
    const react = (callback_url: unknown) => send('POST', `/reactors/${reactor.id}/react`, { args: {}, callback_url });
    expect(refusalOf(await react('https://example.com'))).toEqual(notSupported('callback_url'));
    expect((await react(null)).status).toBe(200);
  });
});

describe('proxies', () => {
  const names = ['request_reactor_id', 'response_reactor_id', 'timeout', 'proxy_host'];

  test.each(names)('%s is not supported, and null is nothing', async (name) => {
    const { id } = await made('/proxies', { ...proxy, request_reactor_id: null, response_reactor_id: null });
    const json = { ...proxy, [name]: '3b7d9e40-61c5-4f8a-9d12-8e3a5c7f0b65' };
    expect(refusalOf(await send('POST', '/proxies', json))).toEqual(notSupported(name));
    expect(refusalOf(await send('PUT', `/proxies/${id}`, json))).toEqual(notSupported(name));
    expect((await send('PUT', `/proxies/${id}`, { ...proxy, [name]: null })).status).toBe(200);
  });

  test('read only the id of an application, which the record as it was read keeps', async () => {
    const { key: _, ...app } = await made('/applications', { name: 'A', permissions: ['token:read'] });
    const record = await made('/proxies', { ...proxy, application: app });
    expect(record.application_id).toBe(app.id);
    const whole = await send('PUT', `/proxies/${record.id}`, { ...record, name: 'Q' });
    expect([whole.status, whole.body.name, whole.body.application_id]).toEqual([200, 'Q', app.id]);
    const echoed = await send('PUT', `/proxies/${record.id}`, { ...proxy, application: app, application_id: app.id });
    expect([echoed.status, echoed.body.application_id]).toEqual([200, app.id]);
    const other = await send('PUT', `/proxies/${record.id}`, { ...proxy, application: app, application_id: record.id });
    expect([other.status, Object.keys(other.body.errors)]).toEqual([400, ['application_id']]);
  });
});

describe('the rest', () => {
  test('an invitation has the role of a member or none', async () => {
    const json = { email: 'ada@example.com' };
    const invite = (role: string) => send('POST', '/tenants/self/invitations', { ...json, role });
    expect(Object.keys((await invite('READ_ONLY')).body.errors)).toEqual(['role']);
    expect([201, 503]).toContain((await invite('ADMIN')).status);
  });

  test('settings of a tenant and a query of a search count as absent when they are null', async () => {
    const other = await server.newTenant();
    const { api_key: key } = other;
    const tenantChange = await server.request('PUT', '/tenants/self', { key, json: { name: 'T', settings: null } });
    expect([tenantChange.status, tenantChange.body.settings], tenantChange.text).toEqual([200, {}]);
    await server.request('POST', '/tokens', { key, json: { data: 'x' } });
    for (const json of [{ query: null }, {}]) {
      const found = await server.request('POST', '/tokens/search', { key, json });
      expect([found.status, found.body.pagination?.total_items], found.text).toEqual([200, 1]);
    }
  });

  test('the header CLIENT-USER-AGENT is ignored', async () => {
    const headers = { 'svc-client-user-agent': '{"client":"python","client_version":"1.2.0"}' };
    expect((await send('POST', '/tokens', { data: 'x' }, headers)).status).toBe(201);
  });
});
