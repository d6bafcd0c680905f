// One executor as the server sees it: a child process behind a wall, frames to and from it, what it weighs, and its end.
// Knows nothing of tenants or of what is run.
import { randomInt } from 'node:crypto';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { dirname, extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Frame, frameKinds, readFrames } from '../protocol/frames.ts';
import type { WallKind } from '../protocol/sandbox.ts';
import { packageDirectory, type Program, wallCommand, WRAPPER_ENVIRONMENT } from './wall.ts';

/** A start takes a tenth of a second; a machine that needs more than this for one has other troubles. */
const START_MS_MAX = 20_000;
/** What is kept of the words of a start that fails. */
const STDERR_CHARACTERS_MAX = 2000;
/** Bytes on their way to an executor that does not read: more is not waited for. */
const UNREAD_BYTES_MAX = 64 * 1024 * 1024;
/** And so many are enough for now: what else there is to send waits until they are read. */
const UNREAD_BYTES_ENOUGH = 8 * 1024 * 1024;
/** A wrapper whose program has ended goes by itself; its own end is the end of all that it started. */
const WRAPPER_MS_MAX = 100;
/** Where the machine runs out of memory, executors go before the server and the database. From -1000 to 1000. */
const OOM_SCORE = '500';
/** stat counts ticks of 10 ms. */
const TICK_MS = 10;

export type ExecutorSize = {
  /** Resident, swapped, and in page tables. */
  memoryMb: number;
  /** Of this, what it does not share with others, as it shares the program's text. */
  privateMb: number;
  threads: number;
  /** Its first thread has ended and others have not: the system then tells no memory. So it is for a moment at its end. */
  isHidden: boolean;
};

export type Executor = {
  /** How it ended, once it has. */
  readonly ended: Promise<Ending>;
  readonly pid: number;
  send(frame: Buffer): void;
  /** Resolved when it has read most of what was sent, or has ended. */
  hasRoom(): Promise<void>;
  kill(): void;
  /** Undefined where the system does not tell. */
  size(): ExecutorSize | undefined;
  /** Whether it has started a process, which an honest one never does. */
  hasChildren(): boolean;
  /** CPU time of all its threads since it started. */
  cpuMs(): number | undefined;
};

export type Ending = { code: number | null; signal: NodeJS.Signals | null };

export type ExecutorOptions = {
  wallKind: WallKind;
  /** As `findLandlock` found it. */
  landlock: number | string;
  /** The program in place of our own executor's: a test's, that plays one that was taken over. */
  executorPath?: string | undefined;
  memoryMb: number;
  /** A frame that came in, its words not looked at yet. */
  received: (frame: Frame) => void;
  /** What came in is no frame. */
  broken: (error: Error) => void;
};

/** Without Node's snapshot, which isolated-vm cannot live with; without a debugger; quiet about what Node means to drop. */
const nodeOptions = [
  '--no-node-snapshot',
  '--disable-sigusr1',
  '--no-deprecation',
  // The machine's own cannot be read behind the wall, which OpenSSL takes for an error.
  '--openssl-config=/dev/null',
];
const here = fileURLToPath(import.meta.url);
const sandboxDirectory = dirname(dirname(here));
const sourceDirectory = dirname(dirname(sandboxDirectory));
const executorDirectory = `${sandboxDirectory}/executor`;
const ownPath = `${executorDirectory}/executor${extname(here)}`;

/**
 * Numbers of users that no system gives away: where the server is root, each executor is one of its own, so that none can signal another and
 * the count of its processes is its own. As good as any numbers that no system gives to people or services.
 */
const USER_FIRST = 0x7ffe_0000;
const USERS = 0x1_0000;
/** From anywhere: several servers of a machine, in containers too, would count their executors' processes together. */
let users = randomInt(USERS);
const nextUser = (): number => {
  users += 1;
  return USER_FIRST + (users % USERS);
};

/** A file that every executor could read if there were no wall, and none may. */
const forbiddenPath = `${sourceDirectory}/platform/config${extname(here)}`;

const programOf = (memoryMb: number, isWalled: boolean, executorPath = ownPath): Program => ({
  path: process.execPath,
  args: [...nodeOptions, executorPath, String(memoryMb), String(nextUser()), ...(isWalled ? [forbiddenPath] : [])],
  reads: [
    ...(executorPath === ownPath ? [] : [executorPath]),
    executorDirectory,
    `${sandboxDirectory}/protocol`,
    `${sourceDirectory}/generated/sandbox`,
    `${dirname(sourceDirectory)}/package.json`,
    packageDirectory(sourceDirectory, 'isolated-vm'),
    packageDirectory(packageDirectory(sourceDirectory, 'isolated-vm'), 'node-gyp-build'),
  ],
});

/** The program behind its wrappers: the last of the line of only children. */
const innermost = (pid: number): number => {
  for (let at = pid; ;) {
    let children: string;
    try {
      children = readFileSync(`/proc/${at}/task/${at}/children`, 'utf8').trim();
    } catch {
      return at;
    }
    const [first] = children.split(' ');
    if (!first) return at;
    at = Number(first);
  }
};

/** An executor did not come up. The message says what it printed, which is before anything foreign ran in it. */
export class ExecutorStartError extends Error {
  override readonly name = 'ExecutorStartError';
}

/** Starts an executor and waits until it is ready. @throws ExecutorStartError; WallMissing. */
export const startExecutor = async ({
  wallKind,
  landlock,
  executorPath,
  memoryMb,
  received,
  broken,
}: ExecutorOptions): Promise<Executor> => {
  const program = programOf(memoryMb, wallKind !== 'none', executorPath);
  const { command, args } = wallCommand(wallKind, landlock, program);
  const child = spawn(command, args, {
    env: WRAPPER_ENVIRONMENT,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
  });
  const socket = child.stdio[3] as Socket;
  let words = '';
  let isReady = false;
  child.stderr?.on('data', (chunk: Buffer) => {
    if (words.length < STDERR_CHARACTERS_MAX) words += chunk.toString('latin1');
  });
  let isEnded = false;
  const ended = new Promise<Ending>((resolve) => {
    child.once('error', (error) => {
      words ||= error.message;
      isEnded = true;
      resolve({ code: null, signal: null });
    });
    child.once('exit', (code, signal) => {
      isEnded = true;
      socket.destroy();
      resolve({ code, signal });
    });
  });
  socket.on('error', () => child.kill('SIGKILL'));

  await new Promise<void>((resolve, reject) => {
    const fail = (): void => reject(new ExecutorStartError(words.trim().slice(0, STDERR_CHARACTERS_MAX)));
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      fail();
    }, START_MS_MAX);
    void ended.then(({ code, signal }) => {
      clearTimeout(timer);
      words ||= `it ended with ${signal ?? code}`;
      fail();
    });
    const onFrame = (frame: Frame): void => {
      if (isReady) return received(frame);
      if (frame.kind !== frameKinds.READY) return void child.kill('SIGKILL');
      isReady = true;
      clearTimeout(timer);
      // What foreign code would make it say is not read.
      child.stderr?.destroy();
      resolve();
    };
    readFrames(socket, onFrame, broken);
  });

  const pid = innermost(child.pid as number);
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, OOM_SCORE);
  } catch {
    // Where the system does not let us, the kernel chooses by size alone.
  }
  const readProc = (file: string): string | undefined => {
    try {
      return readFileSync(`/proc/${pid}/${file}`, 'utf8');
    } catch {
      return undefined;
    }
  };
  return {
    ended,
    pid,
    send: (frame) => {
      if (isEnded || socket.destroyed) return;
      socket.write(frame);
      if (socket.writableLength > UNREAD_BYTES_MAX) child.kill('SIGKILL');
    },
    hasRoom: async () => {
      while (!isEnded && !socket.destroyed && socket.writableLength > UNREAD_BYTES_ENOUGH)
        await Promise.race([once(socket, 'drain').catch(() => undefined), ended]);
    },
    kill: () => {
      if (isEnded) return;
      // Behind a wrapper the program goes first, so that the wrapper sees its end and reaps it.
      if (pid === child.pid || !killQuietly(pid)) return void child.kill('SIGKILL');
      const late = setTimeout(() => child.kill('SIGKILL'), WRAPPER_MS_MAX);
      void ended.then(() => clearTimeout(late));
    },
    size: () => {
      const status = readProc('status');
      if (status === undefined) return undefined;
      const numberOf = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
      const memoryMb = (numberOf('VmRSS') + numberOf('VmSwap') + numberOf('VmPTE')) / 1024;
      const privateMb = memoryMb - numberOf('RssFile') / 1024;
      const threads = numberOf('Threads');
      return { memoryMb, privateMb, threads, isHidden: !status.includes('VmRSS:') && threads > 1 };
    },
    hasChildren: () => {
      try {
        return readdirSync(`/proc/${pid}/task`).some((thread) => readProc(`task/${thread}/children`));
      } catch {
        return false;
      }
    },
    cpuMs: () => {
      // The name in brackets may hold anything; the numbers follow it.
      const fields = readProc('stat')?.split(') ').at(-1)?.split(' ');
      return fields === undefined ? undefined : (Number(fields[11]) + Number(fields[12])) * TICK_MS;
    },
  };
};

const killQuietly = (pid: number): boolean => {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    // Gone already.
    return false;
  }
};
