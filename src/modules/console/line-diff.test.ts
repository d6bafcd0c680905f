import { expect, test } from 'vitest';
import { diffLines } from './line-diff.ts';

const marks = { same: ' ', added: '+', removed: '-', skipped: '…' } as const;
const shown = (before: string, after: string): string[] =>
  diffLines(before.replaceAll(' ', '\n'), after.replaceAll(' ', '\n')).map(({ kind, text }) => marks[kind] + text);

test.each([
  ['a b c', 'a b c', []],
  ['', 'a', ['-', '+a']],
  ['a b c', 'a x c', [' a', '-b', '+x', ' c']],
  ['a b c', 'a c', [' a', '-b', ' c']],
  ['a c', 'a b c', [' a', '+b', ' c']],
  ['a b c d', 'b x d', ['-a', ' b', '-c', '+x', ' d']],
  ['a a', 'a', [' a', '-a']],
  ['1 2 3 4 5 6 7 8 9', '1 2 3 4 x 6 7 8 9', ['…', ' 2', ' 3', ' 4', '-5', '+x', ' 6', ' 7', ' 8', '…']],
])('%j and %j differ in %j', (before, after, expected) => {
  expect(shown(before, after)).toEqual(expected);
});

test('texts with too many lines to compare are shown as removed and added', () => {
  const lines = (from: number): string => Array.from({ length: 2_000 }, (_, at) => `${from + at}`).join('\n');
  const kinds = diffLines(lines(0), lines(5_000)).map(({ kind }) => kind);
  expect(kinds).toEqual([...Array(2_000).fill('removed'), ...Array(2_000).fill('added')]);
});
