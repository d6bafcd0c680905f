// Reads a field of JSON, and writes a text as JSON: for scripts with curl, on any machine. No vault is asked.
import type { Command } from 'commander';
import { define, defineGroup, type Scope } from '../define.ts';
import { CliError, EXIT, usageError } from '../exit-codes.ts';
import { readText } from '../input.ts';
import { cleanText } from '../io.ts';

/** Names that a message lists. */
const NAMES_SHOWN = 10;

/** A number that JavaScript cannot hold keeps its digits. TypeScript does not know these parts of JSON yet. */
const keepDigits = (_key: string, value: unknown, context?: { source?: string }): unknown =>
  typeof value === 'number' && context?.source !== undefined && String(value) !== context.source
    ? (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(context.source)
    : value;

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text, keepDigits) as unknown;
  } catch {
    const found = text.trim() === '' ? 'There is no input' : 'The input is not JSON';
    throw new CliError(`${found}. See what the command before it printed.`, EXIT.file);
  }
};

const isHolder = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** The longest beginning of a path that is a name of the value: names may have dots. */
const findName = (value: Record<string, unknown>, path: string): string | undefined => {
  const parts = path.split('.');
  return parts.map((_, at) => parts.slice(0, parts.length - at).join('.')).find((name) => Object.hasOwn(value, name));
};

/** @throws CliError that lists the names that are there, and no value. */
const findMissing = (value: unknown, path: string, whole: string): never => {
  const names = isHolder(value) ? Object.keys(value) : [];
  const shown = names.slice(0, NAMES_SHOWN).map((name) => cleanText(name));
  const known = names.length === 0 ? '' : ` There are ${shown.join(', ')}${names.length > NAMES_SHOWN ? ', ...' : ''}.`;
  const inPath = path === whole ? '' : ` of ${cleanText(whole)}`;
  throw new CliError(`The JSON has no ${cleanText(path)}${inPath}.${known}`, EXIT.notFound);
};

/** @param whole the path from the top, for the error. */
const find = (value: unknown, path: string, whole = path): unknown => {
  const name = isHolder(value) ? findName(value, path) : undefined;
  if (name === undefined) return findMissing(value, path, whole);
  const found = (value as Record<string, unknown>)[name];
  return name === path ? found : find(found, path.slice(name.length + 1), whole);
};

const lastName = (path: string): string => path.slice(path.lastIndexOf('.') + 1);

export const addJson = (scope: Scope, program: Command): void => {
  const group = defineGroup(program, 'json', 'reads and writes JSON in scripts, without a vault');
  define<{ file?: string; default?: string }>(scope, group, {
    signature: 'get <path>',
    summary: 'prints one field of JSON: a text as it is, another value as JSON',
    more: 'A path has names and positions, such as card.id or data.0.id; data.length counts. The JSON comes from standard input.',
    options: [
      ['--file <file>', 'reads this file in place of standard input'],
      ['--default <text>', 'prints this where there is no such field, in place of an error'],
    ],
    run: async ({ io, args: [path = ''], options }) => {
      const value = parse(await readText(io, options.file ?? '-'));
      try {
        const found = find(value, path);
        io.print(typeof found === 'string' && !io.json ? found : JSON.stringify(found));
      } catch (error) {
        if (options.default === undefined) throw error;
        io.print(options.default);
      }
    },
  });
  define<{ file?: string }>(scope, group, {
    signature: 'pick <paths...>',
    summary: 'prints a JSON object with some fields of JSON, each under its last name',
    options: [['--file <file>', 'reads this file in place of standard input']],
    run: async ({ io, args: paths, options }) => {
      const value = parse(await readText(io, options.file ?? '-'));
      const fields = paths.map((path = '') => [lastName(path), find(value, path)] as const);
      const twice = fields.find(([name], at) => fields.findIndex(([other]) => other === name) !== at)?.[0];
      if (twice !== undefined)
        throw usageError(`Two fields have the name ${cleanText(twice)}: take one of them, or get each alone.`);
      io.print(JSON.stringify(Object.fromEntries(fields)));
    },
  });
  define(scope, group, {
    signature: 'quote <file>',
    summary: 'prints the text of a file as a string of JSON with its quotes, such as code for a request',
    more: 'The file - is standard input.',
    run: async ({ io, args: [file = '-'] }) => io.print(JSON.stringify(await readText(io, file))),
  });
};
