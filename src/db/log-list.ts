// Lists of log entries: a row of the log that tells of many entities is an entry for each. Newest first.
import { COUNTED_MAX } from './token-list.ts';
import type { Query } from './statements.ts';

export type LogEntry = {
  id: string;
  actor_id: string | null;
  actor_type: string | null;
  entity_type: string;
  entity_id: string;
  /** Which of the row's entities this is, from 1. */
  place: string;
  operation: string;
  message: string;
  created_at: Date;
};

export type LogFilter = {
  entity_type?: string | undefined;
  entity_id?: string | undefined;
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
  add((parameter) => `entity_ids @> ARRAY[${parameter}::text]`, filter.entity_id);
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
  if (filter.entity_id !== undefined) entries.push(`e.entity_id = ${add(filter.entity_id)}`);
  const text = `
SELECT l.id, l.actor_id, l.actor_type, l.entity_type, e.entity_id, e.place, l.operation, l.message, l.created_at
FROM (SELECT * FROM audit_log WHERE ${where.join(' AND ')} ORDER BY id DESC LIMIT ${add(offset + limit + 1)}::bigint) l
CROSS JOIN LATERAL unnest(l.entity_ids) WITH ORDINALITY AS e(entity_id, place)
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
  const size = filter.entity_id === undefined ? 'cardinality(entity_ids)' : '1';
  const text = `SELECT coalesce(sum(size), 0) AS count FROM
(SELECT ${size} AS size FROM audit_log WHERE ${where.join(' AND ')} LIMIT ${COUNTED_MAX + 1}) AS matched`;
  const [{ count }] = (await query(undefined, text, values)) as [{ count: string }];
  const counted = Number(count);
  return { total: Math.min(counted, COUNTED_MAX), capped: counted > COUNTED_MAX };
};
