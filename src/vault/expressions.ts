// Expressions, {{ head | filter: arg }}: found by a linear scan, evaluated once. What a value contains is data, never an
// expression. Pure: knows neither where tokens are kept nor who may see them. decisions.md section 4, background.md section 3.
import {
  applyFilters,
  checkFilter,
  createMeter,
  EXPANDED_BYTES_MAX,
  type ExpressionEnvironment,
  ExpressionError,
  type FilterCall,
  isAliasFilter,
  jsonBytes,
  type Literal,
  type Meter,
  textOf,
} from './filters.ts';
import { JSON_DEPTH_MAX, type Json } from './json.ts';

export {
  EXPANDED_BYTES_MAX,
  ExpressionError,
  type ExpressionEnvironment,
  type ExpressionErrorCode,
} from './filters.ts';

/** One expression: its head as it stands, trimmed, its filters in order, and where in the text it opens. */
export type Expression = { head: string; filters: FilterCall[]; offset: number };

/** A text taken apart: literal pieces and expressions in order; `draws` where an alias filter is among them. */
export type Template = { parts: (string | Expression)[]; draws: boolean };

/** Limits of one request, decisions.md section 4. */
export const EXPRESSION_TOKENS_MAX = 100;
export const EXPRESSION_PLACEHOLDERS_MAX = 1000;

/** background.md section 1, for every expression that is kept and evaluated again. */
const KEPT_EXPRESSION_LENGTH_MAX = 400;

/** Between `{{` and `}}`: a token id and a JSONPath of 400 characters each, and room for filters. */
const EXPRESSION_LENGTH_MAX = 4096;

/** More filters than anyone chains; each is linear, so this bounds the whole. */
const FILTERS_MAX = 20;

const TOKEN_ID_LENGTH_MAX = 400;

// --- Scanning ---

/** Line ends, other controls, and characters that nobody sees: two ids that look the same must be the same (X2). */
const hiddenCharacter = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Cs}]/u;

/**
 * Finds the `}}` of the expression that starts at `from`. Quotes hide braces: in filters everywhere, in the head only
 * after `[`, because a token's id may hold an apostrophe but no bracket.
 */
const findEnd = (text: string, from: number): number => {
  const limit = Math.min(text.length, from + EXPRESSION_LENGTH_MAX + 1);
  let quote = '';
  let inHead = true;
  for (let at = from; at < limit; at += 1) {
    const character = text[at] as string;
    if (quote !== '') {
      if (character === quote) quote = '';
    } else if (character === "'" || character === '"') {
      if (!inHead || text[at - 1] === '[') quote = character;
    } else if (character === '|') inHead = false;
    else if (character === '}' && text[at + 1] === '}') return at;
    else if (character === '{' || character === '}')
      throw new ExpressionError('nested', 'must not have a brace inside an expression');
  }
  if (limit < text.length)
    throw new ExpressionError('too_long', `must close {{ within ${EXPRESSION_LENGTH_MAX} characters`);
  throw new ExpressionError('unclosed', 'must close every {{ with }}');
};

/** Where a bar, outside the quotes that `findEnd` honours, ends the head. */
const headLength = (text: string): number => {
  let quote = '';
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at] as string;
    if (quote !== '') {
      if (character === quote) quote = '';
    } else if ((character === "'" || character === '"') && text[at - 1] === '[') quote = character;
    else if (character === '|') return at;
  }
  return text.length;
};

/** Splits filters, or their arguments, at a separator outside quotes. */
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
  if (/^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$/.test(text)) return Number(text);
  if (text === 'true') return true;
  if (text === 'false') return false;
  if (text === 'nil' || text === 'null') return null;
  throw new ExpressionError(
    'bad_argument',
    'must have filter arguments that are quoted texts, numbers, true, false or nil',
  );
};

const parseFilter = (text: string): FilterCall => {
  const [, name, rest] = /^([A-Za-z_][A-Za-z0-9_]*) *(?::(.*))?$/.exec(text.trim()) ?? [];
  if (name === undefined)
    throw new ExpressionError('bad_filter', 'must have filters of the form name: argument, argument');
  const args = rest === undefined ? [] : splitOutsideQuotes(rest, ',').map((part) => parseLiteral(part.trim()));
  const call = { name, args };
  checkFilter(call);
  return call;
};

const parseExpression = (text: string, offset: number): Expression => {
  if (hiddenCharacter.test(text))
    throw new ExpressionError('bad_character', 'must not have line ends or hidden characters inside an expression');
  const length = headLength(text);
  const head = text.slice(0, length).trim();
  if (head === '') throw new ExpressionError('empty', 'must have something to refer to between {{ and }}');
  const filters = length === text.length ? [] : splitOutsideQuotes(text.slice(length + 1), '|');
  if (filters.length > FILTERS_MAX) throw new ExpressionError('bad_filter', `must have at most ${FILTERS_MAX} filters`);
  return { head, filters: filters.map(parseFilter), offset };
};

/** Gives an error the place of its expression. */
const located = <T>(offset: number, work: () => T): T => {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ExpressionError) || error.offset !== undefined) throw error;
    throw new ExpressionError(error.code, error.message, offset);
  }
};

/**
 * Takes a text apart, in one pass over it: linear in its length whatever it holds (X10). Text without `{{` is one literal.
 * @throws ExpressionError for every `{{` that does not open a well-formed expression.
 */
export const scanTemplate = (text: string): Template => {
  const parts: (string | Expression)[] = [];
  let draws = false;
  let placeholders = 0;
  let at = 0;
  for (let open = text.indexOf('{{'); open !== -1; open = text.indexOf('{{', at)) {
    if (open > at) parts.push(text.slice(at, open));
    const offset = open;
    const start = open + 2;
    at = located(offset, () => {
      const end = findEnd(text, start);
      const expression = parseExpression(text.slice(start, end), offset);
      draws ||= expression.filters.some(({ name }) => isAliasFilter(name));
      parts.push(expression);
      placeholders = countPlaceholder(placeholders);
      return end + 2;
    });
  }
  if (at < text.length || parts.length === 0) parts.push(text.slice(at));
  return { parts, draws };
};

const countPlaceholder = (before: number, most = EXPRESSION_PLACEHOLDERS_MAX): number => {
  if (before >= most) throw new ExpressionError('too_many_placeholders', `must have at most ${most} expressions`);
  return before + 1;
};

// --- The core that both times of evaluation share ---

/** Where expressions get their values, what they may use, and what they have used. */
type Evaluation = {
  valueOf(expression: Expression): Json | undefined;
  environment: ExpressionEnvironment;
  meter: Meter;
  limits: { placeholdersMax: number; bytesMax: number };
};

const createLimits = { placeholdersMax: EXPRESSION_PLACEHOLDERS_MAX, bytesMax: EXPANDED_BYTES_MAX };

/** Counts before anything is copied: the sum of all values of a request stays bounded, however often one is named (X9). */
const countBytes = ({ meter, limits }: Evaluation, bytes: number): void => {
  meter.bytes += bytes;
  if (meter.bytes > limits.bytesMax) throw new ExpressionError('too_large', 'must not expand beyond 10 MB');
};

const evaluateOne = (expression: Expression, evaluation: Evaluation): Json | undefined =>
  located(expression.offset, () => {
    evaluation.meter.placeholders = countPlaceholder(evaluation.meter.placeholders, evaluation.limits.placeholdersMax);
    const found = evaluation.valueOf(expression);
    if (found === undefined || expression.filters.length === 0) return found;
    return applyFilters(found, expression.filters, evaluation.environment, evaluation.meter);
  });

const evaluateText = (
  { parts }: Template,
  evaluation: Evaluation,
  encode: (text: string) => string = (text) => text,
): string => {
  const pieces: string[] = [];
  for (const part of parts) {
    if (typeof part === 'string') {
      pieces.push(part);
      continue;
    }
    const value = evaluateOne(part, evaluation) ?? null;
    const bytes = typeof value === 'string' ? Buffer.byteLength(value) : jsonBytes(value, evaluation.limits.bytesMax);
    countBytes(evaluation, bytes);
    const piece = encode(textOf(value));
    countBytes(evaluation, Math.max(0, Buffer.byteLength(piece) - bytes));
    pieces.push(piece);
  }
  return pieces.join('');
};

/** A template that is exactly one expression keeps the JSON type of its value; all others give text. */
const evaluateTemplate = (template: Template, evaluation: Evaluation): Json | undefined => {
  const [only] = template.parts;
  if (template.parts.length !== 1 || typeof only !== 'object') return evaluateText(template, evaluation);
  const value = evaluateOne(only, evaluation);
  if (value !== undefined) countBytes(evaluation, jsonBytes(value, evaluation.limits.bytesMax));
  return value;
};

const tooDeep = () => new ExpressionError('too_deep', `must not be nested deeper than ${JSON_DEPTH_MAX} levels`);

const misplacedAlias = () => new ExpressionError('misplaced_filter', 'must not use alias filters outside an id');

// --- Create-time: masks, fingerprints, search indexes, aliases ---

/** What create-time expressions can see. Without the property `metadata`, metadata is nothing one may refer to. */
export type Scope = { data: Json; metadata?: Record<string, string> | undefined };

type ScopePath = { root: 'data' | 'metadata'; steps: (string | number)[] };

const step = /\.([\p{L}\p{N}_][\p{L}\p{N}_-]*)|\[([0-9]{1,6})\]|\['([^']*)'\]|\["([^"]*)"\]/uy;

/** `data.number`, `data['a b'][0]`, `metadata.key`. @throws ExpressionError for any other head. */
const parseScopePath = (head: string): ScopePath => {
  const root = head.startsWith('metadata') ? 'metadata' : 'data';
  const steps: (string | number)[] = [];
  let at = head.startsWith(root) ? root.length : -1;
  while (at !== -1 && at < head.length) {
    step.lastIndex = at;
    const match = step.exec(head);
    if (match) steps.push(match[2] === undefined ? (match[1] ?? match[3] ?? match[4] ?? '') : Number(match[2]));
    at = match ? step.lastIndex : -1;
  }
  if (at === -1) throw new ExpressionError('unknown_head', 'must refer to data, such as data.number');
  return { root, steps };
};

/** Own properties and array items only: no path reaches a prototype. Undefined where there is nothing. */
const follow = (from: Json | undefined, steps: readonly (string | number)[]): Json | undefined => {
  let value = from;
  for (const key of steps) {
    if (typeof value !== 'object' || value === null) return undefined;
    if (Array.isArray(value)) value = typeof key === 'number' ? value[key] : undefined;
    else value = Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value;
};

const scopeValue = (head: string, scope: Scope): Json | undefined => {
  const { root, steps } = parseScopePath(head);
  if (root === 'data') return follow(scope.data, steps);
  if (!('metadata' in scope)) throw new ExpressionError('unknown_head', 'must refer to data, such as data.number');
  return follow(scope.metadata ?? {}, steps);
};

const createTime = (scope: Scope, environment: ExpressionEnvironment): Evaluation => ({
  valueOf: ({ head }) => scopeValue(head, scope),
  environment,
  meter: createMeter(),
  limits: createLimits,
});

/**
 * Evaluates a create-time template. Alias filters work where the environment has `randomInt`.
 * @returns the value of a template that is one expression, with its JSON type; text otherwise; undefined or null for nothing.
 * @throws ExpressionError, also for a head that is not in scope.
 */
export const evaluateCreateTime = (
  template: Template,
  scope: Scope,
  environment: ExpressionEnvironment,
): Json | undefined => evaluateTemplate(template, createTime(scope, environment));

/**
 * Evaluates a mask: any JSON shape, at most 64 levels deep, whose strings are templates. What the shape leaves out is
 * redacted by that; a property without a value is left out too, an item without one is null.
 * @returns undefined where the shape is one expression without a value.
 * @throws ExpressionError.
 */
export const evaluateShape = (shape: Json, scope: Scope, environment: ExpressionEnvironment): Json | undefined => {
  const evaluation = createTime(scope, environment);
  return mapStrings(shape, JSON_DEPTH_MAX, (text) => {
    const template = scanTemplate(text);
    if (template.draws) throw misplacedAlias();
    return evaluateTemplate(template, evaluation);
  });
};

/** Replaces the strings with `{{` of a JSON value; object keys are not looked at. Recurses no deeper than `depthMax`. */
const mapStrings = (value: Json, depthMax: number, replace: (text: string) => Json | undefined): Json | undefined => {
  if (typeof value === 'string') return value.includes('{{') ? replace(value) : value;
  if (typeof value !== 'object' || value === null) return value;
  if (depthMax === 0) throw tooDeep();
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, depthMax - 1, replace) ?? null);
  const entries: [string, Json][] = [];
  for (const [key, child] of Object.entries(value)) {
    const replaced = mapStrings(child, depthMax - 1, replace);
    if (replaced !== undefined) entries.push([key, replaced]);
  }
  return Object.fromEntries(entries);
};

export type ExpressionKind = 'mask' | 'fingerprint' | 'index' | 'alias';

const kindProblem = (text: string, kind: ExpressionKind): void => {
  if (kind !== 'mask' && text.length > KEPT_EXPRESSION_LENGTH_MAX)
    throw new ExpressionError('too_long', `must be at most ${KEPT_EXPRESSION_LENGTH_MAX} characters`);
  const { parts, draws } = scanTemplate(text);
  const expressions = parts.filter((part) => typeof part === 'object');
  if (kind !== 'mask' && expressions.length === 0)
    throw new ExpressionError('empty', 'must have an expression such as {{ data }}');
  if (kind !== 'alias' && draws) throw misplacedAlias();
  for (const { head, filters } of expressions) {
    if (parseScopePath(head).root === 'metadata' && kind !== 'fingerprint')
      throw new ExpressionError('unknown_head', 'must refer to data, such as data.number');
    // An id stands in URLs and logs: nothing of the data may enter it but through a filter that draws.
    if (kind === 'alias' && !filters.some(({ name }) => isAliasFilter(name)))
      throw new ExpressionError('bad_filter', 'must use an alias filter in every expression of an id');
  }
};

/** Why a text cannot be an expression of that kind, as a sentence without the text; undefined where it can. Evaluates nothing. */
export const expressionProblems = (text: string, kind: ExpressionKind): string | undefined => {
  try {
    kindProblem(text, kind);
    return undefined;
  } catch (error) {
    if (error instanceof ExpressionError) return error.message;
    throw error;
  }
};

// --- Request-time: token ids in, their data out ---

/** A token as `{{ token: id }}` shows it, in JSON; `{{ id }}` is its `data`. */
export type ExpansionRecord = { [attribute: string]: Json };

export type ExpansionLimits = { tokensMax: number; placeholdersMax: number; bytesMax: number };

const requestLimits: ExpansionLimits = {
  tokensMax: EXPRESSION_TOKENS_MAX,
  placeholdersMax: EXPRESSION_PLACEHOLDERS_MAX,
  bytesMax: EXPANDED_BYTES_MAX,
};

/** What a token's id cannot contain (decisions.md section 2): a head with one of these is no id. */
const notInTokenId = /[#/\\+?[\]|&=%<>{}^]/;

type TokenReference = { id: string; whole: boolean };

const parseTokenReference = (head: string): TokenReference => {
  const [, named] = /^token: *(.+)$/.exec(head) ?? [];
  const id = named ?? head;
  if (id.length > TOKEN_ID_LENGTH_MAX || notInTokenId.test(id))
    throw new ExpressionError('unknown_head', 'must refer to a token by its id');
  return { id, whole: named !== undefined };
};

/** What the places of one request refer to, gathered before anything is fetched. A token named twice counts once. */
export type References = { readonly ids: Set<string>; placeholders: number; readonly limits: ExpansionLimits };

export const createReferences = (limits = requestLimits): References => ({ ids: new Set(), placeholders: 0, limits });

/**
 * Adds the ids that a JSON value's strings, or a text, refer to; for several places of one request pass the same references.
 * @throws ExpressionError; `too_many_tokens` and `too_many_placeholders` among its codes.
 */
export const collectTokenIds = (value: Json, references = createReferences()): References => {
  eachString(value, JSON_DEPTH_MAX, (text) => {
    const template = scanTemplate(text);
    if (template.draws) throw misplacedAlias();
    for (const part of template.parts) if (typeof part === 'object') collectOne(part, references);
  });
  return references;
};

/** As `mapStrings`, but looks only. */
const eachString = (value: Json, depthMax: number, visit: (text: string) => void): void => {
  if (typeof value === 'string') {
    if (value.includes('{{')) visit(value);
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  if (depthMax === 0) throw tooDeep();
  for (const child of Object.values(value)) eachString(child, depthMax - 1, visit);
};

const collectOne = ({ head, offset }: Expression, references: References): void =>
  located(offset, () => {
    const { placeholdersMax, tokensMax } = references.limits;
    references.placeholders = countPlaceholder(references.placeholders, placeholdersMax);
    references.ids.add(parseTokenReference(head).id);
    if (references.ids.size > tokensMax)
      throw new ExpressionError('too_many_tokens', `must refer to at most ${tokensMax} tokens`);
  });

/** One request's expansion: its places share it, so that the limits hold for all of them together. */
export type Expansion = Evaluation;

/**
 * @param resolve a token's record by id; undefined for a token that is not there.
 * @param limits bytes are those of the values put in, as they are put in.
 */
export const createExpansion = (
  resolve: (id: string) => ExpansionRecord | undefined,
  environment: ExpressionEnvironment,
  limits = requestLimits,
): Expansion => {
  const references = createReferences(limits);
  const valueOf = (expression: Expression): Json | undefined => {
    collectOne(expression, references);
    const { id, whole } = parseTokenReference(expression.head);
    const record = resolve(id);
    if (record === undefined) throw new ExpressionError('unknown_token', 'must refer to tokens that exist');
    if (whole) return record;
    return Object.hasOwn(record, 'data') ? record['data'] : undefined;
  };
  return { valueOf, environment, meter: createMeter(), limits };
};

/**
 * Puts tokens' values into a parsed JSON value, once: what a value contains is not looked at again. A string that is one
 * expression takes the value's JSON type; in longer strings values are concatenated, structure as compact JSON, null as
 * nothing. Object keys are never expanded. The input is not changed.
 * @throws ExpressionError; `too_large` means 413, every other code 400.
 */
export const expandJson = (value: Json, expansion: Expansion): Json =>
  mapStrings(value, JSON_DEPTH_MAX, (text) => {
    const template = scanTemplate(text);
    if (template.draws) throw misplacedAlias();
    return evaluateTemplate(template, expansion) ?? null;
  }) ?? null;

/**
 * Puts tokens' values into a text, once.
 * @param encode fits a value's text to its place (percent-encoding, XML escapes), or refuses it by throwing.
 * @throws ExpressionError, as `expandJson`; and what `encode` throws.
 */
export const expandText = (text: string, encode: (value: string) => string, expansion: Expansion): string => {
  const template = scanTemplate(text);
  if (template.draws) throw misplacedAlias();
  return evaluateText(template, expansion, encode);
};
