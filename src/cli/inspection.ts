// What commands open without serving: the database, the sandbox without a vault, and the mail server.
import type { Overrides } from '../context.ts';
import { createAccounts } from '../platform/base/accounts.ts';
import type { Config } from '../platform/config/config.ts';
import type { MailConfig } from '../platform/config/mail.ts';
import { environmentOf, openVault } from '../platform/keys/vault-keys.ts';
import { createKeyRows } from '../platform/keys/rows.ts';
import { isOnThisMachine } from '../platform/db/connection-errors.ts';
import { distribute, findPlacement, type Placement } from '../platform/maintenance/distribute.ts';
import { shardFunctions } from '../modules.ts';
import { findPendingMigrations, migrate, type MigrationResult } from '../platform/maintenance/migrate.ts';
import { findLogState, type LogState } from '../platform/db/log-partitions.ts';
import { findWalls, type Walls } from '../platform/db/tenant-walls.ts';
import type { ServerRole } from '../platform/db/server-role.ts';
import { createEgress } from '../platform/egress/client.ts';
import { StartError } from '../platform/base/errors.ts';
import { createLog } from '../platform/base/log.ts';
import { createMailer, MailFault } from '../platform/mail/mailer.ts';
import { createMetrics } from '../platform/metrics/metrics.ts';
import { closeAll, migrationsDir, openDatabase, type Start } from '../platform/services/open-database.ts';
import type { Platform } from '../platform/services/platform.ts';
import { openSandbox, startSandbox } from '../platform/services/open-sandbox.ts';
import { hasTenants } from '../modules/access/rows/tenants.ts';
import { countOverdueReviews } from '../modules/answers/review-rows.ts';
import { MIGRATE } from '../platform/base/program.ts';

/** Whether only shares make the root key, and none were given. */
const isSplit = ({ keyShares, rootKey }: Config): boolean => keyShares.length > 0 && !rootKey;

/** Questions about what a start would find. A method throws an error for the operator if a start would fail. */
export type Inspection = {
  readonly isEmbedded: boolean;
  /** `none` if there is no vault yet; `split` where only its shares open the vault. */
  checkRootKey(): Promise<'opens' | 'none' | 'split'>;
  findPendingMigrations(): Promise<{ pending: string[]; total: number }>;
  hasTenants(): Promise<boolean>;
  /** The rights and the connection of the server's role; undefined for an embedded database. */
  findServerRole(): Promise<(ServerRole & { isOnThisMachine: boolean }) | undefined>;
  /** Undefined if the log has no partitions yet. */
  findLogState(now: Date): Promise<LogState | undefined>;
  /** Tenants of which no review of access was attested since a time. */
  countOverdueReviews(since: Date): Promise<{ tenants: number; overdue: number }>;
  /** Row-level security. */
  findWalls(): Promise<Walls>;
  /** How a distributed database is placed; undefined for one PostgreSQL. */
  findPlacement(): Promise<Placement | undefined>;
  close(): Promise<void>;
};

/** Opens the database like a start does, whether a server is running or not, and writes nothing. @throws as createPlatform. */
export const createInspection = async (config: Config): Promise<Inspection> => {
  const start: Start = { closers: [], isLockLost: false };
  const environment = environmentOf(config);
  try {
    const { db, poolConfig, embedded } = await openDatabase(
      config,
      'command',
      { log: createLog(config.logLevel), accounts: createAccounts(), metrics: createMetrics() },
      start,
    );
    const found = await createKeyRows(db).findInstance();
    return {
      isEmbedded: embedded !== undefined,
      checkRootKey: async () => {
        if (!found) return 'none';
        if (isSplit(config)) return 'split';
        await openVault(config, found, environment);
        return 'opens';
      },
      findPendingMigrations: () => findPendingMigrations(poolConfig, migrationsDir),
      hasTenants: async () => found !== undefined && hasTenants(db),
      findServerRole: async () => {
        if (embedded) return undefined;
        const role = await db.findServerRole();
        return { ...role, isOnThisMachine: isOnThisMachine(poolConfig) };
      },
      findLogState: (now) => findLogState(db.statements.query, now, config.logRetentionMonths),
      countOverdueReviews: (since) => countOverdueReviews(db.statements.query, since),
      findWalls: () => findWalls(db.statements.ask),
      findPlacement: async () => (embedded ? undefined : findPlacement(db.statements.query, shardFunctions)),
      close: () => closeAll(start),
    };
  } catch (error) {
    await closeAll(start).catch(() => undefined);
    throw error;
  }
};

/** Applies pending migrations. Creates no vault. @throws as createPlatform. */
export const migrateDatabase = async (config: Config): Promise<MigrationResult> => {
  const start: Start = { closers: [], isLockLost: false };
  try {
    const { db, poolConfig } = await openDatabase(
      config,
      'command',
      { log: createLog(config.logLevel), accounts: createAccounts(), metrics: createMetrics() },
      start,
    );
    const found = await createKeyRows(db).findInstance();
    // Checked first, so that a wrong root key changes nothing.
    if (found && !isSplit(config)) await openVault(config, found, environmentOf(config));
    return await migrate(poolConfig, migrationsDir);
  } finally {
    await closeAll(start);
  }
};

/** Spreads the tables that grow over the workers of a Citus cluster. @throws StartError with what to do. */
export const distributeDatabase = async (config: Config, report: (line: string) => void): Promise<void> => {
  const start: Start = { closers: [], isLockLost: false };
  try {
    const { db, poolConfig } = await openDatabase(
      config,
      'command',
      { log: createLog(config.logLevel), accounts: createAccounts(), metrics: createMetrics() },
      start,
    );
    const { pending } = await findPendingMigrations(poolConfig, migrationsDir);
    if (pending.length > 0)
      throw new StartError(`${pending.length} migrations are pending, so nothing was changed. Run: ${MIGRATE}`);
    // It refuses while a server or a command is connected, and would count the connection of this one.
    await db.close();
    await distribute(poolConfig, shardFunctions, report);
  } finally {
    await closeAll(start);
  }
};

/** The sandbox and egress without a vault, for authors who test their code. */
export type Workbench = Pick<Platform, 'sandbox' | 'egress' | 'accounts'> & { close(): Promise<void> };

/** @throws StartError. */
export const createWorkbench = async (config: Config): Promise<Workbench> => {
  const log = createLog('silent');
  const accounts = createAccounts();
  const egress = createEgress(config.egress, { accounts, log });
  const sandbox = openSandbox(config, log, accounts, createMetrics());
  const close = async (): Promise<void> => {
    await sandbox.close();
    await egress.close();
  };
  try {
    await startSandbox(sandbox);
  } catch (error) {
    await close();
    throw error;
  }
  return { sandbox, egress, accounts, close };
};

/** Connects to the mail server without sending a mail. @throws StartError with what to do. */
export const checkMail = async (config: MailConfig, { ca }: Pick<Overrides, 'ca'>): Promise<void> => {
  const mailer = createMailer(config, { ca, log: createLog('silent'), now: () => new Date() });
  try {
    await mailer.check();
  } catch (error) {
    throw error instanceof MailFault ? new StartError(error.message) : error;
  } finally {
    mailer.close();
  }
};
