// The alarm of a resource that fails much more often than it did, and the metrics of runs by outcome.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { alarmErrorBursts, alarmErrorBurstsInTurn, BURST_FAILURES_MIN } from '../src/modules/runs/sweep.ts';
import { makeReactor, react, type ReactorServer, startReactorServer } from './support/reactors.ts';
import { sumOf } from './support/metrics.ts';
import type { TestServer } from './support/server.ts';

const TOKEN = 'metrics-token-0123456789abcdef';
const HOUR_MS = 3_600_000;

let fixture: ReactorServer;
let server: TestServer;
beforeAll(async () => {
  fixture = await startReactorServer({ METRICS_TOKEN: TOKEN, RATE_LIMIT: 'off' });
  ({ server } = fixture);
});
afterAll(() => fixture.close());

const always = async (): Promise<boolean> => true;

/** Alarms about a resource since the server began. */
const alarms = (resource_id: string): Record<string, unknown>[] =>
  server.logLines
    .filter((line) => line.includes('error_burst') && line.includes(resource_id))
    .map((line) => JSON.parse(line));

const runsOf = async (resource_id: string): Promise<number> =>
  (await server.sql('SELECT 1 FROM runs WHERE resource_id = $1', [resource_id])).length;

let made = 0;
/** Failed runs of a resource, so many ms ago. */
const failed = async (resource_id: string, count: number, agoMs: number, outcome = 'crashed'): Promise<void> => {
  for (let at = 0; at < count; at += 1) {
    made += 1;
    const hex = (Date.now() - agoMs).toString(16).padStart(12, '0');
    const id = `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-${made.toString(16).padStart(12, '0')}`;
    await server.sql(
      `INSERT INTO runs (tenant_id, id, kind, resource_id, outcome, line, mac)
         VALUES ($1, $2, 'reactor', $3, $4, $5, $2)`,
      [server.tenant.tenant_id, id, resource_id, outcome, at === 0 ? 7 : 3],
    );
  }
};

test('names the reactor and the line of code that crashes, once an hour', async () => {
  const code = 'module.exports = async () => {\n  null.x;\n};';
  const reactor = await makeReactor(server, { code });
  await Promise.all(
    Array.from({ length: BURST_FAILURES_MIN - 1 }, async () => {
      expect((await react(server, reactor, {})).status).toBe(500);
    }),
  );
  await vi.waitFor(async () => expect(await runsOf(reactor.id)).toBe(BURST_FAILURES_MIN - 1));
  await alarmErrorBursts(server.ctx, always);
  expect(alarms(reactor.id)).toEqual([]);
  expect((await react(server, reactor, {})).status).toBe(500);
  await vi.waitFor(async () => expect(await runsOf(reactor.id)).toBe(BURST_FAILURES_MIN));
  await alarmErrorBursts(server.ctx, always);
  await alarmErrorBursts(server.ctx, always);
  expect(alarms(reactor.id)).toMatchObject([
    {
      alarm: 'error_burst',
      tenant_id: server.tenant.tenant_id,
      record: 'reactor',
      record_id: reactor.id,
      failures: BURST_FAILURES_MIN,
      median: 0,
      outcome: 'crashed',
      line: 2,
    },
  ]);
  const { text } = await server.request('GET', '/metrics', {
    key: null,
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  expect(sumOf(text, 'strongroom_error_bursts_total', {})).toBe(1);
  expect(sumOf(text, 'strongroom_runs_total', { kind: 'reactor', outcome: 'crashed' })).toBe(BURST_FAILURES_MIN);
  expect(sumOf(text, 'strongroom_runs_total', { kind: 'proxy', outcome: 'unknown' })).toBe(0);
});

describe('a resource that failed before', () => {
  /** Of 13 of the 24 hours before the last. */
  const failsDaily = async (resource_id: string, failures: number): Promise<void> => {
    for (let hour = 0; hour < 13; hour += 1) await failed(resource_id, failures, (1.5 + hour) * HOUR_MS);
  };

  test('is in the alarm from five times its median on', async () => {
    const [usual, burst] = [server.ctx.newUuid(), server.ctx.newUuid()];
    for (const id of [usual, burst]) await failsDaily(id, 5);
    await failed(usual, 24, HOUR_MS / 2);
    await failed(burst, 25, HOUR_MS / 2);
    await alarmErrorBursts(server.ctx, always);
    expect(alarms(usual)).toEqual([]);
    expect(alarms(burst)).toMatchObject([{ failures: 25, median: 5, line: 3 }]);
  });

  test('in few hours of the day has the median 0; what was refused is no failure', async () => {
    const [few, refused] = [server.ctx.newUuid(), server.ctx.newUuid()];
    await failed(few, 30, 3 * HOUR_MS);
    await failed(few, 20, HOUR_MS / 2, 'timed_out');
    await failed(refused, 30, HOUR_MS / 2, 'refused');
    await alarmErrorBursts(server.ctx, always);
    expect(alarms(few)).toMatchObject([{ failures: 20, median: 0, outcome: 'timed_out' }]);
    expect(alarms(refused)).toEqual([]);
  });
});

test('some process looks once a minute', async () => {
  const burst = server.ctx.newUuid();
  await server.sql(`DELETE FROM leases WHERE name = 'error-bursts'`);
  await alarmErrorBurstsInTurn(server.ctx, always);
  await failed(burst, 20, HOUR_MS / 2);
  await alarmErrorBurstsInTurn(server.ctx, always);
  expect(alarms(burst)).toEqual([]);
  await server.sql(`DELETE FROM leases WHERE name = 'error-bursts'`);
  await alarmErrorBurstsInTurn(server.ctx, always);
  expect(alarms(burst)).toHaveLength(1);
});
