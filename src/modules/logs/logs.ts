// Reads the audit log of a tenant, newest first, as pages or as an export. Each reading is logged.
import type { Work } from '../access/work.ts';
import type { AccessContext } from '../access/context.ts';
import { isUuid, toIdRange } from '../../platform/crypto/ids.ts';
import type { TenantQuery } from '../../platform/db/database.ts';
import { countLogEntries, type LogEntry, type LogFilter, listLogEntries } from './rows.ts';
import { countThenList, encodeCursor, type Page, type PageRequest, readPage } from '../../platform/base/pagination.ts';
import { logRow, maskHost } from '../../platform/db/audit-record.ts';
import { type EntryNames, findEntryNames } from './names.ts';

export type LogRecord = {
  id: string;
  tenant_id: string;
  actor_id?: string | undefined;
  actor_type?: string | undefined;
  actor_name?: string | undefined;
  application_id?: string | undefined;
  code_application_id?: string | undefined;
  entity_type: string;
  entity_id: string;
  entity_name?: string | undefined;
  is_list?: true | undefined;
  entity_ids?: string[] | undefined;
  operation: string;
  message: string;
  reason?: string | undefined;
  outcome: string;
  disclosure?: string | undefined;
  reactor_id?: string | undefined;
  proxy_id?: string | undefined;
  destination_host?: string | undefined;
  trace_id?: string | undefined;
  otel_trace_id?: string | undefined;
  ip?: string | undefined;
  created_at: string;
};

/** A half-open interval: from `start_date` on, and before `end_date`. */
export type LogQuery = Omit<LogFilter, 'not_entity_type' | 'from_id' | 'to_id'> & {
  start_date?: Date | undefined;
  end_date?: Date | undefined;
};

type Reading = Pick<AccessContext, 'db' | 'now' | 'newLogId' | 'keyring' | 'environment' | 'randomBytes' | 'log'>;

/** The kind of entity in the row of a reading. */
const LOG = 'log';

const LOGS_RETRIEVED = 'Logs retrieved';
const LOGS_EXPORTED = 'Logs exported';

const logReading = (ctx: Reading, work: Work, message: typeof LOGS_RETRIEVED | typeof LOGS_EXPORTED): Promise<void> => {
  const row = logRow(ctx, work, { operation: 'read', entity_type: LOG, entity_ids: [work.tenant_id], message });
  return work.log([row]);
};

/** @throws invalidInput for an interval that ends before it begins. */
const filterOf = ({ start_date, end_date, destination_host, ...others }: LogQuery): LogFilter => {
  return {
    ...others,
    // Rows have the host masked.
    destination_host: destination_host && maskHost(destination_host),
    ...toIdRange({ start_date, end_date }),
  };
};

/** Whether a filter by entity finds more entries than are counted. */
const isFrequent = async (db: TenantQuery, filter: LogFilter): Promise<boolean> =>
  filter.entity_id !== undefined && (await countLogEntries(db, filter)).capped;

/**
 * A page of the log. Readings of the log are listed only where the filter asks for them: each page adds one, which would move
 * the entries of the next page.
 * @throws invalidInput for an interval that ends before it begins, and for a malformed cursor; unavailable.
 */
export const listLogs = async (
  ctx: Reading,
  work: Work,
  input: { filter: LogQuery; page: PageRequest },
): Promise<Page<LogRecord>> => {
  const asked = filterOf(input.filter);
  const filter = asked.entity_type === undefined ? { ...asked, not_entity_type: LOG } : asked;
  const db = work.db;
  const { pagination, rows } = await readPage<LogEntry, { id: string; place: number }>(input.page, {
    page: countThenList(
      () => countLogEntries(db, filter),
      (offset, limit, isFrequent) => listLogEntries(db, filter, { offset }, limit, isFrequent),
    ),
    cursor: {
      of: ({ id, place }) => [id, place],
      parse: parseCursor,
      list: async (after, limit) => listLogEntries(db, filter, { after }, limit, await isFrequent(db, filter)),
    },
  });
  await logReading(ctx, work, LOGS_RETRIEVED);
  return { pagination, data: await recordsOf(ctx, work, rows) };
};

/** Entries of an export that are in memory at once. */
const EXPORT_ENTRIES = 1_000;

/**
 * All entries of a filter, readings of the log included, newest first, in portions. The first portion is read before this returns.
 * @throws invalidInput, as listLogs; unavailable.
 */
export const exportLogs = async (ctx: Reading, work: Work, query: LogQuery): Promise<AsyncIterable<LogRecord[]>> => {
  const filter = filterOf(query);
  const db = work.db;
  const isOfMany = await isFrequent(db, filter);
  const first = await listLogEntries(db, filter, { offset: 0 }, EXPORT_ENTRIES, isOfMany);
  await logReading(ctx, work, LOGS_EXPORTED);
  return (async function* portions() {
    for (let rows = first; ;) {
      yield await recordsOf(ctx, work, rows);
      const last = rows[EXPORT_ENTRIES - 1];
      if (last === undefined) return;
      const after = { id: last.id, place: Number(last.place) };
      rows = await listLogEntries(db, filter, { after }, EXPORT_ENTRIES, isOfMany);
    }
  })();
};

/** Before the newest entry: the page after it has no totals, for which up to 10,000 entries are counted. */
export const NEWEST_ENTRIES = encodeCursor(['ffffffff-ffff-ffff-ffff-ffffffffffff', '0']);

const parseCursor = ([id, place]: string[]): { id: string; place: number } | undefined => {
  if (id === undefined || place === undefined) return undefined;
  const isValid = isUuid(id) && /^\d{1,9}$/.test(place);
  return isValid ? { id, place: Number(place) } : undefined;
};

const recordOf = ({ tenant_id }: Work, row: LogEntry, names: EntryNames): LogRecord => ({
  id: row.id,
  tenant_id,
  actor_id: row.actor_id ?? undefined,
  actor_type: row.actor_type ?? undefined,
  actor_name: names.actorOf(row),
  application_id: row.application_id ?? undefined,
  code_application_id: row.code_application_id ?? undefined,
  entity_type: row.entity_type,
  entity_id: row.entity_id,
  entity_name: names.entityOf(row),
  is_list: row.entity_ids ? true : undefined,
  entity_ids: row.entity_ids ?? undefined,
  operation: row.operation,
  message: row.message,
  reason: row.reason ?? undefined,
  outcome: row.outcome,
  disclosure: row.disclosure ?? undefined,
  reactor_id: row.reactor_id ?? undefined,
  proxy_id: row.proxy_id ?? undefined,
  // Masked when it was written, too: a row is data from outside.
  destination_host: row.destination_host === null ? undefined : maskHost(row.destination_host),
  trace_id: row.trace_id ?? undefined,
  otel_trace_id: row.otel_trace_id ?? undefined,
  ip: row.ip ?? undefined,
  created_at: row.created_at.toISOString(),
});

const recordsOf = async (ctx: Reading, work: Work, rows: readonly LogEntry[]): Promise<LogRecord[]> => {
  const names = await findEntryNames(ctx, work.db, rows);
  return rows.map((row) => recordOf(work, row, names));
};
