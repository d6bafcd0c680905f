// Prisma, for what is not hot: its client over our pool, its faults given their names, and what several tables share.
import { PrismaPg } from '@prisma/adapter-pg';
import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import { conflict } from '../errors.ts';
import { Prisma, PrismaClient } from '../generated/prisma/client.ts';
import { faultOf } from './faults.ts';
import type { KeptAnswer } from './idempotency.ts';
import { NOTIFY } from './notices.ts';

/** Prisma's statements vary in text (IN lists): names for so many are kept, per process. */
const STATEMENT_NAMES_MAX = 500;

/** Runs what Prisma does and drops its words: they hold the arguments (security.md section 3, Prisma). */
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

/** As `keepAnswer` in idempotency.ts, in a transaction of Prisma's. @throws conflict. */
export const keepAnswerIn = async (
  tx: Prisma.TransactionClient,
  tenant_id: string,
  { id, claim, status, sealed, expires_at }: KeptAnswer,
): Promise<void> => {
  const { count } = await tx.idempotency_keys.updateMany({
    where: { tenant_id, id, claim, sealed: null },
    data: { status, sealed: Uint8Array.from(Buffer.from(sealed, 'base64')), expires_at },
  });
  if (count === 0) throw conflict('Another request with this idempotency key went on in its place.');
};

export const notify = async (tx: Prisma.TransactionClient, notice: string): Promise<void> => {
  await tx.$executeRawUnsafe(NOTIFY, notice);
};
