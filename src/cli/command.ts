// The types of a command: what it reads and writes in place of the process, so that several run in one process.
import type { Readable, Writable } from 'node:stream';
import { StartError } from '../platform/base/errors.ts';
import type { Overrides } from '../context.ts';

// The error for a command line that cannot work as it is written. `import` and `export` exit with 2 for it.

export class UsageError extends StartError {
  override readonly name = 'UsageError';
}

/** Rethrows a StartError of something that the command line names as a UsageError. */
export const throwUsage = (error: unknown): never => {
  throw error instanceof StartError ? new UsageError(error.message) : error;
};

/** What the process of a command, or a test, gives it. */
export type Surroundings = {
  /** Opens standard input, which few commands read. */
  readonly openStdin: () => Readable & { readonly isTTY?: boolean };
  readonly stdout: Writable;
  readonly stderr: Writable;
  readonly env: Record<string, string | undefined>;
  readonly overrides: Overrides;
};

export type CommandIo = Surroundings & {
  /** Writes a line of the result. With --json, stdout has JSON only, for scripts. */
  print(line: string): void;
  /** Writes a line about the progress, or a warning, on stderr. */
  say(line: string): void;
  /** The command goes on, and exits with 1. */
  fail(): void;
};
