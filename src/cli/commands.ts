// The operator's command line: parses arguments, prints help and usage errors, and runs the command.
import { parseArgs } from 'node:util';
import { StartError } from '../platform/errors.ts';
import { version } from '../platform/version.ts';
import { UsageError } from './usage-error.ts';
import { findCommand, groupHelp, helpOf, misuseOf, parseOptions, usage } from './command-table.ts';

const run = async (): Promise<void> => {
  const { values, positionals } = parseArgs({ options: parseOptions, allowPositionals: true });
  const { help, version: isVersion, ...options } = values;
  if (isVersion) return void console.log(`strongroom ${version}`);
  const found = findCommand(positionals);
  if (!found) {
    const [word = ''] = positionals;
    const group = positionals.length === 1 || help ? groupHelp(word) : undefined;
    if (group !== undefined) return void console.log(group);
    if (help || positionals.length === 0) return void console.log(usage);
    throw new StartError(`There is no command "${positionals.join(' ')}".\n\n${groupHelp(word) ?? usage}`);
  }
  const { name, operands } = found;
  if (help) return void console.log(helpOf(name));
  const misuse = misuseOf(name, Object.keys(options), operands);
  if (misuse !== undefined) throw new UsageError(`${misuse}\n\n${helpOf(name)}`);
  // Imported here: to load what commands need takes most of a second, and help does not need it.
  const { runs } = await import('./command-runs.ts');
  await runs[name](values, operands[0]);
};

/** Commands of scripts, which tell refused rows from a command line that never works. The others exit with 1. */
const exitsWith2 = ['import', 'export'];

/** Resolves when a stream has passed on what was written to it, or its reader is gone. */
const flush = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => stream.write('', () => resolve()));

/** A connection, a timer or a process that a failed command left open must not keep the command from ending. */
const end = async (): Promise<void> => {
  await Promise.all([flush(process.stdout), flush(process.stderr)]);
  process.exit();
};

const report = async (error: unknown): Promise<void> => {
  // Errors of parseArgs are about the command line only.
  const isUsage = (error as NodeJS.ErrnoException)?.code?.startsWith('ERR_PARSE_ARGS');
  const isSaid = isUsage || error instanceof StartError;
  console.error(isSaid ? (error as Error).message : (await import('../platform/failure-text.ts')).failureText(error));
  const isMisuse = isUsage || error instanceof UsageError;
  process.exitCode = isMisuse && exitsWith2.includes(process.argv[2] ?? '') ? 2 : 1;
};

// The reader of the output is gone, as after `| head`: the command ends in its own way, and says by its exit code that something was lost.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => (process.exitCode = 1));

await run().catch(report).then(end);
