// Appends lines to a file, whole and on disk. The file is opened each time, so that it can be moved away (logrotate).
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

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
