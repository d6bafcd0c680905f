// Creates the database cluster of a data directory, completely or not at all, and checks the version that wrote it.
import { mkdtemp, readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { StartError } from '../base/errors.ts';
import { syncDirectory, writePrivate } from '../base/files.ts';
import { superuser } from './connection.ts';
import { type Directory, type Log, PASSWORD_FILE, changeOwner, codeOf } from './directory.ts';
import { type Binaries, type Launcher, lastLine, run } from './programs.ts';
import { isAlive } from './server.ts';

/** The major version whose files the binaries read. */
const MAJOR_VERSION = '18';

/** Creates the cluster beside its place and renames it. @returns false if another process was first. */
export const createCluster = async (
  binaries: Binaries,
  directory: Directory,
  launcher: Launcher,
  { password, log, isDurable }: { password: string; log: Log; isDurable: boolean },
): Promise<boolean> => {
  log('postgres_initializing', { directory: directory.pg });
  // The system picks an unused name: processes in different containers can have the same pid.
  const draft = await mkdtemp(join(directory.path, `pg.new-${process.pid}-`));
  // initdb insists on an empty directory, so the password is written beside it and moved in last.
  const draftPassword = `${draft}.password`;
  try {
    await writePrivate(draftPassword, password);
    if (launcher.owner) await changeOwner([draft, draftPassword], launcher.owner);
    const settings = '--locale=C --encoding=UTF8 --data-checksums --no-instructions';
    const authentication = '--auth-host=scram-sha-256 --auth-local=scram-sha-256';
    const result = await run([
      ...launcher.command,
      binaries.initdb,
      `--pgdata=${draft}`,
      `--pwfile=${draftPassword}`,
      `--username=${superuser}`,
      ...(isDurable ? [] : ['--no-sync']),
      ...`${settings} ${authentication}`.split(' '),
    ]);
    if (result.code !== 0) {
      throw new StartError(
        `The database could not be created in ${directory.path}: ${lastLine(result.output)}. Often the disk is full or read-only; see \`df -h ${directory.path}\`, then start again.`,
      );
    }
    await rename(draftPassword, join(draft, PASSWORD_FILE));
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

/** Removes unfinished clusters of first starts that were killed, and leaves those of living processes. */
export const removeAbandoned = async (directory: Directory): Promise<void> => {
  for (const name of await readdir(directory.path)) {
    const pid = Number(/^pg\.new-(\d+)-/.exec(name)?.[1]);
    if (!pid) continue;
    const path = join(directory.path, name);
    const createdAtMs = await stat(path).then(
      ({ birthtimeMs }) => birthtimeMs,
      () => undefined,
    );
    // In a container every start may have the same pid: a directory older than this process is not its own.
    const isOurs = pid === process.pid && (createdAtMs ?? Infinity) > Date.now() - process.uptime() * 1_000;
    if (!isOurs && (pid === process.pid || !(await isAlive(pid)))) await rm(path, { recursive: true, force: true });
  }
};

/** @throws StartError if the binaries cannot read the cluster. */
export const checkVersion = async (directory: Directory): Promise<void> => {
  const version = (await readFile(join(directory.pg, 'PG_VERSION'), 'utf8').catch(() => '')).trim();
  if (version === MAJOR_VERSION) return;
  throw new StartError(
    version === ''
      ? `${directory.pg} exists but holds no PostgreSQL database. If you do not need it, move it away: mv ${directory.pg} ${directory.pg}.old; then start again.`
      : `The database in ${directory.pg} was written by PostgreSQL ${version}, and this release brings ${MAJOR_VERSION}. Dump it with the release that wrote it (pg_dump) and restore it into a new data directory.`,
  );
};
