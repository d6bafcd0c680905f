// Idempotency keys of a server that is killed: a request that is repeated afterwards is done once.
import { rmSync } from 'node:fs';
import { Pool } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { findRunningPostgres } from '../../src/platform/dev-postgres/dev-postgres.ts';
import { type ServerProcess, spawnServer, untilReady } from '../support/process.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { createDataDir, seeingAllTenants } from '../support/database.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());
afterEach(() => {
  server.clock.offsetMs = 0;
});

/** A short form; `npm run drill` runs more of them. */
const CYCLES = Number(process.env['DRILL_CYCLES'] ?? 2);
const CALLERS = 8;
/** Requests that are answered before a kill, so that it comes under load. */
const ANSWERED_MIN = 20;

const EXPIRE_CLAIMS = `UPDATE idempotency_keys SET claimed_until = now() - interval '1 second' WHERE sealed IS NULL`;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe('a server that is killed', () => {
  let dataDir: string;
  let running: ServerProcess | undefined;
  beforeAll(() => {
    dataDir = createDataDir('idempotency');
  });
  afterAll(async () => {
    running?.child.kill('SIGTERM');
    await running?.exited;
    rmSync(dataDir, { recursive: true, force: true });
  });

  const start = async (): Promise<ServerProcess> => {
    running = await spawnServer(dataDir, { LOG_LEVEL: 'error' });
    await untilReady(running);
    return running;
  };

  /** Makes a token that carries its idempotency key in its metadata. @returns its id, or the status of a refusal. */
  const create = async (of: ServerProcess, key: string): Promise<string | number> => {
    const response = await fetch(`${of.base_url}/tokens`, {
      method: 'POST',
      headers: {
        'svc-api-key': of.credentials().api_key,
        'content-type': 'application/json',
        'svc-idempotency-key': key,
      },
      body: JSON.stringify({ data: `value of ${key}`, metadata: { key } }),
    });
    const body = (await response.json()) as { id: string };
    return response.ok ? body.id : response.status;
  };

  test(
    `at any moment, ${CYCLES} times: a repeated request that is answered made one token`,
    { timeout: 60_000 * CYCLES },
    async () => {
      const answered = new Map<string, string>();
      let sent = 0;
      let interrupted = 0;
      let server = await start();
      for (let cycle = 0; cycle < CYCLES; cycle += 1) {
        const before = answered.size;
        const unknown: string[] = [];
        let isKilled = false;
        const caller = async (): Promise<void> => {
          while (!isKilled) {
            const key = `request-${(sent += 1)}`;
            const id = await create(server, key).catch(() => undefined);
            if (typeof id === 'string') answered.set(key, id);
            else unknown.push(key);
          }
        };
        const callers = Array.from({ length: CALLERS }, caller);
        while (answered.size < before + ANSWERED_MIN) await pause(5);
        await pause(Math.random() * 200);
        server.child.kill('SIGKILL');
        isKilled = true;
        await Promise.all(callers);
        await server.exited;
        interrupted += unknown.length;

        server = await start();
        const pool = new Pool({ ...(await findRunningPostgres(dataDir)), ...seeingAllTenants, max: 1 });
        // Interrupted clients repeat their request; so does one that had its response.
        for (const key of [...unknown, ...[...answered.keys()].slice(-10)]) {
          let id: string | number | undefined;
          while (typeof id !== 'string') {
            id = await create(server, key);
            expect([409, 503, 'string']).toContain(typeof id === 'string' ? 'string' : id);
            // Claimed by the process that died: the time that its claim lasts has to pass.
            if (id === 409) await pool.query(EXPIRE_CLAIMS);
          }
          expect(answered.get(key) ?? id).toBe(id);
          answered.set(key, id);
        }
        const { rows } = await pool.query<{ key: string; ids: string[] }>(
          `SELECT metadata->>'key' AS key, array_agg(id) AS ids FROM tokens WHERE metadata ? 'key' GROUP BY 1`,
        );
        const { rows: logged } = await pool.query<{ id: string }>(
          `SELECT unnest(entity_ids) AS id FROM audit_log WHERE entity_type = 'token' AND operation = 'create'
             AND outcome = 'success'`,
        );
        await pool.end();
        expect(new Map(rows.map(({ key, ids }) => [key, ids.join()]))).toEqual(answered);
        expect(logged.map(({ id }) => id).toSorted()).toEqual([...answered.values()].toSorted());
      }
      expect(interrupted).toBeGreaterThan(0);
    },
  );
});
