// Restricts values in headers, CSV, YAML and GraphQL, so that they cannot change the structure around them.
// One pass over the text. Where it is uncertain whether a value is quoted, the stricter rule applies.
import type { Headers } from '../../../platform/egress/headers.ts';
import type { References } from '../../tokens/expressions/expansion.ts';
import { JSON_SLICE_CHARACTERS } from '../../../platform/json/json-parser.ts';
import { runAtOnce, type Slices } from '../../../platform/json/slices.ts';
import { createTextSlot, cutText, type Encode, type TextParts, refuseValue } from './text-parts.ts';

/** Throws to refuse a value. */
type Check = (value: string) => void;

const refuseIf =
  (place: string, isUnfit: (value: string) => boolean, sentence: string): Check =>
  (value) => {
    if (isUnfit(value)) throw refuseValue(place, sentence);
  };

const free: Check = () => {};

/** Tracks the structure of a text and decides what a value may contain at the current position. */
type Follower = {
  /** Reads a slice of a literal. @returns the new position: after `to` if a delimiter of several characters ends there. */
  follow(literal: string, from: number, to: number): number;
  /** @param quote the last filter of the expression. The value counts as text before the next slice. */
  checkHere(place: string, quote: string | undefined): Check;
};

/** For a follower that reads one character at a time. */
const eachOf =
  (step: (character: string) => void): Follower['follow'] =>
  (literal, from, to) => {
    for (let at = from; at < to; at += 1) step(literal[at] as string);
    return to;
  };

function* splitBy(
  text: string,
  place: string,
  references: References,
  { follower, encode }: { follower: Follower; encode: Encode },
): Slices<TextParts> {
  const parts: TextParts = [];
  for (const { text: cut, isExpression, lastFilter } of cutText(text, place, references)) {
    if (isExpression) {
      const check = follower.checkHere(place, lastFilter);
      const encodeChecked: Encode = (value) => {
        check(value);
        return encode(value);
      };
      parts.push(createTextSlot(cut, place, references, encodeChecked));
      continue;
    }
    for (let at = 0; at < cut.length;) {
      at = follower.follow(cut, at, Math.min(cut.length, at + JSON_SLICE_CHARACTERS));
      if (at < cut.length) yield;
    }
    parts.push(cut);
  }
  return parts;
}

const IN_QUOTES = 'must put no quotation mark, backslash, line end or control character into quotes';

const BACKSLASH_BEFORE = 'must not have a backslash before an expression';

const inQuotes = (place: string): Check =>
  refuseIf(place, (value) => /["\\\p{Cc}\p{Zl}\p{Zp}]/u.test(value), IN_QUOTES);

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
  return {
    follow: eachOf((each) => {
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
        (value) => /[",;=\\]/.test(value),
        'must not put a quotation mark, a backslash, an equals sign, a comma or a semicolon into a part of a header',
      );
    },
  };
};

/** An authentication scheme before credentials (RFC 9110 section 11.4). */
const scheme = /^[A-Za-z][A-Za-z0-9-]*[\t ]+$/;

/** Other headers may hold credentials, but begin with other words too. Only these count as schemes there. */
const commonScheme = /^(?:Basic|Bearer)[\t ]+$/i;

const ofCredentials = /^(?:proxy-)?authorization$/i;

/** A header that is one value, or a scheme with one value, has no structure that the value could change. */
const isOneValue = (name: string, text: string, place: string, references: References): boolean => {
  const cuts = cutText(text, place, references);
  const literals = cuts.filter((cut) => !cut.isExpression);
  if (literals.every((cut) => cut.text.trim() === '')) return true;
  const [first, second, ...others] = cuts;
  const schemes = ofCredentials.test(name) ? scheme : commonScheme;
  const isScheme = first?.isExpression === false && schemes.test(first.text) && second?.isExpression === true;
  return isScheme && others.every((cut) => !cut.isExpression && cut.text.trim() === '');
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
  'must put no quotation mark, comma, semicolon, tab or line end into CSV, and nothing that begins with =, +, - or @; the filter quote_csv puts any value into a field';

/** Some readers accept more line ends than RFC 4180 does. */
const csvStructure = /["\t\n\v\f\r\u0085\u2028\u2029,;]|^[=+\-@]/;

const createCsvFollower = (): Follower => {
  let isQuoted = false;
  let last = '\n';
  return {
    follow: eachOf((each) => {
      if (each === '"') isQuoted = !isQuoted;
      last = each;
    }),
    checkHere: (place, quote) => {
      const isField = !isQuoted && /[,;\t\r\n]/.test(last);
      last = 'x';
      if (isField && quote === 'quote_csv') return free;
      return refuseIf(place, (value) => csvStructure.test(value), CSV);
    },
  };
};

/** A leading dash or dot would begin a YAML list item or end the document. A dash is allowed before a digit only. */
const isWord = (value: string): boolean => /^(?:(?:[A-Za-z_]|-?[0-9])[A-Za-z0-9_.-]*)?$/.test(value);

const wordsOnly = (place: string, filter: string): Check =>
  refuseIf(
    place,
    (value) => !isWord(value),
    `must put only a number, or letters, digits, _, . and -, the first a letter, a digit or _, outside of double quotes; the filter ${filter} puts any value there`,
  );

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
      return isQuotable ? free : wordsOnly(place, 'quote_yaml');
    },
  };
};

/** GraphQL, October 2021, section 2.9.4: a string ends with its line, a block string with three quotation marks. */
const createGraphqlFollower = (): Follower => {
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
      if (state === 'double' || state === 'block') return inQuotes(place);
      return state === 'outside' && quote === 'quote_json' ? free : wordsOnly(place, 'quote_json');
    },
  };
};

const followers = { csv: createCsvFollower, yaml: createYamlFollower, graphql: createGraphqlFollower };

export type RuledKind = keyof typeof followers;

/** Pauses after each slice. @throws invalidInput at the place. */
export function* splitRuled(
  kind: RuledKind,
  text: string,
  place: string,
  references: References,
  encode: Encode,
): Slices<TextParts> {
  return text.includes('{{')
    ? yield* splitBy(text, place, references, { follower: followers[kind](), encode })
    : [text];
}
