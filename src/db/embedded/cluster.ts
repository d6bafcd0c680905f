// The cluster, which is PostgreSQL's word for its directory of databases: made whole or not at all, with its password inside, cleared
// of abandoned attempts, and refused when another version wrote it. Knows nothing of a running server and never draws a password itself.
import { mkdtemp, readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { superuser } from './connection.ts';
import { type Directory, giveTo, passwordFileName, syncDirectory, writePrivate } from './directory.ts';
import { isAlive, run } from './processes.ts';
import type { Binaries, Launcher } from './programs.ts';
import { EmbeddedPostgresError, type Log, codeOf, lastLine } from './report.ts';

/** The major version whose files the binaries read. */
const majorVersion = '18';

/** Makes the cluster beside its place and moves it there whole. False when another process was first. */
export const initialize = async (
  binaries: Binaries,
  directory: Directory,
  launcher: Launcher,
  password: string,
  log: Log,
): Promise<boolean> => {
  log('postgres_initializing', { directory: directory.pg });
  // The system finds a name that nobody has, not even a process of the same pid in another container.
  const draft = await mkdtemp(join(directory.path, `pg.new-${process.pid}-`));
  // initdb insists on an empty directory, so the password waits beside it and moves in last.
  const draftPassword = `${draft}.password`;
  try {
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
export const removeAbandoned = async (directory: Directory): Promise<void> => {
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

/** Throws unless the binaries can read the cluster. */
export const checkVersion = async (directory: Directory): Promise<void> => {
  const version = (await readFile(join(directory.pg, 'PG_VERSION'), 'utf8').catch(() => '')).trim();
  if (version === majorVersion) return;
  throw new EmbeddedPostgresError(
    version === ''
      ? `${directory.pg} exists but holds no PostgreSQL database. If it is a left-over, move it away: mv ${directory.pg} ${directory.pg}.old; then start again.`
      : `The database in ${directory.pg} was written by PostgreSQL ${version}, and this release brings ${majorVersion}. Dump it with the release that wrote it (pg_dump) and restore it into a new data directory.`,
  );
};
