// Prisma, for tables that are not hot: its client over our pool, with its errors mapped to ours, and its transactions.
import { internal } from '../errors.ts';
import { PrismaPg } from '@prisma/adapter-pg';
import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import { z } from 'zod';
import { Prisma, PrismaClient } from '../../generated/prisma/client.ts';
import { faultOf } from './faults.ts';
import type { Query } from './statements.ts';

/** Prisma's statements vary in text (IN lists): names for so many are kept, per process. */
const STATEMENT_NAMES_MAX = 500;

/** Runs statements of Prisma. Its error messages are dropped: they hold the arguments. */
export type Guarded = <T>(work: (client: PrismaClient) => Promise<T>) => Promise<T>;

/** @param nameStatement a name made from a statement's text: whoever shares a connection with us can only mean the same by it. */
export const createPrisma = (
  pool: Pool,
  nameStatement: (sql: string) => string,
): { guarded: Guarded; close(): Promise<void> } => {
  const statementNames = new LRUCache<string, string>({ max: STATEMENT_NAMES_MAX });
  const statementNameGenerator = ({ sql }: { sql: string }): string => {
    let name = statementNames.get(sql);
    if (name === undefined) statementNames.set(sql, (name = nameStatement(sql)));
    return name;
  };
  const prisma = new PrismaClient({ adapter: new PrismaPg(pool, { statementNameGenerator }), log: [] });
  return {
    guarded: async (work) => {
      try {
        return await work(prisma);
      } catch (error) {
        throw prismaFault(error);
      }
    },
    close: () => prisma.$disconnect(),
  };
};

/** P2002 is Prisma's unique violation; its known request errors carry codes, everything else means that it did not reach the database. */
const prismaFault = (error: unknown) => {
  if (error instanceof Prisma.PrismaClientKnownRequestError && error.code === 'P2002')
    return faultOf(Object.assign(new Error('duplicate'), { code: '23505', cause: error }));
  // P1 is Prisma's class for a database that cannot be reached or entered, P2024 a pool without a free connection, P2028
  // a transaction that took too long, P2034 one that met another.
  if (error instanceof Prisma.PrismaClientKnownRequestError && /^P1|^P2024$|^P2028$|^P2034$/.test(error.code))
    return faultOf(Object.assign(new Error('away'), { code: 'ECONNREFUSED', cause: error }));
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined) return faultOf(Object.assign(new Error('refused'), { code: sqlState, cause: error }));
  if (error instanceof Prisma.PrismaClientValidationError)
    return faultOf(Object.assign(new Error('a query of ours is not valid'), { code: 'query' }));
  return faultOf(error);
};

/** What PostgreSQL said, where Prisma's error carries it: the adapter keeps it beside its own words. */
const sqlStateOf = (error: unknown): string | undefined => {
  const { meta, cause } = error as { meta?: { driverAdapterError?: { cause?: unknown } }; cause?: unknown };
  for (const from of [meta?.driverAdapterError?.cause, cause, (cause as { cause?: unknown } | undefined)?.cause]) {
    const code = (from as { originalCode?: unknown } | undefined)?.originalCode;
    if (typeof code === 'string') return code;
  }
  return undefined;
};

/** Longer than a statement may take: the database ends what takes too long before Prisma does. */
const TRANSACTION_TIMEOUT_MS = 60_000;
/** Transactions wait for their turn before: a connection is free by then, or the database is away. */
const CONNECTION_TIMEOUT_MS = 10_000;

/** Errors of the language and of zod: those of drivers have other classes. */
const bugs = [TypeError, RangeError, ReferenceError, SyntaxError, z.ZodError];

/** A bug of the work must not look like a database that cannot be reached. @throws internal for a bug; else the error. */
const asBug = (error: unknown): never => {
  throw bugs.some((bug) => error instanceof bug) ? internal(error) : error;
};

/** Runs work in a transaction of Prisma's. `query` runs statements in the same transaction. */
export const prismaTransaction = <T>(
  guarded: Guarded,
  work: (tx: Prisma.TransactionClient, query: Query) => Promise<T>,
): Promise<T> =>
  guarded((client) =>
    client.$transaction(
      (tx) => work(tx, (_, text, values) => tx.$queryRawUnsafe<unknown[]>(text, ...values)).catch(asBug),
      {
        timeout: TRANSACTION_TIMEOUT_MS,
        maxWait: CONNECTION_TIMEOUT_MS,
      },
    ),
  );
