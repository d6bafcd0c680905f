// Commands on tokens. Values come from files and standard input: arguments of a process are seen by every user of a machine.
import type { Command } from 'commander';
import type { CreateTokenRequest, Token } from '@strongroom/node';
import { collect, define, defineGroup, type Scope, wholeNumber } from '../define.ts';
import { usageError } from '../exit-codes.ts';
import { readAll } from '../find.ts';
import { parseJson, readSecret, readText } from '../input.ts';
import type { Columns, Io } from '../io.ts';

const columns: Columns<Token> = [
  ['id', ({ id }) => id],
  ['type', ({ type }) => type],
  ['data', ({ data }) => data],
  ['containers', ({ containers }) => containers?.join(' ')],
  ['created', ({ created_at }) => created_at],
];

/** @throws CliError for a text that is not NAME=VALUE. */
const readMetadata = (pairs: readonly string[] = []): Record<string, string> =>
  Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw usageError('--metadata must be NAME=VALUE.');
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );

type CreateOptions = { type?: string; container?: string[]; metadata?: string[]; id?: string };

/** Without a type the input is the whole request; with one it is the data. */
const readRequest = async (io: Io, file: string | undefined, options: CreateOptions): Promise<CreateTokenRequest> => {
  const { type, id, container, metadata } = options;
  const path = file ?? '-';
  const isAsked = path === '-' && io.stdin.isTTY === true;
  if (type === undefined && isAsked) throw usageError('Name a FILE with the token, or --type to type its value.');
  const text = isAsked ? await readSecret(io, `Value of the token (${type}): `) : await readText(io, path);
  if (text === '') throw usageError('The value of the token is empty.');
  const added = {
    ...(id !== undefined && { id }),
    ...(container && { containers: container }),
    ...(metadata && { metadata: readMetadata(metadata) }),
  };
  if (type === undefined) {
    const request = parseJson(text, 'The token');
    if (typeof request !== 'object' || request === null || Array.isArray(request))
      throw usageError('The token must be a JSON object with type and data. For a plain text give --type token.');
    return { ...request, ...added } as CreateTokenRequest;
  }
  // The line end of an editor is no part of a value.
  const plain = text.replace(/\r?\n$/, '');
  const data = /^\s*\{/.test(plain) && type !== 'token' ? parseJson(plain, 'The data') : plain;
  return { type, data, ...added } as CreateTokenRequest;
};

export const addTokens = (scope: Scope, program: Command): void => {
  const group = defineGroup(program, 'token', 'tokens');
  define<CreateOptions>(scope, group, {
    signature: 'create [file]',
    summary: 'creates a token from a file, standard input or the terminal',
    more:
      'FILE is a JSON object with type and data, as of POST /tokens. With --type it is the data alone: a text, or a JSON object\n' +
      'for a card or a bank account. Without FILE the data is read from standard input; a terminal does not show it.',
    options: [
      ['--type <type>', 'type of the token, such as token, card or bank'],
      ['--container <path>', 'container of the token; may be repeated', collect],
      ['--metadata <name=value>', 'metadata of the token; may be repeated', collect],
      ['--id <id>', 'id of the token in place of a new one'],
    ],
    run: async ({ io, args: [file], options, openVault }) => {
      const vault = await openVault();
      io.show(await vault.tokens.create(await readRequest(io, file, options)));
    },
  });
  define(scope, group, {
    signature: 'get <id>',
    summary: 'prints a token, with as much of its data as the key may see',
    run: async ({ io, args: [id = ''], openVault }) => io.show(await (await openVault()).tokens.get(id)),
  });
  define<{ limit: number }>(scope, group, {
    signature: 'search [query]',
    summary: 'lists the tokens that match, newest first; without a query, all',
    more: "QUERY is such as 'type:card AND metadata.customer:c-99' or 'last4:4242' (docs/guides/search-and-logs.md).",
    options: [['--limit <n>', 'how many tokens at most; 20 if not given', wholeNumber(1, 10_000)]],
    run: async ({ io, args: [query], options: { limit = 20 }, openVault }) => {
      const { tokens } = await openVault();
      const size = Math.min(limit, 100);
      const found = query === undefined ? tokens.list({ size }) : tokens.search({ query, size });
      io.list(await readAll(found, limit), columns);
    },
  });
  define(scope, group, {
    signature: 'delete <id...>',
    summary: 'deletes tokens by their ids',
    run: async ({ io, args, openVault }) => {
      const vault = await openVault();
      for (const id of args as string[]) {
        await vault.tokens.delete(id);
        if (io.json) io.show({ id, deleted: true });
        else io.print(`Deleted ${JSON.stringify(id)}.`);
      }
    },
  });
};
