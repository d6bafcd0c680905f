// The metrics of the server: names, labels and help texts. No label holds text that a tenant or a client chose.

/** Seconds: from an answer out of a cache to the longest response of a destination. */
const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30, 60, 150];
/** Up to the time after which PostgreSQL ends a statement. */
const BATCH_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 10];
/** A batch ends at 200 rows; one request may have 10,000. */
const BATCH_ROWS = [1, 2, 5, 10, 25, 50, 100, 200, 1_000, 10_000];
/** A sweep of much that is expired takes minutes. */
const SWEEP_SECONDS = [0.01, 0.1, 1, 10, 60, 300];

export type MetricDefinition = {
  type: 'counter' | 'gauge' | 'histogram';
  help: string;
  labels: readonly string[];
  /** Upper bounds of a histogram. */
  buckets?: readonly number[];
  /** How figures of several workers become one; their sum if absent. */
  ofWorkers?: 'sum' | 'max' | 'first';
};

/** In the order of the documentation. Durations are in seconds, sizes in bytes, times in seconds since 1970. */
export const metricDefinitions = {
  strongroom_build_info: {
    type: 'gauge',
    labels: ['version'],
    help: 'Always 1. The label is the version of the server.',
    ofWorkers: 'first',
  },
  strongroom_workers: {
    type: 'gauge',
    labels: ['state'],
    help: 'Workers, with WORKERS above 1 and for heavy tenants: `answering`, or `silent` if they did not send their figures in time.',
  },
  strongroom_workers_ended_total: {
    type: 'counter',
    labels: [],
    help: 'Workers that ended while the server ran. Each was replaced.',
  },
  strongroom_requests_total: {
    type: 'counter',
    labels: ['method', 'route', 'status'],
    help: 'Requests that were answered, by the template of the route. `none`: a path without a route.',
  },
  strongroom_request_seconds: {
    type: 'histogram',
    labels: ['method', 'route'],
    help: 'Time from the headers of a request to the end of its response.',
    buckets: REQUEST_SECONDS,
  },
  strongroom_write_batch_rows: {
    type: 'histogram',
    labels: ['kind'],
    help: 'Rows of a batch of writes: `logs`, `runs` (their ends), `tokens`, or `unique_tokens` of requests that deduplicate.',
    buckets: BATCH_ROWS,
  },
  strongroom_write_batch_seconds: {
    type: 'histogram',
    labels: ['kind'],
    help: 'Time of the statement that writes a batch.',
    buckets: BATCH_SECONDS,
  },
  strongroom_write_batches_failed_total: {
    type: 'counter',
    labels: ['kind'],
    help: 'Batches that were not written. A batch of several requests is then tried request by request.',
  },
  strongroom_oldest_unwritten_row_seconds: {
    type: 'gauge',
    labels: ['kind'],
    help: 'Age of the oldest row of a queue of writes that is not committed yet; 0 if there is none. Rows of tokens have their log rows with them.',
    ofWorkers: 'max',
  },
  strongroom_queue_length: {
    type: 'gauge',
    labels: ['queue'],
    help: 'What waits: `turns` (long work), `statements` and `transactions` (for a database connection), `rows` (to be written), `lookups` (of records by id), `runs` (for an executor), `connections` (to destinations).',
  },
  strongroom_limit_held: {
    type: 'gauge',
    labels: ['limit'],
    help: 'What all tenants hold of a limit of the process, in bytes or pieces.',
  },
  strongroom_limit_max: {
    type: 'gauge',
    labels: ['limit'],
    help: 'The limit for all tenants together.',
  },
  strongroom_limit_refusals_total: {
    type: 'counter',
    labels: ['limit', 'full'],
    help: 'Reservations that a limit refused: the `tenant` has its share (429), or the `server` is full (503).',
  },
  strongroom_tenant_held: {
    type: 'gauge',
    labels: ['limit', 'tenant_id'],
    help: 'What a tenant and its anonymous clients hold. The 50 tenants that hold most; the rest is `other`.',
  },
  strongroom_longest_callback_seconds: {
    type: 'gauge',
    ofWorkers: 'max',
    labels: ['tenant_id'],
    help: 'The longest callback of the event loop for a tenant since the last scrape. The 10 tenants with the longest.',
  },
  strongroom_tenant_max: {
    type: 'gauge',
    labels: ['limit'],
    help: 'The most that one tenant may hold while few others are active.',
  },
  strongroom_runs_total: {
    type: 'counter',
    labels: ['kind', 'outcome'],
    help: 'Runs of a `reactor` or a `transform` and requests of the `proxy` by their outcome, as `GET /runs` has them.',
  },
  strongroom_echoes_total: {
    type: 'counter',
    labels: ['mode'],
    help: 'Values that the echo guard found in answers, by what it did: `mask` or `block`. See the alarm `echo`.',
  },
  strongroom_bound_refusals_total: {
    type: 'counter',
    labels: ['bound'],
    help: 'Uses of values that a bound refused, by its attribute, such as `hosts`: nothing was sent. A rise may be a stolen key.',
  },
  strongroom_error_bursts_total: {
    type: 'counter',
    labels: [],
    help: 'Reactors and stored proxies that failed much more often than in the day before: see the alarm `error_burst`.',
  },
  strongroom_executions_total: {
    type: 'counter',
    labels: ['kind', 'result'],
    help: 'Executions of code (`run`) and checks of formulas (`check`) in executors by result: `ok`, or the code of the failure.',
  },
  strongroom_run_seconds: {
    type: 'histogram',
    labels: [],
    help: 'Time of a run from its start in an executor, without its wait for one.',
    buckets: REQUEST_SECONDS,
  },
  strongroom_runs_active: {
    type: 'gauge',
    labels: [],
    help: 'Runs in executors.',
  },
  strongroom_executors: {
    type: 'gauge',
    labels: ['state'],
    help: 'Executors: `busy` with runs, `idle`, or `spare` (given to no application yet).',
  },
  strongroom_executor_memory_bytes: {
    type: 'gauge',
    labels: [],
    help: 'Private memory of all executors, as last measured.',
  },
  strongroom_executor_memory_max_bytes: {
    type: 'gauge',
    labels: [],
    help: 'SANDBOX_MEMORY_TOTAL_MB.',
  },
  strongroom_executors_ended_total: {
    type: 'counter',
    labels: ['reason'],
    help: 'Executors that ended while code ran in them, by reason. `violation`: one broke its protocol and may have been taken over.',
  },
  strongroom_egress_requests_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Requests to destinations: the class of the status such as `2xx`, or the code of the failure.',
  },
  strongroom_egress_seconds: {
    type: 'histogram',
    labels: [],
    help: 'Time until the headers of a destination’s response, its connection included.',
    buckets: REQUEST_SECONDS,
  },
  strongroom_egress_connections: {
    type: 'gauge',
    labels: ['state'],
    help: 'Connections to destinations: `used` or `idle`.',
  },
  strongroom_database_connections: {
    type: 'gauge',
    labels: ['state'],
    help: 'Connections of the pool: `used` or `idle`.',
  },
  strongroom_database_connections_max: {
    type: 'gauge',
    labels: [],
    help: 'Most connections of the pool.',
  },
  strongroom_database_waiting: {
    type: 'gauge',
    labels: [],
    help: 'Work that waits at the pool for a connection.',
  },
  strongroom_keys_in_memory: {
    type: 'gauge',
    labels: ['kind'],
    help: 'Unwrapped keys: of `tenant`s, counted by tenant, and `ephemeral` ones of security codes.',
  },
  strongroom_tampered_rows_total: {
    type: 'counter',
    labels: ['table'],
    help: 'Rows that were refused because they were changed in the database, by table: see the alarm `tampered`.',
  },
  strongroom_sweeps_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Sweeps of this server: `ok` or `failed`. Of several servers one sweeps at a time.',
  },
  strongroom_sweep_seconds: {
    type: 'histogram',
    labels: [],
    help: 'Time of a sweep.',
    buckets: SWEEP_SECONDS,
  },
  strongroom_sweep_last_success_timestamp_seconds: {
    type: 'gauge',
    labels: [],
    help: 'When the last sweep of this server succeeded; 0 if none has.',
    ofWorkers: 'max',
  },
  strongroom_log_signed_until_timestamp_seconds: {
    type: 'gauge',
    labels: [],
    help: 'All rows of the audit log up to this time are in signed trees; 0 if this server has not built them yet. Of several servers one builds at a time.',
    ofWorkers: 'max',
  },
  strongroom_log_rows_unhashed: {
    type: 'gauge',
    labels: [],
    help: 'Rows of the audit log that were in no tree after the last run, counted to 100,000. Absent where another server builds.',
    ofWorkers: 'max',
  },
  strongroom_log_trees_tampered: {
    type: 'gauge',
    labels: [],
    help: 'Tenants whose stored tree is not the one that was signed: nothing of them is signed any more.',
    ofWorkers: 'max',
  },
  strongroom_spans_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Spans of traces: `exported`, or `dropped` as the endpoint did not take them in time. Absent where traces are off.',
  },
  strongroom_mails_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Attempts to send a mail: `sent` or `failed`. A failed one is repeated.',
  },
  strongroom_mails_waiting: {
    type: 'gauge',
    labels: [],
    help: 'Mails of all servers that wait to be sent, counted to 10,000. Absent without a mail server, or if the database does not answer.',
    ofWorkers: 'max',
  },
  strongroom_webhook_deliveries_total: {
    type: 'counter',
    labels: ['outcome'],
    help: 'Attempts to deliver an event to a webhook: `delivered`, `failed` and tried again later, or `dead`: the last attempt failed.',
  },
  strongroom_webhook_deliveries_waiting: {
    type: 'gauge',
    labels: [],
    help: 'Events of all tenants that wait to be delivered, counted twice a minute. Absent until the first count.',
    ofWorkers: 'max',
  },
} as const satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof metricDefinitions;

type NameOf<Type extends MetricDefinition['type']> = {
  [Name in MetricName]: (typeof metricDefinitions)[Name]['type'] extends Type ? Name : never;
}[MetricName];

export type CounterName = NameOf<'counter'>;
export type HistogramName = NameOf<'histogram'>;
/** What can be read at a scrape from state that exists. */
export type ReadName = NameOf<'counter' | 'gauge'>;

export type LabelsOf<Name extends MetricName> = Record<(typeof metricDefinitions)[Name]['labels'][number], string>;
