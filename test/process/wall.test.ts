// Isolation of executors, attacked by system calls: as root and as a plain user, with and without bubblewrap and Landlock.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launcherCommand } from '../../src/platform/sandbox/host/launcher.ts';
import type { Wall, WallKind } from '../../src/platform/sandbox/protocol/sandbox.ts';
import { allowedCalls, launcherCalls, UNKNOWN_CALLS, userCalls } from '../../src/platform/sandbox/host/system-calls.ts';
import { findLandlock, WRAPPER_ENVIRONMENT } from '../../src/platform/sandbox/host/wall.ts';
import { root } from '../support/process.ts';
import { isInstalled } from '../support/programs.ts';

const { EACCES, EBADF, ENOENT, ENOSYS, EPERM } = constants.errno;
const script = join(root, 'test/support/wall-probe.ts');
const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;

type User = { uid?: number; gid?: number };

/** As it runs here, and as a plain user where root can become one who can read the sources. */
const users = new Map<string, User>([[isRoot ? 'root' : 'a plain user', {}]]);
if (isRoot && spawnSync(process.execPath, [script, 'none'], { uid: NOBODY, gid: NOBODY }).error === undefined)
  users.set('a plain user', { uid: NOBODY, gid: NOBODY });

/** A command in whose surroundings the calls of Landlock are unknown, as in an older kernel: a filter of six instructions. */
const withoutLandlock = (command: string[]): string[] => {
  const instruction = (code: number, ifTrue: number, value: number): string => {
    const bytes = Buffer.alloc(8);
    bytes.writeUInt16LE(code, 0);
    bytes.writeUInt8(ifTrue, 2);
    bytes.writeUInt32LE(value, 4);
    return bytes.toString('hex');
  };
  const filter = [
    instruction(0x20, 0, 0),
    instruction(0x15, 3, 444),
    instruction(0x15, 2, 445),
    instruction(0x15, 1, 446),
    instruction(0x06, 0, 0x7fff_0000),
    instruction(0x06, 0, 0x0005_0000 | ENOSYS),
  ].join('');
  const install = `my $f = pack 'H*', shift; my $p = pack 'S x6 P', length($f) / 8, $f;
    syscall(157, 38, 1, 0, 0, 0) == 0 && syscall(317, 1, 0, $p) == 0 or die; exec { $ARGV[0] } @ARGV;`;
  return ['perl', '-e', install, filter, ...command];
};

/** A command in a tree with other files in some places. */
const withFiles = (changes: string[], command: string[]): string[] => [
  'bwrap',
  '--dev-bind',
  '/',
  '/',
  ...changes,
  '--',
  ...command,
];

const run = (command: string[], user: User = {}) => {
  const [program = '', ...args] = command;
  const { stdout, stderr } = spawnSync(program, args, { ...user, encoding: 'utf8', env: WRAPPER_ENVIRONMENT });
  if (!stdout.startsWith('{')) throw new Error(`it printed ${stdout} ${stderr}`);
  return JSON.parse(stdout) as unknown;
};

/** The wall that a sandbox finds, and what becomes of code behind it. */
const standing = (kind: WallKind | 'auto', around = (command: string[]) => command, user?: User) =>
  run(around([process.execPath, script, 'stand', kind]), user) as { wall: Wall; end: string };

const isX64 = process.arch === 'x64';
const hasLandlock = typeof (await findLandlock()) === 'number';
/** Bubblewrap by itself, with nothing of ours in it. */
const hasBubblewrapAs = (user: User = {}): boolean =>
  spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', 'true'], { ...user }).status === 0;
const hasBubblewrap = isInstalled('bubblewrap') && hasBubblewrapAs();

/** What the files say that refuse: other than the filter, they may not be there at all. */
const files = new Set([
  '/proc/OTHER/environ',
  '/proc/OTHER/mem',
  '/proc/OTHER/maps',
  '/proc/self/environ',
  '/proc/1/environ',
  '/etc/passwd',
  'a file of the server',
  'a secret',
]);

describe.skipIf(!isX64)('a taken-over executor', () => {
  let victim: ChildProcess;
  let directory: string;
  beforeAll(() => {
    victim = spawn('sleep', ['600'], { stdio: 'ignore' });
    directory = mkdtempSync('/tmp/strongroom-wall-');
    writeFileSync(join(directory, 'w'), 'a secret', { mode: 0o666 });
    // What only other mechanisms would refuse: the probe's own user may do it.
    spawnSync('chmod', ['777', directory]);
  });
  afterAll(() => {
    victim.kill('SIGKILL');
    rmSync(directory, { recursive: true });
  });

  const surroundings = { 'with Landlock': (command: string[]) => command, 'without Landlock': withoutLandlock };
  const combinations = [...users].flatMap(([user, ids]) =>
    Object.entries(surroundings).flatMap(([name, around]) =>
      (['bwrap', 'landlock'] as const)
        .filter((kind) => (kind === 'bwrap' ? hasBubblewrapAs(ids) : hasLandlock && around !== withoutLandlock))
        .map((kind) => ({ user, ids, name, around, kind })),
    ),
  );

  const probe = (
    kind: WallKind,
    around: (command: string[]) => string[],
    ids: User,
    wanted: string[] = [],
  ): Record<string, string> => {
    const words = [kind, String(victim.pid), directory, join(root, 'package.json'), ...wanted];
    const found = run(around([process.execPath, script, 'probe', ...words]), ids) as Record<string, string | number>;
    expect([found['status'], found['stderr']]).toEqual([0, '']);
    const lines = String(found['stdout']).trimEnd().split('\n');
    return Object.fromEntries(lines.map((line) => line.split('=') as [string, string]));
  };

  test.each(combinations)('of $user behind $kind, $name: every attempt fails', ({ ids, around, kind }) => {
    const { 'execve of another program': started, ...refused } = probe(kind, around, ids);
    // Without Landlock the programs in bubblewrap's tree start, behind the same filter.
    expect(started).toBe(around === withoutLandlock ? undefined : String(EACCES));
    expect(Object.keys(refused).length).toBeGreaterThan(70);
    const errorOf = (name: string) => {
      if (files.has(name)) return expect.toBeOneOf([String(EACCES), String(ENOENT)]);
      if (name === 'a descriptor of the server') return String(EBADF);
      return String(name === 'clone3' ? ENOSYS : EPERM);
    };
    expect(refused).toEqual(Object.fromEntries(Object.keys(refused).map((name) => [name, errorOf(name)])));
  });

  test('behind no wall the same attempts succeed: the probe can tell', () => {
    const names = [
      'socket inet',
      'fork',
      'kill',
      'pidfd_open',
      'memfd_create',
      '/proc/OTHER/environ',
      'a descriptor of the server',
      'a secret',
      'mkdir',
    ];
    const found = probe('none', (command) => command, {}, names);
    expect(found).toEqual(Object.fromEntries(names.map((name) => [name, 'ALLOWED'])));
  });
});

describe('a sandbox finds the wall that can stand', () => {
  test.skipIf(!hasLandlock)('Landlock and seccomp, which need no right', () => {
    for (const ids of users.values())
      expect(standing('landlock', undefined, ids)).toEqual({
        wall: { kind: 'landlock', name: 'Landlock and seccomp', causes: [] },
        end: 'ok{"raw":1}',
      });
  });

  test.skipIf(!hasBubblewrap || !hasLandlock)('bubblewrap around both, where it may', () => {
    expect(standing('auto')).toEqual({
      wall: { kind: 'bwrap', name: 'bubblewrap, Landlock and seccomp', causes: [] },
      end: 'ok{"raw":1}',
    });
  });

  test.skipIf(!hasBubblewrap)('bubblewrap and seccomp, where the kernel has no Landlock', () => {
    const { wall, end } = standing('auto', withoutLandlock);
    expect([wall.name, end]).toEqual(['bubblewrap and seccomp', 'ok{"raw":1}']);
  });

  test.skipIf(!hasLandlock || !hasBubblewrap)('Landlock and seccomp, where bubblewrap is not installed', () => {
    const { wall, end } = standing('auto', (command) =>
      withFiles(['--tmpfs', '/usr/bin', '--ro-bind', '/usr/bin/perl', '/usr/bin/perl'], command),
    );
    expect(wall).toMatchObject({
      name: 'Landlock and seccomp',
      causes: [expect.stringContaining('apt-get install bubblewrap')],
    });
    expect(end).toBe('ok{"raw":1}');
  });

  test.skipIf(!hasLandlock || !hasBubblewrap)('any, where /proc is not mounted', () => {
    const { wall, end } = standing('auto', (command) => withFiles(['--tmpfs', '/proc'], command));
    expect(wall.name).toContain('Landlock and seccomp');
    expect(end).toBe('ok{"raw":1}');
  });
});

describe('where no wall can stand, the cause is named', () => {
  let directory: string;
  beforeAll(() => {
    directory = mkdtempSync('/tmp/strongroom-perl-');
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  test('no Landlock in the kernel', () => {
    expect(() => standing('landlock', withoutLandlock)).toThrow(
      'this kernel has no Landlock: Linux 5.13 and newer have it',
    );
  });

  test.skipIf(!hasBubblewrap)('no perl', () => {
    const { wall } = standing('auto', (command) => withFiles(['--ro-bind', '/dev/null', '/usr/bin/perl'], command));
    expect(wall).toMatchObject({ kind: 'none', name: 'none' });
    expect(wall.causes.join()).toContain('perl is missing, which starts executors (apt-get install perl-base)');
  });

  test.skipIf(!hasBubblewrap)('a perl that builds no wall: the executor tries it before anything foreign runs', () => {
    const path = join(directory, 'perl');
    const starts =
      '#!/bin/sh\n[ $# -eq 2 ] && { echo 7; exit; }\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n';
    writeFileSync(path, starts, { mode: 0o755 });
    const { wall } = standing('auto', (command) => withFiles(['--ro-bind', path, '/usr/bin/perl'], command));
    expect(wall.kind).toBe('none');
    expect(wall.causes).toEqual([
      expect.stringContaining('the wall does not hold: no filter of system calls'),
      expect.stringContaining('the wall does not hold: a file of the server can be read'),
    ]);
  });
});

test('a filter for another architecture ends what is started behind it', () => {
  const launch = {
    landlock: 0,
    processesMax: 0,
    mayChangeUser: false,
    nicenessMore: 0,
    reads: [],
    runs: [],
    command: ['/bin/true'],
  };
  const [program = '', ...args] = launcherCommand(isX64 ? 'arm64' : 'x64', launch);
  expect(spawnSync(program, args, { env: WRAPPER_ENVIRONMENT, input: '\n' }).signal).toBe('SIGSYS');
});

describe('the numbers of system calls are those of the kernel', () => {
  const headers = {
    x64: ['/usr/include/x86_64-linux-gnu/asm/unistd_64.h', /^#define __NR_(\w+) (\d+)$/gm],
    // arm64 has the generic numbers.
    arm64: ['/usr/include/asm-generic/unistd.h', /^#define __NR(?:3264)?_(\w+) (\d+)$/gm],
  } as const;

  test.each(['x64', 'arm64'] as const)('of %s', (architecture) => {
    const [path, pattern] = headers[architecture];
    if (!existsSync(path)) return console.warn(`left out: ${path} is not installed (linux-libc-dev)`);
    const kernel = new Map(
      [...readFileSync(path, 'utf8').matchAll(pattern)].map(([, name, number]) => [name, Number(number)]),
    );
    const nameOf = (name: string): string => (architecture === 'arm64' && name === 'newfstatat' ? 'fstatat' : name);
    const calls = [
      ...allowedCalls,
      ...userCalls,
      ...UNKNOWN_CALLS,
      ...Object.entries(launcherCalls).map(([name, numbers]) => ({ name, ...numbers })),
    ];
    for (const call of calls)
      expect([call.name, call[architecture]]).toEqual([call.name, kernel.get(nameOf(call.name)) ?? null]);
  });
});
