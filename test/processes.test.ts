// One short test for each promise of a process. test/process has all that starts, kills and waits for processes.
import { describe, expect } from 'vitest';
import type { SandboxOwner } from '../src/platform/sandbox/host/supervisor.ts';
import { callToEnd, queryOf, shareBackups, tokenize, withEmpty } from './support/backups.ts';
import { prepareDataDir } from './support/database.ts';
import { expectAllThere, load } from './support/journal.ts';
import { OWN_CONNECTION, post, test } from './support/place.ts';
import { isAlive, killIfAlive, postgresProcesses, untilReady, workersOf } from './support/process.ts';
import { codeOf, makeReactor, rawOf, react } from './support/reactors.ts';

const WAIT = { timeout: 30_000 };

test('a server with nothing configured makes its database, answers, and ends both on SIGTERM', async ({
  dataDir,
  start,
}) => {
  const server = await start();
  await untilReady(server);
  expect((await post(server, '/tokenize', 'x')).status).toBe(200);
  const postgres = postgresProcesses(dataDir);
  server.child.kill('SIGTERM');
  expect(await server.exited).toBe(0);
  expect(postgres.filter(isAlive)).toEqual([]);
});

test('kill -9 of a server and of its whole database under load loses no acknowledged token', async ({
  dataDir,
  start,
}) => {
  prepareDataDir(dataDir);
  const journal = new Map<string, string>();
  const server = await start();
  await untilReady(server);
  const loading = load(server, journal);
  await loading.underWay();
  for (const pid of [server.child.pid as number, ...postgresProcesses(dataDir)]) killIfAlive(pid);
  await server.exited;
  await loading.stop();
  expect(journal.size).toBeGreaterThan(0);
  const next = await start();
  await untilReady(next);
  await expectAllThere(next, journal);
});

test('two workers serve, and one that is killed is replaced', async ({ database, start }) => {
  const server = await start({ DATABASE_URL: database.url, WORKERS: '2' });
  await untilReady(server);
  await expect.poll(() => server.output(), WAIT).toContain('"workers":2');
  const [killed = 0, other = 0] = workersOf(server);
  killIfAlive(killed);
  await expect.poll(() => server.output(), WAIT).toContain('"worker_ended"');
  for (let index = 0; index < 10; index += 1)
    expect((await post(server, '/tokenize', 'x', OWN_CONNECTION)).status).toBe(200);
  await expect.poll(() => server.output(), WAIT).toContain('a worker took its place');
  const workers = workersOf(server);
  expect([workers.length, workers.includes(other), workers.includes(killed)]).toEqual([2, true, false]);
});

describe('a server in this process', () => {
  const here = shareBackups(callToEnd);

  test('its backup is restored into an empty database, after a verification', async () => {
    const { backups, server } = here;
    const id = await tokenize(server, 'kept');
    const file = await backups.backUp(server.databaseUrl, 'smoke.age');
    const verified = await backups.restore(server.databaseUrl, file, '--verify');
    expect([verified.code, verified.stdout]).toEqual([0, expect.stringContaining('sampled tokens')]);
    await withEmpty(async (database) => {
      const { code, stdout } = await backups.restore(database.url, file);
      expect([code, stdout]).toEqual([0, expect.stringContaining('Restored: ')]);
      expect(await queryOf(database, 'SELECT id FROM tokens')).toEqual([{ id }]);
    });
  });

  test('code of two tenants runs in two processes, and one that is killed takes no other run along', async () => {
    const { server } = here;
    const tenants = [server.tenant, await server.newTenant()];
    const code = codeOf('return { raw: 1 };');
    const reactors = await Promise.all(tenants.map(({ api_key: key }) => makeReactor(server, { code, key })));
    const runAll = () =>
      Promise.all(
        reactors.map((reactor, at) => rawOf(react(server, reactor, {}, { key: tenants[at]?.api_key ?? '' }))),
      );
    expect(await runAll()).toEqual([1, 1]);
    const executors = (server.ctx.sandbox as SandboxOwner).executors();
    const pidsOf = (tenant_id = '') => executors.filter((each) => each.tenant_id === tenant_id).map(({ pid }) => pid);
    const [first, second] = tenants.map(({ tenant_id }) => pidsOf(tenant_id));
    expect([first?.length, second?.length, new Set([...(first ?? []), ...(second ?? [])]).size]).toEqual([1, 1, 2]);
    for (const pid of first ?? []) killIfAlive(pid);
    expect(await runAll()).toEqual([1, 1]);
  });
});
