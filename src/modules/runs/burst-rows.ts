// Counts failed runs: of all resources in the last hour, and of one by the hours before.
import type { Query } from '../../platform/db/statements.ts';

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
export const FIND_FAILING = `
SELECT tenant_id, kind, resource_id, count(*)::int AS failures, mode() WITHIN GROUP (ORDER BY line) AS line,
  mode() WITHIN GROUP (ORDER BY outcome) AS outcome
FROM runs WHERE id >= $1::uuid AND ${FAILED} AND kind <> 'transform' AND resource_id IS NOT NULL
GROUP BY tenant_id, kind, resource_id HAVING count(*) >= $2 ORDER BY failures DESC LIMIT $3`;

/** Hours before a time, from 0. */
export const COUNT_FAILURES_BY_HOUR = `
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

/** Deletes leases that have ended. */
export const forgetBursts = async (query: Query, prefix: string): Promise<void> => {
  await query(undefined, `DELETE FROM leases WHERE starts_with(name, $1) AND ends_at <= now()`, [prefix]);
};
