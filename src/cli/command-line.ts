// Parses a command line, prints help and usage errors, and runs the command.
import { parseArgs } from 'node:util';
import { StartError } from '../platform/base/errors.ts';
import { ADMIN } from '../platform/base/program.ts';
import { version } from '../platform/base/version.ts';
import { type CommandIo, type Surroundings, UsageError } from './command.ts';
import {
  findCommand,
  findUnknownOption,
  groupHelp,
  helpOf,
  misuseOf,
  moreHelp,
  parseOptions,
  unknownCommand,
  usage,
  writtenPath,
} from './command-table.ts';
import { runDeveloperCommand } from './developer-commands.ts';
import { variablesHelp } from './variable-help.ts';
import { refuseLostFile } from './lasting-files.ts';

/** The words after `admin`. Without it they are names of before, which go on to work until 1.0. */
const operatorWords = (argv: string[]): string[] => (argv[0] === ADMIN ? argv.slice(1) : argv);

const printVariables = async (io: CommandIo, isWhole: boolean): Promise<void> => io.print(await variablesHelp(isWhole));

const run = async (argv: string[], io: CommandIo): Promise<void> => {
  const unknown = findUnknownOption(argv);
  if (unknown !== undefined) throw new UsageError(unknown);
  const { values, positionals } = parseArgs({ args: argv, options: parseOptions, allowPositionals: true });
  const { help, version: isVersion, ...options } = values;
  if (isVersion) return io.print(`strongroom ${version}`);
  const found = findCommand(positionals);
  if (!found) {
    const [word = ''] = positionals;
    const group = positionals.length === 1 || help ? groupHelp(word) : undefined;
    if (group !== undefined) return io.print(group);
    if (help || positionals.length === 0) {
      io.print(usage(values.all ?? false));
      return printVariables(io, values.all ?? false);
    }
    throw new StartError(unknownCommand(positionals));
  }
  const { name, operands } = found;
  if (help) {
    io.print(helpOf(name));
    return name === 'start' ? printVariables(io, values.all ?? false) : undefined;
  }
  const misuse = misuseOf(name, Object.keys(options), operands);
  if (misuse !== undefined) throw new UsageError(`${misuse} ${moreHelp(name)}`);
  const written = writtenPath(name, operands[0], values);
  if (written) refuseLostFile(written);
  // Imported here: to load what commands need takes most of a second, and help does not need it.
  const { runs } = await import('./command-runs.ts');
  await runs[name](io, values, operands[0]);
};

/** Commands of scripts, which tell refused rows from a command line that never works. The others exit with 1. */
const exitsWith2 = ['import', 'export'];

/** Runs a command, which has closed what it opened when it ends. @param argv its words and options. @returns its exit code. */
export const runCommand = async (argv: string[], surroundings: Surroundings): Promise<number> => {
  const { stdout, stderr } = surroundings;
  let exitCode = 0;
  const io: CommandIo = {
    ...surroundings,
    print: (line) => void stdout.write(`${line}\n`),
    say: (line) => void stderr.write(`${line}\n`),
    fail: () => void (exitCode = 1),
  };
  const words = operatorWords(argv);
  try {
    const developers = words === argv ? await runDeveloperCommand(argv, surroundings) : undefined;
    if (developers !== undefined) return developers;
    await run(words, io);
    return exitCode;
  } catch (error) {
    // Errors of parseArgs are about the command line only.
    const isUsage = (error as NodeJS.ErrnoException)?.code?.startsWith('ERR_PARSE_ARGS');
    const isSaid = isUsage || error instanceof StartError;
    io.say(
      isSaid ? (error as Error).message : (await import('../platform/services/open-database.ts')).failureText(error),
    );
    const isMisuse = isUsage || error instanceof UsageError;
    return isMisuse && exitsWith2.includes(words[0] ?? '') ? 2 : 1;
  }
};
