// Loads a dump into an empty vault in one transaction: all of its rows, or none.
import type { Client, PoolConfig } from 'pg';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { from as copyFrom } from 'pg-copy-streams';
import { StartError } from '../../base/errors.ts';
import { codeOf, findColumns, findMigrations, inSession, quoted } from './session.ts';
import type { DumpedTable, Manifest, Progress } from './dump.ts';
import { makeEarlierMonths } from '../log-partitions.ts';
import { lowerWalls, raiseWalls } from '../tenant-walls.ts';
import type { Dump } from './read-dump.ts';
import { type Replayed, replayErasures } from './replay.ts';
import { REPLACED_TABLES } from '../../base/tables.ts';

// A scratch database beside the vault's own, for a restore that is only a test, and what is read from it.

/** The address of another database on the same server, as a URL. @param poolConfig as openDatabase returns it. */
const besides = (poolConfig: PoolConfig, database: string): string => {
  const { connectionString, host = '', port, user = '', password } = poolConfig;
  const url = new URL(connectionString ?? 'postgresql://localhost');
  if (connectionString === undefined) {
    url.username = encodeURIComponent(user);
    url.password = encodeURIComponent(String(password));
    url.hostname = host;
    url.port = String(port);
  }
  url.pathname = `/${database}`;
  return url.href;
};

/**
 * Makes an empty database, and drops it after the work.
 * @throws StartError if the role may not make one; what the work throws.
 */
export const withScratchDatabase = async <T>(
  poolConfig: PoolConfig,
  suffix: string,
  work: (url: string) => Promise<T>,
): Promise<T> => {
  const database = `strongroom_verify_${suffix}`;
  await inSession(poolConfig, (session) =>
    session.query(`CREATE DATABASE ${quoted(database)} TEMPLATE template0`),
  ).catch((error: unknown) => {
    if (error instanceof StartError) throw error;
    throw new StartError(
      `No scratch database could be made beside the one that DATABASE_URL names (${codeOf(error) ?? 'connection lost'}). Name a role that may make databases: ALTER ROLE ... CREATEDB`,
      { cause: error },
    );
  });
  try {
    return await work(besides(poolConfig, database));
  } finally {
    await inSession(poolConfig, (session) => session.query(`DROP DATABASE ${quoted(database)} WITH (FORCE)`));
  }
};

/** The number of rows of a table. */
export const countRows = async (session: Client, table: string): Promise<number> => {
  const { rows } = await session.query<{ count: string }>(`SELECT count(*) AS count FROM ${quoted(table)}`);
  return Number(rows[0]?.count);
};

/** Tenants, some at a time, in the order of their ids. @param after the last one of the page before. */
export const listTenantIds = async (session: Client, after: string, most: number): Promise<string[]> => {
  const { rows } = await session.query<{ id: string }>('SELECT id FROM tenants WHERE id > $1 ORDER BY id LIMIT $2', [
    after,
    most,
  ]);
  return rows.map(({ id }) => id);
};

/** What opens a token. */
type SampledToken = {
  id: string;
  type: string;
  sealed: Buffer;
  container: string;
  expires_at: Date | null;
  fingerprint: string | null;
  fingerprint_expression: string | null;
  bound_to: object | null;
};

const SAMPLED_COLUMNS = 'id, type, sealed, container, expires_at, fingerprint, fingerprint_expression, bound_to';

/** The oldest and the newest tokens of a tenant. */
export const sampleTokens = async (session: Client, tenant_id: string, ofEach: number): Promise<SampledToken[]> => {
  const ordered = (direction: 'ASC' | 'DESC') =>
    `(SELECT ${SAMPLED_COLUMNS} FROM tokens WHERE tenant_id = $1 ORDER BY created_at ${direction}, id LIMIT $2)`;
  const { rows } = await session.query<SampledToken>(`${ordered('ASC')} UNION ${ordered('DESC')}`, [tenant_id, ofEach]);
  return rows;
};

const ANOTHER_DATABASE =
  'Restore into a new one, and name it in DATABASE_URL: createdb strongroom_restored. To give up what this one has: dropdb NAME && createdb NAME';

/**
 * @throws StartError for a database that has rows, tables of another program, or migrations that the backup lacks: the rows must be
 * loaded into tables as they were.
 */
export const checkEmpty = async (session: Client, manifest: Manifest): Promise<void> => {
  const history = await findMigrations(session);
  if (!history) {
    const { rowCount } = await session.query('SELECT FROM pg_tables WHERE schemaname = current_schema() LIMIT 1');
    if (rowCount === 0) return;
    throw new StartError(`The database holds tables that Strongroom did not create. ${ANOTHER_DATABASE}`);
  }
  const names = manifest.tables.map(({ name }) => name);
  const existing = [...(await findColumns(session, names)).keys()];
  for (const table of existing) {
    if (REPLACED_TABLES.includes(table)) continue;
    const { rowCount } = await session.query(`SELECT 1 FROM ${quoted(table)} LIMIT 1`);
    if (rowCount !== 0)
      throw new StartError(
        `The database is not empty: its table ${table} has rows, and a restore adds to nothing. Nothing was changed. ${ANOTHER_DATABASE}`,
      );
  }
  const newer = history.filter((name) => !manifest.migrations.includes(name));
  if (newer.length > 0)
    throw new StartError(
      `The tables of the database are newer than the backup (${newer.join(', ')}). A restore makes the tables as they were, and migrates them with their rows. ${ANOTHER_DATABASE}`,
    );
};

/** The rows of the next table of a dump. @throws StartError, without a value, if the database refuses one. */
const loadTable = async (
  session: Client,
  dump: Dump,
  table: DumpedTable,
  into: string,
  note: (bytes: number) => void,
): Promise<void> => {
  const counted = async function* (): AsyncGenerator<Buffer> {
    for await (const piece of dump.readTable(table)) {
      note(piece.length);
      yield piece;
    }
  };
  const rows = session.query(copyFrom(`COPY ${quoted(into)} (${table.columns.map(quoted).join(', ')}) FROM STDIN`));
  try {
    await pipeline(Readable.from(counted(), { objectMode: false }), rows);
  } catch (error) {
    if (error instanceof StartError) throw error;
    // The words of PostgreSQL may hold a value.
    throw new StartError(
      `The database refused the rows of ${table.name} (${codeOf(error) ?? 'connection lost'}). Nothing was restored.`,
      { cause: error },
    );
  }
  if (rows.rowCount !== table.rows)
    throw new StartError(
      `The table ${table.name} has ${rows.rowCount} rows, and its manifest says ${table.rows}. Nothing was restored.`,
    );
};

/** Reads an erasure list, and deletes what it names, within a transaction. @throws StartError. */
const replayList = async (session: Client, erasures: Dump): Promise<Replayed> => {
  const [listed] = erasures.manifest.tables as [DumpedTable];
  await session.query('CREATE TEMP TABLE listed_erasures (LIKE erasures) ON COMMIT DROP');
  await loadTable(session, erasures, listed, 'listed_erasures', () => undefined);
  await erasures.readEnd();
  return replayErasures(session);
};

/** Writes to the log of tenants that they were deleted, within the transaction that deletes them. @throws StartError. */
export type LogDeletions = (session: Client, replayed: Replayed) => Promise<void>;

/** Replays an erasure list in a vault that came back by other means. @throws StartError. Nothing is deleted then. */
export const replayInVault = async (session: Client, erasures: Dump, log: LogDeletions): Promise<Replayed> => {
  await session.query('BEGIN');
  const replayed = await replayList(session, erasures);
  await log(session, replayed);
  await session.query('COMMIT');
  return replayed;
};

/**
 * Loads a dump, and then deletes again what the erasure list says, before anything of it is visible.
 * @param log where deletions are to be logged with them. @returns what was deleted again.
 * @throws StartError. Nothing is loaded then.
 */
export const loadDump = async (
  session: Client,
  dump: Dump,
  erasures: Dump | undefined,
  progress: Progress,
  log?: LogDeletions,
): Promise<Replayed | undefined> => {
  const { tables } = dump.manifest;
  const total = tables.reduce((sum, { bytes }) => sum + bytes, 0);
  let loaded = 0;
  await session.query('BEGIN');
  // No server may make a tenant meanwhile. The owner of the log may not lock it: that needs a right that migrations revoked.
  const locked = tables.filter(({ name }) => name !== 'audit_log');
  await session.query(`LOCK TABLE ${locked.map(({ name }) => quoted(name)).join(', ')}`);
  await checkEmpty(session, dump.manifest);
  const ask = async (text: string, values: unknown[]) => (await session.query(text, values)).rows;
  // COPY does not write into a table with row-level security.
  await lowerWalls(ask);
  for (const table of REPLACED_TABLES) await session.query(`DELETE FROM ${quoted(table)}`);
  for (const table of tables) {
    if (table.name === 'audit_log') await makeEarlierMonths(session);
    await loadTable(session, dump, table, table.name, (bytes) => progress('restoring', (loaded += bytes), total));
  }
  await dump.readEnd();
  const replayed = erasures && (await replayList(session, erasures));
  if (replayed && log) await log(session, replayed);
  await raiseWalls(ask);
  await session.query('COMMIT');
  // Without statistics, PostgreSQL plans for small tables, until it makes them by itself.
  await session.query('ANALYZE').catch(() => undefined);
  return replayed;
};
