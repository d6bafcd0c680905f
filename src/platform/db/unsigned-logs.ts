// Which rows of the audit log the Merkle trees take: those with a MAC, and of the time before MACs those below a position that the
// contract step sets. The position has a MAC too. It is deleted once the trees have all rows below it.
import { firstIdAt } from '../crypto/ids.ts';
import type { Database } from './database.ts';
import type { OpenLine } from '../audit/leaf.ts';

/** In the table of streams, beside the position of the trees. */
const NAME = 'unsigned-rows';

const FIND = 'SELECT position, mac FROM log_streams WHERE name = $1';
const PUT = `
INSERT INTO log_streams (name, position, mac) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET position = excluded.position, mac = excluded.mac`;
const DROP = 'DELETE FROM log_streams WHERE name = $1 AND position = $2';

type Log = Pick<Database, 'statements' | 'logMacs'>;

export type LogRule = {
  /** Rows below it may have no MAC; undefined where none may. */
  below: string | undefined;
  /** Whether each row above it must have one. */
  isRequired: boolean;
  /** Whether a tree takes a row that it does not have yet. */
  isTaken(row: { id: string; line: string | OpenLine }): boolean;
};

/** What is true of the log now. Until the upgrade is over, servers of the earlier version write rows without a MAC. @throws unavailable. */
export const findLogRule = async ({ statements, logMacs }: Log): Promise<LogRule> => {
  // Read first: the contract step sets the position before it requires MACs. The rule stays as it was read.
  const isRequired = logMacs.isRequired();
  const [found] = (await statements.query('find-unsigned-rows', FIND, [NAME])) as { position: string; mac: string }[];
  const below = found && found.mac === logMacs.macOfPosition(found.position) ? found.position : undefined;
  return {
    below,
    isRequired,
    isTaken({ id, line }) {
      const state = logMacs.stateOf(line);
      if (state !== 'none') return state === 'intact';
      return !isRequired || (below !== undefined && id < below);
    },
  };
};

/** Rows that are there now may have no MAC. Called when no server of an earlier version writes any more. @throws unavailable. */
export const allowUnsignedRows = async ({ statements, logMacs }: Log, now: Date): Promise<void> => {
  const position = firstIdAt(now.getTime());
  await statements.query('allow-unsigned-rows', PUT, [NAME, position, logMacs.macOfPosition(position)]);
};

/** All rows below the position are in trees. @throws unavailable. */
export const refuseUnsignedRows = async ({ statements }: Log, position: string): Promise<void> => {
  await statements.query('refuse-unsigned-rows', DROP, [NAME, position]);
};
