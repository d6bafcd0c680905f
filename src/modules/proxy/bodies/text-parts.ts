// Splits a text into literals and slots for values. A slot knows its place in the request and how to encode a value.
import { type AppError, invalidField } from '../../../platform/base/errors.ts';
import { expressionFault } from '../../tokens/detokenize.ts';
import {
  collectTokenIds,
  cutTemplate,
  type Expansion,
  expandText,
  type References,
  scanText,
  type Cut,
} from '../../tokens/expressions/expansion.ts';
import { ExpressionError } from '../../tokens/expressions/expression-error.ts';
import { formatPath } from '../../../platform/json/json.ts';
import type { Charset } from './body-kind.ts';
import { isEncodable, isLegacy } from './charsets.ts';

/** The place of one expression, for errors, and how its value is written. */
export type Slot = { place: string; write(expansion: Expansion): string };

export type TextParts = (string | Slot)[];

/** Encodes a value for its place, or throws to refuse it. */
export type Encode = (value: string) => string;

/** Adds the place in the request to an error of an expression. */
const atPlace = <T>(place: string, work: () => T): T => {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    throw expressionFault(error, place);
  }
};

/** A value does not fit its place. The error does not hold the value. */
export const refuseValue = (place: string, sentence: string): AppError => invalidField(place, sentence);

/**
 * Refuses braces in a name, which is never expanded: the destination would receive them. Marks of code are counted elsewhere.
 * @throws invalidInput at the place that has the name.
 */
export const refuseName = (path: readonly (string | number)[], { coded }: Pick<References, 'coded'>): void => {
  if (coded === undefined)
    throw invalidField(
      formatPath(path),
      'must have no {{ in names: expressions stand in values only',
      'bad_expression',
    );
};

/** latin1 without the controls above ASCII, which readers interpret differently. */
const canHold = (value: string, charset: Charset): boolean => {
  if (isLegacy(charset)) return isEncodable(value, charset);
  return charset === 'utf8' ? value.isWellFormed() : /^[\0-\x7f\xa0-\xff]*$/.test(value);
};

const refuseUnencodable = (value: string, charset: Charset, place: string): void => {
  if (!canHold(value, charset))
    throw refuseValue(place, 'must insert only characters that the charset of the body can hold');
};

/** For places where a value needs no escapes. */
export const encodableAt =
  (charset: Charset, place: string): Encode =>
  (value) => {
    refuseUnencodable(value, charset, place);
    return value;
  };

/**
 * Counts the tokens of an expression at once, so that a body with a million expressions is refused at the first too many.
 * @throws invalidInput at the place.
 */
export const createSlot = (
  text: string,
  place: string,
  references: References,
  write: (expansion: Expansion) => string,
): Slot => {
  atPlace(place, () => collectTokenIds(text, references));
  return { place, write };
};

/** A slot for a text that is exactly one expression. */
export const createTextSlot = (expression: string, place: string, references: References, encode: Encode): Slot =>
  createSlot(expression, place, references, (expansion) => expandText(expression, encode, expansion));

/** Splits a text into literals and expressions, as written. Linear. @throws invalidInput at the place. */
export const cutText = (text: string, place: string, references: Pick<References, 'coded'>): Cut[] =>
  atPlace(place, () => cutTemplate(text, scanText(text, references)));

/** Splits a text whose values are all encoded alike. @throws invalidInput at the place. */
export const splitText = (text: string, place: string, references: References, encode: Encode): TextParts => {
  if (!text.includes('{{')) return [text];
  return cutText(text, place, references).map((cut) =>
    cut.isExpression ? createTextSlot(cut.text, place, references, encode) : cut.text,
  );
};

export const hasSlots = (parts: TextParts): boolean => parts.some((part) => typeof part !== 'string');

/** @throws invalidInput if a slot refuses its value. */
export const writeParts = (parts: TextParts, expansion: Expansion): string =>
  parts.map((part) => (typeof part === 'string' ? part : atPlace(part.place, () => part.write(expansion)))).join('');
