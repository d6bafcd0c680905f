// Creates directories and private files that survive a crash.
import { constants, createWriteStream } from 'node:fs';
import { access, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StartError } from './errors.ts';

// Writes a file that must not exist yet: under another name until it is whole and on disk.

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota of the disk is used up',
  EFBIG: 'the file is larger than the limit of this process (ulimit -f)',
  EACCES: 'this user may not write there',
  EROFS: 'the disk is read-only',
  ENOENT: 'the directory does not exist',
};

const isSystemError = (error: unknown): error is NodeJS.ErrnoException =>
  typeof (error as NodeJS.ErrnoException)?.syscall === 'string';

const partialOf = (path: string): string => `${path}.partial`;

const isWrittenElsewhere = (path: string): StartError =>
  new StartError(
    `${partialOf(path)} exists: another process writes it, or one was killed while it did. If none runs, remove it and try again: rm ${partialOf(path)}`,
  );

/** @throws StartError if FILE or FILE.partial exists. */
export const checkNewFile = async (path: string): Promise<void> => {
  if (await exists(path)) throw new StartError(`${path} exists, and is not overwritten. Choose another name.`);
  if (await exists(partialOf(path))) throw isWrittenElsewhere(path);
};

/**
 * Writes FILE.partial, readable by its owner only, and renames it once it is on disk.
 * @throws StartError if FILE or FILE.partial exists, or the system refuses a write: FILE.partial is removed then. What the content
 * throws.
 */
export const writeNewFile = async (path: string, content: Readable): Promise<void> => {
  await checkNewFile(path);
  const partial = partialOf(path);
  try {
    await pipeline(content, createWriteStream(partial, { flags: 'wx', mode: 0o600, flush: true }));
    await rename(partial, path);
    await syncDirectory(dirname(path));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw isWrittenElsewhere(path);
    await rm(partial, { force: true });
    if (!isSystemError(error)) throw error;
    throw new StartError(
      `${partial} cannot be written: ${REASONS[error.code ?? ''] ?? 'the system refused it'} (${error.code}). There is no ${path}.`,
      { cause: error },
    );
  }
};

// Appends lines to a file, whole and on disk. The file is opened each time, so that it can be moved away (logrotate).

/** The group may read it: a log shipper runs as another user. */
const MODE = 0o640;
const NEWLINE = 0x0a;

/** Whether a process that was killed left a line without its end. */
const endsInLine = async (file: Awaited<ReturnType<typeof open>>, size: number): Promise<boolean> => {
  if (size === 0) return false;
  const last = Buffer.alloc(1);
  await file.read(last, 0, 1, size - 1);
  return last[0] !== NEWLINE;
};

/** @throws the error of the system. Nothing is appended then. */
export const appendLines = async (path: string, lines: readonly string[]): Promise<void> => {
  // O_NONBLOCK: a pipe without a reader fails at once, instead of holding a thread.
  const { O_APPEND, O_CREAT, O_NONBLOCK, O_RDWR } = constants;
  const file = await open(path, O_APPEND | O_CREAT | O_NONBLOCK | O_RDWR, MODE);
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw Object.assign(new Error('no regular file'), { code: 'ENOTREG' });
    const text = `${(await endsInLine(file, stats.size)) ? '\n' : ''}${lines.join('\n')}\n`;
    try {
      await file.writeFile(text);
      await file.datasync();
    } catch (error) {
      await file.truncate(stats.size).catch(() => undefined);
      throw error;
    }
  } finally {
    await file.close();
  }
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
 * Creates a directory and its missing parents, for their owner only. One by one: Node's recursive mkdir never returns for a path
 * below /proc, where a parent exists and nothing can be created in it.
 * @returns the topmost directory that it created; undefined if the directory existed.
 */
export const makeDirectory = async (path: string): Promise<string | undefined> => {
  if (await isDirectory(path)) return undefined;
  const parent = dirname(path);
  const topmost = parent === path ? undefined : await makeDirectory(parent);
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    // Another process may have been first.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !(await isDirectory(path))) throw error;
  }
  return topmost ?? path;
};

/** Creates a file that only its owner can read, and waits until it is on disk. Fails if the file exists. */
export const writePrivate = async (path: string, content: string): Promise<void> => {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
};

/** Waits until the names in a directory are on disk: a new file or a rename survives a crash only then. */
export const syncDirectory = async (path: string): Promise<void> => {
  const file = await open(path, constants.O_RDONLY);
  await file.sync().finally(() => file.close());
};
