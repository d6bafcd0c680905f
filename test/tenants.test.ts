// The tenant over HTTP: read, changed, counted, and deleted.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sweepOnce } from '../src/platform/maintenance/sweep.ts';
import { deafen, hearNotices } from './support/notices.ts';
import { type Answer, startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
let tenant: TestTenant;

beforeAll(async () => {
  server = await startServer();
  tenant = await server.newTenant({ name: 'Shop' });
});
afterAll(() => server.close());

const send = (method: string, path: string, json?: unknown, key = tenant.api_key, headers = {}): Promise<Answer> =>
  server.request(method, path, { key, headers, ...(json === undefined ? {} : { json }) });

describe('the tenant', () => {
  test('reads itself and no other', async () => {
    const answer = await send('GET', '/tenants/self');
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      id: tenant.tenant_id,
      name: 'Shop',
      settings: {},
      created_at: expect.stringMatching(/Z$/),
    });
  });

  test('replaces name and settings, and keeps settings that it does not know', async () => {
    const own = await server.newTenant({ name: 'Before' });
    const settings = { deduplicate_token: 'true', colour: 'blue' };
    const answer = await send('PUT', '/tenants/self', { name: 'After', settings, id: 'x', owner_id: 'x' }, own.api_key);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      id: own.tenant_id,
      name: 'After',
      settings,
      created_at: expect.any(String),
      modified_by: own.application_id,
      modified_at: expect.stringMatching(/Z$/),
    });
    expect((await send('GET', '/tenants/self', undefined, own.api_key)).body).toEqual(answer.body);
    expect((await send('PUT', '/tenants/self', { name: 'Again' }, own.api_key)).body.settings).toEqual({});
    expect((await send('GET', '/tenants/self')).body.name).toBe('Shop');
  });

  test('is in the log with every operation', async () => {
    const own = await server.newTenant();
    await send('GET', '/tenants/self', undefined, own.api_key);
    await send('PUT', '/tenants/self', { name: 'x' }, own.api_key);
    await send('DELETE', '/tenants/self', undefined, own.api_key);
    const rows = await server.sql(
      `SELECT operation, message, actor_id FROM audit_log
       WHERE tenant_id = $1 AND entity_type = 'tenant' AND entity_ids = ARRAY[$1::text] ORDER BY id`,
      [own.tenant_id],
    );
    expect(rows).toEqual([
      { operation: 'create', message: 'Tenant created', actor_id: null },
      { operation: 'read', message: 'Tenant retrieved', actor_id: own.application_id },
      { operation: 'update', message: 'Tenant updated', actor_id: own.application_id },
      { operation: 'delete', message: 'Tenant deleted', actor_id: own.application_id },
    ]);
  });

  test('is changed once under an idempotency key', async () => {
    const own = await server.newTenant();
    const headers = { 'idempotency-key': 'once' };
    const first = await send('PUT', '/tenants/self', { name: 'Once' }, own.api_key, headers);
    const again = await send('PUT', '/tenants/self', { name: 'Once' }, own.api_key, headers);
    expect(again.headers.get('svc-idempotent-replayed')).toBe('true');
    expect(again.text).toBe(first.text);
    const other = await send('PUT', '/tenants/self', { name: 'Twice' }, own.api_key, headers);
    expect(other.status).toBe(422);
    expect((await send('GET', '/tenants/self', undefined, own.api_key)).body.name).toBe('Once');
  });

  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`s${index}`, '']));
  const cases: [name: string, body: unknown, field: string][] = [
    ['none', undefined, 'body'],
    ['no object', 'x', 'body'],
    ['no name', { settings: {} }, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a name too long', { name: 'x'.repeat(201) }, 'name'],
    ['a name with NUL', { name: '\0' }, 'name'],
    ['settings that are no object', { name: 'x', settings: ['a'] }, 'settings'],
    ['a setting that is no text', { name: 'x', settings: { a: true } }, 'settings.a'],
    ['a setting too long', { name: 'x', settings: { a: 'x'.repeat(501) } }, 'settings.a'],
    ['a setting with NUL', { name: 'x', settings: { a: '\0' } }, 'settings.a'],
    ['a name of a setting too long', { name: 'x', settings: { ['x'.repeat(201)]: '' } }, 'settings'],
    ['a name of a setting with NUL', { name: 'x', settings: { 'a\0': '' } }, 'settings'],
    ['too many settings', { name: 'x', settings: many(51) }, 'settings'],
    [
      'deduplication neither on nor off',
      { name: 'x', settings: { deduplicate_token: 'yes' } },
      'settings.deduplicate_token',
    ],
    ['the same of old', { name: 'x', settings: { deduplicate_tokens: '' } }, 'settings.deduplicate_tokens'],
  ];
  test.each(cases)('refuses a body with %s by the name of the field', async (_name, body, field) => {
    const answer = await send('PUT', '/tenants/self', body);
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([field]);
  });

  test('takes settings up to their bounds', async () => {
    const own = await server.newTenant();
    const settings = { ...many(49), ['x'.repeat(200)]: 'y'.repeat(500) };
    const answer = await send('PUT', '/tenants/self', { name: 'x'.repeat(200), settings }, own.api_key);
    expect(answer.status).toBe(200);
    expect(answer.body.settings).toEqual(settings);
  });
});

describe('the setting of deduplication', () => {
  // The change itself makes the process forget, not the notice of it.
  beforeAll(() => deafen(server));

  const once = async (settings: Record<string, string>): Promise<boolean> => {
    const own = await server.newTenant();
    await server.tokenize('warm', own.api_key);
    await send('PUT', '/tenants/self', { name: 'x', settings }, own.api_key);
    const first = await server.tokenize('same', own.api_key);
    const second = await server.tokenize('same', own.api_key);
    return first.body === second.body;
  };

  test('counts from the next request on, under either name, and the present one before the older', async () => {
    expect(await once({})).toBe(false);
    expect(await once({ deduplicate_token: 'true' })).toBe(true);
    expect(await once({ deduplicate_tokens: 'true' })).toBe(true);
    expect(await once({ deduplicate_token: 'false', deduplicate_tokens: 'true' })).toBe(false);
  });
});

describe('a deleted tenant', () => {
  test('leaves nothing that can be read: no key, no caller, no token, in any process', async () => {
    const other = await startServer({ DATABASE_URL: server.databaseUrl });
    try {
      const gone = await server.newTenant();
      const second = await server.newKey(gone, { permissions: ['token:read'] });
      const { body: id } = await server.tokenize('secret', gone.api_key);
      const { body: kept } = await server.tokenize('kept');
      for (const at of [server, other])
        expect((await at.request('GET', `/tokens/${id}`, { key: second.api_key })).status).toBe(200);

      const answer = await send('DELETE', '/tenants/self', undefined, gone.api_key);
      expect(answer.status).toBe(204);
      expect(answer.text).toBe('');

      for (const key of [gone.api_key, second.api_key])
        expect((await server.request('GET', `/tokens/${id}`, { key })).status).toBe(401);
      const statusThere = async () => (await other.request('GET', `/tokens/${id}`, { key: second.api_key })).status;
      await expect.poll(statusThere, { timeout: 10_000 }).toBe(401);

      const left = async (table: string) =>
        (await server.sql(`SELECT count(*)::int AS count FROM ${table} WHERE tenant_id = $1`, [gone.tenant_id]))[0]
          .count;
      for (const table of ['tenant_keys', 'api_keys', 'applications']) expect(await left(table)).toBe(0);
      await expect(server.ctx.keyring.tenantKeys(gone.tenant_id)).rejects.toThrow('no keys');
      await expect(other.ctx.keyring.tenantKeys(gone.tenant_id)).rejects.toThrow('no keys');

      expect((await server.request('GET', `/tokens/${kept}`)).body.data).toBe('kept');
      expect((await send('GET', '/tenants/self')).status).toBe(200);

      await sweepOnce(server.ctx.db, server.ctx.now(), server.ctx.newLogId, server.ctx.config);
      expect(await left('tokens')).toBe(0);
      expect((await server.request('GET', `/tokens/${kept}`)).status).toBe(200);
    } finally {
      await other.close();
    }
  });

  test('is forgotten by the process that deleted it without a notice, and the others hear one', async () => {
    const gone = await server.newTenant();
    const heard = await hearNotices(server);
    try {
      await deafen(server);
      expect((await server.tokenize('x', gone.api_key)).status).toBe(200);
      expect((await send('DELETE', '/tenants/self', undefined, gone.api_key)).status).toBe(204);
      await expect(server.ctx.keyring.tenantKeys(gone.tenant_id)).rejects.toThrow('no keys');
      expect((await server.tokenize('x', gone.api_key)).status).toBe(401);
      await heard.times(`tenant ${gone.tenant_id}`, 1);
    } finally {
      await heard.close();
    }
  });

  test('is gone once, however many ask at once', async () => {
    const gone = await server.newTenant();
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => send('DELETE', '/tenants/self', undefined, gone.api_key)),
    );
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 204)).toHaveLength(1);
    expect(statuses.every((status) => [204, 401, 404].includes(status))).toBe(true);
  });
});

describe('the usage report', () => {
  const report = async (of: TestTenant) =>
    (await send('GET', '/tenants/self/reports/usage', undefined, of.api_key)).body.token_report.metrics_by_type;

  test('counts the tokens of the tenant by type, and says when the last one came', async () => {
    const own = await server.newTenant();
    expect(await report(own)).toEqual({});
    await server.tokenize(['a', 'b'], own.api_key);
    const card = { type: 'card_number', data: '4242424242424242' };
    const { body } = await server.tokenize(card, own.api_key);
    expect(await report(own)).toEqual({
      card_number: { count: 1, last_created_at: body.created_at },
      token: { count: 2, last_created_at: expect.stringMatching(/Z$/) },
    });
  });

  test('leaves out a type without tokens', async () => {
    const own = await server.newTenant();
    const { body: id } = await server.tokenize('a', own.api_key);
    expect((await send('DELETE', `/tokens/${id}`, undefined, own.api_key)).status).toBe(204);
    expect(await report(own)).toEqual({});
  });
});
