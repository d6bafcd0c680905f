// Raises the alarm `error_burst` for a reactor or stored proxy that fails much more often than it did within the last day.
import { firstIdAt } from '../../platform/crypto/ids.ts';
import { takeLease } from '../../platform/db/leases.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { countFailuresByHour, type Failing, findFailing, forgetBursts } from './burst-rows.ts';

type Watching = Pick<Platform, 'db' | 'log' | 'metrics' | 'now' | 'newUuid'>;

const HOUR_MS = 3_600_000;
const HOURS_BEFORE = 24;

/** Fewer failures in an hour are none. */
export const BURST_FAILURES_MIN = 20;
/** As many times the median of the hours before. */
export const BURST_TIMES = 5;
/** Resources that one look compares with their day, those with the most failures first. */
const FAILING_MAX = 100;

/** How often some process looks. */
const LOOK_EVERY_MS = 60_000;
const LOOK = 'error-bursts';
/** A lease for each resource whose alarm was raised: it is raised once an hour, by one process. */
const RAISED = 'error-burst ';

/** Of hours, those without failures are not in the map. */
const medianOf = (counts: ReadonlyMap<number, number>): number => {
  const sorted = Array.from({ length: HOURS_BEFORE }, (_, hour) => counts.get(hour) ?? 0).toSorted((a, b) => a - b);
  const upper = sorted[HOURS_BEFORE / 2] ?? 0;
  const lower = sorted[HOURS_BEFORE / 2 - 1] ?? 0;
  return (lower + upper) / 2;
};

const raise = (ctx: Watching, { tenant_id, kind, resource_id, failures, line, outcome }: Failing, median: number) => {
  ctx.metrics.count('strongroom_error_bursts_total', {});
  const resource = { tenant_id, record: kind, record_id: resource_id };
  ctx.log.error(
    { alarm: 'error_burst', ...resource, failures, median, outcome, line: line ?? undefined },
    'a resource fails more often than it did',
  );
};

/**
 * Compares the failures of the last hour with those of the day before.
 * @param mayGoOn called before each resource. @throws unavailable.
 */
export const alarmErrorBursts = async (ctx: Watching, mayGoOn: () => Promise<boolean>): Promise<void> => {
  const now = ctx.now().getTime();
  const from = firstIdAt(now - HOUR_MS);
  const { query, queryOf } = ctx.db.statements;
  await forgetBursts(query, RAISED);
  for (const failing of await findFailing(query, { from, least: BURST_FAILURES_MIN, most: FAILING_MAX })) {
    if (!(await mayGoOn())) return;
    const { tenant_id, resource_id } = failing;
    const before = { from: firstIdAt(now - (HOURS_BEFORE + 1) * HOUR_MS), to: from, at: new Date(now - HOUR_MS) };
    const median = medianOf(await countFailuresByHour(queryOf(tenant_id), { tenant_id, resource_id }, before));
    if (failing.failures < BURST_TIMES * median) continue;
    if (await takeLease(ctx.db, `${RAISED}${tenant_id} ${resource_id}`, ctx.newUuid(), HOUR_MS))
      raise(ctx, failing, median);
  }
};

/** The same, where no process has looked within the last minute. @throws unavailable. */
export const alarmErrorBurstsInTurn = async (ctx: Watching, mayGoOn: () => Promise<boolean>): Promise<void> => {
  if (await takeLease(ctx.db, LOOK, ctx.newUuid(), LOOK_EVERY_MS)) await alarmErrorBursts(ctx, mayGoOn);
};
