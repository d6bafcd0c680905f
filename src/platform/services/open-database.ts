// Opens the database of a configuration: the embedded one of its data directory, or the one that DATABASE_URL names.
import { fileURLToPath } from 'node:url';
import type { PoolConfig } from 'pg';
import { type Config, ConfigError } from '../config/config.ts';
import {
  digestMigrations,
  findPendingMigrations,
  migrate,
  MigrationError,
  type MigrationResult,
} from '../maintenance/migrate.ts';
import { StartError } from '../base/errors.ts';
import { describeError, type Log } from '../base/log.ts';
import { MIGRATE, PROGRAM, START } from '../base/program.ts';
import type { Accounts } from '../base/accounts.ts';
import { memoryDigest, randomBase62 } from '../crypto/digest.ts';
import { randomBytesFromKernel } from '../crypto/random.ts';
import { connectionErrorText, withFullVerification, withoutName } from '../db/connection-errors.ts';
import { createDatabase, type Database } from '../db/database.ts';
import { type EmbeddedPostgres, hasCluster, takeDataDirectory } from '../dev-postgres/dev-postgres.ts';
import { copyTemplate } from '../dev-postgres/template.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { version } from '../base/version.ts';

// The text that an operator sees for an error that ends a start or a command.

/** The printable parts of such an error. */
export const failureText = (error: unknown): string => {
  const isForOperator = [ConfigError, StartError, MigrationError].some((made) => error instanceof made);
  if (isForOperator) return (error as Error).message;
  return `This failure is unexpected. Its words are left out, for they can hold values; its name and place are below. To see which part of a start fails: ${PROGRAM} doctor\n${JSON.stringify(describeError(error), null, 2)}`;
};

export const migrationsDir = fileURLToPath(new URL('../../../prisma/migrations', import.meta.url));

/**
 * The process that opens the database.
 * - `server` owns the data directory alone, and creates a vault if there is none.
 * - `supervisor` does the same for its workers, and serves no requests.
 * - `bootstrap` may run beside a server. It creates a vault in the database that DATABASE_URL names.
 * - `command` may run beside a server. It never creates a vault.
 */
export type Role = 'server' | 'supervisor' | 'bootstrap' | 'command';

/** The resources that a start has opened, to be closed in reverse, and whether it has lost the lock on its data directory. */
export type Start = { closers: (() => Promise<void>)[]; isLockLost: boolean };

/** Closes all resources even if some fail. @throws the first failure, at the end. */
export const closeAll = async ({ closers }: Start): Promise<void> => {
  const failures: unknown[] = [];
  for (const closer of closers.splice(0).toReversed()) {
    try {
      await closer();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
};

/** Whether the data directory has no database yet. */
export const isWithoutDatabase = async (config: Config): Promise<boolean> =>
  config.databaseUrl === undefined && !(await hasCluster(config.dataDir));

/** Hex digits of the digest of migrations in the name of a prepared database for tests. */
const TEMPLATE_DIGEST_LENGTH = 16;

/** PostgreSQL's code for a session that was ended by an administrator's command. */
const ADMIN_SHUTDOWN = '57P01';

type DatabaseServices = {
  log: Log;
  accounts: Accounts;
  metrics: Metrics;
  tracing?: Tracing | undefined;
  /** Called when another server may have the data directory: this one must stop. */
  onDirectoryLost?: () => void;
  /** Called before the first query to a database with another history: caches have rows of the one before. */
  onAnotherHistory?: () => void;
};

/** Opens the database without migrating it. */
export const openDatabase = async (config: Config, role: Role, services: DatabaseServices, start: Start) => {
  const { log, accounts, metrics, tracing } = services;
  const { poolConfig, embedded } = await findDatabase(config, role, services, start);
  const db = createDatabase(poolConfig, {
    accounts,
    metrics,
    tracing,
    poolMax: config.databasePoolMax,
    writeBatches: config.writeBatches,
    nameStatement: memoryDigest,
    onPoolError: (error) => {
      // Ended by an operator, or by a migration of this start.
      if ((error as { code?: string }).code === ADMIN_SHUTDOWN) log.info('the database ended an idle connection');
      else log.warn({ error }, 'a database connection was lost');
    },
    onHistory: {
      changed: (before, after) => {
        log.warn(
          { before, after },
          'the database has another history, as after a failover or a recovery: versions of rows that this process has seen are forgotten',
        );
        services.onAnotherHistory?.();
      },
      unreadable: (error) =>
        log.warn(
          { error },
          'the database does not tell its timeline: after a failover that lost transactions, or a recovery, restart the servers',
        ),
    },
  });
  start.closers.push(() => db.close());
  await db.ping().catch((error: unknown) => {
    throw new StartError(connectionErrorText(poolConfig, (error as Error).cause ?? error));
  });
  if (config.mode === 'production' && (role === 'server' || role === 'supervisor')) await refuseUnwalledRole(db);
  return { db, poolConfig, embedded };
};

/** @throws StartError. */
const refuseUnwalledRole = async (db: Database): Promise<void> => {
  const { name, is_superuser, bypasses_rls } = await db.findServerRole();
  if (!is_superuser && !bypasses_rls) return;
  const reason = `The server would connect to the database as "${name}", ${is_superuser ? 'a superuser' : 'a role with BYPASSRLS'}. Row-level security, the second wall between tenants, does not hold for such a role${is_superuser ? ', and it can change the audit log' : ''}.`;
  throw new StartError(
    is_superuser
      ? `${reason} Make roles for the vault, and name them in DATABASE_URL (docs/operations/database-roles.md): ${PROGRAM} db roles --print-sql > roles.sql; OWNER_PASSWORD=... SERVER_PASSWORD=... psql -d DATABASE -f roles.sql; DATABASE_URL=postgresql://strongroom_owner:...@HOST/DATABASE ${MIGRATE}; DATABASE_URL=postgresql://strongroom_server:...@HOST/DATABASE MIGRATE_ON_START=false npm start`
      : `${reason} Take the right away, as a superuser: psql -d DATABASE -c 'ALTER ROLE "${name}" NOBYPASSRLS'`,
  );
};

const findDatabase = async (
  config: Config,
  role: Role,
  { log, onDirectoryLost }: DatabaseServices,
  start: Start,
): Promise<{ poolConfig: PoolConfig; embedded: EmbeddedPostgres | undefined }> => {
  if (config.databaseUrl !== undefined)
    return {
      poolConfig: { connectionString: withFullVerification(withoutName(config.databaseUrl)) },
      embedded: undefined,
    };
  const isOwner = role === 'server' || role === 'supervisor';
  if (!isOwner && (await isWithoutDatabase(config))) throw noVault(config);
  const startOptions = {
    dataDir: config.dataDir,
    newPassword: () => randomBase62(32, randomBytesFromKernel),
    log: (event: string, detail?: Record<string, unknown>) => log.info({ ...detail }, event),
    isDurable: !config.testEndpoints,
  };
  if (config.testTemplateDir !== undefined && isOwner)
    await copyTemplate({
      ...startOptions,
      templatesDir: config.testTemplateDir,
      name: `pg-${version}-${(await digestMigrations(migrationsDir)).slice(0, TEMPLATE_DIGEST_LENGTH)}`,
      migrate: (address) => migrate(address, migrationsDir),
    });
  const { postgres, lock } = await takeDataDirectory({
    ...startOptions,
    // A command runs beside a server and does not need the lock.
    ...(isOwner ? {} : { waitMs: 0 }),
    onLost: (error) => {
      start.isLockLost = true;
      log.error({ alarm: 'lock_lost', error }, 'the lock on the data directory was lost');
    },
    onRetaken: () => log.warn({ alarm: 'lock_retaken' }, 'the lock on the data directory was taken again'),
    onGivenUp: (reason) => {
      log.fatal(
        { alarm: 'lock_gone', reason },
        reason === 'taken'
          ? 'another server has taken the data directory, and one data directory serves one server: this one stops'
          : 'the database of the data directory does not come back, and another start may have started a new one: this server stops',
      );
      onDirectoryLost?.();
    },
  });
  // The process with the lock stops the database as its last step, before it releases the lock. A command beside a running
  // server does not stop it.
  if (lock) start.closers.push(() => lock.release(() => postgres.stop()));
  else if (isOwner)
    throw new StartError(
      `Another server is running on ${config.dataDir}: one data directory serves one server. Stop that one first, or take another directory: DATA_DIR=./data-2. A second server needs a port of its own too: DATA_DIR=./data-2 PORT=8081 npm start`,
    );
  return { poolConfig: postgres.address, embedded: postgres };
};

export const noVault = ({ mode, databaseUrl, dataDir }: Config): StartError =>
  new StartError(
    `There is no vault in ${databaseUrl === undefined ? dataDir : 'the database that DATABASE_URL names'}, and this command makes none. If the vault is elsewhere, run the command in the directory of its server, or name its data directory (DATA_DIR=/path/to/data) or its database (DATABASE_URL). To make a vault: ${mode === 'production' ? `${PROGRAM} bootstrap --tenant-name NAME` : START}`,
  );

/** Applies migrations unless MIGRATE_ON_START=false. @throws StartError if they are not applied then: the code needs them. */
export const bringUpToDate = async (config: Config, poolConfig: PoolConfig): Promise<MigrationResult> => {
  if (config.migrateOnStart) return migrate(poolConfig, migrationsDir);
  const { pending, total } = await findPendingMigrations(poolConfig, migrationsDir);
  if (pending.length === 0) return { applied: [], total: 0 };
  throw new StartError(
    pending.length === total
      ? `The database has no tables yet, and MIGRATE_ON_START=false keeps this start from making them. Make them: ${MIGRATE}`
      : `${pending.length} of ${total} migrations are pending (${pending.join(', ')}), and MIGRATE_ON_START=false keeps this start from applying them. Apply them first: ${MIGRATE}`,
  );
};
