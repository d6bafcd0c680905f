// How an executor is walled in: the command line that starts a program in an empty network, among no other processes, in a file
// tree of its own that nobody can write to, and without rights. Knows nothing of what the program does.
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { Jail } from './sandbox.ts';

/** In the order in which they are tried. */
export const jails: readonly Jail[] = ['bwrap', 'unshare', 'none'];

export type Program = {
  /** Absolute path of Node, and what it is given. */
  node: string;
  args: string[];
  /** What the program reads: absolute paths of files and directories; nothing else of the disk is there. */
  reads: string[];
};

/** The environment of the wrappers; what is in the jail has none. */
export const WRAPPER_ENVIRONMENT = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' };

export type CommandLine = { command: string; args: string[] };

const isRoot = process.getuid?.() === 0;

/** The system's libraries, which Node is linked against, and its programs, of which the wall is made. */
const systemDirectories = ['/usr/lib', '/usr/lib64', '/lib', '/lib64', '/usr/bin', '/bin'].filter((path) =>
  existsSync(path),
);
const devices = ['/dev/null', '/dev/urandom'];

/** As root the executor gives up its user by itself, once it has read what only root may read. Nothing else is kept. */
const keptCapabilities = ['setuid', 'setgid', 'dac_read_search'];

/** No core dumps, few files, none of them writable: a taken-over executor leaves nothing on the disk. */
const LIMITS = 'ulimit -c 0; ulimit -f 0; ulimit -n 64; exec env -i "$@"';
/** Node's threads, one of isolated-vm's for each core, and some to spare. They count by user, and threads count. */
const PROCESSES_MAX = 48 + 2 * availableParallelism();

/** @param isAlone whether the program's user, or its namespace's count of it, is the program's alone. */
const limited = ({ node, args }: Program, isAlone: boolean): string[] => [
  ...(isAlone ? ['prlimit', `--nproc=${PROCESSES_MAX}`] : []),
  '/bin/sh',
  '-c',
  LIMITS,
  'sh',
  node,
  ...args,
];

/** All that is there to read. What lies in a directory of the system is there with it. */
const placesOf = ({ reads }: Program): string[] => [
  ...systemDirectories,
  ...reads.filter((path) => !systemDirectories.some((directory) => path.startsWith(`${directory}/`))),
];

const bubblewrap = (program: Program): CommandLine => ({
  command: 'bwrap',
  args: [
    // As root without a user namespace: in one, nobody's number could not be taken.
    ...(isRoot
      ? ['--unshare-net', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try']
      : ['--unshare-all']),
    '--die-with-parent',
    '--new-session',
    '--clearenv',
    '--cap-drop',
    'ALL',
    ...(isRoot ? keptCapabilities.flatMap((name) => ['--cap-add', `CAP_${name.toUpperCase()}`]) : []),
    ...placesOf(program).flatMap((path) => ['--ro-bind', path, path]),
    // No --dev: it mounts a file system of its own, which could be written to.
    ...devices.flatMap((path) => ['--dev-bind', path, path]),
    '--remount-ro',
    '/',
    '--chdir',
    '/',
    '--',
    ...limited(program, true),
  ],
});

/** A directory to mount the jail's own tree on, in a mount namespace of its own: any that exists and holds nothing that is needed. */
const rootPlace = (reads: string[]): string =>
  ['/mnt', '/media', '/srv', '/opt', '/run'].find(
    (place) => existsSync(place) && !reads.some((path) => path.startsWith(`${place}/`)),
  ) ?? '/mnt';

/** The same walls by the kernel's own tools: a small tree in memory, with what is read bound into it, read-only. */
const JAIL_SCRIPT = `set -e
root=$1; shift
mount -t tmpfs -o size=1m,mode=0755 tmpfs "$root"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir -p "$root$1"; else mkdir -p "$root$(dirname "$1")"; : > "$root$1"; fi
  mount --bind "$1" "$root$1"
  mount -o remount,bind,ro "$root$1"
  shift
done
shift
mkdir "$root/dev"
for device in ${devices.join(' ')}; do : > "$root$device"; mount --bind "$device" "$root$device"; done
mount -o remount,bind,ro "$root"
cd /
exec chroot "$root" "$@"`;

const namespaces = (program: Program): CommandLine => ({
  command: 'unshare',
  args: [
    ...(isRoot ? [] : ['--user', '--map-root-user']),
    '--net',
    '--pid',
    '--ipc',
    '--uts',
    '--mount',
    '--fork',
    '--kill-child',
    '/bin/sh',
    '-c',
    JAIL_SCRIPT,
    'sh',
    rootPlace(program.reads),
    ...placesOf(program),
    '--',
    'setpriv',
    '--no-new-privs',
    '--inh-caps=-all',
    `--bounding-set=${['-all', ...(isRoot ? keptCapabilities.map((name) => `+${name}`) : [])].join(',')}`,
    ...limited(program, true),
  ],
});

const none = (program: Program): CommandLine => {
  const [command = '', ...args] = limited(program, isRoot);
  return { command, args };
};

const makers: Record<Jail, (program: Program) => CommandLine> = { bwrap: bubblewrap, unshare: namespaces, none };

export const jailCommand = (jail: Jail, program: Program): CommandLine => makers[jail](program);

/** The directory of an installed package, wherever npm has put it. @throws where it is not installed. */
export const packageDirectory = (from: string, name: string): string => {
  for (let directory = resolve(from); ; directory = dirname(directory)) {
    const found = join(directory, 'node_modules', name);
    if (existsSync(found)) return found;
    if (directory === dirname(directory)) throw new Error(`the package ${name} is not installed`);
  }
};
