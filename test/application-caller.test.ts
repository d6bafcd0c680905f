// An application as caller without its key, for code that acts with its permissions.
// It has the permissions of its row, and a change counts at once.
import type { Caller } from '../src/modules/access/caller.ts';
import { CALLER_CACHE_MS, createCallerFinder } from '../src/modules/access/caller-finder.ts';
import { beforeAll, describe, expect, test } from 'vitest';
import { createChanges } from '../src/platform/base/cache.ts';
import { type SharedServer, type TestTenant, useServer } from './support/server.ts';

let server: SharedServer;
let tenant: TestTenant;

beforeAll(async () => {
  server = await useServer();
  tenant = await server.newTenant();
});

const UNKNOWN_ID = '7d6f1f5e-0000-4000-8000-000000000000';

const rule = (priority: number, container: string) => ({
  description: '',
  priority,
  container,
  transform: 'mask',
  permissions: ['token:read'],
});

const find = (id: string, of: Pick<TestTenant, 'tenant_id'> = tenant) =>
  server.ctx.callers.findCallerOfApplication(of, id);

const send = (method: string, path: string, json?: unknown) =>
  server.request(method, path, { key: tenant.api_key, ...(json === undefined ? {} : { json }) });

describe('an application that is called for', () => {
  test('is the caller that its key is', async () => {
    const made = await server.newKey(tenant, {
      permissions: ['token:create', 'log:read'],
      rules: [rule(2, '/b/'), rule(1, '/a/')],
    });
    const caller = await find(made.application_id);
    const { key, ...byKey } = (await server.ctx.callers.findCallerBeforeCaller(made.api_key)) as Caller;
    expect(caller).toEqual(byKey);
    expect(made.api_key).toContain(key?.public_id);
    expect(caller).toMatchObject({
      tenant_id: tenant.tenant_id,
      actor_id: made.application_id,
      actor_type: 'application',
      permissions: new Set(['token:create', 'log:read']),
      rules: [{ priority: 1 }, { priority: 2 }],
      deduplicate_tokens: false,
    });
  });

  test('has the settings of its tenant', async () => {
    const { application_id } = await server.newKey(tenant, { permissions: ['log:read'] });
    expect((await find(application_id))?.deduplicate_tokens).toBe(false);
    const settings = { deduplicate_token: 'true' };
    expect((await send('PUT', '/tenants/self', { name: 'Test', settings })).status).toBe(200);
    expect((await find(application_id))?.deduplicate_tokens).toBe(true);
    expect((await send('PUT', '/tenants/self', { name: 'Test', settings: {} })).status).toBe(200);
  });

  test('is not there for another tenant, nor under an unknown id', async () => {
    const { application_id } = await server.newKey(tenant, { permissions: ['log:read'] });
    expect(await find(application_id)).toBeDefined();
    expect(await find(application_id, server.tenant)).toBeUndefined();
    expect(await find(UNKNOWN_ID)).toBeUndefined();
  });

  test('may what it may now, as soon as that has changed', async () => {
    const { application_id } = await server.newKey(tenant, { permissions: ['log:read'] });
    const permissionsNow = async () => [...((await find(application_id))?.permissions ?? [])];
    expect(await permissionsNow()).toEqual(['log:read']);
    await send('PUT', `/applications/${application_id}`, { name: 'x', permissions: ['token:create'] });
    expect(await permissionsNow()).toEqual(['token:create']);
    expect((await send('DELETE', `/applications/${application_id}`)).status).toBe(204);
    expect(await find(application_id)).toBeUndefined();
  });

  test('is not found once its tenant is deleted', async () => {
    const gone = await server.newTenant();
    expect(await find(gone.application_id, gone)).toBeDefined();
    expect((await server.request('DELETE', '/tenants/self', { key: gone.api_key })).status).toBe(204);
    expect(await find(gone.application_id, gone)).toBeUndefined();
  });
});

describe('what a process remembers of an application', () => {
  let clockMs = 1_000;
  /** One that hears no notices: what it forgets, this test has told it. */
  const changes = createChanges();
  const newFinder = () => createCallerFinder({ ...server.ctx, changes, monotonicMs: () => clockMs });
  /** A memory looks at its clock once in a millisecond. */
  const passMs = async (ms: number) => {
    clockMs += ms;
    await new Promise((resolve) => setTimeout(resolve, 5));
  };
  const takePermissions = async (id: string): Promise<void> => {
    const take = `UPDATE applications SET permissions = '{}' WHERE id = $1 RETURNING tenant_id`;
    await server.sign((await server.sql(take, [id]))[0].tenant_id);
  };

  test('is what it was, for a moment and no longer', async () => {
    const { application_id } = await server.newKey(tenant, { permissions: ['log:read'] });
    const callers = newFinder();
    const sizeNow = async () => (await callers.findCallerOfApplication(tenant, application_id))?.permissions.size;
    expect(await sizeNow()).toBe(1);
    await takePermissions(application_id);
    await passMs(CALLER_CACHE_MS - 1);
    expect(await sizeNow()).toBe(1);
    await passMs(2);
    expect(await sizeNow()).toBe(0);
  });

  test.each([
    ['application', ({ application_id }: TestTenant) => ({ subject: 'application' as const, id: application_id })],
    ['tenant', ({ tenant_id }: TestTenant) => ({ subject: 'tenant' as const, id: tenant_id })],
    ['anything', () => 'anything' as const],
  ])('is forgotten by %s', async (_, matchOf) => {
    const made = await server.newKey(tenant, { permissions: ['log:read'] });
    const callers = newFinder();
    const sizeNow = async () => (await callers.findCallerOfApplication(made, made.application_id))?.permissions.size;
    expect(await sizeNow()).toBe(1);
    await takePermissions(made.application_id);
    changes.announce({ subject: 'application', id: UNKNOWN_ID });
    changes.announce({ subject: 'tenant', id: UNKNOWN_ID });
    expect(await sizeNow()).toBe(1);
    changes.announce(matchOf(made));
    expect(await sizeNow()).toBe(0);
  });

  test('is never found by a key', async () => {
    const { tenant_id, application_id } = await server.newKey(tenant, { permissions: ['log:read'] });
    const callers = newFinder();
    expect(await callers.findCallerOfApplication(tenant, application_id)).toBeDefined();
    const name = `application ${tenant_id} ${application_id}`;
    expect(callers.recallCaller(name)).toBeUndefined();
    expect(await callers.findCallerBeforeCaller(name)).toBeUndefined();
  });
});
