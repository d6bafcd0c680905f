// The filters of the expression language: each takes a value and literal arguments and gives a value, in linear time.
// Pure; what needs a key or chance gets it from the environment. decisions.md section 4, background.md section 3.
import { query as jsonPath } from 'jsonpath-rfc9535';
import type { Json } from './json.ts';

export type Literal = string | number | boolean | null;

export type ExpressionEnvironment = {
  hmac(algorithm: string, key: string, text: string, encoding?: 'hex' | 'base64' | 'base64url'): string;
  /** A whole number from 0 to below max. */
  randomInt(max: number): number;
};

export type ExpressionErrorCode =
  | 'unclosed'
  | 'empty'
  | 'nested'
  | 'bad_character'
  | 'bad_filter'
  | 'unknown_filter'
  | 'bad_argument'
  | 'unknown_head'
  | 'not_one_value'
  | 'wrong_type'
  | 'too_deep'
  | 'too_large';

/** An expression that cannot be read or evaluated. The message names what is wrong and never holds a value. */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError';
  readonly code: ExpressionErrorCode;
  constructor(code: ExpressionErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** Longest JSONPath; its match() and search() see no longer pattern. */
const JSON_PATH_LENGTH_MAX = 400;
const PAD_LENGTH_MAX = 4096;
const SPLIT_PARTS_MAX = 10_000;
/** decisions.md section 4: nothing expands beyond 10 MB. */
export const EXPANDED_LENGTH_MAX = 10 * 1024 * 1024;

const wrongType = (filter: string, wanted: string) =>
  new ExpressionError('wrong_type', `the filter ${filter} needs ${wanted}`);
const badArgument = (filter: string, wanted: string) =>
  new ExpressionError('bad_argument', `the filter ${filter} needs ${wanted}`);

type Call = { name: string; args: Literal[]; environment: ExpressionEnvironment };
type Filter = (value: Json, call: Call) => Json;

/** A value as text: strings as they are, other scalars as JSON writes them, null empty, structure compact. */
export const textOf = (value: Json): string => {
  if (typeof value === 'string') return value;
  return value === null ? '' : JSON.stringify(value);
};

const text = (value: Json, { name }: Call): string => {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  throw wrongType(name, 'a string');
};

const wholeNumber = ({ name, args }: Call, at: number, least: number, most: number, otherwise?: number): number => {
  const value = args[at] ?? otherwise;
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number) || number < least || number > most)
    throw badArgument(name, `a whole number from ${least} to ${most}`);
  return number;
};

const textArgument = ({ name, args }: Call, at: number, otherwise?: string): string => {
  const value = args[at] ?? otherwise;
  if (typeof value !== 'string' && typeof value !== 'number') throw badArgument(name, 'a text argument');
  return String(value);
};

const oneCharacter = (call: Call, at: number, otherwise?: string): string => {
  const character = textArgument(call, at, otherwise);
  if ([...character].length !== 1) throw badArgument(call.name, 'an argument of one character');
  return character;
};

const bounded = (length: number): void => {
  if (length > EXPANDED_LENGTH_MAX) throw new ExpressionError('too_large', 'the expression expands beyond 10 MB');
};

/** By code points: half of a surrogate pair is no character. */
const characters = (value: string): string[] => [...value];

const isLetter = (character: string): boolean => /^\p{L}$/u.test(character);
const isDigit = (character: string): boolean => /^\p{Nd}$/u.test(character);

const take = (list: string[], from: number, count: number): string => list.slice(from, from + count).join('');

/** Fits a mask of n visible characters at the end: keeps dashes, masks letters, digits and spaces, leaves a short value whole. */
const revealLast: Filter = (value, call) => {
  const list = characters(text(value, call));
  const count = wholeNumber(call, 0, 0, PAD_LENGTH_MAX);
  if (list.length <= count) return list.join('');
  const hidden = list.length - count;
  return list
    .map((character, index) =>
      index < hidden && (character === ' ' || isLetter(character) || isDigit(character)) ? 'X' : character,
    )
    .join('');
};

/** Shows first and last characters; separators are masked too unless named in `preserve`; nothing is shown of a value too short to hide any. */
const reveal: Filter = (value, call) => {
  const list = characters(text(value, call));
  const first = wholeNumber(call, 0, 0, PAD_LENGTH_MAX, 0);
  const last = wholeNumber(call, 1, 0, PAD_LENGTH_MAX, 0);
  const mask = oneCharacter(call, 2, 'X');
  const preserved = new Set(textArgument(call, 3, ''));
  const all = first + last >= list.length;
  return list
    .map((character, index) => {
      if (preserved.has(character)) return character;
      return !all && (index < first || index >= list.length - last) ? character : mask;
    })
    .join('');
};

const digitsOnly = (value: string): string => value.replace(/[^0-9]/g, '');

const truthy = (value: Literal | undefined, otherwise: boolean): boolean =>
  value === undefined || value === null ? otherwise : value === true || value === 'true';

/** card_mask: show the BIN ('true'), show the last four ('true'), the mask character, the separator between groups of four. */
const cardMask: Filter = (value, call) => {
  const digits = digitsOnly(text(value, call));
  if (digits.length < 12) throw wrongType('card_mask', 'a card number');
  const mask = oneCharacter(call, 2, 'X');
  const separator = textArgument(call, 3, '');
  const bin = truthy(call.args[0], false) ? binLength(digits) : 0;
  const last = truthy(call.args[1], true) ? 4 : 0;
  const shown = [...digits].map((digit, index) => (index < bin || index >= digits.length - last ? digit : mask));
  if (separator === '') return shown.join('');
  const groups: string[] = [];
  for (let at = 0; at < shown.length; at += 4) groups.push(shown.slice(at, at + 4).join(''));
  return groups.join(separator);
};

/** ISO/IEC 7812-1 (2017): issuers of numbers of 16 digits and more have eight digits, the others six. PCI DSS lets a BIN and the last four be shown. */
const binLength = (digits: string): number => (digits.length >= 16 ? 8 : 6);

const cardBin: Filter = (value, call) => {
  const digits = digitsOnly(text(value, call));
  if (digits.length < 12) throw wrongType('card_bin', 'a card number');
  return digits.slice(0, binLength(digits));
};

/** card_exp: 'MM/YY' and the like, over an object with expiration_month and expiration_year. */
const cardExp: Filter = (value, call) => {
  const { expiration_month: month, expiration_year: year } = (value ?? {}) as Record<string, Json | undefined>;
  if (typeof month !== 'number' || typeof year !== 'number') throw wrongType('card_exp', 'a card with an expiry');
  const format = textArgument(call, 0, 'MM/YY');
  const fields: Record<string, string> = {
    YYYY: String(year).padStart(4, '0'),
    YY: String(year % 100).padStart(2, '0'),
    MM: String(month).padStart(2, '0'),
    M: String(month),
  };
  return format.replace(/YYYY|YY|MM|M/g, (field) => fields[field] as string);
};

const json: Filter = (value, call) => {
  const path = textArgument(call, 0);
  if (path.length > JSON_PATH_LENGTH_MAX)
    throw badArgument('json', `a path of at most ${JSON_PATH_LENGTH_MAX} characters`);
  let found: Json[];
  try {
    found = jsonPath(value, path) as Json[];
  } catch {
    throw badArgument('json', 'a valid JSONPath (RFC 9535)');
  }
  if (found.length > 1) throw new ExpressionError('not_one_value', 'the filter json must find one value');
  return found[0] ?? null;
};

const toNumber: Filter = (value, { name }) => {
  if (value === null || typeof value === 'number') return value;
  const number =
    typeof value === 'string' && /^\s*-?\d+(\.\d+)?([eE][+-]?\d+)?\s*$/.test(value) ? Number(value) : Number.NaN;
  if (!Number.isFinite(number)) throw wrongType(name, 'a number');
  return number;
};

const toBoolean: Filter = (value, { name }) => {
  if (value === null || typeof value === 'boolean') return value;
  if (value === 'true') return true;
  if (value === 'false') return false;
  throw wrongType(name, 'true or false');
};

const pad =
  (side: 'left' | 'right'): Filter =>
  (value, call) => {
    const content = text(value, call);
    const missing = wholeNumber(call, 0, 0, PAD_LENGTH_MAX) - characters(content).length;
    const fill = oneCharacter(call, 1, ' ').repeat(Math.max(0, missing));
    return side === 'left' ? fill + content : content + fill;
  };

const slice: Filter = (value, call) => {
  const start = wholeNumber(call, 0, -EXPANDED_LENGTH_MAX, EXPANDED_LENGTH_MAX);
  const count = wholeNumber(call, 1, 0, EXPANDED_LENGTH_MAX, 1);
  const list = Array.isArray(value) ? value : characters(text(value, call));
  const from = start < 0 ? list.length + start : start;
  if (from < 0) return Array.isArray(value) ? [] : '';
  const part = list.slice(from, from + count);
  return Array.isArray(value) ? part : part.join('');
};

const split: Filter = (value, call) => {
  const parts = text(value, call).split(textArgument(call, 0), SPLIT_PARTS_MAX + 1);
  if (parts.length > SPLIT_PARTS_MAX)
    throw new ExpressionError('too_large', `the filter split makes more than ${SPLIT_PARTS_MAX} parts`);
  return parts;
};

const replace: Filter = (value, call) => {
  const content = text(value, call);
  const wanted = textArgument(call, 0);
  const other = textArgument(call, 1, '');
  if (wanted === '') throw badArgument('replace', 'something to replace');
  const parts = content.split(wanted);
  bounded(content.length + (parts.length - 1) * (other.length - wanted.length));
  return parts.join(other);
};

const ends =
  (side: 'first' | 'last'): Filter =>
  (value, call) => {
    const list = Array.isArray(value) ? value : characters(text(value, call));
    return list.at(side === 'first' ? 0 : -1) ?? null;
  };

const size: Filter = (value, call) => (Array.isArray(value) ? value.length : characters(text(value, call)).length);

const join2 = (one: string, other: string): string => {
  bounded(one.length + other.length);
  return one + other;
};

const algorithms = new Set(['sha1', 'sha256', 'sha384', 'sha512']);
const encodings = new Set(['hex', 'base64', 'base64url'] as const);

/** hmac: key, algorithm (sha256), encoding (hex). */
const hmac: Filter = (value, call) => {
  const key = textArgument(call, 0);
  const algorithm = textArgument(call, 1, 'sha256').toLowerCase().replace('-', '');
  const encoding = textArgument(call, 2, 'hex') as 'hex';
  if (!algorithms.has(algorithm)) throw badArgument('hmac', 'one of sha1, sha256, sha384, sha512');
  if (!encodings.has(encoding)) throw badArgument('hmac', 'one of hex, base64, base64url');
  return call.environment.hmac(algorithm, key, text(value, call), encoding);
};

const LOWER = 'abcdefghijklmnopqrstuvwxyz';

/** Keeps `first` and `last` characters and every separator; other digits and letters are drawn in their class. */
const aliasFormat: Filter = (value, call) => {
  const list = characters(text(value, call));
  const first = wholeNumber(call, 0, 0, PAD_LENGTH_MAX, 0);
  const last = wholeNumber(call, 1, 0, PAD_LENGTH_MAX, 0);
  const { randomInt } = call.environment;
  return list
    .map((character, index) => {
      if (index < first || index >= list.length - last) return character;
      if (isDigit(character)) return String(randomInt(10));
      if (!isLetter(character)) return character;
      const drawn = LOWER[randomInt(26)] as string;
      return character === character.toLowerCase() ? drawn : drawn.toUpperCase();
    })
    .join('');
};

const ALPHANUMERIC = `0123456789${LOWER}${LOWER.toUpperCase()}`;

const aliasLength: Filter = (value, call) => {
  const list = characters(text(value, call));
  const first = wholeNumber(call, 0, 0, PAD_LENGTH_MAX, 0);
  const last = wholeNumber(call, 1, 0, PAD_LENGTH_MAX, 0);
  return list
    .map((character, index) =>
      index < first || index >= list.length - last
        ? character
        : (ALPHANUMERIC[call.environment.randomInt(ALPHANUMERIC.length)] as string),
    )
    .join('');
};

const ALIAS_CARD_DRAWS = 20;

/** A number of the same length, first six and last four kept, that passes Luhn and is another. */
const aliasCard: Filter = (value, call) => {
  const number = text(value, call);
  if (!/^[0-9]{13,19}$/.test(number)) throw wrongType('alias_card', 'a card number');
  const { randomInt } = call.environment;
  for (let draw = 0; draw < ALIAS_CARD_DRAWS; draw += 1) {
    const digits = [...number].map((digit, index) =>
      index < 6 || index >= number.length - 4 ? Number(digit) : randomInt(10),
    );
    // One drawn digit is solved for, so that the check digit holds.
    digits[6] = 0;
    const wanted = (10 - (luhnSum(digits) % 10)) % 10;
    const doubled = (digits.length - 6) % 2 === 0;
    digits[6] = doubled ? (wanted % 2 === 0 ? wanted / 2 : (wanted + 9) / 2) : wanted;
    const alias = digits.join('');
    if (alias !== number) return alias;
  }
  return number;
};

const luhnSum = (digits: number[]): number =>
  digits
    .toReversed()
    .reduce((sum, digit, index) => sum + (index % 2 === 0 ? digit : digit > 4 ? digit * 2 - 9 : digit * 2), 0);

/** By name; a Map, so that no name reaches a prototype. */
const filters = new Map<string, Filter>([
  ['json', json],
  [
    'last4',
    (value, call) => take(characters(text(value, call)), Math.max(0, characters(text(value, call)).length - 4), 4),
  ],
  ['reveal', reveal],
  ['reveal_last', revealLast],
  ['card_mask', cardMask],
  ['card_exp', cardExp],
  ['card_bin', cardBin],
  ['pad_left', pad('left')],
  ['pad_right', pad('right')],
  ['stringify', (value) => JSON.stringify(value)],
  ['json_stringify', (value) => JSON.stringify(value)],
  ['to_string', (value) => (value === null ? null : textOf(value))],
  ['to_number', toNumber],
  ['to_boolean', toBoolean],
  ['to_base64', (value, call) => Buffer.from(text(value, call), 'utf8').toString('base64')],
  ['to_base16', (value, call) => Buffer.from(text(value, call), 'utf8').toString('hex')],
  ['hmac', hmac],
  ['split', split],
  ['first', ends('first')],
  ['last', ends('last')],
  ['upcase', (value, call) => text(value, call).toUpperCase()],
  ['downcase', (value, call) => text(value, call).toLowerCase()],
  ['remove', (value, call) => text(value, call).replaceAll(textArgument(call, 0), '')],
  ['replace', replace],
  ['slice', slice],
  ['append', (value, call) => join2(text(value, call), textArgument(call, 0))],
  ['prepend', (value, call) => join2(textArgument(call, 0), text(value, call))],
  ['strip', (value, call) => text(value, call).trim()],
  ['size', size],
  ['alias_preserve_format', aliasFormat],
  ['alias_preserve_length', aliasLength],
  ['alias_card', aliasCard],
]);

export const isFilter = (name: string): boolean => filters.has(name);

/** Filters that draw: they make ids, and nothing else may depend on chance. */
export const isAliasFilter = (name: string): boolean => name.startsWith('alias_');

/** Most arguments any filter takes. */
export const FILTER_ARGUMENTS_MAX = 4;

/** @throws ExpressionError. A null passes through filters that change text: what is absent stays absent. */
export const applyFilter = (name: string, args: Literal[], value: Json, environment: ExpressionEnvironment): Json => {
  const filter = filters.get(name) as Filter;
  if (value === null && !['stringify', 'json_stringify', 'json'].includes(name)) return null;
  return filter(value, { name, args, environment });
};
