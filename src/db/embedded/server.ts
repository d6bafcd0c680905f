// The server process of a data directory: finds it by its own record, waits for it, spawns it, ends it.
// Promises that the password is shown to no process but the server of this directory. Never decides whether to start or to try again.
import { spawn } from 'node:child_process';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type DatabaseAddress, databaseName, findFreePort, roleName, tryConnect } from './connection.ts';
import { type Directory, rotateLog, unreadable } from './directory.ts';
import { environment, isAlive, isServerOf, signalIfAlive } from './processes.ts';
import type { Binaries, Launcher } from './programs.ts';
import { EmbeddedPostgresError, type Log, codeOf } from './report.ts';

const fastStopDeadlineMs = 20_000;
const immediateStopDeadlineMs = 10_000;

export type Server =
  | { state: 'absent' }
  | { state: 'stranger'; pid: number }
  | { state: 'starting'; pid: number }
  | { state: 'ready'; pid: number; address: DatabaseAddress };

/** What postmaster.pid says, believed only as far as the process and the server behind it confirm it. */
export const findServer = async (directory: Directory): Promise<Server> => {
  const { pid, port } = await readRecord(directory);
  if (!pid || !(await isAlive(pid))) return { state: 'absent' };
  // Only our own server is ever shown the password: another program on a port of the past could ask for it in the clear.
  if (!(await isServerOf(pid, directory))) return { state: 'stranger', pid };
  if (!port) return { state: 'starting', pid };
  const password = await readFile(directory.passwordFile, 'utf8').catch((error: unknown) => {
    throw unreadable(directory, error);
  });
  const address = { host: '127.0.0.1', port, user: roleName, password, database: databaseName };
  const answer = await tryConnect(address);
  if (answer === 'refused') {
    throw new EmbeddedPostgresError(
      `The PostgreSQL in ${directory.pg} does not accept the password in ${directory.passwordFile}: one of the two was changed by hand. Restore the file from a backup, then start again.`,
    );
  }
  return answer === 'ready' ? { state: 'ready', pid, address } : { state: 'starting', pid };
};

/** The server's own record: its pid in line 1, its port in line 4. Zero stands for what is not written (yet). */
const readRecord = async (directory: Directory): Promise<{ pid: number; port: number }> => {
  const record = await readFile(join(directory.pg, 'postmaster.pid'), 'utf8').catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return '';
    throw unreadable(directory, error);
  });
  const lines = record.split('\n');
  return { pid: Number(lines[0]) || 0, port: Number(lines[3]) || 0 };
};

/** Waits while a server is coming up or going down. After `deadlineMs` it answers `starting` as it stands. */
export const waitUntilSettled = async (
  directory: Directory,
  deadlineMs: number,
  onWait: () => void,
): Promise<Server> => {
  const deadline = Date.now() + deadlineMs;
  for (;;) {
    const server = await findServer(directory);
    if (server.state !== 'starting' || Date.now() > deadline) return server;
    onWait();
    await sleep(50);
  }
};

/** Starts a process and returns at once; `finished` settles when it has ended or could not be started. */
export const spawnServer = async (binaries: Binaries, directory: Directory, launcher: Launcher) => {
  await rotateLog(directory);
  const logFile = await open(directory.logFile, 'a', 0o600);
  try {
    const settings = {
      port: await findFreePort(),
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: 100,
      fsync: 'on',
      full_page_writes: 'on',
      // A plan that was made for a small table is kept until the table is analysed: soon after an import, not a minute.
      autovacuum_naptime: '10s',
      // A vault's rows and statements have no place in a log: no DETAIL, no text of the failing statement.
      log_error_verbosity: 'terse',
      log_min_error_statement: 'panic',
    };
    const [program = '', ...parameters] = [
      ...launcher.words,
      binaries.postgres,
      '-D',
      directory.pg,
      ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ];
    // In a session of its own: a Ctrl-C in our terminal is for us, and the server stops after the last request has been answered.
    const child = spawn(program, parameters, {
      detached: true,
      stdio: ['ignore', logFile.fd, logFile.fd],
      env: environment,
      cwd: '/',
    });
    const finished = new Promise<void>((settle) => {
      child.once('exit', () => settle());
      child.once('error', () => settle());
    });
    child.unref();
    return { pid: child.pid ?? -1, finished };
  } finally {
    await logFile.close();
  }
};

/** Ends the server and returns when it is gone; at once when there is none. */
export const stopServer = async (directory: Directory, log: Log): Promise<void> => {
  const { pid } = await readRecord(directory);
  if (!pid || !(await isAlive(pid)) || !(await isServerOf(pid, directory))) return;
  // PostgreSQL's words for them: SIGINT is a fast shutdown, SIGQUIT an immediate one that leaves recovery to the next start.
  for (const [signal, deadlineMs] of [
    ['SIGINT', fastStopDeadlineMs],
    ['SIGQUIT', immediateStopDeadlineMs],
  ] as const) {
    signalIfAlive(pid, signal);
    const deadline = Date.now() + deadlineMs;
    while (Date.now() < deadline) {
      if (!(await isAlive(pid))) {
        log('postgres_stopped', { pid, signal });
        return;
      }
      await sleep(10);
    }
  }
  throw new EmbeddedPostgresError(`PostgreSQL does not stop. End it by hand: kill -QUIT ${pid}.`);
};
