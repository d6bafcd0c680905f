// The registry of filters: their names, how many arguments they take, and their functions.
// Filters take linear time. They use keys and random numbers of the environment only.
import {
  Absent,
  type Apply,
  badArgument,
  bounded,
  type Call,
  characters,
  Digest,
  type ExpressionEnvironment,
  type FilterCall,
  type Known,
  stringify,
  text,
  textArgument,
  textOf,
  wholeNumber,
  wrongType,
  yesOrNo,
} from './filter-call.ts';
import type { Json } from '../../../platform/json/json.ts';
import { EXPANDED_BYTES_MAX, jsonSize, type Meter, spend, WORK } from './meter.ts';
import { ExpressionError } from './expression-error.ts';
import {
  binLength,
  cardBin,
  cardExpiry,
  cardMask,
  cardNumber,
  encode,
  first,
  glue,
  hmac,
  isCardDigit,
  last,
  lastCharacters,
  mapCard,
  pad,
  remove,
  replace,
  reveal,
  revealLast,
  size,
  slice,
  split,
  toBoolean,
  toNumber,
  toText,
} from './text-filters.ts';
import { json } from './json-path.ts';
import { nearestName } from '../../../platform/base/unknown-names.ts';

// Filters that write a value as one quoted text of JSON, YAML or CSV. No value can end that text.

/** Structure becomes compact JSON. Its size is checked first. */
const textToQuote = (value: Json, call: Call): string => {
  const { bytes, work } = jsonSize(value, EXPANDED_BYTES_MAX);
  bounded(bytes);
  spend(call.meter, work);
  return textOf(value);
};

const quoteJson = (value: Json, call: Call): string => stringify(textToQuote(value, call), call);

/** YAML accepts JSON strings, except characters that it treats as line ends or as unprintable (YAML 1.2.2, 5.1). */
const quoteYaml = (value: Json, call: Call): string =>
  quoteJson(value, call).replace(
    /[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** RFC 4180 section 2. */
const quoteCsv = (value: Json, call: Call): string => `"${textToQuote(value, call).replaceAll('"', '""')}"`;

// Alias filters: generate an id that resembles a value. Ids appear in URLs and logs, so these filters limit what an alias
// keeps of the value.

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
const sameClass: Redraw = {
  draws: (character) => isDigit(character) || isLetter(character),
  make: (character, draw) => {
    if (isDigit(character)) return String(draw(10));
    const drawn = LETTERS[draw(LETTERS.length)] as string;
    return character === character.toLowerCase() ? drawn : drawn.toUpperCase();
  },
};

const anyCharacter: Redraw = {
  draws: () => true,
  make: (_character, draw) => ALPHANUMERIC[draw(ALPHANUMERIC.length)] as string,
};

/** Keeps the first and last characters and replaces the others. */
const alias =
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
const aliasCard = (value: Json, call: Call): string => {
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

type Filter = { least: number; most: number; apply: Apply };

const filter = (least: number, most: number, apply: Apply): Filter => ({ least, most, apply });

/** A Map, so that no name reaches a prototype. The numbers are the least and the most arguments. */
const filters = new Map<string, Filter>([
  ['json', filter(1, 1, json)],
  // Only applied to a value, which it does not change. Unlike Liquid's, it keeps false and empty text.
  ['default', filter(1, 1, (value) => value)],
  ['last4', filter(0, 0, (value, call) => lastCharacters(text(value, call), 4))],
  ['reveal', filter(0, 4, reveal)],
  ['reveal_last', filter(1, 2, revealLast)],
  ['card_mask', filter(0, 4, cardMask)],
  ['card_exp', filter(1, 1, cardExpiry)],
  ['card_bin', filter(0, 1, cardBin)],
  ['pad_left', filter(1, 2, pad('left'))],
  ['pad_right', filter(1, 2, pad('right'))],
  ['stringify', filter(0, 0, stringify)],
  ['json_stringify', filter(0, 0, stringify)],
  ['to_string', filter(0, 0, toText)],
  ['to_number', filter(0, 0, toNumber)],
  ['to_boolean', filter(0, 0, toBoolean)],
  ['quote_json', filter(0, 0, quoteJson)],
  ['quote_yaml', filter(0, 0, quoteYaml)],
  ['quote_csv', filter(0, 0, quoteCsv)],
  ['to_base64', filter(0, 0, encode('base64'))],
  ['to_base16', filter(0, 0, encode('hex'))],
  ['hmac', filter(2, 2, hmac)],
  ['split', filter(1, 1, split)],
  ['first', filter(0, 0, first)],
  ['last', filter(0, 0, last)],
  ['upcase', filter(0, 0, (value, call) => text(value, call).toUpperCase())],
  ['downcase', filter(0, 0, (value, call) => text(value, call).toLowerCase())],
  ['remove', filter(1, 1, remove)],
  ['replace', filter(1, 2, replace)],
  ['slice', filter(1, 2, slice)],
  ['append', filter(1, 1, (value, call) => glue(text(value, call), textArgument(call, 0)))],
  ['prepend', filter(1, 1, (value, call) => glue(textArgument(call, 0), text(value, call)))],
  ['strip', filter(0, 0, (value, call) => text(value, call).trim())],
  ['size', filter(0, 0, size)],
  ['alias_preserve_format', filter(0, 2, alias(sameClass))],
  ['alias_preserve_length', filter(0, 2, alias(anyCharacter))],
  ['alias_card', filter(0, 2, aliasCard)],
]);

export const filterNames: readonly string[] = [...filters.keys()];

/** Alias filters return random values. They are allowed in ids only, because other expressions must be repeatable. */
export const isAliasFilter = (name: string): boolean => name.startsWith('alias_');

const unknownFilter = (name: string): ExpressionError => {
  const nearest = nearestName(name, filterNames);
  const more = nearest === undefined ? `: ${filterNames.join(', ')}` : `; did you mean \`${nearest}\`?`;
  return new ExpressionError('unknown_filter', `must use known filters only${more}`);
};

/** @throws ExpressionError for an unknown filter or a wrong number of arguments. */
export const checkFilter = ({ name, args }: FilterCall): void => {
  const known = filters.get(name);
  if (!known) throw unknownFilter(name);
  const { least, most } = known;
  if (args.length < least || args.length > most)
    throw badArgument({ name }, least === most ? `${least} arguments` : `${least} to ${most} arguments`);
};

/**
 * Applies filters that `checkFilter` accepted. Null passes through them, except `json`, which finds nothing in it, and `default`.
 * @param value undefined for one that the caller may not see: it passes through `json` too.
 * @param known the objects within the value whose names are known by their type.
 * @throws ExpressionError.
 */
export const applyFilters = (
  value: Json | Absent | undefined,
  calls: readonly FilterCall[],
  environment: ExpressionEnvironment,
  meter: Meter,
  known: readonly Known[] = [],
): Json | Absent | undefined => {
  let current: Json | Digest | Absent | undefined = value;
  for (const { name, args } of calls) {
    if (name === 'default' && (current === null || current === undefined || current instanceof Absent)) {
      current = args[0] ?? null;
      continue;
    }
    if (current === undefined || current instanceof Absent || (current === null && name !== 'json')) continue;
    spend(meter, WORK.filter);
    if (current instanceof Digest && name === 'to_base64') current = Buffer.from(current.hex, 'hex').toString('base64');
    else if (current instanceof Digest && name === 'to_base16') current = current.hex;
    else {
      const input: Json = current instanceof Digest ? current.hex : current;
      current = (filters.get(name) as Filter).apply(input, { name, args, environment, meter, known });
    }
  }
  return current instanceof Digest ? current.hex : current;
};
