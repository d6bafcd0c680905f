// Finds commands, checks their use, and writes their help.
import type { parseArgs } from 'node:util';
import { PROGRAM } from '../platform/base/program.ts';
import { nearestName } from '../platform/base/unknown-names.ts';
import {
  aliases,
  type CommandName,
  type CommandText,
  firstCommands,
  type OptionName,
  options,
  type OptionText,
  table,
} from './command-texts.ts';

export type { CommandName } from './command-texts.ts';

const texts: Record<CommandName, CommandText> = table;
const names = Object.keys(table) as CommandName[];

/** The options of all commands, for parseArgs. */
export const parseOptions = {
  ...(Object.fromEntries(
    Object.entries(options).map(([name, option]) => [name, { type: 'value' in option ? 'string' : 'boolean' }]),
  ) as { [Name in OptionName]: { type: (typeof options)[Name] extends { value: string } ? 'string' : 'boolean' } }),
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'V' },
} as const;

/** The parsed options of a command line. */
export type Values = ReturnType<typeof parseArgs<{ options: typeof parseOptions; allowPositionals: true }>>['values'];

/** Rows of two columns. */
export const aligned = (rows: readonly (readonly [string, string])[]): string => {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n');
};

const optionWords = (name: OptionName): string => {
  const option: OptionText = options[name];
  return option.value === undefined ? `--${name}` : `--${name} ${option.value}`;
};

const sentence = (summary: string): string => `${summary[0]?.toUpperCase()}${summary.slice(1)}`;

const operandOf = ({ operand, isOperandOptional }: CommandText): string | undefined =>
  isOperandOptional ? `[${operand}]` : operand;

const summaries = (of: readonly CommandName[]): string =>
  aligned(of.map((name) => [[name, operandOf(texts[name])].filter(Boolean).join(' '), texts[name].summary]));

/** Every command with its operand and description. */
export const commandTexts = (): { synopsis: string; text: string }[] =>
  names.map((name) => {
    const { summary, more } = texts[name];
    return {
      synopsis: [name, operandOf(texts[name])].filter(Boolean).join(' '),
      text: [`${sentence(summary)}.`, more].filter(Boolean).join(' '),
    };
  });

/** Each command with an operand that is a file or a directory, and whether it reads it or writes it. */
export const fileUses = Object.fromEntries(
  names
    .filter((name) => /^(?:FILE|DIRECTORY)$/.test(texts[name].operand ?? ''))
    .map((name) => [name, texts[name].file]),
);

/** The first example of every command, as it is typed after the name of the program. */
export const commandExamples = Object.fromEntries(names.map((name) => [name, texts[name].examples[0] ?? name]));

/** The help for all commands. @param isWhole whether it has every command, or those that come first. */
export const usage = (isWhole: boolean): string => `${PROGRAM} COMMAND [OPTIONS]

The operator's commands. Each takes its database and keys from the same environment as the server.

${summaries(isWhole ? names : firstCommands)}

${aligned([
  ...(isWhole ? [] : [['--help --all', `all ${names.length} commands`] as const]),
  ['COMMAND --help', 'options and examples of a command'],
  ['--version', 'the version of this release'],
])}

Developers' commands, which need an API key in place of the database: npx @strongroom/cli --help
`;

export const helpOf = (name: CommandName): string => {
  const { summary, more, required = [], optional = [], examples } = texts[name];
  const synopsis = [
    name,
    operandOf(texts[name]),
    ...required.map(optionWords),
    ...optional.map((each) => `[${optionWords(each)}]`),
  ];
  const rows = [...required, ...optional].map((each) => [optionWords(each), options[each].text] as const);
  return [
    `${PROGRAM} ${synopsis.filter(Boolean).join(' ')}\n`,
    `${sentence(summary)}.${more === undefined ? '' : ` ${more}`}\n`,
    ...(rows.length > 0 ? [`${aligned(rows)}\n`] : []),
    `Examples:\n${examples.map((example) => `  ${PROGRAM} ${example}`).join('\n')}\n`,
  ].join('\n');
};

/** The help for a group of commands, such as `tenants`; undefined for another word. */
export const groupHelp = (word: string): string | undefined => {
  const found = names.filter((name) => name.startsWith(`${word} `));
  return found.length === 0 ? undefined : `${PROGRAM} ${word} COMMAND\n\n${summaries(found)}\n`;
};

/** The command that begins the words, and the remaining words. */
export const findCommand = (words: readonly string[]): { name: CommandName; operands: string[] } | undefined => {
  for (const length of [2, 1]) {
    const wanted = words.slice(0, length).join(' ');
    const name =
      names.find((each) => each === wanted) ?? (Object.hasOwn(aliases, wanted) ? aliases[wanted] : undefined);
    if (name !== undefined && words.length >= length) return { name, operands: words.slice(length) };
  }
  return undefined;
};

const suggestion = (given: string, known: Iterable<string>, prefix = ''): string => {
  const nearest = nearestName(given, known);
  return nearest === undefined ? '' : ` Did you mean ${prefix}${nearest}?`;
};

/** Sentence that leads to the help, after an error: the help itself would push the error out of the terminal. */
export const moreHelp = (...words: string[]): string =>
  `Options and examples: ${[PROGRAM, ...words, '--help'].join(' ')}`;

/** The error for words that begin no command, with the nearest command. */
export const unknownCommand = (words: readonly string[]): string => {
  const [group = ''] = words;
  const given = words.slice(0, 2).join(' ');
  const nearest = nearestName(given, names) ?? nearestName(group, names);
  const known = groupHelp(group) === undefined ? [] : [group];
  return `There is no command "${words.join(' ')}".${nearest === undefined ? '' : ` Did you mean "${nearest}"?`} Commands: ${[PROGRAM, ...known, '--help'].join(' ')}`;
};

/** The path that a command will write; undefined for one that writes no file. */
export const writtenPath = (
  name: CommandName,
  operand: string | undefined,
  { result }: Pick<Values, 'result'>,
): string | undefined => {
  if (name === 'setup') return '.';
  if (name === 'import') return result ?? (operand && `${operand}.result`);
  return texts[name].file === 'written' ? operand : undefined;
};

/** The error for the first option that no command has, with the nearest option of the command; undefined where there is none. */
export const findUnknownOption = (argv: readonly string[]): string | undefined => {
  const end = argv.indexOf('--');
  const given = argv.slice(0, end < 0 ? undefined : end);
  const known = Object.keys(parseOptions);
  const unknown = given.flatMap((word) => /^--([^=]+)/.exec(word)?.[1] ?? []).find((name) => !known.includes(name));
  if (unknown === undefined) return undefined;
  const name = findCommand(given.filter((word) => !word.startsWith('-')))?.name;
  const { required = [], optional = [] } = name === undefined ? {} : texts[name];
  const candidates = name === undefined ? known : [...required, ...optional, 'help'];
  return `There is no option --${unknown}.${suggestion(unknown, candidates, '--')} ${moreHelp(...(name === undefined ? [] : [name]))}`;
};

/** Which of the options a command does not have. */
export const unknownOptions = (name: CommandName, used: readonly string[]): string[] => {
  const { required = [], optional = [] } = texts[name];
  const known: readonly string[] = [...required, ...optional, 'help'];
  return used.filter((each) => !known.includes(each));
};

/** The error in the use of a command; undefined for valid use. */
export const misuseOf = (
  name: CommandName,
  used: readonly string[],
  operands: readonly string[],
): string | undefined => {
  const { operand, isOperandOptional, required = [], optional = [] } = texts[name];
  const known: readonly string[] = [...required, ...optional];
  const unknown = used.find((each) => !known.includes(each));
  if (unknown !== undefined) return `${name} has no option --${unknown}.${suggestion(unknown, known, '--')}`;
  const missing = required.find((each) => !used.includes(each));
  if (missing !== undefined) return `The option --${missing} is needed.`;
  if (operand !== undefined && !isOperandOptional && operands.length === 0) return `${name} needs ${operand}.`;
  const surplus = operands[operand === undefined ? 0 : 1];
  return surplus === undefined ? undefined : `${name} takes no "${surplus}".`;
};
