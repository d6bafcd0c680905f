// The data directory: where the cluster, its password and its log lie, and how files in it are written so that they survive a
// crash and are nobody else's to read. Knows nothing of processes or of what PostgreSQL keeps in its own files.
import { constants } from 'node:fs';
import { access, lchown, mkdir, open, readdir, rename, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { EmbeddedPostgresError, codeOf } from './report.ts';

export type Directory = { path: string; pg: string; passwordFile: string; logFile: string };

export const passwordFileName = 'strongroom.password';
const logBytesMax = 5 * 1024 * 1024;

export const directoryOf = (dataDir: string): Directory => {
  const path = resolve(dataDir);
  const pg = join(path, 'pg');
  return { path, pg, passwordFile: join(pg, passwordFileName), logFile: join(path, 'postgres.log') };
};

export const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

const isDirectory = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );

/**
 * Makes a directory and those above it. One by one: Node's recursive mkdir never ends below /proc, where a parent is there and a
 * directory in it cannot be made. @returns the topmost one that it made; undefined where the directory was there.
 */
export const makeDirectory = async (path: string): Promise<string | undefined> => {
  if (await isDirectory(path)) return undefined;
  const parent = dirname(path);
  const topmost = parent === path ? undefined : await makeDirectory(parent);
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    // Another process may have been first.
    if (codeOf(error) !== 'EEXIST' || !(await isDirectory(path))) throw error;
  }
  return topmost ?? path;
};

export const writePrivate = async (path: string, content: string): Promise<void> => {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
};

export const syncDirectory = async (path: string): Promise<void> => {
  const file = await open(path, constants.O_RDONLY);
  await file.sync().finally(() => file.close());
};

export const giveTo = async (paths: string[], owner: { uid: number; gid: number }): Promise<void> => {
  for (const path of paths) {
    await lchown(path, owner.uid, owner.gid);
    const inside = await readdir(path, { withFileTypes: true, recursive: true }).catch((error: unknown) => {
      if (codeOf(error) === 'ENOTDIR') return [];
      throw error;
    });
    for (const entry of inside) await lchown(join(entry.parentPath, entry.name), owner.uid, owner.gid);
  }
};

/** One older file is kept, so that a server that fails at every start does not fill the disk. */
export const rotateLog = async (directory: Directory): Promise<void> => {
  const size = await stat(directory.logFile).then(
    (file) => file.size,
    () => 0,
  );
  if (size > logBytesMax) await rename(directory.logFile, `${directory.logFile}.1`);
};

/** The line of the log that tells why the last server ended. */
export const lastReason = async (directory: Directory): Promise<string> => {
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

export const unreadable = (directory: Directory, error: unknown) =>
  new EmbeddedPostgresError(
    `The database in ${directory.pg} cannot be read by this user (${codeOf(error)} on ${basename(String((error as { path?: unknown }).path ?? directory.pg))}). Start as the user who owns it; see \`ls -ld ${directory.pg}\`.`,
    error,
  );
