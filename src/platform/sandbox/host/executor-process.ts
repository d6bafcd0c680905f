// Starts one executor process in isolation, exchanges frames with it, measures its memory and CPU time, and ends it.
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { getPriority } from 'node:os';
import { dirname, extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { mayRaisePriority, NICENESS_MAX, setNiceness } from '../../base/priority.ts';
import { createFrameReader, type Frame, frameKinds } from '../protocol/frames.ts';
import type { WallKind } from '../protocol/sandbox.ts';
import { NICENESS_MORE } from './launcher.ts';
import { type Pace, readPaced, unpaid } from './paced-reads.ts';
import type { Ending, Spawner } from './spawner.ts';
import { packageDirectory, type Program, wallCommand } from './wall.ts';

/** Unread bytes at which an executor that does not read is killed. */
const UNREAD_BYTES_MAX = 64 * 1024 * 1024;
/** Unread bytes at which further frames wait until the executor has read. */
const UNREAD_BYTES_ENOUGH = 8 * 1024 * 1024;
/** A wrapper ends by itself after its program. After this time it is killed, which ends all its children. */
const WRAPPER_MS_MAX = 100;
/** Time to read what an executor had sent before it ended by itself. Its tenant may have to rest meanwhile. */
const LAST_READ_MS_MAX = 2_000;
/** When memory runs out, the kernel kills executors before the server and the database. From -1000 to 1000. */
const OOM_SCORE = '500';
/** Added for each executor that a tenant uses already: four together weigh as much as two of the first. */
const FURTHER_NICENESS = 2;
/** stat counts ticks of 10 ms. */
const TICK_MS = 10;

export type ExecutorSize = {
  /** Resident, swapped, and in page tables. */
  memoryMb: number;
  /** The private part, without pages shared with other processes such as the program's code. */
  privateMb: number;
  threads: number;
  /** The main thread has ended and others have not: the system then reports no memory. Normal for a moment at the end. */
  isHidden: boolean;
};

export type Executor = {
  /** Resolves when the process has ended, and what it had sent is read. After a kill, nothing more is read. */
  readonly ended: Promise<Ending>;
  readonly pid: number;
  send(frame: Buffer): void;
  /** Resolves when the executor has read most of what was sent, or has ended. */
  hasRoom(): Promise<void>;
  kill(): void;
  /** Sets its priority. @param rank how many executors of its tenant have a higher one. */
  setRank(rank: number): void;
  /** Undefined if the system does not report it. */
  size(): ExecutorSize | undefined;
  /** Whether it has started a process, which only a compromised executor does. */
  hasChildren(): boolean;
  /** CPU time of all its threads since it started. */
  cpuMs(): number | undefined;
};

export type ExecutorOptions = {
  spawner: Spawner;
  wallKind: WallKind;
  /** The result of `findLandlock`. */
  landlock: number | string;
  /** Replaces the executor's program: tests run one that acts as a compromised executor. */
  executorPath?: string | undefined;
  memoryMb: number;
  /** No run waits for it: it starts at the lowest priority, if the server may raise that later. */
  isSpare: boolean;
  /** Called when the process exists. @param hurry gives it its usual priority before it is ready: a run waits for it. */
  spawned?: ((hurry: () => void) => void) | undefined;
  /** Without it, what it sends is read at once. */
  pace?: Pace;
  /** Called when the process has ended by itself: frames may follow. */
  leaving?: () => void;
  /** Called with each frame. Its head is not validated yet. */
  received: (frame: Frame) => void;
  /** Called for input that is not a frame. */
  broken: (error: Error) => void;
};

/** No startup snapshot (isolated-vm does not work with it), no debugger, no deprecation warnings. */
const nodeOptions = [
  '--no-node-snapshot',
  '--disable-sigusr1',
  '--no-deprecation',
  // The machine's OpenSSL configuration cannot be read in isolation, which OpenSSL treats as an error.
  '--openssl-config=/dev/null',
];
const here = fileURLToPath(import.meta.url);
const sandboxDirectory = dirname(dirname(here));
const sourceDirectory = dirname(dirname(sandboxDirectory));
const executorDirectory = `${sandboxDirectory}/executor`;
const ownPath = `${executorDirectory}/executor${extname(here)}`;

/**
 * User ids for executors of a server that runs as root: each executor gets its own, so that none can signal another, and
 * process limits count separately. Systems do not assign ids in this range.
 */
const USER_FIRST = 0x7ffe_0000;
const USERS = 0x1_0000;
/** A random start: several servers of a machine, also in containers, must not share ids, whose processes count together. */
let users = randomInt(USERS);
const nextUser = (): number => {
  users += 1;
  return USER_FIRST + (users % USERS);
};

/** A file that an executor can read only if its isolation does not hold. */
const forbiddenPath = `${sourceDirectory}/platform/config/config${extname(here)}`;

const programOf = (memoryMb: number, isWalled: boolean, nicenessMore: number, executorPath = ownPath): Program => ({
  nicenessMore,
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

/** The process id of the program inside its wrappers: the last in a chain of only children. */
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

/** An executor did not start. The message contains its output, which is from before any tenant's code ran. */
export class ExecutorStartError extends Error {
  override readonly name = 'ExecutorStartError';
}

/** Starts an executor and waits until it is ready. @throws ExecutorStartError; WallMissing. */
export const startExecutor = async ({
  spawner,
  wallKind,
  landlock,
  executorPath,
  memoryMb,
  isSpare,
  spawned,
  pace = unpaid,
  leaving,
  received,
  broken,
}: ExecutorOptions): Promise<Executor> => {
  const isLowest = isSpare && mayRaisePriority();
  const program = programOf(memoryMb, wallKind !== 'none', isLowest ? NICENESS_MAX : NICENESS_MORE, executorPath);
  const child = await spawner.start(wallCommand(wallKind, landlock, program));
  if (!('socket' in child)) throw new ExecutorStartError(child.words);
  const { socket } = child;
  let isEnded = false;
  let isKilled = false;
  const kill = (): void => {
    isKilled = true;
    child.kill();
  };
  const ended = child.ended.then(async (ending) => {
    isEnded = true;
    if (!isKilled) {
      leaving?.();
      await closed(socket);
    }
    socket.destroy();
    return ending;
  });
  socket.on('error', kill);
  const setRank = (rank: number): void =>
    setNiceness(innermost(child.pid), getPriority() + NICENESS_MORE + rank * FURTHER_NICENESS);
  spawned?.(() => isLowest && setRank(0));

  await new Promise<void>((resolve, reject) => {
    // The spawner kills it if it is not ready in time.
    void ended.then(({ code, signal, words }) =>
      reject(new ExecutorStartError(words || `it ended with ${signal ?? code}`)),
    );
    let isReady = false;
    const onFrame = (frame: Frame): void => {
      if (isReady) return received(frame);
      if (frame.kind !== frameKinds.READY) return kill();
      isReady = true;
      child.ready();
      resolve();
    };
    readPaced(socket, createFrameReader(onFrame, broken), pace);
  });

  const pid = innermost(child.pid);
  if (isLowest) setRank(0);
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, OOM_SCORE);
  } catch {
    // Without the right to set it, the kernel chooses by size alone.
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
      if (socket.writableLength > UNREAD_BYTES_MAX) kill();
    },
    hasRoom: async () => {
      while (!isEnded && !socket.destroyed && socket.writableLength > UNREAD_BYTES_ENOUGH)
        await Promise.race([once(socket, 'drain').catch(() => undefined), ended]);
    },
    kill: () => {
      // Ends the reading of what it had sent.
      if (isEnded) return void socket.destroy();
      isKilled = true;
      // In a wrapper the program is killed first, so that the wrapper reaps it.
      if (pid === child.pid || !killQuietly(pid)) return child.kill();
      const late = setTimeout(() => child.kill(), WRAPPER_MS_MAX);
      void ended.then(() => clearTimeout(late));
    },
    setRank,
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
      // The name in parentheses may contain any character; the numbers follow it.
      const fields = readProc('stat')?.split(') ').at(-1)?.split(' ');
      return fields === undefined ? undefined : (Number(fields[11]) + Number(fields[12])) * TICK_MS;
    },
  };
};

/** Resolves when all of a socket is read, or after `LAST_READ_MS_MAX`. */
const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    if (socket.closed) return resolve();
    const late = setTimeout(resolve, LAST_READ_MS_MAX);
    socket.once('close', () => {
      clearTimeout(late);
      resolve();
    });
  });

const killQuietly = (pid: number): boolean => {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    // Gone already.
    return false;
  }
};
