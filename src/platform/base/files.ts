// Creates directories and private files that survive a crash.
import { constants } from 'node:fs';
import { access, mkdir, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

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
