// Card brands: by which first digits each is recognised, how long its numbers and security codes are, and how digits are grouped.
import type { Brand } from '../src/protocol.ts';

export type BrandRules = {
  name: Brand;
  lengths: readonly number[];
  cvc: number;
  /** Sizes of the groups of digits; the last one repeats. */
  groups: readonly number[];
};

const span = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, at) => from + at);

const fours = [4];

/** Name, lengths, length of the security code, groups, and ranges of first digits. The longest range that fits wins. */
const table: [Brand, number[], number, number[], string][] = [
  ['visa', [13, 16, 19], 3, fours, '4'],
  ['mastercard', [16], 3, fours, '51-55 2221-2720'],
  ['amex', [15], 4, [4, 6, 5], '34 37'],
  ['discover', span(16, 19), 3, fours, '6011 644-649 65'],
  ['jcb', span(16, 19), 3, fours, '3528-3589'],
  ['diners', span(14, 19), 3, [4, 6, 4], '300-305 3095 36 38 39'],
  ['unionpay', span(16, 19), 3, fours, '62 810-817'],
  ['maestro', span(12, 19), 3, fours, '50 56-58 60 61 63 66-69'],
  ['rupay', [16], 3, fours, '508500-508999 606985-607984 608001-608500 652150-653149 8172-8201 82'],
  ['mir', span(16, 19), 3, fours, '2200-2204'],
  [
    'elo',
    [16],
    3,
    fours,
    '401178 401179 431274 438935 451416 457393 457631 457632 504175 506699-506778 509000-509999 627780 636297 636368 650031-650033 650035-650051 650405-650439 650485-650538 650541-650598 650700-650718 650720-650727 650901-650978 651652-651679 655000-655019 655021-655058',
  ],
];

const ranges = table
  .flatMap(([name, lengths, cvc, groups, texts]) => {
    const rules: BrandRules = { name, lengths, cvc, groups };
    return texts.split(' ').map((text) => {
      const [from = '', to = from] = text.split('-');
      return { digits: from.length, from: Number(from), to: Number(to), rules };
    });
  })
  .sort((one, other) => other.digits - one.digits);

/** @param digits the number, as far as it is typed. */
export const brandOf = (digits: string): BrandRules | undefined =>
  ranges.find(({ digits: count, from, to }) => {
    const first = Number(digits.slice(0, count));
    return digits.length >= count && first >= from && first <= to;
  })?.rules;

/** ISO/IEC 7812-1 annex B. */
export const passesLuhn = (digits: string): boolean => {
  let sum = 0;
  for (let at = digits.length - 1, double = false; at >= 0; at -= 1, double = !double) {
    const digit = Number(digits[at]);
    sum += double ? (digit > 4 ? digit * 2 - 9 : digit * 2) : digit;
  }
  return sum % 10 === 0;
};
