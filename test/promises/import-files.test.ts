// An import reads any file in linear time and bounded memory, and each cell of the files it writes is text in a spreadsheet.
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { resultLine } from '../../src/cli/import.ts';
import { formatOf } from '../../src/cli/import-formats.ts';
import { openSource, type SourceRow } from '../../src/cli/import-source.ts';
import { exportText } from '../../src/modules/logs/export.ts';

const MIB = 1024 * 1024;

const rowsOf = async (text: string): Promise<SourceRow[]> => {
  const chunks = function* () {
    for (let from = 0; from < text.length; from += 65_536) yield Buffer.from(text.slice(from, from + 65_536));
  };
  const { rows } = await openSource(formatOf('stripe', {}), Readable.from(chunks(), { objectMode: false }));
  const found: SourceRow[] = [];
  for await (const row of rows) found.push(row);
  return found;
};

describe('a document', () => {
  test.each([
    ['brackets', '['.repeat(16 * MIB)],
    ['braces', '{'.repeat(16 * MIB)],
    ['pairs of both', '[{'.repeat(8 * MIB)],
    ['brackets that end', '[]'.repeat(8 * MIB)],
    ['ends alone', `[${']'.repeat(16 * MIB)}`],
    ['a row that is too large', `[{"a":"${'x'.repeat(16 * MIB)}"}]`],
    ['brackets in a row', `[{"a":${'['.repeat(16 * MIB)}`],
    ['quotes', `[${'"'.repeat(16 * MIB)}`],
  ])(
    'of 16 MiB of %s is read in linear time, in constant memory',
    async (_, text) => {
      const before = process.memoryUsage().heapUsed;
      const rows = await rowsOf(text);
      expect(rows.every((row) => 'reason' in row)).toBe(true);
      expect(rows.length).toBeLessThanOrEqual(1);
      expect(process.memoryUsage().heapUsed - before).toBeLessThan(64 * MIB);
    },
    10_000,
  );

  test.each([
    ['[{"id":"a"},{"id":"b"}]', ['a', 'b']],
    ['{"customers":[{"id":"a"}],"more":[{"id":"b"}]}', ['a', 'b']],
    ['[{"id":"a","deep":{"x":[{"id":"no"}]}},{"id":"b"}]', ['a', 'b']],
    [' [ {"id":"]}{[\\"a"} ] ', [']}{["a']],
  ])('%s has its rows', async (text, ids) => {
    const rows = await rowsOf(text);
    expect(rows.map((row) => ('columns' in row ? row.columns['id'] : row))).toEqual(ids);
  });
});

const formulas = [
  '=1+1',
  "=cmd|' /C calc'!A0",
  '+1x',
  '-1x',
  '@SUM(B:B)',
  '\t=1',
  '\r=1',
  ' =1',
  '\n=1',
  '＝1',
  '＋1x',
  '－1x',
  '＠x',
];

/** The cells of one line of CSV. */
const cellsOf = (line: string): string[] =>
  [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^",]*))/g)].map(([, quoted, plain]) =>
    quoted === undefined ? (plain ?? '') : quoted.replaceAll('""', '"'),
  );

describe('a cell that a spreadsheet would run', () => {
  test.each(formulas)('%j is text in a result file and in an export of the log', async (text) => {
    const [cell] = cellsOf(resultLine(['name'], { name: text }).slice(0, -1));
    expect(cell).toBe(`'${text}`);
    const record = { entity_id: text } as never;
    const portions = async function* () {
      yield [record];
    };
    const lines: string[] = [];
    for await (const line of exportText(portions(), 'text/csv')) lines.push(line);
    expect(cellsOf(lines[1]?.slice(0, -2) ?? '')).toContain(`'${text}`);
  });

  test.each(['', '5', '-5', '+5.25', 'a=b', '4242', "it's"])('%j stays as it is', (text) => {
    expect(cellsOf(resultLine(['name'], { name: text }).slice(0, -1))).toEqual([text]);
  });
});
