// Filters over texts and lists, casts and encodings. Those that Liquid has behave as Liquid's.
// No argument becomes a regular expression, and sizes are checked before a text is made.
import { ExpressionError } from './expression-error.ts';
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
} from './filter-call.ts';
import { type Json, numberProblem } from '../../../platform/json/json.ts';
import { EXPANDED_BYTES_MAX, spend, WORK } from './meter.ts';

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

/** As in Liquid: a start, negative from the end, and a length, one by default. */
export const slice = (value: Json, call: Call): Json => {
  const start = wholeNumber(call, 0, -EXPANDED_BYTES_MAX, EXPANDED_BYTES_MAX);
  const count = wholeNumber(call, 1, 0, EXPANDED_BYTES_MAX, 1);
  const list = listOrCharacters(value, call);
  const from = start < 0 ? list.length + start : start;
  const part = from < 0 ? [] : list.slice(from, from + count);
  spend(call.meter, part.length * WORK.character);
  return Array.isArray(value) ? part : part.join('');
};

/** As in Liquid: empty parts at the end are dropped; an empty separator splits into characters. */
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
