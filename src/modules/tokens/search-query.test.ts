// Tests the search grammar against its vectors and with generated queries.
import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  parseSearchQuery,
  SEARCH_DEPTH_MAX,
  SEARCH_QUERY_LENGTH_MAX,
  type SearchNode,
  SearchQueryError,
} from './search-query.ts';
import { createScanner } from '../../platform/json/json-parser.ts';

/** The tree is JSON, so dates are ISO texts in it. */
type Case = { name: string; query: string } & (
  | { outcome: 'parsed'; expect: object }
  | { outcome: 'refused'; sentence: string }
);

const cases = JSON.parse(
  readFileSync(new URL('../../../test/vectors/search.json', import.meta.url), 'utf8'),
) as readonly Case[];

/** The tree, or the message of a SearchQueryError. */
const answer = (query: string): SearchNode | string => {
  try {
    return parseSearchQuery(query);
  } catch (error) {
    if (error instanceof SearchQueryError) return error.message;
    throw error;
  }
};

describe('every vector has its outcome', () => {
  test.each(cases)('$name', (each) => {
    const got = answer(each.query);
    if (each.outcome === 'parsed') expect(JSON.parse(JSON.stringify(got))).toEqual(each.expect);
    else {
      expect(each.outcome).toBe('refused');
      expect(got).toBe(each.sentence);
    }
  });
});

test('the ends of a range are dates', () => {
  expect(parseSearchQuery('created_at:[2026-01-01T00:00:00Z TO *]')).toEqual({
    kind: 'range',
    field: 'created_at',
    from: { at: new Date('2026-01-01T00:00:00Z'), inclusive: true },
  });
});

/** Generated texts that are nearly queries: tokens of the grammar in any order. */
const pieces = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        'type:card',
        'id:a',
        'data:"a b"',
        'metadata.k:v',
        'metadata."a \\" b":v',
        'container:/pci/*',
        'created_at:[2026-01-01 TO *]',
      ),
      fc.constantFrom(' AND ', ' OR ', 'AND', 'OR', 'NOT', '!', '-', '(', ')', '[', '}', ' ', 'TO', '"', '*'),
      fc.constantFrom('data:', 'modified_at:', ':', '2026-01-01', '/', '\\', '\0', '\ud83d'),
    ),
    { maxLength: 40 },
  )
  .map((list) => list.join('').slice(0, SEARCH_QUERY_LENGTH_MAX));

/** Generated queries of chained and nested terms, most of them valid. */
const { tree } = fc.letrec<{ tree: string }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 6, withCrossShrink: true },
    fc.constantFrom('id:a', 'data:"b"', '!id:c'),
    fc.tuple(tie('tree'), fc.constantFrom(' AND ', ' OR '), tie('tree')).map((parts) => parts.join('')),
    fc.tuple(fc.constantFrom('(', 'NOT (', '-('), tie('tree')).map(([before, inner]) => `${before}${inner})`),
  ),
}));

/** Counts terms and depth, and fails if the tree is not in canonical form. */
const measure = (node: SearchNode): { terms: number; depth: number } => {
  if (node.kind === 'not') {
    expect(node.node.kind).not.toBe('not');
    return measure(node.node);
  }
  if (node.kind !== 'and' && node.kind !== 'or') return { terms: 1, depth: 0 };
  expect(node.nodes.length).toBeGreaterThan(1);
  expect(node.nodes.map(({ kind }) => kind)).not.toContain(node.kind);
  const parts = node.nodes.map(measure);
  return {
    terms: parts.reduce((sum, { terms }) => sum + terms, 0),
    depth: 1 + Math.max(...parts.map(({ depth }) => depth)),
  };
};

test('any text gives a bounded tree in canonical form or a SearchQueryError', () => {
  const anyText = fc.string({ unit: 'binary', maxLength: SEARCH_QUERY_LENGTH_MAX });
  const texts = fc.oneof(anyText, fc.string({ maxLength: SEARCH_QUERY_LENGTH_MAX }), pieces, tree);
  fc.assert(
    fc.property(texts, (text) => {
      const got = answer(text);
      if (typeof got === 'string') return;
      const { terms, depth } = measure(got);
      expect(terms).toBeLessThanOrEqual(25);
      // Each level of parentheses has at most an OR of ANDs.
      expect(depth).toBeLessThanOrEqual(2 * (SEARCH_DEPTH_MAX + 1));
    }),
    { numRuns: 3000 },
  );
});

/** Every place where a query may have a value, valid or not. `?` is the value. */
const places = [
  '? ?:x ?:?',
  '?:x',
  'data:? ?',
  'data:"?',
  'data:"? "?',
  String.raw`data:"\?"`,
  'data:"?"~',
  'data:?*',
  'data:?[0]',
  'data:?\0',
  'data:"?\ud83d"',
  'type:"? ?"',
  'type:?*',
  'id:?*',
  'id:[? TO ?]',
  'fingerprint:?*?',
  'created_by:?',
  'modified_by:"?"',
  'container:?',
  'container:"/?"',
  'container:?*',
  'metadata.?',
  'metadata.? ?:x',
  'metadata."?',
  'metadata."?" :x',
  'metadata.k:?*',
  'created_at:?',
  'created_at:"?"',
  'created_at:[? TO *]',
  'created_at:[* TO ?]',
  'created_at:{"?',
  'modified_at:[* ?',
  '(data:?',
  'data:?)',
  'data:? AND',
  'data:? and data:?',
  '(((((((((((data:?',
  'NOT ?',
];

test('an error message never holds text of the query', () => {
  // Messages contain no four of these characters in a row. Their example dates consist of 0, 1, 2 and 6.
  const value = fc.string({ unit: fc.constantFrom(...'qxzQXZ345789'), minLength: 4, maxLength: 40 });
  fc.assert(
    fc.property(fc.constantFrom(...places), value, (place, planted) => {
      const got = answer(place.replaceAll('?', planted));
      if (typeof got !== 'string') throw new Error('a wrong query was parsed');
      const words = Array.from({ length: planted.length - 3 }, (_, at) => planted.slice(at, at + 4));
      expect(words.filter((word) => got.includes(word))).toEqual([]);
    }),
    { numRuns: 2000 },
  );
});

test('quoting and parsing a value returns the same value', () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 90 });
  fc.assert(
    fc.property(text, (value) => {
      const query = `data:"${value.replace(/["\\]/g, String.raw`\$&`)}"`;
      fc.pre(query.length <= SEARCH_QUERY_LENGTH_MAX && !value.includes('\0'));
      expect(parseSearchQuery(query)).toEqual({ kind: 'data', value });
    }),
  );
});

/** Parses the text, valid or not, and returns the number of steps. */
const stepsOf = (text: string): number => {
  const scanner = createScanner(text);
  try {
    parseSearchQuery(text, scanner);
  } catch (error) {
    if (!(error instanceof SearchQueryError)) throw error;
  }
  return scanner.steps;
};

/** The most patterns that the parser tries at one character. */
const STEPS_PER_CHARACTER_MAX = 12;

const nestings: [string, (levels: number) => string][] = [
  ['parentheses that stay open', (levels) => '('.repeat(levels)],
  ['parentheses that are closed', (levels) => `${'('.repeat(levels)}id:a${')'.repeat(levels)}`],
  ['negations', (levels) => `${'NOT '.repeat(levels)}id:a`],
  ['negations in parentheses', (levels) => `${'!('.repeat(levels)}id:a${')'.repeat(levels)}`],
  ['alternatives', (levels) => `${'id:a OR '.repeat(levels)}id:a`],
  ['blanks at the end of groups', (levels) => `((((((((id:a${' '.repeat(levels)})${' '.repeat(levels)})x`],
  ['phrases that stay open', (levels) => `id:"${'\\"'.repeat(levels)}`],
  ['fields without a value', (levels) => 'a.b'.repeat(levels)],
  ['ranges that stay open', (levels) => `created_at:[${' '.repeat(levels)}*${' '.repeat(levels)}TO`],
];

describe('a query is parsed or refused in a number of steps that is linear in its length', () => {
  test.each(nestings)('%s', (_, make) => {
    for (const levels of [1, 5, 8, 10, 20, 60, 190]) {
      const text = make(levels);
      expect(stepsOf(text)).toBeLessThanOrEqual(STEPS_PER_CHARACTER_MAX * text.length);
    }
  });

  test('generated queries', () => {
    const pieces = [
      '(',
      ')',
      'NOT ',
      '!',
      '-',
      ' AND ',
      ' OR ',
      'id:a',
      'data:"x"',
      ' ',
      '"',
      '\\',
      '[',
      ' TO ',
      '*',
      ':',
    ];
    const text = fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 60 }).map((all) => all.join(''));
    fc.assert(
      fc.property(text, (each) => stepsOf(each) <= STEPS_PER_CHARACTER_MAX * each.length),
      { numRuns: 5000 },
    );
  });
});
