// Names and comments can be read alone: short, with a subject, without ids of reviews or plans. Files close what they open.
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Longer names are cut off in the reports of most tools. */
const NAME_LENGTH_MAX = 90;

/** The comments of these folders are sentences or noun phrases that name their subject. */
const FOLDERS_WITH_SUBJECTS = [
  'src',
  'src/platform/**',
  'src/modules/**',
  'src/cli/**',
  'packages/**',
  'bench/**',
  'drills/**',
];

const textOf = (file: string): string => readFileSync(join(root, file), 'utf8');

const isOurs = (path: string): boolean => !/(^|\/)(node_modules|generated|dist)(\/|$)/.test(path);

const tests = globSync(['src/**/*.test.ts', 'test/**/*.test.ts'], { cwd: root, exclude: (path) => !isOurs(path) });

/** The name of a test, or the pattern of its names, as the first argument of `test(`, or of a call of what `test.each` returns. */
const namesIn = (text: string): string[] => {
  const call =
    /(?:\b(?:test|it)(?:\.(?!each\b)\w+)*\(|^\s*\]?\)(?:<.*>)?\()\s*(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`)/gm;
  return [...text.matchAll(call)].map(([, single, double, template]) => single ?? double ?? template ?? '');
};

test('names of tests have at most 90 characters', () => {
  const names = tests.flatMap((file) => namesIn(textOf(file)).map((name) => ({ file, name })));
  expect(names.length).toBeGreaterThan(1_000);
  expect(names.filter(({ name }) => name.length > NAME_LENGTH_MAX)).toEqual([]);
});

test('tests name no id of a finding, a plan or an issue', () => {
  const found = tests.flatMap((file) =>
    [...textOf(file).matchAll(/\((?:[A-Z]{1,3}\d+)(?:,|\)).*/g)].map(([id]) => [file, id]),
  );
  expect(found).toEqual([]);
});

/** Words of stories. Tests mean a fixture, a result, an anonymous client, an action and no user. */
const STORY_NAMES = ['house', 'told', 'stranger', 'deed', 'nobody'];

test('tests, benches and drills give plain names to what they hold', () => {
  const files = globSync(['{src,test,bench,drills}/**/*.ts'], { cwd: root, exclude: (path) => !isOurs(path) });
  const named = new RegExp(`\\b(?:const|let) (?:${STORY_NAMES.join('|')})\\b.*`, 'g');
  expect(files.length).toBeGreaterThan(500);
  expect(files.flatMap((file) => [...textOf(file).matchAll(named)].map(([line]) => [file, line]))).toEqual([]);
});

test('a file that opens a destination of a shared server closes it', () => {
  const opens = tests.filter((file) => /\buse(?:EgressServer|ProxyFixture|ReactorServer)\(\w*\)/.test(textOf(file)));
  expect(opens.length).toBeGreaterThan(10);
  // One that stays open keeps the port, and all later files of the worker fail.
  expect(opens.filter((file) => !/\bafterAll\(/.test(textOf(file)))).toEqual([]);
});

test('tests that a few digits are absent search a text without drawn ids', () => {
  // About one UUID in 4,096 contains "4242": such a test fails seldom, and then stops a change that did not cause it.
  const absence = /expect\((.*)\)\.not\.toContain\('[0-9a-f]{1,5}'\)/g;
  const found = tests.flatMap((file) =>
    [...textOf(file).matchAll(absence)]
      .filter(([, subject = '']) => !/without\w+\(/.test(subject))
      .map(([line]) => [file, line]),
  );
  expect(found).toEqual([]);
});

test('no line of a comment begins with a word that leaves its subject out', () => {
  const files = globSync(
    FOLDERS_WITH_SUBJECTS.map((folder) => `${folder}/*.{ts,tsx,js,cjs,mjs,css}`),
    { cwd: root, exclude: (path) => !isOurs(path) },
  );
  const riddle = /(?:\/\*\*?|\/\/|^\s*\*) (?:Of|As|By|Where|Whose|Whom) .*/gm;
  const found = files.flatMap((file) => [...textOf(file).matchAll(riddle)].map(([line]) => `${file}: ${line}`));
  expect(files.length).toBeGreaterThan(400);
  expect(found).toEqual([]);
});
