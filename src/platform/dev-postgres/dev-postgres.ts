// Runs a PostgreSQL inside the data directory for a vault without DATABASE_URL, and finds it again after a crash.
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartError } from '../base/errors.ts';
import { exists, makeDirectory } from '../base/files.ts';
import { IS_IMAGE } from '../base/program.ts';
import { checkVersion, createCluster, removeAbandoned } from './cluster.ts';
import { type DatabaseAddress, ensureDatabase } from './connection.ts';
import { type Directory, type Log, changeOwner, codeOf, directoryOf, lastReason } from './directory.ts';
import { type DirectoryLock, lockDataDirectory, type LockOptions } from './lock.ts';
import { type Binaries, type Launcher, findBinaries, findLauncher, repairPackage } from './programs.ts';
import { type Server, findServer, spawnServer, stopServer, waitUntilSettled } from './server.ts';

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
