// Runs Prisma over the connection pool, for tables off the hot path. Maps its errors to AppErrors.
import { AsyncLocalStorage } from 'node:async_hooks';
import { internal } from '../base/errors.ts';
import { mark } from '../base/event-loop.ts';
import { PrismaPg } from '@prisma/adapter-pg';
import { LRUCache } from 'lru-cache';
import type { Pool, PoolClient, QueryConfig } from 'pg';
import { z } from 'zod';
import { Prisma, PrismaClient } from '../../generated/prisma/client.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { faultOf } from './faults.ts';
import { beginNaming, queryNaming } from './named-tenants.ts';
import { type Query, tracedQuery } from './statements.ts';
import { traced } from './traced.ts';

/** Cached statement names for each process. The text of Prisma's statements varies (IN lists). */
const STATEMENT_NAMES_MAX = 500;

/**
 * Prisma combines look-ups by `findUnique` of different callers into one statement, which could name the tenant of one of them
 * only. `findFirst` does the same for one caller. Within a transaction both are safe.
 */
export type Separate<Client> = {
  [Name in keyof Client]: Client[Name] extends { findUnique: unknown }
    ? Omit<Client[Name], 'findUnique' | 'findUniqueOrThrow'>
    : Client[Name];
};

/** Runs statements of Prisma. Its error messages are dropped: they hold the arguments. */
export type PrismaRun = <T>(work: (client: Separate<PrismaClient>) => Promise<T>) => Promise<T>;

/** @param tenants whose rows the statements see. */
type Guarded = <T>(tenants: string, work: (client: PrismaClient) => Promise<T>) => Promise<T>;

/** An object with other functions in place of some of its own. */
const withFunctions = <T extends object>(target: T, functions: Record<string, unknown>): T =>
  new Proxy(target, {
    get: (_, key) => {
      const value: unknown = (typeof key === 'string' && functions[key]) || Reflect.get(target, key);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });

/** The pool as Prisma sees it: its single statements, and BEGIN of a transaction, name the tenants of their caller. */
const namingPool = (pool: Pool, caller: AsyncLocalStorage<string>): Pool =>
  withFunctions(pool, {
    query: (config: QueryConfig) => queryNaming(pool, caller.getStore() ?? '', config),
    connect: async (): Promise<PoolClient> => {
      const tenants = caller.getStore() ?? '';
      const client = await pool.connect();
      const query = (config: QueryConfig) =>
        config.text === 'BEGIN' ? beginNaming(client, tenants) : client.query(config);
      return withFunctions(client, { query });
    },
  });

/** @param nameStatement derives a name from the text of a statement, so that a name always means the same statement. */
export const createPrisma = (
  pool: Pool,
  nameStatement: (sql: string) => string,
  tracing: Tracing | undefined,
): { guarded: Guarded; close(): Promise<void> } => {
  const statementNames = new LRUCache<string, string>({ max: STATEMENT_NAMES_MAX });
  const statementNameGenerator = ({ sql }: { sql: string }): string => {
    let name = statementNames.get(sql);
    if (name === undefined) statementNames.set(sql, (name = nameStatement(sql)));
    return name;
  };
  const caller = new AsyncLocalStorage<string>();
  const adapter = new PrismaPg(namingPool(pool, caller), { statementNameGenerator });
  const plain = new PrismaClient({ adapter, log: [] });
  const prisma = tracing ? tracedPrisma(plain, tracing) : plain;
  return {
    guarded: async (tenants, work) => {
      try {
        // Prisma starts when it is awaited, so it is awaited within.
        const result = await caller.run(tenants, async () => await work(prisma));
        mark();
        return result;
      } catch (error) {
        throw prismaFault(error);
      }
    },
    close: () => plain.$disconnect(),
  };
};

/** The same client, with a span for each operation, such as `proxies.findFirst`. */
const tracedPrisma = (client: PrismaClient, tracing: Tracing): PrismaClient =>
  client.$extends({
    query: {
      $allModels: {
        $allOperations: ({ model, operation, args, query }) =>
          traced(tracing, `${model}.${operation}`, () => query(args)),
      },
    },
    // Its type is another, though it does all that is used here.
  }) as unknown as PrismaClient;

/** Maps Prisma's errors. P2002 is a unique violation. */
const prismaFault = (error: unknown) => {
  if (error instanceof Prisma.PrismaClientKnownRequestError && error.code === 'P2002')
    return faultOf(Object.assign(new Error('duplicate'), { code: '23505', cause: error }));
  // P1xxx: the database cannot be reached or refuses the login. P2024: no free connection in the pool. P2028: the
  // transaction timed out. P2034: a write conflict or deadlock.
  if (error instanceof Prisma.PrismaClientKnownRequestError && /^P1|^P2024$|^P2028$|^P2034$/.test(error.code))
    return faultOf(Object.assign(new Error('away'), { code: 'ECONNREFUSED', cause: error }));
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined) return faultOf(Object.assign(new Error('refused'), { code: sqlState, cause: error }));
  if (error instanceof Prisma.PrismaClientValidationError)
    return faultOf(Object.assign(new Error('the server made an invalid query'), { code: 'query' }));
  return faultOf(error);
};

/** The SQLSTATE of PostgreSQL, if Prisma's error carries it. */
const sqlStateOf = (error: unknown): string | undefined => {
  const { meta, cause } = error as { meta?: { driverAdapterError?: { cause?: unknown } }; cause?: unknown };
  for (const from of [meta?.driverAdapterError?.cause, cause, (cause as { cause?: unknown } | undefined)?.cause]) {
    const code = (from as { originalCode?: unknown } | undefined)?.originalCode;
    if (typeof code === 'string') return code;
  }
  return undefined;
};

/** Longer than the statement timeout, so that PostgreSQL ends a slow statement before Prisma does. */
const TRANSACTION_TIMEOUT_MS = 60_000;
/** Transactions have waited for their turn before: if no connection is free then, the database is unavailable. */
const CONNECTION_TIMEOUT_MS = 10_000;

/** Error classes of the language and of zod. Errors of drivers have other classes. */
const bugs = [TypeError, RangeError, ReferenceError, SyntaxError, z.ZodError];

/** A bug in the work must not look like an unavailable database. @throws internal for a bug; else the error. */
const asBug = (error: unknown): never => {
  throw bugs.some((bug) => error instanceof bug) ? internal(error) : error;
};

/** Runs work in a Prisma transaction. `query` runs statements in the same transaction. */
export const prismaTransaction = <T>(
  guarded: Guarded,
  tenants: string,
  tracing: Tracing | undefined,
  work: (tx: Prisma.TransactionClient, query: Query) => Promise<T>,
): Promise<T> =>
  traced(tracing, 'transaction', () =>
    guarded(tenants, (client) =>
      client.$transaction(
        (tx) => {
          const query: Query = (_, text, values) => tx.$queryRawUnsafe<unknown[]>(text, ...values);
          return work(tx, tracedQuery(query, tracing)).catch(asBug);
        },
        {
          timeout: TRANSACTION_TIMEOUT_MS,
          maxWait: CONNECTION_TIMEOUT_MS,
        },
      ),
    ),
  );
