// The usage by the hour: what counts as what, who asked, sums of processes, bounds, and the report.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createUsageCounts, startWritingUsage } from '../src/modules/access/usage.ts';
import { sweepOnce } from '../src/platform/maintenance/sweep.ts';
import { join } from './support/people.ts';
import { codeOf, makeReactor, react, type SharedReactorServer, useReactorServer } from './support/reactors.ts';
import { type SharedServer, startServer, type TestServer, type TestTenant } from './support/server.ts';
import { askProxy, makeProxy } from './support/stored-proxies.ts';

let fixture: SharedReactorServer;
let server: SharedServer;

beforeAll(async () => {
  fixture = await useReactorServer();
  ({ server } = fixture);
});
afterAll(() => fixture.close());

type Metric = { start: string; kind: string; requests: number; tokens: number; p50_ms?: number; p95_ms?: number };

const card = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };

const HOUR_MS = 3_600_000;
const ago = (ms: number): string => new Date(Date.now() - ms).toISOString();

const report = async (query: Record<string, string>, tenant: TestTenant, of = server): Promise<Metric[]> => {
  await of.ctx.usage.write();
  const path = `/tenants/self/reports/usage?${new URLSearchParams({ from: ago(HOUR_MS), ...query })}`;
  const { status, body, text } = await of.request('GET', path, { key: tenant.api_key });
  expect(status, text).toBe(200);
  return body.usage_report.metrics;
};

/** `kind requests/tokens`, of all hours together. */
const sums = async (query: Record<string, string>, tenant: TestTenant, of = server): Promise<string[]> => {
  const metrics = await report(query, tenant, of);
  return [...Map.groupBy(metrics, ({ kind }) => kind)]
    .map(([kind, all]) => {
      const sum = (name: 'requests' | 'tokens') => all.reduce((total, metric) => total + metric[name], 0);
      return `${kind} ${sum('requests')}/${sum('tokens')}`;
    })
    .toSorted();
};

const tokens = async (wanted: unknown[], key: string): Promise<string[]> => {
  const { status, body, text } = await server.tokenize(wanted, key);
  expect(status, text).toBe(200);
  return body.map((made: string | { id: string }) => (typeof made === 'string' ? made : made.id));
};

const ask = (method: string, path: string, key: string | null, json?: unknown) =>
  server.request(method, path, { key, ...(json !== undefined && { json }) });

describe('a request counts', () => {
  test('once for each kind, and each token once; tokens that deduplicate are not stored again', async () => {
    const tenant = await server.newTenant();
    const { api_key: key } = tenant;
    const [plain = '', masked = ''] = await tokens(['a', card, card], key);
    const twice = [`{{ ${plain} }}`, `{{ ${plain} }}`, `{{ ${plain} | json: '$' }}`];
    expect((await ask('POST', '/detokenize', key, twice)).status).toBe(200);
    expect((await ask('GET', `/tokens/${masked}`, key)).status).toBe(200);
    expect((await ask('GET', '/tokens', key)).status).toBe(200);
    const again = [{ type: 'token', data: 'a', deduplicate_token: true }];
    expect((await ask('POST', '/tokenize', key, again)).status).toBe(200);
    expect(await sums({}, tenant)).toEqual(['masked 2/3', 'revealed 2/2', 'stored 1/3']);
    expect(await sums({}, await server.newTenant())).toEqual([]);
  });

  test('for the application that asked, also where code acts for another', async () => {
    const tenant = await server.newTenant();
    const { api_key: key } = tenant;
    const [caller, helper] = [
      await server.newKey(tenant, { permissions: ['token:use'] }),
      await server.newKey(tenant, { permissions: ['token:read'] }),
    ];
    const [id = '', other = ''] = await tokens(['a', 'b'], key);
    const code = codeOf('await svc.tokens.retrieve(args.id); return { raw: args.value };');
    const reactor = await makeReactor(server, { code, application: helper, key });
    const { status, text } = await react(server, reactor, { id, value: `{{ ${other} }}` }, { key: caller.api_key });
    expect(status, text).toBe(200);
    expect(await sums({ application_id: caller.application_id }, tenant)).toEqual(['revealed 1/1', 'used 1/1']);
    expect(await sums({ application_id: helper.application_id }, tenant)).toEqual([]);
    expect(await sums({ application_id: tenant.tenant_id }, tenant)).toEqual([]);
  });

  test('as refused where a permission is missing, and as failed where code crashes', async () => {
    const tenant = await server.newTenant();
    const { api_key: key } = tenant;
    const weak = await server.newKey(tenant, { permissions: ['token:create'] });
    const [id = ''] = await tokens(['a'], key);
    expect((await ask('GET', `/tokens/${id}`, weak.api_key)).status).toBe(403);
    const crashing = await makeReactor(server, { code: codeOf('null.x'), key });
    expect((await react(server, crashing, { v: `{{ ${id} }}` }, { key })).status).toBe(500);
    const refusing = await makeReactor(server, {
      code: codeOf(`const { BadRequestError } = require('@strongroom/sdk'); throw new BadRequestError();`),
      key,
    });
    const refused = await react(server, refusing, {}, { key });
    expect(refused.status, refused.text).toBeLessThan(600);
    const kinds = await sums({}, tenant);
    expect(kinds).toContain('used 1/1');
    expect(kinds.find((kind) => kind.startsWith('refused'))).toBeDefined();
    expect(kinds.find((kind) => kind.startsWith('failed'))).toMatch(/^failed [12]\/1$/);
    expect(await sums({ application_id: weak.application_id }, tenant)).toEqual(['refused 1/0']);
  });

  test('for no application where an anonymous client or a member asks', async () => {
    const tenant = await server.newTenant();
    const { api_key: key } = tenant;
    const helper = await server.newKey(tenant, { permissions: ['token:use'] });
    const [id = ''] = await tokens([card], key);
    const open = { destination_url: fixture.url, require_auth: false, application: { id: helper.application_id } };
    const proxy = await makeProxy(server, open, key);
    const { status, text } = await askProxy(server, proxy, { key: null, json: [`{{ ${id} | json: '$.number' }}`] });
    expect(status, text).toBe(200);
    const member = await join(server, { tenant });
    await member.browser.get(`/console/tokens/${id}`);
    expect(await sums({}, tenant)).toEqual(['masked 1/1', 'stored 1/1', 'used 1/1']);
    expect(await sums({ application_id: helper.application_id }, tenant)).toEqual([]);
  });
});

describe('the report', () => {
  test('has times, and steps of an hour or a day; without parameters it counts tokens by type only', async () => {
    const tenant = await server.newTenant();
    await tokens(['a', 'b'], tenant.api_key);
    const [metric] = await report({}, tenant);
    expect(metric).toMatchObject({ kind: 'stored', requests: 1, tokens: 2 });
    expect(metric?.start).toMatch(/T\d\d:00:00.000Z$/);
    expect(metric?.p50_ms).toBeGreaterThan(0);
    expect(metric?.p95_ms).toBeGreaterThanOrEqual(metric?.p50_ms ?? Infinity);
    const from = ago(399 * 24 * HOUR_MS);
    const days = await report({ from, by: 'day' }, tenant);
    expect(days.map(({ start, kind }) => [start.slice(10), kind])).toContainEqual(['T00:00:00.000Z', 'stored']);
    expect(await report({ from, to: ago(398 * 24 * HOUR_MS), by: 'day' }, tenant)).toEqual([]);
    const plain = await ask('GET', '/tenants/self/reports/usage', tenant.api_key);
    expect(Object.keys(plain.body)).toEqual(['total_tokens', 'token_report']);
  });

  test.each([
    ['from', 'a day that is none', { from: 'yesterday' }],
    ['from', 'more than 31 days by hour', { from: '2026-01-01', to: '2026-02-01T00:00:00.001Z' }],
    ['from', 'more than 400 days by day', { from: '2024-01-01', to: '2026-01-01', by: 'day' }],
    ['from', 'an end before its beginning', { from: '2026-01-02', to: '2026-01-01' }],
    ['from', 'the future', { from: '2126-01-01' }],
    ['from', 'no beginning', { to: '2026-01-01' }],
    ['from', 'a step alone', { by: 'day' }],
    ['by', 'another step', { from: '2026-01-01', by: 'minute' }],
    ['application_id', 'no UUID', { from: '2026-01-01', to: '2026-01-02', application_id: 'x' }],
    ['kind', 'a filter that is not there', { from: '2026-01-01', to: '2026-01-02', kind: 'used' }],
  ])('refuses %s: %s', async (name, _, query) => {
    const { status, body } = await server.request('GET', `/tenants/self/reports/usage?${new URLSearchParams(query)}`);
    expect(status).toBe(400);
    expect(Object.keys(body.errors)).toEqual([name]);
  });

  test('takes 31 days by hour and 400 days by day', async () => {
    const tenant = await server.newTenant();
    expect(await report({ from: '2026-01-01', to: '2026-02-01' }, tenant)).toEqual([]);
    expect(await report({ from: '2025-01-01', to: '2026-02-05', by: 'day' }, tenant)).toEqual([]);
  });
});

describe('counts of processes', () => {
  let own: TestServer;
  beforeAll(async () => {
    own = await startServer();
  });
  afterAll(() => own.close());

  const stored = (of: ReturnType<typeof createUsageCounts>, tenant_id: string, application_id?: string): void => {
    const usage = of.begin(tenant_id, application_id);
    usage.count('stored', ['a', 'b']);
    usage.finish(3);
  };

  test('are added up, and those that could not be written are added later, once', async () => {
    const tenant = await own.newTenant();
    const { tenant_id, application_id } = tenant;
    const [one, other] = [createUsageCounts(own.ctx), createUsageCounts(own.ctx)];
    for (const counts of [one, other, one]) stored(counts, tenant_id, application_id);
    await Promise.all([one.write(), other.write()]);
    await own.sql('ALTER TABLE usage_hours RENAME TO usage_elsewhere');
    stored(one, tenant_id, application_id);
    await expect(one.write()).rejects.toThrow();
    stored(one, tenant_id, application_id);
    await own.sql('ALTER TABLE usage_elsewhere RENAME TO usage_hours');
    await one.write();
    await one.write();
    expect(await sums({ application_id }, tenant, own)).toEqual(['stored 5/10']);
  });

  test('of a tenant that cannot be written keep no other from being written', async () => {
    const tenant = await own.newTenant();
    const counts = createUsageCounts(own.ctx);
    for (const tenant_id of ['no UUID', tenant.tenant_id]) stored(counts, tenant_id);
    await expect(counts.write()).rejects.toThrow();
    expect(await sums({}, tenant, own)).toEqual(['stored 1/2']);
  });

  test('that end after the response are added to it', async () => {
    const tenant = await own.newTenant();
    const counts = createUsageCounts(own.ctx);
    const usage = counts.begin(tenant.tenant_id, tenant.application_id);
    usage.count('used', ['a']);
    usage.finish(3);
    usage.count('used', ['a', 'b']);
    usage.count('failed', []);
    usage.finish(4);
    await counts.write();
    expect(await sums({}, tenant, own)).toEqual(['failed 1/0', 'used 1/2']);
  });

  test('of very many applications of a tenant have few rows, and the sum of all', async () => {
    const tenant = await own.newTenant();
    const counts = createUsageCounts(own.ctx);
    for (let at = 0; at < 1_000; at += 1) stored(counts, tenant.tenant_id, own.ctx.newUuid());
    await counts.write();
    const [{ rows }] = await own.sql('SELECT count(*)::int AS rows FROM usage_hours WHERE tenant_id = $1', [
      tenant.tenant_id,
    ]);
    expect(rows).toBe(200);
    expect(await sums({}, tenant, own)).toEqual(['stored 1000/2000']);
  });

  test('are deleted after USAGE_RETENTION_DAYS, and with their tenant', async () => {
    const [tenant, gone] = [await own.newTenant(), await own.newTenant()];
    const counts = createUsageCounts(own.ctx);
    for (const { tenant_id } of [tenant, gone]) stored(counts, tenant_id);
    await counts.write();
    await own.sql(
      `INSERT INTO usage_hours (tenant_id, hour, kind, application_id, requests, tokens,
         ms_5, ms_10, ms_25, ms_50, ms_100, ms_250, ms_500, ms_1000, ms_2500, ms_5000, ms_10000, ms_more)
       SELECT tenant_id, hour - interval '401 days', kind, application_id, requests, tokens,
         ms_5, ms_10, ms_25, ms_50, ms_100, ms_250, ms_500, ms_1000, ms_2500, ms_5000, ms_10000, ms_more FROM usage_hours`,
    );
    expect((await own.request('DELETE', '/tenants/self', { key: gone.api_key })).status).toBe(204);
    while (await sweepOnce(own.ctx.db, own.ctx.now(), own.ctx.newLogId, own.ctx.config));
    const left = await own.sql('SELECT DISTINCT tenant_id FROM usage_hours WHERE tenant_id = ANY($1)', [
      [tenant.tenant_id, gone.tenant_id],
    ]);
    expect(left).toEqual([{ tenant_id: tenant.tenant_id }]);
    expect(await own.sql(`SELECT 1 FROM usage_hours WHERE hour < now() - interval '400 days'`)).toEqual([]);
  });

  test('are written when the server stops', async () => {
    const tenant = await own.newTenant();
    const usage = createUsageCounts(own.ctx);
    const stop = startWritingUsage({ usage, log: own.ctx.log });
    stored(usage, tenant.tenant_id);
    await stop();
    expect(await sums({}, tenant, own)).toEqual(['stored 1/2']);
  });
});
