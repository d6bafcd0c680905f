// What a start promises about the schema: all of it, once, or a sentence that says what to do. On real databases.
import { execFile } from 'node:child_process';
import { appendFile, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MigrationError, migrate } from '../src/db/migrate.ts';
import {
  noFilters,
  readMigrations,
  schemaEngineVersion,
  withDatabase,
  withSchemaEngine,
} from '../src/db/schema-engine.ts';
import type { DatabaseAddress } from '../src/db/embedded/connection.ts';
import { createDatabase, createEmptyDatabase } from './support/database.ts';
import type { TestDatabase } from './support/database.ts';

const root = join(import.meta.dirname, '..');
const migrationsDir = join(root, 'prisma/migrations');

describe('migrating', () => {
  let database: TestDatabase;
  let scratch: string;

  beforeEach(async () => {
    database = await createEmptyDatabase();
    scratch = await mkdtemp(join(tmpdir(), 'strongroom-migrations-'));
    await cp(migrationsDir, scratch, { recursive: true });
  });

  afterEach(async () => {
    await database.drop();
    await rm(scratch, { recursive: true, force: true });
  });

  const addMigration = async (name: string, sql: string) => {
    await mkdir(join(scratch, name), { recursive: true });
    await writeFile(join(scratch, name, 'migration.sql'), sql);
  };
  const failure = () =>
    migrate(database.address, scratch).then(
      () => expect.unreachable('it migrated'),
      (error: unknown) => {
        expect(error).toBeInstanceOf(MigrationError);
        return error as MigrationError;
      },
    );

  it('applies every migration to an empty database, and none the second time', async () => {
    const names = (await readMigrations(migrationsDir)).migrationDirectories.map(({ path }) => path);
    expect(await migrate(database.address, migrationsDir)).toEqual({ applied: names, total: names.length });
    expect(await migrate(database.address, migrationsDir)).toEqual({ applied: [], total: names.length });
    expect(await query(database.address, 'SELECT count(*)::int AS count FROM tokens')).toEqual([{ count: 0 }]);
  });

  it('loads no schema engine where nothing is to do', async () => {
    await migrate(database.address, migrationsDir);
    const program = `
      const { findPendingMigrations, migrate } = await import('./src/db/migrate.ts');
      const given = [${JSON.stringify(database.address)}, ${JSON.stringify(migrationsDir)}];
      const results = [(await migrate(...given)).applied, (await findPendingMigrations(...given)).pending];
      console.log(JSON.stringify(results), 'PRISMA_WASM_PANIC_REGISTRY' in globalThis);`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--eval', program], { cwd: root });
    expect(stdout).toBe('[[],[]] false\n');
  });

  it('takes a connection string with parameters', async () => {
    const connectionString = `${database.url}?sslmode=disable&application_name=migrating`;
    expect((await migrate({ connectionString }, migrationsDir)).applied).not.toEqual([]);
  });

  it('applies once when four try at the same moment', async () => {
    await addMigration('20990101000000_slow', 'SELECT pg_sleep(0.3); CREATE TABLE slow (id int);');
    const results = await Promise.all([1, 2, 3, 4].map(() => migrate(database.address, scratch)));
    const { total } = results[0]!;
    expect(results.flatMap(({ applied }) => applied)).toHaveLength(total);
    const history = await query(database.address, 'SELECT migration_name FROM _prisma_migrations');
    expect(history).toHaveLength(total);
  });

  it('leaves no session behind, so that its lock is free', async () => {
    await migrate(database.address, migrationsDir);
    const others = 'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()';
    await expect.poll(() => query(database.address, others), { timeout: 10_000 }).toEqual([]);
  });

  it('refuses to go on when an applied file was edited', async () => {
    await migrate(database.address, scratch);
    const [first] = (await readMigrations(scratch)).migrationDirectories;
    await appendFile(join(scratch, first!.path, 'migration.sql'), '\n-- an afterthought\n');
    await addMigration('20990101000000_next', 'CREATE TABLE next (id int);');
    const error = await failure();
    expect(error.code).toBe('edited');
    expect(error.message).toContain(first!.path);
    expect(await query(database.address, "SELECT to_regclass('next') AS next")).toEqual([{ next: null }]);
  });

  it('touches no database that holds the tables of somebody else', async () => {
    await query(database.address, 'CREATE TABLE theirs (id int)');
    const error = await failure();
    expect(error.code).toBe('P3005');
    expect(error.message).toContain('createdb');
    expect(await query(database.address, "SELECT to_regclass('tokens') AS tokens")).toEqual([{ tokens: null }]);
  });

  it('stops at a migration that failed, until its own advice is followed', async () => {
    const name = '20990101000000_broken';
    await addMigration(name, 'CREATE TABLE half (id int); SELECT 1 / 0;');
    const first = await failure();
    expect(first.message).toContain(name);
    expect(first.message).toContain('division by zero');
    const second = await failure();
    expect(second.code).toBe('P3009');
    expect(await query(database.address, "SELECT to_regclass('half') AS half")).toEqual([{ half: null }]);

    await addMigration(name, 'CREATE TABLE half (id int);');
    const advice = /-c "([^"]+)"/.exec(second.message)?.[1];
    await query(database.address, advice!);
    expect((await migrate(database.address, scratch)).applied).toEqual([name]);
  });

  it('lets a database of a newer release pass', async () => {
    await addMigration('20990101000000_newer', 'CREATE TABLE newer (id int);');
    await migrate(database.address, scratch);
    expect((await migrate(database.address, migrationsDir)).applied).toEqual([]);
  });

  it('runs a script whole, whatever its comments and strings hold', async () => {
    const sql = `CREATE TABLE "odd" (id int); -- a comment; with a semicolon
      INSERT INTO odd SELECT 1 WHERE ';' <> ''; DO $$ BEGIN INSERT INTO odd VALUES (2); END $$;`;
    await addMigration('20990101000000_odd', sql);
    await migrate(database.address, scratch);
    expect(await query(database.address, 'SELECT id FROM odd ORDER BY id')).toEqual([{ id: 1 }, { id: 2 }]);
  });

  it('says that the database cannot be reached without showing the password', async () => {
    const wrong = { ...database.address, password: 'not-the-password' };
    const error = await migrate(wrong, migrationsDir).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(MigrationError);
    expect((error as MigrationError).message).not.toContain('not-the-password');
    await expect(migrate({ ...database.address, port: 1 }, migrationsDir)).rejects.toThrow(/reach/);
  });

  it('says that the release is incomplete when its migrations are missing', async () => {
    await expect(migrate(database.address, join(scratch, 'absent'))).rejects.toThrow(MigrationError);
  });
});

describe('the migrations', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database.drop());

  it('make exactly the schema that the client is generated from', async () => {
    expect(await diffOfMigrations(database.address)).toBe('-- This is an empty migration.\n');
  });

  it('are compared in a database of their own, which is gone afterwards', async () => {
    const connectionString = `${database.url}?sslmode=disable`;
    await query(database.address, 'CREATE TABLE canary (id int)');
    expect(await diffOfMigrations({ connectionString })).toBe('-- This is an empty migration.\n');
    const shadows = "SELECT datname FROM pg_database WHERE datname LIKE 'prisma_migrate_shadow_db_%'";
    expect(await query(database.address, shadows)).toEqual([]);
  });

  it('keep the keys of security codes out of the write-ahead log', async () => {
    const persistence = "SELECT relpersistence::text AS kind FROM pg_class WHERE oid = 'ephemeral_keys'::regclass";
    expect(await query(database.address, persistence)).toEqual([{ kind: 'u' }]);
  });
});

describe('the schema engine', () => {
  it('sees a difference where there is one, checks and not-null constraints included', async () => {
    const database = await createDatabase();
    await query(database.address, 'ALTER TABLE tenants ADD extra text NOT NULL, ADD CHECK (extra <> name)');
    const path = join(root, 'prisma/schema.prisma');
    const schema = { files: [{ path, content: await readFile(path, 'utf8') }] };
    const { stdout } = await withSchemaEngine(
      database.address,
      (engine) =>
        engine.diff({
          from: { tag: 'schemaDatasource', ...schema, configDir: root },
          to: { tag: 'schemaDatamodel', ...schema },
          script: true,
          exitCode: null,
          filters: noFilters,
        }),
      [[path, schema.files[0]!.content]],
    );
    expect(stdout).toContain('DROP COLUMN "extra"');
    await database.drop();
  });

  it('reports that it gave up instead of never answering', async () => {
    const database = await createEmptyDatabase();
    // A process of its own: after a panic the engine is of no more use.
    const program = `
      const { withSchemaEngine } = await import('./src/db/schema-engine.ts');
      const connection = ${JSON.stringify(database.address)};
      await withSchemaEngine(connection, async (engine) => engine.debugPanic()).catch((error) => console.log(String(error)));`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--eval', program], { cwd: root });
    expect(stdout).toContain('SchemaEngineError: The schema engine gave up: panicked at');
    await database.drop();
  });

  it('is of the revision that Prisma names, since the package is internal to Prisma', async () => {
    const engines = JSON.parse(await readFile(join(root, 'node_modules/@prisma/engines-version/package.json'), 'utf8'));
    const version = await schemaEngineVersion();
    expect(version).toBe(engines.version);
    expect(version.endsWith(engines.prisma.enginesVersion)).toBe(true);
  });

  it('gets another database on the same server with the same parameters', () => {
    const connectionString = 'postgresql://user:pass%2Fword@host:1/real?sslmode=verify-full';
    expect(withDatabase({ connectionString }, 'shadow').connectionString).toBe(
      'postgresql://user:pass%2Fword@host:1/shadow?sslmode=verify-full',
    );
    expect(withDatabase({ host: 'host', database: 'real', ssl: true }, 'shadow')).toEqual({
      host: 'host',
      database: 'shadow',
      ssl: true,
    });
  });
});

/** The SQL that leads from what the migrations make to what the schema says. */
const diffOfMigrations = async (connection: DatabaseAddress | { connectionString: string }) => {
  const path = join(root, 'prisma/schema.prisma');
  const content = await readFile(path, 'utf8');
  const migrations = await readMigrations(migrationsDir);
  const { stdout } = await withSchemaEngine(
    connection,
    (engine) =>
      engine.diff({
        from: { tag: 'migrations', ...migrations },
        to: { tag: 'schemaDatamodel', files: [{ path, content }] },
        script: true,
        exitCode: null,
        filters: noFilters,
      }),
    [[path, content]],
  );
  return stdout;
};

const query = async (address: DatabaseAddress, sql: string): Promise<unknown[]> => {
  const client = new Client(address);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
};
