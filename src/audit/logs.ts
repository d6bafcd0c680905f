// Reads the audit log: entries of one tenant, newest first, as pages or as a whole. Each reading is logged too.
import type { Caller } from '../access/caller.ts';
import type { Context } from '../context.ts';
import { firstIdAt } from '../crypto/ids.ts';
import type { TenantDatabase } from '../db/client.ts';
import type { LogEntry, LogFilter } from '../db/log-list.ts';
import { invalidField } from '../errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../paging.ts';
import { logRow } from './record.ts';

export type LogRecord = {
  tenant_id: string;
  actor_id?: string | undefined;
  actor_type?: string | undefined;
  entity_type: string;
  entity_id: string;
  entity_ids?: string[] | undefined;
  operation: string;
  message: string;
  outcome: string;
  disclosure?: string | undefined;
  reactor_id?: string | undefined;
  proxy_id?: string | undefined;
  destination_host?: string | undefined;
  trace_id?: string | undefined;
  ip?: string | undefined;
  created_at: string;
};

/** The dates make a half-open interval: from `start_date` on, and before `end_date`. */
export type LogQuery = Omit<LogFilter, 'not_entity_type' | 'from_id' | 'to_id'> & {
  start_date?: Date | undefined;
  end_date?: Date | undefined;
};

/** The kind of entity that a reading of the log is logged under. */
const LOG = 'log';

const LOGS_RETRIEVED = 'Logs retrieved';
const LOGS_EXPORTED = 'Logs exported';

const logReading = (
  ctx: Pick<Context, 'db' | 'now' | 'newLogId'>,
  caller: Caller,
  message: typeof LOGS_RETRIEVED | typeof LOGS_EXPORTED,
): Promise<void> => {
  const row = logRow(ctx, caller, { operation: 'read', entity_type: LOG, entity_ids: [caller.tenant_id], message });
  return ctx.db.for(caller).insertLogs([row]);
};

/** @throws invalidInput for an interval that ends before it begins. */
const filterOf = ({ start_date, end_date, ...others }: LogQuery): LogFilter => {
  if (start_date && end_date && start_date > end_date) throw invalidField('start_date', 'must not be after end_date');
  // Ids are in the order of time and begin with it: an interval of time is one of ids.
  return {
    ...others,
    from_id: start_date && firstIdAt(start_date.getTime()),
    to_id: end_date && firstIdAt(end_date.getTime()),
  };
};

/** Whether a filter by entity finds so many entries that they are listed in another way. */
const isFrequent = async (db: Pick<TenantDatabase, 'countLogs'>, filter: LogFilter): Promise<boolean> =>
  filter.entity_id !== undefined && (await db.countLogs(filter)).capped;

/**
 * A page of the log. Readings of the log are listed where the filter asks for them: each page that is read adds one, and would
 * move what the next page shows.
 * @throws invalidInput for an interval that ends before it begins, and for a cursor that is none; unavailable.
 */
export const listLogs = async (
  ctx: Pick<Context, 'db' | 'now' | 'newLogId'>,
  caller: Caller,
  input: { filter: LogQuery; page: PageRequest },
): Promise<Page<LogRecord>> => {
  const asked = filterOf(input.filter);
  const filter = asked.entity_type === undefined ? { ...asked, not_entity_type: LOG } : asked;
  const db = ctx.db.for(caller);
  const { pagination, rows } = await readPage<LogEntry, { id: string; place: number }>(input.page, {
    page: countThenList(
      () => db.countLogs(filter),
      (offset, limit, isFrequent) => db.listLogs(filter, { offset }, limit, isFrequent),
    ),
    cursor: {
      of: ({ id, place }) => [id, place],
      parse: parseCursor,
      list: async (after, limit) => db.listLogs(filter, { after }, limit, await isFrequent(db, filter)),
    },
  });
  await logReading(ctx, caller, LOGS_RETRIEVED);
  return { pagination, data: rows.map((row) => recordOf(caller, row)) };
};

/** Entries that an export reads at a time: memory holds these and no more. */
const EXPORT_ENTRIES = 1_000;

/**
 * All entries that a filter finds, readings of the log among them, newest first, in portions. The first portion is read before this returns.
 * @throws invalidInput, as listLogs; unavailable.
 */
export const exportLogs = async (
  ctx: Pick<Context, 'db' | 'now' | 'newLogId'>,
  caller: Caller,
  query: LogQuery,
): Promise<AsyncIterable<LogRecord[]>> => {
  const filter = filterOf(query);
  const db = ctx.db.for(caller);
  const isOfMany = await isFrequent(db, filter);
  const first = await db.listLogs(filter, { offset: 0 }, EXPORT_ENTRIES, isOfMany);
  await logReading(ctx, caller, LOGS_EXPORTED);
  return (async function* portions() {
    for (let rows = first; ;) {
      yield rows.map((row) => recordOf(caller, row));
      const last = rows[EXPORT_ENTRIES - 1];
      if (last === undefined) return;
      const after = { id: last.id, place: Number(last.place) };
      rows = await db.listLogs(filter, { after }, EXPORT_ENTRIES, isOfMany);
    }
  })();
};

const parseCursor = ([id, place]: string[]): { id: string; place: number } | undefined => {
  if (id === undefined || place === undefined) return undefined;
  const isValid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) && /^\d{1,9}$/.test(place);
  return isValid ? { id, place: Number(place) } : undefined;
};

const recordOf = (caller: Caller, row: LogEntry): LogRecord => ({
  tenant_id: caller.tenant_id,
  actor_id: row.actor_id ?? undefined,
  actor_type: row.actor_type ?? undefined,
  entity_type: row.entity_type,
  entity_id: row.entity_id,
  entity_ids: row.entity_ids ?? undefined,
  operation: row.operation,
  message: row.message,
  outcome: row.outcome,
  disclosure: row.disclosure ?? undefined,
  reactor_id: row.reactor_id ?? undefined,
  proxy_id: row.proxy_id ?? undefined,
  destination_host: row.destination_host ?? undefined,
  trace_id: row.trace_id ?? undefined,
  ip: row.ip ?? undefined,
  created_at: row.created_at.toISOString(),
});
