// Messages for the operator when the database cannot be connected: the reason, the address, and what to do. Never the password.
import { Client, type PoolConfig } from 'pg';
import { IS_IMAGE } from '../base/program.ts';

/** Reason and fix by SQLSTATE of PostgreSQL or error code of the system. */
const MESSAGES: Record<string, readonly [reason: string, fix: string]> = {
  '28P01': [
    'it refuses the user or the password',
    IS_IMAGE
      ? 'Check both in DATABASE_URL. Under compose a volume keeps the passwords that it was made with: put the old secrets back, or start again without its data (docs/operations/docker.md)'
      : 'Check both in DATABASE_URL; characters such as @ : / # % must be percent-encoded there',
  ],
  '28000': [
    'it does not let this user in',
    'Allow it in pg_hba.conf (a line with hostssl needs sslmode=verify-full in DATABASE_URL), and see that the role may log in: ALTER ROLE ... LOGIN',
  ],
  '3D000': ['there is no such database on the server', 'Create it, for instance with createdb, or correct its name'],
  '42501': ['the user may not connect to the database', 'Allow it: GRANT CONNECT ON DATABASE ... TO ...'],
  '53300': [
    'it has no connection left for this user',
    'Lower DATABASE_POOL_MAX of the processes that share it, or raise max_connections or the limit of the role',
  ],
  '57P03': ['it is starting, stopping or recovering', 'Wait until it is ready, then start again'],
  '55000': ['the database takes no connections', 'Allow them: ALTER DATABASE ... ALLOW_CONNECTIONS true'],
  ECONNREFUSED: ['nothing listens there', 'Start PostgreSQL, or correct host and port; see its listen_addresses'],
  ECONNRESET: ['it ended the connection', 'See the log of PostgreSQL, and what is between it and this server'],
  ENOENT: [
    'a file is missing: the socket of the server, or one that DATABASE_URL names by sslrootcert, sslcert or sslkey',
    'Correct the path in DATABASE_URL',
  ],
  ENOTFOUND: ['the name of the host is unknown', 'Correct it in DATABASE_URL, or the name server of this machine'],
  EAI_AGAIN: ['no name server answers for the name of the host', 'Check the name server of this machine'],
  ETIMEDOUT: ['it does not answer in time', 'Check host and port, and the firewalls between'],
  EHOSTUNREACH: ['there is no way to the host', 'Check host and network'],
  ENETUNREACH: ['there is no way to the network of the host', 'Check host and network'],
  ERR_TLS_CERT_ALTNAME_INVALID: [
    'its certificate is for another name',
    'Name the host as its certificate does, or have one issued for this name',
  ],
  CERT_HAS_EXPIRED: ['its certificate has expired', 'Renew the certificate of PostgreSQL'],
};

const UNTRUSTED = [
  'its certificate comes from an authority that is not trusted here',
  'Name the file of its authority in DATABASE_URL: sslmode=verify-full&sslrootcert=/path/ca.pem',
] as const;

const UNTRUSTED_CODES = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]);

const NO_TLS = [
  'it offers no TLS, and sslmode asks for it',
  'Set ssl = on in postgresql.conf. Only on a network that you trust: sslmode=disable',
] as const;

const UNKNOWN = [
  'it does not answer',
  'Check that it runs and that DATABASE_URL names its host, port, user, password and database',
] as const;

const messageOf = (code: string | undefined, error: unknown): readonly [string, string] => {
  // Errors of pg itself have no code.
  const message = error instanceof Error ? error.message : '';
  if (message.includes('does not support SSL')) return NO_TLS;
  if (/timeout/i.test(message)) return MESSAGES['ETIMEDOUT'] ?? UNKNOWN;
  if (code === undefined) return UNKNOWN;
  if (UNTRUSTED_CODES.has(code)) return UNTRUSTED;
  return MESSAGES[code] ?? UNKNOWN;
};

/** The target of a connection; undefined if it cannot be found out. */
const targetOf = (poolConfig: PoolConfig): { address: string; user: string; database: string } | undefined => {
  try {
    const { host, port, user, database } = new Client(poolConfig);
    const address = host.startsWith('/')
      ? `the socket in ${host}`
      : `${host.includes(':') ? `[${host}]` : host}:${port}`;
    return { address, user: user ?? '', database: database ?? '' };
  } catch {
    // A file that DATABASE_URL names is missing, and the error of the connection says so.
    return undefined;
  }
};

/** @param error the error of pg's connect(). */
export const connectionErrorText = (poolConfig: PoolConfig, error: unknown): string => {
  const { code } = (error ?? {}) as { code?: string };
  const [reason, fix] = messageOf(code, error);
  const target = targetOf(poolConfig);
  const tried = target ? ` Tried: ${target.address}, user "${target.user}", database "${target.database}".` : '';
  return `The database cannot be used: ${reason}${code === undefined ? '' : ` (${code})`}.${tried} ${fix}.`;
};

/** Whether traffic to the database stays on this machine. */
export const isOnThisMachine = (poolConfig: PoolConfig): boolean => {
  const { host } = new Client(poolConfig);
  return host.startsWith('/') || host === 'localhost' || host === '::1' || host.startsWith('127.');
};

/** Without a name for connections: the names that this server gives them tell its version to others. */
export const withoutName = (databaseUrl: string): string =>
  databaseUrl.replace(/([?&])application_name=[^&#]*&?/g, '$1').replace(/[?&](?=#|$)/, '');

/**
 * Replaces `sslmode=prefer`, `require` and `verify-ca` by `verify-full`. pg treats them alike today, and warns that a later version
 * will check less.
 */
export const withFullVerification = (databaseUrl: string): string => {
  const url = new URL(databaseUrl);
  const mode = url.searchParams.get('sslmode') ?? '';
  if (!['prefer', 'require', 'verify-ca'].includes(mode) || url.searchParams.has('uselibpqcompat')) return databaseUrl;
  return databaseUrl.replace(/([?&]sslmode=)[^&#]*/g, '$1verify-full');
};
