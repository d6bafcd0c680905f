// Scripts that complete commands and options in a shell. They are written from the commands themselves, and ask no vault.
import type { Command } from 'commander';
import { define, type Scope } from './define.ts';
import { usageError } from './exit-codes.ts';

/** What may follow each command: by its words, joined by blanks. */
const wordsByCommand = (command: Command, path: string[] = []): [path: string, words: string[]][] => {
  const children = command.commands;
  const words = [
    ...children.map((child) => child.name()),
    ...command.options.flatMap(({ long }) => long ?? []),
    ...(path.length > 0 && children.length > 0 ? [] : ['--help']),
  ];
  return [[path.join(' '), words], ...children.flatMap((child) => wordsByCommand(child, [...path, child.name()]))];
};

/** The words that an option takes, by the words of its command and its name. */
const valuesByOption = (command: Command, path: string[] = []): [option: string, words: string[]][] => [
  ...command.options.flatMap(({ long, parseArg }): [string, string[]][] => {
    const { words } = (parseArg ?? {}) as { words?: string[] };
    return long && words ? [[[...path, long].join(' '), words]] : [];
  }),
  ...command.commands.flatMap((child) => valuesByOption(child, [...path, child.name()])),
];

const cases = (table: [string, string[]][], line: (path: string, words: string) => string): string =>
  table.map(([path, words]) => line(path, words.join(' '))).join('\n');

// A path is the longest known prefix of the typed words that are no options.
const bash = (table: [string, string[]][], values: [string, string[]][]): string => `_strongroom() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" word at
  for ((at = 1; at < COMP_CWORD; at++)); do
    word="\${COMP_WORDS[at]}"
    [[ "$word" == -* ]] && continue
    case "\${path:+$path }$word" in
      ${table
        .map(([path]) => `"${path}"`)
        .filter((path) => path !== '""')
        .join('|')}) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path \${COMP_WORDS[COMP_CWORD-1]}" in
${cases(values, (option, words) => `    "${option}") COMPREPLY=($(compgen -W "${words}" -- "$current")); return ;;`)}
  esac
  case "$path" in
${cases(table, (path, words) => `    "${path}") COMPREPLY=($(compgen -W "${words}" -- "$current")) ;;`)}
  esac
  [[ \${#COMPREPLY[@]} -eq 0 && "$current" != -* ]] && COMPREPLY=($(compgen -f -- "$current"))
}
complete -o filenames -F _strongroom strongroom
`;

const zsh = (table: [string, string[]][], values: [string, string[]][]): string => `#compdef strongroom
autoload -U +X bashcompinit && bashcompinit
${bash(table, values)}`;

const fish = (table: [string, string[]][], values: [string, string[]][]): string =>
  [
    'function __strongroom_path',
    '  set -l path',
    "  for word in (commandline -opc)[2..-1]; string match -q -- '-*' $word; or set -a path $word; end",
    '  string join " " -- $path[1..2]',
    'end',
    ...table.flatMap(([path, words]) =>
      words.map((word) => {
        const condition = `test (__strongroom_path) = '${path}'`;
        const taken = values.find(([option]) => option === `${path} ${word}`)?.[1];
        const what = word.startsWith('--')
          ? `-l ${word.slice(2)}${taken ? ` -x -a '${taken.join(' ')}'` : ''}`
          : `-f -a ${word}`;
        return `complete -c strongroom -n "${condition}" ${what}`;
      }),
    ),
    '',
  ].join('\n');

const shells = { bash, zsh, fish };

export const addCompletion = (scope: Scope, program: Command): void =>
  define(scope, program, {
    signature: 'completion <shell>',
    summary: 'prints a script that completes commands in bash, zsh or fish',
    more: 'bash: source <(strongroom completion bash). zsh: the same. fish: strongroom completion fish | source.',
    run: ({ io, args: [shell = ''] }) => {
      if (!Object.hasOwn(shells, shell)) throw usageError('The shell must be bash, zsh or fish.');
      const script = shells[shell as keyof typeof shells](wordsByCommand(program), valuesByOption(program));
      if (io.json) io.show({ shell, script });
      else io.print(script.trimEnd());
    },
  });
