// GET /metrics: who may read it and where, what the figures say, and that no label holds what a tenant stored or chose.
import { METHODS } from 'node:http';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startMailing } from '../src/modules/people/send-mails.ts';
import { accountLimits, anonymousAccount, openAccount } from '../src/platform/base/accounts.ts';
import { loadConfig } from '../src/platform/config/config.ts';
import { samplesOf, sumOf } from './support/metrics.ts';
import { makeReactor, react, type ReactorServer, startReactorServer } from './support/reactors.ts';
import { startServer, type TestServer } from './support/server.ts';
import { seeingAllTenants } from './support/database.ts';

const TOKEN = 'metrics-token-0123456789abcdef';
const WAIT = { timeout: 30_000 };

describe('without a setting', () => {
  test('there is no /metrics', async () => {
    const server = await startServer();
    try {
      const unknown = await server.request('GET', '/no-such-path');
      const answer = await server.request('GET', '/metrics', { headers: { authorization: `Bearer ${TOKEN}` } });
      expect(answer.status).toBe(404);
      expect(answer.body.detail).toBe(unknown.body.detail);
      expect(server.routes.map(({ url }) => url)).not.toContain('/metrics');
    } finally {
      await server.close();
    }
  });
});

describe('with METRICS_TOKEN', () => {
  let fixture: ReactorServer;
  let server: TestServer;
  beforeAll(async () => {
    fixture = await startReactorServer({ METRICS_TOKEN: TOKEN });
    ({ server } = fixture);
  });
  afterAll(() => fixture.close());

  const scrape = async (): Promise<string> => {
    const answer = await server.request('GET', '/metrics', {
      key: null,
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    expect(answer.status).toBe(200);
    return answer.text;
  };

  test('the token opens it, for GET and HEAD, and nothing else does', async () => {
    const ask = (headers: Record<string, string>, method = 'GET') =>
      server.request(method, '/metrics', { key: null, headers });
    const opened = await ask({ authorization: `bearer  ${TOKEN}` });
    expect(opened.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(opened.headers.get('cache-control')).toBe('no-store');
    expect((await ask({ authorization: `Bearer ${TOKEN}` }, 'HEAD')).status).toBe(200);
    const refused = await Promise.all(
      [
        {},
        { authorization: '' },
        { authorization: 'Bearer ' },
        { authorization: `Bearer ${TOKEN.slice(0, -1)}` },
        { authorization: `Bearer ${TOKEN}x` },
        { authorization: `Basic ${TOKEN}` },
        { authorization: TOKEN },
        { authorization: `Bearer ${'x'.repeat(5_000)}` },
        { authorization: `Bearer ${server.tenant.api_key}` },
        { 'svc-api-key': server.tenant.api_key },
        { 'svc-api-key': TOKEN },
      ].map((headers) => ask(headers as Record<string, string>)),
    );
    const bodies = refused.map(({ body }) => ({ ...body, trace_id: 'of the request' }));
    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 401));
    for (const body of bodies) expect(body).toEqual(bodies[0]);
    expect(JSON.stringify(bodies[0])).not.toContain('strongroom_');
    expect((await ask({ authorization: `Bearer ${TOKEN}` }, 'POST')).status).toBe(405);
  });

  test('the token is no API key', async () => {
    const headers: Record<string, string>[] = [{ 'svc-api-key': TOKEN }, { authorization: `Bearer ${TOKEN}` }];
    for (const each of headers)
      expect((await server.request('GET', '/tokens', { key: null, headers: each })).status).toBe(401);
  });

  test('requests are counted by the template of their route', async () => {
    const before = await scrape();
    const { body } = await server.tokenize({ note: 'value' });
    await server.request('GET', `/tokens/${body.note}`);
    await server.request('GET', '/tokens/none-such');
    await server.request('GET', '/no/such/path');
    const counted = (text: string, method: string, route: string, status: string) =>
      sumOf(text, 'strongroom_requests_total', { method, route, status });
    const grown = async (method: string, route: string, status: string) =>
      counted(await scrape(), method, route, status) - counted(before, method, route, status);
    expect(await grown('POST', '/tokenize', '200')).toBe(1);
    expect(await grown('GET', '/tokens/:id', '200')).toBe(1);
    expect(await grown('GET', '/tokens/:id', '404')).toBe(1);
    expect(await grown('GET', 'none', '404')).toBe(1);
    const text = await scrape();
    const labels = { method: 'GET', route: '/tokens/:id' };
    expect(sumOf(text, 'strongroom_request_seconds_count', labels)).toBe(
      sumOf(text, 'strongroom_requests_total', labels),
    );
  });

  test('the age of a row that waits to be written is told until its commit', async () => {
    const ageOf = (text: string) => sumOf(text, 'strongroom_oldest_unwritten_row_seconds', { kind: 'tokens' });
    expect(ageOf(await scrape())).toBe(0);
    const client = new Client({ connectionString: server.databaseUrl, ...seeingAllTenants });
    await client.connect();
    await client.query('BEGIN; LOCK TABLE tokens IN EXCLUSIVE MODE');
    const writing = server.tokenize({ note: 'waits' });
    await expect.poll(async () => ageOf(await scrape()), WAIT).toBeGreaterThan(0.02);
    await client.query('ROLLBACK');
    await client.end();
    expect((await writing).status).toBe(200);
    expect(ageOf(await scrape())).toBe(0);
    expect(sumOf(await scrape(), 'strongroom_write_batch_rows_count', { kind: 'tokens' })).toBeGreaterThan(0);
  });

  test('what tenants hold is told by their ids, and given back', async () => {
    const tenant_id = server.tenant.tenant_id;
    const held = server.ctx.accounts.hold(tenant_id, 'body_bytes', 1_000_000);
    const open = server.ctx.accounts.hold(openAccount(tenant_id, '203.0.113.7'), 'body_bytes', 500_000);
    const signingIn = server.ctx.accounts.hold(anonymousAccount('203.0.113.8'), 'body_bytes', 300_000);
    const text = await scrape();
    const ofTenant = { limit: 'body_bytes', tenant_id };
    expect(sumOf(text, 'strongroom_tenant_held', ofTenant)).toBe(1_500_000);
    expect(sumOf(text, 'strongroom_tenant_held', { tenant_id: 'anonymous' })).toBe(300_000);
    expect(sumOf(text, 'strongroom_limit_held', { limit: 'body_bytes' })).toBeGreaterThanOrEqual(1_800_000);
    expect(text).not.toContain('203.0.113');
    for (const reservation of [held, open, signingIn]) reservation.release();
    expect(sumOf(await scrape(), 'strongroom_tenant_held', ofTenant)).toBe(0);
    expect(() => server.ctx.accounts.reserve(tenant_id, 'body_bytes', 2 ** 40)).toThrow();
    expect(sumOf(await scrape(), 'strongroom_limit_refusals_total', { limit: 'body_bytes', full: 'tenant' })).toBe(1);
  });

  test('no label holds a value, a key, an id of a token or a name that a tenant chose', async () => {
    const planted = `planted-${crypto.randomUUID()}`;
    const { body } = await server.tokenize({ note: planted, card: { type: 'card_number', data: '4916338506082832' } });
    await server.request('GET', `/tokens/${body.note}?${planted}=1`, { headers: { 'svc-trace-id': planted } });
    await server.request('POST', `/proxy/${planted}`, { headers: { 'svc-proxy-url': `https://${planted}.test/` } });
    await server.request('GET', `/${planted}`);
    const fails = await makeReactor(
      server,
      `const error = new Error('${planted}'); error.name = '${planted}'; throw error`,
    );
    expect((await react(server, fails, {})).status).toBe(500);
    const works = await makeReactor(server, 'return { raw: {} }');
    expect((await react(server, works, {})).status).toBe(200);
    const text = await scrape();
    for (const secret of [planted, '4916338506082832', body.note, body.card.id, fails.id, server.tenant.api_key, TOKEN])
      expect(text).not.toContain(secret);
    const routes = new Set(['none', ...server.routes.map(({ url }) => url)]);
    const isKnown: Record<string, (value: string) => boolean> = {
      method: (value) => METHODS.includes(value),
      route: (value) => routes.has(value),
      status: (value) => /^[1-9]\d\d$/.test(value),
      tenant_id: (value) => /^(?:[0-9a-f-]{36}|other|anonymous|server)$/.test(value),
      limit: (value) => Object.hasOwn(accountLimits, value),
    };
    const odd = samplesOf(text).filter(({ labels }) =>
      Object.entries(labels).some(([key, value]) => !(isKnown[key]?.(value) ?? /^[a-zA-Z0-9_.+]{1,32}$/.test(value))),
    );
    expect(odd).toEqual([]);
    expect(sumOf(text, 'strongroom_executions_total', { kind: 'run', result: 'ok' })).toBe(1);
    expect(sumOf(text, 'strongroom_executions_total', { kind: 'run', result: 'thrown' })).toBe(1);
    expect(sumOf(text, 'strongroom_executions_total', { kind: 'check', result: 'ok' })).toBeGreaterThanOrEqual(2);
    expect(sumOf(text, 'strongroom_executors')).toBeGreaterThan(0);
    expect(sumOf(text, 'strongroom_egress_requests_total')).toBeGreaterThan(0);
    expect(sumOf(text, 'strongroom_keys_in_memory', { kind: 'tenant' })).toBeGreaterThan(0);
  });

  test('a database that does not answer leaves out what only it knows', async () => {
    const stopMailing = startMailing(server.ctx, server.base_url);
    try {
      expect(samplesOf(await scrape()).filter(({ name }) => name === 'strongroom_mails_waiting')).toHaveLength(1);
      const client = new Client({ connectionString: server.databaseUrl, ...seeingAllTenants });
      await client.connect();
      await client.query('BEGIN; LOCK TABLE mail_outbox');
      expect(samplesOf(await scrape()).filter(({ name }) => name === 'strongroom_mails_waiting')).toEqual([]);
      await client.query('ROLLBACK');
      await client.end();
    } finally {
      await stopMailing();
    }
  });
});

test('settings that cannot be meant end the start with what to set', () => {
  const refused = (environment: Record<string, string>) => () => loadConfig(environment);
  expect(refused({ METRICS_PORT: '8080' })).toThrow(/METRICS_PORT: must not be PORT. Take another, such as/);
  expect(refused({ METRICS_PORT: '70000' })).toThrow(/METRICS_PORT: must be a whole number|METRICS_PORT:/);
  for (const METRICS_TOKEN of ['short', 'with a blank 0123456789', `${'x'.repeat(20)}\u00e9`]) {
    expect(refused({ METRICS_TOKEN })).toThrow(/METRICS_TOKEN: must be 16 to 200 letters/);
    expect(refused({ METRICS_TOKEN })).not.toThrow(METRICS_TOKEN);
  }
});
