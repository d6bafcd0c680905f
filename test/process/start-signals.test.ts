// How signals end a server: at any phase of a start, again, with connections open and while code runs.
// Tests run concurrently, in few lanes: executors of servers that run as root would share a limit of the system.
import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect } from 'vitest';
import { prepareDataDir } from '../support/database.ts';
import { makeWaiting, type Place, query, test } from '../support/place.ts';
import { isAlive, postgresProcesses, root, untilReady } from '../support/process.ts';

const startWith = async (
  { database, start }: Pick<Place, 'database' | 'start'>,
  environment: Record<string, string> = {},
) => {
  const server = await start({ DATABASE_URL: database.url, ...environment });
  await untilReady(server);
  const react = await makeWaiting(server);
  // Its executor is there before the signal.
  expect((await react({ ms: 0 })).status).toBe(200);
  /** Resolves once the log has the use after that one: its code runs by then. */
  const running = async () => {
    const uses = `SELECT FROM audit_log WHERE operation = 'use' AND entity_type = 'reactor'`;
    while ((await query(database.url, uses)).length < 2) await pause(20);
  };
  return { server, react, running };
};

describe.concurrent('a signal', () => {
  // The first is logged when the database is being made, the second when it runs and has no tables yet.
  test.for(['postgres_initializing', 'postgres_ready', 'listening'])(
    'ends server and database after %s, also if repeated at once, as by a terminal and npm',
    async (line, { dataDir, start }) => {
      const server = await start();
      while (!server.output().includes(line)) await pause(5);
      // In the same moment, and while the first is being heeded. Of one kind the system would make the first two one.
      server.child.kill('SIGINT');
      server.child.kill('SIGTERM');
      await pause(30);
      server.child.kill('SIGINT');
      expect(await server.exited).toBe(0);
      expect(server.output()).toContain('postgres_stopped');
      expect(existsSync(join(dataDir, 'pg', 'postmaster.pid'))).toBe(false);
      expect(readdirSync(dataDir).toSorted()).toEqual([
        'dev-api-key',
        'dev-credentials.json',
        'master.key',
        'pg',
        'postgres.log',
      ]);
    },
  );

  test('that comes again after a while ends it at once, and it says so', async ({ database, start }) => {
    const server = await start({ DATABASE_URL: database.url });
    await untilReady(server);
    const half = connect(
      Number(new URL(server.base_url).port),
      '127.0.0.1',
      () => void half.write('POST / HTTP/1.1\r\n'),
    );
    half.on('error', () => undefined);
    await pause(500);
    server.child.kill('SIGTERM');
    await pause(1200);
    server.child.kill('SIGTERM');
    expect(await server.exited).toBe(1);
    expect(server.output()).toContain('Ended by a second signal');
    half.destroy();
  });
});

const olderNode = (process.env['PATH'] ?? '')
  .split(':')
  .filter((directory) => !directory.includes('node_modules'))
  .map((directory) => join(directory, 'node'))
  .find(
    (path) =>
      existsSync(path) && Number(execFileSync(path, ['-p', 'process.versions.node']).toString().split('.')[0]) < 24,
  );

test
  .skipIf(olderNode === undefined)
  .concurrent(
    'an older Node hands over to the bundled one: the server, with its signals, and the command line',
    async ({ dataDir, start }) => {
      prepareDataDir(dataDir);
      const server = await start({}, [olderNode as string, join(root, 'dist/main.js')]);
      await untilReady(server);
      const pids = postgresProcesses(dataDir);
      server.child.kill('SIGINT');
      expect(await server.exited).toBe(0);
      expect(pids.filter(isAlive)).toEqual([]);
      const { stdout } = await promisify(execFile)(olderNode as string, [join(root, 'bin/strongroom.cjs'), '--help']);
      expect(stdout).toContain('doctor');
    },
  );

describe.concurrent('a signal while connections are open', () => {
  test('half-sent requests do not keep a signal from ending the server', async ({ dataDir, start }) => {
    prepareDataDir(dataDir);
    const server = await start();
    await untilReady(server);
    const { api_key } = server.credentials();
    const head = `POST /tokenize HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${api_key}\r\nContent-Type: application/json\r\n`;
    const parts = ['', head, `${head}Content-Length: 1000\r\n\r\n"half`];
    const sockets = parts.map((part) => {
      const socket = connect(Number(new URL(server.base_url).port), '127.0.0.1', () => void socket.write(part));
      return socket.on('error', () => undefined);
    });
    await pause(500);
    const pids = postgresProcesses(dataDir);
    server.child.kill('SIGTERM');
    expect(await server.exited).toBe(0);
    expect(pids.filter(isAlive)).toEqual([]);
    for (const socket of sockets) socket.destroy();
  });

  test('cuts who sends half a request, and not who waits for code that runs longer than that', async ({
    database,
    start,
  }) => {
    const { server, react, running } = await startWith({ database, start });
    const half = connect(Number(new URL(server.base_url).port), '127.0.0.1');
    half.on('error', () => undefined);
    await new Promise<void>((resolve) => half.write('POST /tokenize HT', () => resolve()));
    const answering = react({ ms: 12_500 });
    await running();
    server.child.kill('SIGTERM');
    const answer = await answering;
    expect([answer.status, ((await answer.json()) as { raw: string }).raw]).toEqual([200, 'ended']);
    expect(await server.exited).toBe(0);
    half.destroy();
  });
});

describe('a server with a database of its own', () => {
  describe('and a signal while code runs', { concurrent: false }, () => {
    test('lets it end and be answered, takes no other, and does not wait for idle connections', async ({
      expect,
      database,
      start,
    }) => {
      const { server, react, running } = await startWith({ database, start });
      const idle = connect(Number(new URL(server.base_url).port), '127.0.0.1');
      idle.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
      await once(idle, 'data');
      const answering = react({ ms: 2500 });
      let isAnswered = false;
      void answering.then(() => (isAnswered = true));
      await running();
      server.child.kill('SIGTERM');
      await once(idle.resume(), 'close');
      expect(isAnswered).toBe(false);
      await expect.poll(() => server.output(), { timeout: 10_000 }).toContain('"stopping"');
      // By a new connection or by one that is open still.
      expect(
        await react({ ms: 0 }).then(
          ({ status }) => status,
          () => 'refused',
        ),
      ).toBeOneOf([503, 'refused']);
      const answer = await answering;
      expect(answer.status).toBe(200);
      expect(await answer.json()).toEqual({ tokens: expect.any(String), raw: 'ended' });
      expect(await server.exited).toBe(0);
    });

    test('waits no longer than a run may take, and its caller hears that', async ({ database, start }) => {
      const { server, react, running } = await startWith({ database, start }, { SANDBOX_WALL_MS: '2000' });
      const answering = react({});
      await running();
      server.child.kill('SIGTERM');
      expect((await answering).status).toBe(408);
      expect(await server.exited).toBe(0);
    });
  });
});
