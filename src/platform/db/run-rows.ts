// Columns of runs, their MACs, and the statements that write them. A run that has begun is written with a row of the log; its end is
// written after the response.
import type { Accounts } from '../base/accounts.ts';
import type { LogMac } from '../crypto/log-mac.ts';
import { createBatcher } from './batcher.ts';
import type { ShardFunction } from './shard-functions.ts';
import type { Query } from './statements.ts';
import { tracedBatcher } from './traced.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Tracing } from '../tracing/tracing.ts';

export const runKinds = ['reactor', 'proxy', 'transform'] as const;

export type RunKind = (typeof runKinds)[number];

export const runOutcomes = [
  'success',
  'refused',
  'failed',
  'crashed',
  'timed_out',
  'out_of_memory',
  'cancelled',
  'unknown',
] as const;

export type RunOutcome = (typeof runOutcomes)[number];

/** What happened to a run: no argument, body, result or text of code. */
export type NewRun = {
  /** Its time is that of the beginning. */
  id: string;
  kind: RunKind;
  resource_id: string | null;
  version: string | null;
  actor_id: string | null;
  actor_type: string | null;
  outcome: RunOutcome;
  status: number | null;
  duration_ms: number | null;
  cpu_ms: number | null;
  error: string | null;
  line: number | null;
  destination_host: string | null;
  destination_status: number | null;
  trace_id: string | null;
  /** Null for none. */
  token_ids: string[] | null;
  /** Values that the echo guard found. Null for none. */
  echoes: number | null;
};

/** The columns of a run except `tenant_id` and `mac`, with their SQL types. */
const COLUMNS = {
  id: 'uuid',
  kind: 'text',
  resource_id: 'uuid',
  version: 'text',
  actor_id: 'uuid',
  actor_type: 'text',
  outcome: 'text',
  status: 'int',
  duration_ms: 'int',
  cpu_ms: 'float8',
  error: 'text',
  line: 'int',
  destination_host: 'text',
  destination_status: 'int',
  trace_id: 'text',
  token_ids: 'text[]',
  echoes: 'int',
} as const satisfies Record<keyof NewRun, string>;

const columnNames = Object.keys(COLUMNS) as (keyof NewRun)[];

/** All columns that `isIntact` needs. */
export const RUN_NAMES = [...columnNames, 'mac'].join(', ');

const RUN_RECORD = [...columnNames.map((name) => `${name} ${COLUMNS[name]}`), 'mac uuid'].join(', ');

/** A run as the database has it. */
export type FoundRun = NewRun & { mac: string };

/** The run of a process that died, and the log rows of its beginning. */
export type BegunRun = { run: NewRun; log_ids: readonly string[] };

/** Begun run as the JSON that the statement of a log row takes. */
export type SignedBegunRun = { id: string; run: string; mac: LogMac };

type MacOf = (text: string) => LogMac;

const textOf = (tenant_id: string, run: NewRun): string =>
  JSON.stringify([tenant_id, ...columnNames.map((name) => run[name])]);

const textOfBegun = (tenant_id: string, run: string): string => JSON.stringify([tenant_id, 'begun', run]);

export const signRun = (macOf: MacOf, tenant_id: string, run: NewRun): string =>
  JSON.stringify({ ...run, mac: macOf(textOf(tenant_id, run)) });

export const isRunIntact = (macOf: MacOf, tenant_id: string, { mac, ...run }: FoundRun): boolean =>
  mac === macOf(textOf(tenant_id, run));

export const signBegunRun = (macOf: MacOf, tenant_id: string, begun: BegunRun): SignedBegunRun => {
  const run = JSON.stringify(begun);
  return { id: begun.run.id, run, mac: macOf(textOfBegun(tenant_id, run)) };
};

/** @returns undefined for a row that no server wrote, also a copy of one under another id. */
export const openBegunRun = (
  macOf: MacOf,
  tenant_id: string,
  { id, run, mac }: Pick<SignedBegunRun, 'id' | 'run'> & { mac: string },
): BegunRun | undefined => {
  if (mac !== macOf(textOfBegun(tenant_id, run))) return undefined;
  const begun = JSON.parse(run) as BegunRun;
  return begun.run.id === id ? begun : undefined;
};

/** SQL that inserts runs which have begun, from a relation with their JSON. */
export const beginRunsFrom = (from: string): string => `
INSERT INTO begun_runs (tenant_id, id, run, mac)
SELECT $1::uuid, (r.run ->> 'id')::uuid, r.run ->> 'run', (r.run ->> 'mac')::uuid FROM ${from} WHERE r.run IS NOT NULL`;

const GIVEN = `json_to_recordset($2::json) AS r(${RUN_RECORD})`;

const END_RUNS = `
DELETE FROM begun_runs
WHERE tenant_id = $1::uuid AND id = ANY (ARRAY(SELECT r.id FROM json_to_recordset($2::json) AS r(id uuid)))`;

/** A run that was taken for dead has its row already. */
const INSERT_ENDED = `
INSERT INTO runs (tenant_id, ${RUN_NAMES}) SELECT $1::uuid, ${RUN_NAMES} FROM ${GIVEN} ON CONFLICT (tenant_id, id) DO NOTHING`;

export const INSERT_RUNS = `WITH ended AS (${END_RUNS})${INSERT_ENDED}`;

/** A statement whose parts share a WITH clause would send rows to every worker of a distributed database. */
export const runFunctions: readonly ShardFunction[] = [
  { statement: 'insert-runs', parameters: ['uuid', 'json'], block: `BEGIN${END_RUNS};${INSERT_ENDED};\nEND` },
];

/** @param runs as `signRun` makes them. */
export const insertRuns = async (query: Query, tenant_id: string, runs: readonly string[]): Promise<void> => {
  await query('insert-runs', INSERT_RUNS, [tenant_id, `[${runs.join()}]`]);
};

/** Writes the ends of runs in batches. */
export const createRunWriter = (
  queryForBatch: (tenant_id: string) => Query,
  macOf: MacOf,
  batchesMax: number,
  accounts: Accounts,
  metrics: Metrics,
  tracing: Tracing | undefined,
) => {
  const written = createBatcher(
    async (tenant_id, rows) => {
      await queryForBatch(tenant_id)('insert-runs', INSERT_RUNS, [tenant_id, rows]);
    },
    batchesMax,
    accounts,
    metrics,
    'runs',
  );
  const batches = tracedBatcher(written, tracing, 'insert-runs');
  return {
    /** Resolves after commit. @throws unavailable. */
    async insert(tenant_id: string, runs: readonly NewRun[]): Promise<void> {
      await batches.submit(
        tenant_id,
        runs.map((run) => signRun(macOf, tenant_id, run)),
      );
    },
    drain: () => batches.drain(),
  };
};
