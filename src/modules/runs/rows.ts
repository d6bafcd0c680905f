// Lists, counts and finds runs, and takes those that have begun and not ended.
import type { Query } from '../../platform/db/statements.ts';
import {
  type FoundRun,
  RUN_NAMES,
  type RunKind,
  type RunOutcome,
  runOutcomes,
  type SignedBegunRun,
} from '../../platform/db/run-rows.ts';
import type { LogRow } from '../../platform/db/audit-record.ts';
import type { TenantQuery } from '../../platform/db/database.ts';
import { LOG_LINE } from '../../platform/db/log-partitions.ts';
import { type Counted, COUNTED_MAX } from '../../platform/base/pagination.ts';

// Counts failed runs: of all resources in the last hour, and of one by the hours before.

/** The condition of the indexes on failures. */
const FAILED = `outcome NOT IN ('success', 'refused')`;

/** A resource with its failures in an interval, and what most of them have. */
export type Failing = {
  tenant_id: string;
  kind: string;
  resource_id: string;
  failures: number;
  line: number | null;
  outcome: string;
};

/** The run of a transform ends the request of its proxy in the same way, so that it would count twice. */
const FIND_FAILING = `
SELECT tenant_id, kind, resource_id, count(*)::int AS failures, mode() WITHIN GROUP (ORDER BY line) AS line,
  mode() WITHIN GROUP (ORDER BY outcome) AS outcome
FROM runs WHERE id >= $1::uuid AND ${FAILED} AND kind <> 'transform' AND resource_id IS NOT NULL
GROUP BY tenant_id, kind, resource_id HAVING count(*) >= $2 ORDER BY failures DESC LIMIT $3`;

/** Hours before a time, from 0. */
const COUNT_FAILURES_BY_HOUR = `
SELECT floor(extract(epoch FROM $5::timestamptz - log_time_of(id)) / 3600)::int AS hour, count(*)::int AS failures
FROM runs WHERE tenant_id = $1 AND resource_id = $2::uuid AND id >= $3::uuid AND id < $4::uuid AND ${FAILED} AND kind <> 'transform'
GROUP BY 1`;

/** Those of all tenants with the most failures from an id on. */
export const findFailing = async (
  query: Query,
  { from, least, most }: { from: string; least: number; most: number },
): Promise<Failing[]> => (await query('find-failing', FIND_FAILING, [from, least, most])) as Failing[];

export const countFailuresByHour = async (
  query: Query,
  { tenant_id, resource_id }: Pick<Failing, 'tenant_id' | 'resource_id'>,
  { from, to, at }: { from: string; to: string; at: Date },
): Promise<Map<number, number>> => {
  const values = [tenant_id, resource_id, from, to, at];
  const rows = (await query('count-failures-by-hour', COUNT_FAILURES_BY_HOUR, values)) as {
    hour: number;
    failures: number;
  }[];
  return new Map(rows.map(({ hour, failures }) => [hour, failures]));
};

/** Statuses of destinations from one to another, both included. */
export type Statuses = { least: number; most: number };

/** The filter that finds each outcome of a run that failed. */
export const ANY_FAILURE = 'any_failure';

/** Neither success nor refused: the rows of the indexes on failures. */
const failures = runOutcomes.filter((outcome) => outcome !== 'success' && outcome !== 'refused');

export type RunFilter = {
  outcome?: RunOutcome | typeof ANY_FAILURE | undefined;
  kind?: RunKind | undefined;
  resource_id?: string | undefined;
  actor_id?: string | undefined;
  destination_status?: Statuses | undefined;
  /** The id is at least this: ids are in the order of time. */
  from_id?: string | undefined;
  /** The id is below this. */
  to_id?: string | undefined;
};

/** The partial indexes of 4xx and 5xx are used by their conditions, word for word. */
const conditionOfStatuses = ({ least, most }: Statuses): string => {
  if (least >= 500) return 'destination_status >= 500';
  return least >= 400 && most < 500 ? 'destination_status >= 400 AND destination_status < 500' : 'true';
};

const whereOf = (tenant_id: string, filter: RunFilter): { where: string[]; values: unknown[] } => {
  const values: unknown[] = [tenant_id];
  const where = ['tenant_id = $1'];
  const add = (text: (parameter: string) => string, value: unknown): void => {
    if (value === undefined) return;
    where.push(text(`$${values.push(value)}`));
  };
  add((parameter) => `kind = ${parameter}`, filter.kind);
  add((parameter) => `resource_id = ${parameter}::uuid`, filter.resource_id);
  add((parameter) => `actor_id = ${parameter}::uuid`, filter.actor_id);
  if (filter.outcome !== ANY_FAILURE) add((parameter) => `outcome = ${parameter}`, filter.outcome);
  const { destination_status: statuses } = filter;
  if (statuses) where.push(conditionOfStatuses(statuses));
  add((parameter) => `destination_status >= ${parameter}::int`, statuses?.least);
  add((parameter) => `destination_status <= ${parameter}::int`, statuses?.most);
  add((parameter) => `id >= ${parameter}::uuid`, filter.from_id);
  add((parameter) => `id < ${parameter}::uuid`, filter.to_id);
  return { where, values };
};

/** Newest first. */
export const listRunRows = async (
  { query, tenant_id }: TenantQuery,
  filter: RunFilter,
  start: { offset: number } | { after: string },
  limit: number,
): Promise<FoundRun[]> => {
  const { where, values } = whereOf(tenant_id, filter);
  if ('after' in start) where.push(`id < $${values.push(start.after)}::uuid`);
  const offset = 'offset' in start ? start.offset : 0;
  const newest = (conditions: readonly string[], most: number): string =>
    `SELECT ${RUN_NAMES} FROM runs WHERE ${conditions.join(' AND ')} ORDER BY id DESC LIMIT ${most}`;
  // The newest of each outcome: one condition on all of them would sort every failure of the tenant.
  const ofEach = failures.map((outcome) => `(${newest([...where, `outcome = '${outcome}'`], offset + limit)})`);
  const text =
    filter.outcome === ANY_FAILURE
      ? `SELECT ${RUN_NAMES} FROM (${ofEach.join(' UNION ALL ')}) AS found ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`
      : `${newest(where, limit)} OFFSET ${offset}`;
  return (await query(undefined, text, values)) as FoundRun[];
};

/** How many there are, up to COUNTED_MAX. */
export const countRuns = async ({ query, tenant_id }: TenantQuery, filter: RunFilter): Promise<Counted> => {
  const { where, values } = whereOf(tenant_id, filter);
  if (filter.outcome === ANY_FAILURE)
    where.push(`outcome IN (${failures.map((outcome) => `'${outcome}'`).join(', ')})`);
  const text = `SELECT count(*) AS count FROM (SELECT 1 FROM runs WHERE ${where.join(' AND ')} LIMIT ${COUNTED_MAX + 1}) AS counted`;
  const [{ count }] = (await query(undefined, text, values)) as [{ count: string }];
  return { total: Math.min(Number(count), COUNTED_MAX), capped: Number(count) > COUNTED_MAX };
};

/** Runs of a resource that its chart counts, the newest: 10 ms of a database that has them in memory. */
export const CHARTED_MAX = 5_000;

/** Runs of a resource by the whole hours before a time, from 0, and whether they failed. */
export type RunHour = { hour: number; outcome: 'success' | 'refused' | 'failed'; count: number };

/** @param range.from an id: older runs are not counted. */
export const countRunsByHour = async (
  { query, tenant_id }: TenantQuery,
  { resource_id, from, at }: { resource_id: string; from: string; at: Date },
): Promise<RunHour[]> =>
  (await query(
    // Without a name: a plan for any resource would read all runs of the tenant to find those of one that runs seldom.
    undefined,
    `SELECT floor(extract(epoch FROM $4::timestamptz - log_time_of(id)) / 3600)::int AS hour,
  CASE WHEN outcome IN ('success', 'refused') THEN outcome ELSE 'failed' END AS outcome, count(*)::int AS count
FROM (SELECT id, outcome FROM runs WHERE tenant_id = $1 AND resource_id = $2::uuid AND id >= $3::uuid
  ORDER BY id DESC LIMIT ${CHARTED_MAX}) AS newest GROUP BY 1, 2`,
    [tenant_id, resource_id, from, at],
  )) as RunHour[];

export const findRun = async ({ query, tenant_id }: TenantQuery, id: string): Promise<FoundRun | undefined> => {
  const text = `SELECT ${RUN_NAMES} FROM runs WHERE tenant_id = $1 AND id = $2::uuid`;
  return ((await query('find-run', text, [tenant_id, id])) as FoundRun[])[0];
};

export type BegunRow = Pick<SignedBegunRun, 'id' | 'run'> & { tenant_id: string; mac: string };

/** Finds runs of all tenants, the oldest first. */
export const findBegunRuns = async (query: Query, before: string, most: number): Promise<BegunRow[]> =>
  (await query(
    'find-begun-runs',
    'SELECT tenant_id, id, run, mac FROM begun_runs WHERE id < $1::uuid ORDER BY id LIMIT $2',
    [before, most],
  )) as BegunRow[];

/** Deletes rows. @returns the ids of those that were there. */
export const takeBegunRuns = async (query: Query, tenant_id: string, ids: readonly string[]): Promise<string[]> =>
  (
    (await query(undefined, 'DELETE FROM begun_runs WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) RETURNING id', [
      tenant_id,
      ids,
    ])) as { id: string }[]
  ).map(({ id }) => id);

/** Which of these runs have ended. */
export const findEnded = async (query: Query, tenant_id: string, ids: readonly string[]): Promise<string[]> =>
  (
    (await query(undefined, 'SELECT id FROM runs WHERE tenant_id = $1 AND id = ANY ($2::uuid[])', [
      tenant_id,
      ids,
    ])) as { id: string }[]
  ).map(({ id }) => id);

/** A row of the log, and the line that its MAC is of. */
export type FoundLogRow = LogRow & { line: string };

/** Rows of the log, for further rows that are like them. They are not verified yet. */
export const findLogRows = async (query: Query, tenant_id: string, ids: readonly string[]): Promise<FoundLogRow[]> =>
  (await query(
    undefined,
    `SELECT id, actor_id, actor_type, entity_type, entity_ids, operation, message, disclosure, outcome, trace_id, otel_trace_id, ip,
       reactor_id, proxy_id, destination_host, is_list, application_id, code_application_id, reason, ${LOG_LINE}
     FROM audit_log AS l WHERE tenant_id = $1 AND id = ANY ($2::uuid[])`,
    [tenant_id, ids],
  )) as FoundLogRow[];
