// Finds expressions in the string values of JSON, whatever their escapes, and writes values into the text.
// Everything else stays byte for byte: order, duplicate names, large numbers. Names with braces are refused. Documents within a text
// are here too: a value in one follows the rule of its format.
import { invalidField } from '../../../platform/base/errors.ts';
import { type Cut, expandJson, type Expansion, type References } from '../../tokens/expressions/expansion.ts';
import { depthProblem, formatPath, JSON_DEPTH_MAX } from '../../../platform/json/json.ts';
import {
  describePlace,
  findSyntaxError,
  JSON_SLICE_CHARACTERS,
  JsonSyntaxError,
  parseInSlices,
} from '../../../platform/json/json-parser.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import type { Charset } from './body-kind.ts';
import { hasKeptBytes } from './charsets.ts';
import { jsonStart } from './expression-start.ts';
import {
  createSlot,
  createTextSlot,
  cutText,
  type Encode,
  refuseName,
  refuseValue,
  type TextParts,
  writeParts,
} from './text-parts.ts';
import { withoutByteOrderMark } from './text-charset.ts';
import {
  BACKSLASH_BEFORE,
  type Check,
  checkCuts,
  createGraphqlFollower,
  eachOf,
  encodeChecked,
  type Follower,
  free,
  inQuotes,
  refuseIf,
} from './place-rules.ts';

/** Property names and indexes, outermost first. */
export type Path = readonly (string | number)[];

// Documents within a text: GraphQL in the member `query`, and JSON in a string, a field of a form or a parameter.
// A value in one follows the rule of its format, so that it cannot change the document.

/** GraphQL over HTTP: the member of a JSON body, the parameter or the field that holds the document. */
const GRAPHQL_NAME = 'query';

const VARIABLES = 'put the value into `variables`, which take any';

/**
 * Each GraphQL document has braces around its fields (GraphQL, October 2021, section 2.8). Other languages of queries with braces,
 * such as SPARQL, write their strings in the same way.
 */
const isGraphql = (cuts: readonly Cut[]): boolean => cuts.some((cut) => !cut.isExpression && cut.text.includes('{'));

const QUOTED = 'the filter quote_json puts any value there, with its quotation marks';

const isJsonValue = (value: string): boolean => {
  try {
    JSON.parse(value);
    return true;
  } catch {
    return false;
  }
};

/** Whether a position in JSON is within a string (RFC 8259 section 7). */
const createJsonState = () => {
  const state = { isQuoted: false, isEscaped: false };
  const step = (each: string): void => {
    if (state.isEscaped) state.isEscaped = false;
    else if (state.isQuoted && each === '\\') state.isEscaped = true;
    else if (each === '"') state.isQuoted = !state.isQuoted;
  };
  return { state, follow: eachOf(step) };
};

/** In strings within strings of the document a value without quotation marks and backslashes is safe as well. */
const createJsonFollower = (): Follower => {
  const { state, follow } = createJsonState();
  return {
    follow,
    checkHere: (place, quote) => {
      if (state.isEscaped) throw refuseValue(place, BACKSLASH_BEFORE);
      if (state.isQuoted) return inQuotes(place, `in JSON within a text ${QUOTED}`);
      if (quote === 'quote_json') return free;
      return refuseIf(
        place,
        (value) => !isJsonValue(value),
        `must put only a number, true, false, null, an object or a list outside of double quotes into JSON within a text; ${QUOTED}`,
      );
    },
  };
};

/** No other text begins like this. Some readers take comments, a comma at the end, or several documents. */
const documentStart = /^\ufeff?[\t\n\r ]*(?:\{[\t\n\r ]*"|\[[\t\n\r ]*["{[])/;

/** Whether the author's own text begins like JSON, or is a JSON object or list with strings in place of the expressions. */
function* isJson(cuts: readonly Cut[]): Slices<boolean> {
  const [first] = cuts;
  if (first === undefined || first.isExpression || !/^\ufeff?[\t\n\r ]*[[{]/.test(first.text)) return false;
  if (documentStart.test(first.text)) return true;
  const { state, follow } = createJsonState();
  const texts: string[] = [];
  for (const { text, isExpression } of cuts) {
    if (isExpression) {
      texts.push(state.isQuoted ? 'x' : '"x"');
      continue;
    }
    for (let at = 0; at < text.length; at += JSON_SLICE_CHARACTERS) {
      follow(text, at, Math.min(text.length, at + JSON_SLICE_CHARACTERS));
      yield;
    }
    texts.push(text);
  }
  try {
    yield* parseInSlices(withoutByteOrderMark(texts.join('')), { stopsAtDepth: true });
    return true;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return false;
    throw error;
  }
}

/**
 * The checks of the expressions in a text that is a document, in their order. Undefined for another text.
 * @param name of the member, parameter or field; undefined for none. @throws invalidInput at the place.
 */
export function* documentChecks(
  text: string,
  name: string | undefined,
  place: string,
  references: References,
): Slices<Check[] | undefined> {
  const cuts = cutText(text, place, references);
  const follower =
    name === GRAPHQL_NAME && isGraphql(cuts)
      ? createGraphqlFollower(VARIABLES)
      : (yield* isJson(cuts))
        ? createJsonFollower()
        : undefined;
  if (!follower) return undefined;
  const checked = yield* checkCuts(text, place, references, follower);
  return checked.flatMap(({ check }) => (check ? [check] : []));
}

/** Splits like `splitText`, with a check for each expression. */
export const splitChecked = (
  text: string,
  place: string,
  references: References,
  encode: Encode,
  checks: readonly Check[],
): TextParts => {
  let expressions = 0;
  return cutText(text, place, references).map((cut) =>
    cut.isExpression
      ? createTextSlot(cut.text, place, references, encodeChecked(checks[expressions++] ?? free, encode))
      : cut.text,
  );
};

// The text of JSON itself.

const nextStart = new RegExp(jsonStart.pattern, 'gi');

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * An array or object around the current position: the index of an item, or the range of a property name. The name is parsed
 * once and kept, because a thousand expressions may follow a name of megabytes.
 */
type Level = { index: number } | { nameFrom: number; nameTo: number; name?: string };

/**
 * @param path the place of the text within the body.
 * @throws invalidInput for invalid JSON, JSON nested deeper than JSON_DEPTH_MAX, and invalid expressions.
 */
export function* splitJson(text: string, charset: Charset, path: Path, references: References): Slices<TextParts> {
  if (!jsonStart.pattern.test(text)) return [text];
  try {
    return yield* split(text, charset, path, references);
  } catch (error) {
    // The message is not passed on, because it quotes the text around the error.
    if (!(error instanceof SyntaxError || error instanceof JsonSyntaxError)) throw error;
    const place = yield* findSyntaxError(withoutByteOrderMark(text));
    throw invalidField(
      formatPath(path),
      `must be valid JSON${place === undefined ? '' : describePlace(place)}`,
      'not_json',
    );
  }
}

/** Checks the depth before parsing, because deeply nested JSON must not become objects. @throws SyntaxError for invalid JSON. */
function* split(text: string, charset: Charset, path: Path, references: References): Slices<TextParts> {
  const parts: TextParts = [];
  const levels: Level[] = [];
  let done = 0;
  let from = 0;
  let to = 0;
  let start = findStart(text, 0);
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
      if (start < from) start = findStart(text, from);
      if (start > to) continue;
      const value = JSON.parse(text.slice(from, to)) as string;
      if (!value.includes('{{')) continue;
      if (isName(text, to)) {
        refuseName(path, references);
        continue;
      }
      const place = formatPath([...path, ...pathOf(text, levels)]);
      // The string is written again, so it cannot keep the spelling of a character that has several.
      if (charset !== 'utf8' && hasKeptBytes(value)) throw invalidField(place, SEVERAL_SPELLINGS);
      const write = charset === 'utf8' ? JSON.stringify : asciiJson;
      const name = isQuery(text, levels.at(-1)) ? GRAPHQL_NAME : undefined;
      const checks = yield* documentChecks(value, name, place, references);
      const document = checks && splitChecked(value, place, references, (each) => each, checks);
      const slot = document
        ? { place, write: (expansion: Expansion) => write(writeParts(document, expansion)) }
        : createSlot(value, place, references, (expansion) => write(expandJson(value, expansion)));
      parts.push(text.slice(done, from), slot);
      done = to;
    } else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      if (levels.length === JSON_DEPTH_MAX) throw invalidField(formatPath(path), depthProblem(), 'too_deep');
      levels.push(code === OPEN_LIST ? { index: 0 } : { nameFrom: 0, nameTo: 0 });
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) levels.pop();
    else if (code === COLON) levels[levels.length - 1] = { nameFrom: from, nameTo: to };
    else if (code === COMMA) {
      const level = levels.at(-1);
      if (level && 'index' in level) level.index += 1;
    }
  }
  yield* parseInSlices(withoutByteOrderMark(text));
  parts.push(text.slice(done));
  return parts;
}

const SEVERAL_SPELLINGS =
  'must have no characters beside the expression that have several spellings in the charset: use UTF-8';

/** The index of the next possible expression, within a string or not. */
const findStart = (text: string, from: number): number => {
  nextStart.lastIndex = from;
  return nextStart.exec(text)?.index ?? Infinity;
};

/** The index after the closing quote of the string that begins at `from`. */
const endOfString = (text: string, from: number): number => {
  for (let at = text.indexOf('"', from + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return at + 1;
  }
  throw new SyntaxError('a string without an end');
};

/** Whether the string that ends here is a property name. */
const isName = (text: string, end: number): boolean => {
  let at = end;
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at += 1;
  return text.charCodeAt(at) === COLON;
};

/** The member that holds a GraphQL document, in its longest spelling with escapes. */
const QUERY_CHARACTERS_MAX = 2 + 6 * GRAPHQL_NAME.length;

/** Whether the value at this level is that of the member `query`. */
const isQuery = (text: string, level: Level | undefined): boolean =>
  level !== undefined &&
  !('index' in level) &&
  level.nameTo - level.nameFrom <= QUERY_CHARACTERS_MAX &&
  JSON.parse(text.slice(level.nameFrom, level.nameTo)) === GRAPHQL_NAME;

const pathOf = (text: string, levels: readonly Level[]): Path =>
  levels.map((level) => {
    if ('index' in level) return level.index;
    level.name ??= formatPath([JSON.parse(text.slice(level.nameFrom, level.nameTo)) as string]);
    return level.name;
  });

/** Escapes characters that the charset may not have. */
const asciiJson = (value: unknown): string =>
  JSON.stringify(value).replace(/[\x7f-\uffff]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** One JSON text for each line, or after each record separator (RFC 7464), where a text may have several lines. */
export function* splitJsonLines(text: string, charset: Charset, path: Path, references: References): Slices<TextParts> {
  const separator = text.includes('\x1e') ? '\x1e' : '\n';
  const parts: TextParts = [];
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
    if (!jsonStart.pattern.test(line)) continue;
    parts.push(text.slice(done, start), ...(yield* splitJson(line, charset, [...path, index], references)));
    done = end;
  }
  parts.push(text.slice(done));
  return parts;
}
