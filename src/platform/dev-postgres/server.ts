// The server process of a data directory: finds, starts and stops it.
import { spawn } from 'node:child_process';
import { open, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartError } from '../base/errors.ts';
import { type DatabaseAddress, databaseName, findFreePort, roleName, tryConnect } from './connection.ts';
import { type Directory, type Log, codeOf, rotateLog, unreadable } from './directory.ts';
import { type Binaries, ENVIRONMENT, type Launcher } from './programs.ts';

/** PostgreSQL's shutdown signals: SIGINT is a fast shutdown, SIGQUIT an immediate one, after which the next start recovers. */
const STOP_SIGNALS = [
  { signal: 'SIGINT', timeoutMs: 20_000 },
  { signal: 'SIGQUIT', timeoutMs: 10_000 },
] as const;

/** `foreign`: the recorded pid belongs to a process that is no server of this directory. */
export type Server =
  | { state: 'absent' }
  | { state: 'foreign'; pid: number }
  | { state: 'starting'; pid: number }
  | { state: 'ready'; pid: number; address: DatabaseAddress };

/** Finds the server by postmaster.pid, which it believes only as far as the process and the server behind it confirm it. */
export const findServer = async (directory: Directory): Promise<Server> => {
  const { pid, port } = await readRecord(directory);
  if (!pid || !(await isAlive(pid))) return { state: 'absent' };
  // Only our own server gets the password: another program that listens on its former port could ask for it in the clear.
  if (!(await isServerOf(pid, directory))) return { state: 'foreign', pid };
  if (!port) return { state: 'starting', pid };
  const password = await readFile(directory.passwordFile, 'utf8').catch((error: unknown) => {
    throw unreadable(directory, error);
  });
  const address = { host: '127.0.0.1', port, user: roleName, password, database: databaseName };
  const answer = await tryConnect(address);
  if (answer === 'refused') {
    throw new StartError(
      `The PostgreSQL in ${directory.pg} does not accept the password in ${directory.passwordFile}: one of the two was changed by hand. Restore the file from a backup, then start again.`,
    );
  }
  return answer === 'ready' ? { state: 'ready', pid, address } : { state: 'starting', pid };
};

/** The server's own record: its pid in line 1, its port in line 4. Zero if a line is missing. */
const readRecord = async (directory: Directory): Promise<{ pid: number; port: number }> => {
  const record = await readFile(join(directory.pg, 'postmaster.pid'), 'utf8').catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return '';
    throw unreadable(directory, error);
  });
  const lines = record.split('\n');
  return { pid: Number(lines[0]) || 0, port: Number(lines[3]) || 0 };
};

/** False for a zombie, which kill(pid, 0) would still find. */
export const isAlive = async (pid: number): Promise<boolean> => {
  const line = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The state follows the name, which is in parentheses and may contain some itself.
  const state = line.slice(line.lastIndexOf(')') + 2)[0];
  return state !== undefined && state !== 'Z' && state !== 'X';
};

/** Compares the process's working directory, or its command line if it belongs to another user. */
const isServerOf = async (pid: number, directory: Directory): Promise<boolean> => {
  const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
  if (!words[0]?.includes('postgres')) return false;
  try {
    const [working, ours] = await Promise.all([stat(`/proc/${pid}/cwd`), stat(directory.pg)]);
    return working.dev === ours.dev && working.ino === ours.ino;
  } catch {
    return words[words.indexOf('-D') + 1] === directory.pg;
  }
};

/** Waits while a server starts or stops. After `timeoutMs` it returns the state as it is. */
export const waitUntilSettled = async (
  directory: Directory,
  timeoutMs: number,
  onWait: () => void,
): Promise<Server> => {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const server = await findServer(directory);
    if (server.state !== 'starting' || Date.now() > deadline) return server;
    onWait();
    await sleep(50);
  }
};

/** Starts a process and returns at once. `finished` resolves when it has ended or could not be started. */
export const spawnServer = async (binaries: Binaries, directory: Directory, launcher: Launcher, isDurable: boolean) => {
  await rotateLog(directory);
  const logFile = await open(directory.logFile, 'a', 0o600);
  try {
    const settings = {
      port: await findFreePort(),
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: 100,
      ...(isDurable
        ? { fsync: 'on', full_page_writes: 'on' }
        : { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off' }),
      // The first change of a page after a checkpoint writes the whole page. This PostgreSQL is built without lz4.
      wal_compression: 'pglz',
      max_wal_size: '2GB',
      checkpoint_timeout: '15min',
      // PostgreSQL keeps a plan that it made for a small table until the table is analysed. After an import that must be soon.
      autovacuum_naptime: '10s',
      // Rows and statements of a vault must not be in a log: no DETAIL, no text of the failing statement.
      log_error_verbosity: 'terse',
      log_min_error_statement: 'panic',
    };
    const [program = '', ...parameters] = [
      ...launcher.command,
      binaries.postgres,
      '-D',
      directory.pg,
      ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ];
    // In a session of its own: a terminal's Ctrl-C stops our server first, which stops this one after the last response.
    const child = spawn(program, parameters, {
      detached: true,
      stdio: ['ignore', logFile.fd, logFile.fd],
      env: ENVIRONMENT,
      cwd: '/',
    });
    const finished = new Promise<void>((resolve) => {
      child.once('exit', () => resolve());
      child.once('error', () => resolve());
    });
    child.unref();
    return { pid: child.pid ?? -1, finished };
  } finally {
    await logFile.close();
  }
};

/** Stops the server and returns when it has ended; at once if there is none. */
export const stopServer = async (directory: Directory, log: Log): Promise<void> => {
  const { pid } = await readRecord(directory);
  if (!pid || !(await isAlive(pid)) || !(await isServerOf(pid, directory))) return;
  for (const { signal, timeoutMs } of STOP_SIGNALS) {
    sendSignal(pid, signal);
    const deadline = Date.now() + timeoutMs;
    while (Date.now() < deadline) {
      if (!(await isAlive(pid))) {
        log('postgres_stopped', { pid, signal });
        return;
      }
      await sleep(10);
    }
  }
  throw new StartError(`PostgreSQL does not stop. Stop it by hand: kill -QUIT ${pid}.`);
};

const sendSignal = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // It has ended.
    if (codeOf(error) === 'ESRCH') return;
    throw new StartError(`PostgreSQL cannot be stopped by this user (${codeOf(error)}): kill -INT ${pid}.`, {
      cause: error,
    });
  }
};
