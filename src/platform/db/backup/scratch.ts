// A scratch database beside the vault's own, for a restore that is only a test, and what is read from it.
import type { Client, PoolConfig } from 'pg';
import { StartError } from '../../base/errors.ts';
import { codeOf, inSession, quoted } from './session.ts';

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
export type SampledToken = {
  id: string;
  type: string;
  sealed: Buffer;
  container: string;
  expires_at: Date | null;
  fingerprint: string | null;
  fingerprint_expression: string | null;
};

const SAMPLED_COLUMNS = 'id, type, sealed, container, expires_at, fingerprint, fingerprint_expression';

/** The oldest and the newest tokens of a tenant. */
export const sampleTokens = async (session: Client, tenant_id: string, ofEach: number): Promise<SampledToken[]> => {
  const ordered = (direction: 'ASC' | 'DESC') =>
    `(SELECT ${SAMPLED_COLUMNS} FROM tokens WHERE tenant_id = $1 ORDER BY created_at ${direction}, id LIMIT $2)`;
  const { rows } = await session.query<SampledToken>(`${ordered('ASC')} UNION ${ordered('DESC')}`, [tenant_id, ofEach]);
  return rows;
};
