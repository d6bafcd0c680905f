// The partitions of the audit log, by month: lists them, and has the next ones made.
import type { Query } from './statements.ts';

/**
 * Has the partitions of the next months made where they are missing. The database does it, with the rights of the tables' owner.
 * @returns how many it made. @throws unavailable.
 */
export const addLogPartitions = async (query: Query): Promise<number> =>
  ((await query('add-log-partitions', 'SELECT add_log_partitions() AS made', [])) as { made: number }[])[0]?.made ?? 0;
