// A journal of what servers acknowledged, to be compared with what is left after they were killed.
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'pg';
import { expect } from 'vitest';
import { findRunningPostgres } from '../../src/platform/dev-postgres/dev-postgres.ts';
import { seeingAllTenants } from './database.ts';
import type { ServerProcess } from './process.ts';

const CALLERS = 8;
const LOAD_MS = 400;

/** Callers that tokenize until told to stop; what was answered 200 goes into the journal. */
export const load = (of: ServerProcess, journal: Map<string, string>) => {
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

/** Of a server with a database in its data directory. */
export const expectAllThere = async (of: ServerProcess, journal: Map<string, string>): Promise<void> => {
  const { api_key } = of.credentials();
  const entries = [...journal];
  // Every hundredth is read through the API, so that it opens too; all are counted with their log rows.
  for (const [id, value] of entries.filter((_, index) => index % 100 === 0)) {
    const response = await fetch(`${of.base_url}/tokens/${id}`, { headers: { 'svc-api-key': api_key } });
    expect(((await response.json()) as { data: unknown }).data).toBe(value);
  }
  const pool = new Pool({ ...(await findRunningPostgres(of.dataDir)), ...seeingAllTenants, max: 1 });
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
