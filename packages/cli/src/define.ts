// Adds a command to the program: what each has (--json, --profile), and how its action gets the vault.
import { type Command, InvalidArgumentError } from 'commander';
import type { Strongroom } from '@strongroom/node';
import { createIo, type Io, type Surroundings } from './io.ts';
import { chooseProfile, type Profile } from './profiles.ts';

export type Call<Options> = {
  io: Io;
  /** The operands, in the order of the signature; undefined for one that may be left out. */
  args: readonly (string | undefined)[];
  options: Options & { profile?: string };
  /** The chosen vault. @throws CliError where none is chosen. */
  openVault(): Promise<Strongroom>;
  /** The address of the chosen vault. */
  findUrl(): string;
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
    await spec.run({
      io,
      options: own,
      args: given.slice(0, -2).flat() as (string | undefined)[],
      openVault: async () => connect(chooseProfile(io, own.profile)),
      findUrl: () => chooseProfile(io, own.profile).url,
    });
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

/** For an option with one of these words. */
export const oneOf =
  (...words: string[]) =>
  (text: string): string => {
    if (!words.includes(text)) throw new InvalidArgumentError(`It must be one of ${words.join(', ')}.`);
    return text;
  };

/** For an option that may be given several times. */
export const collect = (text: string, before: string[] = []): string[] => [...before, text];
