// Makes everything that outlives a request, in the order in which it depends on itself, and closes it in reverse.
// The only place that constructs hands; tests enter here too, with a few overrides.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import type { PoolConfig } from 'pg';
import type { DestinationStream } from 'pino';
import { createCallerFinder, type CallerFinder } from './access/api-keys.ts';
import type { Config } from './config.ts';
import { StartError } from './errors.ts';
import { type DigestKey, hmacText, memoryDigest, prepareDigestKey, randomBase62 } from './crypto/digest.ts';
import { newTimeOrderedId, newUuid } from './crypto/ids.ts';
import { localKeyProvider, RootKeyUnknown, type KeyProvider } from './crypto/key-provider.ts';
import { createKeyring, type Keyring } from './crypto/keyring.ts';
import { randomBytesPooled, type RandomBytes, randomIntBelow } from './crypto/random.ts';
import { SealBroken } from './crypto/seal.ts';
import { Sensitive } from './crypto/sensitive.ts';
import { createDatabase, type Database } from './db/client.ts';
import { lockDataDirectory, startEmbeddedPostgres, type EmbeddedPostgres } from './db/embedded.ts';
import { migrate, type MigrationResult } from './db/migrate.ts';
import { createLog, type Log } from './log.ts';
import type { ExpressionEnvironment } from './vault/expressions.ts';

/** Bytes of the pepper that API keys are digested under: as long as the digest. */
const PEPPER_BYTES = 32;
const ROOT_KEY_BYTES = 32;

export type Context = {
  readonly config: Config;
  /** Part of every key and every sealed value: what a test server wrote, a live one does not open. */
  readonly environment: 'test' | 'live';
  readonly log: Log;
  readonly now: () => Date;
  readonly randomBytes: RandomBytes;
  readonly newUuid: () => string;
  readonly newLogId: () => string;
  readonly db: Database;
  readonly provider: KeyProvider;
  readonly keyring: Keyring;
  /** What API keys are digested under. */
  readonly pepper: DigestKey;
  readonly callers: CallerFinder;
  readonly expressionEnvironment: ExpressionEnvironment;
  /** Undefined where DATABASE_URL names the database. */
  readonly embedded: EmbeddedPostgres | undefined;
  readonly migrations: MigrationResult;
  close(): Promise<void>;
};

export type Overrides = {
  now?: () => Date;
  logDestination?: DestinationStream;
  /** Told of a connection or lock that was lost in the background. */
  onFault?: (error: unknown) => void;
};

const migrationsDir = fileURLToPath(new URL('../prisma/migrations', import.meta.url));

/**
 * Makes a context: database (embedded or named), migrations, keys.
 * @param role `server` owns the data directory alone; a `command` may work beside a running server.
 * @throws StartError, EmbeddedPostgresError or MigrationError, each with the command that mends it.
 */
export const createContext = async (
  config: Config,
  role: 'server' | 'command',
  overrides: Overrides = {},
): Promise<Context> => {
  const closers: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).toReversed()) await closer();
  };
  try {
    return await build(config, role, overrides, closers, close);
  } catch (error) {
    await close().catch(() => undefined);
    throw error;
  }
};

const build = async (
  config: Config,
  role: 'server' | 'command',
  overrides: Overrides,
  closers: (() => Promise<void>)[],
  close: () => Promise<void>,
): Promise<Context> => {
  const environment = config.mode === 'production' ? 'live' : 'test';
  const log = createLog(config.logLevel, overrides.logDestination);
  const now = overrides.now ?? (() => new Date());
  const randomBytes = randomBytesPooled;

  const { poolConfig, embedded } = await findDatabase(config, role, log, randomBytes, closers);
  const rootKey = findRootKey(config, randomBytes);
  const provider = localKeyProvider([rootKey.key], randomBytes);

  const db = createDatabase(poolConfig, {
    poolMax: config.databasePoolMax,
    writeBatches: config.writeBatches,
    nameStatement: memoryDigest,
    onPoolError: (error) => log.warn({ error }, 'a database connection was lost'),
  });
  closers.push(() => db.close());

  await db.ping().catch((error: unknown) => {
    const { code } = ((error as Error).cause ?? {}) as { code?: string };
    throw new StartError(
      `The database does not answer (${code ?? 'no reason given'}). Check that it runs and that DATABASE_URL names its host, port, user, password and database: psql "$DATABASE_URL" -c 'select 1'`,
    );
  });
  // Before anything is written: a wrong root key must not touch a vault it cannot open.
  const before = await db.findInstance();
  if (before) await openPepper(provider, before, environment);
  const migrations = config.migrateOnStart ? await migrate(poolConfig, migrationsDir) : { applied: [], total: 0 };
  const wrapped_pepper = await provider.wrap(randomBytes(PEPPER_BYTES), pepperContext(environment));
  const pepper = await openPepper(
    provider,
    before ?? (await db.addInstance({ environment, wrapped_pepper })),
    environment,
  );
  rootKey.keep();

  const keyring = createKeyring({
    provider,
    store: db.keyStore,
    environment,
    now,
    randomBytes,
    cvcTtlMs: config.cvcTtlMs,
  });
  closers.push(() => Promise.resolve(keyring.close()));

  return {
    config,
    environment,
    log,
    now,
    randomBytes,
    newUuid,
    newLogId: () => newTimeOrderedId(now().getTime(), randomBytes),
    db,
    provider,
    keyring,
    pepper,
    callers: createCallerFinder({ environment, pepper, db, monotonicMs: () => performance.now() }),
    expressionEnvironment: { hmac: hmacText, randomInt: (max) => randomIntBelow(max, randomBytes) },
    embedded,
    migrations,
    close,
  };
};

const findDatabase = async (
  config: Config,
  role: 'server' | 'command',
  log: Log,
  randomBytes: RandomBytes,
  closers: (() => Promise<void>)[],
): Promise<{ poolConfig: PoolConfig; embedded: EmbeddedPostgres | undefined }> => {
  if (config.databaseUrl !== undefined)
    return { poolConfig: { connectionString: config.databaseUrl }, embedded: undefined };
  const embedded = await startEmbeddedPostgres({
    dataDir: config.dataDir,
    newPassword: () => randomBase62(32, randomBytes),
    log: (event, detail) => log.info({ ...detail }, event),
  });
  const lock = await lockDataDirectory(embedded.address, {
    // A command does its work beside a running server: it need not wait for what it does not need.
    ...(role === 'command' ? { waitMs: 0 } : {}),
    onLost: (error) => log.error({ alarm: 'lock_lost', error }, 'the lock on the data directory was lost'),
  });
  if (lock) {
    // Whoever holds the directory stops its database, last; a command beside a running server leaves it alone.
    closers.push(() => embedded.stop());
    closers.push(() => lock.release());
  } else if (role === 'server')
    throw new StartError(
      `Another server is running on ${config.dataDir}: one data directory serves one server. Stop that one first, or give this one a directory of its own: DATA_DIR=./data-2 PORT=8081 npm start`,
    );
  return { poolConfig: embedded.address, embedded };
};

const rootKeyPath = (config: Config) => join(config.dataDir, 'master.key');

/** The configured root key, or a development server's own: kept in a file once the database has accepted it. */
const findRootKey = (config: Config, randomBytes: RandomBytes): { key: Sensitive<Uint8Array>; keep: () => void } => {
  if (config.rootKey) return { key: new Sensitive(config.rootKey), keep: () => undefined };
  const path = rootKeyPath(config);
  let text: string | undefined;
  try {
    text = readFileSync(path, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
      throw new StartError(`The root key ${path} cannot be read. Make it readable: chmod 600 ${path}`);
  }
  if (text !== undefined) {
    const key = Buffer.from(text, 'base64');
    if (key.length === ROOT_KEY_BYTES) return { key: new Sensitive(key), keep: () => undefined };
    throw new StartError(`The root key ${path} is not 32 bytes in base64. Restore it from your backup.`);
  }
  const drawn = randomBytes(ROOT_KEY_BYTES);
  return {
    key: new Sensitive(drawn),
    keep: () => {
      mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
      writeFileSync(path, `${drawn.toString('base64')}\n`, { mode: 0o600, flag: 'wx' });
    },
  };
};

const pepperContext = (environment: string): string[] => ['pepper', environment];

/** Unwrapping the pepper is the canary: it succeeds under the very root key and environment that wrapped it. */
const openPepper = async (
  provider: KeyProvider,
  instance: { environment: string; wrapped_pepper: Uint8Array },
  environment: 'test' | 'live',
): Promise<DigestKey> => {
  if (instance.environment !== environment)
    throw new StartError(
      `This database belongs to a ${instance.environment === 'live' ? 'production' : 'development'} vault and this server is the other kind. Point DATABASE_URL at another database, or set NODE_ENV as it was.`,
    );
  try {
    return prepareDigestKey('pepper', await provider.unwrap(instance.wrapped_pepper, pepperContext(environment)));
  } catch (error) {
    if (!(error instanceof RootKeyUnknown) && !(error instanceof SealBroken)) throw error;
    throw new StartError(
      'The root key does not open this vault: MASTER_KEY is not the one its data was sealed under. Nothing was written. Set MASTER_KEY to the key from your secret manager (a development server keeps its own in DATA_DIR/master.key).',
    );
  }
};
