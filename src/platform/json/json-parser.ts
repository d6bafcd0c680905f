// Parses JSON (RFC 8259) in slices, so that a large text does not block the event loop. Finds what a body must not have:
// duplicate keys, deep nesting, keys that could change a prototype, and numbers that a double does not hold exactly.
import { JSON_DEPTH_MAX, type Json, depthProblem, formatPath } from './json.ts';
import { isExactNumber } from './json-numbers.ts';
import type { FieldCode } from './problem-codes.ts';
import type { Slices } from './slices.ts';

/** `steps`: each attempt to match counts one, and each character that a match takes counts one more. */
export type Scanner = { readonly text: string; at: number; steps: number };

export const createScanner = (text: string): Scanner => ({ text, at: 0, steps: 0 });

/**
 * Matches a sticky pattern at the position of the scanner, and moves behind the match.
 * @param pattern must fail within a few characters, or its failure must make the parser refuse the text: characters that a
 * failed match looked at are not counted.
 */
export const take = (scanner: Scanner, pattern: RegExp): RegExpExecArray | undefined => {
  pattern.lastIndex = scanner.at;
  const match = pattern.exec(scanner.text) ?? undefined;
  scanner.steps += 1;
  if (match) {
    scanner.steps += match[0].length;
    scanner.at = pattern.lastIndex;
  }
  return match;
};

/** Moves behind `text` where the scanner stands before it. */
export const takeText = (scanner: Scanner, text: string): boolean => {
  scanner.steps += 1;
  if (!scanner.text.startsWith(text, scanner.at)) return false;
  scanner.steps += text.length;
  scanner.at += text.length;
  return true;
};

/**
 * Characters of a slice, also of one long string: less than a millisecond. A slice ends after a token. A name, a number or a run
 * of white space is never split: a megabyte of it takes about two milliseconds.
 */
export const JSON_SLICE_CHARACTERS = 32_768;

/** The sentence follows the path, and has no value. */
export type JsonFinding = { path: string; sentence: string; code: FieldCode };

/** The first finding of each kind. */
export type JsonFindings = Partial<Record<'depth' | 'values' | 'prototype' | 'duplicate' | 'number', JsonFinding>>;

export type ParsedJson = { value: Json; findings: JsonFindings };

/** Line and column at which a text breaks the syntax: both count from 1, the column in UTF-16 units. */
export type TextPlace = { line: number; column: number };

/** The end of an error's sentence. */
export const describePlace = ({ line, column }: TextPlace): string => `: see line ${line}, column ${column}`;

/** The text is not JSON. Says where, but not what is there. */
export class JsonSyntaxError extends Error {
  override readonly name = 'JsonSyntaxError';
  readonly place: TextPlace;
  constructor(place: TextPlace) {
    super();
    this.place = place;
  }
}

/** Ends the parse at the position of the reader. */
class SyntaxFault extends Error {}

type Members = Record<string, Json>;

/** An array or object that is not closed yet. `name` is the key of the next value. */
type Level = { items: Json[]; members?: undefined } | { items?: undefined; members: Members; name: string };

type Reader = {
  readonly text: string;
  at: number;
  /** Commas and containers so far. */
  values: number;
  /** It stands before a string that is taken in slices. */
  isBeforeLong: boolean;
  readonly levels: Level[];
  readonly findings: JsonFindings;
};

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const SMALL_U = 0x75;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const SPACE = 0x20;

const refuse = (reader: Reader, at = reader.at): never => {
  reader.at = at;
  throw new SyntaxFault();
};

/** At the first character that the string must not have, or at the end of the text. A string of more than a slice is refused at its start. */
const refuseString = (reader: Reader): never => {
  const { text } = reader;
  let at = reader.at + 1;
  for (; at < text.length; at += 1) {
    if (at - reader.at > JSON_SLICE_CHARACTERS) return refuse(reader);
    const code = text.charCodeAt(at);
    if (code < SPACE) break;
    if (code !== BACKSLASH) continue;
    const length = text.charCodeAt(at + 1) === SMALL_U ? 6 : 2;
    if (!isEscape.test(text.slice(at, at + length))) break;
    at += length - 1;
  }
  return refuse(reader, at);
};

const isEscape = /^\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})$/;

/** Pauses after each slice. */
function* findPlace(text: string, at: number): Slices<TextPlace> {
  let line = 1;
  let lineStart = 0;
  let pauseAt = JSON_SLICE_CHARACTERS;
  for (;;) {
    const end = text.indexOf('\n', lineStart);
    if (end === -1 || end >= at) return { line, column: at - lineStart + 1 };
    line += 1;
    lineStart = end + 1;
    if (lineStart < pauseAt) continue;
    yield;
    pauseAt = lineStart + JSON_SLICE_CHARACTERS;
  }
}

/** The next character that is not white space, or NaN. The reader stays before it. */
const nextCode = (reader: Reader): number => {
  for (;;) {
    const code = reader.text.charCodeAt(reader.at);
    if (code !== SPACE && code !== 0x0a && code !== 0x0d && code !== 0x09) return code;
    reader.at += 1;
  }
};

// --- Texts, numbers and words ---

/** A value. @returns undefined before a string of more than one slice. */
const takeShortString = (reader: Reader): string | undefined => {
  const { text, at: from } = reader;
  const end = from + JSON_SLICE_CHARACTERS;
  if (end < text.length) {
    const quote = text.indexOf('"', from + 1);
    if (quote === -1) refuseString(reader);
    reader.isBeforeLong = quote >= end || text.charCodeAt(quote - 1) === BACKSLASH;
    if (reader.isBeforeLong) return undefined;
  }
  return takeString(reader);
};

/** The same string as JSON.parse reads, in pieces that divide no escape. */
function* takeLongString(reader: Reader): Slices<string> {
  const { text } = reader;
  const pieces: string[] = [];
  let at = reader.at + 1;
  for (;;) {
    const from = at;
    const pauseAt = Math.min(from + JSON_SLICE_CHARACTERS, text.length);
    let code = NaN;
    while (at < pauseAt && (code = text.charCodeAt(at)) !== QUOTE)
      if (code !== BACKSLASH) at += 1;
      else at += text.charCodeAt(at + 1) === SMALL_U ? 6 : 2;
    if (at >= text.length) refuseString(reader);
    pieces.push(parseLiteral(reader, `"${text.slice(from, at)}"`));
    if (code === QUOTE && at < pauseAt) break;
    yield;
  }
  reader.at = at + 1;
  return pieces.join('');
}

const takeString = (reader: Reader): string => {
  const { text, at: from } = reader;
  let at = from + 1;
  let code = text.charCodeAt(at);
  // Also stops at the end of the text, where the code is NaN.
  while (code >= SPACE && code !== QUOTE && code !== BACKSLASH) code = text.charCodeAt((at += 1));
  if (code === QUOTE) {
    reader.at = at + 1;
    return text.slice(from + 1, at);
  }
  return takeEscapedString(reader, at);
};

/** A string with a backslash, or an invalid one. JSON.parse reads it. */
const takeEscapedString = (reader: Reader, from: number): string => {
  const { text } = reader;
  for (let at = from; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at += 1;
    else if (code === QUOTE) {
      const value = parseLiteral(reader, text.slice(reader.at, at + 1));
      reader.at = at + 1;
      return value;
    }
  }
  return refuseString(reader);
};

/** A string, or a piece of it. The reader stands at its start. */
const parseLiteral = (reader: Reader, literal: string): string => {
  try {
    return JSON.parse(literal) as string;
  } catch {
    return refuseString(reader);
  }
};

const numberForm = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;

const takeNumber = (reader: Reader): number => {
  numberForm.lastIndex = reader.at;
  const [literal] = numberForm.exec(reader.text) ?? refuse(reader);
  reader.at = numberForm.lastIndex;
  if (!isExactNumber(literal))
    reader.findings.number ??= {
      path: pathOf(reader.levels),
      sentence: 'must be a number that a double holds exactly, or a string',
      code: 'inexact_number',
    };
  return Number(literal);
};

const takeWord = (reader: Reader): Json => {
  for (const [word, value] of words)
    if (reader.text.startsWith(word, reader.at)) {
      reader.at += word.length;
      return value;
    }
  return refuse(reader);
};

const words: [string, Json][] = [
  ['true', true],
  ['false', false],
  ['null', null],
];

// --- Containers ---

const pathOf = (levels: readonly Level[]): string =>
  formatPath(levels.map((level) => (level.items ? level.items.length : level.name)));

const open = ({ levels, findings }: Reader, level: Level): void => {
  if (levels.length === JSON_DEPTH_MAX)
    findings.depth ??= { path: '', sentence: `the body ${depthProblem()}`, code: 'too_deep' };
  levels.push(level);
};

/** A name and its colon. */
const takeName = (reader: Reader): void => {
  const { levels, findings } = reader;
  if (nextCode(reader) !== QUOTE) refuse(reader);
  const level = levels.at(-1) as Extract<Level, { name: string }>;
  level.name = takeString(reader);
  if (nextCode(reader) !== COLON) refuse(reader);
  reader.at += 1;
  if (Object.hasOwn(level.members, level.name))
    findings.duplicate ??= {
      path: pathOf(levels),
      sentence: 'must not be there twice in one object',
      code: 'duplicate_name',
    };
  // `constructor` is refused only if its value has a `prototype`.
  const outer = levels.at(-2);
  const key =
    level.name === '__proto__'
      ? level.name
      : level.name === 'prototype' && outer?.members && outer.name === 'constructor' && 'constructor.prototype';
  if (key)
    findings.prototype ??= {
      path: pathOf(levels.slice(0, key === '__proto__' ? -1 : -2)),
      sentence: `must not have the key ${key}`,
      code: 'forbidden_name',
    };
};

/** Adds a value to its container. Never sets a prototype: such a key is a finding, and is dropped. */
const attach = (level: Level, value: Json): void => {
  if (level.items) level.items.push(value);
  else if (level.name !== '__proto__') level.members[level.name] = value;
};

const isContainerStart = (code: number): boolean => code === OPEN_LIST || code === OPEN_OBJECT;

/** Begins a value. @returns the value if it is complete; undefined for a container with content, and before a long string. */
const takeValue = (reader: Reader): Json | undefined => {
  const code = nextCode(reader);
  if (!isContainerStart(code)) {
    if (code === QUOTE) return takeShortString(reader);
    return code === MINUS || (code >= 0x30 && code <= 0x39) ? takeNumber(reader) : takeWord(reader);
  }
  reader.at += 1;
  reader.values += 1;
  const isList = code === OPEN_LIST;
  const level: Level = isList ? { items: [] } : { members: {}, name: '' };
  open(reader, level);
  if (nextCode(reader) !== (isList ? CLOSE_LIST : CLOSE_OBJECT)) {
    if (!isList) takeName(reader);
    return undefined;
  }
  reader.at += 1;
  reader.levels.pop();
  return level.items ?? level.members;
};

/** Adds a value to its container. @returns the container, if it ends here; undefined if another value follows. */
const takeEnd = (reader: Reader, level: Level, value: Json): Json | undefined => {
  attach(level, value);
  const code = nextCode(reader);
  reader.at += 1;
  if (code === COMMA) {
    reader.values += 1;
    if (!level.items) takeName(reader);
    return undefined;
  }
  if (code !== (level.items ? CLOSE_LIST : CLOSE_OBJECT)) refuse(reader, reader.at - 1);
  reader.levels.pop();
  return level.items ?? level.members;
};

/**
 * Parses like JSON.parse, except that it drops keys named `__proto__`. Pauses after each slice. Does not recurse.
 * @param stops what ends it early, with null and the findings so far: deep nesting, whose rest may take a hundred times as much
 * memory; more than so many values.
 * @throws JsonSyntaxError.
 */
export function* parseInSlices(text: string, limits: Limits = {}): Slices<ParsedJson> {
  const reader: Reader = { text, at: 0, values: 0, isBeforeLong: false, levels: [], findings: {} };
  try {
    return yield* parse(reader, limits);
  } catch (error) {
    if (!(error instanceof SyntaxFault)) throw error;
    throw new JsonSyntaxError(yield* findPlace(text, reader.at));
  }
}

/** Finds where a text breaks the syntax; undefined for valid JSON, and for what is nested too deep before. */
export function* findSyntaxError(text: string): Slices<TextPlace | undefined> {
  try {
    yield* parseInSlices(text, { stopsAtDepth: true });
    return undefined;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return error.place;
    throw error;
  }
}

type Limits = { stopsAtDepth?: boolean; valuesMax?: number };

function* parse(reader: Reader, { stopsAtDepth = false, valuesMax = Infinity }: Limits): Slices<ParsedJson> {
  const { text, findings } = reader;
  let pauseAt = JSON_SLICE_CHARACTERS;
  let value: Json | undefined;
  for (;;) {
    const level = reader.levels.at(-1);
    if (reader.isBeforeLong) {
      value = yield* takeLongString(reader);
      reader.isBeforeLong = false;
    } else if (value === undefined) value = takeValue(reader);
    else if (level) value = takeEnd(reader, level, value);
    else break;
    if (reader.values > valuesMax)
      findings.values ??= { path: '', sentence: `must not hold more than ${valuesMax} values`, code: 'too_large' };
    if (findings.values || (stopsAtDepth && findings.depth)) return { value: null, findings };
    if (reader.at < pauseAt) continue;
    yield;
    pauseAt = reader.at + JSON_SLICE_CHARACTERS;
  }
  nextCode(reader);
  return reader.at === text.length ? { value, findings } : refuse(reader);
}
