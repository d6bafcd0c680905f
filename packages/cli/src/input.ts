// Reads what a command is given: files, standard input, JSON, and secrets that a terminal does not show.
import { closeSync, openSync, readSync } from 'node:fs';
import { resolve } from 'node:path';
import { CliError, EXIT, usageError } from './exit-codes.ts';
import { type Io, cleanText } from './io.ts';

/** No request of the vault is longer: a body of more than 1 MiB is a 413. */
const INPUT_BYTES_MAX = 1024 * 1024;

const decode = (bytes: Uint8Array, place: string): string => {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new CliError(`${place} is not text in UTF-8.`, EXIT.file);
  }
};

const tooLong = (place: string): CliError =>
  new CliError(`${place} is longer than ${INPUT_BYTES_MAX} bytes, which is more than a vault takes.`, EXIT.file);

const readStdin = async ({ stdin }: Io): Promise<string> => {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk as Uint8Array);
    chunks.push(bytes);
    length += bytes.length;
    if (length > INPUT_BYTES_MAX) throw tooLong('Standard input');
  }
  return decode(Buffer.concat(chunks), 'Standard input');
};

/** At most one byte more than is taken: a device has no size, and no end. */
const readBounded = (path: string): Buffer => {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(INPUT_BYTES_MAX + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      read = readSync(file, bytes, length, bytes.length - length, null);
    return bytes.subarray(0, length);
  } finally {
    closeSync(file);
  }
};

/** @param path of a file; `-` for standard input. @throws CliError for a file that cannot be read, or is too long. */
export const readText = async (io: Io, path: string): Promise<string> => {
  if (path === '-') return readStdin(io);
  const place = `The file ${cleanText(path)}`;
  const file = resolve(io.directory, path);
  try {
    const bytes = readBounded(file);
    if (bytes.length > INPUT_BYTES_MAX) throw tooLong(place);
    return decode(bytes, place);
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw new CliError(`${place} cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown'}.`, EXIT.file);
  }
};

/** @throws CliError that names the place, and never the text. */
export const parseJson = (text: string, place: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw usageError(`${place} must be JSON.`);
  }
};

/** @param given JSON itself, `@FILE`, or `@-` for standard input. */
export const readJsonOption = async (io: Io, given: string, option: string): Promise<unknown> =>
  given.startsWith('@')
    ? parseJson(await readText(io, given.slice(1)), `What ${option} names`)
    : parseJson(given, option);

const CTRL_C = '\u0003';
const CTRL_D = '\u0004';
const ERASE = new Set(['\u007f', '\b']);

/** Asks at the terminal, without an echo. @throws CliError at Ctrl-C. */
const askHidden = ({ stdin, stderr }: Io, question: string): Promise<string> =>
  new Promise((resolve, reject) => {
    let typed = '';
    stderr.write(question);
    stdin.setRawMode?.(true);
    const end = (settle: () => void): void => {
      stdin.off('data', read);
      stdin.setRawMode?.(false);
      stdin.pause();
      stderr.write('\n');
      settle();
    };
    const read = (chunk: Buffer | string): void => {
      for (const character of String(chunk)) {
        if (character === CTRL_C) return end(() => reject(new CliError('Interrupted.', EXIT.interrupted)));
        if (character === '\r' || character === '\n' || character === CTRL_D) return end(() => resolve(typed));
        typed = ERASE.has(character) ? typed.slice(0, -1) : typed + character;
      }
    };
    stdin.on('data', read);
    stdin.resume();
  });

/** A secret, from the terminal without an echo, or the first line of standard input. */
export const readSecret = async (io: Io, question: string): Promise<string> =>
  (io.stdin.isTTY ? await askHidden(io, question) : ((await readStdin(io)).split('\n')[0] ?? '')).trim();

/** A line that is typed at the terminal, which shows it. */
export const readLine = ({ stdin, stderr }: Io, question: string): Promise<string> =>
  new Promise((resolve) => {
    let typed = '';
    stderr.write(question);
    const read = (chunk: Buffer | string): void => {
      typed += String(chunk);
      if (/[\r\n]/.test(typed)) end();
    };
    const end = (): void => {
      stdin.off('data', read);
      stdin.off('end', end);
      stdin.pause();
      resolve(typed.trim());
    };
    stdin.on('data', read);
    stdin.on('end', end);
    stdin.resume();
  });
