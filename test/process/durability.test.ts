// No acknowledged token is lost: kill -9 of the server, and of the whole Postgres, under load. The journal of
// acknowledgements is kept in this process, and tokens are read back through the public API.
import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { expectAllThere, load } from '../support/journal.ts';
import { killIfAlive, postgresProcesses, type ServerProcess, spawnServer, untilReady } from '../support/process.ts';
import { createDataDir } from '../support/database.ts';

/** A short form; `npm run drill` runs more of them. */
const CYCLES = Number(process.env['DRILL_CYCLES'] ?? 2);

let dataDir: string;
let server: ServerProcess | undefined;
beforeEach(() => {
  dataDir = createDataDir('durability');
});
afterEach(async () => {
  server?.child.kill('SIGTERM');
  await server?.exited;
  rmSync(dataDir, { recursive: true, force: true });
});

const start = async (): Promise<ServerProcess> => {
  const started = await spawnServer(dataDir, { LOG_LEVEL: 'error' });
  server = started;
  await untilReady(started);
  return started;
};

test(
  `kill -9 of the server, ${CYCLES} times under load, loses no acknowledged token`,
  { timeout: 60_000 * CYCLES },
  async () => {
    const journal = new Map<string, string>();
    let running = await start();
    for (let cycle = 0; cycle < CYCLES; cycle += 1) {
      const before = journal.size;
      const loading = load(running, journal);
      await loading.underWay();
      running.child.kill('SIGKILL');
      await running.exited;
      await loading.stop();
      expect(journal.size).toBeGreaterThan(before);
      running = await start();
      await expectAllThere(running, journal);
    }
  },
);

test(
  `kill -9 of the whole Postgres, ${CYCLES} times under load, loses no acknowledged token`,
  { timeout: 60_000 * CYCLES },
  async () => {
    const journal = new Map<string, string>();
    let running = await start();
    for (let cycle = 0; cycle < CYCLES; cycle += 1) {
      const before = journal.size;
      const loading = load(running, journal);
      await loading.underWay();
      const pids = postgresProcesses(dataDir);
      for (const pid of pids) killIfAlive(pid);
      await pause(300);
      await loading.stop();
      expect(journal.size).toBeGreaterThan(before);
      // Without a database every request gets a 503, never another 5xx, and never hangs.
      expect([...loading.statuses].filter((status) => status >= 500 && status !== 503)).toEqual([]);
      running.child.kill('SIGTERM');
      await running.exited;
      running = await start();
      await expectAllThere(running, journal);
    }
  },
);
