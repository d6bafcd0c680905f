// Filters over texts and lists, casts and encodings. Those that Liquid has behave as Liquid's.
// No argument becomes a regular expression, and sizes are checked before a text is made.
import {
  badArgument,
  bounded,
  type Call,
  characters,
  Digest,
  oneCharacter,
  PAD_LENGTH_MAX,
  text,
  textArgument,
  wholeNumber,
  wrongType,
  yesOrNo,
} from './filter-call.ts';
import { type Json, numberProblem } from '../../../platform/json/json.ts';
import { ExpressionError } from './expression-error.ts';
import { EXPANDED_BYTES_MAX, spend, WORK } from './meter.ts';

// Mask filters: show a part of a value and hide the rest. If the whole value would be visible, they hide all of it.

export const isCardDigit = (character: string): boolean => character >= '0' && character <= '9';

/** Masks everything but dashes and the last characters, symbols too. A value no longer than the count is shown whole. */
export const revealLast = (value: Json, call: Call): string => {
  const list = characters(text(value, call), call);
  const hidden = list.length - wholeNumber(call, 0, 0, PAD_LENGTH_MAX);
  const mask = oneCharacter(call, 1, 'X');
  return list.map((character, index) => (index < hidden && character !== '-' ? mask : character)).join('');
};

/** Hides the whole value if the counts or the preserved characters would show all of it. */
export const reveal = (value: Json, call: Call): string => {
  const content = text(value, call);
  const list = characters(content, call);
  const first = wholeNumber(call, 0, 0, PAD_LENGTH_MAX, 0);
  const last = wholeNumber(call, 1, 0, PAD_LENGTH_MAX, 0);
  const mask = oneCharacter(call, 2, 'X');
  const preserved = new Set(textArgument(call, 3, ''));
  if (first + last < list.length) {
    const shown = list.map((character, index) =>
      index < first || index >= list.length - last || preserved.has(character) ? character : mask,
    );
    const masked = shown.join('');
    if (masked !== content) return masked;
  }
  return mask.repeat(list.length);
};

const CARD_LENGTH_MAX = 64;

/** The characters of a card number and the number of its digits, 12 to 19. */
export const cardNumber = (value: Json, call: Call): { list: string[]; digits: number } => {
  const content = text(value, call);
  const list = content.length <= CARD_LENGTH_MAX ? characters(content, call) : [];
  const digits = list.filter(isCardDigit).length;
  if (digits < 12 || digits > 19) throw wrongType(call, 'a card number');
  return { list, digits };
};

/** ISO/IEC 7812-1 (2017): the issuer number has eight digits for numbers of 16 digits or more, six for shorter ones. */
export const binLength = (digits: number): number => (digits >= 16 ? 8 : 6);

/** Maps each digit with its place among the digits, and every other character. */
export const mapCard = (
  list: string[],
  digit: (digit: string, place: number) => string,
  other: (character: string) => string,
) => {
  let place = 0;
  return list.map((character) => (isCardDigit(character) ? digit(character, place++) : other(character))).join('');
};

/** card_mask: whether to show the BIN, whether to show the last four, the mask character, the separator that stays. */
export const cardMask = (value: Json, call: Call): string => {
  const { list, digits } = cardNumber(value, call);
  const bin = yesOrNo(call, 0, false) ? binLength(digits) : 0;
  const last = yesOrNo(call, 1, false) ? 4 : 0;
  const mask = oneCharacter(call, 2, 'X');
  const separators = new Set(textArgument(call, 3, ''));
  return mapCard(
    list,
    (digit, place) => (place < bin || place >= digits - last ? digit : mask),
    (character) => (separators.has(character) ? character : mask),
  );
};

export const cardBin = (value: Json, call: Call): string => {
  const { list, digits } = cardNumber(value, call);
  return list.filter(isCardDigit).slice(0, binLength(digits)).join('');
};

/** card_exp: 'MM/YY' and similar formats of an object with expiration_month and expiration_year. */
export const cardExpiry = (value: Json, call: Call): string => {
  const format = textArgument(call, 0);
  if (!/^(?:MM|YYYY|YY)(?:[-/_ .]?(?:MM|YYYY|YY))?$/.test(format)) throw badArgument(call, "a format such as 'MM/YY'");
  const card = typeof value === 'object' && value !== null ? new Map(Object.entries(value)) : new Map<string, Json>();
  const month = card.get('expiration_month');
  const year = card.get('expiration_year');
  if (typeof month !== 'number' || typeof year !== 'number') throw wrongType(call, 'a card with month and year');
  const fields = new Map([
    ['YYYY', String(year).padStart(4, '0')],
    ['YY', String(year % 100).padStart(2, '0')],
    ['MM', String(month).padStart(2, '0')],
  ]);
  return format.replace(/YYYY|YY|MM/g, (field) => fields.get(field) as string);
};

const SPLIT_PARTS_MAX = 10_000;
const NUMBER_LENGTH_MAX = 400;
/** With a longer needle a text search is no longer linear (measured: 4,000 characters take a second for each megabyte). */
const NEEDLE_LENGTH_MAX = 200;

const needle = (call: Call, at: number): string => {
  const value = textArgument(call, at);
  if (value.length > NEEDLE_LENGTH_MAX)
    throw badArgument(call, `a text of at most ${NEEDLE_LENGTH_MAX} characters to look for`);
  return value;
};

/** The last code points of a text, without splitting all of it: n code points are within the last 2n units. */
export const lastCharacters = (content: string, count: number): string => {
  if (count === 0) return '';
  const tail = content.slice(-2 * count);
  return Array.from(tail).slice(-count).join('');
};

export const toText = (value: Json, call: Call): string => {
  if (typeof value === 'object') throw wrongType(call, 'a string, a number or a boolean');
  return typeof value === 'string' ? value : String(value);
};

export const toNumber = (value: Json, call: Call): number => {
  if (typeof value === 'number') return value;
  const readable =
    typeof value === 'string' &&
    value.length <= NUMBER_LENGTH_MAX &&
    /^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/.test(value.trim());
  const number = readable ? Number(value) : Number.NaN;
  if (numberProblem(number) !== undefined) throw wrongType(call, 'what can be cast to a number exactly');
  return number;
};

export const toBoolean = (value: Json, call: Call): boolean => {
  if (typeof value === 'boolean') return value;
  if (value === 'true') return true;
  if (value === 'false') return false;
  throw wrongType(call, 'what can be cast to true or false');
};

export const encode =
  (encoding: 'base64' | 'hex') =>
  (value: Json, call: Call): string => {
    const content = text(value, call);
    bounded(Buffer.byteLength(content) * (encoding === 'hex' ? 2 : 4 / 3));
    const encoded = Buffer.from(content, 'utf8').toString(encoding);
    return encoding === 'hex' ? encoded.toUpperCase() : encoded;
  };

const algorithms = new Map([
  ['sha-1', 'sha1'],
  ['sha-256', 'sha256'],
  ['sha-384', 'sha384'],
  ['sha-512', 'sha512'],
]);

/** hmac: algorithm, key. */
export const hmac = (value: Json, call: Call): Digest => {
  const wanted = textArgument(call, 0, 'sha-256').toLowerCase();
  const algorithm =
    algorithms.get(wanted) ?? (wanted.startsWith('sha-') ? undefined : algorithms.get(wanted.replace('sha', 'sha-')));
  if (algorithm === undefined) throw badArgument(call, 'an algorithm: sha-1, sha-256, sha-384 or sha-512');
  spend(call.meter, WORK.hmac);
  return new Digest(call.environment.hmac(algorithm, textArgument(call, 1), text(value, call), 'hex').toUpperCase());
};

export const pad =
  (side: 'left' | 'right') =>
  (value: Json, call: Call): string => {
    const content = text(value, call);
    const length = wholeNumber(call, 0, 0, PAD_LENGTH_MAX);
    const character = oneCharacter(call, 1, ' ');
    const missing = content.length > 2 * length ? 0 : length - characters(content, call).length;
    const fill = character.repeat(Math.max(0, missing));
    return side === 'left' ? fill + content : content + fill;
  };

const listOrCharacters = (value: Json, call: Call): Json[] =>
  Array.isArray(value) ? value : characters(text(value, call), call);

/** Slices like Liquid: a start, negative from the end, and a length, one by default. */
export const slice = (value: Json, call: Call): Json => {
  const start = wholeNumber(call, 0, -EXPANDED_BYTES_MAX, EXPANDED_BYTES_MAX);
  const count = wholeNumber(call, 1, 0, EXPANDED_BYTES_MAX, 1);
  const list = listOrCharacters(value, call);
  const from = start < 0 ? list.length + start : start;
  const part = from < 0 ? [] : list.slice(from, from + count);
  spend(call.meter, part.length * WORK.character);
  return Array.isArray(value) ? part : part.join('');
};

/** Splits like Liquid: empty parts at the end are dropped; an empty separator splits into characters. */
export const split = (value: Json, call: Call): string[] => {
  const content = text(value, call);
  const separator = needle(call, 0);
  if (separator === '' && content.length > 2 * SPLIT_PARTS_MAX) throw tooManyParts();
  const parts = separator === '' ? characters(content, call) : content.split(separator, SPLIT_PARTS_MAX + 1);
  if (parts.length > SPLIT_PARTS_MAX) throw tooManyParts();
  spend(call.meter, parts.length * WORK.splitCharacter);
  while (parts.at(-1) === '') parts.pop();
  return parts;
};

const tooManyParts = () =>
  new ExpressionError('too_large', `must not make more than ${SPLIT_PARTS_MAX} parts with the filter split`);

export const replace = (value: Json, call: Call): string => {
  const content = text(value, call);
  const wanted = needle(call, 0);
  const other = textArgument(call, 1, '');
  if (wanted === '') throw badArgument(call, 'something to look for');
  let matches = 0;
  for (let at = content.indexOf(wanted); at !== -1; at = content.indexOf(wanted, at + wanted.length)) matches += 1;
  const length = content.length + matches * (other.length - wanted.length);
  bounded(length);
  spend(call.meter, matches * WORK.match + length * WORK.character);
  return content.replaceAll(wanted, () => other);
};

export const remove = (value: Json, call: Call): string => {
  const content = text(value, call);
  const unwanted = needle(call, 0);
  spend(call.meter, content.length * WORK.character);
  return unwanted === '' ? content : content.replaceAll(unwanted, '');
};

export const first = (value: Json, call: Call): Json => {
  if (Array.isArray(value)) return value[0] ?? null;
  return Array.from(text(value, call).slice(0, 2))[0] ?? null;
};

export const last = (value: Json, call: Call): Json => {
  if (Array.isArray(value)) return value.at(-1) ?? null;
  return lastCharacters(text(value, call), 1) || null;
};

export const size = (value: Json, call: Call): number => {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    const { length } = Object.keys(value);
    spend(call.meter, length * WORK.name);
    return length;
  }
  return listOrCharacters(value, call).length;
};

export const glue = (one: string, other: string): string => {
  bounded(one.length + other.length);
  return one + other;
};
