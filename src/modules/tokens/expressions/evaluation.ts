// Evaluates parsed templates, once: a value that contains `{{` is data, not an expression.
// Shared by expressions at create time and at request time, which differ in where values come from.
import { Absent, type Known } from './absent.ts';
import { ExpressionError } from './expression-error.ts';
import { type ExpressionEnvironment, textOf } from './filter-call.ts';
import { applyFilters } from './filters.ts';
import { depthProblem, type Json } from '../../../platform/json/json.ts';
import { jsonSize, type Meter, spend, TOO_LARGE, WORK } from './meter.ts';
import { countPlaceholder, type Expression, locate, type Template } from './template.ts';

/** Where expressions get their values, what they may use, and what they have used. */
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
