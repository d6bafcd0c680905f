// A process whose event loop is held is ended, whatever holds it; one that is busy, or waits, is not.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createDatabase } from './support/database.ts';
import { root, sourceEnvironment, spawnServer, untilReady } from './support/process.ts';
import { TEST_ROOT_KEY } from './support/server.ts';

const LIMIT_MS = 400;

const hold = async (way: string, durationMs: number) => {
  const args = [join(root, 'test/support/held-loop.ts'), String(LIMIT_MS), way, String(durationMs)];
  const child = spawn(process.execPath, args, { env: sourceEnvironment, stdio: ['ignore', 'pipe', 'inherit'] });
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
