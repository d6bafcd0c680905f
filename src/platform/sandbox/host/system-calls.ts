// The system calls that an executor may make, with the reason for each. All others fail. Numbers are the kernel's, for x64
// and arm64; null where the architecture has no such call.

// The seccomp filter of an executor: a BPF program that lets the listed system calls through and makes all others fail.
// man 2 seccomp; linux/filter.h, linux/seccomp.h, linux/audit.h.

export type Architecture = 'x64' | 'arm64';

/** AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64: the architecture that the kernel reports for a call. */
const auditArchitectures: Record<Architecture, number> = { x64: 0xc000_003e, arm64: 0xc000_00b7 };

const LOAD = 0x20;
const JUMP_IF_EQUAL = 0x15;
const JUMP_IF_AT_LEAST = 0x35;
const JUMP_IF_ANY_BIT = 0x45;
const RETURN = 0x06;

const KILL_PROCESS = 0x8000_0000;
const ALLOW = 0x7fff_0000;
const failWith = (errno: number): number => 0x0005_0000 | errno;
const EPERM = 1;
const ENOSYS = 38;

/**
 * Offsets in struct seccomp_data: the number, the architecture, and the lower halves of the arguments. Both architectures are
 * little-endian.
 */
const NUMBER_AT = 0;
const ARCHITECTURE_AT = 4;
const argumentAt = (argument: number): number => 16 + 8 * argument;

/** Numbers of the x32 ABI begin here: the same calls by other numbers. */
const X32_FROM = 0x4000_0000;

type Instruction = [code: number, ifTrue: number, ifFalse: number, value: number | 'OWN_PROCESS'];

/**
 * Mark that the launcher replaces by the id of its process, which stays when it becomes the executor. It has eight characters,
 * none of which is in the hexadecimal text.
 */
const OWN_PROCESS_MARK = 'OWN_PROC';

const give = (result: number): Instruction => [RETURN, 0, 0, result];

/** Instructions that allow or refuse a call by its argument. */
const judge = (condition: Condition): Instruction[] => {
  const load: Instruction = [LOAD, 0, 0, argumentAt(condition.argument)];
  if ('isOneOf' in condition) {
    const values = condition.isOneOf;
    const compare = values.map((value, index): Instruction => [JUMP_IF_EQUAL, values.length - index, 0, value]);
    return [load, ...compare, give(failWith(EPERM)), give(ALLOW)];
  }
  const { hasBit, hasNone } = condition;
  return [
    load,
    ...(hasBit === undefined ? [] : [[JUMP_IF_ANY_BIT, 0, 2, hasBit] as Instruction]),
    [JUMP_IF_ANY_BIT, 1, 0, hasNone],
    give(ALLOW),
    give(failWith(EPERM)),
  ];
};

const forCall = (number: number, body: Instruction[]): Instruction[] => [
  [JUMP_IF_EQUAL, 0, body.length, number],
  ...body,
];

/** An instruction as struct sock_filter, in hexadecimal. */
const encode = ([code, ifTrue, ifFalse, value]: Instruction): string => {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16LE(code, 0);
  bytes.writeUInt8(ifTrue, 2);
  bytes.writeUInt8(ifFalse, 3);
  if (value === 'OWN_PROCESS') return bytes.toString('hex', 0, 4) + OWN_PROCESS_MARK;
  bytes.writeUInt32LE(value >>> 0, 4);
  return bytes.toString('hex');
};

/**
 * @param mayChangeUser for a root executor, which changes to an unprivileged user itself.
 * @returns the program in hexadecimal, with marks for the process's own id. A call of another architecture ends the process.
 */
export const makeFilter = (architecture: Architecture, mayChangeUser: boolean): string => {
  const program: Instruction[] = [
    [LOAD, 0, 0, ARCHITECTURE_AT],
    [JUMP_IF_EQUAL, 1, 0, auditArchitectures[architecture]],
    give(KILL_PROCESS),
    [LOAD, 0, 0, NUMBER_AT],
    [JUMP_IF_AT_LEAST, 0, 1, X32_FROM],
    give(KILL_PROCESS),
  ];
  for (const call of UNKNOWN_CALLS) program.push(...forCall(call[architecture], [give(failWith(ENOSYS))]));
  const calls: SystemCall[] = [...allowedCalls, ...(mayChangeUser ? userCalls : [])];
  for (const call of calls) {
    const number = call[architecture];
    if (number !== null) program.push(...forCall(number, call.when ? judge(call.when) : [give(ALLOW)]));
  }
  program.push(give(failWith(EPERM)));
  return program.map(encode).join('');
};

/** A condition on an argument of a call. Compares the lower 32 bits, as the kernel reads them. */
export type Condition =
  /** `OWN_PROCESS`: the id of the process that puts the filter on. */
  | { argument: number; isOneOf: readonly (number | 'OWN_PROCESS')[] }
  | { argument: number; hasBit?: number; hasNone: number };

export type SystemCall = {
  name: string;
  x64: number | null;
  arm64: number | null;
  why: string;
  when?: Condition;
};

/** Calls that fail with ENOSYS, so that libraries fall back to another. */
export const UNKNOWN_CALLS = [
  // A filter cannot inspect its arguments, which are in memory. glibc falls back to clone.
  { name: 'clone3', x64: 435, arm64: 435 },
] as const;

const CLONE_THREAD = 0x0001_0000;
/** CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. */
const CLONE_NEW_ANYTHING = 0x7e02_0080;

/** O_WRONLY and O_RDWR, O_CREAT, O_TRUNC, O_PATH (which Landlock lets through) and the bit of O_TMPFILE. The same on both architectures. */
const OPEN_OTHERWISE = 0x3 | 0x40 | 0x200 | 0x20_0000 | 0x40_0000;

/** And the lowest bit of MAP_SHARED_VALIDATE. */
const MAP_SHARED = 0x1;

const PR_SET_NAME = 15;
const PR_SET_VMA = 0x5356_4d41;

const TCGETS = 0x5401;
const FIONBIO = 0x5421;
const FIOCLEX = 0x5451;

const F_DUPFD = 0;
const F_GETFD = 1;
const F_SETFD = 2;
const F_GETFL = 3;
const F_SETFL = 4;
const F_DUPFD_CLOEXEC = 1030;

export const allowedCalls: readonly SystemCall[] = [
  { name: 'read', x64: 0, arm64: 63, why: 'frames, files and wake-ups of the event loop' },
  { name: 'write', x64: 1, arm64: 64, why: 'frames and wake-ups of the event loop' },
  { name: 'readv', x64: 19, arm64: 65, why: 'libuv reads so' },
  { name: 'writev', x64: 20, arm64: 66, why: 'several frames at once' },
  { name: 'pread64', x64: 17, arm64: 67, why: 'the loader reads libraries' },
  { name: 'lseek', x64: 8, arm64: 62, why: 'files are read to their ends' },
  { name: 'close', x64: 3, arm64: 57, why: 'files are closed' },
  { name: 'dup', x64: 32, arm64: 23, why: 'libuv duplicates descriptors' },
  { name: 'pipe2', x64: 293, arm64: 59, why: 'the event loop hears of signals through a pipe' },
  { name: 'shutdown', x64: 48, arm64: 210, why: 'the end of the inherited socket' },
  { name: 'getsockname', x64: 51, arm64: 204, why: 'what kind of socket was inherited' },
  { name: 'getsockopt', x64: 55, arm64: 209, why: 'what kind of socket was inherited' },
  {
    name: 'fcntl',
    x64: 72,
    arm64: 25,
    why: 'flags of descriptors; not their owner, who is sent signals, nor the size of pipes',
    when: { argument: 1, isOneOf: [F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC] },
  },
  {
    name: 'ioctl',
    x64: 16,
    arm64: 29,
    why: 'whether a descriptor is a terminal; descriptors that do not block',
    when: { argument: 1, isOneOf: [TCGETS, FIONBIO, FIOCLEX] },
  },
  {
    name: 'openat',
    x64: 257,
    arm64: 56,
    why: 'files are opened to be read',
    when: { argument: 2, hasNone: OPEN_OTHERWISE },
  },
  { name: 'fstat', x64: 5, arm64: 80, why: 'sizes of files' },
  { name: 'newfstatat', x64: 262, arm64: 79, why: 'sizes of files' },
  { name: 'statx', x64: 332, arm64: 291, why: 'libuv asks for files so' },
  { name: 'access', x64: 21, arm64: null, why: 'the loader asks for files so' },
  { name: 'faccessat2', x64: 439, arm64: 439, why: 'libuv asks whether files are there' },
  { name: 'readlink', x64: 89, arm64: null, why: 'modules are found behind links' },
  { name: 'readlinkat', x64: 267, arm64: 78, why: 'modules are found behind links' },
  { name: 'getdents64', x64: 217, arm64: 61, why: 'directories of modules are listed' },
  { name: 'getcwd', x64: 79, arm64: 17, why: 'paths of modules' },

  { name: 'epoll_create1', x64: 291, arm64: 20, why: 'the event loop' },
  { name: 'epoll_ctl', x64: 233, arm64: 21, why: 'the event loop' },
  { name: 'epoll_pwait', x64: 281, arm64: 22, why: 'the event loop' },
  { name: 'eventfd2', x64: 290, arm64: 19, why: 'the event loop is woken up' },
  { name: 'poll', x64: 7, arm64: null, why: 'Node looks at its standard descriptors' },
  { name: 'ppoll', x64: 271, arm64: 73, why: 'Node looks at its standard descriptors' },

  {
    name: 'mmap',
    x64: 9,
    arm64: 222,
    why: 'memory, and libraries in it; not shared: shared memory need not be resident',
    when: { argument: 3, hasNone: MAP_SHARED },
  },
  { name: 'mprotect', x64: 10, arm64: 226, why: 'V8 makes its code executable' },
  { name: 'munmap', x64: 11, arm64: 215, why: 'memory is given back' },
  { name: 'mremap', x64: 25, arm64: 216, why: 'memory grows' },
  { name: 'madvise', x64: 28, arm64: 233, why: 'memory is given back' },
  { name: 'brk', x64: 12, arm64: 214, why: 'memory' },
  { name: 'pkey_alloc', x64: 330, arm64: 289, why: 'V8 protects its code with memory keys' },
  { name: 'pkey_free', x64: 331, arm64: 290, why: 'V8 protects its code with memory keys' },
  { name: 'pkey_mprotect', x64: 329, arm64: 288, why: 'V8 protects its code with memory keys' },
  { name: 'membarrier', x64: 324, arm64: 283, why: 'V8 changes code that other threads may run' },

  {
    name: 'clone',
    x64: 56,
    arm64: 220,
    why: 'threads; no processes, no namespaces',
    when: { argument: 0, hasBit: CLONE_THREAD, hasNone: CLONE_NEW_ANYTHING },
  },
  { name: 'set_robust_list', x64: 273, arm64: 99, why: 'a thread begins' },
  { name: 'rseq', x64: 334, arm64: 293, why: 'a thread begins' },
  { name: 'set_tid_address', x64: 218, arm64: 96, why: 'a thread begins' },
  { name: 'arch_prctl', x64: 158, arm64: null, why: 'a thread begins' },
  {
    name: 'prctl',
    x64: 157,
    arm64: 167,
    why: 'names of threads and of memory',
    when: { argument: 0, isOneOf: [PR_SET_NAME, PR_SET_VMA] },
  },
  { name: 'futex', x64: 202, arm64: 98, why: 'threads wait for each other' },
  { name: 'sched_yield', x64: 24, arm64: 124, why: 'threads wait for each other' },
  { name: 'sched_getaffinity', x64: 204, arm64: 123, why: 'how many threads are worth while' },
  { name: 'sched_getparam', x64: 143, arm64: 121, why: 'a thread asks for its priority' },
  { name: 'sched_getscheduler', x64: 145, arm64: 120, why: 'a thread asks for its priority' },
  { name: 'gettid', x64: 186, arm64: 178, why: 'a thread names itself' },
  { name: 'exit', x64: 60, arm64: 93, why: 'a thread ends' },
  { name: 'exit_group', x64: 231, arm64: 94, why: 'the process ends' },
  {
    name: 'tgkill',
    x64: 234,
    arm64: 131,
    why: 'V8 ends its own process; threads of it tell each other to change their user',
    when: { argument: 0, isOneOf: ['OWN_PROCESS'] },
  },
  {
    name: 'prlimit64',
    x64: 302,
    arm64: 261,
    why: 'a process asks for its own limits',
    when: { argument: 0, isOneOf: [0] },
  },

  { name: 'rt_sigaction', x64: 13, arm64: 134, why: 'V8 and libuv handle signals' },
  { name: 'rt_sigprocmask', x64: 14, arm64: 135, why: 'V8 and libuv handle signals' },
  { name: 'rt_sigreturn', x64: 15, arm64: 139, why: 'a signal was handled' },
  { name: 'sigaltstack', x64: 131, arm64: 132, why: 'stacks of signal handlers' },
  { name: 'restart_syscall', x64: 219, arm64: 128, why: 'a wait goes on after a signal' },

  { name: 'clock_gettime', x64: 228, arm64: 113, why: 'time, where the kernel offers it no other way' },
  { name: 'clock_getres', x64: 229, arm64: 114, why: 'libuv chooses a clock' },
  { name: 'clock_nanosleep', x64: 230, arm64: 115, why: 'waits' },
  { name: 'nanosleep', x64: 35, arm64: 101, why: 'waits' },
  { name: 'getrandom', x64: 318, arm64: 278, why: 'random numbers' },
  { name: 'getrusage', x64: 98, arm64: 165, why: 'CPU time of runs' },
  { name: 'times', x64: 100, arm64: 153, why: 'CPU time of runs' },
  { name: 'sysinfo', x64: 99, arm64: 179, why: 'how much memory the machine has' },
  { name: 'uname', x64: 63, arm64: 160, why: 'which kernel this is' },

  { name: 'getpid', x64: 39, arm64: 172, why: 'a process names itself' },
  { name: 'getppid', x64: 110, arm64: 173, why: 'Node asks at its start' },
  { name: 'getuid', x64: 102, arm64: 174, why: 'whether root is to be given up' },
  { name: 'geteuid', x64: 107, arm64: 175, why: 'Node asks whether it has more rights than its user' },
  { name: 'getgid', x64: 104, arm64: 176, why: 'Node asks whether it has more rights than its user' },
  { name: 'getegid', x64: 108, arm64: 177, why: 'Node asks whether it has more rights than its user' },
  { name: 'capget', x64: 125, arm64: 90, why: 'Node asks whether it has more rights than its user' },

  { name: 'execve', x64: 59, arm64: 221, why: 'the last step of the launcher, which becomes the executor' },
];

/** A root executor needs these too, to become the user `nobody`. For other users they change nothing. */
export const userCalls: readonly SystemCall[] = [
  { name: 'setgroups', x64: 116, arm64: 159, why: 'root is given up' },
  { name: 'setgid', x64: 106, arm64: 144, why: 'root is given up' },
  { name: 'setuid', x64: 105, arm64: 146, why: 'root is given up' },
];

/** Calls that the launcher makes by number before the filter is on. */
export const launcherCalls = {
  prctl: { x64: 157, arm64: 167 },
  seccomp: { x64: 317, arm64: 277 },
  close_range: { x64: 436, arm64: 436 },
  getpriority: { x64: 140, arm64: 141 },
  setpriority: { x64: 141, arm64: 140 },
  setsid: { x64: 112, arm64: 157 },
  prlimit64: { x64: 302, arm64: 261 },
  landlock_create_ruleset: { x64: 444, arm64: 444 },
  landlock_add_rule: { x64: 445, arm64: 445 },
  landlock_restrict_self: { x64: 446, arm64: 446 },
} as const;
