// What both times of evaluation share: an evaluation knows where its heads find their values and what they may use; a
// template becomes a value once, and what a value contains is data, never an expression.
import { ExpressionError } from './expression-error.ts';
import { type ExpressionEnvironment, textOf } from './filter-call.ts';
import { applyFilters } from './filters.ts';
import { JSON_DEPTH_MAX, type Json } from './json.ts';
import { jsonSize, type Meter, spend, WORK } from './meter.ts';
import { countPlaceholder, type Expression, locate, type Template } from './template.ts';

/** Where expressions get their values, what they may use, and what they have used. */
export type Evaluation = {
  valueOf(expression: Expression): Json | undefined;
  environment: ExpressionEnvironment;
  meter: Meter;
  limits: { placeholdersMax: number; bytesMax: number };
};

/** Pays before anything is copied: all values of a request together stay bounded, however often one is named (X9). */
const pay = ({ meter, limits }: Evaluation, bytes: number, work: number): void => {
  meter.bytes += bytes;
  if (meter.bytes > limits.bytesMax) throw new ExpressionError('too_large', 'must not expand beyond 10 MB');
  spend(meter, work);
};

/** Pays for a value as JSON writes it, and says how many bytes that is. */
const payValue = (value: Json, evaluation: Evaluation): number => {
  const { bytes, work } = jsonSize(value, evaluation.limits.bytesMax);
  pay(evaluation, bytes, work);
  return bytes;
};

const evaluateOne = (expression: Expression, evaluation: Evaluation): Json | undefined => {
  try {
    evaluation.meter.placeholders = countPlaceholder(evaluation.meter.placeholders, evaluation.limits.placeholdersMax);
    const found = evaluation.valueOf(expression);
    if (found === undefined || expression.filters.length === 0) return found;
    return applyFilters(found, expression.filters, evaluation.environment, evaluation.meter);
  } catch (error) {
    throw locate(error, expression.offset);
  }
};

export const evaluateText = (
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
    const bytes = payValue(value, evaluation);
    const piece = encode(textOf(value));
    const more = Math.max(0, Buffer.byteLength(piece) - bytes);
    pay(evaluation, more, more * WORK.byte);
    pieces.push(piece);
  }
  return pieces.join('');
};

/** A template that is exactly one expression keeps the JSON type of its value; all others give text. */
export const evaluateTemplate = (template: Template, evaluation: Evaluation): Json | undefined => {
  const [only] = template.parts;
  if (template.parts.length !== 1 || typeof only !== 'object') return evaluateText(template, evaluation);
  const value = evaluateOne(only, evaluation);
  if (value !== undefined) payValue(value, evaluation);
  return value;
};

export const tooDeep = () => new ExpressionError('too_deep', `must not be nested deeper than ${JSON_DEPTH_MAX} levels`);

export const misplacedAlias = () => new ExpressionError('misplaced_filter', 'must not use alias filters outside an id');

/** Replaces the strings with `{{` of a JSON value; object keys are not looked at. Recurses no deeper than `depthMax`. */
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
