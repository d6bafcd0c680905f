// Brings a database to the schema of this release: every migration once, in order, whoever else tries at the same moment.
// Keeps Prisma's history table, so that Prisma's command line reads it too. Knows nothing of what the tables are for.
import type { MigrationList, SchemaEngine } from '@prisma/schema-engine-wasm/schema_engine_bg';
import { Client, type PoolConfig } from 'pg';
import { CONNECT_MS_MAX, SchemaEngineError, noFilters, readMigrations, withSchemaEngine } from './schema-engine.ts';

/** `applied`: what this call ran, oldest first. `total`: how many migrations this release has. */
export type MigrationResult = { applied: string[]; total: number };

/** Its message is for the operator: what is wrong, why, and the command that mends it. */
export class MigrationError extends Error {
  /** Prisma's code (`P3005`), or `edited` for a changed file; undefined when there is no name for it. */
  readonly code: string | undefined;

  constructor(message: string, code?: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'MigrationError';
    this.code = code;
  }
}

/**
 * Applies the migrations of `<migrationsDir>/<name>/migration.sql` that the database does not have yet.
 * `connection` is a DatabaseAddress, or any configuration of a pg pool (`{ connectionString }` with its TLS parameters).
 * Safe to run from several processes at once; an advisory lock lets one work and the others find nothing left to do, so the
 * connection must not go through a pooler that changes sessions between transactions. A database of a newer release passes.
 * Throws MigrationError. Nothing is applied when a file that was applied before has been edited since.
 */
export const migrate = async (connection: PoolConfig, migrationsDir: string): Promise<MigrationResult> => {
  const migrationsList = await readReleased(migrationsDir);
  const total = migrationsList.migrationDirectories.length;
  if (await isUpToDate(connection, migrationsList)) return { applied: [], total };
  const result = await withSchemaEngine(connection, async (engine) => {
    const history = await diagnose(engine, migrationsList);
    const editedNames = history.editedMigrationNames;
    // A migration another process is applying at this moment looks like a failed one. Applying waits for it and then knows.
    const hasAll = history.history === null && history.failedMigrationNames.length === 0;
    if (hasAll || editedNames.length > 0) return { editedNames, applied: [] };
    const { appliedMigrationNames } = await engine.applyMigrations({ migrationsList, filters: noFilters });
    return { editedNames, applied: appliedMigrationNames };
  }).catch((error: unknown) => {
    throw explained(error, migrationsList);
  });
  if (result.editedNames.length > 0) throw edited(result.editedNames, migrationsDir);
  return { applied: result.applied, total };
};

/**
 * Names the migrations of this release that the database does not have, or not to their end, oldest first; writes nothing.
 * Throws MigrationError as migrate() does.
 */
export const findPendingMigrations = async (
  connection: PoolConfig,
  migrationsDir: string,
): Promise<{ pending: string[]; total: number }> => {
  const migrationsList = await readReleased(migrationsDir);
  const total = migrationsList.migrationDirectories.length;
  if (await isUpToDate(connection, migrationsList)) return { pending: [], total };
  const found = await withSchemaEngine(connection, (engine) => diagnose(engine, migrationsList)).catch(
    (error: unknown) => {
      throw explained(error, migrationsList);
    },
  );
  if (found.editedMigrationNames.length > 0) throw edited(found.editedMigrationNames, migrationsDir);
  const unapplied =
    found.history && 'unappliedMigrationNames' in found.history ? found.history.unappliedMigrationNames : [];
  return {
    pending: [...new Set([...unapplied, ...found.failedMigrationNames])].sort(),
    total,
  };
};

/** Finds a row where history and release differ: a migration that one of them lacks, that did not end, or whose file was edited. */
const FIND_DIFFERENCE = `SELECT FROM unnest($1::text[], $2::text[]) AS released (name, script)
  FULL JOIN (SELECT * FROM _prisma_migrations WHERE rolled_back_at IS NULL) AS done ON done.migration_name = released.name
  WHERE done.finished_at IS NULL OR done.checksum IS DISTINCT FROM encode(sha256(convert_to(released.script, 'UTF8')), 'hex')`;

/** Whether nothing is to do, as at most starts: they are spared the engine, which decides of every doubt. @throws MigrationError where there is no connection. */
const isUpToDate = async (connection: PoolConfig, { migrationDirectories }: MigrationList): Promise<boolean> => {
  const client = new Client({ connectionTimeoutMillis: CONNECT_MS_MAX, ...connection });
  // A session that breaks shows itself in the statement; unheard, it would end the process.
  client.on('error', () => undefined);
  await client.connect().catch((error: Error) => {
    throw unreachable(error, (error as { code?: string }).code);
  });
  try {
    const names = migrationDirectories.map(({ path }) => path);
    const scripts = migrationDirectories.map(({ migrationFile: { content } }) => content.value);
    return (await client.query(FIND_DIFFERENCE, [names, scripts])).rowCount === 0;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
};

const diagnose = (engine: SchemaEngine, migrationsList: MigrationList) =>
  engine.diagnoseMigrationHistory({ migrationsList, optInToShadowDatabase: false, filters: noFilters });

const readReleased = (migrationsDir: string): Promise<MigrationList> =>
  readMigrations(migrationsDir).catch((error: unknown) => {
    throw new MigrationError(
      `The migrations in ${migrationsDir} cannot be read, so this installation is incomplete. Put the release in place again: git checkout -- prisma, or build the image anew.`,
      undefined,
      error,
    );
  });

const edited = (names: string[], migrationsDir: string) =>
  new MigrationError(
    `The file of an applied migration was changed afterwards (${names.join(', ')}), so nobody can say what the database holds. Put back the file as it was released, and write a new migration for what has to change: git checkout -- ${migrationsDir}.`,
    'edited',
  );

const explained = (error: unknown, { migrationDirectories }: MigrationList): unknown => {
  if (!(error instanceof SchemaEngineError)) return error;
  const { code, message } = error;
  const name = migrationDirectories.map(({ path }) => path).find((path) => deepMessage(error).includes(path));
  if (code === 'P3005') {
    return new MigrationError(
      'The database already holds tables that Strongroom did not make, so nothing was touched. Give the vault a database of its own (createdb strongroom) and name that one in DATABASE_URL.',
      code,
      error,
    );
  }
  if (code === 'P3009' || name !== undefined) {
    const reason = code === 'P3009' ? 'It failed at an earlier start' : `It failed just now: ${sentence(message)}`;
    const mend = `UPDATE _prisma_migrations SET rolled_back_at = now() WHERE migration_name = '${name ?? '<name>'}' AND finished_at IS NULL`;
    return new MigrationError(
      `The migration ${name ?? ''} is recorded as failed, and no other is applied before that is settled. ${reason}. PostgreSQL took back what it had done. Remove the cause, then allow another attempt: psql "$DATABASE_URL" -c "${mend}".`,
      code ?? 'P3018',
      error,
    );
  }
  return unreachable(error, code);
};

const unreachable = (error: Error, code: string | undefined): MigrationError =>
  new MigrationError(
    `The database could not be migrated: ${sentence(error.message)}. See whether it can be reached and the user may create tables: psql "$DATABASE_URL" -c "CREATE TABLE probe (); DROP TABLE probe".`,
    code,
    error,
  );

/** The engine names the migration at work only in its stack frames, which its sentence leaves out. */
const deepMessage = (error: SchemaEngineError): string =>
  `${error.message} ${error.cause instanceof Error ? error.cause.message : ''}`;

const sentence = (message: string): string =>
  message
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join(' ')
    .replace(/\.$/, '');
