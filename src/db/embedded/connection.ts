// Where the embedded PostgreSQL listens and who may enter: tries an address, makes the vault's empty database, finds a free port.
// Speaks to the server over its port only. Knows nothing of its files or its processes.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { Client } from 'pg';
import { EmbeddedPostgresError, codeOf } from './report.ts';

/** Where a database is and who may enter. Also valid as the configuration of a pg client or pool. */
export type DatabaseAddress = { host: string; port: number; user: string; password: string; database: string };

export const superuser = 'strongroom';
export const databaseName = 'strongroom';
const connectTimeoutMs = 2_000;

/** `starting` also stands for shutting down and for full: a server that lives and cannot be used yet. */
export const tryConnect = async (address: DatabaseAddress): Promise<'ready' | 'starting' | 'refused'> => {
  // The maintenance database exists from the first moment, ours a little later.
  const client = new Client({ ...address, database: 'postgres', connectionTimeoutMillis: connectTimeoutMs });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return 'ready';
  } catch (error) {
    // 53300, too many connections: it runs and knows us. 28P01: wrong password.
    const code = codeOf(error);
    return code === '53300' ? 'ready' : code === '28P01' ? 'refused' : 'starting';
  } finally {
    await client.end().catch(() => undefined);
  }
};

/** Several processes may ask for it at once. */
export const ensureDatabase = async (address: DatabaseAddress): Promise<void> => {
  const client = new Client({ ...address, database: 'postgres', connectionTimeoutMillis: connectTimeoutMs });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [address.database]);
    if (rowCount === 0) await client.query(`CREATE DATABASE "${address.database}" TEMPLATE template0`);
  } catch (error) {
    // 42P04 and 23505: another process made it between our two statements.
    if (!['42P04', '23505'].includes(codeOf(error))) {
      throw new EmbeddedPostgresError(
        `The built-in PostgreSQL runs, but its database could not be opened or made (${codeOf(error)}). Start again; if it stays so, read its log.`,
        error,
      );
    }
  } finally {
    await client.end().catch(() => undefined);
  }
};

export const findFreePort = async (): Promise<number> => {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port');
  return address.port;
};
