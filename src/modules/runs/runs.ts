// Reads what happened to runs of code and proxied requests. Each reading is logged, as those of the log are.
import type { Work } from '../access/work.ts';
import { logRow } from '../../platform/db/audit-record.ts';
import { type FoundRun, isRunIntact } from '../../platform/db/run-rows.ts';
import { type DateRange, parseIdCursor, timeOfId, toIdRange } from '../../platform/crypto/ids.ts';
import { notFound } from '../../platform/base/errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../../platform/base/pagination.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { noteTampered } from '../../platform/db/signed-rows.ts';
import { countRuns, findRun, listRunRows, type RunFilter } from './rows.ts';

type Reading = Pick<Platform, 'db' | 'log' | 'metrics' | 'now' | 'newLogId'>;

export type RunRecord = {
  id: string;
  tenant_id: string;
  kind: string;
  resource_id?: string | undefined;
  version?: string | undefined;
  actor_id?: string | undefined;
  actor_type?: string | undefined;
  outcome: string;
  status?: number | undefined;
  duration_ms?: number | undefined;
  cpu_ms?: number | undefined;
  error?: string | undefined;
  line?: number | undefined;
  destination_host?: string | undefined;
  destination_status?: number | undefined;
  trace_id?: string | undefined;
  token_ids: string[];
  echoes?: number | undefined;
  created_at: string;
};

export type RunQuery = Omit<RunFilter, 'from_id' | 'to_id'> & DateRange;

const recordOf = (tenant_id: string, run: FoundRun): RunRecord => ({
  id: run.id,
  tenant_id,
  kind: run.kind,
  resource_id: run.resource_id ?? undefined,
  version: run.version ?? undefined,
  actor_id: run.actor_id ?? undefined,
  actor_type: run.actor_type ?? undefined,
  outcome: run.outcome,
  status: run.status ?? undefined,
  duration_ms: run.duration_ms ?? undefined,
  cpu_ms: run.cpu_ms ?? undefined,
  error: run.error ?? undefined,
  line: run.line ?? undefined,
  destination_host: run.destination_host ?? undefined,
  destination_status: run.destination_status ?? undefined,
  trace_id: run.trace_id ?? undefined,
  token_ids: run.token_ids ?? [],
  echoes: run.echoes ?? undefined,
  created_at: timeOfId(run.id).toISOString(),
});

/** Leaves out what no server wrote. */
const intactOf = (ctx: Reading, tenant_id: string, runs: readonly FoundRun[]): RunRecord[] =>
  runs.flatMap((run) => {
    if (isRunIntact(ctx.db.logMacs.macOfRun, tenant_id, run)) return [recordOf(tenant_id, run)];
    noteTampered(ctx, { table: 'runs', tenant_id, row_id: run.id });
    return [];
  });

const logReading = (ctx: Reading, work: Work): Promise<void> => {
  const entity = { entity_type: 'log', entity_ids: [work.tenant_id] };
  return work.log([logRow(ctx, work, { operation: 'read', ...entity, message: 'Runs retrieved' })]);
};

/** A page of ended runs, newest first. @throws invalidInput for the interval, and for a malformed cursor; unavailable. */
export const listRuns = async (
  ctx: Reading,
  work: Work,
  input: { filter: RunQuery; page: PageRequest },
): Promise<Page<RunRecord>> => {
  const { start_date, end_date, ...others } = input.filter;
  const filter = { ...others, ...toIdRange({ start_date, end_date }) };
  const { db } = work;
  const { pagination, rows } = await readPage<FoundRun, string>(input.page, {
    page: countThenList(
      () => countRuns(db, filter),
      (offset, limit) => listRunRows(db, filter, { offset }, limit),
    ),
    cursor: {
      of: ({ id }) => [id],
      parse: parseIdCursor,
      list: (after, limit) => listRunRows(db, filter, { after }, limit),
    },
  });
  await logReading(ctx, work);
  return { pagination, data: intactOf(ctx, work.tenant_id, rows) };
};

/** @throws notFound, also while the run is under way; unavailable. */
export const getRun = async (ctx: Reading, work: Work, id: string): Promise<RunRecord> => {
  const found = await findRun(work.db, id);
  const [run] = found ? intactOf(ctx, work.tenant_id, [found]) : [];
  if (!run) throw notFound('run');
  await logReading(ctx, work);
  return run;
};
