// Asks for a secret in the terminal without showing it; reads the passphrase of a key, also from a file.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import type { CommandIo } from './command.ts';
import { UsageError } from './usage-error.ts';

/** Asks in the terminal, which does not show what is typed. @throws UsageError where nothing is given. */
export const askHidden = async ({ openStdin, stderr }: CommandIo, question: string): Promise<string> => {
  stderr.write(question);
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: openStdin(), output: silent, terminal: true });
  try {
    return await terminal.question('');
  } catch {
    throw new UsageError('Nothing was given.');
  } finally {
    terminal.close();
    stderr.write('\n');
  }
};

/** @throws UsageError for a file that cannot be read, or a process without a terminal. */
export const readPassphrase = async (io: CommandIo, file: string | undefined, keyFile: string): Promise<string> => {
  if (file !== undefined) {
    try {
      return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
    } catch (error) {
      throw new UsageError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}).`);
    }
  }
  if (!io.openStdin().isTTY)
    throw new UsageError(
      `The key in ${keyFile} has a passphrase. Name a file that has it, by --passphrase-file FILE, or run the command in a terminal.`,
    );
  return askHidden(io, `Passphrase of ${keyFile}: `);
};
