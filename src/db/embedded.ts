// Runs a real PostgreSQL of its own inside the data directory, for a vault without DATABASE_URL, and finds it again after a crash.
// Promises one server per data directory and that an acknowledged commit survives a kill. Knows nothing of tables or of the vault.
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkVersion, initialize, removeAbandoned } from './embedded/cluster.ts';
import { type DatabaseAddress, ensureDatabase } from './embedded/connection.ts';
import { type Directory, directoryOf, exists, giveTo, lastReason, makeDirectory } from './embedded/directory.ts';
import { type DirectoryLock, lockDataDirectory, type LockOptions } from './embedded/lock.ts';
import { type Binaries, type Launcher, findBinaries, findLauncher, makeRunnable } from './embedded/programs.ts';
import { EmbeddedPostgresError, type Log, codeOf } from './embedded/report.ts';
import { type Server, findServer, spawnServer, stopServer, waitUntilSettled } from './embedded/server.ts';

/** `reused`: it ran already. `firstStart`: this call made the database cluster. `startedByUs`: this call started the server. */
export type EmbeddedPostgres = {
  address: DatabaseAddress;
  reused: boolean;
  firstStart: boolean;
  startedByUs: boolean;
  /** Ends the server, whoever started it, and waits until it is gone. Clients still connected are cut off. */
  stop(): Promise<void>;
};

type ReadyServer = Extract<Server, { state: 'ready' }>;

/** Some seconds after a kill, orphans of the old server still hold its shared memory and a start fails. */
const startDeadlineMs = 15_000;
/** A server that lives and says it is recovering is waited for: replaying much WAL takes minutes. */
const recoveryDeadlineMs = 600_000;

/** A server that another process stops while we enter it is started again so often; each time takes it less than a second. */
const startsMax = 5;

/** What PostgreSQL says of files that another attempt finds no better: pg_control is its record of the whole cluster. */
const LASTING_REASON = /pg_control|control file|incompatible with server/;

type StartOptions = {
  dataDir: string;
  /** Draws the password of a cluster that this call makes; it stays in a file in the cluster. */
  newPassword: () => string;
  log: Log;
};

/**
 * Makes the cluster under `<dataDir>/pg` when there is none, starts its server on a free port of 127.0.0.1, or takes the one that
 * already runs there. Returns when the database answers. The server outlives this process unless stop() is called.
 * Safe to call from several processes at once: all get the same server.
 * Throws EmbeddedPostgresError.
 */
export const startEmbeddedPostgres = async (options: StartOptions): Promise<EmbeddedPostgres> => {
  const { postgres } = await startAndEnter(options, () => Promise.resolve());
  return postgres;
};

/**
 * Starts the server as startEmbeddedPostgres does and takes the lock of its data directory as lockDataDirectory does.
 * Where the process that had the lock is just stopping the server, it is started again: with a lock comes a server that stays.
 */
export const takeDataDirectory = async (
  options: StartOptions & LockOptions,
): Promise<{ postgres: EmbeddedPostgres; lock: DirectoryLock | undefined }> => {
  const { postgres, entered } = await startAndEnter(options, (address) => lockDataDirectory(address, options));
  return { postgres, lock: entered };
};

const startAndEnter = async <T>(
  options: StartOptions,
  enter: (address: DatabaseAddress) => Promise<T>,
): Promise<{ postgres: EmbeddedPostgres; entered: T }> => {
  const { log } = options;
  const directory = directoryOf(options.dataDir);
  await makeDirectory(directory.path).catch((error: unknown) => {
    throw new EmbeddedPostgresError(
      `The data directory ${directory.path} cannot be made (${codeOf(error)}). Name one this user may write to: DATA_DIR=<directory> npm start.`,
      error,
    );
  });
  for (let startsLeft = startsMax - 1; ; startsLeft -= 1) {
    const { server, firstStart, startedByUs } = await findOrStart(directory, options);
    try {
      await ensureDatabase(server.address);
      const entered = await enter(server.address);
      log('postgres_ready', {
        port: server.address.port,
        pid: server.pid,
        reused: !startedByUs,
        first_start: firstStart,
      });
      const stop = () => stopServer(directory, log);
      return { postgres: { address: server.address, reused: !startedByUs, firstStart, startedByUs, stop }, entered };
    } catch (error) {
      const now = await findServer(directory);
      const isStill = now.state === 'ready' && now.pid === server.pid;
      if (isStill || startsLeft === 0) throw error;
      log('postgres_went_away', { pid: server.pid });
    }
  }
};

/** Whether a database cluster is there, running or not. Makes nothing. */
export const hasCluster = (dataDir: string): Promise<boolean> => exists(directoryOf(dataDir).pg);

const findOrStart = async (
  directory: Directory,
  { newPassword, log }: StartOptions,
): Promise<{ server: ReadyServer; firstStart: boolean; startedByUs: boolean }> => {
  const running = await findServer(directory);
  if (running.state === 'ready') return { server: running, firstStart: false, startedByUs: false };
  const binaries = await findBinaries();
  await makeRunnable(binaries);
  await removeAbandoned(directory);
  const launcher = await findLauncher(binaries, directory);
  const firstStart =
    !(await exists(directory.pg)) && (await initialize(binaries, directory, launcher, newPassword(), log));
  return { ...(await startServer(binaries, directory, launcher, log)), firstStart };
};

/** Starts the server until it answers: a start that fails is tried again, and another process may be first at any moment. */
const startServer = async (
  binaries: Binaries,
  directory: Directory,
  launcher: Launcher,
  log: Log,
): Promise<{ server: ReadyServer; startedByUs: boolean }> => {
  await checkVersion(directory);
  const beganAt = Date.now();
  let spoke = beganAt;
  let reason = '';
  const sayRecovering = () => {
    if (Date.now() < spoke + 10_000) return;
    spoke = Date.now();
    log('postgres_recovering', { waited_ms: spoke - beganAt });
  };
  while (Date.now() < beganAt + startDeadlineMs) {
    const found = await waitUntilSettled(directory, recoveryDeadlineMs, sayRecovering);
    if (found.state === 'ready') return { server: found, startedByUs: false };
    if (found.state === 'stranger') {
      // The recorded pid now belongs to a process that has nothing to do with this directory, and PostgreSQL would take it for a
      // server. Its shared memory, named after the directory, still guards against orphans of the old one.
      log('postgres_stale_pid_removed', { pid: found.pid });
      await rm(join(directory.pg, 'postmaster.pid'), { force: true });
    }
    const owner = await stat(directory.pg);
    if (launcher.owner && owner.uid !== launcher.owner.uid) await giveTo([directory.pg], launcher.owner);
    const child = await spawnServer(binaries, directory, launcher);
    const ended = child.finished.then(() => 'ended');
    while ((await Promise.race([ended, sleep(20, 'running')])) === 'running') {
      const now = await findServer(directory);
      if (now.state === 'ready' && now.pid === child.pid) return { server: now, startedByUs: true };
      if (Date.now() > beganAt + recoveryDeadlineMs) break;
      sayRecovering();
    }
    reason = await lastReason(directory);
    log('postgres_start_failed', { reason });
    if (LASTING_REASON.test(reason))
      throw new EmbeddedPostgresError(
        `The database in ${directory.pg} is damaged, and PostgreSQL does not start on it: ${reason}. Restore the directory from a backup, or move it away and start with a new one: mv ${directory.pg} ${directory.pg}.damaged`,
      );
    await sleep(300);
  }
  throw new EmbeddedPostgresError(
    `The built-in PostgreSQL does not start: ${reason || 'it does not answer'}. The end of its log says more: tail -n 30 ${directory.logFile}.`,
  );
};

/** The address of the server that runs on this data directory and answers to its password; undefined when there is none. Throws EmbeddedPostgresError. */
export const findRunningPostgres = async (dataDir: string): Promise<DatabaseAddress | undefined> => {
  const server = await findServer(directoryOf(dataDir));
  return server.state === 'ready' ? server.address : undefined;
};
