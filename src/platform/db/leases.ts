// Leases divide periodic work among processes: one process at a time has the lease of a task. Rows of `leases`.
import type { Database } from './database.ts';

/**
 * The clock of the database decides, which all processes share. A lease is a row and not an advisory lock: it ends by itself if
 * the host of its holder vanishes, and it needs no session, which a pooler may change between transactions.
 */
const TAKE = `
INSERT INTO leases (name, holder, ends_at) VALUES ($1, $2, now() + $3 * interval '1 millisecond')
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, ends_at = excluded.ends_at
WHERE leases.holder = excluded.holder OR leases.ends_at <= now()
RETURNING name`;

const RELEASE = 'DELETE FROM leases WHERE name = $1 AND holder = $2 RETURNING name';

/** Gives the lease back, where it is still held. */
export const releaseLease = async (
  { statements }: Pick<Database, 'statements'>,
  name: string,
  holder: string,
): Promise<void> => {
  await statements.query(undefined, RELEASE, [name, holder]);
};

/** Takes the lease, or takes it for longer. @param holder an id of the process. @returns false while another process has it. */
export const takeLease = async (
  { statements }: Pick<Database, 'statements'>,
  name: string,
  holder: string,
  leaseMs: number,
): Promise<boolean> => (await statements.query('take-lease', TAKE, [name, holder, leaseMs])).length > 0;

/** Deletes ended leases of a kind that is taken once and not given back, such as those of alarms. */
export const deleteEndedLeases = async (
  { statements }: Pick<Database, 'statements'>,
  prefix: string,
): Promise<void> => {
  await statements.query(undefined, 'DELETE FROM leases WHERE starts_with(name, $1) AND ends_at <= now()', [prefix]);
};
