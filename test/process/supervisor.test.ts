// The supervisor of several workers: it starts them on one database, and ends them with it.
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { describe, expect } from 'vitest';
import { findRunningPostgres } from '../../src/platform/dev-postgres/dev-postgres.ts';
import { balance } from '../support/balancer.ts';
import { createEmptyDatabase, prepareDataDir, seeingAllTenants } from '../support/database.ts';
import { makeWaiting, OWN_CONNECTION, query } from '../support/place.ts';
import { isAlive, postgresProcesses, root, runCommand, workersOf } from '../support/process.ts';
import { ask, EACH, jsonOf, linesOf, MASTER_KEY, test, untilListening, WAIT } from '../support/workers.ts';

/** The lock on a data directory (platform/dev-postgres/dev-postgres.ts). */
const LOCK_KEY = '91616979177031';
const END_LOCK_SESSION =
  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'strongroom lock'";

describe('a supervisor', () => {
  test('starts one database, migrates once and prints its URL once; SIGTERM ends everything', async ({
    dataDir,
    startWorkers,
  }) => {
    const server = await startWorkers({ DATABASE_POOL_MAX: '4' });
    await untilListening(server);
    await expect.poll(() => server.output(), WAIT).toContain('"listening"');
    const lines = linesOf(server);
    const result = (msg: string) => lines.filter((line) => line.msg === msg).length;
    expect(['postgres_initializing', 'postgres_ready', 'listening'].map(result)).toEqual([1, 1, 1]);
    expect(lines.find(({ msg }) => msg === 'listening')).toMatchObject({ base_url: server.base_url, workers: 2 });
    const { api_key } = server.credentials();
    for (const _ of EACH) expect((await ask(server, api_key, '/tokenize', 'x')).status).toBe(200);
    const tenants = await runCommand(['tenants', 'list'], { DATA_DIR: dataDir });
    expect(tenants.stdout.trim().split('\n')).toHaveLength(1);
    const processes = [...workersOf(server), ...postgresProcesses(dataDir)];
    expect(processes.length).toBeGreaterThan(3);
    server.child.kill('SIGTERM');
    expect(await server.exited).toBe(0);
    expect(processes.filter(isAlive)).toEqual([]);
    expect(server.output()).toContain('postgres_stopped');
    // The next start finds all in order.
    const next = await startWorkers({ WORKERS: '1' });
    await untilListening(next);
    expect((await ask(next, api_key, '/tokenize', 'x')).status).toBe(200);
  });

  test('whose data directory is lost stops its workers, and exits with 1', async ({ dataDir, startWorkers }) => {
    prepareDataDir(dataDir);
    const server = await startWorkers();
    await untilListening(server);
    const workers = workersOf(server);
    const postgres = postgresProcesses(dataDir);
    const other = new Client({ ...(await findRunningPostgres(dataDir)), ...seeingAllTenants });
    await other.connect();
    // Waits in the queue of the lock, and so has it the moment the session of the supervisor ends.
    const taken = other.query('SELECT pg_advisory_lock($1)', [LOCK_KEY]);
    const cutter = new Client({ ...(await findRunningPostgres(dataDir)), ...seeingAllTenants });
    await cutter.connect();
    await cutter.query(END_LOCK_SESSION);
    await cutter.end();
    await taken;
    expect(await server.exited).toBe(1);
    expect(server.output()).toContain('lock_gone');
    expect(workers.filter(isAlive)).toEqual([]);
    await other.end();
    process.kill(postgres[0] as number, 'SIGINT');
    await expect.poll(() => postgres.filter(isAlive), WAIT).toEqual([]);
  });

  test('is ended at once by a second signal, with its workers', async ({ database, startWorkers }) => {
    const server = await startWorkers({ DATABASE_URL: database.url, MASTER_KEY, DRAIN_SECONDS: '60' });
    await untilListening(server);
    const workers = workersOf(server);
    server.child.kill('SIGTERM');
    await expect.poll(() => server.output(), WAIT).toContain('"draining"');
    await pause(1200);
    server.child.kill('SIGTERM');
    expect(await server.exited).toBe(1);
    await expect.poll(() => workers.filter(isAlive), WAIT).toEqual([]);
  });

  test('a restart fails no request: all workers drain; one worker needs no process of its own', async ({
    startWorkers,
  }) => {
    const database = await createEmptyDatabase();
    const environment = { DATABASE_URL: database.url, MASTER_KEY, DRAIN_SECONDS: '2' };
    const alone = await startWorkers({ ...environment, WORKERS: '1' });
    // It migrates the empty database.
    await untilListening(alone);
    const several = await startWorkers(environment);
    await untilListening(several);
    expect([alone, several].map((server) => workersOf(server).length)).toEqual([0, 2]);
    const balancer = balance([alone.base_url, several.base_url], several.credentials().api_key);
    await expect.poll(() => balancer.inUse.size, WAIT).toBe(2);
    await expect.poll(() => balancer.answers.length, WAIT).toBeGreaterThan(200);
    const before = balancer.answers.length;
    several.child.kill('SIGTERM');
    expect(await several.exited).toBe(0);
    const during = balancer.answers.slice(before).filter(({ url }) => url === several.base_url);
    expect(during.filter(({ connection }) => connection === 'close').length).toBeGreaterThan(0);
    await balancer.stop();
    expect(balancer.failures).toEqual([]);
    expect([...new Set(balancer.answers.map(({ status }) => status))]).toEqual([200]);
    const draining = linesOf(several).filter(({ msg }) => msg === 'draining');
    expect(new Set(draining.map(({ pid }) => pid)).size).toBe(2);
    alone.child.kill('SIGTERM');
    await alone.exited;
    await database.drop();
  });

  test('alone heeds a Ctrl-C, which a terminal sends to every process: requests under way end well', async ({
    database,
    startWorkers,
  }) => {
    const command: [string, ...string[]] = ['setsid', process.execPath, join(root, 'src/main.ts')];
    // The outer process of bubblewrap heeds the signal, so that the test runs without it.
    const environment = { DATABASE_URL: database.url, MASTER_KEY, SANDBOX_JAIL: 'landlock' };
    const server = await startWorkers(environment, command);
    await untilListening(server);
    const react = await makeWaiting(server, OWN_CONNECTION);
    // The executors of both workers are there before the signal.
    for (const _ of EACH) expect((await react({ ms: 0 })).status).toBe(200);
    const answering = react({ ms: 3000 });
    const uses = `SELECT FROM audit_log WHERE operation = 'use' AND entity_type = 'reactor'`;
    await expect.poll(async () => (await query(database.url, uses)).length, WAIT).toBe(EACH.length + 1);
    process.kill(-(server.child.pid as number), 'SIGINT');
    const answer = await answering;
    expect([answer.status, (await jsonOf(answer)).raw]).toEqual([200, 'ended']);
    expect(await server.exited).toBe(0);
  });
});
