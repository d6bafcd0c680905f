// Filters that draw: they make an id that resembles a value without telling it. An id stands in URLs and logs, so what
// an alias keeps of the value is bounded here, whatever the caller asks for.
import { ExpressionError } from './expression-error.ts';
import { type Call, characters, text, wholeNumber, wrongType, yesOrNo } from './filter-call.ts';
import type { Json } from './json.ts';
import { binLength, cardNumber, isCardDigit, mapCard } from './mask-filters.ts';
import { spend, WORK } from './meter.ts';

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const ALPHANUMERIC = `0123456789${LETTERS}${LETTERS.toUpperCase()}`;
const ALIAS_DRAWS_MAX = 20;

/** An id has at most as many characters. */
const ALIAS_LENGTH_MAX = 400;

/**
 * What an alias may keep: what PCI DSS lets be seen of a card number, the first six and the last four, and never so much
 * that fewer than four characters, or a quarter of all, are drawn anew. `6, 4` keeps 10 of a card's 16 digits; `0, 4`
 * keeps 4 of 9, and the dashes.
 */
const ALIAS_FIRST_MAX = 6;
const ALIAS_LAST_MAX = 4;
const ALIAS_DRAWN_MIN = 4;
const ALIAS_DRAWN_PART = 1 / 4;

type Draw = (max: number) => number;

/** How one character is drawn anew. */
type Redraw = { draws: (character: string) => boolean; make: (character: string, draw: Draw) => string };

const isLetter = (character: string): boolean => /^\p{L}$/u.test(character);
const isDigit = (character: string): boolean => /^\p{Nd}$/u.test(character);

/**
 * Draws until the alias is another text than the value: an alias that equals it would publish it as an id.
 * @param count how many characters are drawn.
 */
const drawAlias = (original: string, count: number, call: Call, make: (draw: Draw) => string): string => {
  const { randomInt } = call.environment;
  if (!randomInt) throw new ExpressionError('misplaced_filter', 'must not use alias filters outside an id');
  for (let attempt = 0; attempt < ALIAS_DRAWS_MAX; attempt += 1) {
    spend(call.meter, count * WORK.drawnCharacter);
    const alias = make(randomInt);
    if (alias !== original) return alias;
  }
  throw new ExpressionError('no_alias', 'must alias a value that has letters or digits to draw anew');
};

/** A digit for a digit, a letter for a letter, upper case for upper case; separators stay. */
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

/** Keeps `first` and `last` characters and draws the others. */
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
    if (count < Math.max(ALIAS_DRAWN_MIN, list.length * ALIAS_DRAWN_PART))
      throw new ExpressionError('no_alias', 'must draw at least four characters, and a quarter of all, anew');
    return drawAlias(content, count, call, (draw) =>
      list.map((character, index) => (isDrawn[index] ? make(character, draw) : character)).join(''),
    );
  };

/** The sum that ISO/IEC 7812-1 annex B wants to be a multiple of ten. */
const luhnSum = (digits: readonly number[]): number => {
  let sum = 0;
  for (const [index, digit] of digits.entries()) {
    const doubled = (digits.length - index) % 2 === 0;
    sum += doubled ? (digit > 4 ? digit * 2 - 9 : digit * 2) : digit;
  }
  return sum % 10;
};

/** A number that passes Luhn, of the same length and with the same separators; first six and last four stay unless told otherwise. */
export const aliasCard = (value: Json, call: Call): string => {
  const { list, digits } = cardNumber(value, call);
  const number = list.filter(isCardDigit).map(Number);
  const bin = yesOrNo(call, 0, true) ? (call.args.length > 0 ? binLength(digits) : 6) : 0;
  const kept = digits - (yesOrNo(call, 1, true) ? 4 : 0);
  if (list.some((character) => !isCardDigit(character) && character !== ' ' && character !== '-'))
    throw wrongType(call, 'a card number');
  return drawAlias(list.join(''), kept - bin, call, (draw) => {
    const drawn = number.map((digit, place) => (place < bin || place >= kept ? digit : draw(10)));
    // One drawn digit is solved for: every digit, doubled or not, gives each remainder exactly once.
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
