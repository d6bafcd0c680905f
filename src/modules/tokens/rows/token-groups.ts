// Divides the new tokens of a large request into groups with a statement each, so that no text and no statement is long.
import type { LogMac } from '../../../platform/crypto/log-mac.ts';
import type { NewLog } from '../../../platform/db/audit-rows.ts';
import { mapInSlices, type Slices } from '../../../platform/json/slices.ts';
import type { NewToken, NewTokenLog } from './token-row.ts';

/**
 * Rows of a group: those of a full batch of small requests, some 100 KB of text. What is made for a group is garbage before the
 * next one, so that collections find little that lives.
 */
export const GROUP_ROWS = 200;

/** `texts`: parameters of INSERT_TOKENS, to be written in one transaction. `logs`: the log rows that are not among them. */
export type TokenGroups = { rows: number; bytes: number; texts: string[]; logs: NewLog[] };

const logOf = ({ log_id, type, created_at, created_by }: NewToken, created: NewTokenLog): NewLog => ({
  id: log_id,
  actor_id: created_by,
  entity_type: type,
  entity_ids: [],
  operation: 'create',
  created_at,
  disclosure: 'none',
  outcome: 'success',
  ...created,
});

/** Adds a token to the log row that it shares with others of its `log_id`. */
const addLog = (logs: Map<string, NewLog>, row: NewToken, created: NewTokenLog): void => {
  const log = logs.get(row.log_id);
  if (log) log.entity_ids.push(row.id);
  else logs.set(row.log_id, { ...logOf(row, created), entity_ids: [row.id] });
};

/** Rows as JSON. Only the first row of each `log_id` carries the columns of the log row, and its MAC. */
export const jsonOf = (
  rows: readonly NewToken[],
  created: NewTokenLog,
  macOf: (log: NewLog) => LogMac,
): Slices<string[]> => {
  const logs = new Map<string, NewLog>();
  for (const row of rows) addLog(logs, row, created);
  return mapInSlices(rows, (row) => {
    const log = logs.get(row.log_id);
    if (!log) return JSON.stringify(row);
    logs.delete(row.log_id);
    return JSON.stringify({ ...row, ...created, log_mac: macOf(log) });
  });
};

/** Collects groups. A log row names tokens of several groups, so it is written after them. */
export const createTokenGroups = (created: NewTokenLog) => {
  const logs = new Map<string, NewLog>();
  const texts: string[] = [];
  let rowCount = 0;
  let bytes = 0;
  return {
    *add(rows: readonly NewToken[]): Slices<void> {
      const parts = yield* mapInSlices(rows, (row) => {
        addLog(logs, row, created);
        return JSON.stringify(row);
      });
      const text = `[${parts.join()}]`;
      texts.push(text);
      rowCount += rows.length;
      bytes += text.length;
    },
    end: (): TokenGroups => ({ rows: rowCount, bytes, texts, logs: [...logs.values()] }),
  };
};

/** Rows of any number. Few of them are one statement, with their log rows. */
export function* groupsOf(
  rows: readonly NewToken[],
  created: NewTokenLog,
  macOf: (log: NewLog) => LogMac,
): Slices<TokenGroups> {
  if (rows.length <= GROUP_ROWS) {
    const text = `[${(yield* jsonOf(rows, created, macOf)).join()}]`;
    return { rows: rows.length, bytes: text.length, texts: rows.length === 0 ? [] : [text], logs: [] };
  }
  const groups = createTokenGroups(created);
  for (let from = 0; from < rows.length; from += GROUP_ROWS) yield* groups.add(rows.slice(from, from + GROUP_ROWS));
  return groups.end();
}
