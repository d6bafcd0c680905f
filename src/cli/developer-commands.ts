// Finds the commands of developers, which are a package of their own, where it is installed beside the server.
import { findCommand } from './command-table.ts';
import type { Surroundings } from './command.ts';

/** Not a dependency: an image and an installed server do without it. */
const PACKAGE: string = '@strongroom/cli';

/** The first words of its commands: where another word is given, nothing is loaded. */
export const DEVELOPER_WORDS: readonly string[] = [
  'api-keys',
  'applications',
  'apply',
  'completion',
  'config',
  'forwards',
  'json',
  'login',
  'logout',
  'logs',
  'profile',
  'proxy',
  'reactor',
  'runs',
  'token',
  'webhooks',
];

type DeveloperCli = {
  hasCommand(words: readonly string[]): boolean;
  runCli(argv: readonly string[], surroundings: object): Promise<number>;
};

const load = async (): Promise<DeveloperCli | undefined> => {
  try {
    return (await import(PACKAGE)) as DeveloperCli;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return undefined;
    throw error;
  }
};

/** @returns the exit code; undefined where the words are none of a developer's command. The operator's names come first. */
export const runDeveloperCommand = async (
  argv: readonly string[],
  { openStdin, stdout, stderr, env }: Surroundings,
): Promise<number | undefined> => {
  const words = argv.filter((word) => !word.startsWith('-'));
  if (!DEVELOPER_WORDS.includes(words[0] ?? '') || findCommand(words) !== undefined) return undefined;
  const cli = await load();
  if (!cli?.hasCommand(words)) return undefined;
  return cli.runCli(argv, { stdin: openStdin(), stdout, stderr, env, directory: process.cwd() });
};
