// Alias filters: generate an id that resembles a value. Ids appear in URLs and logs, so these filters limit what an alias
// keeps of the value.
import { ExpressionError } from './expression-error.ts';
import { type Call, characters, text, wholeNumber, wrongType, yesOrNo } from './filter-call.ts';
import type { Json } from '../../../platform/json/json.ts';
import { binLength, cardNumber, isCardDigit, mapCard } from './mask-filters.ts';
import { spend, WORK } from './meter.ts';

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const ALPHANUMERIC = `0123456789${LETTERS}${LETTERS.toUpperCase()}`;
const ALIAS_DRAWS_MAX = 20;

/** The longest id. */
const ALIAS_LENGTH_MAX = 400;

/**
 * What an alias may keep: at most the first six and last four characters, as PCI DSS allows for card numbers. At least four
 * characters and a quarter of all must be random. `6, 4` keeps 10 of a card's 16 digits; `0, 4` keeps 4 of 9 and the dashes.
 */
const ALIAS_FIRST_MAX = 6;
const ALIAS_LAST_MAX = 4;
const ALIAS_RANDOM_MIN = 4;
const ALIAS_RANDOM_PART = 1 / 4;

type Draw = (max: number) => number;

/** Which characters are replaced by random ones, and how. */
type Redraw = { draws: (character: string) => boolean; make: (character: string, draw: Draw) => string };

const isLetter = (character: string): boolean => /^\p{L}$/u.test(character);
const isDigit = (character: string): boolean => /^\p{Nd}$/u.test(character);

/**
 * Generates until the alias differs from the value: an equal alias would publish the value as an id.
 * @param count the number of random characters.
 */
const drawAlias = (original: string, count: number, call: Call, make: (draw: Draw) => string): string => {
  const { randomInt } = call.environment;
  if (!randomInt) throw new ExpressionError('misplaced_filter', 'must not use alias filters outside an id');
  for (let attempt = 0; attempt < ALIAS_DRAWS_MAX; attempt += 1) {
    spend(call.meter, count * WORK.drawnCharacter);
    const alias = make(randomInt);
    if (alias !== original) return alias;
  }
  throw new ExpressionError('no_alias', 'must alias a value that has letters or digits to replace');
};

/** Replaces a digit by a digit and a letter by a letter of the same case. Separators stay. */
export const sameClass: Redraw = {
  draws: (character) => isDigit(character) || isLetter(character),
  make: (character, draw) => {
    if (isDigit(character)) return String(draw(10));
    const drawn = LETTERS[draw(LETTERS.length)] as string;
    return character === character.toLowerCase() ? drawn : drawn.toUpperCase();
  },
};

export const anyCharacter: Redraw = {
  draws: () => true,
  make: (_character, draw) => ALPHANUMERIC[draw(ALPHANUMERIC.length)] as string,
};

/** Keeps the first and last characters and replaces the others. */
export const alias =
  ({ draws, make }: Redraw) =>
  (value: Json, call: Call): string => {
    const content = text(value, call);
    if (content.length > ALIAS_LENGTH_MAX) throw wrongType(call, `at most ${ALIAS_LENGTH_MAX} characters`);
    const list = characters(content, call);
    const first = wholeNumber(call, 0, 0, ALIAS_FIRST_MAX, 0);
    const last = wholeNumber(call, 1, 0, ALIAS_LAST_MAX, 0);
    const isDrawn = list.map((character, index) => index >= first && index < list.length - last && draws(character));
    const count = isDrawn.filter(Boolean).length;
    if (count < Math.max(ALIAS_RANDOM_MIN, list.length * ALIAS_RANDOM_PART))
      throw new ExpressionError('no_alias', 'must replace at least four characters, and a quarter of all');
    return drawAlias(content, count, call, (draw) =>
      list.map((character, index) => (isDrawn[index] ? make(character, draw) : character)).join(''),
    );
  };

/** The checksum of ISO/IEC 7812-1 annex B; 0 for a valid number. */
const luhnSum = (digits: readonly number[]): number => {
  let sum = 0;
  for (const [index, digit] of digits.entries()) {
    const doubled = (digits.length - index) % 2 === 0;
    sum += doubled ? (digit > 4 ? digit * 2 - 9 : digit * 2) : digit;
  }
  return sum % 10;
};

/** A card number with a valid check digit, the same length and separators. By default the first six and last four digits stay. */
export const aliasCard = (value: Json, call: Call): string => {
  const { list, digits } = cardNumber(value, call);
  const number = list.filter(isCardDigit).map(Number);
  const bin = yesOrNo(call, 0, true) ? (call.args.length > 0 ? binLength(digits) : 6) : 0;
  const kept = digits - (yesOrNo(call, 1, true) ? 4 : 0);
  if (list.some((character) => !isCardDigit(character) && character !== ' ' && character !== '-'))
    throw wrongType(call, 'a card number');
  return drawAlias(list.join(''), kept - bin, call, (draw) => {
    const drawn = number.map((digit, place) => (place < bin || place >= kept ? digit : draw(10)));
    // One random digit is computed from the others. Each checksum has exactly one digit, doubled or not, that completes it.
    drawn[bin] = 0;
    const missing = (10 - luhnSum(drawn)) % 10;
    const doubled = (digits - bin) % 2 === 0;
    drawn[bin] = doubled && missing % 2 === 1 ? (missing + 9) / 2 : doubled ? missing / 2 : missing;
    return mapCard(
      list,
      (_digit, place) => String(drawn[place]),
      (separator) => separator,
    );
  });
};
