// Calls a command of the command line in this process, with its output captured. command-process.test.ts runs it as a process.
import { resolve } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { runCommand } from '../../src/cli/command-line.ts';
import type { Overrides } from '../../src/context.ts';

export type CommandResult = { code: number; stdout: string; stderr: string };

export type CallOptions = {
  /** All of its environment. */
  env?: Record<string, string>;
  /** Standard input, which is no terminal. */
  input?: string | Buffer;
  overrides?: Overrides;
  /** Its data directory is there, unless `env` names another; a command that is called has no working directory of its own. */
  cwd?: string;
};

/** Collects the output of one call: as bytes, because a chunk may end within a character. */
const capture = (): { stream: Writable; read(): string } => {
  const chunks: Buffer[] = [];
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      // A writer may use its buffer again.
      chunks.push(Buffer.from(chunk));
      done();
    },
  });
  return { stream, read: () => Buffer.concat(chunks).toString() };
};

export const callCommand = async (
  argv: string[],
  { env = {}, input = '', overrides = {}, cwd = '.' }: CallOptions = {},
): Promise<CommandResult> => {
  const stdout = capture();
  const stderr = capture();
  const code = await runCommand(argv, {
    openStdin: () => Readable.from([Buffer.from(input)]),
    stdout: stdout.stream,
    stderr: stderr.stream,
    env: { DATA_DIR: resolve(cwd, 'data'), ...env },
    overrides,
  });
  return { code, stdout: stdout.read(), stderr: stderr.read() };
};

/** @throws an Error with the result where the exit code is not 0. */
export const callToSuccess = async (argv: string[], options?: CallOptions): Promise<CommandResult> => {
  const result = await callCommand(argv, options);
  if (result.code !== 0) throw Object.assign(new Error(result.stderr), result);
  return result;
};
