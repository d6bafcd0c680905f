// JSON with expressions in its strings: they are found in what the strings mean, and values are put into the text, of which
// everything else stays byte for byte: order, doubled keys, numbers that a double does not hold. Keys are never expanded.
import { invalidField } from '../errors.ts';
import { expandJson, type References } from '../vault/expansion.ts';
import { formatPath, JSON_DEPTH_MAX } from '../vault/json.ts';
import { JSON_SLICE_CHARACTERS, JsonSyntaxError, parseInSlices, type Slices } from '../vault/json-parser.ts';
import type { Charset } from './body-kind.ts';
import { jsonOpening } from './opening.ts';
import { createSlot, type Pieces } from './pieces.ts';

/** Names and indexes, outermost first. */
export type Path = readonly (string | number)[];

const nextOpening = new RegExp(jsonOpening.pattern, 'gi');

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * A container on the way down: the index of an item, or where the name of a member stands, and the name itself once it was
 * asked for: there may be a thousand expressions under a name of megabytes.
 */
type Level = { index: number } | { nameFrom: number; nameTo: number; name?: string };

/**
 * @param path where the text stands in the body.
 * @throws invalidInput where the text is no JSON, is nested deeper than JSON_DEPTH_MAX, or holds what is no expression.
 */
export function* splitJson(text: string, charset: Charset, path: Path, references: References): Slices<Pieces> {
  if (!jsonOpening.pattern.test(text)) return [text];
  try {
    return yield* split(text, charset, path, references);
  } catch (error) {
    // The parser's message quotes the text around the error: it stops here.
    const isSyntax = error instanceof SyntaxError || error instanceof JsonSyntaxError;
    throw isSyntax ? invalidField(formatPath(path), 'must be valid JSON') : error;
  }
}

/** Walks before it parses: what is nested too deep must not become objects first. @throws SyntaxError for what is no JSON. */
function* split(text: string, charset: Charset, path: Path, references: References): Slices<Pieces> {
  const pieces: Pieces = [];
  const levels: Level[] = [];
  let done = 0;
  let from = 0;
  let to = 0;
  let opening = findOpening(text, 0);
  let pauseAt = JSON_SLICE_CHARACTERS;
  for (let at = 0; at < text.length; at += 1) {
    if (at >= pauseAt) {
      yield;
      pauseAt = at + JSON_SLICE_CHARACTERS;
    }
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      from = at;
      to = endOfString(text, at);
      at = to - 1;
      if (opening < from) opening = findOpening(text, from);
      if (opening > to || isName(text, to)) continue;
      const value = JSON.parse(text.slice(from, to)) as string;
      if (!value.includes('{{')) continue;
      const place = formatPath([...path, ...spell(text, levels)]);
      const write = charset === 'utf8' ? JSON.stringify : asciiJson;
      const slot = createSlot(value, place, references, (expansion) => write(expandJson(value, expansion)));
      pieces.push(text.slice(done, from), slot);
      done = to;
    } else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      if (levels.length === JSON_DEPTH_MAX)
        throw invalidField(formatPath(path), `must not be nested deeper than ${JSON_DEPTH_MAX} levels`);
      levels.push(code === OPEN_LIST ? { index: 0 } : { nameFrom: 0, nameTo: 0 });
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) levels.pop();
    else if (code === COLON) levels[levels.length - 1] = { nameFrom: from, nameTo: to };
    else if (code === COMMA) {
      const level = levels.at(-1);
      if (level && 'index' in level) level.index += 1;
    }
  }
  // A byte order mark is no JSON, and is there all the same (RFC 8259 section 8.1).
  yield* parseInSlices(text.startsWith('\ufeff') ? text.slice(1) : text);
  pieces.push(text.slice(done));
  return pieces;
}

/** Where something next opens like an expression, in a string or not. */
const findOpening = (text: string, from: number): number => {
  nextOpening.lastIndex = from;
  return nextOpening.exec(text)?.index ?? Infinity;
};

/** Behind the closing quote of the string that opens at `from`. */
const endOfString = (text: string, from: number): number => {
  for (let at = text.indexOf('"', from + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return at + 1;
  }
  throw new SyntaxError('a string without an end');
};

/** Whether a string that ends here is the name of a member. */
const isName = (text: string, end: number): boolean => {
  let at = end;
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at += 1;
  return text.charCodeAt(at) === COLON;
};

const spell = (text: string, levels: readonly Level[]): Path =>
  levels.map((level) => {
    if ('index' in level) return level.index;
    level.name ??= formatPath([JSON.parse(text.slice(level.nameFrom, level.nameTo)) as string]);
    return level.name;
  });

/** For charsets that do not hold every character: JSON can be written without them. */
const asciiJson = (value: unknown): string =>
  JSON.stringify(value).replace(/[\x7f-\uffff]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** One text in each line, or behind each record separator (RFC 7464), where a text may have lines of its own. */
export function* splitJsonLines(text: string, charset: Charset, path: Path, references: References): Slices<Pieces> {
  const separator = text.includes('\x1e') ? '\x1e' : '\n';
  const pieces: Pieces = [];
  let done = 0;
  let end = 0;
  let pauseAt = JSON_SLICE_CHARACTERS;
  for (let start = 0, index = 0; start <= text.length; start = end + 1, index += 1) {
    const found = text.indexOf(separator, start);
    end = found === -1 ? text.length : found;
    if (start >= pauseAt) {
      yield;
      pauseAt = start + JSON_SLICE_CHARACTERS;
    }
    const line = text.slice(start, end);
    if (!jsonOpening.pattern.test(line)) continue;
    pieces.push(text.slice(done, start), ...(yield* splitJson(line, charset, [...path, index], references)));
    done = end;
  }
  pieces.push(text.slice(done));
  return pieces;
}
