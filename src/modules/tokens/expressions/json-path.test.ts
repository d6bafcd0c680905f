// Tests the filter json against the compliance test suite of RFC 9535, and counts the steps of its parser.
import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../../platform/json/json.ts';
import { queryJson } from './json-path.ts';
import { JsonPathError, parseJsonPath } from './json-path-parser.ts';
import { createMeter } from './meter.ts';
import { createScanner } from '../../../platform/json/json-parser.ts';

type Case = {
  name: string;
  selector: string;
  document: Json;
  result?: Json[];
  results?: Json[][];
  invalid_selector?: boolean;
};

/** https://github.com/jsonpath-standard/jsonpath-compliance-test-suite, from its npm package. */
const suite = new URL(
  '../../../../node_modules/jsonpath-rfc9535/src/__tests__/jsonpath-compliance-test-suite/cts.json',
  import.meta.url,
);
const { tests: cases } = JSON.parse(readFileSync(suite, 'utf8')) as { tests: Case[] };

const usesPatterns = ({ selector }: Case): boolean => /\b(?:match|search)\s*\(/.test(selector);

const outcomeOf = (path: string, value: Json): Json[] | 'refused' => {
  try {
    return queryJson(value, path, createMeter());
  } catch (error) {
    if (error instanceof JsonPathError) return 'refused';
    throw error;
  }
};

describe('compliance with RFC 9535', () => {
  test('the suite is there', () => expect(cases.length).toBeGreaterThan(600));

  test.each(cases.filter((each) => !usesPatterns(each)))('$name', ({ selector, document, ...wanted }) => {
    const outcome = outcomeOf(selector, document ?? null);
    if (wanted.invalid_selector) expect(outcome).toBe('refused');
    else expect(wanted.results ?? [wanted.result]).toContainEqual(outcome);
  });

  test('match() and search() are refused', () => {
    for (const { selector } of cases.filter(usesPatterns)) expect(outcomeOf(selector, [])).toBe('refused');
  });
});

/** Parses the path, valid or not, and returns the number of steps. */
const stepsOf = (path: string): number => {
  const scanner = createScanner(path);
  try {
    parseJsonPath(path, scanner);
  } catch (error) {
    if (!(error instanceof JsonPathError)) throw error;
  }
  return scanner.steps;
};

/** The most patterns that the parser tries at one character. */
const STEPS_PER_CHARACTER_MAX = 25;

const nestings: [string, (levels: number) => string][] = [
  ['calls that stay open', (levels) => `$[?${'length('.repeat(levels)}@.a`],
  ['calls that are closed', (levels) => `$[?${'length('.repeat(levels)}@.a${')'.repeat(levels)}==1]`],
  ['calls with too many arguments', (levels) => `$[?${'count(@,'.repeat(levels)}`],
  ['parentheses that stay open', (levels) => `$[?${'('.repeat(levels)}@.a`],
  ['parentheses that are closed', (levels) => `$[?${'('.repeat(levels)}@.a${')'.repeat(levels)}]`],
  ['negations', (levels) => `$[?${'!('.repeat(levels)}@.a${')'.repeat(levels)}]`],
  ['filters in filters', (levels) => `$${'[?@'.repeat(levels)}`],
  ['filters in filters, closed', (levels) => `$${'[?@'.repeat(levels)}.a${']'.repeat(levels)}`],
  ['filters from the root', (levels) => `$${'[?$'.repeat(levels)}${'==1]'.repeat(levels)}`],
  ['comparisons in a row', (levels) => `$[?${'@.a==1&&'.repeat(levels)}`],
  ['alternatives in a row', (levels) => `$[?${'@.a||'.repeat(levels)}@.a]`],
  ['selectors in a row', (levels) => `$[${"'a',1:2:3,*,".repeat(levels)}`],
  ['blanks', (levels) => `$${' '.repeat(levels)}[${' '.repeat(levels)}?${' '.repeat(levels)}@${' '.repeat(levels)}`],
  ['blanks at each level', (levels) => `$${'[ ? ( @ '.repeat(levels)}`],
  ['escapes', (levels) => `$['${String.raw`\uD83D\uDE00`.repeat(levels)}`],
  ['digits', (levels) => `$[?@.a==${'1'.repeat(levels)}.`],
];

describe('the parser takes a number of steps that is linear in the length of the path', () => {
  test.each(nestings)('%s', (_, make) => {
    for (const levels of [1, 5, 12, 50, 400]) {
      const path = make(levels);
      expect(stepsOf(path)).toBeLessThanOrEqual(STEPS_PER_CHARACTER_MAX * (path.length + 1));
    }
  });

  test('generated paths', () => {
    const pieces = ['length(', 'count(', 'value(', '(', ')', '[', ']', '?', '@', '$', '.a', '..', '*', ' ', '==', '!'];
    const more = ['&&', '||', ',', ':', '-1', '0', '"a', "'", '"', String.raw`\u00e9`, 'true', 'match(', '<', '.'];
    const path = fc.array(fc.constantFrom(...pieces, ...more), { maxLength: 200 }).map((all) => `$[?${all.join('')}`);
    fc.assert(
      fc.property(path, (text) => stepsOf(text) <= STEPS_PER_CHARACTER_MAX * (text.length + 1)),
      { numRuns: 5000 },
    );
  });
});

describe('each node that a query visits spends work', () => {
  test.each([
    '$..*..*..*',
    '$[?count($..*..*)>1]',
    '$..[?$[?@..none]]',
    `$${'[0,0]'.repeat(40)}`,
    '$[?$==$]',
    '$..[?$==@]',
    '$..[?@==$]',
    '$[?length($.text)>1]',
  ])('%s ends as too much work', (path) => {
    const rows: Json[] = Array.from({ length: 30_000 }, (_, id) => ({ id, a: [[1], { b: 2 }] }));
    const value: Json = path.includes('0,0')
      ? Array.from({ length: 45 }).reduce<Json>((inner) => [inner], 1)
      : path.includes('text')
        ? { text: 'x'.repeat(100_000), ...Object.fromEntries(rows.map((row, at) => [`k${at}`, row])) }
        : rows;
    expect(() => queryJson(value, path, createMeter())).toThrow(/less work/);
  });
});
