// A failover that lost commits: a real promotion begins another timeline, and a running server takes the lower versions of rows there.
import { chmodSync, cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type DatabaseAddress, superuser } from '../../src/platform/dev-postgres/connection.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/platform/dev-postgres/dev-postgres.ts';
import { createDataDir } from '../support/database.ts';
import { type Relay, startRelay } from '../support/relay.ts';
import { startServer, type TestServer, type TestTenant } from '../support/server.ts';

const leaderDir = createDataDir('leader');
const standbyDir = `${leaderDir}-standby`;
let leader: EmbeddedPostgres;
let standby: EmbeddedPostgres | undefined;
let relay: Relay;
let server: TestServer;
let weak: TestTenant;

const start = (dataDir: string): Promise<EmbeddedPostgres> =>
  startEmbeddedPostgres({ dataDir, newPassword: () => 'unused: the directory has one', log: () => undefined });

const reconnect = async (address: DatabaseAddress): Promise<void> => {
  relay.pointTo(address);
  await expect.poll(async () => (await server.request('GET', '/readyz')).status).toBe(200);
};

const statusOf = async ({ api_key }: TestTenant): Promise<number> =>
  (await server.request('GET', '/applications/key', { key: api_key })).status;

const linesWith = (text: string): Record<string, any>[] =>
  server.logLines.filter((line) => line.includes(text)).map((line) => JSON.parse(line));

beforeAll(async () => {
  leader = await start(leaderDir);
  relay = await startRelay(leader.address);
  const database = { url: relay.url, address: leader.address, drop: async () => undefined };
  server = await startServer({ DATABASE_URL: relay.url }, {}, { database });
  weak = await server.newKey(server.tenant, { permissions: ['application:read'] });
  // The standby has what was committed until here, and nothing of what follows.
  await leader.stop();
  cpSync(leaderDir, standbyDir, { recursive: true });
  chmodSync(join(standbyDir, 'pg'), 0o700);
  leader = await start(leaderDir);
});
afterAll(async () => {
  await server.close();
  await relay.close();
  await leader.stop();
  await standby?.stop();
  for (const each of [leaderDir, standbyDir]) rmSync(each, { recursive: true, force: true });
});

test('the same timeline after a restart of the database: a version that was put back is refused', async () => {
  const { tenant } = server;
  await reconnect(leader.address);
  const [{ auth_version, mac }] = await server.sql('SELECT auth_version, mac FROM tenants WHERE id = $1', [
    tenant.tenant_id,
  ]);
  const setHead = (values: unknown[]) =>
    server.sql('UPDATE tenants SET auth_version = $2, mac = $3 WHERE id = $1', [tenant.tenant_id, ...values]);
  expect((await server.request('DELETE', `/applications/${weak.application_id}`)).status).toBe(204);
  expect([await statusOf(tenant), await statusOf(weak)]).toEqual([200, 401]);
  const [later] = await server.sql('SELECT auth_version, mac FROM tenants WHERE id = $1', [tenant.tenant_id]);
  expect(later.auth_version).toBe(auth_version + 1);

  await setHead([auth_version, mac]);
  await leader.stop();
  leader = await start(leaderDir);
  await reconnect(leader.address);
  server.ctx.changes.announce('anything');
  expect(await statusOf(tenant)).toBe(401);
  expect(linesWith('"alarm":"tampered"').at(-1)).toMatchObject({ table: 'tenants', row_id: tenant.tenant_id });
  expect(linesWith('another history')).toEqual([]);

  await setHead([later.auth_version, later.mac]);
  server.ctx.changes.announce('anything');
  expect(await statusOf(tenant)).toBe(200);
});

test('a standby without the last commits is promoted: a running server serves its tenants', async () => {
  const alarms = linesWith('"alarm":"tampered"').length;
  await leader.stop();
  writeFileSync(join(standbyDir, 'pg', 'standby.signal'), '');
  standby = await start(standbyDir);
  const operator = new Client({ ...standby.address, user: superuser });
  await operator.connect();
  expect((await operator.query('SELECT pg_promote() AS promoted')).rows).toEqual([{ promoted: true }]);
  await operator.end();
  await reconnect(standby.address);

  // The deletion was one of the lost commits.
  expect([await statusOf(server.tenant), await statusOf(weak)]).toEqual([200, 200]);
  expect(linesWith('"alarm":"tampered"')).toHaveLength(alarms);
  const changes = linesWith('another history');
  expect(changes.map(({ before, after }) => [before.timeline, after.timeline])).toEqual([[1, 2]]);
  expect(changes[0]?.['after'].system).toBe(changes[0]?.['before'].system);

  // What is revoked from then on is refused as before.
  expect((await server.request('DELETE', `/applications/${weak.application_id}`)).status).toBe(204);
  expect([await statusOf(server.tenant), await statusOf(weak)]).toEqual([200, 401]);
});
