#!/usr/bin/env node
// Runs Prisma's schema engine as WebAssembly over pg, in place of the native program that Prisma's command line downloads.
// For developers and tests only; the server applies migrations itself (src/platform/maintenance/migrate.ts). Use:
//   PRISMA_SCHEMA_ENGINE_BINARY=$PWD/prisma/schema-engine.ts npx prisma migrate status
// Speaks the engine's protocol: JSON-RPC, one line per message, over stdin and stdout. It makes no shadow database, so
// `migrate dev` does not work: see docs/decisions/0046-migrations.md for how to write a migration.
import type { EventEmitter } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { PrismaPg } from '@prisma/adapter-pg';
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum, type SqlQueryable } from '@prisma/driver-adapter-utils';
import * as engineModule from '@prisma/schema-engine-wasm/schema_engine_bg';
import { Client, Pool, type PoolClient } from 'pg';

type SchemaFile = [path: string, content: string];
type Request = {
  id: number;
  method?: string;
  params?: { schema?: { files?: { path: string; content: string }[] } };
};

const { values: options, positionals } = parseArgs({
  options: {
    datamodels: { type: 'string', short: 'd', multiple: true, default: [] },
    datasource: { type: 'string' },
    version: { type: 'boolean', default: false },
  },
  allowPositionals: true,
  // Prisma also passes options that this engine does not need, such as preview features.
  strict: false,
}) as { values: { datamodels: string[]; datasource?: string; version: boolean }; positionals: string[] };

/** Commands that never connect pass no data source. */
const connectionString = options.datasource
  ? (JSON.parse(options.datasource) as { url: string }).url
  : 'postgresql://localhost/postgres';

const packageDir = dirname(createRequire(import.meta.url).resolve('@prisma/schema-engine-wasm'));

const main = async (): Promise<void> => {
  if (options.version) {
    const { version } = JSON.parse(await readFile(join(packageDir, 'package.json'), 'utf8')) as { version: string };
    console.log(`schema-engine-wasm ${version}`);
    return;
  }
  if (positionals[0] === 'cli') return runCommand(positionals[1]);
  await loadEngine();
  const schema = await readSchema();
  for await (const line of createInterface({ input: process.stdin })) {
    const request = (line.trim() === '' ? {} : JSON.parse(line)) as Request;
    // A message without a method confirms a `print` of ours.
    if (request.method) await answer(request, schema);
  }
};

/** The data model: paths to read, or one JSON text of `[path, content]` pairs. */
const readSchema = async (): Promise<SchemaFile[]> => {
  const [first] = options.datamodels;
  if (first === undefined) return [['schema.prisma', 'datasource db { provider = "postgresql" }']];
  try {
    return JSON.parse(first) as SchemaFile[];
  } catch {
    return Promise.all(
      options.datamodels.map(async (path): Promise<SchemaFile> => [path, await readFile(path, 'utf8')]),
    );
  }
};

/** Calls a method of a new engine, on a session of its own, which the engine's lock needs. */
const answer = async ({ id, method = '', params }: Request, givenSchema: SchemaFile[]): Promise<void> => {
  const pool = new Pool({ connectionString, max: 1, idleTimeoutMillis: 0 });
  pool.on('error', () => undefined);
  try {
    const datamodels = params?.schema?.files?.map(({ path, content }): SchemaFile => [path, content]) ?? givenSchema;
    const engine = (await engineModule.SchemaEngine.new(
      { datamodels },
      () => undefined,
      bindMigrationAwareSqlAdapterFactory({
        provider: 'postgres',
        adapterName: '@prisma/adapter-pg',
        connect: () => adapterOf(pool),
        connectToShadowDb: () => Promise.reject(new Error('This schema engine makes no shadow database.')),
      }),
    )) as unknown as Record<string, (params: unknown) => Promise<{ stdout?: string } | null>>;
    const call = method === 'getDatabaseVersion' ? () => engine['version']?.(null) : () => engine[method]?.(params);
    const result = (await call()) ?? {};
    // The native engine does not return a diff: it asks the command line to print it.
    if (method === 'diff' && typeof result === 'object' && result.stdout)
      send({ id: `print-${id}`, method: 'print', params: { content: result.stdout } });
    send({ id, result });
  } catch (error) {
    const { message, code } = error as { message: string; code?: string };
    // The engine's stack frames follow its sentence.
    const data = { is_panic: false, message: message.replace(/\n\s+0: [^]*$/, ''), error_code: code, meta: {} };
    send({ id, error: { code: 4466, message: 'The schema engine failed; see data.', data } });
  } finally {
    await pool.end();
  }
};

const adapterOf = async (pool: Pool) => {
  const adapter = await new PrismaPg(pool).connect();
  readInternalChar(adapter, pool);
  // The adapter splits a script at every semicolon, also in comments and strings. Sent whole, it is also one transaction.
  adapter.executeScript = async (script) => {
    await adapter.executeRaw({ sql: script, args: [], argTypes: [] });
  };
  return adapter;
};

const INTERNAL_CHAR_OID = 18;
const TEXT_OID = 25;

/**
 * Lets the adapter read the type "char" of PostgreSQL's catalogues, which it refuses and the engine needs as a character:
 * read as text, and declared a character afterwards.
 */
const readInternalChar = (adapter: SqlQueryable, pool: Pool): void => {
  // Columns of this type in the result that arrives. The pool has a single session.
  let columns: number[] = [];
  pool.on('connect', (client: PoolClient) => {
    const { connection } = client as unknown as { connection: EventEmitter };
    connection.prependListener('rowDescription', ({ fields }: { fields: { dataTypeID: number }[] }) => {
      columns = [...fields.keys()].filter((index) => fields[index]?.dataTypeID === INTERNAL_CHAR_OID);
      for (const index of columns) fields[index]!.dataTypeID = TEXT_OID;
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

/** One-shot commands: an exit code, and a log on stderr that Prisma reads from its second line on. */
const runCommand = async (command: string | undefined): Promise<void> => {
  try {
    const url = new URL(connectionString);
    if (command === 'can-connect-to-database') await runSql(url, 'SELECT 1');
    else if (command === 'create-database') {
      const name = decodeURIComponent(url.pathname.slice(1));
      url.pathname = '/postgres';
      await runSql(url, `CREATE DATABASE "${name.replaceAll('"', '""')}"`);
    } else throw new Error(`This schema engine has no command ${command}.`);
  } catch (error) {
    const { message, code = '' } = error as { message: string; code?: string };
    const known: Record<string, string> = { '3D000': 'P1003', '28P01': 'P1000', '28000': 'P1010' };
    const fields = { message: message || code, error_code: known[code] ?? 'P1001', is_panic: false, meta: {} };
    console.error(JSON.stringify({ level: 'INFO', target: 'schema_engine', fields: { message: command } }));
    console.error(JSON.stringify({ level: 'ERROR', target: 'schema_engine::logger', fields }));
    process.exitCode = 1;
  }
};

const runSql = async (url: URL, sql: string): Promise<void> => {
  const client = new Client({ connectionString: url.href });
  try {
    await client.connect();
    await client.query(sql);
  } finally {
    await client.end().catch(() => undefined);
  }
};

const send = (message: object): void =>
  void process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

// The names that wasm-bindgen generates.
const { __wbg_set_wasm: bindTo } = engineModule;
const startName = '__wbindgen_start';

const loadEngine = async (): Promise<void> => {
  // The engine reports a panic through this global, and the call that panicked never settles.
  const set_message = (message: string): never => {
    console.error(`The schema engine panicked: ${message}`);
    process.exit(101);
  };
  Object.assign(globalThis, { PRISMA_WASM_PANIC_REGISTRY: { set_message } });
  const program = await readFile(join(packageDir, 'schema_engine_bg.wasm'));
  const { instance } = await WebAssembly.instantiate(program, { './schema_engine_bg.js': engineModule });
  bindTo(instance.exports);
  instance.exports[startName]();
};

// The library types that describe it would bring those of a browser.
declare const WebAssembly: {
  instantiate(
    program: Uint8Array,
    imports: Record<string, unknown>,
  ): Promise<{ instance: { exports: Record<typeof startName, () => void> } }>;
};

await main();
