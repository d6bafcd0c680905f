// Detects where an expression may begin, with the spellings of `{{` in each format.
// A match may still be no expression.
import type { TextKind } from './body-kind.ts';

/**
 * Every match contains one of `parts`. They are searched first, in bytes, so that bodies without expressions are not decoded.
 * Braces and their spellings are ASCII in every supported charset.
 */
export type ExpressionStart = { parts: readonly Buffer[]; pattern: RegExp };

const braces = Buffer.from('{{');
const jsonBrace = Buffer.from('\\u007');
const percentBrace = Buffer.from('%7');

export const jsonStart: ExpressionStart = { parts: [braces, jsonBrace], pattern: /(?:\{|\\u007b){2}/i };

export const percentStart: ExpressionStart = { parts: [braces, percentBrace], pattern: /(?:\{|%7b){2}/i };

const textStart: ExpressionStart = { parts: [braces], pattern: /\{\{/ };

export const anyStart: ExpressionStart = {
  parts: [braces, jsonBrace, percentBrace],
  pattern: /(?:\{|%7b|\\u007b){2}/i,
};

/** One less than the longest start: two times `\u007b`. */
export const START_OVERLAP_BYTES = 11;

export const startOf: Record<TextKind, ExpressionStart> = {
  json: jsonStart,
  json_lines: jsonStart,
  form: percentStart,
  markup: textStart,
  html: textStart,
  csv: textStart,
  yaml: textStart,
  graphql: textStart,
  quoted: textStart,
  text: textStart,
  plain: jsonStart,
  undeclared: jsonStart,
};

export const mayContain = ({ parts, pattern }: ExpressionStart, bytes: Buffer): boolean =>
  parts.some((part) => bytes.includes(part)) && pattern.test(bytes.toString('latin1'));
