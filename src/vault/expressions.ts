// Expressions at create time, over a token's own data: masks, fingerprints, search indexes, aliases. Pure: knows neither
// where tokens are kept nor who may see them. decisions.md section 4, background.md section 3.
import { type Evaluation, evaluateTemplate, mapStrings, misplacedAlias } from './evaluation.ts';
import { ExpressionError } from './expression-error.ts';
import type { ExpressionEnvironment } from './filter-call.ts';
import { isAliasFilter } from './filters.ts';
import { JSON_DEPTH_MAX, type Json, valueAt } from './json.ts';
import { createMeter, EXPANDED_BYTES_MAX, type Meter, spend, WORK } from './meter.ts';
import { scanTemplate, type Template } from './template.ts';

export type { ExpressionEnvironment } from './filter-call.ts';

/** Of one request: 1 MiB holds 4,300 cards with masks of three expressions, or 5,500 tokens that also have indexes. */
const CREATE_PLACEHOLDERS_MAX = 50_000;

/** background.md section 1, for every expression that is kept and evaluated again. */
const KEPT_EXPRESSION_LENGTH_MAX = 400;

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

const scopeValue = (head: string, scope: Scope): Json | undefined => {
  const { root, steps } = parseScopePath(head);
  if (root === 'data') return valueAt(scope.data, steps);
  if (!('metadata' in scope)) throw new ExpressionError('unknown_head', 'must refer to data, such as data.number');
  return valueAt(scope.metadata ?? {}, steps);
};

const limits = { placeholdersMax: CREATE_PLACEHOLDERS_MAX, bytesMax: EXPANDED_BYTES_MAX };

const createTime = (scope: Scope, environment: ExpressionEnvironment, meter: Meter): Evaluation => ({
  valueOf: ({ head }) => scopeValue(head, scope),
  environment,
  meter,
  limits,
});

const scan = (text: string, meter: Meter): Template => {
  spend(meter, text.length * WORK.scannedCharacter);
  return scanTemplate(text);
};

/**
 * Evaluates a create-time template. Alias filters work where the environment has `randomInt`.
 * @param meter shared by everything that one request evaluates; a meter of its own bounds the one template.
 * @returns the value of a template that is one expression, with its JSON type; text otherwise; undefined or null for nothing.
 * @throws ExpressionError, also for a head that is not in scope.
 */
export const evaluateCreateTime = (
  template: Template,
  scope: Scope,
  environment: ExpressionEnvironment,
  meter = createMeter(),
): Json | undefined => evaluateTemplate(template, createTime(scope, environment, meter));

/**
 * Evaluates a mask: any JSON shape, at most 64 levels deep, whose strings are templates. What the shape leaves out is
 * redacted by that; a property without a value is left out too, an item without one is null.
 * @param meter as above: its own for one token that is read, a shared one for a request or a list.
 * @returns undefined where the shape is one expression without a value.
 * @throws ExpressionError.
 */
export const evaluateShape = (
  shape: Json,
  scope: Scope,
  environment: ExpressionEnvironment,
  meter = createMeter(),
): Json | undefined => {
  const evaluation = createTime(scope, environment, meter);
  return mapStrings(shape, JSON_DEPTH_MAX, (text) => {
    const template = scan(text, meter);
    if (template.draws) throw misplacedAlias();
    return evaluateTemplate(template, evaluation);
  });
};

/** Expressions that are kept as one text. */
export type ExpressionKind = 'fingerprint' | 'index' | 'alias';

/**
 * Takes apart an expression of that kind, or refuses it for what it is, whatever the data: an expression must be there,
 * only an id draws, and only a fingerprint sees metadata.
 * @throws ExpressionError.
 */
export const scanExpression = (text: string, kind: ExpressionKind, meter = createMeter()): Template => {
  if (text.length > KEPT_EXPRESSION_LENGTH_MAX)
    throw new ExpressionError('too_long', `must be at most ${KEPT_EXPRESSION_LENGTH_MAX} characters`);
  const template = scan(text, meter);
  const expressions = template.parts.filter((part) => typeof part === 'object');
  if (expressions.length === 0) throw new ExpressionError('empty', 'must have an expression such as {{ data }}');
  if (kind !== 'alias' && template.draws) throw misplacedAlias();
  for (const { head, filters } of expressions) {
    if (parseScopePath(head).root === 'metadata' && kind !== 'fingerprint')
      throw new ExpressionError('unknown_head', 'must refer to data, such as data.number');
    // An id stands in URLs and logs. A filter before one that draws could put the data where it stays, one after it
    // could join it on again: nothing of the data enters an id but what an alias filter keeps.
    if (kind === 'alias' && !(filters.length === 1 && filters.every(({ name }) => isAliasFilter(name))))
      throw new ExpressionError('bad_filter', 'must use one alias filter, and no other, in every expression of an id');
  }
  return template;
};

/**
 * Draws an id.
 * @returns undefined where it has no single value that is not empty.
 * @throws ExpressionError; `no_alias` where the id would hold a value that it stands for.
 */
export const drawId = (
  template: Template,
  data: Json,
  environment: ExpressionEnvironment,
  meter: Meter,
): string | undefined => {
  const id = scalarText(evaluateCreateTime(template, { data }, environment, meter));
  for (const part of template.parts) {
    const original = typeof part === 'object' ? scalarText(scopeValue(part.head, { data })) : undefined;
    if (original !== undefined && id?.includes(original))
      throw new ExpressionError('no_alias', 'must not hold the value that it stands for');
  }
  return id;
};

/** An expression's value as text: scalars only, never empty. */
export const scalarText = (value: Json | undefined): string | undefined => {
  if (typeof value === 'string') return value === '' ? undefined : value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined;
};
