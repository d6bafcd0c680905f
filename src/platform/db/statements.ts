// Runs raw SQL over the pool: named statements and transactions. Maps database errors to AppErrors.
import type { ClientBase, Pool } from 'pg';
import type { Accounts } from '../base/accounts.ts';
import { mark } from '../base/event-loop.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { faultOf } from './faults.ts';
import { ALL_TENANTS, beginNaming, namesOf, queryNaming } from './named-tenants.ts';
import { findShardCalls, type ShardCall, type ShardFunction } from './shard-functions.ts';
import { traced } from './traced.ts';

// A fair queue for connections: tenants take turns, so that one statement of a tenant does not wait for ten of another.

type TenantQueue = {
  /** Runs work when it is the tenant's turn. @throws what the work throws; as `reserve` of accounts. */
  run<T>(tenant_id: string, work: () => Promise<T>): Promise<T>;
  /** How much waits. */
  length(): number;
};

/**
 * @param name the limit on waiting work. Work that runs at once is not counted.
 * @param most work of all tenants that may run at once.
 */
const createTenantQueue = (
  accounts: Pick<Accounts, 'reserve'>,
  name: 'transactions' | 'statements',
  most: number,
): TenantQueue => {
  /** Waiting work by tenant, in the order of turns. */
  const waiting = new Map<string, (() => void)[]>();
  let running = 0;

  const wait = async (tenant_id: string): Promise<void> => {
    const reservation = accounts.reserve(tenant_id, name, 1);
    try {
      await new Promise<void>((begin) => {
        const own = waiting.get(tenant_id);
        if (own) own.push(begin);
        else waiting.set(tenant_id, [begin]);
      });
    } finally {
      reservation.release();
    }
  };

  const leave = (): void => {
    const [next] = waiting;
    if (!next) return void (running -= 1);
    const [tenant_id, own] = next;
    const begin = own.shift();
    // The tenant goes to the end of the queue.
    waiting.delete(tenant_id);
    if (own.length > 0) waiting.set(tenant_id, own);
    return begin?.();
  };

  return {
    length: () => {
      let count = 0;
      for (const own of waiting.values()) count += own.length;
      return count;
    },
    run: async (tenant_id, work) => {
      if (running < most) running += 1;
      else await wait(tenant_id);
      try {
        return await work();
      } finally {
        leave();
      }
    },
  };
};

/**
 * Sealed bytes that one request may read, since all of them are in memory at once. Rows beyond it come without `sealed`. A
 * single row always comes whole: its size was limited when it was written.
 */
const SEALED_BYTES_MAX = 16 * 1024 * 1024;

/** SQL that applies the limit. PostgreSQL knows the sizes of large values without reading them. */
export const boundSealed = (columns: string, rows: string): string => `
SELECT ${columns.replace('sealed', `CASE WHEN so_far <= ${SEALED_BYTES_MAX} OR so_far = octet_length(sealed) THEN sealed END AS sealed`)}
FROM (SELECT *, sum(octet_length(sealed)) OVER (ROWS UNBOUNDED PRECEDING) AS so_far FROM (${rows}) AS unbounded) AS bounded`;

/** No text has a byte that follows its bytes. */
const LAST_CHARACTER = '\u{10ffff}';

/**
 * SQL for texts that begin with a prefix, in a column that is ordered by bytes (COLLATE "C"). Beside LIKE: behind row-level security
 * PostgreSQL makes no bounds of a pattern, and would not use the index of the column.
 */
export const beginsBytewise = (column: string, prefix: string, add: (value: string) => string): string =>
  `${column} BETWEEN ${add(prefix)} AND ${add(`${prefix}${LAST_CHARACTER}`)}`;

/** A named statement is prepared once for each connection. Pass undefined as name for a text that varies. */
// oxlint-disable-next-line typescript/no-explicit-any -- the statement decides the shape of rows; the caller names the type
export type Query = (name: string | undefined, text: string, values: unknown[]) => Promise<any[]>;

/** The same query, with a span for each statement. */
export const tracedQuery = (query: Query, tracing: Tracing | undefined): Query =>
  tracing ? (name, text, values) => traced(tracing, name ?? 'statement', () => query(name, text, values)) : query;

export type Statements = {
  query: Query;
  /** Runs work in one transaction. @throws what work throws; unavailable; too_many_requests when too many of the tenant wait. */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T>;
};

/** Statements of one tenant. They wait for the turn of the tenant. */
export type TenantStatements = Statements & {
  /** Counts work among the single statements of the tenant. */
  inTurn<T>(work: () => Promise<T>): Promise<T>;
  /** Counts work among its transactions. */
  inTransactionTurn<T>(work: () => Promise<T>): Promise<T>;
};

/**
 * The share of the pool that transactions may use, since they hold a connection over several round trips. Single statements
 * of tenants may use the same share. The rest is for batches.
 */
const POOL_SHARE = 0.4;

/** The queue of the server's own work. */
const SERVER = 'server';

export const createStatements = (
  pool: Pool,
  poolMax: number,
  accounts: Accounts,
  metrics: Metrics,
  tracing?: Tracing,
) => {
  let shardCalls: ReadonlyMap<string, ShardCall> = new Map();
  const leftOut = new Set<string>();
  /** @param tenants whose rows the statements see; undefined for rows of no tenant. */
  const untracedOn =
    (client: Pool | ClientBase, tenants?: string): Query =>
    async (name, text, values) => {
      const call = name === undefined ? undefined : shardCalls.get(name);
      const asked = call ?? (name === undefined ? { text } : { name, text });
      try {
        const run =
          tenants === undefined
            ? client.query({ ...asked, values })
            : queryNaming(client, tenants, { ...asked, values });
        const { rows } = await run;
        mark();
        return rows;
      } catch (error) {
        throw faultOf(error);
      }
    };

  const queryOn = (client: Pool | ClientBase, tenants?: string): Query => {
    const run = tracedQuery(untracedOn(client, tenants), tracing);
    return async (name, ...rest) => (name !== undefined && leftOut.has(name) ? [] : run(name, ...rest));
  };
  const query = queryOn(pool, ALL_TENANTS);
  const most = Math.max(1, Math.floor(poolMax * POOL_SHARE));
  const transactions = createTenantQueue(accounts, 'transactions', most);
  const singles = createTenantQueue(accounts, 'statements', most);
  metrics.read('strongroom_queue_length', () => [
    [{ queue: 'transactions' }, transactions.length()],
    [{ queue: 'statements' }, singles.length()],
  ]);

  const transact = async <T>(tenants: string, work: (query: Query) => Promise<T>): Promise<T> => {
    const client = await pool.connect().catch((error: unknown) => {
      throw faultOf(error);
    });
    const within = queryOn(client);
    let broken = false;
    try {
      await traced(tracing, 'begin', () => beginNaming(client, tenants)).catch((error: unknown) => {
        throw faultOf(error);
      });
      const result = await work(within);
      await within('commit', 'COMMIT', []);
      return result;
    } catch (error) {
      await client.query('ROLLBACK').catch(() => (broken = true));
      throw error;
    } finally {
      client.release(broken);
    }
  };

  const statementsOf = (tenant_id: string, tenants: string): TenantStatements => {
    const run = queryOn(pool, tenants);
    return {
      query: (...asked) => singles.run(tenant_id, () => run(...asked)),
      transaction: (work) =>
        transactions.run(tenant_id, () => traced(tracing, 'transaction', () => transact(tenants, work))),
      inTurn: (work) => singles.run(tenant_id, work),
      inTransactionTurn: (work) => transactions.run(tenant_id, work),
    };
  };

  return {
    /** Sees rows of every tenant, and does not wait for a turn: for look-ups before the tenant is known, and the server's own work. */
    query,
    /** The same, without a name. */
    ask: (text: string, values: unknown[]): Promise<Record<string, unknown>[]> => query(undefined, text, values),
    /** Sees rows of these tenants, and does not wait for a turn. */
    queryOf: (...tenant_ids: string[]): Query => queryOn(pool, namesOf(tenant_ids)),
    /**
     * For batches, each of several requests: the span of a request is that of its wait for the batch.
     * @param tenant_id undefined for rows that belong to no tenant.
     */
    queryForBatch: (tenant_id: string | undefined): Query => untracedOn(pool, tenant_id),
    /** Changes rows of every tenant. @returns how many. @throws unavailable. */
    change: async (text: string, values: unknown[]): Promise<number> => {
      try {
        return (await queryNaming(pool, ALL_TENANTS, { text, values })).rowCount ?? 0;
      } catch (error) {
        throw faultOf(error);
      }
    },
    /** Rows of no tenant, on a connection that the pool has not given out yet. */
    untracedOn: (client: ClientBase): Query => untracedOn(client),
    /** Sees rows of every tenant. */
    transaction: statementsOf(SERVER, ALL_TENANTS).transaction,
    /** @param tenants whose rows they see. */
    for: statementsOf,
    /** Does not run statements of this name from now on: the database has triggers that do the same. */
    leaveOut: (name: string): void => void leftOut.add(name),
    /** Calls functions in place of statements from now on, where the database has them. @throws unavailable. */
    useShardFunctions: async (functions: readonly ShardFunction[]): Promise<void> => {
      shardCalls = await findShardCalls((text, values) => query(undefined, text, values), functions);
    },
  };
};
