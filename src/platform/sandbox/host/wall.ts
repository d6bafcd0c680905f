// Isolates an executor by the system: builds the command line that starts it behind Landlock and seccomp, inside bubblewrap
// where that works.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism, constants } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { architecture, FILES_MAX, landlockVersionCommand, launcherCommand } from './launcher.ts';
import type { WallKind } from '../protocol/sandbox.ts';

/** Kinds of isolation, in the order in which they are tried. */
export const wallKinds: readonly WallKind[] = ['bwrap', 'landlock', 'none'];

export type Program = {
  /** Absolute path of the program, and its arguments. */
  path: string;
  args: string[];
  /** Absolute paths that the program may read. The rest of the disk is not visible. */
  reads: string[];
  /** Added to the niceness of the server; without isolation it has no effect. */
  nicenessMore: number;
};

/** The environment of the wrappers. The executor has none. */
export const WRAPPER_ENVIRONMENT = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' };

export type CommandLine = { command: string; args: string[] };

/** A kind of isolation does not work here. The message says why, and what to do. */
export class WallMissing extends Error {
  override readonly name = 'WallMissing';
}

const isRoot = process.getuid?.() === 0;

const existing = (paths: string[]): string[] => paths.filter((path) => existsSync(path));

const triplet = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' }[architecture ?? 'x64'];
/** Debian has a directory for libraries only. Elsewhere the directory has other files too, and must not contain the server. */
const libraries = existsSync(`/usr/lib/${triplet}`)
  ? existing([`/usr/lib/${triplet}`, `/lib/${triplet}`, '/lib64', '/etc/ld.so.cache'])
  : existing(['/usr/lib', '/usr/lib64', '/lib', '/lib64', '/etc/ld.so.cache']);
const devices = ['/dev/null', '/dev/urandom'];
/** Dynamic loaders of glibc and musl, which the kernel runs to start a program. */
const loaders = existing([
  '/lib64/ld-linux-x86-64.so.2',
  '/lib/ld-linux-aarch64.so.1',
  '/lib/ld-musl-x86_64.so.1',
  '/lib/ld-musl-aarch64.so.1',
]);
/** Bubblewrap's tree has the system's programs, of which the launcher is one. */
const bubblewrapTree = existing(['/usr/lib', '/usr/lib64', '/lib', '/lib64', '/usr/bin', '/bin', '/etc/ld.so.cache']);

/** Capabilities of an executor that starts as root: it reads files that only root can read, and then changes its user. */
const keptCapabilities = ['CAP_SETUID', 'CAP_SETGID', 'CAP_DAC_READ_SEARCH'];

/** Node's threads, one of isolated-vm for each core, and some to spare. The kernel counts threads by user. */
export const THREADS_MAX = 48 + 2 * availableParallelism();

const { ENOSYS, EOPNOTSUPP } = constants.errno;

/** @returns the version of Landlock; or why there is none. */
export const findLandlock = (): Promise<number | string> =>
  new Promise((done) => {
    if (!architecture) return done(`there is no list of system calls for ${process.arch}: x64 and arm64 have one`);
    const [command = '', ...args] = landlockVersionCommand;
    execFile(command, args, { env: WRAPPER_ENVIRONMENT }, (error, stdout) => {
      if (error) return done('perl is missing, which starts executors (apt-get install perl-base)');
      const version = Number(stdout);
      if (version > 0) return done(version);
      if (version === -ENOSYS) return done('this kernel has no Landlock: Linux 5.13 and newer have it');
      if (version === -EOPNOTSUPP)
        return done("Landlock is switched off in this kernel: add landlock to the kernel's parameter lsm=");
      return done('Landlock is forbidden here: allow landlock_* in the seccomp profile of the container');
    });
  });

const launch = (program: Program, landlock: number, isAlone: boolean): string[] => {
  if (!architecture) throw new WallMissing(`there is no list of system calls for ${process.arch}`);
  return launcherCommand(architecture, {
    landlock,
    processesMax: isAlone ? THREADS_MAX : 0,
    mayChangeUser: isRoot,
    nicenessMore: program.nicenessMore,
    runs: [program.path, ...loaders],
    reads: [...libraries, ...devices, ...program.reads],
    command: [program.path, ...program.args],
  });
};

const bubblewrap = (program: Program, landlock: number): CommandLine => {
  const reads = [program.path, ...program.reads];
  const places = [
    ...bubblewrapTree,
    // Paths within directories of the system are already visible.
    ...reads.filter((path) => !bubblewrapTree.some((directory) => path.startsWith(`${directory}/`))),
  ];
  const args = [
    // Root makes no user namespace: within one, the executor could not change to another user id.
    ...(isRoot
      ? ['--unshare-net', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try']
      : ['--unshare-all']),
    '--die-with-parent',
    '--new-session',
    '--clearenv',
    '--setenv',
    'PATH',
    WRAPPER_ENVIRONMENT.PATH,
    '--cap-drop',
    'ALL',
    ...(isRoot ? keptCapabilities.flatMap((name) => ['--cap-add', name]) : []),
    ...places.flatMap((path) => ['--ro-bind', path, path]),
    // No --dev: it mounts a writable file system.
    ...devices.flatMap((path) => ['--dev-bind', path, path]),
    '--remount-ro',
    '/',
    '--chdir',
    '/',
    '--',
    ...launch(program, landlock, true),
  ];
  return { command: 'bwrap', args };
};

const landlocked = (program: Program, landlock: number): CommandLine => {
  const [command = '', ...args] = launch(program, landlock, isRoot);
  return { command, args };
};

/** Waits until the server has the socket. No core dumps, few files, none of them writable. */
const LIMITS = `read -r go; ulimit -c 0; ulimit -f 0; ulimit -n ${FILES_MAX}; exec env -i "$@" < /dev/null`;

const none = ({ path, args }: Program): CommandLine => {
  const limited = ['/bin/sh', '-c', LIMITS, 'sh', path, ...args];
  // An executor that root starts has a user of its own, so the limit counts its threads only.
  const [command = '', ...rest] = isRoot ? ['prlimit', `--nproc=${THREADS_MAX}`, ...limited] : limited;
  return { command, args: rest };
};

/**
 * @param landlock the result of `findLandlock`.
 * @throws WallMissing if this isolation does not work here.
 */
export const wallCommand = (kind: WallKind, landlock: number | string, program: Program): CommandLine => {
  if (kind === 'none') return none(program);
  const version = typeof landlock === 'number' ? landlock : 0;
  if (kind === 'bwrap') return bubblewrap(program, version);
  if (typeof landlock === 'string') throw new WallMissing(landlock);
  return landlocked(program, landlock);
};

/** The layers of an isolation, for operators. */
export const nameOfWall = (kind: WallKind, landlock: number | string): string => {
  if (kind === 'none') return 'none';
  const layers = [...(kind === 'bwrap' ? ['bubblewrap'] : []), ...(typeof landlock === 'number' ? ['Landlock'] : [])];
  return `${layers.join(', ')} and seccomp`;
};

/** Why an isolation does not work, from the output of its command line. */
export const causeOf = (kind: WallKind, words: string): string => {
  if (kind !== 'bwrap') return words;
  if (words.includes('spawn bwrap ENOENT')) return 'bubblewrap is not installed (apt-get install bubblewrap)';
  if (/^bwrap: .*(?:namespace|uid map|Operation not permitted)/m.test(words))
    return `bubblewrap may not make namespaces here: the profile of the container or a setting of the kernel forbids it (${words})`;
  return `bubblewrap: ${words}`;
};

/** The directory of an installed package, wherever npm has put it. @throws where it is not installed. */
export const packageDirectory = (from: string, name: string): string => {
  for (let directory = resolve(from); ; directory = dirname(directory)) {
    const found = join(directory, 'node_modules', name);
    if (existsSync(found)) return found;
    if (directory === dirname(directory)) throw new Error(`the package ${name} is not installed`);
  }
};
