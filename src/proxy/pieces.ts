// A text with expressions in it, taken apart: what stays as it came, and slots, each of which knows its place in the request
// and how a value is written there. What a value is, and who may see it, is decided elsewhere.
import { type AppError, invalidField } from '../errors.ts';
import { expressionFault } from '../vault/detokenize.ts';
import {
  collectTokenIds,
  cutTemplate,
  type Expansion,
  expandText,
  type References,
  scanText,
  type Cut,
} from '../vault/expansion.ts';
import { ExpressionError } from '../vault/expression-error.ts';
import type { Charset } from './body-kind.ts';

/** Where one value goes, and how it is written there. */
export type Slot = { place: string; write(expansion: Expansion): string };

export type Pieces = (string | Slot)[];

/** Fits a value's text to its place, or refuses it by throwing. */
export type Encode = (value: string) => string;

/** Gives what is wrong with an expression its place in the request. */
export const atPlace = <T>(place: string, work: () => T): T => {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    throw expressionFault(error, place);
  }
};

/** A value does not fit its place; what it is stays unsaid. */
export const refuseValue = (place: string, sentence: string): AppError => invalidField(place, sentence);

/** Of both charsets what they hold without doubt: readers of latin1 differ about the controls above ASCII. */
const refuseUnencodable = (value: string, charset: Charset, place: string): void => {
  const holds = charset === 'utf8' ? value.isWellFormed() : /^[\0-\x7f\xa0-\xff]*$/.test(value);
  if (!holds) throw refuseValue(place, 'must put in characters that the charset of the body can hold');
};

/** For places where a value stands as it is. */
export const encodableAt =
  (charset: Charset, place: string): Encode =>
  (value) => {
    refuseUnencodable(value, charset, place);
    return value;
  };

/**
 * Counts the tokens that a text refers to at once: a body of a million expressions is refused at the first too many.
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

/** A slot for a text that is one expression and nothing else. */
export const createTextSlot = (expression: string, place: string, references: References, encode: Encode): Slot =>
  createSlot(expression, place, references, (expansion) => expandText(expression, encode, expansion));

/** The literals and expressions of a text, each as it stands in it. Linear. @throws invalidInput at the place. */
export const cutText = (text: string, place: string, references: Pick<References, 'coded'>): Cut[] =>
  atPlace(place, () => cutTemplate(text, scanText(text, references)));

/** A text whose values are all written in one way. @throws invalidInput at the place. */
export const splitText = (text: string, place: string, references: References, encode: Encode): Pieces => {
  if (!text.includes('{{')) return [text];
  return cutText(text, place, references).map((cut) =>
    cut.isExpression ? createTextSlot(cut.text, place, references, encode) : cut.text,
  );
};

export const hasSlots = (pieces: Pieces): boolean => pieces.some((piece) => typeof piece !== 'string');

/** @throws what a slot refuses. */
export const writePieces = (pieces: Pieces, expansion: Expansion): string =>
  pieces
    .map((piece) => (typeof piece === 'string' ? piece : atPlace(piece.place, () => piece.write(expansion))))
    .join('');
