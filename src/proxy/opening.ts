// How an expression may open in each kind of text: the two braces may be spelled in as many ways as the kind has for them.
// Says whether one may be there, and neither where nor whether it is one.
import type { TextKind } from './body-kind.ts';

/**
 * `parts` are what is there in any case: they are looked for first, in the bytes, so that bodies without expressions are not
 * made into texts, on the way of every request. Braces and their spellings are ASCII in every charset that is read here.
 */
export type Opening = { parts: readonly Buffer[]; pattern: RegExp };

const braces = Buffer.from('{{');
const jsonBrace = Buffer.from('\\u007');
const percentBrace = Buffer.from('%7');

export const jsonOpening: Opening = { parts: [braces, jsonBrace], pattern: /(?:\{|\\u007b){2}/i };

export const percentOpening: Opening = { parts: [braces, percentBrace], pattern: /(?:\{|%7b){2}/i };

const textOpening: Opening = { parts: [braces], pattern: /\{\{/ };

export const anyOpening: Opening = { parts: [braces, jsonBrace, percentBrace], pattern: /(?:\{|%7b|\\u007b){2}/i };

/** One less than the longest of them has: two of `\u007b`. */
export const OPENING_OVERLAP_BYTES = 11;

export const openingOf: Record<TextKind, Opening> = {
  json: jsonOpening,
  json_lines: jsonOpening,
  form: percentOpening,
  markup: textOpening,
  csv: textOpening,
  yaml: textOpening,
  graphql: textOpening,
  text: textOpening,
  plain: jsonOpening,
  undeclared: jsonOpening,
};

export const mayOpen = ({ parts, pattern }: Opening, bytes: Buffer): boolean =>
  parts.some((part) => bytes.includes(part)) && pattern.test(bytes.toString('latin1'));
