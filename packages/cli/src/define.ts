// Adds a command to the program: what each has (--json, --profile), and how its action gets the vault.
import { type Command, InvalidArgumentError } from 'commander';
import type { Strongroom } from '@strongroom/node';
import { withAddress } from './exit-codes.ts';
import { createIo, type Io, type Surroundings } from './io.ts';
import { chooseProfile, type Profile } from './profiles.ts';

export type Call<Options> = {
  io: Io;
  /** The operands, in the order of the signature; undefined for one that may be left out. */
  args: readonly (string | undefined)[];
  options: Options & { profile?: string };
  /** The chosen vault. @throws CliError where none is chosen. */
  openVault(): Promise<Strongroom>;
  /** Address and key of the chosen vault. @throws CliError where none is chosen. */
  findProfile(): Profile;
};

/** What commands of a program share. */
export type Scope = { surroundings: Surroundings };

type OptionSpec = readonly [flags: string, text: string, parse?: (text: string, before: any) => unknown];

export type CommandSpec<Options> = {
  /** Such as `get <id>`. */
  signature: string;
  summary: string;
  options?: readonly OptionSpec[];
  more?: string;
  run(call: Call<Options>): Promise<void> | void;
};

export const connect = async ({ url, key }: Profile): Promise<Strongroom> => {
  // Loaded where it is needed: help and completion start faster.
  const { Strongroom } = await import('@strongroom/node');
  return new Strongroom({ apiKey: key, baseUrl: url });
};

export const define = <Options = object>(scope: Scope, parent: Command, spec: CommandSpec<Options>): void => {
  const { signature, summary, options = [], more } = spec;
  const command = parent
    .command(signature)
    .summary(summary)
    .description(`${sentence(summary)}${more ? `\n\n${more}` : ''}`);
  for (const [flags, text, parse] of options) {
    if (parse) command.option(flags, text, parse as (value: string, previous: unknown) => unknown);
    else command.option(flags, text);
  }
  command.option('--profile <name>', 'vault of this profile').option('--json', 'prints JSON, one object a line');
  command.action(async (...given: unknown[]) => {
    const own = given.at(-2) as Call<Options>['options'] & { json?: boolean };
    const io = createIo(scope.surroundings, own.json === true);
    let opened: Profile | undefined;
    const findProfile = (): Profile => (opened ??= chooseProfile(io, own.profile));
    const args = given.slice(0, -2).flat() as (string | undefined)[];
    try {
      await spec.run({ io, options: own, args, openVault: async () => connect(findProfile()), findProfile });
    } catch (error) {
      throw opened ? withAddress(error, opened.url) : error;
    }
  });
};

const sentence = (text: string): string => `${text[0]?.toUpperCase()}${text.slice(1)}.`;

/** A word that begins several commands. */
export const defineGroup = (program: Command, name: string, summary: string): Command =>
  program.command(name).summary(summary).description(sentence(summary)).helpCommand(false);

/** For an option with a whole number. */
export const wholeNumber =
  (least: number, most: number) =>
  (text: string): number => {
    const number = Number(text);
    if (!/^\d{1,9}$/.test(text) || number < least || number > most)
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
    return number;
  };

/** For an option with one of these words, which completion offers. */
export const oneOf = (...words: string[]) => {
  const parse = (text: string): string => {
    if (!words.includes(text)) throw new InvalidArgumentError(`It must be one of ${words.join(', ')}.`);
    return text;
  };
  return Object.assign(parse, { words });
};

/** For an option that may be given several times. */
export const collect = (text: string, before: string[] = []): string[] => [...before, text];
