// The server as a process of its own, as `npm start` runs it: for what only a process shows, such as signals and kills.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const root = fileURLToPath(new URL('../..', import.meta.url));

export const READY_TIMEOUT_MS = 45_000;

/** What a process that runs the source gets: with the cache of vitest.config.ts, for every start compiles the same files. */
export const sourceEnvironment = {
  PATH: process.env['PATH'],
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
  // The directory of the run: processes that a broken-off run leaves behind are found by it.
  TMPDIR: process.env['TMPDIR'],
};

/** Runs a command of the operator's. @param environment all it gets beside PATH. @throws what it said, with its exit code. */
export const runCommand = (args: string[], environment: Record<string, string> = {}, cwd = root) =>
  promisify(execFile)(process.execPath, [join(root, 'src/cli/main.ts'), ...args], {
    cwd,
    env: { ...sourceEnvironment, ...environment },
  });

/** Below those that the system gives away: between this and its use no connection and no other server is given the port. */
const PORT_LEAST = 10_240;
const PORT_MOST = 32_767;

export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = randomInt(PORT_LEAST, PORT_MOST + 1);
    const probe = createServer();
    try {
      probe.listen(port, '127.0.0.1');
      await once(probe, 'listening');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') continue;
      throw error;
    }
    probe.close();
    await once(probe, 'close');
    return port;
  }
};

export type ServerProcess = {
  child: ChildProcess;
  base_url: string;
  dataDir: string;
  output(): string;
  credentials(): { base_url: string; tenant_id: string; application_id: string; api_key: string };
  /** Resolves with the exit code, or the signal's name. */
  exited: Promise<number | string>;
};

/** The servers of this process that have not ended: a test that fails prints what they wrote. */
export const runningServers = new Set<ServerProcess>();

/**
 * Spawns a server. @param environment all it gets beside PATH and HOME. @param command in place of the source under this Node; it
 * starts as an operator's does, with nothing kept from an earlier start.
 */
export const spawnServer = async (
  dataDir: string,
  environment: Record<string, string> = {},
  command?: [string, ...string[]],
): Promise<ServerProcess> => {
  const port = environment['PORT'] ?? String(await freePort());
  const [program, ...args] = command ?? [process.execPath, '--disable-sigusr1', join(root, 'src/main.ts')];
  const inherited = command ? { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'] } : sourceEnvironment;
  const child = spawn(program, args, {
    cwd: root,
    env: { ...inherited, HOME: process.env['HOME'], DATA_DIR: dataDir, PORT: port, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  child.stdout?.on('data', (chunk) => (output += chunk));
  child.stderr?.on('data', (chunk) => (output += chunk));
  const server: ServerProcess = {
    child,
    base_url: `http://127.0.0.1:${port}`,
    dataDir,
    output: () => output,
    credentials: () => JSON.parse(readFileSync(join(dataDir, 'dev-credentials.json'), 'utf8')),
    exited: new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        const ended = () => resolve(code ?? String(signal));
        // Its last lines may come after it; a process that it leaves behind may keep the output open.
        child.once('close', ended);
        setTimeout(ended, 1_000).unref();
      });
    }),
  };
  runningServers.add(server);
  void server.exited.then(() => runningServers.delete(server));
  return server;
};

export const untilReady = async (server: ServerProcess): Promise<void> => {
  const deadline = Date.now() + READY_TIMEOUT_MS;
  while (Date.now() < deadline) {
    if (server.child.exitCode !== null) throw new Error(`the server ended: ${server.output()}`);
    const ready = await fetch(`${server.base_url}/readyz`).then(
      (response) => response.ok,
      () => false,
    );
    if (ready) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`the server is not ready: ${server.output()}`);
};

/** The postmaster of a data directory and all its children. */
export const postgresProcesses = (dataDir: string): number[] => {
  const postmaster = Number(readFileSync(join(dataDir, 'pg', 'postmaster.pid'), 'utf8').split('\n')[0]);
  const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8').trim();
  return [postmaster, ...children.split(' ').filter(Boolean).map(Number)];
};

/** A process may end by itself between being listed and being killed. */
export const killIfAlive = (pid: number): void => {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
};

export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

export const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);

/** The workers of a server, without its database. */
export const workersOf = ({ child }: ServerProcess): number[] =>
  childrenOf(child.pid as number).filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('main.ts'));
