// What an operator reads when the database refuses a connection: the reason in words, where it was tried, and what to do.
// Never names a password. Also spells `sslmode` out as pg means it.
import { Client, type PoolConfig } from 'pg';

/** What PostgreSQL (by SQLSTATE) or the system (by its code) means, and what to do about it. */
const WORDS: Record<string, readonly [reason: string, fix: string]> = {
  '28P01': [
    'it refuses the user or the password',
    'Check both in DATABASE_URL; characters such as @ : / # % must be percent-encoded there',
  ],
  '28000': [
    'it does not let this user in',
    'Allow it in pg_hba.conf (a line with hostssl needs sslmode=verify-full in DATABASE_URL), and see that the role may log in: ALTER ROLE ... LOGIN',
  ],
  '3D000': ['there is no such database on the server', 'Make it, for instance with createdb, or correct its name'],
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
  'Set ssl = on in postgresql.conf. Only where nobody can listen on the way: sslmode=disable',
] as const;

const UNKNOWN = [
  'it does not answer',
  'Check that it runs and that DATABASE_URL names its host, port, user, password and database',
] as const;

const wordsOf = (code: string | undefined, error: unknown): readonly [string, string] => {
  // pg has no codes for what it finds out by itself.
  const message = error instanceof Error ? error.message : '';
  if (message.includes('does not support SSL')) return NO_TLS;
  if (/timeout/i.test(message)) return WORDS['ETIMEDOUT'] ?? UNKNOWN;
  if (code === undefined) return UNKNOWN;
  if (UNTRUSTED_CODES.has(code)) return UNTRUSTED;
  return WORDS[code] ?? UNKNOWN;
};

/** Where pg connects to. */
const targetOf = (poolConfig: PoolConfig): { address: string; user: string; database: string } | undefined => {
  try {
    const { host, port, user, database } = new Client(poolConfig);
    const address = host.startsWith('/')
      ? `the socket in ${host}`
      : `${host.includes(':') ? `[${host}]` : host}:${port}`;
    return { address, user: user ?? '', database: database ?? '' };
  } catch {
    // A file that DATABASE_URL names is missing: the error at hand says so.
    return undefined;
  }
};

/** @param error what pg threw at a connection. @returns sentences for the operator. */
export const connectionFaultText = (poolConfig: PoolConfig, error: unknown): string => {
  const { code } = (error ?? {}) as { code?: string };
  const [reason, fix] = wordsOf(code, error);
  const target = targetOf(poolConfig);
  const tried = target ? ` Tried: ${target.address}, user "${target.user}", database "${target.database}".` : '';
  return `The database cannot be used: ${reason}${code === undefined ? '' : ` (${code})`}.${tried} ${fix}.`;
};

/** Whether what goes to the database and back stays on this machine. */
export const isOnThisMachine = (poolConfig: PoolConfig): boolean => {
  const { host } = new Client(poolConfig);
  return host.startsWith('/') || host === 'localhost' || host === '::1' || host.startsWith('127.');
};

/**
 * pg checks the certificate fully for `prefer`, `require` and `verify-ca` too, and prints a warning that a later version will not.
 * We name what it does, so that neither the warning nor the change comes.
 */
export const withFullVerification = (databaseUrl: string): string => {
  const url = new URL(databaseUrl);
  const mode = url.searchParams.get('sslmode') ?? '';
  if (!['prefer', 'require', 'verify-ca'].includes(mode) || url.searchParams.has('uselibpqcompat')) return databaseUrl;
  return databaseUrl.replace(/([?&]sslmode=)[^&#]*/g, '$1verify-full');
};
