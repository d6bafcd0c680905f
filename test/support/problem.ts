// The promises of each problem document: listed codes, one for each sentence, and no empty path.
import { readFileSync } from 'node:fs';
import { expect } from 'vitest';

const reference = readFileSync(new URL('../../docs/api.md', import.meta.url), 'utf8');

/** The codes in a generated table of the reference. */
const listedIn = (mark: string, column: number): ReadonlySet<string> => {
  const [, table = ''] = new RegExp(`<!-- ${mark} -->([^]*?)<!-- /${mark} -->`).exec(reference) ?? [];
  const cells = table.split('\n').map((row) => row.split('|')[column] ?? '');
  return new Set(cells.flatMap((cell) => /`(\w+)`/.exec(cell)?.[1] ?? []));
};

export const problemCodes = listedIn('problem-codes', 2);
export const sentenceCodes = listedIn('field-codes', 1);

type Problem = { code: string; errors?: Record<string, string[]>; codes?: Record<string, string[]> };

export const checkProblem = ({ code, errors = {}, codes = {} }: Problem): void => {
  expect(problemCodes, 'the code of a problem is in docs/api.md').toContain(code);
  expect(Object.keys(codes), 'the codes have the paths of the errors').toEqual(Object.keys(errors));
  for (const [path, sentences] of Object.entries(errors)) {
    expect(path, 'no error has an empty path').not.toBe('');
    expect(codes[path], `each sentence of ${path} has a code`).toHaveLength(sentences.length);
    for (const each of codes[path] ?? []) expect(sentenceCodes, 'the code is in docs/api.md').toContain(each);
  }
};
