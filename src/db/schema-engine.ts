// Runs Prisma's schema engine inside this process, as WebAssembly over pg, and leaves no connection and no shadow database behind.
// Knows nothing of our tables or of what a migration means: migrate.ts decides, prisma/schema-engine.mjs lends it to Prisma's command line.
import type { EventEmitter } from 'node:events';
import { readFile, readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { PrismaPg } from '@prisma/adapter-pg';
import { ColumnTypeEnum, bindMigrationAwareSqlAdapterFactory } from '@prisma/driver-adapter-utils';
import type { SqlMigrationAwareDriverAdapterFactory, SqlQueryable } from '@prisma/driver-adapter-utils';
import * as engineModule from '@prisma/schema-engine-wasm/schema_engine_bg';
import type { MigrationList, SchemaEngine } from '@prisma/schema-engine-wasm/schema_engine_bg';
import { Pool } from 'pg';
import type { PoolClient, PoolConfig } from 'pg';

/** A Prisma schema file: its path and its text. */
export type SchemaFile = [path: string, content: string];

/** What the engine itself refused. `code` is Prisma's (`P3005`), absent when the engine has no name for it. */
export class SchemaEngineError extends Error {
  readonly code: string | undefined;

  constructor(message: string, code: string | undefined, cause: unknown) {
    super(message, { cause });
    this.name = 'SchemaEngineError';
    this.code = code;
  }
}

/** Connecting gives up after this, unless the configuration says otherwise. */
export const CONNECT_MS_MAX = 10_000;

/** Nothing is managed by others: every table and enum of the database is ours to compare. */
export const noFilters = { externalTables: [], externalEnums: [] };

/** The version of the engine: Prisma's, and the revision it was built from. */
export const schemaEngineVersion = async (): Promise<string> =>
  (JSON.parse(await readFile(besideTheEngine('package.json'), 'utf8')) as { version: string }).version;

/**
 * Lends an engine on the database of `connection` to `use`, and closes every connection afterwards, which also frees the engine's
 * advisory lock. `schema` is needed only by calls that read the data model.
 * Throws SchemaEngineError. Connecting gives up after ten seconds unless the configuration says otherwise.
 */
export const withSchemaEngine = async <Result>(
  connection: PoolConfig,
  use: (engine: SchemaEngine) => Promise<Result>,
  schema: SchemaFile[] = [['schema.prisma', 'datasource db { provider = "postgresql" }']],
): Promise<Result> => {
  const { panic } = await (loading ??= load());
  const connections = new EngineConnections(connection);
  try {
    const engine = await engineModule.SchemaEngine.new(
      { datamodels: schema },
      () => undefined,
      bindMigrationAwareSqlAdapterFactory(connections),
    );
    const result = await Promise.race([use(engine), panic]);
    // Only after success: an engine that panicked is still borrowed by its call, and refuses with an error that hides the cause.
    engine.free();
    return result;
  } catch (error) {
    throw named(error);
  } finally {
    await connections.close();
  }
};

/** Reads `<migrationsDir>/<name>/migration.sql` of every migration, in the order of their names. Throws what the file system throws. */
export const readMigrations = async (migrationsDir: string): Promise<MigrationList> => {
  const entries = await readdir(migrationsDir, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  const readText = (...path: string[]) => readFile(join(migrationsDir, ...path), 'utf8');
  return {
    baseDir: migrationsDir,
    lockfile: { path: 'migration_lock.toml', content: await readText('migration_lock.toml') },
    shadowDbInitScript: '',
    migrationDirectories: await Promise.all(
      names.sort().map(async (name) => ({
        path: name,
        migrationFile: {
          path: 'migration.sql',
          content: { tag: 'ok' as const, value: await readText(name, 'migration.sql') },
        },
      })),
    ),
  };
};

/** The same server and the same parameters (TLS and all), another database. */
export const withDatabase = (connection: PoolConfig, database: string): PoolConfig => {
  if (connection.connectionString === undefined) return { ...connection, database };
  // pg lets the string win over a `database` beside it. Whoever only sets the latter runs the shadow's migrations on the real database.
  const url = new URL(connection.connectionString);
  url.pathname = `/${encodeURIComponent(database)}`;
  return { ...connection, connectionString: url.href };
};

let shadowsNamed = 0;

/** Unlike any other of this server's in all likelihood; should two meet, CREATE DATABASE refuses the second. */
const newShadowName = (): string => {
  shadowsNamed += 1;
  return `prisma_migrate_shadow_db_${[process.pid, Date.now(), shadowsNamed].map((part) => part.toString(36)).join('_')}`;
};

/** Connections for one use of the engine. It asks for them; only close() ends them, in an order that lets the shadow be dropped. */
class EngineConnections implements SqlMigrationAwareDriverAdapterFactory {
  readonly provider = 'postgres';
  readonly adapterName = '@prisma/adapter-pg';
  readonly #config: PoolConfig;
  readonly #pools: Pool[] = [];
  readonly #shadows: string[] = [];

  constructor(config: PoolConfig) {
    this.#config = config;
  }

  connect() {
    return this.#open(this.#config);
  }

  async connectToShadowDb() {
    const database = newShadowName();
    const real = await this.connect();
    await real.executeScript(`CREATE DATABASE "${database}"`);
    this.#shadows.push(database);
    return this.#open(withDatabase(this.#config, database));
  }

  async close(): Promise<void> {
    const shadows = this.#shadows.splice(0);
    if (shadows.length > 0) {
      const real = await this.connect();
      for (const shadow of shadows) await real.executeScript(`DROP DATABASE IF EXISTS "${shadow}" WITH (FORCE)`);
    }
    await Promise.all(this.#pools.splice(0).map((pool) => pool.end()));
  }

  async #open(config: PoolConfig) {
    // One session: the engine's advisory lock belongs to the session that took it, and must cover every statement after it.
    const pool = new Pool({ connectionTimeoutMillis: CONNECT_MS_MAX, ...config, max: 1, idleTimeoutMillis: 0 });
    // A session that breaks while idle shows itself in the next statement; unheard, it would end the process.
    pool.on('error', () => undefined);
    this.#pools.push(pool);
    const adapter = await new PrismaPg(pool).connect();
    nameInternalChar(adapter, pool);
    // The adapter cuts a script at every semicolon, be it in a comment or a string, and runs the pieces one by one. Whole, it is one
    // transaction, and a migration that fails leaves nothing.
    adapter.executeScript = async (script) => {
      await adapter.executeRaw({ sql: script, args: [], argTypes: [] });
    };
    return adapter;
  }
}

const internalCharOid = 18;
const textOid = 25;

/**
 * The adapter has no name for the one-byte "char" of PostgreSQL's catalogues and refuses to read it; the engine insists that such a
 * column is a character. So it is read as text and called a character afterwards.
 */
const nameInternalChar = (adapter: SqlQueryable, pool: Pool): void => {
  // Of the statement answered last, which on a single session is the one whose result arrives.
  let columns: number[] = [];
  pool.on('connect', (client: PoolClient) => {
    // pg's types keep a client's connection to themselves.
    const { connection } = client as unknown as { connection: EventEmitter };
    connection.prependListener('rowDescription', ({ fields }: { fields: { dataTypeID: number }[] }) => {
      columns = [...fields.keys()].filter((index) => fields[index]?.dataTypeID === internalCharOid);
      for (const index of columns) fields[index]!.dataTypeID = textOid;
    });
  });
  const queryRaw = adapter.queryRaw.bind(adapter);
  adapter.queryRaw = async (query) => {
    columns = [];
    const result = await queryRaw(query);
    for (const index of columns) result.columnTypes[index] = ColumnTypeEnum.Character;
    return result;
  };
};

const named = (error: unknown): SchemaEngineError => {
  if (error instanceof SchemaEngineError) return error;
  const { message = String(error), code } = error as { message?: string; code?: string };
  // Below the sentence follow the engine's own stack frames, numbered.
  return new SchemaEngineError(message.replace(/\n\s+0: [^]*$/, '').trim(), code, error);
};

const besideTheEngine = (file: string) =>
  join(dirname(createRequire(import.meta.url).resolve('@prisma/schema-engine-wasm')), file);

// The generated bindings hold one instance for the whole process; a second one would be put under the feet of a first that is at work.
let loading: Promise<{ panic: Promise<never> }> | undefined;

const { __wbg_set_wasm: bindTo } = engineModule;
const startName = '__wbindgen_start';

const load = async () => {
  const panic = Promise.withResolvers<never>();
  // Without somebody to wait for it, a panic would be one unhandled rejection more.
  panic.promise.catch(() => undefined);
  // A call that panics never settles. The engine reports through this global, which Prisma's own programs define.
  Object.assign(globalThis, {
    PRISMA_WASM_PANIC_REGISTRY: {
      set_message: (message: string) => {
        const error = new SchemaEngineError(`The schema engine gave up: ${message.split('\n')[0]}`, undefined, message);
        panic.reject(error);
        throw error;
      },
    },
  });
  const program = await readFile(besideTheEngine('schema_engine_bg.wasm'));
  const { instance } = await WebAssembly.instantiate(program, { './schema_engine_bg.js': engineModule });
  bindTo(instance.exports);
  instance.exports[startName]();
  return { panic: panic.promise };
};

// Node has it; the library types that describe it come with a browser's whole world.
declare const WebAssembly: {
  instantiate(
    program: Uint8Array,
    imports: Record<string, unknown>,
  ): Promise<{ instance: { exports: Record<typeof startName, () => void> } }>;
};
