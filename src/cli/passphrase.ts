// Reads the passphrase of a key: from a file, or from the terminal without showing it.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { UsageError } from './usage-error.ts';

/** @throws UsageError for a file that cannot be read, or a process without a terminal. */
export const readPassphrase = async (file: string | undefined, keyFile: string): Promise<string> => {
  if (file !== undefined) {
    try {
      return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
    } catch (error) {
      throw new UsageError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}).`);
    }
  }
  if (!process.stdin.isTTY)
    throw new UsageError(
      `The key in ${keyFile} has a passphrase. Name a file that has it, by --passphrase-file FILE, or run the command in a terminal.`,
    );
  process.stderr.write(`Passphrase of ${keyFile}: `);
  // The terminal must not echo what is typed.
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: process.stdin, output: silent, terminal: true });
  try {
    return await terminal.question('');
  } catch {
    throw new UsageError('No passphrase was given.');
  } finally {
    terminal.close();
    process.stderr.write('\n');
  }
};
