// Applies the SQL migrations of a release to the database: each one once, in order, under an advisory lock.
// The history is Prisma's own table, so that `prisma migrate status` and `prisma migrate deploy` agree with it.
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type PoolConfig } from 'pg';
import { sha256Hex } from '../crypto/digest.ts';
import { PROGRAM } from '../base/program.ts';
import { SEE_ALL_TENANTS } from '../db/named-tenants.ts';
import { splitStatements } from '../db/split-statements.ts';
import { raiseWalls } from '../db/tenant-walls.ts';

/** `applied`: what this call applied, oldest first. `total`: how many migrations this release has. */
export type MigrationResult = { applied: string[]; total: number };

type Migration = { name: string; sql: string; checksum: string };
type HistoryRow = { name: string; checksum: string; is_finished: boolean };

/** Its message is for the operator: what is wrong, why, and the command that repairs it. */
export class MigrationError extends Error {
  /** Prisma's code where there is one (`P3005`), `edited` for a changed file, `earlier` for a vault of an earlier build. */
  readonly code: string | undefined;

  constructor(message: string, code?: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'MigrationError';
    this.code = code;
  }
}

const CONNECT_TIMEOUT_MS = 10_000;

/** The key of Prisma's schema engine, so that it and other releases exclude each other with this one. */
export const LOCK_KEY = 72707369;
const LOCK_RETRY_MS = 200;
/** Migrations that build an index on a large table take minutes. */
const LOCK_TIMEOUT_MS = 600_000;

/** The table that Prisma's schema engine creates. */
const CREATE_HISTORY = `CREATE TABLE IF NOT EXISTS _prisma_migrations (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  checksum VARCHAR(64) NOT NULL,
  finished_at TIMESTAMPTZ,
  migration_name VARCHAR(255) NOT NULL,
  logs TEXT,
  rolled_back_at TIMESTAMPTZ,
  started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  applied_steps_count INTEGER NOT NULL DEFAULT 0
)`;

/** For the operator of a vault that has the tables of a build before the first migration of the releases. */
export const EARLIER_BUILD = `is of a build before 0.2.0, which this release cannot upgrade: export its tokens with that build (${PROGRAM} export), start this release with a new database, import them (${PROGRAM} import --format strongroom), and make applications, keys, rules, code, proxies and people anew (docs/operations/upgrade.md)`;

/**
 * Applies the migrations of `<migrationsDir>/<name>/migration.sql` that the database lacks. Several processes may call it at
 * once: one applies, the others wait and find nothing to do. A database of a newer release is accepted as it is.
 * The connection must not go through a pooler that changes sessions between transactions: the lock belongs to a session.
 * @param only applies no others: the tables of a backup are made as they were.
 * @throws MigrationError. Nothing is applied if the file of an applied migration was changed.
 */
export const migrate = (
  connection: PoolConfig,
  migrationsDir: string,
  only?: readonly string[],
): Promise<MigrationResult> =>
  inSession(connection, async (session) => {
    const all = await readReleased(migrationsDir);
    const released = all.filter(({ name }) => only?.includes(name) ?? true);
    const total = released.length;
    const before = await readHistory(session);
    refuseEarlierBuild(all, before);
    if (pendingNames(released, before).length === 0) {
      await raiseMissingWalls(session, only);
      return { applied: [], total };
    }
    await lock(session);
    // Another process may have applied them while this one waited.
    const history = await readHistory(session);
    const pending = pendingNames(released, history);
    const unfinished = history?.find((row) => !row.is_finished);
    if (unfinished) throw failed(unfinished.name, 'It failed at an earlier start', 'P3009');
    if (!history) await createHistory(session);
    for (const migration of released) if (pending.includes(migration.name)) await apply(session, migration);
    await raiseMissingWalls(session, only);
    return { applied: pending, total };
  });

/** Names the migrations that the database lacks or that did not finish, oldest first. Writes nothing. @throws MigrationError. */
export const findPendingMigrations = (
  connection: PoolConfig,
  migrationsDir: string,
): Promise<{ pending: string[]; total: number }> =>
  inSession(connection, async (session) => {
    const released = await readReleased(migrationsDir);
    const history = await readHistory(session);
    refuseEarlierBuild(released, history);
    return { pending: pendingNames(released, history), total: released.length };
  });

/** A digest of the migrations of this release, with their texts. @throws MigrationError. */
export const digestMigrations = async (migrationsDir: string): Promise<string> =>
  sha256Hex(JSON.stringify(await readReleased(migrationsDir)));

/** The names of the migrations of this release, oldest first. @throws MigrationError. */
export const listMigrations = async (migrationsDir: string): Promise<string[]> =>
  (await readReleased(migrationsDir)).map(({ name }) => name);

const inSession = async <Result>(connection: PoolConfig, work: (session: Client) => Promise<Result>) => {
  const session = new Client({ connectionTimeoutMillis: CONNECT_TIMEOUT_MS, ...connection });
  // A lost connection also fails the query at work; an 'error' event without a listener would end the process.
  session.on('error', () => undefined);
  try {
    await session.connect();
    await session.query(SEE_ALL_TENANTS);
    return await work(session);
  } catch (error) {
    throw error instanceof MigrationError ? error : unusable(error as Error & { code?: string });
  } finally {
    // Frees the lock too.
    await session.end().catch(() => undefined);
  }
};

/** A restore, which applies some migrations only, raises them when it has loaded the rows. */
const raiseMissingWalls = async (session: Client, only: readonly string[] | undefined): Promise<void> => {
  if (only !== undefined) return;
  // A release in a test may be without.
  const { rows } = await session.query(`SELECT to_regprocedure('raise_tenant_wall(regclass)') IS NOT NULL AS there`);
  if (rows[0].there) await raiseWalls(async (text, values) => (await session.query(text, values)).rows);
};

const readReleased = async (migrationsDir: string): Promise<Migration[]> => {
  try {
    const entries = await readdir(migrationsDir, { withFileTypes: true });
    const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
    return await Promise.all(
      names.sort().map(async (name) => {
        const sql = await readFile(join(migrationsDir, name, 'migration.sql'), 'utf8');
        return { name, sql, checksum: sha256Hex(sql) };
      }),
    );
  } catch (error) {
    throw new MigrationError(
      `The migrations in ${migrationsDir} cannot be read, so this installation is incomplete. Restore the release: git checkout -- prisma, or build the image again.`,
      undefined,
      error,
    );
  }
};

/** Undefined if the database has no history yet. */
const readHistory = async (session: Client): Promise<HistoryRow[] | undefined> => {
  try {
    const { rows } = await session.query<HistoryRow>(
      `SELECT migration_name AS name, checksum, finished_at IS NOT NULL AS is_finished
       FROM _prisma_migrations WHERE rolled_back_at IS NULL`,
    );
    return rows;
  } catch (error) {
    const UNDEFINED_TABLE = '42P01';
    if ((error as { code?: string }).code === UNDEFINED_TABLE) return undefined;
    throw error;
  }
};

/** Every release begins with the same first migration. A history without it is of an earlier build. @throws MigrationError. */
const refuseEarlierBuild = ([first]: Migration[], history: HistoryRow[] = []): void => {
  if (history.length > 0 && first && !history.some(({ name }) => name === first.name))
    throw new MigrationError(`The vault in the database ${EARLIER_BUILD}.`, 'earlier');
};

/** Includes an unfinished migration of another release: it failed, or another process is applying it. */
const pendingNames = (released: Migration[], history: HistoryRow[] = []): string[] => {
  const finished = new Map(history.filter((row) => row.is_finished).map((row) => [row.name, row.checksum]));
  const edited = released.filter(({ name, checksum }) => (finished.get(name) ?? checksum) !== checksum);
  if (edited.length > 0)
    throw new MigrationError(
      `The file of an applied migration was changed afterwards (${edited.map(({ name }) => name).join(', ')}), so the schema of the database is unknown. Restore the released file (git checkout -- prisma/migrations) and write a new migration for the change.`,
      'edited',
    );
  const names = [...released, ...history.filter((row) => !row.is_finished)].map(({ name }) => name);
  return [...new Set(names)].filter((name) => !finished.has(name)).sort();
};

/** Asks again and again instead of waiting in one statement, whose snapshot would block CREATE INDEX CONCURRENTLY of the other. */
const lock = async (session: Client): Promise<void> => {
  const deadline = Date.now() + LOCK_TIMEOUT_MS;
  while (!(await session.query('SELECT pg_try_advisory_lock($1) AS locked', [LOCK_KEY])).rows[0].locked) {
    if (Date.now() > deadline)
      throw new MigrationError(
        `Another process has been migrating this database for ${LOCK_TIMEOUT_MS / 60_000} minutes. Find it, and start again when it has ended: psql "$DATABASE_URL" -c "SELECT pid, query FROM pg_stat_activity WHERE pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = ${LOCK_KEY})".`,
        'P1002',
      );
    await sleep(LOCK_RETRY_MS);
  }
};

const createHistory = async (session: Client): Promise<void> => {
  const { rowCount } = await session.query('SELECT FROM pg_tables WHERE schemaname = current_schema() LIMIT 1');
  if (rowCount !== 0)
    throw new MigrationError(
      'The database already holds tables that Strongroom did not create, so nothing was changed. Give the vault a database of its own (createdb strongroom) and name that one in DATABASE_URL.',
      'P3005',
    );
  await session.query(CREATE_HISTORY);
};

/** Runs a script and records it in one transaction, so that a failure or a crash leaves nothing of it. */
const apply = async (session: Client, { name, sql, checksum }: Migration): Promise<void> => {
  const { rows } = await session.query<{ id: string }>(
    'INSERT INTO _prisma_migrations (id, migration_name, checksum) VALUES (gen_random_uuid(), $1, $2) RETURNING id',
    [name, checksum],
  );
  const id = rows[0]?.id;
  const record = `UPDATE _prisma_migrations SET finished_at = clock_timestamp(), applied_steps_count = 1 WHERE id = '${id}'`;
  // Statement by statement: Citus refuses a query of several statements on distributed tables. CREATE INDEX CONCURRENTLY
  // refuses to run in a transaction, so it needs a migration of its own.
  const isTransaction = !/\bCONCURRENTLY\b/i.test(sql);
  try {
    if (isTransaction) await session.query('BEGIN');
    for (const statement of [...splitStatements(sql), record]) await session.query(statement);
    if (isTransaction) await session.query('COMMIT');
  } catch (error) {
    if (isTransaction) await session.query('ROLLBACK').catch(() => undefined);
    const { message } = error as Error;
    await session.query('UPDATE _prisma_migrations SET logs = $2 WHERE id = $1', [id, message]).catch(() => undefined);
    throw failed(name, `It failed just now: ${sentence(message)}`, 'P3018', error);
  }
};

const failed = (name: string, reason: string, code: string, cause?: unknown): MigrationError =>
  new MigrationError(
    `The migration ${name} is recorded as failed, and no other is applied before that is settled. ${reason}. PostgreSQL rolled back what it had done. Remove the cause, then allow another attempt: psql "$DATABASE_URL" -c "UPDATE _prisma_migrations SET rolled_back_at = now() WHERE migration_name = '${name}' AND finished_at IS NULL".`,
    code,
    cause,
  );

const unusable = (error: Error & { code?: string }): MigrationError =>
  new MigrationError(
    `The database could not be migrated: ${sentence(error.message || String(error.code))}. Check that it can be reached and that the user may create tables: psql "$DATABASE_URL" -c "CREATE TABLE probe (); DROP TABLE probe".`,
    error.code,
    error,
  );

const sentence = (message: string): string => message.trim().replace(/\.$/, '');
