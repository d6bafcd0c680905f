// The connection pool, and a handle for each tenant through which all statements on the tenant's rows go.
// Look-ups before a caller is known use `statements`, in functions named `...BeforeCaller`.
import { type ClientBase, Pool, type PoolConfig } from 'pg';
import { setTimeout as pause } from 'node:timers/promises';
import { POOL_NAME } from './application-names.ts';
import { createLogMacs, type LogMacs } from './log-macs.ts';
import { createLogWriter, insertLogs, insertRefusal, type NewLog } from './audit-rows.ts';
import { createEvents, type Events } from './events.ts';
import { createRunWriter, insertRuns, type NewRun, signRun } from './run-rows.ts';
import type { Prisma } from '../../generated/prisma/client.ts';
import { createPrisma, type PrismaRun, prismaTransaction } from './prisma.ts';
import { ALL_TENANTS, NAME_TENANTS } from './named-tenants.ts';
import { findServerRole } from './server-role.ts';
import { createSignedRows, type SignedRows } from './signed-rows.ts';
import { createStatements, type Query, type Statements } from './statements.ts';
import type { Accounts } from '../base/accounts.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { createTimedClient } from './timed-client.ts';

// Learns on each new connection which history of the database it meets. A failover and a recovery begin another one.

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
type History = { system: string; database: string; timeline: number };

type HistoryListener = {
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
const createHistoryWatch = (listener: HistoryListener) => {
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

/** A database that does not answer in this time counts as unavailable: the client gets a 503. */
const CONNECT_TIMEOUT_MS = 2_000;
const QUERY_TIMEOUT_MS = 10_000;
/** PostgreSQL's own statement timeout comes first. If no error arrives, the connection is closed. */
const SILENCE_MS = QUERY_TIMEOUT_MS + 1_000;

/** Work that may come later waits for more of it: one statement for many rows costs a fraction of one for each. */
const TOGETHER_MS = 100;

/** The handle for one tenant's rows. */
export type TenantDatabase = Statements & {
  readonly tenant_id: string;
  readonly signedRows: SignedRows;
  readonly logMacs: LogMacs;
  readonly events: Events;
  readonly prisma: PrismaRun;
  /** Runs work in a Prisma transaction; `query` runs in the same transaction. */
  prismaTransaction<T>(work: (prisma: Prisma.TransactionClient, query: Query) => Promise<T>): Promise<T>;
  /** Appends rows of the log. Resolves after commit. @throws unavailable. */
  insertLogs(rows: readonly NewLog[]): Promise<void>;
  /** Appends the row of a refusal, as `insertRefusal` of audit-rows.ts. */
  insertRefusal(row: NewLog, from_id: string, most: number, apart: string): Promise<boolean>;
  /** Writes the ends of runs. Resolves after commit. @throws unavailable. */
  insertRuns(runs: readonly NewRun[], at: Date): Promise<void>;
};

/** The part that runs single statements. */
export type TenantQuery = Pick<TenantDatabase, 'tenant_id' | 'query'>;

export type Database = ReturnType<typeof createDatabase>;

/** Connects on first use. @param poolConfig the database, as pg takes it. @param options limits, see config.ts. */
export const createDatabase = (
  poolConfig: PoolConfig,
  options: {
    accounts: Accounts;
    metrics: Metrics;
    tracing?: Tracing | undefined;
    poolMax: number;
    writeBatches: number;
    nameStatement: (sql: string) => string;
    onPoolError: (error: Error) => void;
    onHistory: HistoryListener;
  },
) => {
  const TimedClient = createTimedClient(SILENCE_MS);
  type TimedClient = InstanceType<typeof TimedClient>;
  /** All of the pool, which does not list them. */
  const connections = new Set<TimedClient>();
  let prepareConnection: (on: Query) => Promise<unknown> = async () => undefined;
  const pool = new Pool({
    ...poolConfig,
    max: options.poolMax,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    Client: TimedClient,
    // A statement whose client has given up must not go on in the database.
    statement_timeout: QUERY_TIMEOUT_MS,
    idle_in_transaction_session_timeout: QUERY_TIMEOUT_MS,
    application_name: POOL_NAME,
    // Prisma sends and reads times without an offset, as if the time zone of the connection were UTC.
    // Every statement is written for an index. Where PostgreSQL misjudges how many rows a condition finds, it reads a whole
    // table in the hope of finding enough of them soon: 2.5 s at ten million tokens where the index takes 17 ms. Awaited
    // before the first query of the connection: pg warns of a query that is sent while another is under way.
    onConnect: async (client) => {
      await client.query("SET TimeZone = 'UTC'; SET enable_seqscan = off");
      await client.query({ ...NAME_TENANTS, values: [''] });
      await history.meet(client);
      connections.add(client as TimedClient);
      await prepareConnection(statements.untracedOn(client));
    },
  });
  pool.on('remove', (client) => connections.delete(client as unknown as TimedClient));
  // The pool replaces an idle connection that breaks. Without a listener the error would end the process.
  pool.on('error', options.onPoolError);
  const { metrics, tracing } = options;
  metrics.read('strongroom_database_connections', () => [
    [{ state: 'used' }, pool.totalCount - pool.idleCount],
    [{ state: 'idle' }, pool.idleCount],
  ]);
  metrics.read('strongroom_database_connections_max', () => [[{}, options.poolMax]]);
  metrics.read('strongroom_database_waiting', () => [[{}, pool.waitingCount]]);
  const { guarded, close: closePrisma } = createPrisma(pool, options.nameStatement, tracing);
  const statements = createStatements(pool, options.poolMax, options.accounts, metrics, tracing);
  const logMacs = createLogMacs();
  const events = createEvents(statements.query, logMacs);
  const { accounts, writeBatches } = options;
  const logs = createLogWriter(statements.queryForBatch, logMacs, writeBatches, accounts, metrics, tracing);
  const runs = createRunWriter(statements.queryForBatch, logMacs.macOfRun, writeBatches, accounts, metrics, tracing);
  let together: Promise<void> | undefined;
  const under_way = new Set<Promise<unknown>>();
  const drains = [() => Promise.all(under_way), () => logs.drain(), () => runs.drain()];
  const signedRows = createSignedRows(metrics);
  const history = createHistoryWatch({
    ...options.onHistory,
    changed: (before, after) => {
      // What the former leader still answers must not be remembered, nor cached.
      for (const connection of connections)
        connection.closeNow('the connection leads to a former history of the database');
      connections.clear();
      signedRows.forget();
      options.onHistory.changed(before, after);
    },
  });
  const forTenant = (tenant_id: string, tenants: string): TenantDatabase => {
    const { query, transaction, inTurn, inTransactionTurn } = statements.for(tenant_id, tenants);
    return {
      tenant_id,
      query,
      transaction,
      signedRows,
      logMacs,
      events,
      prisma: (work) => inTurn(() => guarded(tenants, work)),
      prismaTransaction: (work) => inTransactionTurn(() => prismaTransaction(guarded, tenants, tracing, work)),
      // Rows that are events are rare here, and have a transaction of their own: no statement of others is longer for them.
      insertLogs: async (rows) => {
        const found = events.ofLogs(tenant_id, rows);
        if (found.length === 0) return logs.insert(tenant_id, rows);
        await transaction(async (within) => {
          const signed = rows.map((row) => logMacs.sign(tenant_id, row));
          await insertLogs(within, tenant_id, signed);
          await events.queue(within, tenant_id, found);
        });
      },
      insertRefusal: async (row, ...limit) => {
        const found = events.ofLogs(tenant_id, [row]);
        const signed = logMacs.sign(tenant_id, row);
        if (found.length === 0) return insertRefusal(statements.query, tenant_id, signed, ...limit);
        return transaction(async (within) => {
          const isWritten = await insertRefusal(within, tenant_id, signed, ...limit);
          await events.queue(within, tenant_id, found);
          return isWritten;
        });
      },
      insertRuns: async (ended, at) => {
        const found = events.ofRuns(tenant_id, ended, at);
        if (found.length === 0) return runs.insert(tenant_id, ended);
        await transaction(async (within) => {
          const signed = ended.map((run) => signRun(logMacs.macOfRun, tenant_id, run));
          await insertRuns(within, tenant_id, signed);
          await events.queue(within, tenant_id, found);
        });
      },
    };
  };

  return {
    pool,
    statements,
    /** Verifies rows that authorise. */
    signedRows,
    /** Makes and verifies the MACs of rows of the log. */
    logMacs,
    /** Writes events for webhooks. */
    events,
    /** Sees rows of every tenant, as `statements` does. */
    prisma: ((work) => guarded(ALL_TENANTS, work)) as PrismaRun,
    /** For rows that belong to no tenant. */
    prismaTransaction: forTenant('server', ALL_TENANTS).prismaTransaction,
    accounts: options.accounts,
    metrics,
    /** Undefined where traces are off. */
    tracing,
    /** Batches of one kind of statement that may run at once. */
    batchesMax: options.writeBatches,

    /** The handle for one tenant. Row-level security hides the rows of all others from it. */
    for: ({ tenant_id }: { tenant_id: string }): TenantDatabase => forTenant(tenant_id, tenant_id),

    /** The same for what a person has in several tenants: their sessions, and a log row in each tenant. */
    forPerson: ({ tenant_id }: { tenant_id: string }): TenantDatabase => forTenant(tenant_id, ALL_TENANTS),

    /** The rights of this process's database role. @throws unavailable. */
    findServerRole: () => findServerRole(statements.query),

    /** One round trip. @throws unavailable. */
    ping: async (): Promise<void> => {
      await statements.query(undefined, 'SELECT 1', []);
    },

    /** Sets work for each new connection, before its first query: the database may have crashed or failed over before. */
    onConnect: (prepare: (on: Query) => Promise<unknown>): void => void (prepareConnection = prepare),

    /** Does work within a tenth of a second, together with other such work, and before connections close. It must not throw. */
    later: (work: () => Promise<unknown>): void => {
      together ??= pause(TOGETHER_MS).then(() => (together = undefined));
      const done = together.then(work).finally(() => under_way.delete(done));
      under_way.add(done);
    },

    /** Registers work that must finish before connections close. */
    beforeClose: (drain: () => Promise<unknown>): void => void drains.push(drain as () => Promise<void>),

    /** Waits for pending writes, then closes every connection. */
    close: async (): Promise<void> => {
      if (pool.ending) return;
      await Promise.all(drains.map((drain) => drain()));
      await closePrisma();
      await pool.end();
    },
  };
};
