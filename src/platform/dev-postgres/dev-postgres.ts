// Runs a PostgreSQL inside the data directory for a vault without DATABASE_URL, and finds it again after a crash.
import { mkdtemp, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { StartError } from '../base/errors.ts';
import { exists, makeDirectory, syncDirectory, writePrivate } from '../base/files.ts';
import { type DatabaseAddress, ensureDatabase, superuser } from './connection.ts';
import { changeOwner, codeOf, type Directory, directoryOf, lastReason, type Log, PASSWORD_FILE } from './directory.ts';
import { type Binaries, findBinaries, findLauncher, lastLine, type Launcher, repairPackage, run } from './programs.ts';
import { findServer, isAlive, type Server, spawnServer, stopServer, waitUntilSettled } from './server.ts';
import { IS_IMAGE } from '../base/program.ts';

// Creates the database cluster of a data directory, completely or not at all, and checks the version that wrote it.

/** The major version whose files the binaries read. */
const MAJOR_VERSION = '18';

/** Creates the cluster beside its place and renames it. @returns false if another process was first. */
const createCluster = async (
  binaries: Binaries,
  directory: Directory,
  launcher: Launcher,
  { password, log, isDurable }: { password: string; log: Log; isDurable: boolean },
): Promise<boolean> => {
  log('postgres_initializing', { directory: directory.pg });
  // The system picks an unused name: processes in different containers can have the same pid.
  const draft = await mkdtemp(join(directory.path, `pg.new-${process.pid}-`));
  // initdb insists on an empty directory, so the password is written beside it and moved in last.
  const draftPassword = `${draft}.password`;
  try {
    await writePrivate(draftPassword, password);
    if (launcher.owner) await changeOwner([draft, draftPassword], launcher.owner);
    const settings = '--locale=C --encoding=UTF8 --data-checksums --no-instructions';
    const authentication = '--auth-host=scram-sha-256 --auth-local=scram-sha-256';
    const result = await run([
      ...launcher.command,
      binaries.initdb,
      `--pgdata=${draft}`,
      `--pwfile=${draftPassword}`,
      `--username=${superuser}`,
      ...(isDurable ? [] : ['--no-sync']),
      ...`${settings} ${authentication}`.split(' '),
    ]);
    if (result.code !== 0) {
      throw new StartError(
        `The database could not be created in ${directory.path}: ${lastLine(result.output)}. Often the disk is full or read-only; see \`df -h ${directory.path}\`, then start again.`,
      );
    }
    await rename(draftPassword, join(draft, PASSWORD_FILE));
    await syncDirectory(draft);
    await rename(draft, directory.pg);
    await syncDirectory(directory.path);
    return true;
  } catch (error) {
    await Promise.all([draft, draftPassword].map((path) => rm(path, { recursive: true, force: true })));
    if (['ENOTEMPTY', 'EEXIST'].includes(codeOf(error))) return false;
    throw error;
  }
};

/** Removes unfinished clusters of first starts that were killed, and leaves those of living processes. */
const removeAbandoned = async (directory: Directory): Promise<void> => {
  for (const name of await readdir(directory.path)) {
    const pid = Number(/^pg\.new-(\d+)-/.exec(name)?.[1]);
    if (!pid) continue;
    const path = join(directory.path, name);
    const createdAtMs = await stat(path).then(
      ({ birthtimeMs }) => birthtimeMs,
      () => undefined,
    );
    // In a container every start may have the same pid: a directory older than this process is not its own.
    const isOurs = pid === process.pid && (createdAtMs ?? Infinity) > Date.now() - process.uptime() * 1_000;
    if (!isOurs && (pid === process.pid || !(await isAlive(pid)))) await rm(path, { recursive: true, force: true });
  }
};

/** @throws StartError if the binaries cannot read the cluster. */
const checkVersion = async (directory: Directory): Promise<void> => {
  const version = (await readFile(join(directory.pg, 'PG_VERSION'), 'utf8').catch(() => '')).trim();
  if (version === MAJOR_VERSION) return;
  throw new StartError(
    version === ''
      ? `${directory.pg} exists but holds no PostgreSQL database. If you do not need it, move it away: mv ${directory.pg} ${directory.pg}.old; then start again.`
      : `The database in ${directory.pg} was written by PostgreSQL ${version}, and this release brings ${MAJOR_VERSION}. Dump it with the release that wrote it (pg_dump) and restore it into a new data directory.`,
  );
};

// The lock that makes one process the only server of a data directory: an advisory lock of PostgreSQL in a session of its own.
// If the session breaks, the lock is taken again.

/**
 * The key of the advisory lock. The number has no meaning ("STRONG" in ASCII). It must differ from the migration lock
 * (72707369) and must never change, or an old and a new release could serve one directory.
 */
const LOCK_KEY = '91616979177031';

/** PostgreSQL notices the end of a killed server's connection after a moment, and then frees the lock. */
const LOCK_WAIT_MS = 3_000;

const LOCK_POLL_MS = 100;

/**
 * How long to retry a lost lock. After a crash of one session PostgreSQL takes connections again within seconds. If it takes none
 * for longer, it has ended, and the next start starts another on another port.
 */
const RETAKE_MS = 30_000;

const CONNECT_TIMEOUT_MS = 5_000;

type LockOptions = {
  waitMs?: number;
  /** Called when the session broke before release(): other processes can take the lock. */
  onLost?: (error: Error) => void;
  /** Called when a lost lock was taken again. Without `onGivenUp` a lost lock is not retried. */
  onRetaken?: () => void;
  /** Called when another process has taken the lost lock, or the database did not come back in time. */
  onGivenUp?: (reason: 'taken' | 'away') => void;
};

type DirectoryLock = {
  /**
   * Calls `last` and then frees the lock. `last` may stop the server, which ends the session of the lock without onLost().
   * Does not call `last` if the lock is lost: the server may belong to another process. Safe to call twice.
   */
  release(last?: () => Promise<void>): Promise<void>;
};

/**
 * Takes the lock, and takes it again if its session breaks.
 * @returns undefined if another process keeps it for `waitMs`, three seconds by default.
 * @throws pg's error if the database cannot be reached, or stops meanwhile.
 */
export const lockDataDirectory = async (
  address: DatabaseAddress,
  options: LockOptions = {},
): Promise<DirectoryLock | undefined> => {
  const released = new AbortController();
  let retaking: Promise<void> | undefined;
  let holder: Client | undefined;

  const lost = (error: Error): void => {
    holder = undefined;
    if (released.signal.aborted) return;
    options.onLost?.(error);
    if (options.onGivenUp) retaking = retake(options.onGivenUp);
  };

  const retake = async (onGivenUp: (reason: 'taken' | 'away') => void): Promise<void> => {
    const deadline = Date.now() + RETAKE_MS;
    while (!released.signal.aborted) {
      const taken = await lockOnce(address, 0, lost).catch(() => 'away' as const);
      if (taken instanceof Client) {
        holder = taken;
        return options.onRetaken?.();
      }
      if (released.signal.aborted) return;
      if (taken === undefined) return onGivenUp('taken');
      if (Date.now() > deadline) return onGivenUp('away');
      await sleep(LOCK_POLL_MS, undefined, { signal: released.signal }).catch(() => undefined);
    }
  };

  holder = await lockOnce(address, options.waitMs ?? LOCK_WAIT_MS, lost);
  if (!holder) return undefined;
  return {
    release: async (last) => {
      released.abort();
      await retaking;
      const held = holder;
      holder = undefined;
      try {
        if (held) await last?.();
      } finally {
        await held?.end().catch(() => undefined);
      }
    },
  };
};

/** @returns the session that holds the lock; undefined if another process keeps it for `waitMs`. */
const lockOnce = async (
  address: DatabaseAddress,
  waitMs: number,
  onLost: (error: Error) => void,
): Promise<Client | undefined> => {
  const client = new Client({
    ...address,
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: 'strongroom lock',
  });
  let held = false;
  client.on('error', (error) => {
    if (held) onLost(error);
    held = false;
  });
  const tryLock = async (): Promise<boolean> => {
    const { rows } = await client.query<{ taken: boolean }>('SELECT pg_try_advisory_lock($1) AS taken', [LOCK_KEY]);
    return rows[0]?.taken === true;
  };
  try {
    await client.connect();
    const deadline = Date.now() + waitMs;
    let taken = await tryLock();
    while (!taken && Date.now() < deadline) {
      await sleep(LOCK_POLL_MS);
      taken = await tryLock();
    }
    // A server that stops ends its sessions one by one, so the lock can pass to a session that ends next. A second query finds out.
    if (taken) await client.query('SELECT 1');
    held = taken;
  } finally {
    if (!held) await client.end().catch(() => undefined);
  }
  return held ? client : undefined;
};

/** `firstStart`: this call created the cluster. `startedByUs`: this call started the server, which did not run yet. */
export type EmbeddedPostgres = {
  address: DatabaseAddress;
  firstStart: boolean;
  startedByUs: boolean;
  /** Stops the server, also one that another process started, and waits until it has ended. Cuts off its clients. */
  stop(): Promise<void>;
};

type ReadyServer = Extract<Server, { state: 'ready' }>;

/** For some seconds after a kill, child processes of the old server still hold its shared memory, and a start fails. */
const START_TIMEOUT_MS = 15_000;
/** Replaying a long write-ahead log takes minutes. */
const RECOVERY_TIMEOUT_MS = 600_000;

/** Another process can stop the server while this one connects. It is then started again, which takes less than a second. */
const STARTS_MAX = 5;

/** Reasons that another attempt does not change: pg_control is PostgreSQL's record of the whole cluster. */
const PERMANENT_REASON = /pg_control|control file|incompatible with server/;

type StartOptions = {
  dataDir: string;
  /** Generates the password of a new cluster, which is kept in a file in the cluster. */
  newPassword: () => string;
  log: Log;
  /** False: nothing waits for the disk, and a crash of the machine loses the database. For tests. Default: true. */
  isDurable?: boolean | undefined;
};

/**
 * Starts the server of the cluster in `<dataDir>/pg` on a free port of 127.0.0.1, or finds the one that runs. Creates the cluster
 * if there is none. Returns when the database answers. The server outlives this process unless stop() is called.
 * Several processes may call it at once: all get the same server.
 * @throws StartError.
 */
export const startEmbeddedPostgres = async (options: StartOptions): Promise<EmbeddedPostgres> => {
  const { postgres } = await startAndConnect(options, () => Promise.resolve());
  return postgres;
};

/**
 * Starts the server as startEmbeddedPostgres() does and takes the lock of its data directory as lockDataDirectory() does.
 * If the process that had the lock is stopping the server, it is started again: the server stays while the lock is held.
 */
export const takeDataDirectory = async (
  options: StartOptions & LockOptions,
): Promise<{ postgres: EmbeddedPostgres; lock: DirectoryLock | undefined }> => {
  const { postgres, connected } = await startAndConnect(options, (address) => lockDataDirectory(address, options));
  return { postgres, lock: connected };
};

const startAndConnect = async <T>(
  options: StartOptions,
  connect: (address: DatabaseAddress) => Promise<T>,
): Promise<{ postgres: EmbeddedPostgres; connected: T }> => {
  const { log } = options;
  const directory = directoryOf(options.dataDir);
  await makeDirectory(directory.path).catch((error: unknown) => {
    throw new StartError(
      `The data directory ${directory.path} cannot be created (${codeOf(error)}). ${IS_IMAGE ? 'Mount a volume there, or a folder that user 1000 may write to' : 'Name one that this user may write to: DATA_DIR=<directory> npm start'}.`,
      { cause: error },
    );
  });
  for (let startsLeft = STARTS_MAX - 1; ; startsLeft -= 1) {
    const { server, firstStart, startedByUs } = await findOrStart(directory, options);
    try {
      await ensureDatabase(server.address);
      const connected = await connect(server.address);
      log('postgres_ready', {
        port: server.address.port,
        pid: server.pid,
        reused: !startedByUs,
        first_start: firstStart,
      });
      const stop = () => stopServer(directory, log);
      return { postgres: { address: server.address, firstStart, startedByUs, stop }, connected };
    } catch (error) {
      const now = await findServer(directory);
      const isStill = now.state === 'ready' && now.pid === server.pid;
      if (isStill || startsLeft === 0) throw error;
      log('postgres_went_away', { pid: server.pid });
    }
  }
};

/** Whether the data directory has a cluster, running or not. */
export const hasCluster = (dataDir: string): Promise<boolean> => exists(directoryOf(dataDir).pg);

const findOrStart = async (
  directory: Directory,
  { newPassword, log, isDurable = true }: StartOptions,
): Promise<{ server: ReadyServer; firstStart: boolean; startedByUs: boolean }> => {
  const running = await findServer(directory);
  if (running.state === 'ready') return { server: running, firstStart: false, startedByUs: false };
  const binaries = await findBinaries();
  await repairPackage(binaries);
  await removeAbandoned(directory);
  const launcher = await findLauncher(binaries, directory);
  const firstStart =
    !(await exists(directory.pg)) &&
    (await createCluster(binaries, directory, launcher, { password: newPassword(), log, isDurable }));
  return { ...(await startServer(binaries, directory, launcher, { log, isDurable })), firstStart };
};

/** Retries until the server answers. Another process may start it first at any moment. */
const startServer = async (
  binaries: Binaries,
  directory: Directory,
  launcher: Launcher,
  { log, isDurable }: { log: Log; isDurable: boolean },
): Promise<{ server: ReadyServer; startedByUs: boolean }> => {
  await checkVersion(directory);
  const beganAt = Date.now();
  let loggedAt = beganAt;
  let reason = '';
  const logRecovery = () => {
    if (Date.now() < loggedAt + 10_000) return;
    loggedAt = Date.now();
    log('postgres_recovering', { waited_ms: loggedAt - beganAt });
  };
  while (Date.now() < beganAt + START_TIMEOUT_MS) {
    const found = await waitUntilSettled(directory, RECOVERY_TIMEOUT_MS, logRecovery);
    if (found.state === 'ready') return { server: found, startedByUs: false };
    if (found.state === 'foreign') {
      // PostgreSQL would take the process that now has the recorded pid for a server. Without the record it still refuses to start
      // beside child processes of an old server: it finds their shared memory by the directory.
      log('postgres_stale_pid_removed', { pid: found.pid });
      await rm(join(directory.pg, 'postmaster.pid'), { force: true });
    }
    const owner = await stat(directory.pg);
    if (launcher.owner && owner.uid !== launcher.owner.uid) await changeOwner([directory.pg], launcher.owner);
    const child = await spawnServer(binaries, directory, launcher, isDurable);
    const ended = child.finished.then(() => 'ended');
    while ((await Promise.race([ended, sleep(20, 'running')])) === 'running') {
      const now = await findServer(directory);
      if (now.state === 'ready' && now.pid === child.pid) return { server: now, startedByUs: true };
      if (Date.now() > beganAt + RECOVERY_TIMEOUT_MS) break;
      logRecovery();
    }
    reason = await lastReason(directory);
    log('postgres_start_failed', { reason });
    if (PERMANENT_REASON.test(reason))
      throw new StartError(
        `The database in ${directory.pg} is damaged, and PostgreSQL does not start on it: ${reason}. Restore the directory from a backup, or move it away and start with a new one: mv ${directory.pg} ${directory.pg}.damaged`,
      );
    await sleep(300);
  }
  throw new StartError(
    `The built-in PostgreSQL does not start: ${reason || 'it does not answer'}. The end of its log says more: tail -n 30 ${directory.logFile}.`,
  );
};

/** The address of the server that runs on this data directory; undefined if there is none. @throws StartError. */
export const findRunningPostgres = async (dataDir: string): Promise<DatabaseAddress | undefined> => {
  const server = await findServer(directoryOf(dataDir));
  return server.state === 'ready' ? server.address : undefined;
};
