// Reading the log back: entries of one tenant, newest first, by kind, by entity, by time.
import type { Caller } from '../access/caller.ts';
import type { Context } from '../context.ts';
import { firstIdAt } from '../crypto/ids.ts';
import type { LogEntry } from '../db/log-list.ts';
import { invalidField } from '../errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../paging.ts';

export type LogRecord = {
  tenant_id: string;
  actor_id?: string | undefined;
  actor_type?: string | undefined;
  entity_type: string;
  entity_id: string;
  operation: string;
  message: string;
  created_at: string;
};

/** The dates make a half-open interval: from `start_date` on, and before `end_date`. */
export type LogQuery = {
  entity_type?: string | undefined;
  entity_id?: string | undefined;
  start_date?: Date | undefined;
  end_date?: Date | undefined;
};

/** A page of the log. @throws invalidInput for an interval that ends before it begins, and for a cursor that is none; unavailable. */
export const listLogs = async (
  ctx: Pick<Context, 'db'>,
  caller: Caller,
  input: { filter: LogQuery; page: PageRequest },
): Promise<Page<LogRecord>> => {
  const { entity_type, entity_id, start_date, end_date } = input.filter;
  if (start_date && end_date && start_date > end_date) throw invalidField('start_date', 'must not be after end_date');
  // Ids are in the order of time and begin with it: an interval of time is one of ids.
  const filter = {
    entity_type,
    entity_id,
    from_id: start_date && firstIdAt(start_date.getTime()),
    to_id: end_date && firstIdAt(end_date.getTime()),
  };
  const db = ctx.db.for(caller);
  const { pagination, rows } = await readPage<LogEntry, { id: string; place: number }>(input.page, {
    page: countThenList(
      () => db.countLogs(filter),
      (offset, limit) => db.listLogs(filter, { offset }, limit),
    ),
    cursor: {
      of: ({ id, place }) => [id, place],
      parse: parseCursor,
      list: (after, limit) => db.listLogs(filter, { after }, limit),
    },
  });
  return { pagination, data: rows.map((row) => recordOf(caller, row)) };
};

const parseCursor = ([id, place]: string[]): { id: string; place: number } | undefined => {
  if (id === undefined || place === undefined) return undefined;
  const isFair = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) && /^\d{1,9}$/.test(place);
  return isFair ? { id, place: Number(place) } : undefined;
};

const recordOf = (caller: Caller, row: LogEntry): LogRecord => ({
  tenant_id: caller.tenant_id,
  actor_id: row.actor_id ?? undefined,
  actor_type: row.actor_type ?? undefined,
  entity_type: row.entity_type,
  entity_id: row.entity_id,
  operation: row.operation,
  message: row.message,
  created_at: row.created_at.toISOString(),
});
