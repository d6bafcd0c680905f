// Makes everything that outlives a request, in the order in which it depends on itself, and closes it in reverse.
// The only place that constructs hands; tests enter here too, with a few overrides.
import { link, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PoolConfig } from 'pg';
import type { DestinationStream } from 'pino';
import { createCallerFinder, type CallerFinder } from './access/api-keys.ts';
import { createRefusalLog, type RefusalLog } from './audit/refusals.ts';
import { ConfigError, parseRootKey, type Config, type MailConfig } from './config.ts';
import { StartError } from './errors.ts';
import { type DigestKey, hmacText, loopDigest, memoryDigest, prepareDigestKey, randomBase62 } from './crypto/digest.ts';
import { newTimeOrderedId, newUuid } from './crypto/ids.ts';
import { localKeyProvider, RootKeyUnknown, type KeyProvider } from './crypto/key-provider.ts';
import { createKeyring, type Keyring } from './crypto/keyring.ts';
import { randomBytesFromKernel, type RandomBytes, randomIntBelow } from './crypto/random.ts';
import { SealBroken } from './crypto/seal.ts';
import { Sensitive } from './crypto/sensitive.ts';
import { createDatabase, type Database } from './db/client.ts';
import { connectionFaultText, isOnThisMachine, withFullVerification } from './db/connection-words.ts';
import { listenForNotices } from './db/notices.ts';
import { hasCluster, takeDataDirectory, type EmbeddedPostgres } from './db/embedded.ts';
import { makeDirectory, syncDirectory, writePrivate } from './db/embedded/directory.ts';
import { EmbeddedPostgresError } from './db/embedded/report.ts';
import { findPendingMigrations, migrate, MigrationError, type MigrationResult } from './db/migrate.ts';
import type { ServerRole } from './db/server-role.ts';
import { createEgress, type Egress, type EgressTimeouts, type Resolver } from './egress/client.ts';
import { createLog, describeError, type Log } from './log.ts';
import { MailFault } from './mail/fault.ts';
import { createMailer, type Mailer } from './mail/mailer.ts';
import { createSessionFinder, type SessionFinder } from './people/sessions.ts';
import { createProxyFinder, type ProxyFinder } from './proxy/proxy-finder.ts';
import { createOfficialReader } from './runtime/official.ts';
import { createReactorFinder, type ReactorFinder } from './runtime/reactor-finder.ts';
import { RUN_BYTES_MAX, type Sandbox, whyNoWall } from './sandbox/sandbox.ts';
import { createSandbox, type SandboxEvent } from './sandbox/supervisor.ts';
import type { ExpressionEnvironment } from './vault/expressions.ts';

/** Bytes of the pepper that keys are digested under: as long as the digest. */
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
  /** A log row's id, whose time is the row's. */
  readonly newLogId: (at: Date) => string;
  readonly db: Database;
  readonly provider: KeyProvider;
  readonly keyring: Keyring;
  /** What API keys and proxy keys are digested under. */
  readonly pepper: DigestKey;
  /** Marks the requests that this vault forwards. */
  readonly loop_id: string;
  readonly callers: CallerFinder;
  readonly reactors: ReactorFinder;
  readonly proxies: ProxyFinder;
  readonly sessions: SessionFinder;
  readonly refusals: RefusalLog;
  readonly expressionEnvironment: ExpressionEnvironment;
  /** Where the code of tenants runs. A server starts it; a command's starts with its first use. */
  readonly sandbox: Sandbox;
  /** The way out, for the code of tenants. */
  readonly egress: Egress;
  /** Undefined where no mail is sent. */
  readonly mailer: Mailer | undefined;
  /** Undefined where DATABASE_URL names the database. */
  readonly embedded: EmbeddedPostgres | undefined;
  readonly migrations: MigrationResult;
  close(): Promise<void>;
};

export type Overrides = {
  now?: () => Date;
  logDestination?: DestinationStream;
  /** All addresses of a host. */
  resolve?: Resolver;
  /** Certificate authorities in place of the system's, in PEM. */
  ca?: string[];
  /** What a destination may take; the real ones are longer than a test should wait. */
  egressTimeouts?: Partial<EgressTimeouts>;
  /** Called when the data directory belongs to another server by now: this one must stop. */
  onDirectoryLost?: () => void;
};

const migrationsDir = fileURLToPath(new URL('../prisma/migrations', import.meta.url));

/** A start that loses its data directory to a process that is just leaving it begins again, so often. */
const STARTS_MAX = 3;

/**
 * Who opens the database. `server` owns the data directory alone, and makes a vault where there is none. The others may work
 * beside a running server: `bootstrap` makes a vault in a database that DATABASE_URL names, `command` never makes one.
 */
type Role = 'server' | 'bootstrap' | 'command';

/** What a start has opened so far, to be closed in reverse, and whether the lock on its data directory is gone again. */
type Start = { closers: (() => Promise<void>)[]; isLockLost: boolean };

/** Closes everything, whatever fails on the way. @throws the first failure, at the end. */
const closeAll = async ({ closers }: Start): Promise<void> => {
  const failures: unknown[] = [];
  for (const closer of closers.splice(0).toReversed()) {
    try {
      await closer();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
};

/**
 * Makes a context: database (embedded or named), migrations, keys.
 * @throws StartError, EmbeddedPostgresError or MigrationError, each with the command that mends it.
 */
export const createContext = async (config: Config, role: Role, overrides: Overrides = {}): Promise<Context> => {
  for (let startsLeft = STARTS_MAX - 1; ; startsLeft -= 1) {
    const start: Start = { closers: [], isLockLost: false };
    try {
      const ctx = await build(config, role, overrides, start);
      if (!start.isLockLost) return ctx;
      throw new StartError(
        `The database in ${config.dataDir} ended while the server started, and with it the lock on the directory. Its log says why: tail -n 30 ${join(config.dataDir, 'postgres.log')}`,
      );
    } catch (error) {
      await closeAll(start).catch(() => undefined);
      if (!start.isLockLost || startsLeft === 0) throw error;
    }
  }
};

/** What a start would find. Each question throws an error for the operator where the answer stops a start. */
export type Inspection = {
  readonly isEmbedded: boolean;
  /** `none` where there is no vault yet that a key would have to open. */
  checkRootKey(): Promise<'opens' | 'none'>;
  findPendingMigrations(): Promise<{ pending: string[]; total: number }>;
  hasTenants(): Promise<boolean>;
  /** What the server's role may do, and how it is connected; undefined for an embedded database. */
  findServerRole(): Promise<(ServerRole & { isOnThisMachine: boolean }) | undefined>;
  close(): Promise<void>;
};

/** Opens the database as a start does, beside a running server or without one, and writes nothing into it. @throws as createContext. */
export const createInspection = async (config: Config): Promise<Inspection> => {
  const start: Start = { closers: [], isLockLost: false };
  const environment = environmentOf(config);
  try {
    const { db, poolConfig, embedded } = await openDatabase(
      config,
      'command',
      { log: createLog(config.logLevel) },
      start,
    );
    const found = await db.findInstance();
    return {
      isEmbedded: embedded !== undefined,
      checkRootKey: async () => {
        if (!found) return 'none';
        await openVault(config, found, environment);
        return 'opens';
      },
      findPendingMigrations: () => findPendingMigrations(poolConfig, migrationsDir),
      hasTenants: async () => found !== undefined && db.hasTenants(),
      findServerRole: async () => {
        if (embedded) return undefined;
        const role = await db.findServerRole();
        return { ...role, isOnThisMachine: isOnThisMachine(poolConfig) };
      },
      close: () => closeAll(start),
    };
  } catch (error) {
    await closeAll(start).catch(() => undefined);
    throw error;
  }
};

/** Whether a start would make the database of its data directory first. */
export const isWithoutDatabase = async (config: Config): Promise<boolean> =>
  config.databaseUrl === undefined && !(await hasCluster(config.dataDir));

/** Applies pending migrations to the database, with a vault in it or without; makes no vault. @throws as createContext. */
export const migrateDatabase = async (config: Config): Promise<MigrationResult> => {
  const start: Start = { closers: [], isLockLost: false };
  try {
    const { db, poolConfig } = await openDatabase(config, 'command', { log: createLog(config.logLevel) }, start);
    const found = await db.findInstance();
    // A wrong root key must not touch a vault that it cannot open.
    if (found) await openVault(config, found, environmentOf(config));
    return await migrate(poolConfig, migrationsDir);
  } finally {
    await closeAll(start);
  }
};

/** The sandbox and the way out, without a vault: for whoever writes code and tries it. */
export type Workbench = Pick<Context, 'sandbox' | 'egress'> & { close(): Promise<void> };

/** @throws StartError. */
export const createWorkbench = async (config: Config): Promise<Workbench> => {
  const log = createLog('silent');
  const egress = createEgress(config.egress, { log });
  const sandbox = openSandbox(config, log);
  await startSandbox(sandbox);
  return {
    sandbox,
    egress,
    close: async () => {
      await sandbox.close();
      await egress.close();
    },
  };
};

/** Whether mails would go out, without one. @throws StartError with what to do. */
export const checkMail = async (config: MailConfig): Promise<void> => {
  const mailer = createMailer(config, { log: createLog('silent'), now: () => new Date() });
  try {
    await mailer.check();
  } catch (error) {
    throw error instanceof MailFault ? new StartError(error.message) : error;
  } finally {
    mailer.close();
  }
};

/** What may be printed of an error that ends a start or a command. */
export const failureText = (error: unknown): string => {
  const isForOperator = [ConfigError, StartError, EmbeddedPostgresError, MigrationError].some(
    (made) => error instanceof made,
  );
  if (isForOperator) return (error as Error).message;
  return `This failure is unexpected. Its words are left out, for they can hold values; its name and place are below. To see which part of a start fails: npm run -s strongroom -- doctor\n${JSON.stringify(describeError(error), null, 2)}`;
};

const environmentOf = (config: Config) => (config.mode === 'production' ? 'live' : 'test');

const build = async (config: Config, role: Role, overrides: Overrides, start: Start): Promise<Context> => {
  const environment = environmentOf(config);
  const log = createLog(config.logLevel, overrides.logDestination);
  const now = overrides.now ?? (() => new Date());
  const randomBytes = randomBytesFromKernel;

  const { db, poolConfig, embedded } = await openDatabase(config, role, { ...overrides, log }, start);
  // Before anything is written: a wrong root key must not touch a vault it cannot open.
  const before = await db.findInstance();
  if (!before && role === 'command') throw noVault(config);
  const existing = before && (await openVault(config, before, environment));
  const migrations = await bringUpToDate(config, poolConfig, before !== undefined);
  // The key is on the disk before there is a vault that needs it: a crash in between leaves a key too many, never one too few.
  const provider =
    existing ?? localKeyProvider([(await readRootKey(config)) ?? (await makeRootKey(config))], randomBytes);
  const wrapped_pepper = await provider.wrap(randomBytes(PEPPER_BYTES), pepperContext(environment));
  const pepper = await openPepper(
    provider,
    before ?? (await db.addInstance({ environment, wrapped_pepper })),
    environment,
  );

  const keyring = createKeyring({
    provider,
    store: db.keyStore,
    environment,
    now,
    randomBytes,
    cvcTtlMs: config.cvcTtlMs,
  });
  start.closers.push(async () => keyring.close());

  const monotonicMs = () => performance.now();
  const callers = createCallerFinder({ environment, pepper, db, monotonicMs });
  const readOfficial = createOfficialReader();
  const reactors = createReactorFinder({ environment, db, keyring, randomBytes, log, monotonicMs, readOfficial });
  const proxies = createProxyFinder({ environment, pepper, db, keyring, randomBytes, log, monotonicMs });
  const sessions = createSessionFinder({
    config,
    environment,
    pepper,
    db,
    keyring,
    randomBytes,
    log,
    now,
    monotonicMs,
  });
  const forgetRunnables: ReactorFinder['forget'] = (match) => {
    reactors.forget(match);
    proxies.forget(match);
  };
  if (role === 'server') {
    const notices = listenForNotices(poolConfig, {
      changed: (notice) => {
        const [what, id = ''] = notice.split(' ');
        if (what === 'application') {
          callers.forget({ actor_id: id });
          forgetRunnables({ application_id: id });
        }
        if (what === 'runnable') forgetRunnables(id === 'all' ? 'all' : { tenant_id: id });
        if (what === 'member') sessions.forget({ member_id: id });
        if (what !== 'tenant') return;
        sessions.forget({ tenant_id: id });
        callers.forget({ tenant_id: id });
        forgetRunnables({ tenant_id: id });
        keyring.forgetTenant(id);
      },
      missed: () => {
        callers.forget('all');
        sessions.forget('all');
        forgetRunnables('all');
        keyring.forgetTenants();
        keyring
          .restoreEphemeralKey()
          .catch((error: unknown) =>
            log.warn(
              { error },
              'the key of security codes could not be put back; new codes may be lost for half a minute',
            ),
          );
      },
      failed: (error) =>
        log.warn({ error }, 'the connection for notices was lost; changes are noticed within a second'),
    });
    start.closers.push(() => notices.close());
  }

  const newLogId = (at: Date) => newTimeOrderedId(at.getTime(), randomBytes);
  const refusals = createRefusalLog({ db, log, now, newLogId });
  start.closers.push(() => refusals.close());

  const egress = createEgress(config.egress, {
    resolve: overrides.resolve,
    ca: overrides.ca,
    timeouts: overrides.egressTimeouts,
    log,
  });
  start.closers.push(() => egress.close());
  const mailer = config.mail && createMailer(config.mail, { ca: overrides.ca, log, now });
  start.closers.push(async () => mailer?.close());
  const sandbox = openSandbox(config, log);
  start.closers.push(() => sandbox.close());
  if (role === 'server') await startSandbox(sandbox);

  return {
    config,
    environment,
    log,
    now,
    randomBytes,
    newUuid,
    newLogId,
    db,
    provider,
    keyring,
    pepper,
    loop_id: loopDigest(pepper),
    callers,
    reactors,
    proxies,
    sessions,
    refusals,
    sandbox,
    egress,
    mailer,
    expressionEnvironment: { hmac: hmacText, randomInt: (max) => randomIntBelow(max, randomBytes) },
    embedded,
    migrations,
    close: () => closeAll(start),
  };
};

/** What an operator sees of the sandbox. A missing wall and a breach are alarms; the end of one run's process is not. */
const sandboxReport = (log: Log, allowWeak: boolean) => (event: SandboxEvent) => {
  if (event.event === 'no_wall')
    log.warn(
      { alarm: 'no_wall', wall: event.wall.name, causes: event.wall.causes },
      `no wall stands around the code of tenants: ${whyNoWall(event.wall)}. ${
        allowWeak
          ? 'Code runs without one: code that escapes V8 can read what this server reads'
          : 'No code runs: reactors and transforms answer 503. Fix this, or set SANDBOX_ALLOW_WEAK=1'
      }`,
    );
  else if (event.event === 'violation')
    log.error({ alarm: 'sandbox_violation', ...event }, 'an executor broke the protocol');
  else if (event.event === 'started')
    log.info({ wall: event.wall.name, causes: event.wall.causes }, 'the sandbox is ready');
  else log.warn(event, 'sandbox');
};

const openSandbox = (config: Config, log: Log) => {
  const { wallKind, allowWeak, isolation, executorsMax, wallMs, cpuMs, memoryMb } = config.sandbox;
  const limits = { wallMs, cpuMs, memoryMb, outputBytesMax: RUN_BYTES_MAX };
  return createSandbox({
    limits,
    isolation,
    wallKind,
    allowWeak,
    executorsMax,
    report: sandboxReport(log, allowWeak),
  });
};

const startSandbox = (sandbox: { start(): Promise<void> }): Promise<void> =>
  sandbox.start().catch((error: unknown) => {
    throw new StartError(
      `The sandbox for the code of tenants does not start. If SANDBOX_JAIL names a wall that cannot stand here, mend the cause or set SANDBOX_JAIL=auto. The cause:\n${(error as Error).message}`,
    );
  });

/** PostgreSQL's code for a session that was ended by an administrator's command. */
const ADMIN_SHUTDOWN = '57P01';

type DatabaseListeners = Pick<Overrides, 'onDirectoryLost'> & { log: Log };

/** Opens the database, which need not be migrated yet. */
const openDatabase = async (config: Config, role: Role, listeners: DatabaseListeners, start: Start) => {
  const { log } = listeners;
  const { poolConfig, embedded } = await findDatabase(config, role, listeners, start);
  const db = createDatabase(poolConfig, {
    poolMax: config.databasePoolMax,
    writeBatches: config.writeBatches,
    nameStatement: memoryDigest,
    onPoolError: (error) => {
      // By an operator, or by a migration of this very start.
      if ((error as { code?: string }).code === ADMIN_SHUTDOWN) log.info('the database ended an idle connection');
      else log.warn({ error }, 'a database connection was lost');
    },
  });
  start.closers.push(() => db.close());
  await db.ping().catch((error: unknown) => {
    throw new StartError(connectionFaultText(poolConfig, (error as Error).cause ?? error));
  });
  return { db, poolConfig, embedded };
};

const findDatabase = async (
  config: Config,
  role: Role,
  { log, onDirectoryLost }: DatabaseListeners,
  start: Start,
): Promise<{ poolConfig: PoolConfig; embedded: EmbeddedPostgres | undefined }> => {
  if (config.databaseUrl !== undefined)
    return { poolConfig: { connectionString: withFullVerification(config.databaseUrl) }, embedded: undefined };
  if (role !== 'server' && (await isWithoutDatabase(config))) throw noVault(config);
  const { postgres, lock } = await takeDataDirectory({
    dataDir: config.dataDir,
    newPassword: () => randomBase62(32, randomBytesFromKernel),
    log: (event, detail) => log.info({ ...detail }, event),
    // A command does its work beside a running server: it need not wait for what it does not need.
    ...(role === 'server' ? {} : { waitMs: 0 }),
    onLost: (error) => {
      start.isLockLost = true;
      log.error({ alarm: 'lock_lost', error }, 'the lock on the data directory was lost');
    },
    onRetaken: () => log.warn({ alarm: 'lock_retaken' }, 'the lock on the data directory was taken again'),
    onGivenUp: (reason) => {
      log.fatal(
        { alarm: 'lock_gone', reason },
        reason === 'taken'
          ? 'another server has the data directory by now, and one data directory serves one server: this one stops'
          : 'the database of the data directory does not come back, and the next start may have made another: this server stops',
      );
      onDirectoryLost?.();
    },
  });
  // Whoever holds the directory stops its database, last and before anybody else may have the directory; a command beside a running
  // server leaves it alone.
  if (lock) start.closers.push(() => lock.release(() => postgres.stop()));
  else if (role === 'server')
    throw new StartError(
      `Another server is running on ${config.dataDir}: one data directory serves one server. Stop that one first, or give this one a directory of its own: DATA_DIR=./data-2 PORT=8081 npm start`,
    );
  return { poolConfig: postgres.address, embedded: postgres };
};

const noVault = ({ mode, databaseUrl, dataDir }: Config): StartError =>
  new StartError(
    `There is no vault in ${databaseUrl === undefined ? dataDir : 'the database that DATABASE_URL names'}, and this command makes none. If the vault is elsewhere, run the command in the directory of its server, or name its data directory (DATA_DIR=/path/to/data) or its database (DATABASE_URL). To make a vault: ${mode === 'production' ? 'npm run -s strongroom -- bootstrap --tenant-name NAME' : 'npm start'}`,
  );

/** A database without a vault has nothing that could work without the tables; to a vault, MIGRATE_ON_START=false leaves its schema. */
const bringUpToDate = async (config: Config, poolConfig: PoolConfig, isVault: boolean): Promise<MigrationResult> => {
  if (config.migrateOnStart) return migrate(poolConfig, migrationsDir);
  if (isVault) return { applied: [], total: 0 };
  const { pending, total } = await findPendingMigrations(poolConfig, migrationsDir);
  if (pending.length > 0)
    throw new StartError(
      'The database has no tables yet, and MIGRATE_ON_START=false keeps this start from making them. Make them: npm run migrate',
    );
  return { applied: [], total };
};

const rootKeyPath = (config: Config) => join(config.dataDir, 'master.key');

/** The configured root key, or the one that a development server made and kept; undefined where neither is. */
const readRootKey = async (config: Config): Promise<Sensitive<Uint8Array> | undefined> => {
  if (config.rootKey) return new Sensitive(config.rootKey);
  const path = rootKeyPath(config);
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new StartError(`The root key ${path} cannot be read. Make it readable: chmod 600 ${path}`);
  });
  if (text === undefined) return undefined;
  const key = parseRootKey(text);
  if (key) return new Sensitive(key);
  throw new StartError(`The root key ${path} is not 32 bytes in base64. Restore it from your backup.`);
};

/** The key provider of a vault that exists: it is never given a new key. @throws StartError unless its own opens it. */
const openVault = async (config: Config, instance: Instance, environment: 'test' | 'live'): Promise<KeyProvider> => {
  checkEnvironment(instance, environment);
  const key = await readRootKey(config);
  if (!key)
    throw new StartError(
      `The root key is missing: this vault's data was sealed under the key that was in ${rootKeyPath(config)}. Nothing was written. Restore that file from your backup, or set MASTER_KEY to the key.`,
    );
  const provider = localKeyProvider([key], randomBytesFromKernel);
  await openPepper(provider, instance, environment);
  return provider;
};

/** Draws a development server's own root key and keeps it. Of several processes one is first, and all answer with its key. */
const makeRootKey = async (config: Config): Promise<Sensitive<Uint8Array>> => {
  const path = rootKeyPath(config);
  const key = randomBytesFromKernel(ROOT_KEY_BYTES);
  const made = await makeDirectory(config.dataDir);
  if (made !== undefined) await syncDirectory(dirname(made));
  // Whole beside its place, then linked into it: nobody reads half a key, and a link never replaces a key that is there.
  const draft = `${path}.${newUuid()}`;
  try {
    await writePrivate(draft, `${key.toString('base64')}\n`);
    await link(draft, path);
    await syncDirectory(config.dataDir);
    return new Sensitive(key);
  } catch (error) {
    const first = (error as NodeJS.ErrnoException).code === 'EEXIST' ? await readRootKey(config) : undefined;
    if (first) return first;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
};

const pepperContext = (environment: string): string[] => ['pepper', environment];

type Instance = { environment: string; wrapped_pepper: Uint8Array };

const checkEnvironment = (instance: Instance, environment: 'test' | 'live'): void => {
  if (instance.environment === environment) return;
  throw new StartError(
    `This database belongs to a ${instance.environment === 'live' ? 'production' : 'development'} vault and this server is the other kind. Point DATABASE_URL at another database, or set NODE_ENV as it was.`,
  );
};

/** Unwrapping the pepper is the canary: it succeeds under the very root key and environment that wrapped it. */
const openPepper = async (
  provider: KeyProvider,
  instance: Instance,
  environment: 'test' | 'live',
): Promise<DigestKey> => {
  checkEnvironment(instance, environment);
  try {
    return prepareDigestKey('pepper', await provider.unwrap(instance.wrapped_pepper, pepperContext(environment)));
  } catch (error) {
    if (!(error instanceof RootKeyUnknown) && !(error instanceof SealBroken)) throw error;
    throw new StartError(
      'The root key does not open this vault: MASTER_KEY is not the one its data was sealed under. Nothing was written. Set MASTER_KEY to the key from your secret manager (a development server keeps its own in DATA_DIR/master.key).',
    );
  }
};
