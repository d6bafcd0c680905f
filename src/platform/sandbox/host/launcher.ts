// The launcher: a Perl program that sets its limits, applies Landlock and seccomp to itself, and then executes the executor.
// It needs no privilege, namespace or compiler; perl-base is part of every Debian and Ubuntu. It loads no Perl module.
// man 7 landlock; docs/decisions/0043-wall.md says why Perl.
import { NICENESS_MAX } from '../../base/priority.ts';
import { type Architecture, launcherCalls, makeFilter } from './system-calls.ts';

export const architecture: Architecture | undefined =
  process.arch === 'x64' || process.arch === 'arm64' ? process.arch : undefined;

/** Added to the server's niceness: under load executors get a third of its CPU time. At 10 they would miss their deadlines. */
export const NICENESS_MORE = 5;

const PR_SET_PDEATHSIG = 1;
const SIGKILL = 9;
/** Open files: Node's own, the modules that it reads, and the socket. */
export const FILES_MAX = 64;

const RLIMIT_FSIZE = 1;
const RLIMIT_CORE = 4;
const RLIMIT_NPROC = 6;
const RLIMIT_NOFILE = 7;

const numberOf = (name: keyof typeof launcherCalls): number => launcherCalls[name][architecture ?? 'x64'];
const number = Object.fromEntries(
  (Object.keys(launcherCalls) as (keyof typeof launcherCalls)[]).map((name) => [name, numberOf(name)]),
) as Record<keyof typeof launcherCalls, number>;

/**
 * Access rights of linux/landlock.h: LANDLOCK_ACCESS_FS_EXECUTE, READ_FILE and READ_DIR. All rights that the kernel's version
 * of Landlock knows are taken (1: thirteen; 2: REFER; 3: TRUNCATE; 4: TCP; 5: IOCTL_DEV; 6: signals and abstract sockets),
 * and these given back for the paths.
 */
const SCRIPT = `
my ($filter, $landlock, $processes, $nicer, @words) = @ARGV;
sub call { my ($name, $result) = @_; $result >= 0 or die "$name: $!\\n"; return $result }

# The server has the other end of the socket: the spawner's copy is closed.
sysread STDIN, my $go, 1 or die "the server has gone\\n";
open STDIN, '<', '/dev/null' or die "/dev/null: $!\\n";
# A session of its own: what a terminal sends to the server's does not reach it. In bubblewrap it has one already.
syscall(${number.setsid});
# The program ends with the process that started it. A change of the user lifts this.
call('prctl', syscall(${number.prctl}, ${PR_SET_PDEATHSIG}, ${SIGKILL}, 0, 0, 0));
# Of the server's files the socket alone stays open.
call('close_range', syscall(${number.close_range}, 4, 0xffffffff, 0));

# The kernel tells 20 less the niceness.
my $nice = 20 - call('getpriority', syscall(${number.getpriority}, 0, 0)) + $nicer;
call('setpriority', syscall(${number.setpriority}, 0, 0, $nice > ${NICENESS_MAX} ? ${NICENESS_MAX} : $nice));
my %limits = (${RLIMIT_CORE} => 0, ${RLIMIT_FSIZE} => 0, ${RLIMIT_NOFILE} => ${FILES_MAX});
$limits{${RLIMIT_NPROC}} = $processes if $processes > 0;
for my $limit (sort keys %limits) {
  my $values = "\\0" x 16;
  call('prlimit64', syscall(${number.prlimit64}, 0, $limit + 0, 0, $values));
  my (undef, $hard) = unpack 'QQ', $values;
  my $most = $hard < $limits{$limit} ? $hard : $limits{$limit};
  $values = pack 'QQ', $most, $most;
  call('prlimit64', syscall(${number.prlimit64}, 0, $limit + 0, $values, 0));
}

my @rules;
while (@words) {
  my $word = shift @words;
  last if $word eq '--';
  my $path = shift @words;
  push @rules, [$path, 4 | (-d $path ? 8 : 0) | ($word eq 'run' ? 1 : 0)];
}

call('prctl', syscall(${number.prctl}, 38, 1, 0, 0, 0));
if ($landlock > 0) {
  my $files = $landlock >= 5 ? 0xffff : $landlock >= 3 ? 0x7fff : $landlock >= 2 ? 0x3fff : 0x1fff;
  my $attributes = pack('Q', $files) . ($landlock >= 4 ? pack 'Q', 3 : '') . ($landlock >= 6 ? pack 'Q', 3 : '');
  my $ruleset = call('landlock_create_ruleset', syscall(${number.landlock_create_ruleset}, $attributes, length $attributes, 0));
  for (@rules) {
    my ($path, $rights) = @$_;
    sysopen my $file, $path, 0x200000 or die "$path: $!\\n";
    my $rule = pack 'Ql', $rights, fileno $file;
    call("landlock_add_rule $path", syscall(${number.landlock_add_rule}, $ruleset, 1, $rule, 0));
  }
  call('landlock_restrict_self', syscall(${number.landlock_restrict_self}, $ruleset, 0));
}

my $own = unpack 'H8', pack 'V', $$;
$filter =~ s/OWN_PROC/$own/g;
my $program = pack 'H*', $filter;
my $pointer = pack 'S x6 P', length($program) / 8, $program;
%ENV = ();
call('seccomp', syscall(${number.seccomp}, 1, 0, $pointer));
exec { $words[0] } @words or die "$words[0]: $!\\n";
`;

/** Prints the kernel's version of Landlock. */
const VERSION_SCRIPT = `my $version = syscall(${number.landlock_create_ruleset}, 0, 0, 1); print $version < 0 ? -$! : $version`;

export const landlockVersionCommand = ['perl', '-e', VERSION_SCRIPT];

export type Launch = {
  /** The version of Landlock to use; 0 for none. */
  landlock: number;
  /** Limit of threads and processes of its user; 0 if other processes have the same user. */
  processesMax: number;
  mayChangeUser: boolean;
  /** Added to the niceness of the server. */
  nicenessMore: number;
  /** Absolute paths that the program may read, and that it executes. */
  reads: readonly string[];
  runs: readonly string[];
  command: readonly string[];
};

/** The command line that starts a program behind Landlock and seccomp. If a step fails, it exits with a message. */
export const launcherCommand = (by: Architecture, launch: Launch): string[] => [
  'perl',
  '-e',
  SCRIPT,
  makeFilter(by, launch.mayChangeUser),
  String(launch.landlock),
  String(launch.processesMax),
  String(launch.nicenessMore),
  ...launch.runs.flatMap((path) => ['run', path]),
  ...launch.reads.flatMap((path) => ['read', path]),
  '--',
  ...launch.command,
];
