// Runs commands and servers of the built release on vaults of the cluster.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type RunningServer, startServer } from '../../bench/servers.ts';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const migrations = join(root, 'prisma/migrations');

/** That of all test servers and of the dumps in test/fixtures. */
export const MASTER_KEY = Buffer.alloc(32, 7).toString('base64');

export const say = (text: string): void => void process.stdout.write(`${text}\n`);

export type Ended = { status: number | null; stdout: string; stderr: string };

export type Commands = {
  run(url: string, args: string[], environment?: Record<string, string>): Ended;
  /** @returns what it printed. @throws unless it ends with exit code 0. */
  must(url: string, args: string[], environment?: Record<string, string>): string;
  /** Starts a command, to be stopped. */
  start(url: string, args: string[]): ChildProcess;
  /** @param name of its data directory: a second start on a vault finds the credentials of the first one there. */
  serve(url: string, name: string): Promise<RunningServer>;
};

/** @param directory the working directory of commands. @param onStart is told how to stop each server. */
export const createCommands = (directory: string, onStart: (stop: () => Promise<void>) => void): Commands => {
  const program = [join(root, 'bin/strongroom.cjs')];
  const settings = (url: string, environment: Record<string, string> = {}) => ({
    cwd: directory,
    env: { PATH: process.env['PATH'], DATABASE_URL: url, MASTER_KEY, ...environment },
  });
  const run = (url: string, args: string[], environment?: Record<string, string>): Ended =>
    spawnSync(process.execPath, [...program, ...args], { ...settings(url, environment), encoding: 'utf8' });
  return {
    run,
    must(url, args, environment) {
      const { status, stdout, stderr } = run(url, args, environment);
      if (status !== 0) throw new Error(`${args.join(' ')} failed: ${stdout}${stderr}`);
      return stdout;
    },
    start: (url, args) => spawn(process.execPath, [...program, ...args], settings(url)),
    async serve(url, name) {
      const data = join(directory, `server-${name}`);
      mkdirSync(data, { recursive: true });
      const server = await startServer(data, { DATABASE_URL: url, MASTER_KEY, LOG_LEVEL: 'warn' });
      onStart(server.stop);
      return server;
    },
  };
};
