// Numbers that a double cannot hold as they are written: JSON.parse rounds them without a word, and what went in would not
// be what comes out. Reads the text of valid JSON once and keeps nothing of it.
import { formatPath } from './json.ts';

/**
 * Whether a text may have such a number: more than 15 digits, or an exponent, where no string begins. Fifteen significant
 * digits always survive (IEEE 754 double, DBL_DIG). Linear: no two matches begin in the same digits.
 */
const suspicious = /(?:^|[:,[\s])-?(?:[0-9.]{16,}|[0-9.]+[eE])/;

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;

/** Where the string that opens at `from` has its closing quote. */
const endOfString = (text: string, from: number): number => {
  let at = text.indexOf('"', from + 1);
  for (;;) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return at;
    at = text.indexOf('"', at + 1);
  }
};

/** A decimal as its significant digits and the power of ten they stand for: equal numbers have equal forms. */
const normalForm = (literal: string): string => {
  const [, whole = '', fraction = '', exponent = '0'] =
    /^-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(literal) ?? [];
  const digits = whole + fraction;
  let start = 0;
  while (digits[start] === '0') start += 1;
  if (start === digits.length) return '0';
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  return `${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
};

/** Fifteen digits survive (IEEE 754, DBL_DIG) but near the ends of the range. */
const isPlain = (literal: string, value: number): boolean =>
  literal.length <= 15 && Math.abs(value) > 1e-290 && Math.abs(value) < 1e290;

const isZero = (literal: string): boolean => /^-?[0.]+(?:[eE]|$)/.test(literal);

const isExact = (literal: string): boolean => {
  const value = Number(literal);
  if (isPlain(literal, value)) return true;
  if (value === 0) return isZero(literal);
  return Number.isFinite(value) && normalForm(literal) === normalForm(String(value));
};

/** A container on the way down: the index of an item, or where the name of a member stands. */
type Level = { index: number } | { nameFrom: number; nameTo: number };

/**
 * The first number that JSON.parse changes.
 * @param text what JSON.parse accepted; its nesting is bounded by whoever asks.
 * @returns its path as problems name it, or undefined.
 */
export const findChangedNumber = (text: string): string | undefined => {
  if (!suspicious.test(text)) return undefined;
  const levels: Level[] = [];
  let from = 0;
  let to = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      from = at;
      at = endOfString(text, at);
      to = at + 1;
    } else if (code === OPEN_LIST) levels.push({ index: 0 });
    else if (code === OPEN_OBJECT) levels.push({ nameFrom: 0, nameTo: 0 });
    else if (code === CLOSE_LIST || code === CLOSE_OBJECT) levels.pop();
    else if (code === COLON) levels[levels.length - 1] = { nameFrom: from, nameTo: to };
    else if (code === COMMA) {
      const level = levels.at(-1);
      if (level && 'index' in level) level.index += 1;
    } else if (code === MINUS || isDigit(code)) {
      const end = endOfNumber(text, at);
      if (!isExact(text.slice(at, end))) return spell(text, levels);
      at = end - 1;
    }
  }
  return undefined;
};

const endOfNumber = (text: string, from: number): number => {
  let at = from + 1;
  for (let code = text.charCodeAt(at); isDigit(code) || isNumberSign(code); code = text.charCodeAt(at)) at += 1;
  return at;
};

/** `.`, `e`, `E`, `+`, `-` inside a number. NaN, the code of nothing, is none of them. */
const isNumberSign = (code: number): boolean =>
  code === 0x2e || code === 0x65 || code === 0x45 || code === 0x2b || code === MINUS;

const spell = (text: string, levels: readonly Level[]): string =>
  formatPath(
    levels.map((level) =>
      'index' in level ? level.index : (JSON.parse(text.slice(level.nameFrom, level.nameTo)) as string),
    ),
  );
