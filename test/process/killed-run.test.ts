// A server that is killed in the middle of runs: another server of the vault ends them as unknown, with second rows in the log.
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { endDeadRuns, RUN_UNKNOWN_AFTER_MS } from '../../src/modules/runs/sweep.ts';
import { createDataDir } from '../support/database.ts';
import { freePort, type ServerProcess, spawnServer, untilReady } from '../support/process.ts';
import { makeReactor } from '../support/reactors.ts';
import { startServer, TEST_ROOT_KEY, type TestServer } from '../support/server.ts';

let server: TestServer;
let dataDir: string;
let killed: ServerProcess;
beforeAll(async () => {
  server = await startServer();
  dataDir = createDataDir('killed-run');
  const vault = { DATABASE_URL: server.databaseUrl, MASTER_KEY: TEST_ROOT_KEY, NODE_ENV: 'test' };
  killed = await spawnServer(dataDir, { ...vault, PORT: String(await freePort()), SANDBOX_ALLOW_WEAK: '1' });
  await untilReady(killed);
});
afterAll(async () => {
  killed.child.kill('SIGKILL');
  await server.close();
  rmSync(dataDir, { recursive: true, force: true });
});

const RUNS = 3;

test('its runs become unknown', async () => {
  const reactor = await makeReactor(server, 'await new Promise((resolve) => setTimeout(resolve, 20_000));');
  const headers = { 'svc-api-key': server.tenant.api_key, 'content-type': 'application/json' };
  const asked = Array.from({ length: RUNS }, () =>
    fetch(`${killed.base_url}/reactors/${reactor.id}/react`, { method: 'POST', headers, body: '{}' }).catch(
      () => 'lost',
    ),
  );
  const count = async (table: string): Promise<number> =>
    (await server.sql(`SELECT count(*)::int AS n FROM ${table} WHERE tenant_id = $1`, [server.tenant.tenant_id]))[0].n;
  await vi.waitFor(async () => expect(await count('begun_runs')).toBe(RUNS), { timeout: 20_000 });
  killed.child.kill('SIGKILL');
  expect(await Promise.all(asked)).toEqual(Array(RUNS).fill('lost'));

  const outcomes = async (): Promise<string[]> => {
    const { body } = await server.request('GET', `/runs?resource_id=${reactor.id}`);
    return body.data.map(({ outcome }: { outcome: string }) => outcome);
  };
  await endDeadRuns(server.ctx, async () => true);
  expect([await outcomes(), await count('begun_runs')]).toEqual([[], RUNS]);
  server.clock.offsetMs = RUN_UNKNOWN_AFTER_MS + 1_000;
  await endDeadRuns(server.ctx, async () => true);
  server.clock.offsetMs = 0;
  expect([await outcomes(), await count('begun_runs')]).toEqual([Array(RUNS).fill('unknown'), 0]);
  const rows = await server.sql(
    `SELECT outcome, count(*)::int AS n FROM audit_log WHERE operation = 'use' AND entity_ids = ARRAY[$1] GROUP BY 1 ORDER BY 1`,
    [reactor.id],
  );
  expect(rows).toEqual([
    { outcome: 'failed', n: RUNS },
    { outcome: 'success', n: RUNS },
  ]);
});
