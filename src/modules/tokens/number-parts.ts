// Decides whether an answer shows so much of a card number that its fingerprint would tell the rest.
// Ten digits of 16 leave so few numbers that a client finds the right one by creating tokens.
import type { Json } from '../../platform/json/json.ts';

/** One fewer than the first six digits, which name the issuer (ISO/IEC 7812-1), and the last four. */
const DIGITS_SHOWN_MAX = 9;

/** Shorter runs agree with a number by chance. */
const RUN_DIGITS = 3;

/** The shortest card number. */
const NUMBER_DIGITS_MIN = 12;

/** 12 to 19 digits, with up to three characters between two of them that are neither letters nor digits. */
const cardLike = /(?<!\d)\d(?:[^\p{L}\d]{0,3}\d){11,18}(?!\d)/gu;

/** Ids and hashes: their digits are random. */
const randomWords =
  /\b[\da-f]{8}-[\da-f]{4}-[47][\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}\b|\b(?=\d*[a-f])[\da-f]{32,}\b/gi;

const FULL_WIDTH = 0xff10 - 0x30;

const fullWidth = /[\uff10-\uff19]/;
const fullWidths = new RegExp(fullWidth, 'g');

const withAsciiDigits = (text: string): string =>
  fullWidth.test(text)
    ? text.replace(fullWidths, (each) => String.fromCharCode(each.charCodeAt(0) - FULL_WIDTH))
    : text;

// Patterns are made once: a literal in a function makes one at each call.

/** Most texts of a record have none, and are left out before anything dearer looks at them. */
const digit = /[\d\uff10-\uff19]/;
const letter = /\p{L}/u;
const noDigits = /\D+/g;
const signs = /[^\p{L}\d]+/gu;
const longRuns = /\d{3,}/g;

const digitsIn = (text: string): string => text.replace(noDigits, '');

/** Digits without a letter, fewer than a number has. */
const isPiece = (text: string): boolean => {
  if (text.length > NUMBER_DIGITS_MIN * 2 || letter.test(text)) return false;
  const { length } = digitsIn(text);
  return length > 0 && length < NUMBER_DIGITS_MIN;
};

/**
 * The texts, names and numbers with digits of a value, whatever it is nested in. Pieces of digits that follow each other in a list
 * are one text.
 * @param joinsMembers whether they are in an object, too.
 */
function* textsOf(root: Json | undefined, joinsMembers: boolean): Generator<string> {
  const left: (Json | undefined)[] = [root];
  while (left.length > 0) {
    const value = left.pop();
    const isContainer = typeof value === 'object' && value !== null;
    if (isContainer && !Array.isArray(value))
      for (const name of Object.keys(value)) if (digit.test(name)) yield withAsciiDigits(name);
    let pieces: string[] = [];
    for (const each of isContainer ? Object.values(value) : [value]) {
      if (typeof each === 'object' && each !== null) left.push(each);
      if (typeof each !== 'string' && typeof each !== 'number') continue;
      const written = String(each);
      const text = digit.test(written) ? withAsciiDigits(written) : '';
      if (isPiece(text) && (joinsMembers || Array.isArray(value))) {
        pieces.push(text);
        continue;
      }
      if (text !== '') yield text;
      if (pieces.length > 0) yield pieces.join(' ');
      pieces = [];
    }
    if (pieces.length > 0) yield pieces.join(' ');
  }
}

/** Two members that are numbers of an account are no card number. */
function* numbersOf(value: Json): Generator<string> {
  for (const text of textsOf(value, false)) for (const [written] of text.matchAll(cardLike)) yield digitsIn(written);
}

/** Runs of digits, whatever signs are between them: only letters end a run. */
const runsOf = (text: string): string[] => text.replace(randomWords, 'x').replace(signs, '').match(longRuns) ?? [];

const windowsOf = (digits: string): string[] =>
  Array.from({ length: Math.max(0, digits.length - RUN_DIGITS + 1) }, (_, at) => digits.slice(at, at + RUN_DIGITS));

/** How many of the digits are part of a run that the other text has, too. */
const countShared = (digits: string, windows: ReadonlySet<string>): number => {
  let shared = 0;
  let counted = 0;
  for (const [at, window] of windowsOf(digits).entries()) {
    if (!windows.has(window)) continue;
    shared += at + RUN_DIGITS - Math.max(at, counted);
    counted = at + RUN_DIGITS;
  }
  return shared;
};

/** More numbers in one value are decided by the first of the two counts alone, which is the stricter. */
const EXACT_NUMBERS_MAX = 50;

/**
 * Whether the shown texts tell ten or more digits of a card number in the value. Digits of the number count if they may be shown,
 * shown digits if they may be of the number, and the lower count holds: in 4242 4242 4242 4242 four digits may be any.
 * @param shown everything of the answer that can hold parts of the value.
 */
export const showsNumberByParts = (value: Json, shown: readonly (Json | undefined)[]): boolean => {
  const numbers = new Set(numbersOf(value));
  if (numbers.size === 0) return false;
  const runs = shown.flatMap((each) => [...textsOf(each, true)]).flatMap(runsOf);
  // Fewer digits than that tell no number, unless there are so many numbers that the first count decides alone.
  const digitsShown = runs.reduce((sum, { length }) => sum + length, 0);
  if (digitsShown <= DIGITS_SHOWN_MAX && numbers.size <= EXACT_NUMBERS_MAX) return false;
  const windows = new Set(runs.flatMap(windowsOf));
  let exact = 0;
  for (const number of numbers) {
    if (countShared(number, windows) <= DIGITS_SHOWN_MAX) continue;
    exact += 1;
    if (exact > EXACT_NUMBERS_MAX) return true;
    const ofNumber = new Set(windowsOf(number));
    let digits = 0;
    for (const run of runs) digits += countShared(run, ofNumber);
    if (digits > DIGITS_SHOWN_MAX) return true;
  }
  return false;
};
