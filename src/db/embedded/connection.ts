// Where the embedded PostgreSQL listens and who may enter: tries an address, makes the vault's role and its empty database, finds a
// free port. Speaks to the server over its port only. Knows nothing of its files or its processes.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { Client } from 'pg';
import { EmbeddedPostgresError, codeOf } from './report.ts';

/** Where a database is and who may enter. Also valid as the configuration of a pg client or pool. */
export type DatabaseAddress = { host: string; port: number; user: string; password: string; database: string };

/** Makes the role and its database; nothing else is done as it. */
export const superuser = 'postgres';
/**
 * The server works as this ordinary role: what a migration revokes from it, such as changing the audit log, is out of its reach.
 * It shares the superuser's password, for it guards against our own statements, not against who reads the file.
 */
export const roleName = 'strongroom';
export const databaseName = 'strongroom';
const connectTimeoutMs = 2_000;

/** Makes the starts that prepare one server take turns. The number says nothing; it is looked at in the maintenance database alone. */
const preparingLockKey = '91616979177032';

const enter = async (address: DatabaseAddress): Promise<Client> => {
  const client = new Client({ ...address, connectionTimeoutMillis: connectTimeoutMs });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return client;
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
};

/** In clusters of the first releases the superuser has the role's name, until ensureDatabase() gives it its own. */
const enterAsSuperuser = async (address: DatabaseAddress, database: string): Promise<Client> => {
  try {
    return await enter({ ...address, user: superuser, database });
  } catch (error) {
    if (codeOf(error) !== '28P01') throw error;
    return enter({ ...address, user: roleName, database });
  }
};

const asSuperuser = async <T>(
  address: DatabaseAddress,
  database: string,
  work: (client: Client) => Promise<T>,
): Promise<T> => {
  const client = await enterAsSuperuser(address, database);
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
};

/** The database that exists from the first moment; ours comes a little later. */
const maintenanceDatabase = 'postgres';

/** `starting` also stands for shutting down and for full: a server that lives and cannot be used yet. */
export const tryConnect = async (address: DatabaseAddress): Promise<'ready' | 'starting' | 'refused'> => {
  try {
    await asSuperuser(address, maintenanceDatabase, () => Promise.resolve());
    return 'ready';
  } catch (error) {
    // 53300, too many connections: it runs and knows us. 28P01: wrong password.
    const code = codeOf(error);
    return code === '53300' ? 'ready' : code === '28P01' ? 'refused' : 'starting';
  }
};

/** Makes the role and the database of an address, or hands over what an earlier release owned as superuser. Several may ask at once. */
export const ensureDatabase = async (address: DatabaseAddress): Promise<void> => {
  try {
    await asSuperuser(address, maintenanceDatabase, async (client) => {
      await client.query('SELECT pg_advisory_lock($1)', [preparingLockKey]);
      await ensureRole(client, address);
      const { rows } = await client.query<{ owner: string }>(
        'SELECT pg_get_userbyid(datdba) AS owner FROM pg_database WHERE datname = $1',
        [address.database],
      );
      if (rows.length === 0)
        await client.query(`CREATE DATABASE "${address.database}" OWNER "${address.user}" TEMPLATE template0`);
      else if (rows[0]?.owner !== address.user) await handOver(address);
    });
  } catch (error) {
    throw new EmbeddedPostgresError(
      `The built-in PostgreSQL runs, but its database could not be opened or made (${codeOf(error)}). Start again; if it stays so, read its log.`,
      error,
    );
  }
};

const ensureRole = async (client: Client, { user, password }: DatabaseAddress): Promise<void> => {
  const { rows } = await client.query<{ rolsuper: boolean }>('SELECT rolsuper FROM pg_roles WHERE rolname = $1', [
    user,
  ]);
  if (rows[0]?.rolsuper === false) return;
  // Nobody may rename the user of the session, and the first superuser cannot become an ordinary role: it is renamed in the name of
  // another, who exists for that one moment.
  const rename = [
    'CREATE ROLE strongroom_handover SUPERUSER',
    'SET SESSION AUTHORIZATION strongroom_handover',
    `ALTER ROLE "${user}" RENAME TO "${superuser}"`,
    'RESET SESSION AUTHORIZATION',
    'DROP ROLE strongroom_handover',
  ];
  // CREATEDB lets the tests make databases of their own. pg_signal_backend lets it drop one that an autovacuum worker is busy in.
  const create = [
    `CREATE ROLE "${user}" LOGIN NOSUPERUSER NOCREATEROLE CREATEDB PASSWORD ${client.escapeLiteral(password)}`,
    `GRANT pg_signal_backend TO "${user}"`,
  ];
  // Sent together they are one transaction.
  await client.query([...(rows.length > 0 ? rename : []), ...create].join(';'));
};

/** The first releases made tables and nothing else. The owner of the database changes with them, in one transaction. */
const handOver = (address: DatabaseAddress): Promise<void> =>
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
