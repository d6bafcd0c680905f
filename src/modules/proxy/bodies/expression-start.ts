// Detects where an expression may begin, with the spellings of `{{` in each format.
// A match may still be no expression.
import type { BodyKind, TextKind } from './body-kind.ts';

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

// Detects expressions in bodies that the proxy cannot search, so that they are refused and not sent as they stand.

/** The longest expression. */
const EXPRESSION_BYTES_MAX = 4096;

/** Shorter texts count if they stand between blanks. */
const SHORTEST_BYTES = 6;

const BLANK = 0x20;
const BRACE = 0x7b;
const END = 0x7d;

const isPrintable = (byte: number): boolean => (byte >= BLANK && byte < 0x7f) || (byte >= 0x09 && byte <= 0x0d);

/**
 * Whether binary data holds a whole expression: ASCII text between two pairs of braces. Two braces alone occur in any 64 KB of
 * random bytes, such an expression in one of 50,000 bodies of 10 MB. Linear: each text is read up to the next two braces.
 */
const holdsExpression = (bytes: Buffer): boolean => {
  for (let start = bytes.indexOf('{{'); start !== -1; start = bytes.indexOf('{{', start + 1)) {
    const from = start + 2;
    const end = Math.min(bytes.length, start + EXPRESSION_BYTES_MAX);
    for (let at = from; at < end; at += 1) {
      const byte = bytes[at] as number;
      if (!isPrintable(byte) || (byte === BRACE && bytes[at + 1] === BRACE)) break;
      if (byte !== END || bytes[at + 1] !== END) continue;
      const isBetweenBlanks = at - from > 2 && bytes[from] === BLANK && bytes[at - 1] === BLANK;
      if (isBetweenBlanks || at - from >= SHORTEST_BYTES) return true;
      break;
    }
  }
  return false;
};

/** Two braces in text, in a spelling of JSON, forms or quoted-printable, with the NULs of wide characters. */
const anyBraces = /(?:\{|%7b|\\u007b|=7b){2}/i;

/** In UTF-7 (RFC 2152): the characters of Base64 for two braces, at each of the three places in a group. */
const utf7Braces = /AHsAe[w-z]|B7AHs|AewB7/;

const holdsBraces = (bytes: Buffer): boolean => {
  const raw = bytes.toString('latin1');
  const text = raw.includes('\0') ? raw.replaceAll('\0', '') : raw;
  return anyBraces.test(text) || (text.includes('+') && utf7Braces.test(text));
};

export type UnsearchedKind = Extract<BodyKind, { kind: 'unread' | 'unreadable' }>['kind'];

/** How many bytes of the chunk before must be seen with the next one. */
export const unsearchedOverlap: Record<UnsearchedKind, number> = { unread: EXPRESSION_BYTES_MAX, unreadable: 48 };

/** Whether a receiver might read an expression in a body of this kind. */
export const mayHoldExpression = (kind: UnsearchedKind, bytes: Buffer): boolean =>
  kind === 'unread' ? holdsExpression(bytes) : holdsBraces(bytes);

export const UNSEARCHED =
  'must have no {{ in a type, a charset or a coding that the proxy does not search: the destination would receive the expression, not the value';
