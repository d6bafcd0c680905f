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

/** Rows that are looked at for each entry of a frequent entity before its index is asked: a page of 20 takes 20 ms at most. */
const ROWS_WALKED_PER_ENTRY = 500;

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
  add((parameter) => `actor_id = ${parameter}::uuid`, filter.actor_id);
  add((parameter) => `operation = ${parameter}`, filter.operation);
  add((parameter) => `outcome = ${parameter}`, filter.outcome);
  add((parameter) => `id >= ${parameter}::uuid`, filter.from_id);
  add((parameter) => `id < ${parameter}::uuid`, filter.to_id);
  return { where, values };
};

/** The condition that the index of entities serves. */
const hasEntity = (parameter: string): string => `entity_ids @> ARRAY[${parameter}::text]`;

/**
 * One page of entries. Every row has one at least, so that no more rows are read than entries are wanted.
 * @param isFrequent whether the filter finds more than COUNTED_MAX entries.
 */
export const listLogs = async (
  query: Query,
  tenantId: string,
  filter: LogFilter,
  start: LogPageStart,
  limit: number,
  isFrequent = false,
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
  const most = offset + limit + 1;
  const list = async (matched: string): Promise<LogEntry[]> => {
    const text = `
WITH matched AS ${matched}
SELECT l.id, l.actor_id, l.actor_type, l.entity_type, e.entity_id, CASE WHEN l.is_list THEN l.entity_ids END AS entity_ids,
  e.place, l.operation, l.message, l.created_at, l.disclosure, l.outcome, l.trace_id, l.ip, l.reactor_id, l.proxy_id,
  l.destination_host
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
  // MATERIALIZED has PostgreSQL find the entity's rows by the index of entities, which takes a second at 300,000 of them. By
  // itself it walks the rows of the tenant from the newest on and hopes to meet the entity soon: at a million rows that takes
  // longer for an entity with few of them.
  return list(`MATERIALIZED (${rows} AND ${hasEntity(entity)})`);
};

/** How many entries there are, up to COUNTED_MAX. */
export const countLogs = async (
  query: Query,
  tenantId: string,
  filter: LogFilter,
): Promise<{ total: number; capped: boolean }> => {
  const { where, values } = whereOf(tenantId, filter);
  const entity = filter.entity_id === undefined ? undefined : `$${values.push(filter.entity_id)}`;
  if (entity !== undefined) where.push(hasEntity(entity));
  const size = entity === undefined ? 'CASE WHEN is_list THEN 1 ELSE cardinality(entity_ids) END' : '1';
  // MATERIALIZED for the index of entities, as above. No more of its rows are fetched than are counted.
  const text = `
WITH matched AS ${entity === undefined ? 'NOT MATERIALIZED' : 'MATERIALIZED'} (
  SELECT ${size} AS size FROM audit_log WHERE ${where.join(' AND ')}
)
SELECT coalesce(sum(size), 0) AS count FROM (SELECT size FROM matched LIMIT ${COUNTED_MAX + 1}) AS counted`;
  const [{ count }] = (await query(undefined, text, values)) as [{ count: string }];
  const counted = Number(count);
  return { total: Math.min(counted, COUNTED_MAX), capped: counted > COUNTED_MAX };
};
