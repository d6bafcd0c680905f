// Every route x no key, wrong permission, a stranger's ids, right. A route this file does not know fails it (security.md T1).
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { permissions } from '../../src/access/permissions.ts';
import { startServer, type TestServer, type TestTenant } from '../support/server.ts';

/** How to call a route rightly: in whose tenant `tokenId` lives is the case's business. */
type Row = {
  path: (ids: { tokenId: string }) => string;
  json?: unknown;
  permission: string | null;
  status: number;
  names: 'token' | null;
};

const table: Record<string, Row> = {
  'POST /tokenize': { path: () => '/tokenize', json: 'x', permission: 'token:create', status: 200, names: null },
  'GET /tokens/:id': {
    path: ({ tokenId }) => `/tokens/${tokenId}`,
    permission: 'token:read',
    status: 200,
    names: 'token',
  },
  'GET /healthz': { path: () => '/healthz', permission: null, status: 200, names: null },
  'GET /readyz': { path: () => '/readyz', permission: null, status: 200, names: null },
  'GET /': { path: () => '/', permission: null, status: 200, names: null },
  'GET /openapi.json': { path: () => '/openapi.json', permission: null, status: 200, names: null },
};

let server: TestServer;
let own: TestTenant;
let ids: { tokenId: string };
let foreignIds: { tokenId: string };

beforeAll(async () => {
  server = await startServer();
  own = await server.newTenant();
  ids = { tokenId: (await server.tokenize('mine', own.api_key)).body };
  foreignIds = { tokenId: (await server.tokenize('theirs', server.tenant.api_key)).body };
});
afterAll(() => server.close());

test('every route of the app is in the table', () => {
  const real = server.routes
    .filter(({ config, url }) => !config?.methodGuard && !url.startsWith('/docs'))
    .flatMap(({ method, url }) => [method].flat().map((each) => `${each} ${url}`))
    .filter((route) => !route.startsWith('HEAD '));
  expect(real.length).toBeGreaterThan(4);
  expect(real.filter((route) => !Object.hasOwn(table, route))).toEqual([]);
});

const send = (route: string, row: Row, key: string | null, at: { tokenId: string }) =>
  server.request(route.split(' ')[0] as string, row.path(at), {
    key,
    ...(row.json === undefined ? {} : { json: row.json }),
  });

describe.each(Object.entries(table))('%s', (route, row) => {
  test('works for its caller', async () => {
    expect((await send(route, row, row.permission === null ? null : own.api_key, ids)).status).toBe(row.status);
  });

  test.runIf(row.permission !== null)('refuses no key', async () => {
    expect((await send(route, row, null, ids)).status).toBe(401);
  });

  test.runIf(row.permission !== null)('refuses a caller with every permission but this one', async () => {
    const others = permissions.filter((permission) => permission !== row.permission);
    const { api_key } = await server.newKey(own, { permissions: others });
    const answer = await send(route, row, api_key, ids);
    expect(answer.status).toBe(403);
    expect(answer.body.detail).toContain(row.permission);
  });

  test.runIf(row.names !== null)(
    "answers a stranger's id byte for byte like an unknown one, and logs nothing in either tenant",
    async () => {
      const logs = async () => (await server.sql('SELECT count(*) FROM audit_log'))[0].count;
      const before = await logs();
      const trace = { headers: { 'svc-trace-id': 'the-same' } };
      const method = route.split(' ')[0] as string;
      const foreign = await server.request(method, row.path(foreignIds), { key: own.api_key, ...trace });
      const unknown = await server.request(method, row.path({ tokenId: '7d6f1f5e-0000-4000-8000-000000000000' }), {
        key: own.api_key,
        ...trace,
      });
      expect(foreign.status).toBe(404);
      expect(foreign.text).toBe(unknown.text);
      expect(await logs()).toBe(before);
    },
  );
});
