// The command line for developers: it talks to any vault with an API key. Exports what the bin and the server's own bin run.
import { Command, CommanderError } from 'commander';
import { addApplications } from './commands/applications.ts';
import { addApply } from './commands/apply.ts';
import { addForwards } from './commands/forwards.ts';
import { addJson } from './commands/json.ts';
import { addLogin } from './commands/login.ts';
import { addLogs } from './commands/logs.ts';
import { addProxies } from './commands/proxies.ts';
import { addReactors } from './commands/reactors.ts';
import { addTokens } from './commands/tokens.ts';
import { addWebhooks } from './commands/webhooks.ts';
import { addCompletion } from './completion.ts';
import type { Scope } from './define.ts';
import { describeFailure, EXIT, EXIT_TEXTS } from './exit-codes.ts';
import type { Surroundings } from './io.ts';

export type { Surroundings } from './io.ts';

const VERSION = '0.1.0';

const exitTable = (): string => EXIT_TEXTS.map(([code, text]) => `  ${String(code).padEnd(4)} ${text}`).join('\n');

const createProgram = (surroundings: Surroundings): Command => {
  const scope: Scope = { surroundings };
  const program = new Command('strongroom')
    .description(
      'The command line of a Strongroom vault. It needs the address of a vault and an API key: strongroom login.',
    )
    .version(VERSION, '-V, --version', 'prints the version')
    .helpOption('-h, --help', 'prints the help')
    .helpCommand(false)
    .exitOverride()
    // Errors become one line in runCli.
    .configureOutput({
      writeOut: (text) => surroundings.stdout.write(text),
      writeErr: (text) => surroundings.stderr.write(text),
      outputError: () => {},
    })
    .addHelpText(
      'after',
      () => `\nExit codes:\n${exitTable()}\n\nOperators' commands, which need the database: strongroom admin --help`,
    );
  addLogin(scope, program);
  addTokens(scope, program);
  addLogs(scope, program);
  addReactors(scope, program);
  addProxies(scope, program);
  addForwards(scope, program);
  addApplications(scope, program);
  addWebhooks(scope, program);
  addApply(scope, program);
  addJson(scope, program);
  addCompletion(scope, program);
  return program;
};

/** The first words of all commands. */
export const firstWords = (): string[] => createProgram({} as Surroundings).commands.map((command) => command.name());

/** Follows words as far as they name commands. @returns the last group or command, and how many words name it. */
const walk = (words: readonly string[]): { command: Command; at: number } => {
  // Nothing is run, so nothing is read and written.
  let [command, at]: [Command, number] = [createProgram({} as Surroundings), 0];
  for (; at < words.length; at += 1) {
    const child = command.commands.find((each) => each.name() === words[at]);
    if (!child) break;
    command = child;
  }
  return { command, at };
};

/** Whether these words begin a command of this program. Words of options are not looked at. */
export const hasCommand = (words: readonly string[]): boolean => {
  const { command, at } = walk(words);
  // A group alone is one as well; `logs archive` is none.
  return at > 0 && (command.commands.length === 0 || at === words.length);
};

/** What a group has in place of a command that it has not: summaries begin with a verb, so `list` finds what "lists". */
const nameCommands = ({ commands }: Command, group: string, given = ''): string => {
  const doing = commands.find((each) => each.summary().startsWith(`${given === 'ls' ? 'list' : given}s `));
  if (doing) return `${group} ${doing.name()} ${doing.summary()}.`;
  return `${group} has the commands ${commands.map((each) => each.name()).join(', ')}.`;
};

const commandLineError = ({ message, code }: CommanderError, argv: readonly string[]): string => {
  const text = message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' ');
  const sentence = `${text[0]?.toUpperCase()}${text.slice(1)}${/[.?)]$/.test(text) ? '' : '.'}`;
  if (text.endsWith('?)')) return sentence;
  const { command, at } = walk(argv);
  const named = ['strongroom', ...argv.slice(0, at)].join(' ');
  if (code === 'commander.unknownCommand') return `${sentence} ${nameCommands(command, named, argv[at])}`;
  const order = command.commands.length > 0 ? ' Options stand after the name of a command.' : '';
  return `${sentence}${order} Help: ${named} --help`;
};

/**
 * Runs one command. @param argv its words and options, without the program. @returns its exit code.
 * A failure is one line on stderr.
 */
export const runCli = async (argv: readonly string[], surroundings: Surroundings): Promise<number> => {
  try {
    await createProgram(surroundings).parseAsync([...argv], { from: 'user' });
    return EXIT.done;
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return EXIT.done;
      // The help of a group that was named alone is its own error.
      if (error.code !== 'commander.help') surroundings.stderr.write(`${commandLineError(error, argv)}\n`);
      return EXIT.usage;
    }
    const { line, exitCode } = describeFailure(error);
    surroundings.stderr.write(`${line}\n`);
    return exitCode;
  }
};
