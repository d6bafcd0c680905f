// Parses a token search query, a subset of Lucene syntax, into a tree in one pass.
// Refuses everything whose meaning differs between Lucene and its users' expectations.
import { DAY_MS } from '../../platform/base/times.ts';
import { z } from 'zod';
import { parseContainer } from '../access/containers.ts';
import { parseDate } from '../../platform/json/dates.ts';
import { isStorableText, NOT_STORABLE } from '../../platform/json/json.ts';
import { createScanner, type Scanner, take } from '../../platform/json/json-parser.ts';
import { isShownPart, type ShownPart } from './shown-parts.ts';

/** One end of a date range. */
export type SearchRangeEnd = { at: Date; inclusive: boolean };

/**
 * `and` and `or` have at least two nodes, none of their own kind; a `not` has no `not` as its node. Values are as written,
 * except UUIDs and container paths, which are in lower case. `below`: the path is a prefix of a container. A range without
 * ends matches any value.
 */
export type SearchNode =
  | { kind: 'and' | 'or'; nodes: SearchNode[] }
  | { kind: 'not'; node: SearchNode }
  | { kind: 'term'; field: 'id' | 'type' | 'fingerprint' | 'created_by' | 'modified_by'; value: string }
  | { kind: 'data'; value: string }
  | { kind: 'shown'; part: ShownPart; value: string }
  | { kind: 'metadata'; key: string; value: string }
  | { kind: 'container'; path: string; below: boolean }
  | { kind: 'range'; field: 'created_at' | 'modified_at'; from?: SearchRangeEnd; to?: SearchRangeEnd };

/** The message completes "query ...". It holds no text of the query, which may be sensitive data. */
export class SearchQueryError extends Error {
  override readonly name = 'SearchQueryError';
}

/** Also limits the number of terms: the densest query, `id:a OR id:b OR ...`, has 25. */
export const SEARCH_QUERY_LENGTH_MAX = 200;

/** The query of a request, not yet parsed. */
export const searchQueryText = z
  .string('must be a text')
  .min(1, 'must not be empty')
  .max(SEARCH_QUERY_LENGTH_MAX, `must be at most ${SEARCH_QUERY_LENGTH_MAX} characters`);

/** Levels of parentheses. Each adds at most an `or`, an `and` and a `not` to the tree, so this bounds the recursion. */
export const SEARCH_DEPTH_MAX = 10;

// --- Scanning ---

/** Skips blanks and matches a sticky pattern. */
const takeSpaced = (scanner: Scanner, pattern: RegExp): RegExpExecArray | undefined => {
  take(scanner, space);
  return take(scanner, pattern);
};

/** An operator ends at a blank, a parenthesis or `!`. */
const and = /AND(?=[\s()!]|$)/y;
const or = /OR(?=[\s()!]|$)/y;
const not = /(?:NOT(?=[\s()!]|$)|[!-])/y;
const opening = /\(/y;
const closing = /\)/y;
const end = /$/y;
const fieldName = /([\p{L}\p{M}\p{N}_.-]+):/uy;
const quotedKey = /metadata\.(?=")/y;
const colon = /:/y;
const phrase = /"((?:[^"\\]|\\[^])*)"/y;
const word = /[^\s()]+/y;
const rangeOpening = /[[{]/y;
const rangeWord = /[^\s()[\]{}"]+/y;
const rangeMiddle = /\s+TO\s+/y;
const rangeClosing = /\s*[\]}]/y;
const space = /\s*/y;

/** Lucene operators (fuzzy match, boost, wildcard ...) that are not supported. They are refused, not read as literal text. */
const meaningInLucene = /["[\]{}\\?~^]|&&|\|\|/;

/** An unescaped text in double quotes; undefined if there is none. */
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

/** A date-time is an instant. A date is a UTC day, and `next` is the first instant after it. */
type Moment = { at: Date; next?: Date };

/** PostgreSQL cannot read the format in which the driver writes later years. */
const LATEST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

const instant = (ms: number): Date => new Date(Math.min(ms, LATEST_MS));

const parseMoment = (text: string): Moment => {
  const date = parseDate(text);
  if (!date) throw new SearchQueryError('must have dates such as 2026-01-31 or 2026-01-31T19:23:57Z');
  const at = instant(date.getTime());
  // Every format of a date-time has a colon, and no format of a date.
  return text.includes(':') ? { at } : { at, next: instant(date.getTime() + DAY_MS) };
};

/** An inclusive end includes its whole day, an exclusive one excludes it. */
const lowerEnd = ({ at, next }: Moment, inclusive: boolean): SearchRangeEnd =>
  next ? { at: inclusive ? at : next, inclusive: true } : { at, inclusive };

const upperEnd = ({ at, next }: Moment, inclusive: boolean): SearchRangeEnd =>
  next ? { at: inclusive ? next : at, inclusive: false } : { at, inclusive };

const badRange = () => new SearchQueryError('must have ranges of the form [a TO b] or {a TO b}');

/** A date, quoted or not; undefined for the `*` of an open end. */
const takeRangeMoment = (scanner: Scanner): Moment | undefined => {
  take(scanner, space);
  const text = takePhrase(scanner);
  if (text !== undefined) return parseMoment(text);
  const bare = take(scanner, rangeWord)?.[0];
  if (bare === undefined) throw badRange();
  return bare === '*' ? undefined : parseMoment(bare);
};

type Range = { from?: SearchRangeEnd; to?: SearchRangeEnd };

/** `[a TO b]`, `{a TO b}` or a mix of both; undefined if there is no range. */
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

/** A word or a phrase. Only a container may end in an unquoted `*`; in a phrase `*` is a literal character. */
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

/** A prefix of a container path: whole segments, optionally followed by a part of one. */
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

/** An unknown type name matches no token. Text that cannot be a type name is an error. */
const parseTypeName = (value: string): string => {
  if (!/^[A-Za-z0-9_-]+$/.test(value)) throw new SearchQueryError('must have one word as a type');
  return value;
};

const shownForms: Record<ShownPart, string> = {
  last4: 'four letters or digits, with a digit among them, as last4',
  brand: 'the name of a brand as brand',
  expires: 'a month such as 2030-12 as expires',
};

const parseShown = (part: ShownPart, value: string): string => {
  if (!isShownPart[part](value)) throw new SearchQueryError(`must have ${shownForms[part]}`);
  return value;
};

const METADATA = 'metadata.';

// --- Terms ---

/** The key of `metadata."order id":`; undefined where there is no such term. */
const takeQuotedKey = (scanner: Scanner): string | undefined => {
  if (!takeSpaced(scanner, quotedKey)) return undefined;
  const key = takePhrase(scanner);
  if (!take(scanner, colon)) throw new SearchQueryError('must have a colon right after a key in quotation marks');
  return key;
};

const noField = ({ text, at }: Scanner): SearchQueryError =>
  new SearchQueryError(
    text.startsWith(METADATA, at)
      ? 'must put keys that have other characters than letters, digits, dots, dashes and underscores between quotation marks: metadata."order id":x'
      : 'must have terms of the form field:value',
  );

const takeTerm = (scanner: Scanner): SearchNode => {
  const quoted = takeQuotedKey(scanner);
  const field = quoted === undefined ? take(scanner, fieldName)?.[1] : `${METADATA}${quoted}`;
  if (field === undefined) throw noField(scanner);
  if (field === 'created_at' || field === 'modified_at') {
    const range = takeRange(scanner);
    if (range) return { kind: 'range', field, ...range };
    const moment = parseMoment(takeValue(scanner, false));
    return { kind: 'range', field, from: lowerEnd(moment, true), to: upperEnd(moment, true) };
  }
  const key = field.startsWith(METADATA) ? field.slice(METADATA.length) : undefined;
  if (key === '') throw new SearchQueryError('must have a key after metadata.');
  // Checked before the value, so that the error for a misspelt field names the field.
  const build = key === undefined ? termOf(field) : (value: string) => ({ kind: 'metadata' as const, key, value });
  if (take(scanner, rangeOpening)) throw new SearchQueryError('must use ranges with created_at and modified_at only');
  return build(takeValue(scanner, field === 'container'));
};

/** The function that makes a node of a field's value, for fields other than dates and metadata. */
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
    case 'last4':
    case 'brand':
    case 'expires':
      return (value) => ({ kind: 'shown', part: field, value: parseShown(field, value) });
    case 'container':
      return (value) => ({ kind: 'container', ...parseContainerValue(value) });
    default:
      throw new SearchQueryError(
        'must name one of the fields id, type, data, fingerprint, last4, brand, expires, container, metadata.KEY, created_by, created_at, modified_by, modified_at',
      );
  }
};

// --- Operators: NOT binds before AND, AND before OR ---

/** Lucene joins adjacent terms by OR, most callers expect AND. The parser refuses to guess. */
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
 * @param scanner at the start of the text. It counts the parser's steps, for a test.
 * @throws SearchQueryError unless the whole text is a query.
 */
export const parseSearchQuery = (text: string, scanner: Scanner = createScanner(text)): SearchNode => {
  if (text.length > SEARCH_QUERY_LENGTH_MAX)
    throw new SearchQueryError(`must be at most ${SEARCH_QUERY_LENGTH_MAX} characters`);
  if (!isStorableText(text)) throw new SearchQueryError(NOT_STORABLE);
  if (text.trim() === '') throw new SearchQueryError('must not be empty');
  const node = parseOr(scanner, 0);
  if (takeSpaced(scanner, end)) return node;
  throw takeSpaced(scanner, closing) ? new SearchQueryError('must open every parenthesis that it closes') : notJoined();
};
