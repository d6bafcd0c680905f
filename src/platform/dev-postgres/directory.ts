// Paths of the data directory, owners of its files, and the log of its PostgreSQL.
import { lchown, open, readdir, rename, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { StartError } from '../base/errors.ts';

export type Directory = { path: string; pg: string; passwordFile: string; logFile: string };
export type Owner = { uid: number; gid: number };
export type Log = (event: string, detail?: Record<string, unknown>) => void;

export const PASSWORD_FILE = 'strongroom.password';
const LOG_BYTES_MAX = 5 * 1024 * 1024;

export const directoryOf = (dataDir: string): Directory => {
  const path = resolve(dataDir);
  const pg = join(path, 'pg');
  return { path, pg, passwordFile: join(pg, PASSWORD_FILE), logFile: join(path, 'postgres.log') };
};

/** The code of an error of the system or of PostgreSQL, for messages too. */
export const codeOf = (error: unknown): string =>
  typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'unknown error';

/** Changes the owner of files, and of directories with everything in them. */
export const changeOwner = async (paths: string[], owner: Owner): Promise<void> => {
  for (const path of paths) {
    await lchown(path, owner.uid, owner.gid);
    const inside = await readdir(path, { withFileTypes: true, recursive: true }).catch((error: unknown) => {
      if (codeOf(error) === 'ENOTDIR') return [];
      throw error;
    });
    for (const entry of inside) await lchown(join(entry.parentPath, entry.name), owner.uid, owner.gid);
  }
};

/** Keeps one older log file, so that a server that fails at every start does not fill the disk. */
export const rotateLog = async (directory: Directory): Promise<void> => {
  const size = await stat(directory.logFile).then(
    (file) => file.size,
    () => 0,
  );
  if (size > LOG_BYTES_MAX) await rename(directory.logFile, `${directory.logFile}.1`);
};

/** The line of the log that says why the last server ended. */
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
  new StartError(
    `The database in ${directory.pg} cannot be read by this user (${codeOf(error)} on ${basename(String((error as { path?: unknown }).path ?? directory.pg))}). Start as the user who owns it; see \`ls -ld ${directory.pg}\`.`,
    { cause: error },
  );
