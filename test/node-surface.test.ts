// What code may use is what docs/reactors-rules.md lists, name by name.
import { readFileSync } from 'node:fs';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openTestSandbox, type TestSandbox } from './support/sandbox.ts';

const page = readFileSync(new URL('../docs/reactors-rules.md', import.meta.url), 'utf8');

const partBetween = (begin: string, end: string): string => {
  const from = page.indexOf(begin);
  return page.slice(from, page.indexOf(end, from));
};

const codeIn = (text: string): string[] => [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);

/** The rows of a table, without its head, as cells. */
const rowsOf = (text: string): string[][] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(1)
    .map((line) => line.split('|').slice(1, -1));

const listedGlobals = (): string[] =>
  rowsOf(partBetween('**Globals**', '**Modules of Node**')).flatMap(([, names = '']) => codeIn(names));

const listedModules = (): Record<string, string[]> =>
  Object.fromEntries(
    rowsOf(partBetween('**Modules of Node**', 'They behave as')).flatMap(([modules = '', names = '']) =>
      codeIn(modules).map((module) => [module, codeIn(names).join(' ').split(' ').toSorted()]),
    ),
  );

/** Small limits end no test of names. */
const LIMITS = { wallMs: 30_000, cpuMs: 20_000, memoryMb: 128, outputBytesMax: 5 * 1024 * 1024 };

let sandbox: TestSandbox;

beforeAll(async () => {
  sandbox = await openTestSandbox({ limits: LIMITS });
});

afterAll(() => sandbox.close());

const run = async (body: string, args: unknown = {}): Promise<unknown> => {
  const code = `module.exports = ({ args }) => { ${body} };`;
  const outcome = await sandbox.runCode('00000000-0000-4000-8000-000000000001', code, { args });
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.fault));
  return (outcome.value as { raw: unknown }).raw;
};

test('the globals of code are those of the language and those that the page lists', async () => {
  const listed = listedGlobals();
  const ofLanguage = runInNewContext('Object.getOwnPropertyNames(globalThis)') as string[];
  const others = await run(
    'return { raw: Object.getOwnPropertyNames(globalThis).filter((name) => !args.includes(name)) };',
    [...listed, ...ofLanguage],
  );
  expect(others).toEqual([]);
  const missing = await run('return { raw: args.filter((name) => globalThis[name] === undefined) };', listed);
  expect(missing).toEqual([]);
});

test('the page lists all modules of Node that code may require', async () => {
  const source = readFileSync(new URL('../src/platform/sandbox/node-surface/require.cjs', import.meta.url), 'utf8');
  const table = source.slice(source.indexOf('const modules'), source.indexOf('};'));
  const names = [...table.matchAll(/^ {2}'?([a-z_/]+)'?: \(\)/gm)].map(([, name = '']) => name);
  expect(Object.keys(listedModules()).toSorted()).toEqual(names.toSorted());
});

test.each(Object.entries(listedModules()))('module %s has the names that the page lists', async (module, names) => {
  const found = await run(
    "return { raw: Object.keys(require(args)).filter((name) => !name.startsWith('_')).sort() };",
    module,
  );
  expect(found).toEqual(names);
  expect(await run('return { raw: require(`node:${args}`) === require(args) };', module)).toBe(true);
});
