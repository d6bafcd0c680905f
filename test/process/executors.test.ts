// Executors share memory fairly between tenants, and one process never runs the code of two applications.
import { request as httpRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SandboxOwner } from '../../src/platform/sandbox/host/supervisor.ts';
import { codeOf, makeReactor, rawOf, react } from '../support/reactors.ts';
import { startServer, type TestServer, type TestTenant } from '../support/server.ts';

const GOOD = codeOf('return { raw: 1 };');
const SLEEP_MS = 6000;
const SLEEPER = codeOf(`await new Promise((resolve) => setTimeout(resolve, ${SLEEP_MS})); return { raw: 1 };`);
const executorsOf = (server: TestServer, tenant: TestTenant) =>
  (server.ctx.sandbox as SandboxOwner).executors().filter(({ tenant_id }) => tenant_id === tenant.tenant_id);

describe('on a server', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer({ BODY_BYTES_MAX: String(8 * 1024 * 1024) });
  });
  afterAll(() => server.close());

  test('the code of two applications, and the code of none, run in processes of their own', async () => {
    const tenant = await server.newTenant();
    const key = tenant.api_key;
    const applications = await Promise.all([server.newKey(tenant, {}), server.newKey(tenant, {})]);
    const ids: (string | undefined)[] = [undefined];
    const reactors = [await makeReactor(server, { code: GOOD, key })];
    for (const application of applications) {
      ids.push(application.application_id);
      reactors.push(await makeReactor(server, { code: GOOD, key, application }));
    }
    for (const reactor of reactors) expect(await rawOf(react(server, reactor, {}, { key }))).toBe(1);
    const own = executorsOf(server, tenant);
    expect(new Set(own.map(({ pid }) => pid)).size).toBe(own.length);
    expect(new Set(own.map(({ application_id }) => application_id))).toEqual(new Set(ids));
  });

  const PATIENCE = { timeout: 10_000 };

  /** Invokes a reactor, and disconnects when its run is in an executor. */
  const leave = async (tenant: TestTenant, reactor: { id: string }, count: number, headers = {}): Promise<void> => {
    const clients = Array.from({ length: count }, () => {
      const client = httpRequest(`${server.base_url}/reactors/${reactor.id}/react`, {
        method: 'POST',
        headers: { 'svc-api-key': tenant.api_key, 'content-type': 'application/json', ...headers },
      });
      client.on('error', () => undefined);
      client.end('{}');
      return client;
    });
    const running = () => executorsOf(server, tenant).reduce((sum, { runs }) => sum + runs, 0);
    await expect.poll(running, PATIENCE).toBe(count);
    for (const client of clients) client.destroy();
  };

  test('clients that disconnect leave no run behind, and no place of their tenant is taken', async () => {
    const tenant = await server.newTenant();
    const { api_key: key } = tenant;
    const sleeper = await makeReactor(server, { code: SLEEPER, key });
    const good = await makeReactor(server, { code: GOOD, key });
    const before = executorsOf(server, tenant).map(({ pid }) => pid);
    await leave(tenant, sleeper, 100);
    await expect.poll(() => executorsOf(server, tenant).reduce((sum, { runs }) => sum + runs, 0), PATIENCE).toBe(0);
    // The runs ended by themselves: no executor was ended for them.
    expect(executorsOf(server, tenant).map(({ pid }) => pid)).toEqual(expect.arrayContaining(before));
    const answers = await Promise.all(Array.from({ length: 128 }, () => react(server, good, {}, { key })));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });

  test('with an idempotency key the run goes on, and its answer is kept', async () => {
    const tenant = await server.newTenant();
    const { api_key: key } = tenant;
    const code = codeOf(`await new Promise((resolve) => setTimeout(resolve, 1000)); return { raw: Math.random() };`);
    const reactor = await makeReactor(server, { code, key });
    const headers = { 'idempotency-key': 'once' };
    await leave(tenant, reactor, 1, headers);
    const again = () => react(server, reactor, undefined, { key, headers });
    await expect.poll(async () => (await again()).status, PATIENCE).toBe(200);
    expect((await again()).headers.get('svc-idempotent-replayed')).toBe('true');
  });

  test('a body that code sends to the API has the limit of request bodies, by its length', async () => {
    const tenant = await server.newTenant();
    const { api_key: key } = tenant;
    const application = await server.newKey(tenant, { permissions: ['token:create'] });
    const code = codeOf(
      `return { raw: await svc.tokenize({ data: 'x'.repeat(6.9e6) }).then(() => 'made', (e) => e.message) };`,
    );
    const small = await startServer();
    try {
      const own = await small.newKey(small.tenant, { permissions: ['token:create'] });
      const refused = await makeReactor(small, { code, application: own });
      expect(await rawOf(react(small, refused))).toMatch(/must be at most 1048576 bytes/);
    } finally {
      await small.close();
    }
    const reactor = await makeReactor(server, { code, key, application });
    expect(await rawOf(react(server, reactor, undefined, { key }))).toBe('made');
  });
});
