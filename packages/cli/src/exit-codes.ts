// The exit codes of the command line, and the one line that a failure becomes.
import type { StrongroomError } from '@strongroom/node';
import { cleanText } from './io.ts';

export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  file: 3,
  refused: 4,
  notFound: 5,
  drift: 6,
  unreachable: 7,
  interrupted: 130,
} as const;

/** The table of the documents and of `strongroom --help`. */
export const EXIT_TEXTS: readonly (readonly [number, string])[] = [
  [EXIT.done, 'done; also a plan, whatever is in it'],
  [EXIT.failed, 'the vault refused the request, or something else failed'],
  [EXIT.usage, 'the command line is wrong: nothing was sent'],
  [EXIT.file, 'a file is wrong: the vault was not changed'],
  [EXIT.refused, 'the key is missing or not valid, or a permission is missing'],
  [EXIT.notFound, 'what was named is not there'],
  [EXIT.drift, 'the vault is not as the plan found it: nothing was changed'],
  [EXIT.unreachable, 'the vault did not answer'],
  [EXIT.interrupted, 'interrupted by Ctrl-C'],
];

/** A failure with a sentence for the person at the terminal. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}

export const usageError = (message: string): CliError => new CliError(message, EXIT.usage);

export const isStrongroomError = (error: unknown): error is StrongroomError =>
  error instanceof Error && error.name === 'StrongroomError';

const exitCodeOf = ({ status, code, operation }: StrongroomError): number => {
  if (status === 401 || status === 403) return EXIT.refused;
  if (status === 404) return EXIT.notFound;
  // The vault answers for a destination of its proxy that did not.
  const isOfDestination = operation.endsWith(' /proxy') && status !== 503;
  const isAway = status === undefined ? code !== 'invalid_input' : [502, 503, 504].includes(status) && !isOfDestination;
  return isAway || code === 'unexpected_answer' ? EXIT.unreachable : EXIT.failed;
};

/** Names the address of a vault that did not answer: a profile or a variable may have another one than a person thinks. */
export const withAddress = (error: unknown, url: string): unknown =>
  isStrongroomError(error) && error.status === undefined && error.code !== 'invalid_input'
    ? new CliError(`${error.message} (${url})`, exitCodeOf(error))
    : error;

/** @returns one line, without control characters, and the exit code. */
export const describeFailure = (error: unknown): { line: string; exitCode: number } => {
  if (error instanceof CliError) return { line: cleanText(error.message, '\n'), exitCode: error.exitCode };
  if (isStrongroomError(error)) return { line: cleanText(error.message), exitCode: exitCodeOf(error) };
  // A TypeError of the client is about an argument, and never has its value.
  if (error instanceof TypeError) return { line: cleanText(error.message), exitCode: EXIT.usage };
  return { line: cleanText(error instanceof Error ? error.message : String(error)), exitCode: EXIT.failed };
};
