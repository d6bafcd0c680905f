// The log of a tenant, and the runs of its code: what happened last, and what happens now.
import type { Command } from 'commander';
import type { Log, Run, Strongroom } from '@strongroom/node';
import { nearestName } from '../../../../src/platform/base/unknown-names.ts';
import { define, defineGroup, oneOf, type Scope, wholeNumber } from '../define.ts';
import { CliError, EXIT, isStrongroomError } from '../exit-codes.ts';
import { isId, readAll } from '../find.ts';
import { cleanText, type Columns, type Io } from '../io.ts';

type Filter = NonNullable<Parameters<Strongroom['logs']['list']>[0]>;

type TailOptions = {
  lines?: number;
  follow?: boolean;
  disclosure?: Filter['disclosure'];
  operation?: Filter['operation'];
  outcome?: Filter['outcome'];
  entity?: string;
  actor?: string;
};

const FOLLOW_MS = 2000;
const SIZE = 50;
/** Rows of a busy vault that one look shows at most. */
const NEW_ROWS_MAX = 1000;

const lineOf = (row: Log): string =>
  cleanText(
    [
      row.created_at,
      row.disclosure ?? '-',
      row.outcome,
      row.actor_name ?? row.actor_id ?? row.actor_type ?? 'anonymous',
      row.message,
      `${row.entity_type} ${row.entity_name ?? row.entity_id}`,
      row.destination_host && `to ${row.destination_host}`,
    ]
      .filter(Boolean)
      .join('  '),
  );

/** One row of the log may have several entries: of the tokens of a page. */
const keyOf = ({ id, entity_type, entity_id }: Log): string => `${id} ${entity_type} ${entity_id}`;

const printRows = (io: Io, rows: readonly Log[]): void => {
  for (const row of rows) io.print(io.json ? JSON.stringify(row) : lineOf(row));
};

/** Looks at the log again and again, from the time of the newest row on. It ends when `sleep` is rejected, or by Ctrl-C. */
const follow = async (io: Io, vault: Strongroom, filter: Filter, last: readonly Log[]): Promise<void> => {
  const { sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms)) } = io;
  let known = last;
  // Clocks of this machine and of the vault may differ: the vault's own time decides, once a row is known.
  const began = new Date().toISOString();
  for (;;) {
    try {
      await sleep(FOLLOW_MS);
    } catch {
      return;
    }
    const newest = known.at(-1)?.created_at;
    const seen = new Set(known.map(keyOf));
    const query = { ...filter, start_date: newest ?? began, size: SIZE };
    const rows = (await readAll(vault.logs.list(query), NEW_ROWS_MAX)).filter((row) => !seen.has(keyOf(row)));
    printRows(io, rows.toReversed());
    // Rows of the newest moment come again with the next look.
    known = [...known, ...rows.toReversed()].slice(-NEW_ROWS_MAX);
  }
};

export const addLogs = (scope: Scope, program: Command): void => {
  const group = defineGroup(program, 'logs', 'the log of the tenant');
  define<TailOptions>(scope, group, {
    signature: 'tail',
    summary: 'lists the newest entries of the log, the newest last',
    options: [
      ['-n, --lines <n>', 'how many entries; 20 if not given', wholeNumber(0, 1000)],
      ['-f, --follow', 'prints further entries as they come, until Ctrl-C'],
      ['--disclosure <kind>', 'only entries that disclosed values so', oneOf('none', 'masked', 'revealed', 'used')],
      ['--operation <operation>', 'only these', oneOf('create', 'update', 'read', 'delete', 'use')],
      ['--outcome <outcome>', 'only these', oneOf('success', 'refused', 'failed', 'replayed')],
      ['--entity <id>', 'only entries about this token or other record'],
      ['--actor <id>', 'only what this application or member did'],
    ],
    run: async ({ io, options, openVault }) => {
      const { lines = 20, disclosure, operation, outcome, entity, actor } = options;
      const vault = await openVault();
      const filter: Filter = { disclosure, operation, outcome, entity_id: entity, actor_id: actor };
      const rows = await readAll(vault.logs.list({ ...filter, size: Math.min(lines || 1, SIZE) }), Math.max(lines, 1));
      const shown = rows.toReversed();
      if (lines > 0) printRows(io, shown);
      if (rows.length === 0 && !options.follow && !io.json) io.say('Nothing was found.');
      if (options.follow) await follow(io, vault, filter, shown);
    },
  });
  addRuns(scope, program);
};

type Names = ReadonlyMap<string, string>;

/** Names of reactors and proxies, by their ids; fewer where the key may not read them. */
const readNames = async (vault: Strongroom): Promise<Names> => {
  const lists = [vault.reactors, vault.proxies].map((resource) =>
    readAll<{ id: string; name: string }>(resource.list({ size: 100 })).catch((error: unknown) => {
      if (isStrongroomError(error) && error.status === 403) return [];
      throw error;
    }),
  );
  return new Map((await Promise.all(lists)).flat().map(({ id, name }) => [id, name]));
};

/** @throws CliError for a name that no reactor and no proxy has, or that several have. */
const findResourceId = (names: Names, given: string): string => {
  if (isId(given)) return given;
  const found = [...names].filter(([, name]) => name === given).map(([id]) => id);
  if (found.length === 1) return found[0] as string;
  if (found.length > 1) throw new CliError(`Several have this name. Name one by its id: ${found.join(', ')}.`);
  const nearest = nearestName(given, names.values());
  const hint = nearest === undefined ? '' : ` Did you mean "${cleanText(nearest)}"?`;
  throw new CliError(`There is no reactor and no proxy with the name "${cleanText(given)}".${hint}`, EXIT.notFound);
};

const nameOf = (names: Names, { resource_id }: Run): string | undefined =>
  resource_id === undefined ? undefined : (names.get(resource_id) ?? resource_id);

const runColumns = (names: Names): Columns<Run> => [
  ['id', ({ id }) => id],
  ['began', ({ created_at }) => created_at],
  ['kind', ({ kind }) => kind],
  ['of', (run) => nameOf(names, run)],
  ['outcome', ({ outcome }) => outcome],
  ['status', ({ status }) => status],
  ['ms', ({ duration_ms }) => duration_ms],
  ['error', ({ error }) => error],
  ['destination', ({ destination_host }) => destination_host],
];

const OUTCOMES = ['success', 'refused', 'failed', 'crashed', 'timed_out', 'out_of_memory', 'cancelled', 'unknown'];

type RunFilter = NonNullable<Parameters<Strongroom['runs']['list']>[0]>;

const addRuns = (scope: Scope, program: Command): void => {
  const group = defineGroup(program, 'runs', 'runs of reactors, proxies and transforms');
  define<{ limit?: number; outcome?: RunFilter['outcome']; kind?: RunFilter['kind']; resource?: string }>(
    scope,
    group,
    {
      signature: 'list',
      summary: 'lists runs, newest first',
      options: [
        ['--limit <n>', 'how many runs at most; 20 if not given', wholeNumber(1, 10_000)],
        ['--outcome <outcome>', 'only these, such as failed', oneOf(...OUTCOMES)],
        ['--kind <kind>', 'only these', oneOf('reactor', 'proxy', 'transform')],
        ['--resource <name>', 'only of this reactor or proxy, by its name or id'],
      ],
      run: async ({ io, options: { limit = 20, outcome, kind, resource }, openVault }) => {
        const vault = await openVault();
        const isNamed = resource !== undefined && !isId(resource);
        const names: Names = isNamed || !io.json ? await readNames(vault) : new Map();
        const resource_id = resource === undefined ? undefined : findResourceId(names, resource);
        const query = { outcome, kind, resource_id, size: Math.min(limit, SIZE) };
        io.list(await readAll(vault.runs.list(query), limit), runColumns(names));
      },
    },
  );
  define(scope, group, {
    signature: 'show <id>',
    summary: 'prints one run: how it ended, where, and which tokens it got',
    run: async ({ io, args: [id = ''], openVault }) => {
      const vault = await openVault();
      const run = await vault.runs.get(id);
      io.show(io.json ? run : { of: nameOf(await readNames(vault), run), ...run });
    },
  });
};
