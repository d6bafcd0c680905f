// No acknowledged token is lost: kill -9 of the server, and of the whole Postgres, under load. The journal of
// acknowledgements is kept in this process, and tokens are read back through the public API.
import { rmSync } from 'node:fs';
import { Pool } from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findRunningPostgres } from '../src/platform/dev-postgres/dev-postgres.ts';
import { killIfAlive, postgresProcesses, type ServerProcess, spawnServer, untilReady } from './support/process.ts';
import { createDataDir, seeingAllTenants } from './support/database.ts';

/** A short form; `npm run drill` runs more of them. */
const CYCLES = Number(process.env['DRILL_CYCLES'] ?? 2);
const CALLERS = 8;
const LOAD_MS = 400;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

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

/** Callers that tokenize until told to stop; what was answered 200 goes into the journal. */
const load = (of: ServerProcess, journal: Map<string, string>) => {
  const { api_key } = of.credentials();
  const before = journal.size;
  let stopped = false;
  let count = 0;
  const statuses = new Set<number>();
  const caller = async (): Promise<void> => {
    while (!stopped) {
      const values = Array.from(
        { length: (count % 3) * 30 + 1 },
        (_, index) => `value ${(count += 1)} ${index} ${Math.random()}`,
      );
      try {
        const response = await fetch(`${of.base_url}/tokenize`, {
          method: 'POST',
          headers: { 'svc-api-key': api_key, 'content-type': 'application/json' },
          body: JSON.stringify(values),
        });
        statuses.add(response.status);
        if (response.status !== 200) continue;
        const ids = (await response.json()) as string[];
        for (const [index, id] of ids.entries()) journal.set(id, values[index] as string);
      } catch {
        // The connection was cut: nothing was acknowledged.
        await pause(5);
      }
    }
  };
  const callers = Array.from({ length: CALLERS }, caller);
  return {
    statuses,
    /** Something was acknowledged, however long that took, and more is on its way. */
    underWay: async () => {
      while (journal.size === before) await pause(5);
      await pause(LOAD_MS + Math.random() * 200);
    },
    stop: async () => {
      stopped = true;
      await Promise.all(callers);
    },
  };
};

const expectAllThere = async (of: ServerProcess, journal: Map<string, string>): Promise<void> => {
  const { api_key } = of.credentials();
  const entries = [...journal];
  // Every hundredth is read through the API, so that it opens too; all are counted with their log rows.
  for (const [id, value] of entries.filter((_, index) => index % 100 === 0)) {
    const response = await fetch(`${of.base_url}/tokens/${id}`, { headers: { 'svc-api-key': api_key } });
    expect(((await response.json()) as { data: unknown }).data).toBe(value);
  }
  const pool = new Pool({ ...(await findRunningPostgres(dataDir)), ...seeingAllTenants, max: 1 });
  await pool.query('ANALYZE');
  const { rows } = await pool.query<{ id: string; logs: number }>(
    `SELECT t.id, count(l.id)::int AS logs FROM tokens t LEFT JOIN
     (SELECT tenant_id, entity_type, unnest(entity_ids) AS id FROM audit_log WHERE operation = 'create') l
     ON l.tenant_id = t.tenant_id AND l.entity_type = t.type AND l.id = t.id
     GROUP BY t.id`,
  );
  await pool.end();
  const stored = new Set(rows.map(({ id }) => id));
  expect(entries.filter(([id]) => !stored.has(id))).toEqual([]);
  expect(rows.filter(({ logs }) => logs !== 1)).toEqual([]);
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
