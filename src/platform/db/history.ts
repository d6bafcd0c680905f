// Learns on each new connection which history of the database it meets. A failover and a recovery begin another one.
import type { ClientBase } from 'pg';

/**
 * The name of a WAL segment begins with the timeline, in 8 digits. `pg_control_checkpoint` has the timeline too, but shows the former
 * one until the first checkpoint after a promotion. A standby has no position to write at. Functions, operators and types are named
 * with their schema: the search path of a role is one of its own settings.
 */
const FIND_HISTORY = `SELECT system_identifier::pg_catalog.text AS system, d.oid::pg_catalog.text AS database,
  CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL
    ELSE pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) END AS segment
FROM pg_catalog.pg_control_system(), pg_catalog.pg_database d
WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()`;

const TIMELINE_DIGITS = 8;

/** What an operator finds in the log of PostgreSQL and in `pg_control`. */
export type History = { system: string; database: string; timeline: number };

export type HistoryListener = {
  /** Before the first query of the connection that found it. */
  changed(before: History, after: History): void;
  /** Once. The database does not tell: not each service that speaks the protocol has these functions. */
  unreadable(error: unknown): void;
};

/** The connection is lost or ending (SQLSTATE classes 08 and 57), or pg gives no SQLSTATE. */
const isOfConnection = (error: unknown): boolean => {
  const { code } = error as { code?: unknown };
  return typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code) || /^(?:08|57)/.test(code);
};

/** @throws an Error for a standby; what pg throws. */
const findHistory = async (on: Pick<ClientBase, 'query'>): Promise<History> => {
  const { rows } = await on.query<{ system: string; database: string; segment: string | null }>(FIND_HISTORY);
  const [row] = rows;
  // It takes no writes, and may be promoted while this connection lives.
  if (!row?.segment) throw new Error('the database is a standby');
  const { system, database, segment } = row;
  return { system, database, timeline: Number.parseInt(segment.slice(0, TIMELINE_DIGITS), 16) };
};

const isSame = (one: History, other: History): boolean =>
  one.system === other.system && one.database === other.database && one.timeline === other.timeline;

/** One for each process. */
export const createHistoryWatch = (listener: HistoryListener) => {
  let known: History | undefined;
  let wasUnreadable = false;

  return {
    /** Called on each new connection, before its first query. @throws where the connection must not be used. */
    meet: async (on: Pick<ClientBase, 'query'>): Promise<void> => {
      let found: History;
      try {
        found = await findHistory(on);
      } catch (error) {
        if (isOfConnection(error)) throw error;
        if (!wasUnreadable) listener.unreadable(error);
        wasUnreadable = true;
        return;
      }
      const before = known;
      known = found;
      if (before && !isSame(before, found)) listener.changed(before, found);
    },
  };
};
