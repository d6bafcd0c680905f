// Reactors: run them, try code without deploying it, deploy it, and go back to an earlier version.
import type { Command } from 'commander';
import type { CodeVersion, Reactor, ReactorFormula, Strongroom, UpdateReactorFormulaRequest } from '@strongroom/node';
import { define, defineGroup, type Scope } from '../define.ts';
import { CliError, usageError } from '../exit-codes.ts';
import { findRecord, readAll } from '../find.ts';
import { readJsonOption, readText } from '../input.ts';
import type { Columns, Io } from '../io.ts';

const SIZE = 100;

const findReactor = (vault: Strongroom, given: string): Promise<Reactor> =>
  findRecord(vault.reactors, 'reactor', given);

/** Texts with braces are expressions: the person at the terminal wrote them. */
const markExpressions = (value: unknown, mark: (text: string) => unknown): unknown => {
  if (typeof value === 'string') return value.includes('{{') ? mark(value) : value;
  if (Array.isArray(value)) return value.map((each) => markExpressions(each, mark));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, markExpressions(each, mark)]));
};

const readArgs = async (io: Io, given: string | undefined): Promise<{ args?: unknown }> => {
  if (given === undefined) return {};
  const { expression } = await import('@strongroom/node');
  return { args: markExpressions(await readJsonOption(io, given, '--args'), expression) };
};

const showResult = (io: Io, result: object): void =>
  io.json ? io.show(result) : io.print(JSON.stringify(result, null, 2));

/** The code of a reactor is its own, or that of its formula. */
const codeOf = (reactor: Reactor): { isOwn: boolean; formula: ReactorFormula } => ({
  isOwn: reactor.code !== undefined,
  formula: reactor.formula,
});

/** @throws CliError for a formula that cannot be changed, or that other reactors have too. */
const checkFormula = async (vault: Strongroom, formula: ReactorFormula, isShared: boolean): Promise<void> => {
  if (formula.type === 'official')
    throw new CliError(
      `The reactor has the official formula ${JSON.stringify(formula.name)}, whose code cannot change.`,
    );
  const all = await readAll(vault.reactors.list({ size: SIZE }));
  const others = all.filter((each) => each.code === undefined && each.formula.id === formula.id).length - 1;
  if (others > 0 && !isShared)
    throw usageError(
      `The code is that of the formula ${JSON.stringify(formula.name)}, which ${others} other ${others === 1 ? 'reactor has' : 'reactors have'} too. Give --shared to change it for all.`,
    );
};

const deployToFormula = (vault: Strongroom, formula: ReactorFormula, code: string, note?: string) =>
  vault.reactorFormulas.update(formula.id, {
    name: formula.name,
    type: 'private',
    description: formula.description,
    icon: formula.icon,
    configuration: formula.configuration,
    request_parameters: formula.request_parameters,
    code,
    note,
  } as UpdateReactorFormulaRequest);

const sayDeployed = (io: Io, reactor: Reactor, version: CodeVersion | undefined): void => {
  if (io.json) io.show({ id: reactor.id, name: reactor.name, version: version?.number });
  else io.say(`${JSON.stringify(reactor.name)} runs version ${version?.number ?? 'unknown'}.`);
};

const versionColumns: Columns<CodeVersion> = [
  ['version', ({ number }) => number],
  ['deployed', ({ created_at }) => created_at],
  ['by', ({ created_by }) => created_by],
  ['note', ({ note }) => note],
];

const listVersions = (vault: Strongroom, reactor: Reactor, size: number) =>
  codeOf(reactor).isOwn
    ? vault.reactors.listVersions(reactor.id, { size })
    : vault.reactorFormulas.listVersions(reactor.formula.id, { size });

const newestVersion = async (vault: Strongroom, reactor: Reactor): Promise<CodeVersion | undefined> =>
  (await listVersions(vault, reactor, 1)).data[0];

const ARGS = ['--args <json>', 'arguments as JSON, or @FILE, or @- for standard input; may hold expressions'] as const;
const SHARED = ['--shared', 'also where other reactors have the same formula'] as const;
const NOTE = ['--note <text>', 'why, for the list of versions'] as const;

const addRuns = (scope: Scope, group: Command): void => {
  define<{ args?: string }>(scope, group, {
    signature: 'run <reactor>',
    summary: 'runs a reactor, and prints what it returns',
    options: [ARGS],
    run: async ({ io, args: [name = ''], options, openVault }) => {
      const vault = await openVault();
      const input = await readArgs(io, options.args);
      const { id } = await findReactor(vault, name);
      showResult(io, await vault.reactors.react(id, input));
    },
  });
  define<{ args?: string; code?: string; configuration?: string }>(scope, group, {
    signature: 'test <reactor>',
    summary: 'runs code of a file as the code of a reactor, without deploying it',
    more: 'Its calls, and what it tokenizes, have their effects.',
    options: [
      ['--code <file>', 'code to run; the deployed code if not given'],
      ARGS,
      ['--configuration <json>', 'configuration to run with, or @FILE; that of the reactor if not given'],
    ],
    run: async ({ io, args: [name = ''], options: { args, code, configuration }, openVault }) => {
      const vault = await openVault();
      const draft = {
        ...(code !== undefined && { code: await readText(io, code) }),
        ...(configuration !== undefined && {
          configuration: (await readJsonOption(io, configuration, '--configuration')) as Record<string, unknown>,
        }),
        ...(await readArgs(io, args)),
      };
      const { id } = await findReactor(vault, name);
      showResult(io, await vault.reactors.test(id, draft));
    },
  });
};

export const addReactors = (scope: Scope, program: Command): void => {
  const group = defineGroup(program, 'reactor', 'reactors and the versions of their code');
  define(scope, group, {
    signature: 'list',
    summary: 'lists the reactors',
    run: async ({ io, openVault }) => {
      const reactors = await readAll((await openVault()).reactors.list({ size: SIZE }));
      io.list(reactors, [
        ['id', ({ id }) => id],
        ['name', ({ name }) => name],
        ['formula', (reactor) => (codeOf(reactor).isOwn ? '' : reactor.formula.name)],
        ['application', ({ application }) => application?.name],
      ]);
    },
  });
  addRuns(scope, group);
  define<{ note?: string; shared?: boolean }>(scope, group, {
    signature: 'deploy <reactor> <file>',
    summary: 'deploys the code of a file',
    more: 'To the formula of the reactor, where it has one; --note is for such code.',
    options: [NOTE, SHARED],
    run: async ({ io, args: [name = '', file = ''], options: { note, shared = false }, openVault }) => {
      const vault = await openVault();
      const code = await readText(io, file);
      const reactor = await findReactor(vault, name);
      const { isOwn, formula } = codeOf(reactor);
      if (isOwn && note !== undefined) throw usageError('--note is for code of a formula: this reactor has its own.');
      if (!isOwn) await checkFormula(vault, formula, shared);
      await (isOwn ? vault.reactors.patch(reactor.id, { code }) : deployToFormula(vault, formula, code, note));
      sayDeployed(io, reactor, await newestVersion(vault, reactor));
    },
  });
  define(scope, group, {
    signature: 'versions <reactor>',
    summary: 'lists the versions of the code, newest first',
    run: async ({ io, args: [name = ''], openVault }) => {
      const vault = await openVault();
      io.list(await readAll(listVersions(vault, await findReactor(vault, name), 50)), versionColumns);
    },
  });
  define<{ note?: string; shared?: boolean }>(scope, group, {
    signature: 'restore <reactor> <version>',
    summary: 'deploys the code of an earlier version again',
    options: [NOTE, SHARED],
    run: async ({ io, args: [name = '', number = ''], options: { note, shared = false }, openVault }) => {
      if (!/^[1-9]\d{0,8}$/.test(number)) throw usageError('VERSION must be a number of reactor versions, such as 3.');
      const version = Number(number);
      const vault = await openVault();
      const reactor = await findReactor(vault, name);
      const { isOwn, formula } = codeOf(reactor);
      if (!isOwn) await checkFormula(vault, formula, shared);
      await (isOwn
        ? vault.reactors.restoreVersion(reactor.id, version, { note })
        : vault.reactorFormulas.restoreVersion(formula.id, version, { note }));
      sayDeployed(io, reactor, await newestVersion(vault, reactor));
    },
  });
};
