// Several API keys of an application: they overlap, end, are limited to addresses, and are revoked one by one.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { API_KEYS_MAX } from '../src/modules/access/application-keys.ts';
import { fieldIn, type SharedConsole, textOf, useConsole } from './support/console.ts';
import type { Answer, TestTenant } from './support/server.ts';

let server: SharedConsole;
let tenant: TestTenant;
let application: { id: string; key: string };

beforeAll(async () => {
  server = await useConsole();
});
beforeEach(async () => {
  tenant = await server.newTenant();
  application = (await ask('POST', '/applications', { name: 'Made', permissions: ['token:create'] })).body;
});

const ask = (method: string, path: string, json?: unknown, key = tenant.api_key): Promise<Answer> =>
  server.request(method, path, { key, ...(json !== undefined && { json }) });

const keysPath = (key_id?: string) => `/applications/${application.id}/keys${key_id ? `/${key_id}` : ''}`;

const addKey = async (json: object = {}): Promise<{ id: string; key: string }> => {
  const { status, body, text } = await ask('POST', keysPath(), json);
  expect(status, text).toBe(201);
  return body;
};

const statusOf = async (key: string): Promise<number> => (await server.tokenize('x', key)).status;

const inAnHour = () => new Date(server.ctx.now().getTime() + 3_600_000).toISOString();

const messages = async (): Promise<string[]> =>
  (
    await server.sql(
      `SELECT message FROM audit_log WHERE tenant_id = $1 AND entity_ids = ARRAY[$2] AND operation = 'update' ORDER BY id`,
      [tenant.tenant_id, application.id],
    )
  ).map(({ message }) => message);

test('keys overlap: a new key and the old one both work until one is revoked', async () => {
  const made = await addKey({ name: 'Second', expires_at: inAnHour() });
  expect(made.key).toContain(made.id);
  expect([await statusOf(application.key), await statusOf(made.key)]).toEqual([200, 200]);
  const { body } = await ask('GET', keysPath());
  expect(body.data).toHaveLength(2);
  expect(JSON.stringify(body)).not.toContain(made.key);
  const [, old] = body.data;
  const revoked = await ask('DELETE', keysPath(old.id));
  expect([revoked.status, await statusOf(application.key), await statusOf(made.key)]).toEqual([204, 401, 200]);
  expect(await messages()).toEqual(['API key created', 'API key revoked']);
});

test('a create answers 201 with the place of the key, once more for the same idempotency key', async () => {
  const once = { key: tenant.api_key, json: { name: 'Once' }, headers: { 'svc-idempotency-key': crypto.randomUUID() } };
  const first = await server.request('POST', keysPath(), once);
  const again = await server.request('POST', keysPath(), once);
  expect(first.headers.get('location')).toBe(keysPath(first.body.id));
  expect([again.text, again.headers.get('location')]).toEqual([first.text, keysPath(first.body.id)]);
  const { key, ...shown } = first.body;
  expect(key).toMatch(/^svc_test_/);
  expect((await ask('GET', keysPath(first.body.id))).body).toEqual(shown);
});

test('regenerate ends all keys and makes one', async () => {
  const made = await addKey();
  const { body } = await ask('POST', `/applications/${application.id}/regenerate`);
  expect(body.keys_ended).toBe(2);
  expect((await ask('GET', `/applications/${application.id}`)).body.keys_ended).toBeUndefined();
  expect([await statusOf(application.key), await statusOf(made.key), await statusOf(body.key)]).toEqual([
    401, 401, 200,
  ]);
  expect((await ask('GET', keysPath())).body.data).toHaveLength(1);
});

test('a key ends at its time, also for a process that has cached its caller', async () => {
  const made = await addKey();
  expect(await statusOf(made.key)).toBe(200);
  const ends = inAnHour();
  expect((await ask('PUT', keysPath(made.id), { expires_at: ends })).body.expires_at).toBe(ends);
  expect(await statusOf(made.key)).toBe(200);
  server.clock.offsetMs = 3_600_000;
  const [ended, unknown] = await Promise.all(
    [made.key, made.key.replace(/.$/, '0')].map((key) => server.tokenize('x', key)),
  ).finally(() => (server.clock.offsetMs = 0));
  expect([ended?.status, unknown?.status]).toEqual([401, 401]);
  expect(ended?.body.detail).toBe(unknown?.body.detail);
  await ask('PUT', keysPath(made.id), {});
  expect(await statusOf(made.key)).toBe(200);
});

test('a key works from its addresses only, and a refusal is logged', async () => {
  const made = await addKey({ allowed_addresses: ['192.0.2.7/24', '2001:db8::1'] });
  expect((await ask('GET', keysPath(made.id))).body.allowed_addresses).toEqual(['192.0.2.0/24', '2001:db8::1']);
  const refused = await server.tokenize('x', made.key);
  expect([refused.status, refused.body.detail]).toEqual([403, 'The API key does not work from this address.']);
  const [{ count }] = await server.sql(
    `SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND outcome = 'refused' AND actor_id = $2`,
    [tenant.tenant_id, application.id],
  );
  expect(Number(count)).toBe(1);
  await ask('PUT', keysPath(made.id), { allowed_addresses: ['127.0.0.0/8', '::1'] });
  expect(await statusOf(made.key)).toBe(200);
});

test('the last use is of each key', async () => {
  const made = await addKey();
  await statusOf(made.key);
  await server.ctx.keyUses.write();
  const [newer, older] = (await ask('GET', keysPath())).body.data;
  expect([newer.id, typeof newer.last_used_at, older.last_used_at]).toEqual([made.id, 'string', undefined]);
});

test('a caller makes and changes no key of an application that may do more than itself', async () => {
  const { api_key } = await server.newKey(tenant, { permissions: ['application:read', 'application:update'] });
  expect((await ask('POST', keysPath(), {}, api_key)).status).toBe(403);
  const [{ id }] = (await ask('GET', keysPath(), undefined, api_key)).body.data;
  expect((await ask('PUT', keysPath(id), {}, api_key)).status).toBe(403);
  expect((await ask('DELETE', keysPath(id), undefined, api_key)).status).toBe(204);
});

test('in the console a member adds, changes and revokes keys; a key is shown once', async () => {
  const member = await server.signIn({ tenant });
  const path = `/console/applications/${application.id}`;
  const form = (await member.get(`${path}/keys/new`)).text;
  const form_id = /name="form_id" value="([^"]*)"/.exec(form)?.[1] ?? '';
  const typed = { form_id, name: 'Typed', expires_at: 'never', allowed_addresses: '10.0.0.0/8\r\n\r\n' };
  const refused = await member.post(`${path}/keys`, typed);
  expect([refused.status, fieldIn(refused.text, 'name')]).toEqual([400, 'Typed']);
  expect(textOf(refused.text)).toContain('It must be a time');
  const made = await member.post(`${path}/keys`, { ...typed, expires_at: '2099-01-02' });
  const [key = ''] = /svc_test_\w+/.exec(made.text) ?? [];
  const id = key.split('_')[2] ?? '';
  expect((await ask('GET', keysPath(id))).body).toMatchObject({
    name: 'Typed',
    expires_at: '2099-01-02T00:00:00.000Z',
    allowed_addresses: ['10.0.0.0/8'],
  });
  const again = await member.post(`${path}/keys`, { ...typed, expires_at: '2099-01-02' });
  expect(again.headers.get('location')).toBe(`${path}?done=shown`);
  const page = (await member.get(path)).text;
  expect(page).toContain(`${path}/keys/${id}`);
  expect(page).not.toContain(key);
  const stored = (await member.get(`${path}/keys/${id}`)).text;
  expect(fieldIn(stored, 'expires_at')).toBe('2099-01-02T00:00:00.000Z');
  await member.post(`${path}/keys/${id}`, { name: '', expires_at: '', allowed_addresses: '' });
  expect(await statusOf(key)).toBe(200);
  const revoked = await member.post(`${path}/keys/${id}/revoke`, {});
  expect([revoked.headers.get('location'), await statusOf(key)]).toEqual([`${path}?done=key-revoked`, 401]);
});

describe('bad input', () => {
  test.each([
    [{ expires_at: 'tomorrow' }, 'expires_at'],
    [{ expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    [{ allowed_addresses: [] }, 'allowed_addresses'],
    [{ allowed_addresses: ['10.0.0.0/8', 'example.com'] }, 'allowed_addresses[1]'],
    [{ name: '' }, 'name'],
    [{ permissions: ['token:read'] }, 'permissions'],
  ])('%j is a 400 that names %s', async (json, place) => {
    const { status, body } = await ask('POST', keysPath(), json);
    expect([status, Object.keys(body.errors)]).toEqual([400, [place]]);
    expect((await ask('GET', keysPath())).body.data).toHaveLength(1);
  });

  test(`more than ${API_KEYS_MAX} keys are a 409, also where they come at once`, async () => {
    const answers = await Promise.all(Array.from({ length: API_KEYS_MAX + 2 }, () => ask('POST', keysPath(), {})));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([
      ...Array(API_KEYS_MAX - 1).fill(201),
      409,
      409,
      409,
    ]);
  });
});

describe('the forms of clients of the earlier API', () => {
  const application = { name: 'A', permissions: ['token:read'] };

  test('create_key: false makes an application without a key, until it gets one', async () => {
    const { body: made } = await server.request('POST', '/applications', {
      json: { ...application, create_key: false },
    });
    const path = `/applications/${made.id}/keys`;
    expect([made.key, (await server.request('GET', path)).body]).toEqual([
      undefined,
      { pagination: { total_items: 0, page_number: 1, page_size: 20, total_pages: 0 }, data: [] },
    ]);
    const { body: added } = await server.request('POST', path);
    const own = await server.request('GET', '/applications/key', { key: added.key });
    expect([own.status, own.body.id]).toEqual([200, made.id]);
  });

  test('a key needs no body, and the list takes ids', async () => {
    const { body: made } = await server.request('POST', '/applications', { json: application });
    const path = `/applications/${made.id}/keys`;
    const { body: added, status } = await server.request('POST', path);
    expect(status).toBe(201);
    const { body: listed } = await server.request('GET', `${path}?id=${added.id}`);
    expect([listed.pagination.total_items, listed.data[0].id]).toEqual([1, added.id]);
    const typed = await server.request('GET', `${path}?type=private`);
    expect([typed.status, typed.body.errors]).toEqual([400, { type: ['is not supported: leave it out'] }]);
  });
});

test('in the console a key is replaced by one with its settings, and ends when it is said', async () => {
  const member = await server.signIn({ tenant });
  const path = `/console${keysPath()}`;
  const settings = { name: 'Shop', expires_at: inAnHour(), allowed_addresses: ['127.0.0.1', '::1'] };
  const keyIn = (page: string) => /svc_test_[0-9A-Za-z_]{50,}/.exec(page)?.[0] ?? '';
  for (const [grace_seconds, after] of [
    ['0', 401],
    ['3600', 200],
  ] as const) {
    const old = await addKey(settings);
    const form_id = fieldIn((await member.get(`${path}/${old.id}`)).text, 'form_id') ?? '';
    const fields = { form_id, grace_seconds };
    for (const wrong of ['', '1', 'soon'])
      expect((await member.post(`${path}/${old.id}/rotate`, { ...fields, grace_seconds: wrong })).status).toBe(400);
    const { text } = await member.post(`${path}/${old.id}/rotate`, fields);
    const key = keyIn(text);
    expect([key === '', key === old.key]).toEqual([false, false]);
    expect([await statusOf(key), await statusOf(old.key)]).toEqual([200, after]);
    const { data } = (await ask('GET', keysPath())).body;
    const made = data.find(({ id }: { id: string }) => key.includes(id));
    expect(made).toMatchObject(settings);
    const kept = data.find(({ id }: { id: string }) => id === old.id);
    if (after === 401) expect(kept).toBeUndefined();
    // Not longer than it would have lived.
    else expect(kept).toMatchObject(settings);
    // The form that is sent again makes no second one.
    const again = await member.post(`${path}/${old.id}/rotate`, fields);
    expect([again.status, keyIn(again.text)]).toEqual([after === 401 ? 404 : 303, '']);
  }
});
