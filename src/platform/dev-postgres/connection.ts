// Connects to the embedded PostgreSQL, and creates the vault's role and its empty database.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { Client } from 'pg';
import { StartError } from '../base/errors.ts';
import { codeOf } from './directory.ts';

/** Also valid as the configuration of a pg client or pool. */
export type DatabaseAddress = { host: string; port: number; user: string; password: string; database: string };

/** Address in the form of DATABASE_URL. */
export const urlOf = ({ host, port, user, password, database }: DatabaseAddress): string =>
  `postgresql://${encodeURIComponent(user)}:${encodeURIComponent(password)}@${host}:${port}/${database}`;

/** Creates the role and its database; used for nothing else. */
export const superuser = 'postgres';
/**
 * The server works as this ordinary role, so that a migration can revoke rights from it, such as changing the audit log.
 * It has the superuser's password: it protects from the server's own statements, not from a reader of the file.
 */
export const roleName = 'strongroom';
export const databaseName = 'strongroom';
/** The database that a new cluster has. */
const maintenanceDatabase = 'postgres';
const CONNECT_TIMEOUT_MS = 2_000;

/** An advisory lock in the maintenance database: starts that prepare one server take turns. The number has no meaning. */
const PREPARE_LOCK_KEY = '91616979177032';

const connect = async (address: DatabaseAddress): Promise<Client> => {
  const client = new Client({ ...address, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return client;
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
};

/** In clusters of the first releases the superuser has the role's name, until ensureDatabase() renames it. */
const connectAsSuperuser = async (address: DatabaseAddress, database: string): Promise<Client> => {
  try {
    return await connect({ ...address, user: superuser, database });
  } catch (error) {
    if (codeOf(error) !== '28P01') throw error;
    return connect({ ...address, user: roleName, database });
  }
};

const asSuperuser = async <T>(
  address: DatabaseAddress,
  database: string,
  work: (client: Client) => Promise<T>,
): Promise<T> => {
  const client = await connectAsSuperuser(address, database);
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
};

/** `starting` includes shutting down: a server that lives and cannot be used. */
export const tryConnect = async (address: DatabaseAddress): Promise<'ready' | 'starting' | 'refused'> => {
  try {
    await asSuperuser(address, maintenanceDatabase, () => Promise.resolve());
    return 'ready';
  } catch (error) {
    // 53300: too many connections, so the password was right. 28P01: wrong password.
    const code = codeOf(error);
    return code === '53300' ? 'ready' : code === '28P01' ? 'refused' : 'starting';
  }
};

/**
 * Creates the role and the database of an address, or changes the owner of those that an earlier release owned as superuser.
 * Several processes may call it at once.
 */
export const ensureDatabase = async (address: DatabaseAddress): Promise<void> => {
  try {
    await asSuperuser(address, maintenanceDatabase, async (client) => {
      await client.query('SELECT pg_advisory_lock($1)', [PREPARE_LOCK_KEY]);
      await ensureRole(client, address);
      const { rows } = await client.query<{ owner: string }>(
        'SELECT pg_get_userbyid(datdba) AS owner FROM pg_database WHERE datname = $1',
        [address.database],
      );
      if (rows.length === 0)
        await client.query(`CREATE DATABASE "${address.database}" OWNER "${address.user}" TEMPLATE template0`);
      else if (rows[0]?.owner !== address.user) await changeDatabaseOwner(address);
      await markLeakproof(address);
    });
  } catch (error) {
    throw new StartError(
      `The built-in PostgreSQL runs, but its database could not be opened or created (${codeOf(error)}). Start again; if it fails again, read its log.`,
      { cause: error },
    );
  }
};

const ensureRole = async (client: Client, { user, password }: DatabaseAddress): Promise<void> => {
  const { rows } = await client.query<{ rolsuper: boolean }>('SELECT rolsuper FROM pg_roles WHERE rolname = $1', [
    user,
  ]);
  if (rows[0]?.rolsuper === false) return;
  // A session cannot rename its own user, and the first superuser of a cluster cannot become an ordinary role. So a temporary
  // superuser renames it.
  const rename = [
    'CREATE ROLE strongroom_handover SUPERUSER',
    'SET SESSION AUTHORIZATION strongroom_handover',
    `ALTER ROLE "${user}" RENAME TO "${superuser}"`,
    'RESET SESSION AUTHORIZATION',
    'DROP ROLE strongroom_handover',
  ];
  // CREATEDB lets tests create databases. pg_signal_backend lets them drop one in which an autovacuum worker is busy.
  const create = [
    `CREATE ROLE "${user}" LOGIN NOSUPERUSER NOCREATEROLE CREATEDB PASSWORD ${client.escapeLiteral(password)}`,
    `GRANT pg_signal_backend TO "${user}"`,
  ];
  // One query string is one transaction.
  await client.query([...(rows.length > 0 ? rename : []), ...create].join(';'));
};

/** Lets searches use their index behind row-level security (the baseline migration). */
const markLeakproof = (address: DatabaseAddress): Promise<void> =>
  asSuperuser(address, address.database, async (client) => {
    if ((await client.query(IS_MARKED)).rowCount === 0) await client.query(MARK);
  });

const IS_MARKED = `SELECT FROM pg_proc WHERE oid = 'pg_catalog.arraycontains(anyarray, anyarray)'::regprocedure AND proleakproof`;
const MARK = 'ALTER FUNCTION pg_catalog.arraycontains(anyarray, anyarray) LEAKPROOF';

/** Changes the owner of the database and its tables in one transaction. The first releases created tables only. */
const changeDatabaseOwner = (address: DatabaseAddress): Promise<void> =>
  asSuperuser(address, address.database, async (client) => {
    const { rows } = await client.query<{ name: string }>(
      `SELECT oid::regclass::text AS name FROM pg_class
       WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND pg_get_userbyid(relowner) <> $1`,
      [address.user],
    );
    const statements = rows.map(({ name }) => `ALTER TABLE ${name} OWNER TO "${address.user}"`);
    await client.query([...statements, `ALTER DATABASE "${address.database}" OWNER TO "${address.user}"`].join(';'));
  });

export const findFreePort = async (): Promise<number> => {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port');
  return address.port;
};
