// Documents within a text: GraphQL in the member `query`, and JSON in a string, a field of a form or a parameter.
// A value in one follows the rule of its format, so that it cannot change the document.
import { JSON_SLICE_CHARACTERS, JsonSyntaxError, parseInSlices } from '../../../platform/json/json-parser.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import type { Cut, References } from '../../tokens/expressions/expansion.ts';
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
import { withoutByteOrderMark } from './utf16.ts';
import { createTextSlot, cutText, type Encode, refuseValue, type TextParts } from './text-parts.ts';

/** GraphQL over HTTP: the member of a JSON body, the parameter or the field that holds the document. */
export const GRAPHQL_NAME = 'query';

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
const jsonStart = /^\ufeff?[\t\n\r ]*(?:\{[\t\n\r ]*"|\[[\t\n\r ]*["{[])/;

/** Whether the author's own text begins like JSON, or is a JSON object or list with strings in place of the expressions. */
function* isJson(cuts: readonly Cut[]): Slices<boolean> {
  const [first] = cuts;
  if (first === undefined || first.isExpression || !/^\ufeff?[\t\n\r ]*[[{]/.test(first.text)) return false;
  if (jsonStart.test(first.text)) return true;
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
