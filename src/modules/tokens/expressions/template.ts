// Parses a text into literals and expressions, {{ head | filter: arg }}, in one linear pass.
// Knows the grammar only, not what a head refers to nor what a filter does.
import { ExpressionError } from './expression-error.ts';
import type { FilterCall, Literal } from './filter-call.ts';
import { checkFilter, isAliasFilter } from './filters.ts';
import { hiddenCharacter } from '../../access/token-id.ts';

/** One expression: its trimmed head, its filters in order, and its offset in the text. */
export type Expression = {
  head: string;
  filters: FilterCall[];
  offset: number;
  /** A literal text that takes the place of a token's value. */
  literal?: string | undefined;
};

/** A parsed text: literals and expressions in order. `draws`: one of them has an alias filter. */
export type Template = { parts: (string | Expression)[]; draws: boolean };

/** Expressions in one text, or in one request. */
export const EXPRESSION_PLACEHOLDERS_MAX = 1000;

/** Between `{{` and `}}`: enough for a token id and a JSONPath of 400 characters each, and filters. */
export const EXPRESSION_LENGTH_MAX = 4096;

/** Each filter is linear, so this bounds their cost together. */
const FILTERS_MAX = 20;

/** Counts every read of a character, for a test that parsing is linear. */
export type ScanCount = { steps: number };

/** Why no `}}` ends an expression. `cut`: the text ends between the two braces. */
type NoEnd = 'nested' | 'cut' | 'too_long' | 'unclosed';

/**
 * Finds the `}}` of the expression that starts at `from`. Quotes hide braces: in filters everywhere, in the head only
 * after `[`, because a token id may contain an apostrophe but no bracket.
 */
export const findEnd = (text: string, from: number, count: ScanCount): number | NoEnd => {
  const limit = Math.min(text.length, from + EXPRESSION_LENGTH_MAX + 1);
  let quote = '';
  let inHead = true;
  for (let at = from; at < limit; at += 1) {
    count.steps += 1;
    const character = text[at] as string;
    if (quote !== '') {
      if (character === quote) quote = '';
    } else if (character === "'" || character === '"') {
      if (!inHead || text[at - 1] === '[') quote = character;
    } else if (character === '|') inHead = false;
    else if (character === '}' && text[at + 1] === '}') return at;
    else if (character === '}' && at + 1 === text.length) return 'cut';
    else if (character === '{' || character === '}') return 'nested';
  }
  return limit < text.length ? 'too_long' : 'unclosed';
};

const errorOf = (reason: NoEnd): ExpressionError => {
  if (reason === 'unclosed') return new ExpressionError(reason, 'must close every {{ with }}');
  return reason === 'too_long'
    ? new ExpressionError(reason, `must close {{ within ${EXPRESSION_LENGTH_MAX} characters`)
    : new ExpressionError('nested', 'must not have a brace inside an expression');
};

/** The length of the head. It ends at a bar outside quotes. */
const headLength = (text: string, count: ScanCount): number => {
  let quote = '';
  for (let at = 0; at < text.length; at += 1) {
    count.steps += 1;
    const character = text[at] as string;
    if (quote !== '') {
      if (character === quote) quote = '';
    } else if ((character === "'" || character === '"') && text[at - 1] === '[') quote = character;
    else if (character === '|') return at;
  }
  return text.length;
};

/** Splits filters, or their arguments, at a separator outside quotes. */
const splitOutsideQuotes = (text: string, separator: string, count: ScanCount): string[] => {
  const parts: string[] = [];
  let quote = '';
  let start = 0;
  for (let at = 0; at < text.length; at += 1) {
    count.steps += 1;
    const character = text[at] as string;
    if (quote !== '') {
      if (character === quote) quote = '';
    } else if (character === "'" || character === '"') quote = character;
    else if (character === separator) {
      parts.push(text.slice(start, at));
      start = at + 1;
    }
  }
  parts.push(text.slice(start));
  return parts;
};

const parseLiteral = (text: string, count: ScanCount): Literal => {
  // Each pattern reads the text once.
  count.steps += 2 * text.length;
  const quoted = /^'([^']*)'$|^"([^"]*)"$/.exec(text);
  if (quoted) return quoted[1] ?? quoted[2] ?? '';
  if (/^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$/.test(text)) return Number(text);
  if (text === 'true') return true;
  if (text === 'false') return false;
  if (text === 'nil' || text === 'null') return null;
  throw new ExpressionError(
    'bad_argument',
    'must have filter arguments that are quoted texts, numbers, true, false or nil',
  );
};

const parseFilter = (text: string, count: ScanCount): FilterCall => {
  count.steps += text.length;
  const [, name, rest] = /^([A-Za-z_][A-Za-z0-9_]*) *(?::(.*))?$/.exec(text.trim()) ?? [];
  if (name === undefined)
    throw new ExpressionError('bad_filter', 'must have filters of the form name: argument, argument');
  const args =
    rest === undefined ? [] : splitOutsideQuotes(rest, ',', count).map((part) => parseLiteral(part.trim(), count));
  const call = { name, args };
  checkFilter(call);
  return call;
};

const parseExpression = (text: string, offset: number, count: ScanCount): Expression => {
  count.steps += text.length;
  if (hiddenCharacter.test(text))
    throw new ExpressionError('bad_character', 'must not have line ends or hidden characters inside an expression');
  const length = headLength(text, count);
  const head = text.slice(0, length).trim();
  if (head === '') throw new ExpressionError('empty', 'must have something to refer to between {{ and }}');
  const filters = length === text.length ? [] : splitOutsideQuotes(text.slice(length + 1), '|', count);
  if (filters.length > FILTERS_MAX) throw new ExpressionError('bad_filter', `must have at most ${FILTERS_MAX} filters`);
  return { head, filters: filters.map((filter) => parseFilter(filter, count)), offset };
};

/** Adds the offset of the expression to an error. */
export const locate = (error: unknown, offset: number): unknown =>
  error instanceof ExpressionError && error.offset === undefined
    ? new ExpressionError(error.code, error.message, offset)
    : error;

/**
 * Parses a text in one pass, linear in its length. A text without `{{` is one literal.
 * @throws ExpressionError for every `{{` that does not open a valid expression.
 */
export const scanTemplate = (text: string, count: ScanCount = { steps: 0 }): Template => {
  const parts: (string | Expression)[] = [];
  let draws = false;
  let placeholders = 0;
  let at = 0;
  for (let open = text.indexOf('{{'); open !== -1; open = text.indexOf('{{', at)) {
    if (open > at) parts.push(text.slice(at, open));
    try {
      const start = open + 2;
      const end = findEnd(text, start, count);
      if (typeof end !== 'number') throw errorOf(end);
      const expression = parseExpression(text.slice(start, end), open, count);
      draws ||= expression.filters.some(({ name }) => isAliasFilter(name));
      parts.push(expression);
      placeholders = countPlaceholder(placeholders);
      at = end + 2;
    } catch (error) {
      throw locate(error, open);
    }
  }
  // indexOf and slice read each character once.
  count.steps += 2 * text.length;
  if (at < text.length || parts.length === 0) parts.push(text.slice(at));
  return { parts, draws };
};

export const countPlaceholder = (before: number, most = EXPRESSION_PLACEHOLDERS_MAX): number => {
  if (before >= most) throw new ExpressionError('too_many_placeholders', `must have at most ${most} expressions`);
  return before + 1;
};
