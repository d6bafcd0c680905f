// Restricts values in headers, CSV, YAML, GraphQL and other text, so that they cannot change the structure around them.
// One pass over the text. Where it is uncertain whether a value is quoted, the stricter rule applies.
import type { Headers } from '../../../platform/egress/headers.ts';
import type { Cut, References } from '../../tokens/expressions/expansion.ts';
import { JSON_SLICE_CHARACTERS } from '../../../platform/json/json-parser.ts';
import { runAtOnce, type Slices } from '../../../platform/json/slices.ts';
import { createTextSlot, cutText, type Encode, splitText, type TextParts, refuseValue } from './text-parts.ts';

/** Throws to refuse a value. */
export type Check = (value: string) => void;

export const refuseIf =
  (place: string, isUnfit: (value: string) => boolean, sentence: string): Check =>
  (value) => {
    if (isUnfit(value)) throw refuseValue(place, sentence);
  };

export const free: Check = () => {};

/** Tracks the structure of a text and decides what a value may contain at the current position. */
export type Follower = {
  /** Reads a slice of a literal. @returns the new position: after `to` if a delimiter of several characters ends there. */
  follow(literal: string, from: number, to: number): number;
  /** @param quote the last filter of the expression. The value counts as text before the next slice. */
  checkHere(place: string, quote: string | undefined): Check;
};

/** For a follower that reads one character at a time. */
export const eachOf =
  (step: (character: string) => void): Follower['follow'] =>
  (literal, from, to) => {
    for (let at = from; at < to; at += 1) step(literal[at] as string);
    return to;
  };

type CheckedCut = { text: string; check: Check | undefined };

/** Literals, and expressions with the check of their values. */
export function* checkCuts(
  text: string,
  place: string,
  references: References,
  follower: Follower,
): Slices<CheckedCut[]> {
  const checked: CheckedCut[] = [];
  for (const { text: cut, isExpression, lastFilter } of cutText(text, place, references)) {
    if (isExpression) {
      checked.push({ text: cut, check: follower.checkHere(place, lastFilter) });
      continue;
    }
    for (let at = 0; at < cut.length;) {
      at = follower.follow(cut, at, Math.min(cut.length, at + JSON_SLICE_CHARACTERS));
      if (at < cut.length) yield;
    }
    checked.push({ text: cut, check: undefined });
  }
  return checked;
}

/** Encodes a value that passes a check. */
export const encodeChecked =
  (check: Check, encode: Encode): Encode =>
  (value) => {
    check(value);
    return encode(value);
  };

function* splitBy(
  text: string,
  place: string,
  references: References,
  { follower, encode }: { follower: Follower; encode: Encode },
): Slices<TextParts> {
  const cuts = yield* checkCuts(text, place, references, follower);
  return cuts.map(({ text: cut, check }) =>
    check ? createTextSlot(cut, place, references, encodeChecked(check, encode)) : cut,
  );
}

const IN_QUOTES = 'must put no quotation mark, backslash, line end or control character into quotes';

export const BACKSLASH_BEFORE = 'must not have a backslash before an expression';

export const inQuotes = (place: string, advice?: string): Check =>
  refuseIf(
    place,
    (value) => /["\\\p{Cc}\p{Zl}\p{Zp}]/u.test(value),
    advice === undefined ? IN_QUOTES : `${IN_QUOTES}; ${advice}`,
  );

/** RFC 9110 section 5.6.2. */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]*$/;

/** Readers of cookies end a value at a semicolon, quoted or not (RFC 6265 section 5.4), and some at a comma. */
const ofCookie = (place: string): Check =>
  refuseIf(place, (value) => /[,;]/.test(value), 'must put no comma or semicolon into a cookie');

const createHeaderFollower = (isCookie: boolean): Follower => {
  let isQuoted = false;
  let isEscaped = false;
  /** Whether an equals sign was read since the last comma or semicolon. */
  let isParameter = false;
  let last = '';
  /** Whether only blanks stand since the last comma or semicolon. */
  let isBegin = true;
  /** The expression that begins an item, until another character than a blank follows. */
  let begun: { isName: boolean } | undefined;
  return {
    follow: eachOf((each) => {
      if (begun && !/[\t ]/.test(each)) {
        begun.isName = each === '=';
        begun = undefined;
      }
      if (!isQuoted && (each === ',' || each === ';')) isBegin = true;
      else if (!/[\t ]/.test(each)) isBegin = false;
      if (isQuoted && isEscaped) isEscaped = false;
      else if (isQuoted && each === '\\') isEscaped = true;
      else if (each === '"') isQuoted = !isQuoted;
      else if (!isQuoted && (each === ',' || each === ';')) isParameter = false;
      else if (!isQuoted && each === '=') isParameter = true;
      last = each;
    }),
    checkHere: (place, quote) => {
      const before = last;
      last = 'x';
      if (isEscaped) throw refuseValue(place, BACKSLASH_BEFORE);
      if (isCookie && !isParameter) throw refuseValue(place, 'must have its expressions in the values of cookies');
      const here = { isName: false };
      if (isBegin) begun = here;
      isBegin = false;
      if (isQuoted) {
        const ends = isCookie ? /["\\,;]/ : /["\\]/;
        const sentence = `must put no quotation mark${isCookie ? ', comma, semicolon' : ''} or backslash into quotes`;
        return refuseIf(place, (value) => ends.test(value), sentence);
      }
      if (isParameter && before === '=' && quote === 'quote_json') return isCookie ? ofCookie(place) : free;
      if (isParameter)
        return refuseIf(
          place,
          (value) => !token.test(value),
          'must put only letters, digits and the other characters of an HTTP token into a parameter without quotes',
        );
      return refuseIf(
        place,
        // What follows is read before a value is written.
        (value) => here.isName || /[",;=\\]/.test(value),
        'must have no expression as the name of a parameter, and must not put a quotation mark, a backslash, an equals sign, a comma or a semicolon into a part of a header',
      );
    },
  };
};

/** An authentication scheme before credentials (RFC 9110 section 11.4). */
const scheme = /^[A-Za-z][A-Za-z0-9-]*[\t ]+$/;

/** Other headers may hold credentials, but begin with other words too. Only these count as schemes there. */
const commonScheme = /^(?:Basic|Bearer)[\t ]+$/i;

const ofCredentials = /^(?:proxy-)?authorization$/i;

/** A text that is one expression has no structure. */
const isWhole = (cuts: readonly Cut[]): boolean =>
  cuts.filter((cut) => cut.isExpression || cut.text.trim() !== '').length === 1;

/**
 * A header that is one value, or a scheme with one value, has no structure that the value could change. Of two values the second
 * could change how the first is read.
 */
const isOneValue = (name: string, text: string, place: string, references: References): boolean => {
  const cuts = cutText(text, place, references);
  const [first, ...others] = cuts;
  const schemes = ofCredentials.test(name) ? scheme : commonScheme;
  const isScheme = first?.isExpression === false && schemes.test(first.text) && others[0]?.isExpression === true;
  return isWhole(isScheme ? others : cuts);
};

export const splitHeaderValue = (
  [name, text]: Headers[number],
  place: string,
  references: References,
  encode: Encode,
): TextParts => {
  const follower = isOneValue(name, text, place, references)
    ? { follow: (_literal: string, _from: number, to: number) => to, checkHere: () => free }
    : createHeaderFollower(name.toLowerCase() === 'cookie');
  return runAtOnce(splitBy(text, place, references, { follower, encode }));
};

const CSV =
  'must put no quotation mark, separator, line end or control character into CSV, and nothing that begins with =, +, - or @; the filter quote_csv puts any value into a field';

/**
 * Some readers accept more line ends than RFC 4180 does. Comma, semicolon, tab and bar are refused in every file: a reader may be
 * set to one that this file does not have.
 */
const csvStructure = /["\p{Cc}\p{Zl}\p{Zp},;|]/u;

/** Spreadsheets skip blanks before a formula, and some read full-width signs (U+FF0B and others) as ASCII. */
const csvFormula = /^[\s\p{Z}\p{Cf}]*[=+\-@\uff1d\uff0b\uff0d\uff20]/u;

/** Spreadsheets evaluate quoted fields as well. Telephone numbers and negative numbers are no formulas that do anything. */
const isFormula = (quoted: string): boolean => {
  const value = quoted.slice(1);
  return csvFormula.test(value) && !/^[\s\p{Z}]*[+-][\d\s().,/:-]*"?$/u.test(value);
};

const FORMULA =
  'must put no formula into CSV, which spreadsheets evaluate in quotes as well: nothing that begins with =, @, + or -, but numbers';

const commonSeparator = /[,;\t|]/;

/** What may separate fields where none of the common separators stands: everything but letters, digits and their marks. */
const mayBeSeparator = /[^\p{L}\p{N}\p{M}\r\n"]/u;

/** The characters of the author's own text in a line that may separate fields, and whether a common separator is among them. */
type Separators = { hasCommon: boolean; others: Set<string> };

const createCsvFollower = (): Follower => {
  let isQuoted = false;
  let last = '\n';
  const newLine = (): Separators => ({ hasCommon: false, others: new Set() });
  const first = newLine();
  let line = first;
  /** The signs beside the last value. They count also in a line with a common separator, which may be part of its texts. */
  let beside = new Set<string>();
  let isAfterValue = false;
  const noteBeside = (each: string): void => {
    if (mayBeSeparator.test(each) && each !== ' ') beside.add(each);
  };
  return {
    follow: (literal, from, to) => {
      let at = from;
      while (at < to) {
        const each = String.fromCodePoint(literal.codePointAt(at) as number);
        at += each.length;
        last = each;
        if (isAfterValue) noteBeside(each);
        isAfterValue = false;
        if (each === '"') isQuoted = !isQuoted;
        else if (!isQuoted && (each === '\n' || each === '\r')) line = newLine();
        else if (!isQuoted && commonSeparator.test(each)) line.hasCommon = true;
        // Also in quotes: a quotation mark within a text looks like the begin of one.
        else if (mayBeSeparator.test(each)) line.others.add(each);
      }
      return at;
    },
    checkHere: (place, quote) => {
      const isField = !isQuoted && /[,;|\t\r\n]/.test(last);
      beside = new Set();
      noteBeside(last);
      isAfterValue = true;
      last = 'x';
      if (isField && quote === 'quote_csv') return refuseIf(place, (value) => isFormula(value), FORMULA);
      // The rest of the line is read before a value is written.
      const here = line;
      const near = beside;
      return refuseIf(
        place,
        (value) => {
          if (csvStructure.test(value) || csvFormula.test(value)) return true;
          const others = here.hasCommon || first.hasCommon ? [] : [...here.others, ...first.others];
          return [...near, ...others].some((separator) => value.includes(separator));
        },
        CSV,
      );
    },
  };
};

const LINES =
  'must put no line end and no control character beside other text; a body that is one expression, or a type that the proxy knows, takes any value';

/** Line ends of Unicode, and the controls that programs print, page or separate by. A tab is a blank. */
const lineStructure = /[^\t\P{Cc}]|[\p{Zl}\p{Zp}]/u;

/** Formats of lines: calendars, contacts, headers, scripts. A value must not begin a line. */
const createLinesFollower = (): Follower => ({
  follow: (_literal, _from, to) => to,
  checkHere: (place) => refuseIf(place, (value) => lineStructure.test(value), LINES),
});

/** JSON5 and TOML: a string ends with its line here, and a comment begins with `#`, `//` or `/*`. */
const createQuotedFollower = (): Follower => {
  let state: 'outside' | 'double' | 'single' | 'comment' | 'block' = 'outside';
  let isEscaped = false;
  let last = '';
  const step = (each: string): void => {
    const before = last;
    last = each;
    if (state === 'block') {
      if (before === '*' && each === '/') state = 'outside';
    } else if (each === '\n' || each === '\r') {
      state = 'outside';
      isEscaped = false;
    } else if (state === 'comment') return;
    else if (isEscaped) isEscaped = false;
    else if (each === '\\') isEscaped = true;
    else if (state === 'double' || state === 'single') {
      if (each === (state === 'double' ? '"' : "'")) state = 'outside';
    } else if (each === '"') state = 'double';
    else if (each === "'") state = 'single';
    else if (each === '#' || (before === '/' && each === '/')) state = 'comment';
    else if (before === '/' && each === '*') state = 'block';
  };
  return {
    follow: eachOf(step),
    checkHere: (place) => {
      if (isEscaped) throw refuseValue(place, BACKSLASH_BEFORE);
      const isQuoted = state === 'double';
      if (!isQuoted) step('x');
      // A string in single quotes may hold the double quote that began this one.
      return isQuoted
        ? refuseIf(place, (value) => /["'`\\\p{Cc}\p{Zl}\p{Zp}]/u.test(value), `${IN_QUOTES}, and no apostrophe`)
        : wordsOnly(place);
    },
  };
};

/** A leading dash or dot would begin a YAML list item or end the document. A dash is allowed before a digit only. */
const isWord = (value: string): boolean => /^(?:(?:[A-Za-z_]|-?[0-9])[A-Za-z0-9_.-]*)?$/.test(value);

/** @param advice how to put any value there. */
const wordsOnly = (place: string, advice?: string): Check =>
  refuseIf(
    place,
    (value) => !isWord(value),
    `must put only a number, or letters, digits, _, . and -, the first a letter, a digit or _, outside of double quotes${advice === undefined ? '' : `; ${advice}`}`,
  );

const byFilter = (filter: string): string => `the filter ${filter} puts any value there`;

type State = 'outside' | 'double' | 'single' | 'block' | 'comment';

/** YAML 1.2.2 section 7.3. Every line end ends a quote here: values in quotes of several lines get the stricter rule. */
const createYamlFollower = (): Follower => {
  let state: State = 'outside';
  let isEscaped = false;
  /** Whether the line has only spaces, dashes of items and question marks of keys so far. */
  let isLineStart = true;
  /** The open brackets and braces of this line. Those of earlier lines do not count. */
  let flowDepth = 0;
  let isAfterSpace = true;
  let last = '';
  const startLine = (): void => {
    state = 'outside';
    isEscaped = false;
    isLineStart = true;
    flowDepth = 0;
    isAfterSpace = true;
    last = '';
  };
  const mayBegin = (): boolean =>
    (isLineStart && isAfterSpace) ||
    (flowDepth > 0 && (last === ',' || last === '[' || last === '{')) ||
    (isAfterSpace && last === ':');
  const step = (each: string): void => {
    if (each === '\n' || each === '\r') startLine();
    else if (state === 'comment') return;
    else if (state === 'double' && isEscaped) isEscaped = false;
    else if (state === 'double' && each === '\\') isEscaped = true;
    else if (state === 'double' || state === 'single') {
      if (each === (state === 'double' ? '"' : "'")) state = 'outside';
      last = each;
      isAfterSpace = false;
    } else if (each === ' ' || each === '\t') isAfterSpace = true;
    else {
      if (each === '#' && isAfterSpace) state = 'comment';
      else if (each === '"' && mayBegin()) state = 'double';
      else if (each === "'" && mayBegin()) state = 'single';
      else if ((each === '[' || each === '{') && mayBegin()) flowDepth += 1;
      else if ((each === ']' || each === '}') && flowDepth > 0) flowDepth -= 1;
      isLineStart &&= isAfterSpace && (each === '-' || each === '?');
      isAfterSpace = false;
      last = each;
    }
  };
  return {
    follow: eachOf(step),
    checkHere: (place, quote) => {
      if (isEscaped) throw refuseValue(place, BACKSLASH_BEFORE);
      const isQuotable = state === 'outside' && mayBegin() && (quote === 'quote_yaml' || quote === 'quote_json');
      const isQuoted = state === 'double';
      if (!isQuoted) step('x');
      if (isQuoted) return inQuotes(place);
      return isQuotable ? free : wordsOnly(place, byFilter('quote_yaml'));
    },
  };
};

/** GraphQL, October 2021, section 2.9.4: a string ends with its line, a block string with three quotation marks. */
export const createGraphqlFollower = (advice?: string): Follower => {
  let state: State = 'outside';
  let isEscaped = false;
  return {
    follow: (literal, from, to) => {
      let at = from;
      for (; at < to; at += 1) {
        const each = literal[at] as string;
        if (each === '\n' || each === '\r') {
          if (state !== 'block') state = 'outside';
          isEscaped = false;
        } else if (isEscaped) isEscaped = false;
        else if (state === 'outside' && each === '#') state = 'comment';
        else if (state === 'block' && literal.startsWith('\\"""', at)) at += 3;
        else if (state === 'double' && each === '\\') isEscaped = true;
        else if (each === '"' && (state === 'outside' || state === 'block') && literal.startsWith('"""', at)) {
          state = state === 'block' ? 'outside' : 'block';
          at += 2;
        } else if (each === '"' && (state === 'outside' || state === 'double'))
          state = state === 'double' ? 'outside' : 'double';
      }
      return at;
    },
    checkHere: (place, quote) => {
      if (isEscaped) throw refuseValue(place, BACKSLASH_BEFORE);
      if (state === 'double' || state === 'block') return inQuotes(place, advice);
      return state === 'outside' && quote === 'quote_json' ? free : wordsOnly(place, advice ?? byFilter('quote_json'));
    },
  };
};

const followers = {
  csv: createCsvFollower,
  yaml: createYamlFollower,
  graphql: () => createGraphqlFollower(),
  quoted: createQuotedFollower,
  lines: createLinesFollower,
};

export type RuledKind = keyof typeof followers;

/** Pauses after each slice. @throws invalidInput at the place. */
export function* splitRuled(
  kind: RuledKind,
  text: string,
  place: string,
  references: References,
  encode: Encode,
): Slices<TextParts> {
  if (!text.includes('{{')) return [text];
  if (kind === 'lines' && isWhole(cutText(text, place, references))) return splitText(text, place, references, encode);
  return yield* splitBy(text, place, references, { follower: followers[kind](), encode });
}
