// Runs a transaction of one tenant. Before the commit it writes log rows, the kept response of an idempotency key, and
// notices for caches.
import type { LogMac } from '../crypto/log-mac.ts';
import type { NewEvent } from './event-types.ts';
import { insertLogs, type NewLog, type SignedLog } from './audit-rows.ts';
import { type Change, type Changes, noticeOf } from '../base/cache.ts';
import type { Prisma } from '../../generated/prisma/client.ts';
import type { TenantDatabase } from './database.ts';
import { NOTIFY } from './notices.ts';
import { createSigning, type Signing } from './signing.ts';
import type { SignedRows } from './signed-rows.ts';
import type { Query } from './statements.ts';
import { failure } from '../base/errors.ts';

/** A response to keep for an idempotency key. `sealed` is base64. */
export type KeptAnswer = { id: string; claim: string; status: number; sealed: string; expires_at: Date };

const KEEP = `
UPDATE idempotency_keys SET status = $4, sealed = decode($5, 'base64'), expires_at = $6
WHERE tenant_id = $1 AND id = $2 AND claim = $3 AND sealed IS NULL
RETURNING id`;

/** @throws conflict if another request has taken over the key. The transaction must fail then. */
export const keepAnswer = async (query: Query, tenantId: string, answer: KeptAnswer): Promise<void> => {
  const { id, claim, status, sealed, expires_at } = answer;
  const kept = await query('keep-answer', KEEP, [tenantId, id, claim, status, sealed, expires_at]);
  if (kept.length === 0)
    throw failure('idempotency_in_progress', 'Another request with this idempotency key took over.');
};

/** A transaction on hot tables: tokens, their values and log rows. */
export type Transaction = {
  readonly tenant_id: string;
  readonly query: Query;
  /** Adds log rows, which are written before the commit. */
  log(...rows: NewLog[]): void;
  /** For a statement that writes its log row itself. */
  signLog(row: NewLog): SignedLog;
  /** The same for one that makes the row of its own columns. */
  macOfLog(row: NewLog): LogMac;
  /** Adds a change that caches must forget: announced in this process, and to the others by a notice with the commit. */
  changed(change: Change): void;
};

/** A transaction on all other tables. `query` is for SQL that Prisma cannot express, such as locks. */
export type PrismaTransaction = Transaction & {
  readonly prisma: Prisma.TransactionClient;
  /** Adds log rows of another tenant, which a person is a member of as well. */
  logIn(tenant_id: string, ...rows: NewLog[]): void;
  /** Must be told of each row that authorises before the row is written. */
  readonly signing: Signing;
  readonly signedRows: SignedRows;
};

/** Collects what a transaction writes before its commit. */
const createEnding = ({
  tenant_id: own,
  logMacs,
  events,
}: Pick<TenantDatabase, 'tenant_id' | 'logMacs' | 'events'>) => {
  const logs = new Map<string, SignedLog[]>();
  const newEvents = new Map<string, NewEvent[]>();
  const changes: Change[] = [];
  const note = (tenant_id: string, rows: readonly NewLog[]): void => {
    const found = events.ofLogs(tenant_id, rows);
    if (found.length > 0) newEvents.set(tenant_id, [...(newEvents.get(tenant_id) ?? []), ...found]);
  };
  const macOfLog = (row: NewLog): LogMac => {
    note(own, [row]);
    return logMacs.macOf(own, row);
  };
  const signLog = (row: NewLog): SignedLog => {
    note(own, [row]);
    return logMacs.sign(own, row);
  };
  const logIn = (tenant_id: string, ...rows: NewLog[]): void => {
    note(tenant_id, rows);
    const signed = rows.map((row) => logMacs.sign(tenant_id, row));
    logs.set(tenant_id, [...(logs.get(tenant_id) ?? []), ...signed]);
  };
  return {
    changes,
    macOfLog,
    signLog,
    logIn,
    log: (...rows: NewLog[]): void => logIn(own, ...rows),
    changed: (change: Change): void => void changes.push(change),
    async write(query: Query, answer: KeptAnswer | undefined): Promise<void> {
      for (const [tenant_id, rows] of logs) if (rows.length > 0) await insertLogs(query, tenant_id, rows);
      for (const [tenant_id, found] of newEvents) await events.queue(query, tenant_id, found);
      if (answer) await keepAnswer(query, own, answer);
      for (const change of changes) await query('notify', NOTIFY, [noticeOf(change)]);
    },
  };
};

type Ending = ReturnType<typeof createEnding>;

/** Announces changes even if the transaction failed: it may have committed before its connection was lost. */
const announcing = async <T>(db: TenantDatabase, changes: Changes, run: (ending: Ending) => Promise<T>): Promise<T> => {
  const ending = createEnding(db);
  try {
    return await run(ending);
  } finally {
    for (const change of ending.changes) changes.announce(change);
  }
};

/**
 * Runs work in one transaction.
 * @param keep makes the kept response from the result of the work; undefined for a request without an idempotency key.
 * @throws what the work throws; conflict if another request took over the idempotency key; unavailable.
 */
export const runTransaction = <T>(
  db: TenantDatabase,
  changes: Changes,
  keep: ((result: T) => KeptAnswer) | undefined,
  work: (tx: Transaction) => Promise<T>,
): Promise<T> =>
  announcing(db, changes, (ending) =>
    db.transaction(async (query) => {
      const { log, macOfLog, signLog, changed } = ending;
      const result = await work({ tenant_id: db.tenant_id, query, log, macOfLog, signLog, changed });
      await ending.write(query, keep?.(result));
      return result;
    }),
  );

/** Does what `runTransaction` does, with Prisma. */
export const runPrismaTransaction = <T>(
  db: TenantDatabase,
  changes: Changes,
  keep: ((result: T) => KeptAnswer) | undefined,
  work: (tx: PrismaTransaction) => Promise<T>,
): Promise<T> =>
  announcing(db, changes, async (ending) => {
    const { tenant_id, signedRows } = db;
    const { log, logIn, macOfLog, signLog, changed } = ending;
    let commit = (): void => undefined;
    const done = await db.prismaTransaction(async (prisma, query) => {
      const signing = createSigning(signedRows, tenant_id, query);
      const own = { tenant_id, query, prisma, signing, signedRows };
      const result = await work({ ...own, log, logIn, macOfLog, signLog, changed });
      await signing.write();
      await ending.write(query, keep?.(result));
      commit = signing.committed;
      return result;
    });
    commit();
    return done;
  });
