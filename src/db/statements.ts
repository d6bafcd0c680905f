// Raw SQL over the pool: named statements, and transactions of several of them. Gives every fault its name; knows no table.
import type { Pool, PoolClient } from 'pg';
import { unavailable } from '../errors.ts';
import { faultOf } from './faults.ts';

/** A statement under a name is prepared once a connection; pass undefined for a text that varies. */
// oxlint-disable-next-line typescript/no-explicit-any -- rows are what the statement says; its caller names their type
export type Query = (name: string | undefined, text: string, values: unknown[]) => Promise<any[]>;

export type Statements = {
  query: Query;
  /** Runs work in one transaction: all of it or none. @throws what work throws; unavailable when too many wait. */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T>;
};

/** Transactions hold a connection over several round trips: they may take so much of the pool, and the rest stays free for single statements. */
const TRANSACTIONS_SHARE = 0.4;
/** Bound of those that wait for their turn, per process. Full: 503 with Retry-After. */
const TRANSACTIONS_WAITING_MAX = 1_000;

export const createStatements = (pool: Pool, poolMax: number): Statements => {
  const queryOn =
    (client: Pool | PoolClient): Query =>
    async (name, text, values) => {
      try {
        return (await client.query(name === undefined ? { text, values } : { name, text, values })).rows;
      } catch (error) {
        throw faultOf(error);
      }
    };

  const most = Math.max(1, Math.floor(poolMax * TRANSACTIONS_SHARE));
  const waiting: (() => void)[] = [];
  let running = 0;
  const enter = (): Promise<void> | undefined => {
    if (running < most) {
      running += 1;
      return undefined;
    }
    if (waiting.length >= TRANSACTIONS_WAITING_MAX) throw unavailable();
    return new Promise((resolve) => waiting.push(resolve));
  };
  const leave = (): void => {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  };

  return {
    query: queryOn(pool),
    async transaction(work) {
      await enter();
      try {
        const client = await pool.connect().catch((error: unknown) => {
          throw faultOf(error);
        });
        const query = queryOn(client);
        let broken = false;
        try {
          await query('begin', 'BEGIN', []);
          const result = await work(query);
          await query('commit', 'COMMIT', []);
          return result;
        } catch (error) {
          await client.query('ROLLBACK').catch(() => (broken = true));
          throw error;
        } finally {
          client.release(broken);
        }
      } finally {
        leave();
      }
    },
  };
};
