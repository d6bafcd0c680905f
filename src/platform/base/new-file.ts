// Writes a file that must not exist yet: under another name until it is whole and on disk.
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StartError } from './errors.ts';
import { exists, syncDirectory } from './files.ts';

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
