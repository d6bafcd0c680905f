// Columns of the audit log, and the statements that append rows.
import type { Accounts } from '../base/accounts.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { createBatcher } from './batcher.ts';
import type { ShardFunction } from './shard-functions.ts';
import type { Query } from './statements.ts';
import { tracedBatcher } from './traced.ts';
import { unavailable } from '../base/errors.ts';
import { beginRunsFrom, type SignedBegunRun } from './run-rows.ts';
import type { Tracing } from '../tracing/tracing.ts';

/** A log row: one operation on one or more entities of one type. Undefined is NULL. */
export type NewLog = {
  id: string;
  actor_id: string | null;
  actor_type: string | null;
  entity_type: string;
  entity_ids: string[];
  operation: string;
  message: string;
  created_at: string;
  disclosure: string;
  outcome: string;
  trace_id?: string | undefined;
  otel_trace_id?: string | undefined;
  ip?: string | undefined;
  reactor_id?: string | undefined;
  proxy_id?: string | undefined;
  destination_host?: string | undefined;
  is_list?: boolean | undefined;
  /** Who asked: the application of the request's key, or the one that made the session. */
  application_id?: string | undefined;
  /** The application whose rights code had, or an open proxy. */
  code_application_id?: string | undefined;
  /** Why a member asked to see the value. */
  reason?: string | undefined;
  /** The run that begins with this row, for a statement of its own: no column. */
  run?: SignedBegunRun | undefined;
  /** What the event of this row says beside: no column. The API key of a change, or containers of tokens that are gone. */
  event?: { key_id?: string; containers?: readonly string[] } | undefined;
};

declare const withMac: unique symbol;
/** A row with its MAC, as the JSON that statements take. Only log-macs.ts makes one. */
export type SignedLog = string & { readonly [withMac]: true };

/** The columns of the log except `tenant_id`, with their SQL types. */
const LOG_COLUMNS = [
  'id uuid',
  'actor_id uuid',
  'actor_type text',
  'entity_type text',
  'entity_ids text[]',
  'operation text',
  'message text',
  'created_at timestamptz',
  'disclosure text',
  'outcome text',
  'trace_id text',
  'otel_trace_id text',
  'ip text',
  'reactor_id uuid',
  'proxy_id uuid',
  'destination_host text',
  'is_list boolean',
  'application_id uuid',
  'code_application_id uuid',
  'reason text',
  'mac uuid',
];
export const LOG_RECORD = LOG_COLUMNS.join(', ');
const LOG_NAMES = LOG_COLUMNS.map((column) => column.split(' ', 1)[0]).join(', ');

/** SQL that inserts log rows from a relation with the same columns. @param values SQL that replaces columns. */
export const insertLogsFrom = (from: string, values: Record<string, string> = {}): string => `
INSERT INTO audit_log (tenant_id, ${LOG_NAMES})
SELECT $1::uuid, ${LOG_NAMES.split(', ')
  .map((name) => values[name] ?? (name === 'is_list' ? 'coalesce(r.is_list, false)' : `r.${name}`))
  .join(', ')}
FROM ${from}`;

export const INSERT_LOGS = insertLogsFrom(`json_to_recordset($2::json) AS r(${LOG_RECORD})`);

/** The same for rows of which some begin a run. */
const RUN_LOGS = `json_to_recordset($2::json) AS r(${LOG_RECORD}, run json)`;
export const INSERT_LOGS_AND_RUNS = `WITH begun AS (${beginRunsFrom(RUN_LOGS)})${insertLogsFrom(RUN_LOGS)}`;

/** Only rows that begin a run have it. A text of a row that looks like it costs a statement that finds no run. */
const RUN_MARK = '"run":{';

const writeLogs = async (query: Query, tenant_id: string, rows: string): Promise<void> => {
  const [name, text] = rows.includes(RUN_MARK)
    ? ['insert-logs-and-runs', INSERT_LOGS_AND_RUNS]
    : ['insert-logs', INSERT_LOGS];
  await query(name, text, [tenant_id, rows]);
};

/** Writes rows within a transaction. */
export const insertLogs = (query: Query, tenant_id: string, rows: readonly SignedLog[]): Promise<void> =>
  writeLogs(query, tenant_id, `[${rows.join()}]`);

/**
 * Writes the row of a refusal, unless the tenant has $4 of them since the id $3. Rows with the message $5 are counted
 * separately.
 */
export const INSERT_REFUSAL = `${insertLogsFrom(`json_to_record($2::json) AS r(${LOG_RECORD})`)}
WHERE (SELECT count(*) FROM (
  SELECT 1 FROM audit_log WHERE tenant_id = $1 AND outcome = 'refused' AND id >= $3::uuid AND (message = $5) = (r.message = $5) LIMIT $4::int
) AS recent) < $4::int
RETURNING id`;

export const logFunctions: readonly ShardFunction[] = [
  { statement: 'insert-logs', parameters: ['uuid', 'json'], block: `BEGIN${INSERT_LOGS};\nEND` },
  {
    statement: 'insert-logs-and-runs',
    parameters: ['uuid', 'json'],
    block: `BEGIN${beginRunsFrom(RUN_LOGS)};${insertLogsFrom(RUN_LOGS)};\nEND`,
  },
  {
    statement: 'insert-refusal',
    parameters: ['uuid', 'json', 'uuid', 'int', 'text'],
    columns: 'id uuid',
    block: `BEGIN RETURN QUERY ${INSERT_REFUSAL};\nEND`,
  },
];

/** Appends rows in batches: rows of one tenant that arrive during a write form the next batch. */
export const createLogWriter = (
  queryForBatch: (tenant_id: string) => Query,
  macs: { sign(tenant_id: string, row: NewLog): SignedLog },
  batchesMax: number,
  accounts: Accounts,
  metrics: Metrics,
  tracing: Tracing | undefined,
) => {
  const written = createBatcher(
    async (tenant_id, rows) => {
      // No response without its log row, so every failure of this write is a 503.
      await writeLogs(queryForBatch(tenant_id), tenant_id, rows).catch((error: unknown) => {
        throw unavailable(error);
      });
    },
    batchesMax,
    accounts,
    metrics,
    'logs',
  );
  const batches = tracedBatcher(written, tracing, 'insert-logs');
  return {
    /** Resolves after commit. @throws unavailable. */
    async insert(tenant_id: string, rows: readonly NewLog[]): Promise<void> {
      await batches.submit(
        tenant_id,
        rows.map((row) => macs.sign(tenant_id, row)),
      );
    },
    drain: () => batches.drain(),
  };
};

/**
 * Appends the row of a refusal, unless the tenant has `most` of them since an id.
 * @param apart the message of rows that are counted separately.
 * @returns whether the row was written.
 */
export const insertRefusal = async (
  query: Query,
  tenant_id: string,
  row: SignedLog,
  from_id: string,
  most: number,
  apart: string,
): Promise<boolean> =>
  (await query('insert-refusal', INSERT_REFUSAL, [tenant_id, row, from_id, most, apart])).length > 0;
