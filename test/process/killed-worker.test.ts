// A worker that is killed: its connections are reset, and the other workers answer new ones at once.
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createDataDir } from '../support/database.ts';
import { killIfAlive, type ServerProcess, spawnServer, untilReady, workersOf } from '../support/process.ts';

let dataDir: string;
let server: ServerProcess;
beforeAll(async () => {
  dataDir = createDataDir('killed');
  server = await spawnServer(dataDir, { WORKERS: '2' });
  await untilReady(server);
  await vi.waitFor(() => expect(server.output()).toContain('"workers":2'), { timeout: 20_000 });
});
afterAll(async () => {
  server.child.kill('SIGTERM');
  await server.exited;
  rmSync(dataDir, { recursive: true, force: true });
});

type Outcome = { beganMs: number; end: 'answered' | 'reset' };

/** One request on a connection of its own. */
const ask = async (): Promise<Outcome> => {
  const { port } = new URL(server.base_url);
  const beganMs = performance.now();
  const socket = connect(Number(port), '127.0.0.1');
  let text = '';
  socket.on('data', (chunk) => (text += chunk));
  socket.on('error', () => undefined);
  socket.write('GET /healthz HTTP/1.1\r\nHost: vault.test\r\nConnection: close\r\n\r\n');
  await new Promise((resolve) => socket.once('close', resolve));
  return { beganMs, end: text.startsWith('HTTP/1.1 200') ? 'answered' : 'reset' };
};

/** New connections are served so long after the death of a worker at the latest. */
const SERVED_MS = 100;
const CONNECTIONS = 200;
const KILLED_AFTER = 50;

test('its connections end, and new ones are answered while its place is empty', async () => {
  const [killed = 0] = workersOf(server);
  const asked: Promise<Outcome>[] = [];
  for (let index = 0; index < KILLED_AFTER; index += 1) {
    asked.push(ask());
    await pause(2);
  }
  killIfAlive(killed);
  const killedMs = performance.now();
  for (let index = KILLED_AFTER; index < CONNECTIONS; index += 1) {
    asked.push(ask());
    await pause(2);
  }
  // A connection that hangs would hold this up until the time limit of the test.
  const outcomes = await Promise.all(asked);
  const later = outcomes.filter(({ beganMs }) => beganMs > killedMs + SERVED_MS);
  expect(later.length).toBeGreaterThan(0);
  expect(later.filter(({ end }) => end === 'reset')).toEqual([]);
});
