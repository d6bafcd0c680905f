// The filters of the expression language: each takes a value and literal arguments and gives a value, in linear time.
// Pure: keys and chance come from the environment, and no argument becomes a regular expression.
// Sources: decisions.md section 4, background.md section 3.
import { query as jsonPath } from 'jsonpath-rfc9535';
import parseJsonPath, { type JsonPathQuery } from 'jsonpath-rfc9535/parser';
import { type Json, numberProblem } from './json.ts';

export type Literal = string | number | boolean | null;

/** What filters may ask of the world. */
export type ExpressionEnvironment = {
  /** A digest under the caller's own key, never one of ours. `algorithm` is sha1, sha256, sha384 or sha512. */
  hmac(algorithm: string, key: string, text: string, encoding?: 'hex' | 'base64' | 'base64url'): string;
  /** A whole number from 0 to below max. Only where it is given may an alias be drawn. */
  randomInt?(max: number): number;
};

export type ExpressionErrorCode =
  | 'unclosed'
  | 'empty'
  | 'nested'
  | 'too_long'
  | 'bad_character'
  | 'bad_filter'
  | 'unknown_filter'
  | 'misplaced_filter'
  | 'bad_argument'
  | 'unknown_head'
  | 'unknown_token'
  | 'not_one_value'
  | 'wrong_type'
  | 'no_alias'
  | 'too_deep'
  | 'too_complex'
  | 'too_many_placeholders'
  | 'too_many_tokens'
  | 'too_large';

/**
 * An expression that cannot be read or evaluated. The message names what is wrong and never holds a value or the
 * expression itself. `offset` counts UTF-16 units from the start of the template, where one is known.
 */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError';
  readonly code: ExpressionErrorCode;
  readonly offset: number | undefined;

  constructor(code: ExpressionErrorCode, message: string, offset?: number) {
    super(message);
    this.code = code;
    this.offset = offset;
  }
}

/** decisions.md section 4: nothing expands beyond 10 MB. */
export const EXPANDED_BYTES_MAX = 10 * 1024 * 1024;

/** Characters that filters may read in one evaluation: a few seconds' worth of abuse, and far above honest use. */
const WORK_MAX = 2 * EXPANDED_BYTES_MAX;

/** A node that JSONPath visits costs as much as about ten characters (measured). */
const WORK_PER_NODE = 10;

const JSON_PATH_LENGTH_MAX = 400;
const PAD_LENGTH_MAX = 4096;
const SPLIT_PARTS_MAX = 10_000;
const NUMBER_LENGTH_MAX = 400;
/** Longer needles let a text search fall from linear to quadratic (measured: 4,000 characters, one second a megabyte). */
const NEEDLE_LENGTH_MAX = 200;

/** What one evaluation, or one request of many places, has used so far. */
export type Meter = { work: number; bytes: number; placeholders: number };

export const createMeter = (): Meter => ({ work: 0, bytes: 0, placeholders: 0 });

type Call = { name: string; args: readonly Literal[]; environment: ExpressionEnvironment; meter: Meter };

/** A digest on its way to an encoding: `hmac` gives bytes, and the encoding filters write them (background.md section 3). */
class Digest {
  readonly hex: string;
  constructor(hex: string) {
    this.hex = hex;
  }
}

type Filter = { least: number; most: number; apply: (value: Json, call: Call) => Json | Digest };

const wrongType = ({ name }: Call, wanted: string) =>
  new ExpressionError('wrong_type', `must give the filter ${name} ${wanted}`);

const badArgument = ({ name }: Pick<Call, 'name'>, wanted: string) =>
  new ExpressionError('bad_argument', `must give the filter ${name} ${wanted}`);

const tooLarge = () => new ExpressionError('too_large', 'must not expand beyond 10 MB');

const bounded = (length: number): void => {
  if (length > EXPANDED_BYTES_MAX) throw tooLarge();
};

const spend = ({ meter }: Pick<Call, 'meter'>, work: number): void => {
  meter.work += work;
  if (meter.work > WORK_MAX) throw new ExpressionError('too_complex', 'must take less work to evaluate');
};

/** The size of a value as compact JSON in UTF-8, escapes not counted; a number above `most` as soon as it is that. */
export const jsonBytes = (value: Json, most: number): number => {
  let bytes = 0;
  const waiting: Json[] = [value];
  while (waiting.length > 0 && bytes <= most) {
    const next = waiting.pop() as Json;
    if (typeof next === 'string') bytes += Buffer.byteLength(next) + 2;
    else if (typeof next !== 'object' || next === null) bytes += String(next).length;
    else if (Array.isArray(next)) {
      bytes += next.length + 1;
      for (const item of next) waiting.push(item);
    } else {
      bytes += 1;
      for (const key of Object.keys(next)) {
        bytes += Buffer.byteLength(key) + 4;
        waiting.push(next[key] as Json);
      }
    }
  }
  return bytes;
};

/** A value as text: strings as they are, other scalars as JSON writes them, null empty, structure compact. Size unchecked. */
export const textOf = (value: Json): string => {
  if (typeof value === 'string') return value;
  return value === null ? '' : JSON.stringify(value);
};

const text = (value: Json, call: Call): string => {
  if (typeof value !== 'string' && typeof value !== 'number') throw wrongType(call, 'a string');
  const content = String(value);
  spend(call, content.length);
  return content;
};

const stringify = (value: Json, call: Call): string => {
  const bytes = jsonBytes(value, EXPANDED_BYTES_MAX);
  bounded(bytes);
  spend(call, bytes);
  return JSON.stringify(value);
};

const wholeNumber = (call: Call, at: number, least: number, most: number, otherwise?: number): number => {
  const value = call.args[at] ?? otherwise;
  const number = typeof value === 'string' && /^-?[0-9]{1,9}$/.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number) || number < least || number > most)
    throw badArgument(call, `a whole number from ${least} to ${most}`);
  return number;
};

const textArgument = (call: Call, at: number, otherwise?: string): string => {
  const value = call.args[at] ?? otherwise;
  if (typeof value !== 'string' && typeof value !== 'number') throw badArgument(call, 'a text as its argument');
  return String(value);
};

const needle = (call: Call, at: number): string => {
  const value = textArgument(call, at);
  if (value.length > NEEDLE_LENGTH_MAX)
    throw badArgument(call, `a text of at most ${NEEDLE_LENGTH_MAX} characters to look for`);
  return value;
};

const oneCharacter = (call: Call, at: number, otherwise: string): string => {
  const character = textArgument(call, at, otherwise);
  if (characters(character).length !== 1) throw badArgument(call, 'an argument of one character');
  return character;
};

const yesOrNo = (call: Call, at: number, otherwise: boolean): boolean => {
  const value = call.args[at] ?? otherwise;
  if (value === true || value === 'true') return true;
  if (value === false || value === 'false') return false;
  throw badArgument(call, 'arguments of true or false');
};

/** By code points: half of a surrogate pair is no character. */
const characters = (value: string): string[] => Array.from(value);

/** The end of a text, without taking the whole apart: n code points are within the last 2n units. */
const lastCharacters = (content: string, count: number): string => {
  if (count === 0) return '';
  const tail = content.slice(-2 * count);
  return characters(tail).slice(-count).join('');
};

const isLetter = (character: string): boolean => /^\p{L}$/u.test(character);
const isDigit = (character: string): boolean => /^\p{Nd}$/u.test(character);
const isCardDigit = (character: string): boolean => character >= '0' && character <= '9';

// --- Masks ---

/** Dashes stay; all else is masked, symbols too, since what the examples do not show is not shown. A value no longer than n is whole. */
const revealLast = (value: Json, call: Call): string => {
  const list = characters(text(value, call));
  const hidden = list.length - wholeNumber(call, 0, 0, PAD_LENGTH_MAX);
  const mask = oneCharacter(call, 1, 'X');
  return list.map((character, index) => (index < hidden && character !== '-' ? mask : character)).join('');
};

/** What would show the whole value, by its counts or by what it preserves, shows nothing of it. */
const reveal = (value: Json, call: Call): string => {
  const content = text(value, call);
  const list = characters(content);
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

/** The characters of a card number and how many are digits: 13 to 19, as decisions.md section 2 has it. */
const cardNumber = (value: Json, call: Call): { list: string[]; digits: number } => {
  const content = text(value, call);
  const list = content.length <= CARD_LENGTH_MAX ? characters(content) : [];
  const digits = list.filter(isCardDigit).length;
  if (digits < 13 || digits > 19) throw wrongType(call, 'a card number');
  return { list, digits };
};

/** ISO/IEC 7812-1 (2017): eight digits name the issuer of numbers of 16 digits and more, six that of shorter ones. */
const binLength = (digits: number): number => (digits >= 16 ? 8 : 6);

/** Maps each digit with its place among the digits, and every other character by itself. */
const mapCard = (
  list: string[],
  digit: (digit: string, place: number) => string,
  other: (character: string) => string,
) => {
  let place = 0;
  return list.map((character) => (isCardDigit(character) ? digit(character, place++) : other(character))).join('');
};

/** card_mask: show the BIN, show the last four, the mask character, a separator that stays. */
const cardMask = (value: Json, call: Call): string => {
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

const cardBin = (value: Json, call: Call): string => {
  const { list, digits } = cardNumber(value, call);
  return list.filter(isCardDigit).slice(0, binLength(digits)).join('');
};

/** card_exp: 'MM/YY' and the like, over an object with expiration_month and expiration_year. */
const cardExpiry = (value: Json, call: Call): string => {
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

// --- JSONPath ---

type PathSegment = JsonPathQuery['segments'][number];
type PathSelector = Extract<PathSegment['node'], { selectors: unknown }>['selectors'][number] | PathSegment['node'];
type PathFilter = Extract<PathSelector, { type: 'FilterSelector' }>['value'];
type PathOperand = Extract<PathFilter, { type: 'ComparisonExpr' }>['left'] | PathFilter;
type PathFunction = Extract<PathOperand, { type: 'FunctionExpr' }>;

/** How large the value is that a query starts from: nodes (long strings count as several), levels, and nodes from `$`. */
type Extent = { nodes: number; levels: number; total: number };

const selectorsOf = ({ node }: PathSegment): readonly PathSelector[] =>
  node.type === 'BracketedSelection' ? node.selectors : [node];

const isSingular = ({ type }: PathSelector): boolean =>
  type === 'NameSelector' || type === 'MemberNameShorthand' || type === 'IndexSelector';

const extentOf = (value: Json): Extent => {
  const extent = { nodes: 0, levels: 1, total: 0 };
  const waiting: [Json, number][] = [[value, 1]];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [item, level] = next;
    extent.nodes += typeof item === 'string' ? 1 + item.length / 16 : 1;
    extent.levels = Math.max(extent.levels, level);
    if (typeof item === 'object' && item !== null)
      for (const child of Object.values(item)) waiting.push([child, level + 1]);
  }
  extent.total = extent.nodes;
  return extent;
};

/**
 * An upper bound of the nodes a query visits. RFC 9535 lets nodelists hold a node many times, so that `..*..*` and
 * `[0,0][0,0]` grow as powers; the library has no limit of its own, hence the bound before it starts.
 */
const queryCost = (segments: readonly PathSegment[], extent: Extent): number => {
  let cost = 1;
  let reached = 1;
  let copies = 1;
  for (const segment of segments) {
    const selectors = selectorsOf(segment);
    const descends = segment.type === 'DescendantSegment';
    // A node is below as many of the others as there are levels above it: so often a descent may reach it.
    copies *= selectors.length * (descends ? Math.min(extent.levels, reached) : 1);
    const single = !descends && selectors.every(isSingular);
    reached = Math.min(single ? reached * selectors.length : Infinity, extent.nodes * copies);
    // A filter looks below each node it tries. All those parts together are no more than every node once a level.
    const below = { ...extent, nodes: extent.levels };
    let each = 1;
    for (const selector of selectors) if (selector.type === 'FilterSelector') each += filterCost(selector.value, below);
    cost += reached * each;
  }
  return cost;
};

const filterCost = (filter: PathOperand | PathFunction['arguments'][number], extent: Extent): number => {
  switch (filter.type) {
    case 'LogicalOrExpr':
    case 'LogicalAndExpr':
      return filterCost(filter.left, extent) + filterCost(filter.right, extent);
    case 'ComparisonExpr': {
      // Two values that are the same for every node may both be large, and are compared anew for each.
      const fixed = [filter.left, filter.right].every(
        ({ type }) => type === 'AbsSingularQuery' || type === 'FunctionExpr',
      );
      return filterCost(filter.left, extent) + filterCost(filter.right, extent) + (fixed ? extent.total : 1);
    }
    case 'LogicalNotExpr':
    case 'TestExpr':
      return filterCost(filter.expression, extent);
    case 'FilterQuery':
      return queryCost(
        filter.value.segments,
        filter.value.type === 'RelQuery' ? extent : { ...extent, nodes: extent.total },
      );
    case 'FunctionExpr': {
      const relative = filter.arguments.every(
        (argument) =>
          argument.type === 'Literal' || (argument.type === 'FilterQuery' && argument.value.type === 'RelQuery'),
      );
      const read = relative ? extent.nodes : extent.total;
      return filter.arguments.reduce((cost, argument) => cost + filterCost(argument, extent), read);
    }
    case 'RelSingularQuery':
    case 'AbsSingularQuery':
      return filter.segments.length;
    case 'Literal':
      return 1;
  }
};

/** match() and search() would run the caller's pattern on a backtracking engine: no length makes that safe. */
const usesPatterns = (node: unknown): boolean => {
  if (typeof node !== 'object' || node === null) return false;
  const { type, name } = node as { type?: unknown; name?: unknown };
  if (type === 'FunctionExpr' && (name === 'match' || name === 'search')) return true;
  return Object.values(node).some(usesPatterns);
};

/** RFC 9535; at most one value, none is null. */
const json = (value: Json, call: Call): Json => {
  const path = textArgument(call, 0);
  if (path.length > JSON_PATH_LENGTH_MAX)
    throw badArgument(call, `a path of at most ${JSON_PATH_LENGTH_MAX} characters`);
  let query: JsonPathQuery;
  try {
    query = parseJsonPath(path);
  } catch {
    throw badArgument(call, 'a valid JSONPath (RFC 9535)');
  }
  if (usesPatterns(query)) throw badArgument(call, 'a JSONPath without match() and search()');
  const { segments } = query;
  if (
    !segments.every(
      (segment) =>
        segment.type === 'ChildSegment' && selectorsOf(segment).every(isSingular) && selectorsOf(segment).length === 1,
    )
  ) {
    const extent = extentOf(value);
    spend(call, extent.nodes + queryCost(segments, extent) * WORK_PER_NODE);
  }
  const found = jsonPath(value, path) as Json[];
  if (found.length > 1) throw new ExpressionError('not_one_value', 'must find one value with the filter json');
  return found[0] ?? null;
};

// --- Casts and encodings ---

const toText = (value: Json, call: Call): string => {
  if (typeof value === 'object') throw wrongType(call, 'a string, a number or a boolean');
  return typeof value === 'string' ? value : String(value);
};

const toNumber = (value: Json, call: Call): number => {
  if (typeof value === 'number') return value;
  const readable =
    typeof value === 'string' &&
    value.length <= NUMBER_LENGTH_MAX &&
    /^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/.test(value.trim());
  const number = readable ? Number(value) : Number.NaN;
  if (numberProblem(number) !== undefined) throw wrongType(call, 'what can be cast to a number exactly');
  return number;
};

const toBoolean = (value: Json, call: Call): boolean => {
  if (typeof value === 'boolean') return value;
  if (value === 'true') return true;
  if (value === 'false') return false;
  throw wrongType(call, 'what can be cast to true or false');
};

const encode =
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
const hmac = (value: Json, call: Call): Digest => {
  const wanted = textArgument(call, 0, 'sha-256').toLowerCase();
  const algorithm =
    algorithms.get(wanted) ?? (wanted.startsWith('sha-') ? undefined : algorithms.get(wanted.replace('sha', 'sha-')));
  if (algorithm === undefined) throw badArgument(call, 'an algorithm: sha-1, sha-256, sha-384 or sha-512');
  return new Digest(call.environment.hmac(algorithm, textArgument(call, 1), text(value, call), 'hex').toUpperCase());
};

// --- Texts and lists ---

const pad =
  (side: 'left' | 'right') =>
  (value: Json, call: Call): string => {
    const content = text(value, call);
    const length = wholeNumber(call, 0, 0, PAD_LENGTH_MAX);
    const character = oneCharacter(call, 1, ' ');
    const missing = content.length > 2 * length ? 0 : length - characters(content).length;
    const fill = character.repeat(Math.max(0, missing));
    return side === 'left' ? fill + content : content + fill;
  };

const listOrCharacters = (value: Json, call: Call): Json[] =>
  Array.isArray(value) ? value : characters(text(value, call));

/** Liquid's: a start, negative from the end, and a length of one unless given. */
const slice = (value: Json, call: Call): Json => {
  const start = wholeNumber(call, 0, -EXPANDED_BYTES_MAX, EXPANDED_BYTES_MAX);
  const count = wholeNumber(call, 1, 0, EXPANDED_BYTES_MAX, 1);
  const list = listOrCharacters(value, call);
  const from = start < 0 ? list.length + start : start;
  const part = from < 0 ? [] : list.slice(from, from + count);
  return Array.isArray(value) ? part : part.join('');
};

/** Liquid's: parts that are empty at the end are dropped; an empty separator takes the characters apart. */
const split = (value: Json, call: Call): string[] => {
  const content = text(value, call);
  const separator = needle(call, 0);
  if (separator === '' && content.length > 2 * SPLIT_PARTS_MAX) throw tooManyParts();
  const parts = separator === '' ? characters(content) : content.split(separator, SPLIT_PARTS_MAX + 1);
  if (parts.length > SPLIT_PARTS_MAX) throw tooManyParts();
  while (parts.at(-1) === '') parts.pop();
  return parts;
};

const tooManyParts = () =>
  new ExpressionError('too_large', `must not make more than ${SPLIT_PARTS_MAX} parts with the filter split`);

const replace = (value: Json, call: Call): string => {
  const content = text(value, call);
  const wanted = needle(call, 0);
  const other = textArgument(call, 1, '');
  if (wanted === '') throw badArgument(call, 'something to look for');
  let matches = 0;
  for (let at = content.indexOf(wanted); at !== -1; at = content.indexOf(wanted, at + wanted.length)) matches += 1;
  const length = content.length + matches * (other.length - wanted.length);
  bounded(length);
  spend(call, length);
  return content.replaceAll(wanted, () => other);
};

const remove = (value: Json, call: Call): string => {
  const content = text(value, call);
  const unwanted = needle(call, 0);
  return unwanted === '' ? content : content.replaceAll(unwanted, '');
};

const first = (value: Json, call: Call): Json => {
  if (Array.isArray(value)) return value[0] ?? null;
  return characters(text(value, call).slice(0, 2))[0] ?? null;
};

const last = (value: Json, call: Call): Json => {
  if (Array.isArray(value)) return value.at(-1) ?? null;
  return lastCharacters(text(value, call), 1) || null;
};

const size = (value: Json, call: Call): number => {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return Object.keys(value).length;
  return listOrCharacters(value, call).length;
};

const glue = (one: string, other: string): string => {
  bounded(one.length + other.length);
  return one + other;
};

// --- Aliases ---

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const ALPHANUMERIC = `0123456789${LETTERS}${LETTERS.toUpperCase()}`;
const ALIAS_DRAWS_MAX = 20;

type Draw = (max: number) => number;

/** Draws until the alias is another text than the value: an alias that equals it would publish it as an id. */
const drawAlias = (original: string, call: Call, make: (draw: Draw) => string): string => {
  const { randomInt } = call.environment;
  if (!randomInt) throw new ExpressionError('misplaced_filter', 'must not use alias filters outside an id');
  for (let attempt = 0; attempt < ALIAS_DRAWS_MAX; attempt += 1) {
    const alias = make(randomInt);
    if (alias !== original) return alias;
  }
  throw new ExpressionError('no_alias', 'must alias a value that has letters or digits to draw anew');
};

const sameClass = (character: string, draw: Draw): string => {
  if (isDigit(character)) return String(draw(10));
  if (!isLetter(character)) return character;
  const drawn = LETTERS[draw(LETTERS.length)] as string;
  return character === character.toLowerCase() ? drawn : drawn.toUpperCase();
};

const anyClass = (_character: string, draw: Draw): string => ALPHANUMERIC[draw(ALPHANUMERIC.length)] as string;

/** Keeps `first` and `last` characters, or none where those are all, and draws the others. */
const alias =
  (redraw: (character: string, draw: Draw) => string) =>
  (value: Json, call: Call): string => {
    const content = text(value, call);
    const list = characters(content);
    const first = wholeNumber(call, 0, 0, PAD_LENGTH_MAX, 0);
    const last = wholeNumber(call, 1, 0, PAD_LENGTH_MAX, 0);
    const keeps = first + last < list.length;
    return drawAlias(content, call, (draw) =>
      list
        .map((character, index) =>
          keeps && (index < first || index >= list.length - last) ? character : redraw(character, draw),
        )
        .join(''),
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
const aliasCard = (value: Json, call: Call): string => {
  const { list, digits } = cardNumber(value, call);
  const number = list.filter(isCardDigit).map(Number);
  const bin = yesOrNo(call, 0, true) ? (call.args.length > 0 ? binLength(digits) : 6) : 0;
  const kept = digits - (yesOrNo(call, 1, true) ? 4 : 0);
  if (list.some((character) => !isCardDigit(character) && character !== ' ' && character !== '-'))
    throw wrongType(call, 'a card number');
  return drawAlias(list.join(''), call, (draw) => {
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

// --- The registry ---

const filter = (least: number, most: number, apply: Filter['apply']): Filter => ({ least, most, apply });

/** By name; a Map, so that no name reaches a prototype. The numbers are the least and the most arguments. */
const filters = new Map<string, Filter>([
  ['json', filter(1, 1, json)],
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
  ['alias_preserve_length', filter(0, 2, alias(anyClass))],
  ['alias_card', filter(0, 2, aliasCard)],
]);

/** Filters that draw: they make ids, and nothing else may depend on chance. */
export const isAliasFilter = (name: string): boolean => name.startsWith('alias_');

/** One filter of an expression, as it was written. */
export type FilterCall = { name: string; args: Literal[] };

/** Refuses a filter that does not exist or cannot have that many arguments. @throws ExpressionError. */
export const checkFilter = ({ name, args }: FilterCall): void => {
  const known = filters.get(name);
  if (!known) throw new ExpressionError('unknown_filter', 'must use known filters only');
  const { least, most } = known;
  if (args.length < least || args.length > most)
    throw badArgument({ name }, least === most ? `${least} arguments` : `${least} to ${most} arguments`);
};

/**
 * Runs a value through filters that `checkFilter` let pass. Null passes through all of them: what is absent stays absent.
 * @throws ExpressionError.
 */
export const applyFilters = (
  value: Json,
  calls: readonly FilterCall[],
  environment: ExpressionEnvironment,
  meter: Meter,
): Json => {
  let current: Json | Digest = value;
  for (const { name, args } of calls) {
    if (current === null) return null;
    if (current instanceof Digest && name === 'to_base64') current = Buffer.from(current.hex, 'hex').toString('base64');
    else if (current instanceof Digest && name === 'to_base16') current = current.hex;
    else {
      const input: Json = current instanceof Digest ? current.hex : current;
      current = (filters.get(name) as Filter).apply(input, { name, args, environment, meter });
    }
  }
  return current instanceof Digest ? current.hex : current;
};
