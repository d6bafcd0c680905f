// A process that a test starts as another user or in another environment. It prints the isolation of an executor there,
// or runs the probe behind a given isolation.
import { spawnSync } from 'node:child_process';
import { openSync } from 'node:fs';
import type { WallKind } from '../../src/platform/sandbox/protocol/sandbox.ts';
import { findLandlock, type Program, wallCommand, WRAPPER_ENVIRONMENT } from '../../src/platform/sandbox/host/wall.ts';
import { endOf, openTestSandbox } from './sandbox.ts';

/**
 * Attempts at system calls of x64, by their numbers: each prints its name and the number of the error, or ALLOWED. Only those
 * that are named, if any are: behind no wall some would change the machine.
 */
const PROBE = String.raw`
my ($other, $path, $server_file, @wanted) = @ARGV;
$other += 0;
$| = 1;
my %wanted = map { $_ => 1 } @wanted;
sub is_wanted { !@wanted || $wanted{$_[0]} }
sub say_result { my ($name, $result) = @_; print "$name=", ($result == -1 ? $! + 0 : 'ALLOWED'), "\n" }
sub attempt { my ($name, @call) = @_; return if !is_wanted($name); say_result($name, syscall($call[0], @call[1 .. $#call])) }
# A child that was made ends at once.
sub start { my ($name, @call) = @_; return if !is_wanted($name); my $pid = syscall($call[0], @call[1 .. $#call]); syscall(231, 0) if $pid == 0; say_result($name, $pid) }
sub opening { my ($name, $file, $flags) = @_; attempt($name, 257, -100, $file, $flags, 0) }
my $buffer = "\0" x 256;

attempt('socket unix', 41, 1, 1, 0);
attempt('socketpair', 53, 1, 1, 0, $buffer);
attempt('socket inet', 41, 2, 1, 0);
attempt('socket inet6', 41, 10, 1, 0);
attempt('socket udp', 41, 2, 2, 0);
attempt('socket netlink', 41, 16, 3, 0);
attempt('socket vsock', 41, 40, 1, 0);
attempt('socket packet', 41, 17, 3, 0);
attempt('socket alg', 41, 38, 5, 0);
attempt('connect', 42, 0, $buffer, 16);
attempt('bind', 49, 0, $buffer, 16);
attempt('sendto', 44, 0, $buffer, 1, 0, 0, 0);
attempt('sendmsg', 46, 0, $buffer, 0);
start('fork', 57);
start('vfork', 58);
start('clone a process', 56, 17, 0, 0, 0, 0);
start('clone a user namespace', 56, 0x10000011, 0, 0, 0, 0);
my $clone3 = pack('Q11', 0, 0, 0, 0, 17, (0) x 6);
start('clone3', 435, $clone3, 88);
attempt('unshare user', 272, 0x10000000);
attempt('unshare net', 272, 0x40000000);
attempt('setns', 308, -1, 0);
attempt('mount', 165, 'x', '/', 'tmpfs', 0, 0);
attempt('fsopen', 430, 'tmpfs', 0);
attempt('pivot_root', 155, '/x', '/y');
attempt('chroot', 161, '/');
attempt('sethostname', 170, 'x', 1);
attempt('ptrace', 101, 0x4206, $other, 0, 0);
attempt('process_vm_readv', 310, $other, $buffer, 0, $buffer, 0, 0);
attempt('kcmp', 312, $$, $other, 0, 0, 0);
attempt('pidfd_open', 434, $other, 0);
attempt('pidfd_getfd', 438, 0, 0, 0);
attempt('kill', 62, $other, 0);
attempt('tkill', 200, $other, 0);
attempt('tgkill', 234, $other, $other, 0);
attempt('rt_sigqueueinfo', 129, $other, 10, $buffer);
attempt('setpriority', 141, 0, $other, 19);
attempt('sched_setaffinity', 203, 0, 8, $buffer);
attempt('prlimit64 of another', 302, $other, 7, 0, $buffer);
attempt('fcntl owner', 72, 0, 8, $other);
attempt('fcntl size of a pipe', 72, 0, 1031, 1048576);
attempt('ioctl of a terminal', 16, 0, 0x5412, $buffer);
attempt('io_uring_setup', 425, 1, $buffer);
attempt('bpf', 321, 0, $buffer, 0);
attempt('perf_event_open', 298, $buffer, 0, -1, -1, 0);
attempt('keyctl', 250, 0, -3, 0);
attempt('add_key', 248, 'user', 'x', 'y', 1, -3);
attempt('userfaultfd', 323, 0);
attempt('memfd_create', 319, 'x', 0);
attempt('memfd_secret', 447, 0);
attempt('shmget', 29, 0, 4096, 0600);
attempt('msgget', 68, 0, 0600);
attempt('semget', 64, 0, 1, 0600);
attempt('mq_open', 240, 'x', 0x42, 0600, 0);
attempt('open_by_handle_at', 304, -100, $buffer, 0);
attempt('seccomp', 317, 1, 0, 0);
attempt('landlock_create_ruleset', 444, 0, 0, 1);
attempt('capset', 126, $buffer, $buffer);
attempt('setresuid', 117, 0, 0, 0);
attempt('personality', 135, 0x0040000);
attempt('prctl dumpable', 157, 4, 1, 0, 0, 0);
attempt('mkdir', 83, "$path/d", 0700);
attempt('unlink', 87, "$path/w");
attempt('rename', 82, "$path/w", "$path/v");
attempt('symlink', 88, 'x', "$path/s");
attempt('truncate', 76, "$path/w", 0);
attempt('chmod', 90, "$path/w", 0777);
attempt('utimensat', 280, -100, "$path/w", 0, 0);
attempt('open by the older call', 2, '/etc/passwd', 0, 0);
opening('open to write', "$path/w", 1);
opening('open to create', "$path/n", 0x41);
opening('open a nameless file', $path, 0x410002);
opening('open a path', '/etc/shadow', 0x200000);
attempt('mmap of shared memory', 9, 0, 4096, 3, 0x21, -1, 0);
attempt('a descriptor of the server', 5, 9, $buffer);
opening('/proc/OTHER/environ', "/proc/$other/environ", 0);
opening('/proc/OTHER/mem', "/proc/$other/mem", 0);
opening('/proc/OTHER/maps', "/proc/$other/maps", 0);
opening('/proc/self/environ', '/proc/self/environ', 0);
opening('/proc/1/environ', '/proc/1/environ', 0);
opening('/etc/passwd', '/etc/passwd', 0);
opening('a file of the server', $server_file, 0);
opening('a secret', "$path/w", 0);
# Last: what is let through is gone with it.
my $program = '/bin/true';
attempt('execve of another program', 59, $program, pack('pQ', $program, 0), 0);
`;

const [task, kind, ...words] = process.argv.slice(2) as [string, WallKind | 'auto', ...string[]];

if (task === 'probe') {
  const program: Program = { path: '/usr/bin/perl', args: ['-e', PROBE, ...words], reads: [], nicenessMore: 0 };
  const { command, args } = wallCommand(kind as WallKind, await findLandlock(), program);
  // A file that the server forgot to close, as descriptor 9.
  const forgotten = openSync('/etc/passwd', 'r');
  const { stdout, stderr, status, signal } = spawnSync(command, args, {
    env: WRAPPER_ENVIRONMENT,
    encoding: 'utf8',
    input: '\n',
    stdio: ['pipe', 'pipe', 'pipe', ...Array.from({ length: 6 }, () => 'ignore' as const), forgotten],
  });
  console.log(JSON.stringify({ stdout, stderr, status, signal }));
} else {
  const sandbox = await openTestSandbox({ wallKind: kind });
  const end = endOf(await sandbox.runCode('a', 'module.exports = () => ({ raw: 1 });'));
  console.log(JSON.stringify({ wall: sandbox.wall, end }));
  await sandbox.close();
}
