// Rows of a tenant's usage: requests of each hour by kind and application, and counts of tokens by type.
import type { UsageKind } from '../../../platform/db/audit-record.ts';
import type { TenantQuery } from '../../../platform/db/database.ts';

// Rows of the usage: what requests did in an hour, by kind and by the application that asked.

/** Upper bounds of the times of requests. The last column has those beyond. */
export const LATENCY_BOUNDS_MS = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000] as const;

const latencyColumns = [...LATENCY_BOUNDS_MS.map((bound) => `ms_${bound}`), 'ms_more'];

/** The application id of rows that count the requests of all callers. */
export const ALL_APPLICATIONS = '00000000-0000-0000-0000-000000000000';

/** `hour`: its beginning, in ms since 1970. `latencies`: how many requests took how long. */
export type UsageRow = {
  hour: number;
  kind: UsageKind;
  application_id: string;
  requests: number;
  tokens: number;
  latencies: number[];
};

const numbers = ['requests', 'tokens', ...latencyColumns];

/** Rows in one order, so that two processes do not wait for each other. */
export const ADD_USAGE = `
INSERT INTO usage_hours (tenant_id, hour, kind, application_id, ${numbers.join(', ')})
SELECT $1::uuid, hour, kind, application_id, ${numbers.join(', ')}
FROM json_to_recordset($2::json) AS r(hour timestamptz, kind text, application_id uuid, ${numbers.map((name) => `${name} bigint`).join(', ')})
ORDER BY application_id, hour, kind
ON CONFLICT (tenant_id, application_id, hour, kind)
DO UPDATE SET ${numbers.map((name) => `${name} = usage_hours.${name} + excluded.${name}`).join(', ')}`;

export const addUsage = async ({ query, tenant_id }: TenantQuery, rows: readonly UsageRow[]): Promise<void> => {
  const given = rows.map(({ hour, latencies, ...row }) => ({
    ...row,
    hour: new Date(hour).toISOString(),
    ...Object.fromEntries(latencyColumns.map((name, bucket) => [name, latencies[bucket] ?? 0])),
  }));
  await query('add-usage', ADD_USAGE, [tenant_id, JSON.stringify(given)]);
};

type UsageSlot = { start: Date; kind: UsageKind; requests: number; tokens: number; latencies: number[] };

type UsageFilter = { from: Date; to: Date; by: 'hour' | 'day'; application_id: string | undefined };

/** A sum of floats takes a fraction of one of bigint, which is numeric. */
const findBy = (step: string): string => `
SELECT ${step} AS start, kind, ${numbers.map((name) => `sum(${name}::float8) AS ${name}`).join(', ')}
FROM usage_hours WHERE tenant_id = $1 AND application_id = $2::uuid AND hour >= $3::timestamptz AND hour < $4::timestamptz
GROUP BY 1, 2 ORDER BY 1, 2`;

const FIND_USAGE = { hour: findBy('hour'), day: findBy(`date_trunc('day', hour)`) };

/** Sums by hour or by day in UTC, oldest first. Hours without any have no row. */
export const findUsage = async (
  { query, tenant_id }: TenantQuery,
  { from, to, by, application_id }: UsageFilter,
): Promise<UsageSlot[]> => {
  const values = [tenant_id, application_id ?? ALL_APPLICATIONS, from, to];
  // Without a name, it is planned for its range: a general plan reads the hours of all tenants.
  const rows = (await query(undefined, FIND_USAGE[by], values)) as (Omit<UsageSlot, 'latencies'> &
    Record<string, number>)[];
  return rows.map((row) => ({
    start: row.start,
    kind: row.kind,
    requests: row.requests,
    tokens: row.tokens,
    latencies: latencyColumns.map((name) => row[name] ?? 0),
  }));
};

export type TypeCount = { type: string; count: number; last_created_at: Date | null };

const COUNT_BY_TYPE = `
SELECT type, sum(change)::bigint AS count, max(last_created_at) AS last_created_at
FROM token_counts WHERE tenant_id = $1 GROUP BY type ORDER BY type`;

export const countTokensByType = async ({ query, tenant_id }: TenantQuery): Promise<TypeCount[]> => {
  const rows = (await query('count-by-type', COUNT_BY_TYPE, [tenant_id])) as (Omit<TypeCount, 'count'> & {
    count: string;
  })[];
  return rows.map((row) => ({ ...row, count: Number(row.count) }));
};
