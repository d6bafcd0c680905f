// The partitions of the audit log, by month: lists them, has the next ones made, and takes old ones out.
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { firstIdOfMonth, LEAST_ID, timeOfId } from '../crypto/ids.ts';
import type { Query } from './statements.ts';
import { StartError } from '../base/errors.ts';
import { codeOf, quoted } from './backup/session.ts';

// Rows of the audit log for a stream, and how far a stream has come. Rows of `log_streams`.

const START = 'INSERT INTO log_streams (name, position) VALUES ($1, $2) ON CONFLICT DO NOTHING';
const FIND = 'SELECT position FROM log_streams WHERE name = $1';
const MOVE = 'UPDATE log_streams SET position = $3 WHERE name = $1 AND position = $2 RETURNING name';

/** A row of audit_log AS l as JSON; absent is NULL. One text for all: leaves hash it, and streams and archives have it. */
export const LOG_LINE = 'json_strip_nulls(row_to_json(l))::text AS line';

/** Reads by the index on ids alone, which finds the pages of an interval. */
const READ = `
SELECT id, ${LOG_LINE} FROM audit_log AS l
WHERE id > $1::uuid AND id <= $2::uuid ORDER BY id LIMIT $3`;

export type LogRowLine = { id: string; line: string };

/** @param start of a stream that has no position yet. @returns the highest id that was streamed. @throws unavailable. */
export const findStreamPosition = async (query: Query, name: string, start: string): Promise<string> => {
  const find = async () => ((await query('find-log-stream', FIND, [name])) as { position: string }[])[0]?.position;
  const found = await find();
  if (found !== undefined) return found;
  await query('start-log-stream', START, [name, start]);
  // Another process may have been first.
  return (await find()) ?? start;
};

/** The position up to which all rows are in signed trees. */
export const TREE_STREAM = 'trees';

/** @returns the id up to which all rows are in signed trees; undefined before the first run. @throws unavailable. */
export const findTreePosition = async (query: Query): Promise<string | undefined> => {
  const [found] = (await query('find-log-stream', FIND, [TREE_STREAM])) as { position: string }[];
  return found?.position === LEAST_ID ? undefined : found?.position;
};

/** @returns false if another process has moved it meanwhile. @throws unavailable. */
export const moveStreamPosition = async (query: Query, name: string, from: string, to: string): Promise<boolean> =>
  (await query('move-log-stream', MOVE, [name, from, to])).length > 0;

/** Rows of all tenants above an id, up to another. Without a name: PostgreSQL plans for the partitions of the interval. @throws unavailable. */
export const readStreamedRows = async (query: Query, from: string, to: string, most: number): Promise<LogRowLine[]> =>
  (await query(undefined, READ, [from, to, most])) as LogRowLine[];

/** A partition has the rows whose ids are in its bounds. Null is no bound: the first and the last partition. */
export type LogPartition = { name: string; from_id: string | null; to_id: string | null };

/**
 * Has the partitions of the next months made where they are missing. The database does it, with the rights of the tables' owner.
 * @returns how many it made. @throws unavailable.
 */
export const addLogPartitions = async (query: Query): Promise<number> =>
  ((await query('add-log-partitions', 'SELECT add_log_partitions() AS made', [])) as { made: number }[])[0]?.made ?? 0;

/** The same for runs, whose empty months it joins. @returns how many it changed. @throws unavailable. */
export const keepRunPartitions = async (query: Query): Promise<number> =>
  ((await query('keep-run-partitions', 'SELECT keep_run_partitions() AS made', [])) as { made: number }[])[0]?.made ??
  0;

const IS_PARTITIONED = `SELECT to_regprocedure('log_partitions()') IS NOT NULL AS there`;
const LIST = 'SELECT name, from_id, to_id FROM log_partitions()';

/** Oldest first. */
export const listLogPartitions = async (session: Client): Promise<LogPartition[]> =>
  (await session.query<LogPartition>(LIST)).rows;

const monthText = (id: string): string => timeOfId(id).toISOString().slice(0, 7).replace('-', '_');

/** audit_log_2026_08, or audit_log_before_2026_08 without a lower bound. */
const partitionName = (from_id: string | null, to_id: string): string =>
  from_id === null ? `audit_log_before_${monthText(to_id)}` : `audit_log_${monthText(from_id)}`;

/** The id before which everything is older than so many whole months. */
export const oldestKept = (now: Date, months: number): string => firstIdOfMonth(now, -months);

/** What an operator should know of the partitions. */
export type LogState = {
  partitions: number;
  /** The last one. */
  last: string;
  hasRowsAhead: boolean;
  hasNextMonth: boolean;
  /** Whether rows are older than they should be. */
  isOverdue: boolean;
};

/** With columns: Citus refuses a sub-select without. */
const HAS_ROWS = `SELECT EXISTS (SELECT 1 FROM audit_log WHERE id >= $1::uuid) AS ahead,
  EXISTS (SELECT 1 FROM audit_log WHERE id < $2::uuid) AS old`;

/** @param months that rows are kept. @returns undefined if the log has no partitions yet. @throws unavailable. */
export const findLogState = async (query: Query, now: Date, months: number): Promise<LogState | undefined> => {
  const [found] = await query(undefined, IS_PARTITIONED, []);
  if (!found.there) return undefined;
  const partitions = (await query(undefined, LIST, [])) as LogPartition[];
  const last = partitions.at(-1);
  if (!last?.from_id) return undefined;
  const [has] = await query(undefined, HAS_ROWS, [last.from_id, oldestKept(now, months)]);
  const afterNext = firstIdOfMonth(now, 2);
  return {
    partitions: partitions.length,
    last: last.name,
    hasRowsAhead: has.ahead,
    hasNextMonth: last.from_id >= afterNext,
    isOverdue: has.old,
  };
};

/** While the lock on the log waits, readers and writers wait behind it: a short time, then they go first, and it is tried again. */
const LOCK_TIMEOUT_MS = 1_000;
const LOCK_ATTEMPTS = 30;
const LOCK_PAUSE_MS = 1_000;
const LOCK_NOT_AVAILABLE = '55P03';

/** Changes partitions in one transaction, which takes milliseconds once it has the lock on the log. @throws StartError. */
const change = async (session: Client, statements: () => Promise<void>): Promise<void> => {
  for (let attempt = 1; ; attempt += 1) {
    await session.query(`BEGIN; SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
    try {
      await statements();
      await session.query('COMMIT');
      return;
    } catch (error) {
      await session.query('ROLLBACK');
      if (codeOf(error) !== LOCK_NOT_AVAILABLE) throw error;
      if (attempt === LOCK_ATTEMPTS)
        throw new StartError(
          'The audit log is in use by a long transaction, such as a backup. Nothing was dropped. Run the command again when that has ended.',
        );
    }
    await pause(LOCK_PAUSE_MS);
  }
};

const make = (session: Client, { name, from_id, to_id }: LogPartition): Promise<unknown> =>
  session.query('SELECT make_log_partition($1, $2, $3)', [name, from_id, to_id]);

export const isEmptyPartition = async (session: Client, name: string): Promise<boolean> =>
  (await session.query(`SELECT 1 FROM ${quoted(name)} LIMIT 1`)).rowCount === 0;

const DETACHED = 'audit_log_detached_';
const detachedName = (name: string): string => name.replace('audit_log_', DETACHED);

/**
 * Takes a partition out of the log and drops it, if it has as many rows as its archive. An empty partition takes its place, so that
 * a late row has one. Rows of the log are never changed: as many rows are the same rows. They are counted outside of the log,
 * where no reader or writer waits for it.
 * @returns false if it has other rows by now: then it is back in the log.
 */
export const dropPartition = async (session: Client, partition: LogPartition, rows: number): Promise<boolean> => {
  const detached = detachedName(partition.name);
  await change(session, async () => {
    await session.query(`ALTER TABLE audit_log DETACH PARTITION ${quoted(partition.name)}`);
    await session.query(`ALTER TABLE ${quoted(partition.name)} RENAME TO ${quoted(detached)}`);
    await make(session, partition);
  });
  const { rows: counted } = await session.query<{ count: string }>(`SELECT count(*) FROM ${quoted(detached)}`);
  if (Number(counted[0]?.count) !== rows) {
    await putBack(session, detached);
    return false;
  }
  await session.query(`DROP TABLE ${quoted(detached)}`);
  return true;
};

/** Puts a partition that was taken out back in its place, with the rows that came meanwhile. */
const putBack = async (session: Client, detached: string): Promise<void> => {
  const name = detached.replace(DETACHED, 'audit_log_');
  const place = (await listLogPartitions(session)).find((partition) => partition.name === name);
  if (!place) throw new StartError(`The table ${detached} has no place in the audit log. Move it away by hand.`);
  const { from_id, to_id } = place;
  const conditions = [
    ...(from_id === null ? [] : [`id >= '${from_id}'`]),
    ...(to_id === null ? [] : [`id < '${to_id}'`]),
  ];
  // PostgreSQL reads the rows for this, and not again while the log is locked.
  await session.query(`ALTER TABLE ${quoted(detached)} DROP CONSTRAINT IF EXISTS audit_log_bound`);
  await session.query(
    `ALTER TABLE ${quoted(detached)} ADD CONSTRAINT audit_log_bound CHECK (${conditions.join(' AND ')})`,
  );
  const bounds = `FROM (${from_id === null ? 'MINVALUE' : `'${from_id}'`}) TO (${to_id === null ? 'MAXVALUE' : `'${to_id}'`})`;
  await change(session, async () => {
    await session.query(`ALTER TABLE audit_log DETACH PARTITION ${quoted(name)}`);
    await session.query(`ALTER TABLE ${quoted(name)} RENAME TO audit_log_late`);
    await session.query(`ALTER TABLE ${quoted(detached)} RENAME TO ${quoted(name)}`);
    await session.query(`ALTER TABLE audit_log ATTACH PARTITION ${quoted(name)} FOR VALUES ${bounds}`);
    await session.query('INSERT INTO audit_log SELECT * FROM audit_log_late');
    await session.query('DROP TABLE audit_log_late');
    await session.query(`ALTER TABLE ${quoted(name)} DROP CONSTRAINT audit_log_bound`);
  });
};

/** Puts back what a process that was killed had taken out. @returns the names of these partitions. */
export const putBackDetached = async (session: Client): Promise<string[]> => {
  const { rows } = await session.query<{ name: string }>(
    `SELECT relname::text AS name FROM pg_class
     WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND starts_with(relname, $1) ORDER BY 1`,
    [DETACHED],
  );
  for (const { name } of rows) await putBack(session, name);
  return rows.map(({ name }) => name);
};

/** Merges the empty months at the old end into the first partition. @param before only months below this id. */
export const mergeEmptyMonths = async (session: Client, before: string): Promise<void> => {
  for (;;) {
    const [first, next] = await listLogPartitions(session);
    if (!first || !next || next.to_id === null || next.to_id > before) return;
    if (!(await isEmptyPartition(session, first.name)) || !(await isEmptyPartition(session, next.name))) return;
    const { to_id } = next;
    let isEmpty = true;
    await change(session, async () => {
      for (const { name } of [first, next])
        await session.query(`ALTER TABLE audit_log DETACH PARTITION ${quoted(name)}`);
      // A row may have come before the lock.
      for (const { name } of [first, next]) isEmpty &&= await isEmptyPartition(session, name);
      if (!isEmpty) return void (await session.query('ROLLBACK'));
      for (const { name } of [first, next]) await session.query(`DROP TABLE ${quoted(name)}`);
      await make(session, { name: partitionName(null, to_id), from_id: null, to_id });
    });
    if (!isEmpty) return;
  }
};

/**
 * Makes partitions for the months since the first tenant was made in place of the empty first one, so that the rows of a backup can
 * be archived month by month. Rows from before stay in the first one. In the transaction of a restore.
 */
export const makeEarlierMonths = async (session: Client): Promise<void> => {
  const { rows: found } = await session.query(IS_PARTITIONED);
  if (!found[0].there) return;
  const { rows: oldest } = await session.query<{ at: Date | null }>('SELECT min(created_at) AS at FROM tenants');
  const [first] = await listLogPartitions(session);
  const at = oldest[0]?.at;
  if (!at || !first?.to_id || first.from_id !== null || !(await isEmptyPartition(session, first.name))) return;
  const monthsSince = (month: number): string => firstIdOfMonth(at, month);
  await session.query(`DROP TABLE ${quoted(first.name)}`);
  let from_id: string | null = null;
  for (let month = 0; from_id === null || from_id < first.to_id; month += 1) {
    const to_id: string = monthsSince(month) < first.to_id ? monthsSince(month) : first.to_id;
    await make(session, { name: partitionName(from_id, to_id), from_id, to_id });
    from_id = to_id;
  }
};

/** Lines of JSON that are read from the database at once. */
const LINES_AT_ONCE = 1_000;

export type LogLine = { tenant_id: string; line: string };

/**
 * The rows of a partition, as of one moment, as JSON with the names of the columns. Absent is NULL. In the order of tenants and ids,
 * which is that of the leaves of their trees.
 */
export const readLogPartition = async function* (session: Client, name: string): AsyncGenerator<LogLine[]> {
  await session.query('BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY');
  try {
    await session.query(
      `DECLARE log_lines NO SCROLL CURSOR FOR
       SELECT tenant_id, ${LOG_LINE} FROM ${quoted(name)} AS l
       ORDER BY tenant_id, id`,
    );
    for (;;) {
      const { rows } = await session.query<LogLine>(`FETCH ${LINES_AT_ONCE} FROM log_lines`);
      if (rows.length === 0) break;
      yield rows;
    }
  } finally {
    await session.query('ROLLBACK');
  }
};
