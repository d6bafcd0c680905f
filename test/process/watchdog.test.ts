// The watchdog kills a process whose event loop is stuck, and not one that is busy or waits.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { root, sourceEnvironment, spawnServer, untilReady } from '../support/process.ts';
import { TEST_ROOT_KEY } from '../support/server.ts';

const LIMIT_MS = 400;

/** @param before the command that starts the process, where it is not started directly. */
const hold = async (way: string, durationMs: number, before: readonly string[] = []) => {
  const program = [
    process.execPath,
    join(root, 'test/support/held-loop.ts'),
    String(LIMIT_MS),
    way,
    String(durationMs),
  ];
  const [command = '', ...args] = [...before, ...program];
  const child = spawn(command, args, { env: sourceEnvironment, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  const [[code, signal]] = await Promise.all([once(child, 'exit'), once(child.stdout, 'end')]);
  const lines = output.trim().split('\n');
  return { code, signal, lines };
};

test.each(['spins', 'spins in promises'])(
  'one turn that uses more CPU than it may ends the process: %s',
  async (way) => {
    const { signal, lines } = await hold(way, 60_000);
    expect(signal).toBe('SIGKILL');
    expect(lines).toHaveLength(2);
    expect(lines[0]).toBe('begins');
    const line = JSON.parse(lines[1] as string);
    expect(line).toMatchObject({
      level: 'fatal',
      alarm: 'event_loop_stuck',
      msg: expect.stringContaining('event loop'),
    });
    expect(line.turn_cpu_ms).toBeGreaterThanOrEqual(LIMIT_MS);
  },
);

test('much CPU in many turns ends nothing', async () => {
  expect(await hold('turns', 5 * LIMIT_MS)).toEqual({ code: 0, signal: null, lines: ['begins', 'ends'] });
});

test('a long turn that uses no CPU, as on a machine that was suspended, ends nothing', async () => {
  expect(await hold('sleeps', 5 * LIMIT_MS)).toEqual({ code: 0, signal: null, lines: ['begins', 'ends'] });
});

/** The shell is the first process of the namespace, which SIGKILL from within does not end. */
const inPidNamespace = ['unshare', '--map-root-user', '--pid', '--fork', 'sh', '-c', '"$@"; exit $?', 'sh'];
const withoutProc = [
  'unshare',
  '--map-root-user',
  '--mount',
  'sh',
  '-c',
  'mount -t tmpfs none /proc && exec "$@"',
  'sh',
];

/** Not every system lets a user make namespaces. */
const mayUnshare = [inPidNamespace, withoutProc].every(
  ([command = '', ...args]) => spawnSync(command, [...args, 'true']).status === 0,
);

describe.skipIf(!mayUnshare)('in a namespace', () => {
  test('of processes, where /proc has another id for the process, the watchdog works', async () => {
    const { lines } = await hold('spins', 60_000, inPidNamespace);
    expect(lines).toHaveLength(2);
    expect(JSON.parse(lines[1] as string)).toMatchObject({ alarm: 'event_loop_stuck' });
  });

  test('without /proc the process says so and goes on without the watchdog', async () => {
    const { code, lines } = await hold('turns', 2 * LIMIT_MS, withoutProc);
    expect(code).toBe(0);
    expect(lines.filter((line) => !line.startsWith('{'))).toEqual(['begins', 'ends']);
    const logged = lines.filter((line) => line.startsWith('{'));
    expect(logged).toHaveLength(1);
    expect(JSON.parse(logged[0] as string)).toMatchObject({ level: 'error', error: { code: 'ENOENT' } });
  });
});

test('a server is ended when a turn of its loop has used 10 s of CPU', { timeout: 240_000 }, async () => {
  const database = await createDatabase();
  const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-watchdog-'));
  // Loaded before the server, into its process: holds the loop when it is told to.
  const holder = `data:text/javascript,process.on('SIGUSR2',()=>{for(;;);})`;
  const server = await spawnServer(
    dataDir,
    { DATABASE_URL: database.url, MASTER_KEY: TEST_ROOT_KEY, NODE_ENV: 'test', LOG_FORMAT: 'json' },
    [process.execPath, '--disable-sigusr1', '--import', holder, join(root, 'src/main.ts')],
  );
  try {
    await untilReady(server);
    server.child.kill('SIGUSR2');
    expect(await server.exited).toBe('SIGKILL');
    const fatal = server
      .output()
      .split('\n')
      .filter((line) => line.includes('"fatal"'));
    expect(fatal).toHaveLength(1);
    const { alarm, turn_cpu_ms } = JSON.parse(fatal[0] as string);
    expect(alarm).toBe('event_loop_stuck');
    expect(turn_cpu_ms).toBeGreaterThanOrEqual(10_000);
    expect(turn_cpu_ms).toBeLessThan(15_000);
  } finally {
    server.child.kill('SIGKILL');
    await database.drop();
    rmSync(dataDir, { recursive: true, force: true });
  }
});
