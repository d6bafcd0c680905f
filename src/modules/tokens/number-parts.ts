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

const UUID = String.raw`[\da-f]{8}-[\da-f]{4}-[47][\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}`;

/** Ids and hashes: their digits are random. */
const randomWords = new RegExp(String.raw`\b${UUID}\b|\b(?=\d*[a-f])[\da-f]{32,}\b`, 'gi');
const randomId = new RegExp(`^${UUID}$`, 'i');

const FULL_WIDTH = 0xff10 - 0x30;

const withAsciiDigits = (text: string): string =>
  text.replace(/[\uff10-\uff19]/g, (digit) => String.fromCharCode(digit.charCodeAt(0) - FULL_WIDTH));

const digitsIn = (text: string): string => text.replace(/\D/g, '');

/** Digits without a letter, fewer than a number has. */
const isPiece = (text: string): boolean => {
  if (text.length > NUMBER_DIGITS_MIN * 2 || /\p{L}/u.test(text)) return false;
  const { length } = digitsIn(text);
  return length > 0 && length < NUMBER_DIGITS_MIN;
};

/**
 * The texts, names and numbers of a value, whatever it is nested in. Pieces of digits that follow each other in a list are one text.
 * @param joinsMembers whether they are in an object, too.
 */
function* textsOf(root: Json | undefined, joinsMembers: boolean): Generator<string> {
  const left: (Json | undefined)[] = [root];
  while (left.length > 0) {
    const value = left.pop();
    const isContainer = typeof value === 'object' && value !== null;
    if (isContainer && !Array.isArray(value)) for (const name of Object.keys(value)) yield withAsciiDigits(name);
    let pieces: string[] = [];
    for (const each of isContainer ? Object.values(value) : [value]) {
      if (typeof each === 'object' && each !== null) left.push(each);
      if (typeof each !== 'string' && typeof each !== 'number') continue;
      const text = withAsciiDigits(String(each));
      if (isPiece(text) && (joinsMembers || Array.isArray(value))) {
        pieces.push(text);
        continue;
      }
      yield text;
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
const runsOf = (text: string): string[] =>
  text
    .replace(randomWords, 'x')
    .replace(/[^\p{L}\d]+/gu, '')
    .match(/\d{3,}/g) ?? [];

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

const countDigitsIn = (text: string): number => {
  let count = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if ((code >= 0x30 && code <= 0x39) || (code >= 0xff10 && code <= 0xff19)) count += 1;
  }
  return count;
};

/** Digits of the texts, names and numbers of a value. */
const countDigits = (value: Json | undefined): number => {
  if (typeof value === 'string') return countDigitsIn(value);
  if (typeof value === 'number') return countDigitsIn(String(value));
  if (typeof value !== 'object' || value === null) return 0;
  let count = 0;
  for (const [name, each] of Object.entries(value))
    count += (Array.isArray(value) ? 0 : countDigitsIn(name)) + countDigits(each);
  return count;
};

/** Digits that can be of a card number. */
const countShown = (shown: readonly (Json | undefined)[]): number =>
  shown
    .filter((each) => typeof each !== 'string' || !randomId.test(each))
    .reduce<number>((sum, each) => sum + countDigits(each), 0);

/**
 * Whether the shown texts tell ten or more digits of a card number in the value. Digits of the number count if they may be shown,
 * shown digits if they may be of the number, and the lower count holds: in 4242 4242 4242 4242 four digits may be any.
 * @param shown everything of the answer that can hold parts of the value.
 */
export const showsNumberByParts = (value: Json, shown: readonly (Json | undefined)[]): boolean => {
  // Most records show four digits: counting them saves 12 us and a tenth of the garbage of a masked read.
  const hasFewNumbers = countDigits(value) <= EXACT_NUMBERS_MAX * NUMBER_DIGITS_MIN;
  if (hasFewNumbers && countShown(shown) <= DIGITS_SHOWN_MAX) return false;
  const numbers = new Set(numbersOf(value));
  if (numbers.size === 0) return false;
  const runs = shown.flatMap((each) => [...textsOf(each, true)]).flatMap(runsOf);
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
