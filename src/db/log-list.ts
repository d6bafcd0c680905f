// Lists of log entries, newest first. A row that tells of many entities is an entry for each, or one where it tells of a list.
import type { NewLog } from './hot.ts';
import { COUNTED_MAX } from './token-list.ts';
import type { Query } from './statements.ts';

export type LogEntry = {
  id: string;
  actor_id: string | null;
  actor_type: string | null;
  entity_type: string;
  entity_id: string;
  /** All entities of a list; null for other rows. */
  entity_ids: string[] | null;
  /** Which of the row's entities this is, from 1. */
  place: string;
  operation: string;
  message: string;
  created_at: Date;
  disclosure: string | null;
  outcome: string;
  trace_id: string | null;
  ip: string | null;
  reactor_id: string | null;
  proxy_id: string | null;
  destination_host: string | null;
};

export type LogFilter = Partial<Pick<NewLog, 'entity_type' | 'operation' | 'outcome'>> & {
  actor_id?: string | undefined;
  entity_id?: string | undefined;
  /** Leaves out this kind of entity. */
  not_entity_type?: string | undefined;
  /** The row's id is at least this: ids are in the order of time. */
  from_id?: string | undefined;
  /** The row's id is below this. */
  to_id?: string | undefined;
};

export type LogPageStart = { offset: number } | { after: { id: string; place: number } };

const whereOf = (tenantId: string, filter: LogFilter): { where: string[]; values: unknown[] } => {
  const values: unknown[] = [tenantId];
  const where = ['tenant_id = $1'];
  const add = (text: (parameter: string) => string, value: unknown): void => {
    if (value === undefined) return;
    values.push(value);
    where.push(text(`$${values.length}`));
  };
  add((parameter) => `entity_type = ${parameter}`, filter.entity_type);
  add((parameter) => `entity_type <> ${parameter}`, filter.not_entity_type);
  add((parameter) => `entity_ids @> ARRAY[${parameter}::text]`, filter.entity_id);
  add((parameter) => `actor_id = ${parameter}::uuid`, filter.actor_id);
  add((parameter) => `operation = ${parameter}`, filter.operation);
  add((parameter) => `outcome = ${parameter}`, filter.outcome);
  add((parameter) => `id >= ${parameter}::uuid`, filter.from_id);
  add((parameter) => `id < ${parameter}::uuid`, filter.to_id);
  return { where, values };
};

/** One page of entries. Every row has one at least, so that no more rows are read than entries are wanted. */
export const listLogs = async (
  query: Query,
  tenantId: string,
  filter: LogFilter,
  start: LogPageStart,
  limit: number,
): Promise<LogEntry[]> => {
  const { where, values } = whereOf(tenantId, filter);
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
  // MATERIALIZED has PostgreSQL find the entity's rows by the index of entities. By itself it walks the rows of the tenant from
  // the newest on and hopes to meet the entity soon: a second and more at a million rows.
  const text = `
WITH matched AS ${entity === undefined ? 'NOT MATERIALIZED' : 'MATERIALIZED'} (
  SELECT * FROM audit_log WHERE ${where.join(' AND ')}
)
SELECT l.id, l.actor_id, l.actor_type, l.entity_type, e.entity_id, CASE WHEN l.is_list THEN l.entity_ids END AS entity_ids,
  e.place, l.operation, l.message, l.created_at, l.disclosure, l.outcome, l.trace_id, l.ip, l.reactor_id, l.proxy_id,
  l.destination_host
FROM (SELECT * FROM matched ORDER BY id DESC LIMIT ${add(offset + limit + 1)}::bigint) l
CROSS JOIN LATERAL unnest(
  CASE WHEN l.is_list THEN ARRAY[coalesce(${entity ?? 'NULL'}, l.entity_ids[1])] ELSE l.entity_ids END
) WITH ORDINALITY AS e(entity_id, place)
${entries.length > 0 ? `WHERE ${entries.join(' AND ')}` : ''}
ORDER BY l.id DESC, e.place LIMIT ${add(limit)} OFFSET ${add(offset)}`;
  return (await query(undefined, text, values)) as LogEntry[];
};

/** How many entries there are, up to COUNTED_MAX. */
export const countLogs = async (
  query: Query,
  tenantId: string,
  filter: LogFilter,
): Promise<{ total: number; capped: boolean }> => {
  const { where, values } = whereOf(tenantId, filter);
  const size = filter.entity_id === undefined ? 'CASE WHEN is_list THEN 1 ELSE cardinality(entity_ids) END' : '1';
  const text = `SELECT coalesce(sum(size), 0) AS count FROM
(SELECT ${size} AS size FROM audit_log WHERE ${where.join(' AND ')} LIMIT ${COUNTED_MAX + 1}) AS matched`;
  const [{ count }] = (await query(undefined, text, values)) as [{ count: string }];
  const counted = Number(count);
  return { total: Math.min(counted, COUNTED_MAX), capped: counted > COUNTED_MAX };
};
