// What `react-paced` cannot go below: pg alone, in a process of its own, writing one row of the log so many times a second and
// waiting for its commit. Prints how long each takes.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'pg';
import { INSERT_LOGS, type NewLog } from '../src/platform/db/audit-rows.ts';

const [addressText, tenantId, perSecondText, secondsText] = process.argv.slice(2);
const pool = new Pool({ ...(JSON.parse(addressText as string) as object), max: 1 });
const perSecond = Number(perSecondText);

const row = (): NewLog => ({
  id: randomUUID(),
  actor_id: tenantId as string,
  actor_type: 'application',
  entity_type: 'reactor',
  entity_ids: [randomUUID()],
  operation: 'use',
  message: 'Reactor used',
  created_at: new Date().toISOString(),
  disclosure: 'none',
  outcome: 'success',
});

const latencies: number[] = [];
const started = performance.now();
for (let index = 0; index < perSecond * Number(secondsText); index += 1) {
  const waitMs = started + (index * 1000) / perSecond - performance.now();
  if (waitMs > 0) await pause(waitMs);
  const values = [tenantId, JSON.stringify([{ ...row(), mac: randomUUID() }])];
  const began = performance.now();
  await pool.query({ name: 'insert', text: INSERT_LOGS, values });
  latencies.push(performance.now() - began);
}
await pool.end();
console.log(JSON.stringify({ p50_ms: latencies.toSorted((a, b) => a - b)[Math.floor(latencies.length / 2)] }));
