// Background work on runs: ends the runs of processes that died, and counts errors that come in bursts.
import { HOUR_MS, LONGEST_REQUEST_MS } from '../../platform/base/times.ts';
import { insertLogs } from '../../platform/db/audit-rows.ts';
import { failedRows, type LogRow } from '../../platform/db/audit-record.ts';
import { insertRuns, openBegunRun, signRun } from '../../platform/db/run-rows.ts';
import { firstIdAt } from '../../platform/crypto/ids.ts';
import { AppError } from '../../platform/base/errors.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { noteTampered } from '../../platform/db/signed-rows.ts';
import {
  type BegunRow,
  countFailuresByHour,
  type Failing,
  findBegunRuns,
  findEnded,
  findFailing,
  findLogRows,
  takeBegunRuns,
} from './rows.ts';
import { deleteEndedLeases, takeLease } from '../../platform/db/leases.ts';

// Ends the runs of processes that died: each becomes `unknown`, and the log gets its second rows.

type Ending = Pick<Platform, 'db' | 'log' | 'metrics' | 'now' | 'newLogId'>;

/** Runs that one step ends. */
const RUNS_MAX = 1_000;

/** No request takes longer, so the process of an older one is gone. */
export const RUN_UNKNOWN_AFTER_MS = LONGEST_REQUEST_MS;

const endRunsOf = (ctx: Ending, tenant_id: string, found: readonly BegunRow[]): Promise<void> => {
  const { logMacs } = ctx.db;
  return ctx.db.for({ tenant_id }).transaction(async (query) => {
    // Another process may end them too.
    const taken = new Set(
      await takeBegunRuns(
        query,
        tenant_id,
        found.map(({ id }) => id),
      ),
    );
    // One that ended at the moment in which it began was not found then.
    const ended = new Set(await findEnded(query, tenant_id, [...taken]));
    const runs: string[] = [];
    const log_ids: string[] = [];
    for (const row of found) {
      if (!taken.has(row.id) || ended.has(row.id)) continue;
      const begun = openBegunRun(logMacs.macOfRun, tenant_id, row);
      if (!begun) {
        noteTampered(ctx, { table: 'runs', tenant_id, row_id: row.id });
        continue;
      }
      const { kind, outcome } = begun.run;
      ctx.metrics.count('strongroom_runs_total', { kind, outcome });
      runs.push(signRun(logMacs.macOfRun, tenant_id, begun.run));
      log_ids.push(...begun.log_ids);
    }
    if (runs.length === 0) return;
    await insertRuns(query, tenant_id, runs);
    const rows: LogRow[] = [];
    for (const { line, ...row } of await findLogRows(query, tenant_id, log_ids))
      if (logMacs.isIntact(line)) rows.push(row);
      else noteTampered(ctx, { table: 'audit_log', tenant_id, row_id: row.id });
    const logs = failedRows(ctx, rows).map((row) => logMacs.sign(tenant_id, row));
    if (logs.length > 0) await insertLogs(query, tenant_id, logs);
  });
};

/** @param mayGoOn called before each tenant. @throws unavailable. */
export const endDeadRuns = async (ctx: Ending, mayGoOn: () => Promise<boolean>): Promise<void> => {
  const before = firstIdAt(ctx.now().getTime() - RUN_UNKNOWN_AFTER_MS);
  const found = await findBegunRuns(ctx.db.statements.query, before, RUNS_MAX);
  for (const [tenant_id, rows] of Map.groupBy(found, (row) => row.tenant_id)) {
    if (!(await mayGoOn())) return;
    try {
      await endRunsOf(ctx, tenant_id, rows);
    } catch (error) {
      if (error instanceof AppError && error.code === 'unavailable') throw error;
      // The sweep has more to do, for other tenants and after this.
      ctx.log.error({ error, tenant_id }, 'the runs of a process that died could not be ended');
    }
  }
};

// Raises the alarm `error_burst` for a reactor or stored proxy that fails much more often than it did within the last day.

type Watching = Pick<Platform, 'db' | 'log' | 'metrics' | 'now' | 'newUuid'>;

const HOURS_BEFORE = 24;

/** Fewer failures in an hour are none. */
export const BURST_FAILURES_MIN = 20;
/** Hours with at least so many times the median of the hours before are bursts. */
const BURST_TIMES = 5;
/** Resources that one look compares with their day, those with the most failures first. */
const FAILING_MAX = 100;

/** How often some process looks. */
const LOOK_EVERY_MS = 60_000;
const LOOK = 'error-bursts';
/** A lease for each resource whose alarm was raised: it is raised once an hour, by one process. */
const RAISED = 'error-burst ';

/** Median of failures by hour. Hours without failures are not in the map. */
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
  await deleteEndedLeases(ctx.db, RAISED);
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
