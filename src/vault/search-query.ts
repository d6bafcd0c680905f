// The query of a token search, a Lucene subset, parsed into a tree in one pass. What Lucene would guess at is refused here.
// Pure: knows no database, no keys and no caller. decisions.md section 2, background.md section 2 ("Search grammar").
import { z } from 'zod';
import { parseContainer } from './containers.ts';
import { parseDate } from './dates.ts';
import { isStorableText } from './json.ts';
import { createScanner, type Scanner, take } from './scanner.ts';

/** One end of a range of time. */
export type SearchRangeEnd = { at: Date; inclusive: boolean };

/**
 * `and` and `or` hold at least two nodes, none of their own kind; a `not` never holds a `not`. Values stand as written,
 * but for UUIDs and container paths, which are lower-case. `below`: the path is a prefix of the container's text. A range
 * without ends asks for any value.
 */
export type SearchNode =
  | { kind: 'and' | 'or'; nodes: SearchNode[] }
  | { kind: 'not'; node: SearchNode }
  | { kind: 'term'; field: 'id' | 'type' | 'fingerprint' | 'created_by' | 'modified_by'; value: string }
  | { kind: 'data'; value: string }
  | { kind: 'metadata'; key: string; value: string }
  | { kind: 'container'; path: string; below: boolean }
  | { kind: 'range'; field: 'created_at' | 'modified_at'; from?: SearchRangeEnd; to?: SearchRangeEnd };

/** The message completes "query ..." and never holds text of the query: that may be the data someone looks for. */
export class SearchQueryError extends Error {
  override readonly name = 'SearchQueryError';
}

/** background.md section 2. Bounds the terms as well: the densest query, `id:a OR id:b OR ...`, has 25. */
export const SEARCH_QUERY_LENGTH_MAX = 200;

/** A query as a request brings it; what it says is not looked at. */
export const searchQueryText = z
  .string('must be a text')
  .min(1, 'must not be empty')
  .max(SEARCH_QUERY_LENGTH_MAX, `must be at most ${SEARCH_QUERY_LENGTH_MAX} characters`);

/** Levels of parentheses: each adds at most an `or`, an `and` and a `not` to the depth of the tree, and bounds recursion. */
export const SEARCH_DEPTH_MAX = 10;

// --- Scanning ---

/** Matches a sticky pattern behind blanks, which mean nothing before it. */
const takeSpaced = (scanner: Scanner, pattern: RegExp): RegExpExecArray | undefined => {
  take(scanner, space);
  return take(scanner, pattern);
};

/** An operator is a word of its own; a parenthesis or `!` may touch it. */
const and = /AND(?=[\s()!]|$)/y;
const or = /OR(?=[\s()!]|$)/y;
const not = /(?:NOT(?=[\s()!]|$)|[!-])/y;
const opening = /\(/y;
const closing = /\)/y;
const end = /$/y;
const fieldName = /([A-Za-z0-9_.-]+):/y;
const phrase = /"((?:[^"\\]|\\[^])*)"/y;
const word = /[^\s()]+/y;
const rangeOpening = /[[{]/y;
const rangeWord = /[^\s()[\]{}"]+/y;
const rangeMiddle = /\s+TO\s+/y;
const rangeClosing = /\s*[\]}]/y;
const space = /\s*/y;

/** What means something in Lucene (a fuzzy match, a boost, a wildcard ...) must not silently mean itself here. */
const meaningInLucene = /["[\]{}\\?~^]|&&|\|\|/;

/** A text in double quotes, unescaped; undefined where none opens. */
const takePhrase = (scanner: Scanner): string | undefined => {
  if (scanner.text[scanner.at] !== '"') return undefined;
  const match = take(scanner, phrase);
  if (!match) throw new SearchQueryError('must close every quotation mark');
  return (match[1] as string).replace(/\\([^])/g, (_, escaped: string) => {
    if (escaped !== '"' && escaped !== '\\')
      throw new SearchQueryError(String.raw`must have a backslash only before " or \ inside quotation marks`);
    return escaped;
  });
};

// --- Values ---

/** A date-time is an instant; a date alone is its UTC day, and `next` the first instant after it. */
type Moment = { at: Date; next?: Date };

const DAY_MS = 86_400_000;

/** Drivers write later years in forms that Postgres does not read; no token is made then. */
const LATEST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

const instant = (ms: number): Date => new Date(Math.min(ms, LATEST_MS));

const parseMoment = (text: string): Moment => {
  const date = parseDate(text);
  if (!date) throw new SearchQueryError('must have dates such as 2026-01-31 or 2026-01-31T19:23:57Z');
  const at = instant(date.getTime());
  // Every form of a date with a time has a colon, and none without.
  return text.includes(':') ? { at } : { at, next: instant(date.getTime() + DAY_MS) };
};

/** An inclusive end takes a whole day in, an exclusive one leaves a whole day out. */
const lowerEnd = ({ at, next }: Moment, inclusive: boolean): SearchRangeEnd =>
  next ? { at: inclusive ? at : next, inclusive: true } : { at, inclusive };

const upperEnd = ({ at, next }: Moment, inclusive: boolean): SearchRangeEnd =>
  next ? { at: inclusive ? next : at, inclusive: false } : { at, inclusive };

const badRange = () => new SearchQueryError('must have ranges of the form [a TO b] or {a TO b}');

/** A date, in quotation marks or not; undefined for the `*` of an open end. */
const takeRangeMoment = (scanner: Scanner): Moment | undefined => {
  take(scanner, space);
  const text = takePhrase(scanner);
  if (text !== undefined) return parseMoment(text);
  const bare = take(scanner, rangeWord)?.[0];
  if (bare === undefined) throw badRange();
  return bare === '*' ? undefined : parseMoment(bare);
};

type Range = { from?: SearchRangeEnd; to?: SearchRangeEnd };

/** `[a TO b]`, `{a TO b}` or a mix of both; undefined where none opens. */
const takeRange = (scanner: Scanner): Range | undefined => {
  const open = take(scanner, rangeOpening)?.[0];
  if (open === undefined) return undefined;
  const from = takeRangeMoment(scanner);
  const middle = take(scanner, rangeMiddle);
  const to = middle && takeRangeMoment(scanner);
  const close = take(scanner, rangeClosing)?.[0];
  if (!middle || close === undefined) throw badRange();
  return {
    ...(from && { from: lowerEnd(from, open === '[') }),
    ...(to && { to: upperEnd(to, close.endsWith(']')) }),
  };
};

/** A word or a phrase. Only a container may end in a bare `*`; in a phrase `*` is a character like any other. */
const takeValue = (scanner: Scanner, mayEndInStar: boolean): string => {
  const quoted = takePhrase(scanner);
  const value = quoted ?? take(scanner, word)?.[0] ?? '';
  if (value === '') throw new SearchQueryError('must have a value right after every colon');
  if (quoted !== undefined) return value;
  if (meaningInLucene.test(value))
    throw new SearchQueryError(
      String.raw`must put values that have " [ ] { } \ ? ~ ^ && or || between quotation marks`,
    );
  const star = value.indexOf('*');
  if (star !== -1 && !(mayEndInStar && star === value.length - 1))
    throw new SearchQueryError('must have * only at the end of a container or for the open end of a range');
  return value;
};

/** The start of a container's text: whole segments, then perhaps a part of one. */
const containerPrefix = /^\/(?:[A-Za-z0-9_-]+\/)*[A-Za-z0-9_-]*$/;

const parseContainerPrefix = (text: string): string | undefined =>
  containerPrefix.test(text) ? text.toLowerCase() : undefined;

const parseContainerValue = (value: string): { path: string; below: boolean } => {
  const below = value.endsWith('*');
  const path = below ? parseContainerPrefix(value.slice(0, -1)) : parseContainer(value);
  if (path === undefined) throw new SearchQueryError('must have containers such as /pci/high/ or /pci/*');
  return { path, below };
};

const uuidPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const parseUuid = (value: string): string => {
  if (!uuidPattern.test(value)) throw new SearchQueryError('must have UUIDs in created_by and modified_by');
  return value.toLowerCase();
};

/** A word that names no type is a term that matches nothing; what cannot be a name is a mistake. */
const parseTypeName = (value: string): string => {
  if (!/^[A-Za-z0-9_-]+$/.test(value)) throw new SearchQueryError('must have one word as a type');
  return value;
};

/** As metadata's keys are when a token is made; the query's length bounds theirs. */
const metadataKeyPattern = /^[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?$/;

const METADATA = 'metadata.';

// --- Terms ---

const takeTerm = (scanner: Scanner): SearchNode => {
  const field = takeSpaced(scanner, fieldName)?.[1];
  if (field === undefined) throw new SearchQueryError('must have terms of the form field:value');
  if (field === 'created_at' || field === 'modified_at') {
    const range = takeRange(scanner);
    if (range) return { kind: 'range', field, ...range };
    const moment = parseMoment(takeValue(scanner, false));
    return { kind: 'range', field, from: lowerEnd(moment, true), to: upperEnd(moment, true) };
  }
  const key = field.startsWith(METADATA) ? field.slice(METADATA.length) : undefined;
  if (key !== undefined && !metadataKeyPattern.test(key))
    throw new SearchQueryError('must have metadata keys of letters, digits, dots, dashes and underscores');
  // The field is judged before its value, so that a misspelt name is what the caller hears of.
  const build = key === undefined ? termOf(field) : (value: string) => ({ kind: 'metadata' as const, key, value });
  if (take(scanner, rangeOpening)) throw new SearchQueryError('must use ranges with created_at and modified_at only');
  return build(takeValue(scanner, field === 'container'));
};

/** How a field other than dates and metadata makes a node of its value. */
const termOf = (field: string): ((value: string) => SearchNode) => {
  switch (field) {
    case 'id':
    case 'fingerprint':
      return (value) => ({ kind: 'term', field, value });
    case 'type':
      return (value) => ({ kind: 'term', field, value: parseTypeName(value) });
    case 'created_by':
    case 'modified_by':
      return (value) => ({ kind: 'term', field, value: parseUuid(value) });
    case 'data':
      return (value) => ({ kind: 'data', value });
    case 'container':
      return (value) => ({ kind: 'container', ...parseContainerValue(value) });
    default:
      throw new SearchQueryError(
        'must name one of the fields id, type, data, fingerprint, container, metadata.KEY, created_by, created_at, modified_by, modified_at',
      );
  }
};

// --- Operators: NOT binds before AND, AND before OR ---

/** Lucene would read an OR between terms that stand side by side, most callers an AND: neither is guessed. */
const notJoined = () => new SearchQueryError('must join terms by AND or OR, in upper case');

const join = (kind: 'and' | 'or', nodes: SearchNode[]): SearchNode => {
  const [first] = nodes;
  if (nodes.length === 1) return first as SearchNode;
  return { kind, nodes: nodes.flatMap((node) => (node.kind === kind ? node.nodes : [node])) };
};

const negate = (node: SearchNode): SearchNode => (node.kind === 'not' ? node.node : { kind: 'not', node });

const parseOr = (scanner: Scanner, depth: number): SearchNode => {
  const nodes = [parseAnd(scanner, depth)];
  while (takeSpaced(scanner, or)) nodes.push(parseAnd(scanner, depth));
  return join('or', nodes);
};

const parseAnd = (scanner: Scanner, depth: number): SearchNode => {
  const nodes = [parseNot(scanner, depth)];
  while (takeSpaced(scanner, and)) nodes.push(parseNot(scanner, depth));
  return join('and', nodes);
};

const parseNot = (scanner: Scanner, depth: number): SearchNode => {
  let negated = false;
  while (takeSpaced(scanner, not)) negated = !negated;
  const node = takeSpaced(scanner, opening) ? parseGroup(scanner, depth + 1) : takeTerm(scanner);
  return negated ? negate(node) : node;
};

const parseGroup = (scanner: Scanner, depth: number): SearchNode => {
  if (depth > SEARCH_DEPTH_MAX)
    throw new SearchQueryError(`must not nest parentheses deeper than ${SEARCH_DEPTH_MAX} levels`);
  const node = parseOr(scanner, depth);
  if (takeSpaced(scanner, closing)) return node;
  throw takeSpaced(scanner, end) ? new SearchQueryError('must close every parenthesis') : notJoined();
};

/**
 * @param scanner at the start of the text; the steps of the parser are counted there.
 * @throws SearchQueryError for every text that is not a query as a whole.
 */
export const parseSearchQuery = (text: string, scanner: Scanner = createScanner(text)): SearchNode => {
  if (text.length > SEARCH_QUERY_LENGTH_MAX)
    throw new SearchQueryError(`must be at most ${SEARCH_QUERY_LENGTH_MAX} characters`);
  if (!isStorableText(text)) throw new SearchQueryError('must be text without NUL or half surrogate pairs');
  if (text.trim() === '') throw new SearchQueryError('must not be empty');
  const node = parseOr(scanner, 0);
  if (takeSpaced(scanner, end)) return node;
  throw takeSpaced(scanner, closing) ? new SearchQueryError('must open every parenthesis that it closes') : notJoined();
};
