// Ends the runs of processes that died: each becomes `unknown`, and the log gets its second rows.
import { insertLogs } from '../../platform/db/audit-rows.ts';
import { failedRows, type LogRow } from '../../platform/db/audit-record.ts';
import { insertRuns, openBegunRun, signRun } from '../../platform/db/run-rows.ts';
import { firstIdAt } from '../../platform/crypto/ids.ts';
import { AppError } from '../../platform/base/errors.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { noteTampered } from '../../platform/db/tampered.ts';
import { LONGEST_REQUEST_MS } from '../../platform/base/times.ts';
import { type BegunRow, findBegunRuns, findEnded, findLogRows, takeBegunRuns } from './rows.ts';

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
