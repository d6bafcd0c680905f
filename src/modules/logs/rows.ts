// Lists and counts log entries.
import type { TenantQuery } from '../../platform/db/database.ts';
import type { NewLog } from '../../platform/db/audit-rows.ts';
import { COUNTED_MAX } from '../../platform/base/pagination.ts';

export type LogEntry = {
  id: string;
  actor_id: string | null;
  actor_type: string | null;
  entity_type: string;
  entity_id: string;
  /** All entities of a list; null for other rows. */
  entity_ids: string[] | null;
  /** Position of the entity in its row, from 1. */
  place: string;
  operation: string;
  message: string;
  created_at: Date;
  disclosure: string | null;
  outcome: string;
  trace_id: string | null;
  otel_trace_id: string | null;
  ip: string | null;
  reactor_id: string | null;
  proxy_id: string | null;
  destination_host: string | null;
  application_id: string | null;
  code_application_id: string | null;
  reason: string | null;
};

export type LogFilter = Partial<
  Pick<NewLog, 'entity_type' | 'operation' | 'outcome' | 'disclosure' | 'trace_id' | 'destination_host'>
> & {
  actor_id?: string | undefined;
  application_id?: string | undefined;
  entity_id?: string | undefined;
  /** Leaves out this kind of entity. */
  not_entity_type?: string | undefined;
  /** The row's id is at least this: ids are in the order of time. */
  from_id?: string | undefined;
  /** The row's id is below this. */
  to_id?: string | undefined;
};

export type LogPageStart = { offset: number } | { after: { id: string; place: number } };

/** Newest rows that are searched for each entry of a frequent entity, before its index is used: a page of 20 takes 20 ms at most. */
const ROWS_WALKED_PER_ENTRY = 500;

const whereOf = (tenant_id: string, filter: LogFilter): { where: string[]; values: unknown[] } => {
  const values: unknown[] = [tenant_id];
  const where = ['tenant_id = $1'];
  const add = (text: (parameter: string) => string, value: unknown): void => {
    if (value === undefined) return;
    values.push(value);
    where.push(text(`$${values.length}`));
  };
  add((parameter) => `entity_type = ${parameter}`, filter.entity_type);
  add((parameter) => `entity_type <> ${parameter}`, filter.not_entity_type);
  add((parameter) => `actor_id = ${parameter}::uuid`, filter.actor_id);
  add((parameter) => `application_id = ${parameter}::uuid`, filter.application_id);
  add((parameter) => `trace_id = ${parameter}`, filter.trace_id);
  add((parameter) => `destination_host = ${parameter}`, filter.destination_host);
  add((parameter) => `disclosure = ${parameter}`, filter.disclosure);
  add((parameter) => `operation = ${parameter}`, filter.operation);
  add((parameter) => `outcome = ${parameter}`, filter.outcome);
  add((parameter) => `id >= ${parameter}::uuid`, filter.from_id);
  add((parameter) => `id < ${parameter}::uuid`, filter.to_id);
  return { where, values };
};

/** The condition of the index on entities. */
const hasEntity = (parameter: string): string => `entity_ids @> ARRAY[${parameter}::text]`;

/**
 * One page of entries. A row is an entry for each of its entities, or one entry where it is about a list. Each row has at least one, so that no more rows than entries are read.
 * @param isFrequent whether the filter finds more than COUNTED_MAX entries.
 */
export const listLogEntries = async (
  { query, tenant_id }: TenantQuery,
  filter: LogFilter,
  start: LogPageStart,
  limit: number,
  isFrequent = false,
): Promise<LogEntry[]> => {
  const { where, values } = whereOf(tenant_id, filter);
  const add = (value: unknown): string => `$${values.push(value)}`;
  const entries: string[] = [];
  let offset = 0;
  if ('offset' in start) offset = start.offset;
  else {
    const id = `${add(start.after.id)}::uuid`;
    where.push(`id <= ${id}`);
    entries.push(`NOT (l.id = ${id} AND e.place <= ${add(start.after.place)})`);
  }
  const entity = filter.entity_id === undefined ? undefined : add(filter.entity_id);
  if (entity !== undefined) entries.push(`e.entity_id = ${entity}`);
  const most = offset + limit + 1;
  const list = async (matched: string): Promise<LogEntry[]> => {
    const text = `
WITH matched AS ${matched}
SELECT l.id, l.actor_id, l.actor_type, l.entity_type, e.entity_id, CASE WHEN l.is_list THEN l.entity_ids END AS entity_ids,
  e.place, l.operation, l.message, l.created_at, l.disclosure, l.outcome, l.trace_id, l.ip, l.reactor_id, l.proxy_id,
  l.destination_host, l.otel_trace_id, l.application_id, l.code_application_id, l.reason
FROM (SELECT * FROM matched ORDER BY id DESC LIMIT ${most}) l
CROSS JOIN LATERAL unnest(
  CASE WHEN l.is_list THEN ARRAY[coalesce(${entity ?? 'NULL'}, l.entity_ids[1])] ELSE l.entity_ids END
) WITH ORDINALITY AS e(entity_id, place)
${entries.length > 0 ? `WHERE ${entries.join(' AND ')}` : ''}
ORDER BY l.id DESC, e.place LIMIT ${limit} OFFSET ${offset}`;
    return (await query(undefined, text, values)) as LogEntry[];
  };
  const rows = `SELECT * FROM audit_log WHERE ${where.join(' AND ')}`;
  if (entity === undefined) return list(`NOT MATERIALIZED (${rows})`);
  if (isFrequent) {
    const newest = `${rows} ORDER BY id DESC LIMIT ${most * ROWS_WALKED_PER_ENTRY}`;
    const found = await list(
      `NOT MATERIALIZED (SELECT * FROM (${newest}) AS newest WHERE ${entity} = ANY(entity_ids))`,
    );
    if (found.length === limit) return found;
  }
  // MATERIALIZED makes PostgreSQL find the rows by the index on entities, which takes a second for 300,000 of them. Without it,
  // it walks the rows of the tenant from the newest on: among a million rows that takes longer for an entity with few.
  return list(`MATERIALIZED (${rows} AND ${hasEntity(entity)})`);
};

/** How many entries there are, up to COUNTED_MAX. */
export const countLogEntries = async (
  { query, tenant_id }: TenantQuery,
  filter: LogFilter,
): Promise<{ total: number; capped: boolean }> => {
  const { where, values } = whereOf(tenant_id, filter);
  const entity = filter.entity_id === undefined ? undefined : `$${values.push(filter.entity_id)}`;
  if (entity !== undefined) where.push(hasEntity(entity));
  const size = entity === undefined ? 'CASE WHEN is_list THEN 1 ELSE cardinality(entity_ids) END' : '1';
  // MATERIALIZED for the index on entities, as above. No more rows are fetched than are counted.
  const text = `
WITH matched AS ${entity === undefined ? 'NOT MATERIALIZED' : 'MATERIALIZED'} (
  SELECT ${size} AS size FROM audit_log WHERE ${where.join(' AND ')}
)
SELECT coalesce(sum(size), 0) AS count FROM (SELECT size FROM matched LIMIT ${COUNTED_MAX + 1}) AS counted`;
  const [{ count }] = (await query(undefined, text, values)) as [{ count: string }];
  const counted = Number(count);
  return { total: Math.min(counted, COUNTED_MAX), capped: counted > COUNTED_MAX };
};
