// Rows of the audit log for a stream, and how far a stream has come. Rows of `log_streams`.
import { LEAST_ID } from '../crypto/ids.ts';
import type { Query } from './statements.ts';

const START = 'INSERT INTO log_streams (name, position) VALUES ($1, $2) ON CONFLICT DO NOTHING';
const FIND = 'SELECT position FROM log_streams WHERE name = $1';
const MOVE = 'UPDATE log_streams SET position = $3 WHERE name = $1 AND position = $2 RETURNING name';

/** A row of audit_log AS l as JSON; absent is NULL. One text for all: leaves hash it, and streams and archives have it. */
export const LOG_LINE = 'json_strip_nulls(row_to_json(l))::text AS line';

/** By the index on ids alone, which finds the pages of an interval. */
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
