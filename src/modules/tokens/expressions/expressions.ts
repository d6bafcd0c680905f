// Evaluates expressions at create time over a token's own data: masks, fingerprints, search indexes and aliases.
import { Absent, type ExpressionEnvironment, findSteps, type Known, textOf } from './filter-call.ts';
import { ExpressionError } from './expression-error.ts';
import { applyFilters, isAliasFilter } from './filters.ts';
import { depthProblem, type Json, JSON_DEPTH_MAX, valueAt } from '../../../platform/json/json.ts';
import { createMeter, EXPANDED_BYTES_MAX, jsonSize, type Meter, spend, TOO_LARGE, WORK } from './meter.ts';
import { countPlaceholder, type Expression, locate, scanTemplate, type Template } from './template.ts';

// Evaluates parsed templates, once: a value that contains `{{` is data, not an expression.
// Shared by expressions at create time and at request time, which differ in where values come from.

/** Source of the values of expressions, what they may use, and what they have used. */
export type Evaluation = {
  /** Undefined for a value that the caller may not see. */
  valueOf(expression: Expression): Json | Absent | undefined;
  /** The objects within the value whose names are known by their type. */
  knownOf?(expression: Expression): readonly Known[];
  /** Whether a path without a value is null. Otherwise it is an error. */
  isAbsentNull: boolean;
  environment: ExpressionEnvironment;
  meter: Meter;
  limits: { placeholdersMax: number; bytesMax: number };
};

/** Spends bytes and work before anything is copied. This bounds all values of a request, however often one is referred to. */
const spendBytes = ({ meter, limits }: Evaluation, bytes: number, work: number): void => {
  meter.bytes += bytes;
  if (meter.bytes > limits.bytesMax) throw new ExpressionError('too_large', TOO_LARGE);
  spend(meter, work);
};

/** Spends a value's size as JSON. @returns its bytes. */
const spendValue = (value: Json, evaluation: Evaluation): number => {
  const { bytes, work } = jsonSize(value, evaluation.limits.bytesMax);
  spendBytes(evaluation, bytes, work);
  return bytes;
};

const evaluateOne = (expression: Expression, evaluation: Evaluation): Json | undefined => {
  try {
    evaluation.meter.placeholders = countPlaceholder(evaluation.meter.placeholders, evaluation.limits.placeholdersMax);
    const found = evaluation.valueOf(expression);
    const { filters } = expression;
    const value =
      filters.length === 0
        ? found
        : applyFilters(found, filters, evaluation.environment, evaluation.meter, evaluation.knownOf?.(expression));
    if (!(value instanceof Absent)) return value;
    if (evaluation.isAbsentNull) return null;
    throw value.error;
  } catch (error) {
    throw locate(error, expression.offset);
  }
};

export const evaluateText = (
  { parts }: Template,
  evaluation: Evaluation,
  encode: (text: string) => string = (text) => text,
): string => {
  const texts: string[] = [];
  for (const part of parts) {
    if (typeof part === 'string') {
      texts.push(part);
      continue;
    }
    const value = evaluateOne(part, evaluation) ?? null;
    const bytes = spendValue(value, evaluation);
    const encoded = encode(textOf(value));
    const more = Math.max(0, Buffer.byteLength(encoded) - bytes);
    spendBytes(evaluation, more, more * WORK.byte);
    texts.push(encoded);
  }
  return texts.join('');
};

/** A template that is exactly one expression keeps the JSON type of its value; all others become text. */
export const evaluateTemplate = (template: Template, evaluation: Evaluation): Json | undefined => {
  const [only] = template.parts;
  if (template.parts.length !== 1 || typeof only !== 'object') return evaluateText(template, evaluation);
  const value = evaluateOne(only, evaluation);
  if (value !== undefined) spendValue(value, evaluation);
  return value;
};

export const tooDeep = () => new ExpressionError('too_deep', depthProblem());

export const misplacedAlias = () => new ExpressionError('misplaced_filter', 'must not use alias filters outside an id');

/** Replaces strings with `{{` in a JSON value, but no object keys. Recurses no deeper than `depthMax`. */
export const mapStrings = (
  value: Json,
  depthMax: number,
  replace: (text: string) => Json | undefined,
): Json | undefined => {
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

export type { ExpressionEnvironment } from './filter-call.ts';

/** For one request: 1 MiB holds 4,300 cards with masks of three expressions, or 5,500 tokens that also have indexes. */
const CREATE_PLACEHOLDERS_MAX = 50_000;

/** For every expression that is stored and evaluated again. */
export const STORED_EXPRESSION_LENGTH_MAX = 400;

/** What create-time expressions may refer to. Without the property `metadata`, a reference to metadata is an error. */
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

/** How a create treats paths that the data has not. `typed`: the names of a type of data, if it has any. */
export type Strictness = { isStrict: boolean; typed?: Omit<Known, 'node'> | undefined };

/** Masks of tokens that are stored already are evaluated as they are: what they refer to and the data lacks is left out. */
const lenient: Strictness = { isStrict: false };

const scopeValue = (head: string, scope: Scope, { isStrict, typed }: Strictness): Json | Absent | undefined => {
  const { root, steps } = parseScopePath(head);
  if (root === 'metadata' && !('metadata' in scope))
    throw new ExpressionError('unknown_head', 'must refer to data, such as data.number');
  const value: Json = root === 'data' ? scope.data : (scope.metadata ?? {});
  if (!isStrict) return valueAt(value, steps);
  const known = typed && root === 'data' ? [{ ...typed, node: value }] : [];
  return findSteps({ value, what: `the ${root}`, root, known }, steps);
};

const limits = { placeholdersMax: CREATE_PLACEHOLDERS_MAX, bytesMax: EXPANDED_BYTES_MAX };

const createTime = (
  scope: Scope,
  environment: ExpressionEnvironment,
  meter: Meter,
  strictness: Strictness,
): Evaluation => {
  const { isStrict, typed } = strictness;
  const known = typed ? [{ ...typed, node: scope.data }] : [];
  return {
    valueOf: ({ head }) => scopeValue(head, scope, strictness),
    knownOf: () => known,
    isAbsentNull: !isStrict,
    environment,
    meter,
    limits,
  };
};

const scan = (text: string, meter: Meter): Template => {
  spend(meter, text.length * WORK.scannedCharacter);
  return scanTemplate(text);
};

const scanMask = (text: string, meter: Meter): Template => {
  const template = scan(text, meter);
  if (template.draws) throw misplacedAlias();
  return template;
};

/**
 * Evaluates a create-time template. Alias filters need `randomInt` in the environment.
 * @param meter shared by all expressions of a request.
 * @returns a value of any JSON type if the template is one expression, otherwise text; undefined or null for no value.
 * @throws ExpressionError, also for a reference that is not in scope.
 */
export const evaluateCreateTime = (
  template: Template,
  scope: Scope,
  environment: ExpressionEnvironment,
  meter = createMeter(),
  strictness = lenient,
): Json | undefined => evaluateTemplate(template, createTime(scope, environment, meter, strictness));

/**
 * Evaluates a mask: JSON of at most 64 levels, whose strings are templates. Data that the mask does not refer to is hidden.
 * A property without a value is left out; an item without a value is null.
 * @param meter one for a single token, or one shared by a request or a list.
 * @returns undefined if the mask is one expression without a value.
 * @throws ExpressionError.
 */
export const evaluateShape = (
  shape: Json,
  scope: Scope,
  environment: ExpressionEnvironment,
  meter = createMeter(),
  strictness = lenient,
): Json | undefined => {
  const evaluation = createTime(scope, environment, meter, strictness);
  return mapStrings(shape, JSON_DEPTH_MAX, (text) => evaluateTemplate(scanMask(text, meter), evaluation));
};

/** Expressions of ours use no key: `hmac` is for callers, with theirs. */
const keyless: ExpressionEnvironment = {
  hmac: () => {
    throw new ExpressionError('bad_filter', 'must not use hmac in an expression of a token type');
  },
};

/**
 * Parses a shape once, for the masks and fingerprints of token types: those are evaluated for each token that is written or
 * read. The data's size is bounded by its type, so an evaluation has a meter of its own.
 * @returns what `evaluateShape` gives of the shape for some data. @throws ExpressionError.
 */
export const compileShape = (shape: Json): ((data: Json) => Json | undefined) => {
  const templates = new Map<string, Template>();
  const paths = new Map<Expression, ScopePath>();
  mapStrings(shape, JSON_DEPTH_MAX, (text) => {
    const template = scanMask(text, createMeter());
    for (const part of template.parts) if (typeof part === 'object') paths.set(part, parseScopePath(part.head));
    templates.set(text, template);
    return text;
  });
  return (data) => {
    const valueOf = (expression: Expression) => valueAt(data, (paths.get(expression) as ScopePath).steps);
    const meter = createMeter();
    const evaluation: Evaluation = { valueOf, isAbsentNull: true, environment: keyless, meter, limits };
    return mapStrings(shape, JSON_DEPTH_MAX, (text) => evaluateTemplate(templates.get(text) as Template, evaluation));
  };
};

/** The uses of stored expressions. */
export type ExpressionKind = 'fingerprint' | 'index' | 'alias';

/**
 * Parses a stored expression and checks it for its use, independent of data: there must be an expression, only an id may use
 * alias filters, and only a fingerprint may refer to metadata.
 * @throws ExpressionError.
 */
export const scanExpression = (text: string, kind: ExpressionKind, meter = createMeter()): Template => {
  if (text.length > STORED_EXPRESSION_LENGTH_MAX)
    throw new ExpressionError('too_long', `must be at most ${STORED_EXPRESSION_LENGTH_MAX} characters`);
  const template = scan(text, meter);
  const expressions = template.parts.filter((part) => typeof part === 'object');
  if (expressions.length === 0) throw new ExpressionError('empty', 'must have an expression such as {{ data }}');
  if (kind !== 'alias' && template.draws) throw misplacedAlias();
  for (const { head, filters } of expressions) {
    if (parseScopePath(head).root === 'metadata' && kind !== 'fingerprint')
      throw new ExpressionError('unknown_head', 'must refer to data, such as data.number');
    // Ids appear in URLs and logs. A filter before the alias filter could move data to where the alias keeps it, and one after
    // it could append data. Only what the alias filter keeps may enter an id.
    if (kind === 'alias' && !(filters.length === 1 && filters.every(({ name }) => isAliasFilter(name))))
      throw new ExpressionError('bad_filter', 'must use one alias filter, and no other, in every expression of an id');
  }
  return template;
};

/**
 * Generates an id.
 * @returns undefined if the expression has no single, non-empty value.
 * @throws ExpressionError; `no_alias` if the id would contain the value.
 */
export const drawId = (
  template: Template,
  data: Json,
  environment: ExpressionEnvironment,
  meter: Meter,
  strictness = lenient,
): string | undefined => {
  const id = scalarText(evaluateCreateTime(template, { data }, environment, meter, strictness));
  for (const part of template.parts) {
    const original = typeof part === 'object' ? scalarText(valueAt(data, parseScopePath(part.head).steps)) : undefined;
    if (original !== undefined && id?.includes(original))
      throw new ExpressionError('no_alias', 'must not hold the value that it stands for');
  }
  return id;
};

/** A non-empty scalar as text; undefined for other values. */
export const scalarText = (value: Json | undefined): string | undefined => {
  if (typeof value === 'string') return value === '' ? undefined : value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined;
};
