// Processes of this machine: runs a program to its end, tells who lives and who is a server of the data directory, sends signals.
// Believes the system and not a pid that a file remembers. Knows neither where the programs come from nor what they mean.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import type { Directory } from './directory.ts';
import { EmbeddedPostgresError, codeOf } from './report.ts';

/** Programs get this environment and no other: PG* and LD_* of the operator's shell would change what they do. */
export const environment = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
};

/**
 * Runs a program to its end. `output` is the end of what it said on both streams; `code` is -1 when a signal ended it or it could not
 * be run. It has a session of its own, as the server has: a terminal's Ctrl-C is for us, and a program ends what it began.
 */
export const run = async (words: string[]): Promise<{ code: number; output: string }> => {
  const [program = '', ...parameters] = words;
  const child = spawn(program, parameters, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: environment,
    cwd: '/',
    detached: true,
  });
  let output = '';
  const collect = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-4_000);
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  try {
    const [code] = (await once(child, 'close')) as [number | null];
    return { code: code ?? -1, output };
  } catch (error) {
    return { code: -1, output: `${program} cannot be run (${codeOf(error)})` };
  }
};

/** A zombie has ended; kill(pid, 0) would still find it. */
export const isAlive = async (pid: number): Promise<boolean> => {
  const line = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The name, in parentheses, may itself hold some; the state follows the last one.
  const state = line.slice(line.lastIndexOf(')') + 2)[0];
  return state !== undefined && state !== 'Z' && state !== 'X';
};

/** A server works in its own directory. Who may not look at that (another user's process) reads its command line instead. */
export const isServerOf = async (pid: number, directory: Directory): Promise<boolean> => {
  const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
  if (!words[0]?.includes('postgres')) return false;
  try {
    const [works, ours] = await Promise.all([stat(`/proc/${pid}/cwd`), stat(directory.pg)]);
    return works.dev === ours.dev && works.ino === ours.ino;
  } catch {
    return words[words.indexOf('-D') + 1] === directory.pg;
  }
};

export const signalIfAlive = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (codeOf(error) === 'ESRCH') return;
    throw new EmbeddedPostgresError(
      `PostgreSQL cannot be stopped by this user (${codeOf(error)}): kill -INT ${pid}.`,
      error,
    );
  }
};
