// The server under measure, as `npm start` runs it, and its neighbours: each in a process of its own.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '../test/support/process.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const START_TIMEOUT_MS = 60_000;

export const untilReady = async (url: string, child: ChildProcess): Promise<void> => {
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < deadline) {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`);
    const ready = await fetch(url).then(
      (response) => response.ok,
      () => false,
    );
    if (ready) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`not ready: ${url}`);
};

export type Credentials = { base_url: string; tenant_id: string; application_id: string; api_key: string };

export type RunningServer = {
  child: ChildProcess;
  dataDir: string;
  credentials: Credentials;
  readyMs: number;
  residentMb(): number;
  /** Runs a command of the operator's beside the server. @returns its JSON. */
  command(args: string[]): unknown;
  stop(): Promise<void>;
};

/** What `npm start` passes to Node. */
const startArguments = [
  ...(readFileSync(join(root, 'bin/start.sh'), 'utf8')
    .replace(/^#.*$/gm, '')
    .match(/--[\w=-]+/g) ?? []),
  'bin/start.cjs',
];

/**
 * Starts the built server on the embedded database.
 * @param dataDir an existing one, for a second start; else a fresh one, removed by `remove`.
 * @param environment variables beside the usual ones.
 */
export const startServer = async (
  dataDir = mkdtempSync(join(tmpdir(), 'strongroom-bench-')),
  environment: Record<string, string> = {},
): Promise<RunningServer> => {
  const port = await freePort();
  const began = performance.now();
  const child = spawn(process.execPath, startArguments, {
    cwd: root,
    env: {
      PATH: process.env['PATH'],
      PORT: String(port),
      DATA_DIR: dataDir,
      LOG_FORMAT: 'json',
      LOG_LEVEL: 'info',
      ...environment,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await untilReady(`http://127.0.0.1:${port}/readyz`, child);
  const readyMs = performance.now() - began;
  const path = join(dataDir, 'dev-credentials.json');
  if (!existsSync(path)) throw new Error('no credentials were written');
  return {
    child,
    dataDir,
    command: (args) => {
      const environment = { PATH: process.env['PATH'], DATA_DIR: dataDir };
      const options = { cwd: root, env: environment, encoding: 'utf8' } as const;
      return JSON.parse(execFileSync(process.execPath, [join(root, 'bin/strongroom.cjs'), ...args], options));
    },
    credentials: JSON.parse(readFileSync(path, 'utf8')) as Credentials,
    readyMs,
    residentMb: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024,
    stop: () => stopChild(child),
  };
};

export const stopChild = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => {
    if (child.exitCode !== null) return resolve();
    child.once('exit', () => resolve());
    child.kill('SIGTERM');
  });

export const remove = (dataDir: string): void => rmSync(dataDir, { recursive: true, force: true });

/** A script of ours in a process of its own. @param url what answers once it is ready. */
export const startProcess = async (args: string[], url: string): Promise<ChildProcess> => {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  await untilReady(url, child);
  return child;
};

/** A bare Fastify route that parses a body and answers with fixed JSON: the most that this HTTP stack can do. */
export const startBareRoute = async (answer: string): Promise<{ url: string; stop(): Promise<void> }> => {
  const port = await freePort();
  const child = await startProcess(
    [join(root, 'bench/bare-route.ts'), String(port), answer],
    `http://127.0.0.1:${port}/`,
  );
  return { url: `http://127.0.0.1:${port}/`, stop: () => stopChild(child) };
};

/** A bare Fastify route that writes the rows of a card before it answers with fixed JSON, under Node as the server runs. */
export const startBareWrites = async (
  answer: string,
  server: RunningServer,
): Promise<{ url: string; stop(): Promise<void> }> => {
  const port = await freePort();
  const address = JSON.stringify(await databaseOf(server.dataDir));
  const script = join(root, 'bench/bare-writes.ts');
  const url = `http://127.0.0.1:${port}/`;
  const child = await startProcess(
    [...startArguments.slice(0, -1), script, String(port), answer, address, server.credentials.tenant_id],
    url,
  );
  return { url, stop: () => stopChild(child) };
};

/** Address for connections that see the rows of all tenants. */
export const databaseOf = async (dataDir: string) => {
  const { findRunningPostgres } = await import('../src/platform/dev-postgres/dev-postgres.ts');
  const address = await findRunningPostgres(dataDir);
  if (!address) throw new Error('there is no database');
  return { ...address, options: '-c strongroom.tenants=*' };
};
