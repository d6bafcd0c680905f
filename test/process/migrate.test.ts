// Migrations on real databases: all of them, once, or an error with a fix; Prisma's command line agrees.
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { appendFile, cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MigrationError, findPendingMigrations, migrate } from '../../src/platform/maintenance/migrate.ts';
import type { DatabaseAddress } from '../../src/platform/dev-postgres/connection.ts';
import { createDatabase, createEmptyDatabase, type TestDatabase } from '../support/database.ts';

const root = join(import.meta.dirname, '../..');
const migrationsDir = join(root, 'prisma/migrations');
const names = readdirSync(migrationsDir, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => entry.name)
  .sort();

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
    expect(await migrate(database.address, migrationsDir)).toEqual({ applied: names, total: names.length });
    expect(await migrate(database.address, migrationsDir)).toEqual({ applied: [], total: names.length });
    expect(await query(database.address, 'SELECT count(*)::int AS count FROM tokens')).toEqual([{ count: 0 }]);
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
    const [first] = names as [string];
    await appendFile(join(scratch, first, 'migration.sql'), '\n-- an afterthought\n');
    await addMigration('20990101000000_next', 'CREATE TABLE next (id int);');
    const error = await failure();
    expect(error.code).toBe('edited');
    expect(error.message).toContain(first);
    await expect(findPendingMigrations(database.address, scratch)).rejects.toMatchObject({ code: 'edited' });
    expect(await query(database.address, "SELECT to_regclass('next') AS next")).toEqual([{ next: null }]);
  });

  it('does not change a database with foreign tables', async () => {
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

  it('records nothing of a migration whose process was killed, and says so at the next start', async () => {
    const name = '20990101000000_killed';
    await addMigration(name, 'CREATE TABLE half (id int); SELECT pg_sleep(60);');
    const killed = failure();
    const sleeping = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()";
    await expect.poll(() => query(database.address, sleeping), { timeout: 10_000 }).toHaveLength(1);
    await query(database.address, sleeping.replace('SELECT pid', 'SELECT pg_terminate_backend(pid)'));
    expect((await killed).message).toContain(name);
    expect((await failure()).code).toBe('P3009');
    expect((await findPendingMigrations(database.address, scratch)).pending).toEqual([name]);
    expect(await query(database.address, "SELECT to_regclass('half') AS half")).toEqual([{ half: null }]);
  });

  it('waits for a migration of another process, which may build an index concurrently', async () => {
    await migrate(database.address, migrationsDir);
    await addMigration('20990101000000_table', 'CREATE TABLE many AS SELECT generate_series(1, 10) AS id;');
    await addMigration('20990101000001_index', 'CREATE INDEX CONCURRENTLY many_id ON many (id);');
    await addMigration('20990101000002_slow', 'SELECT pg_sleep(0.5);');
    const results = await Promise.all([1, 2, 3].map(() => migrate(database.address, scratch)));
    expect(results.flatMap(({ applied }) => applied)).toHaveLength(3);
    const valid = "SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = 'many_id'::regclass";
    expect(await query(database.address, valid)).toEqual([{ valid: true }]);
  });

  it('lets a database of a newer release pass', async () => {
    await addMigration('20990101000000_newer', 'CREATE TABLE newer (id int);');
    await migrate(database.address, scratch);
    expect((await migrate(database.address, migrationsDir)).applied).toEqual([]);
  });

  it('runs the whole script, with any comments and strings', async () => {
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
    expect(await prisma(database.url, DIFF)).toMatchObject({ code: 0, output: '-- This is an empty migration.' });
    await query(database.address, 'ALTER TABLE tenants ADD extra text NOT NULL, ADD CHECK (extra <> name)');
    const { code, output } = await prisma(database.url, DIFF);
    expect([code, output]).toEqual([2, expect.stringContaining('DROP COLUMN "extra"')]);
    await query(database.address, 'ALTER TABLE tenants DROP extra');
  });

  it('keep the keys of security codes out of the write-ahead log', async () => {
    const persistence = "SELECT relpersistence::text AS kind FROM pg_class WHERE oid = 'ephemeral_keys'::regclass";
    expect(await query(database.address, persistence)).toEqual([{ kind: 'u' }]);
  });
});

describe("Prisma's command line", () => {
  it('finds nothing to do after a start, and a start nothing after it', async () => {
    const ours = await createEmptyDatabase();
    const theirs = await createEmptyDatabase();
    await migrate(ours.address, migrationsDir);
    expect(await prisma(ours.url, ['migrate', 'deploy'])).toMatchObject({
      code: 0,
      output: expect.stringContaining('No pending migrations to apply.'),
    });
    expect(await prisma(ours.url, ['migrate', 'status'])).toMatchObject({
      code: 0,
      output: expect.stringContaining('Database schema is up to date!'),
    });
    expect(await prisma(theirs.url, ['migrate', 'deploy'])).toMatchObject({ code: 0 });
    expect(await migrate(theirs.address, migrationsDir)).toEqual({ applied: [], total: names.length });
    const history = `SELECT migration_name, checksum, applied_steps_count, logs, rolled_back_at, finished_at >= started_at AS ended
      FROM _prisma_migrations ORDER BY migration_name`;
    expect(await query(ours.address, history)).toEqual(await query(theirs.address, history));
    const columns = `SELECT column_name, data_type, is_nullable, column_default, character_maximum_length
      FROM information_schema.columns WHERE table_name = '_prisma_migrations' ORDER BY ordinal_position`;
    expect(await query(ours.address, columns)).toEqual(await query(theirs.address, columns));
    await ours.drop();
    await theirs.drop();
  });
});

const DIFF = ['migrate', 'diff', '--from-config-datasource', '--to-schema', 'prisma/schema.prisma', '--script'].concat(
  '--exit-code',
);

/** Runs Prisma's command line on a database, with the schema engine that developers use. */
const prisma = async (url: string, args: string[]): Promise<{ code: number; output: string }> => {
  const environment = {
    ...process.env,
    PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH']}`,
    DATABASE_URL: url,
    PRISMA_SCHEMA_ENGINE_BINARY: join(root, 'prisma/schema-engine.ts'),
    CHECKPOINT_DISABLE: '1',
    PRISMA_HIDE_UPDATE_MESSAGE: '1',
  };
  const command = [join(root, 'node_modules/prisma/build/index.js'), ...args];
  const done = await promisify(execFile)(process.execPath, command, { cwd: root, env: environment }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
  return { code: done.code, output: done.stdout.trim() || done.stderr };
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
