// Counts the characters that parsing a template reads.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ExpressionError } from './expression-error.ts';
import { type ScanCount, scanTemplate } from './template.ts';

/** Parses the text, valid or not, and returns the number of steps. */
const stepsOf = (text: string): number => {
  const count: ScanCount = { steps: 0 };
  try {
    scanTemplate(text, count);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
  }
  return count.steps;
};

/** The most reads of one character by all loops and patterns. */
const STEPS_PER_CHARACTER_MAX = 12;

const texts: [string, (times: number) => string][] = [
  ['expressions that stay open', (times) => '{{'.repeat(times)],
  ['expressions that are closed', (times) => '{{ data }}'.repeat(times)],
  ['expressions in expressions', (times) => `${'{{ data'.repeat(times)}${'}}'.repeat(times)}`],
  ['filters', (times) => `{{ data ${'| upcase '.repeat(times)}}}`],
  ['arguments', (times) => `{{ data | reveal: ${"'a',".repeat(times)} }}`],
  ['quotation marks', (times) => `{{ data | append: ${`'"`.repeat(times)} }}`],
  ['brackets and quotation marks', (times) => `{{ data${"['".repeat(times)} | upcase }}`],
  [
    'blanks',
    (times) => `{{${' '.repeat(times)}data${' '.repeat(times)}|${' '.repeat(times)}upcase${' '.repeat(times)}`,
  ],
  ['bars', (times) => `{{ data ${'|'.repeat(times)} }}`],
  ['commas', (times) => `{{ data | reveal: ${','.repeat(times)} }}`],
  ['digits', (times) => `{{ data | append: ${'1'.repeat(times)}. }}`],
];

describe('the steps to parse a template are linear in its length', () => {
  test.each(texts)('%s', (_, make) => {
    for (const times of [1, 10, 100, 400, 5000]) {
      const text = make(times);
      expect(stepsOf(text)).toBeLessThanOrEqual(STEPS_PER_CHARACTER_MAX * text.length);
    }
  });

  test('generated texts', () => {
    const pieces = [
      '{{',
      '}}',
      '{',
      '}',
      '|',
      ':',
      ',',
      "'",
      '"',
      "['",
      "']",
      'data',
      '.a',
      ' ',
      'upcase',
      'json',
      '1',
    ];
    const text = fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 300 }).map((all) => all.join(''));
    fc.assert(
      fc.property(text, (each) => stepsOf(each) <= STEPS_PER_CHARACTER_MAX * each.length),
      { numRuns: 5000 },
    );
  });
});
