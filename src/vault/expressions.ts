// Expressions, {{ head | filter: arg }}: found by a linear scan, evaluated once. What a value contains is data, never an
// expression. Pure; decisions.md section 4.
import {
  applyFilter,
  EXPANDED_LENGTH_MAX,
  type ExpressionEnvironment,
  ExpressionError,
  FILTER_ARGUMENTS_MAX,
  isAliasFilter,
  isFilter,
  type Literal,
  textOf,
} from './filters.ts';
import { JSON_DEPTH_MAX, type Json } from './json.ts';

export { ExpressionError, type ExpressionEnvironment } from './filters.ts';

type FilterCall = { name: string; args: Literal[] };

/** One expression: its head as it stands, trimmed, and its filters in order. */
export type Expression = { head: string; filters: FilterCall[] };

/** A text taken apart: literal pieces and expressions in order. */
export type Template = { parts: (string | Expression)[]; draws: boolean };

/** More filters than anyone chains; each is linear, so this bounds the whole. */
const FILTERS_MAX = 20;

/** Templates that were scanned lately: defaults of types and a service's own expressions recur with every request. */
const TEMPLATES_KEPT_MAX = 1_000;
const TEMPLATE_KEPT_LENGTH_MAX = 400;
const scanned = new Map<string, Template>();

/** Line ends, other controls, and characters that nobody sees. */
const hiddenCharacter = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

/** Finds the end of the expression that starts after `{{` at `from`: the index of its `}}`. Quotes hide braces. */
const endOf = (text: string, from: number): number => {
  let quote = '';
  for (let at = from; at < text.length; at += 1) {
    const character = text[at] as string;
    if (quote !== '') {
      if (character === quote) quote = '';
    } else if (character === "'" || character === '"') quote = character;
    else if (character === '{') throw new ExpressionError('nested', 'must not have a brace inside an expression');
    else if (character === '}') {
      if (text[at + 1] === '}') return at;
      throw new ExpressionError('nested', 'must not have a brace inside an expression');
    }
  }
  throw new ExpressionError('unclosed', 'must close every {{ with }}');
};

/** Splits at a separator outside quotes. */
const splitOutsideQuotes = (text: string, separator: string): string[] => {
  const parts: string[] = [];
  let quote = '';
  let start = 0;
  for (let at = 0; at < text.length; at += 1) {
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

const parseLiteral = (text: string): Literal => {
  const quoted = /^'([^']*)'$|^"([^"]*)"$/.exec(text);
  if (quoted) return quoted[1] ?? quoted[2] ?? '';
  if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  if (text === 'true') return true;
  if (text === 'false') return false;
  if (text === 'nil' || text === 'null') return null;
  throw new ExpressionError('bad_argument', 'must have filter arguments that are quoted texts or numbers');
};

const parseFilter = (text: string): FilterCall => {
  const match = /^\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?::([\s\S]*))?$/.exec(text);
  if (!match) throw new ExpressionError('bad_filter', 'must have filters of the form name: argument, argument');
  const [, name = '', rest] = match;
  if (!isFilter(name)) throw new ExpressionError('unknown_filter', 'must use known filters only');
  const args = rest === undefined ? [] : splitOutsideQuotes(rest, ',').map((part) => parseLiteral(part.trim()));
  if (args.length > FILTER_ARGUMENTS_MAX)
    throw new ExpressionError('bad_argument', `must have at most ${FILTER_ARGUMENTS_MAX} arguments a filter`);
  return { name, args };
};

const parseExpression = (text: string): Expression => {
  if (hiddenCharacter.test(text))
    throw new ExpressionError('bad_character', 'must not have line ends or hidden characters inside an expression');
  const [head = '', ...filters] = splitOutsideQuotes(text, '|');
  if (head.trim() === '') throw new ExpressionError('empty', 'must have something between {{ and }}');
  if (filters.length > FILTERS_MAX) throw new ExpressionError('bad_filter', `must have at most ${FILTERS_MAX} filters`);
  return { head: head.trim(), filters: filters.map(parseFilter) };
};

/** Takes a text apart, in one pass. Text without `{{` is one literal. @throws ExpressionError. */
export const scanTemplate = (text: string): Template => {
  const known = scanned.get(text);
  if (known) return known;
  const parts: (string | Expression)[] = [];
  let draws = false;
  let at = 0;
  for (let open = text.indexOf('{{'); open !== -1; open = text.indexOf('{{', at)) {
    if (open > at) parts.push(text.slice(at, open));
    const end = endOf(text, open + 2);
    const expression = parseExpression(text.slice(open + 2, end));
    draws ||= expression.filters.some(({ name }) => isAliasFilter(name));
    parts.push(expression);
    at = end + 2;
  }
  if (at < text.length || parts.length === 0) parts.push(text.slice(at));
  const template = { parts, draws };
  if (text.length <= TEMPLATE_KEPT_LENGTH_MAX) {
    if (scanned.size >= TEMPLATES_KEPT_MAX) scanned.delete(scanned.keys().next().value as string);
    scanned.set(text, template);
  }
  return template;
};

/** What create-time expressions can see. */
export type Scope = { data: Json; metadata?: Record<string, string> | undefined };

const step = /^(?:\.([A-Za-z_][A-Za-z0-9_-]*)|\[(\d{1,6})\]|\['([^']*)'\]|\["([^"]*)"\])/;

/** Own properties and array items only: no path reaches a prototype. Undefined where there is nothing. */
const follow = (root: Json | undefined, path: string): Json | undefined => {
  let value = root;
  let rest = path;
  while (rest !== '') {
    const match = step.exec(rest);
    if (!match) throw new ExpressionError('unknown_head', 'must refer to data, such as data.number');
    const [whole, name, index, single, double] = match;
    const key = name ?? index ?? single ?? double ?? '';
    if (
      typeof value !== 'object' ||
      value === null ||
      !Object.hasOwn(value, key) ||
      (Array.isArray(value) && index === undefined)
    )
      value = undefined;
    else value = (value as Record<string, Json>)[key];
    rest = rest.slice(whole.length);
  }
  return value;
};

const headValue = (head: string, scope: Scope): Json | undefined => {
  if (/^data(?![A-Za-z0-9_-])/.test(head)) return follow(scope.data, head.slice('data'.length));
  if (/^metadata(?![A-Za-z0-9_-])/.test(head) && 'metadata' in scope)
    return follow(scope.metadata ?? {}, head.slice('metadata'.length));
  throw new ExpressionError('unknown_head', 'must refer to data, such as data.number');
};

const evaluateOne = (expression: Expression, scope: Scope, environment: ExpressionEnvironment): Json | undefined => {
  const found = headValue(expression.head, scope);
  if (expression.filters.length === 0) return found;
  let value: Json = found ?? null;
  for (const { name, args } of expression.filters) value = applyFilter(name, args, value, environment);
  return value;
};

/**
 * Evaluates a create-time template: masks, fingerprints, search indexes, aliases.
 * @returns the value of a template that is one expression, with its JSON type; text otherwise; undefined for nothing.
 * @throws ExpressionError.
 */
export const evaluateCreateTime = (
  { parts }: Template,
  scope: Scope,
  environment: ExpressionEnvironment,
): Json | undefined => {
  const [only] = parts;
  if (parts.length === 1 && typeof only === 'object') return evaluateOne(only, scope, environment);
  let text = '';
  for (const part of parts) {
    const piece = typeof part === 'string' ? part : textOf(evaluateOne(part, scope, environment) ?? null);
    if (text.length + piece.length > EXPANDED_LENGTH_MAX)
      throw new ExpressionError('too_large', 'the expression expands beyond 10 MB');
    text += piece;
  }
  return text;
};

/**
 * Evaluates a mask: any JSON shape whose strings are templates. What has no value is left out.
 * @throws ExpressionError.
 */
export const evaluateShape = (
  shape: Json,
  scope: Scope,
  environment: ExpressionEnvironment,
  depthMax = JSON_DEPTH_MAX,
): Json | undefined => {
  if (typeof shape === 'string') {
    const template = scanTemplate(shape);
    if (template.draws) throw new ExpressionError('bad_filter', 'must not use alias filters outside an id');
    return evaluateCreateTime(template, scope, environment);
  }
  if (typeof shape !== 'object' || shape === null) return shape;
  if (depthMax === 0) throw new ExpressionError('too_deep', `must not be nested deeper than ${JSON_DEPTH_MAX} levels`);
  const inner = (child: Json) => evaluateShape(child, scope, environment, depthMax - 1);
  if (Array.isArray(shape)) return shape.map((item) => inner(item) ?? null);
  const entries: [string, Json][] = [];
  for (const [key, child] of Object.entries(shape)) {
    const value = inner(child);
    if (value !== undefined) entries.push([key, value]);
  }
  return Object.fromEntries(entries);
};
