// A database connection of its own for backups and restores: without time limits, and with settings that fix how rows are written.
import { Client, type PoolConfig } from 'pg';
import { StartError } from '../../base/errors.ts';
import { HAS_CITUS } from '../citus.ts';
import { connectionErrorText } from '../connection-errors.ts';
import { SEE_ALL_TENANTS } from '../named-tenants.ts';

const CONNECT_TIMEOUT_MS = 10_000;

/**
 * One row has one text, whatever the server, the database or the role is set to. A table is read in one order: that of its pages,
 * and not of parallel workers or of an index.
 */
const SETTINGS = `
SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'iso_8601'; SET bytea_output = 'hex'; SET extra_float_digits = 1; SET synchronize_seqscans = off;
SET max_parallel_workers_per_gather = 0; SET enable_indexonlyscan = off; ${SEE_ALL_TENANTS}`;

/** Runs work on a connection, and closes it. @throws StartError if the database cannot be used; what the work throws. */
export const inSession = async <T>(poolConfig: PoolConfig, work: (session: Client) => Promise<T>): Promise<T> => {
  const session = new Client({
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    ...poolConfig,
    application_name: 'strongroom backup',
  });
  // A lost connection fails the query under way; an 'error' event without a listener would end the process.
  session.on('error', () => undefined);
  try {
    await session.connect().catch((error: unknown) => {
      throw new StartError(connectionErrorText(poolConfig, error));
    });
    await session.query(SETTINGS);
    return await work(session);
  } finally {
    await session.end().catch(() => undefined);
  }
};

/** @returns the SQLSTATE of an error of PostgreSQL, or the code of a system error; undefined for others. */
export const codeOf = (error: unknown): string | undefined => {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' ? code : undefined;
};

const FIND_ORDERS = `
SELECT c.relname::text AS name, string_agg(quote_ident(a.attname), ', ' ORDER BY k.place) AS columns
FROM pg_catalog.pg_dist_partition d JOIN pg_class c ON c.oid = d.logicalrelid
JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
WHERE c.relnamespace = current_schema()::regnamespace GROUP BY c.relname`;

/** Citus returns the rows of its workers as they come, so these tables are read by their primary keys. */
export const findOrders = async (session: Client): Promise<Map<string, string>> => {
  const { rows: found } = await session.query<{ has_citus: boolean }>(HAS_CITUS);
  if (!found[0]?.has_citus) return new Map();
  const { rows } = await session.query<{ name: string; columns: string }>(FIND_ORDERS);
  return new Map(rows.map(({ name, columns }) => [name, columns]));
};

/** The columns of tables, in their order, by table. Tables that do not exist are left out. */
export const findColumns = async (session: Client, tables: readonly string[]): Promise<Map<string, string[]>> => {
  const { rows } = await session.query<{ name: string; columns: string[] }>(
    `SELECT c.relname::text AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND c.relname = ANY ($1)
     GROUP BY c.relname`,
    [tables],
  );
  return new Map(rows.map(({ name, columns }) => [name, columns]));
};

/** The names of the applied migrations, oldest first; undefined where the database has no history. */
export const findMigrations = async (session: Client): Promise<string[] | undefined> => {
  const { rows: found } = await session.query(`SELECT to_regclass('_prisma_migrations') IS NOT NULL AS there`);
  if (!found[0].there) return undefined;
  const { rows } = await session.query<{ name: string }>(
    `SELECT migration_name AS name FROM _prisma_migrations
     WHERE rolled_back_at IS NULL AND finished_at IS NOT NULL ORDER BY migration_name`,
  );
  return rows.map(({ name }) => name);
};

/** A name as SQL writes it. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
