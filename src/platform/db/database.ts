// The database: a pool of connections, and for each tenant a handle that every statement on the tenant's rows goes through.
// Knows no table but that of the log. What must be known before there is a caller uses `statements`, under a name that says so.
import { Pool, type PoolConfig } from 'pg';
import { createLogWriter, type NewLog } from '../audit/rows.ts';
import type { Prisma } from '../../generated/prisma/client.ts';
import { createPrisma, type Guarded, prismaTransaction } from './prisma.ts';
import { findServerRole } from './server-role.ts';
import { createStatements, type Query, type Statements } from './statements.ts';
import type { Accounts } from '../accounts.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { createTimedClient } from './timed-client.ts';

/** A database that does not answer within this is away: the client gets a 503 instead of a wait. */
const CONNECT_TIMEOUT_MS = 2_000;
const QUERY_TIMEOUT_MS = 10_000;
/** PostgreSQL ends a query itself before this. Where no end comes, the connection is cut. */
const SILENCE_MS = QUERY_TIMEOUT_MS + 1_000;

/** The way to one tenant's rows. */
export type TenantDatabase = Statements & {
  readonly tenant_id: string;
  readonly prisma: Guarded;
  /** All of the work or none, with Prisma; `query` runs in the same transaction. */
  prismaTransaction<T>(work: (prisma: Prisma.TransactionClient, query: Query) => Promise<T>): Promise<T>;
  /** Appends rows of the log. Resolves after commit. @throws unavailable. */
  insertLogs(rows: readonly NewLog[]): Promise<void>;
};

/** As much of it as one statement takes. */
export type TenantQuery = Pick<TenantDatabase, 'tenant_id' | 'query'>;

export type Database = ReturnType<typeof createDatabase>;

/** @param poolConfig where the database is, as pg takes it; @param options bounds, see config.ts. Connects on first use. */
export const createDatabase = (
  poolConfig: PoolConfig,
  options: {
    accounts: Accounts;
    metrics: Metrics;
    poolMax: number;
    writeBatches: number;
    nameStatement: (sql: string) => string;
    onPoolError: (error: Error) => void;
  },
) => {
  const pool = new Pool({
    ...poolConfig,
    max: options.poolMax,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    Client: createTimedClient(SILENCE_MS),
    // What nobody waits for any more must not go on in the database either.
    statement_timeout: QUERY_TIMEOUT_MS,
    idle_in_transaction_session_timeout: QUERY_TIMEOUT_MS,
    application_name: 'strongroom',
    // Prisma sends and reads times without an offset, as if the time zone of the connection were UTC.
    // Every statement is written for an index. Where PostgreSQL misjudges how many rows a condition finds, it reads a whole
    // table in the hope of finding enough of them soon: 2.5 s at ten million tokens where the index takes 17 ms. Awaited
    // before the first query of the connection: pg warns of a query that is sent while another is under way.
    onConnect: async (client) => {
      await client.query("SET TimeZone = 'UTC'; SET enable_seqscan = off");
    },
  });
  // An idle connection that dies is the pool's to replace; without a listener it would end the process.
  pool.on('error', options.onPoolError);
  const { metrics } = options;
  metrics.read('strongroom_database_connections', () => [
    [{ state: 'used' }, pool.totalCount - pool.idleCount],
    [{ state: 'idle' }, pool.idleCount],
  ]);
  metrics.read('strongroom_database_connections_max', () => [[{}, options.poolMax]]);
  metrics.read('strongroom_database_waiting', () => [[{}, pool.waitingCount]]);
  const { guarded: prisma, close: closePrisma } = createPrisma(pool, options.nameStatement);
  const statements = createStatements(pool, options.poolMax, options.accounts, metrics);
  const logs = createLogWriter(statements.query, options.writeBatches, options.accounts, metrics);
  const drains = [() => logs.drain()];
  const forTenant = (tenant_id: string): TenantDatabase => {
    const { query, transaction, inTurn, inTransactionTurn } = statements.for(tenant_id);
    return {
      tenant_id,
      query,
      transaction,
      prisma: (work) => inTurn(() => prisma(work)),
      prismaTransaction: (work) => inTransactionTurn(() => prismaTransaction(prisma, work)),
      insertLogs: (rows) => logs.insert(tenant_id, rows),
    };
  };

  return {
    pool,
    statements,
    prisma,
    /** Of rows that belong to no tenant. */
    prismaTransaction: forTenant('server').prismaTransaction,
    accounts: options.accounts,
    metrics,
    /** Batches of one kind of statement that may be under way at once. */
    batchesMax: options.writeBatches,

    /** The rows of one tenant. */
    for: ({ tenant_id }: { tenant_id: string }): TenantDatabase => forTenant(tenant_id),

    /** What the role of this process may do. @throws unavailable. */
    findServerRole: () => findServerRole(statements.query),

    /** One round trip. @throws unavailable. */
    ping: async (): Promise<void> => {
      await statements.query(undefined, 'SELECT 1', []);
    },

    /** Registers what must be finished before connections close. */
    beforeClose: (drain: () => Promise<unknown>): void => void drains.push(drain as () => Promise<void>),

    /** Waits for writes under way, then closes every connection. */
    close: async (): Promise<void> => {
      await Promise.all(drains.map((drain) => drain()));
      await closePrisma();
      await pool.end();
    },
  };
};
