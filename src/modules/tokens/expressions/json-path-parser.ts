// Parses JSONPath (RFC 9535) by recursive descent without backtracking, so the steps are linear in the length of the path.
// match() and search() are refused.
import type { Json } from '../../../platform/json/json.ts';
import { createScanner, type Scanner, take, takeText } from '../../../platform/json/json-parser.ts';

export type Selector =
  | { kind: 'name'; name: string }
  | { kind: 'wildcard' }
  | { kind: 'index'; index: number }
  | { kind: 'slice'; start: number | undefined; end: number | undefined; step: number }
  | { kind: 'filter'; test: Test };

/** `descends`: the selectors apply to the node and to all its descendants. */
export type Segment = { descends: boolean; selectors: Selector[] };

/** A query within a filter, from `$` or from `@`. */
export type Query = { from: 'root' | 'current'; segments: Segment[] };

export type Comparable =
  | { kind: 'literal'; value: Json }
  | { kind: 'query'; query: Query }
  | { kind: 'length'; argument: Comparable }
  | { kind: 'count' | 'value'; query: Query };

export type Operator = '==' | '!=' | '<=' | '>=' | '<' | '>';

export type Test =
  | { kind: 'or' | 'and'; tests: Test[] }
  | { kind: 'not'; test: Test }
  | { kind: 'comparison'; left: Comparable; operator: Operator; right: Comparable }
  | { kind: 'exists'; query: Query };

/** `pattern`: the path uses match() or search(), which would run the caller's pattern on a backtracking engine. */
export class JsonPathError extends Error {
  override readonly name = 'JsonPathError';
  readonly reason: 'syntax' | 'pattern';
  constructor(reason: 'syntax' | 'pattern') {
    super(reason);
    this.reason = reason;
  }
}

const blank = /[ \t\n\r]*/y;
const memberName = /[A-Za-z_\u{80}-\u{d7ff}\u{e000}-\u{10ffff}][A-Za-z0-9_\u{80}-\u{d7ff}\u{e000}-\u{10ffff}]*/uy;
const integer = /0|-?[1-9][0-9]*/y;
const number = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const word = /[a-z][a-z0-9_]*/y;
const operator = /[=!]=|[<>]=?/y;
const quote = /["']/y;
/** RFC 9535 section 2.3.1.1, `unescaped`, and the other quotation mark. */
const plainText = {
  '"': /[ !#-[\]-\u{d7ff}\u{e000}-\u{10ffff}]+/uy,
  "'": /[ -&(-[\]-\u{d7ff}\u{e000}-\u{10ffff}]+/uy,
};
const escape = /\\(?:u([0-9A-Fa-f]{4})|(["'\\/bfnrt]))/y;
const lowSurrogate = /\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})/y;

const namedEscapes: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
const words = new Map<string, Json>([
  ['true', true],
  ['false', false],
  ['null', null],
]);

const refuse = (): never => {
  throw new JsonPathError('syntax');
};

const expectText = (scanner: Scanner, text: string): void => {
  if (!takeText(scanner, text)) refuse();
};

const skipBlank = (scanner: Scanner): void => void take(scanner, blank);

// --- Literals ---

const takeEscape = (scanner: Scanner, opening: string): string => {
  const [, hex, named = ''] = take(scanner, escape) ?? refuse();
  if (hex === undefined) {
    if ((named === '"' || named === "'") && named !== opening) refuse();
    return namedEscapes[named] ?? named;
  }
  const code = Number.parseInt(hex, 16);
  if (code < 0xd800 || code > 0xdfff) return String.fromCharCode(code);
  const low = code < 0xdc00 ? take(scanner, lowSurrogate) : undefined;
  return String.fromCharCode(code, Number.parseInt(low?.[1] ?? refuse(), 16));
};

/** A quoted text; undefined if there is none. */
const takeQuoted = (scanner: Scanner): string | undefined => {
  const opening = take(scanner, quote)?.[0] as '"' | "'" | undefined;
  if (opening === undefined) return undefined;
  let text = '';
  while (!takeText(scanner, opening)) text += take(scanner, plainText[opening])?.[0] ?? takeEscape(scanner, opening);
  return text;
};

/** Undefined if there is none. The range is that of I-JSON (RFC 9535 section 2.1). */
const takeInteger = (scanner: Scanner): number | undefined => {
  const digits = take(scanner, integer)?.[0];
  if (digits === undefined) return undefined;
  const value = Number(digits);
  return Number.isSafeInteger(value) ? value : refuse();
};

// --- Segments and selectors ---

const takeSegments = (scanner: Scanner): Segment[] => {
  const segments: Segment[] = [];
  for (;;) {
    const { at } = scanner;
    skipBlank(scanner);
    const descends = takeText(scanner, '..');
    if (takeText(scanner, '[')) segments.push({ descends, selectors: takeSelectors(scanner) });
    else if (descends || takeText(scanner, '.')) segments.push({ descends, selectors: [takeShorthand(scanner)] });
    else {
      // Blanks belong to the segment after them. A path must not end in blanks.
      scanner.at = at;
      return segments;
    }
  }
};

const takeShorthand = (scanner: Scanner): Selector => {
  if (takeText(scanner, '*')) return { kind: 'wildcard' };
  return { kind: 'name', name: take(scanner, memberName)?.[0] ?? refuse() };
};

const takeSelectors = (scanner: Scanner): Selector[] => {
  const selectors: Selector[] = [];
  do {
    skipBlank(scanner);
    selectors.push(takeSelector(scanner));
    skipBlank(scanner);
  } while (takeText(scanner, ','));
  expectText(scanner, ']');
  return selectors;
};

const takeSelector = (scanner: Scanner): Selector => {
  if (takeText(scanner, '*')) return { kind: 'wildcard' };
  if (takeText(scanner, '?')) {
    skipBlank(scanner);
    return { kind: 'filter', test: takeOr(scanner) };
  }
  const name = takeQuoted(scanner);
  if (name !== undefined) return { kind: 'name', name };
  const start = takeInteger(scanner);
  if (start !== undefined) skipBlank(scanner);
  if (!takeText(scanner, ':')) return { kind: 'index', index: start ?? refuse() };
  skipBlank(scanner);
  const end = takeInteger(scanner);
  if (end !== undefined) skipBlank(scanner);
  if (!takeText(scanner, ':')) return { kind: 'slice', start, end, step: 1 };
  skipBlank(scanner);
  return { kind: 'slice', start, end, step: takeInteger(scanner) ?? 1 };
};

// --- Filters: `!` binds before `&&`, `&&` before `||` ---

const takeOr = (scanner: Scanner): Test => takeJoined(scanner, 'or', '||', takeAnd);

const takeAnd = (scanner: Scanner): Test => takeJoined(scanner, 'and', '&&', takeBasic);

const takeJoined = (scanner: Scanner, kind: 'or' | 'and', sign: string, takeOne: (scanner: Scanner) => Test): Test => {
  const first = takeOne(scanner);
  const tests = [first];
  for (skipBlank(scanner); takeText(scanner, sign); skipBlank(scanner)) {
    skipBlank(scanner);
    tests.push(takeOne(scanner));
  }
  return tests.length === 1 ? first : { kind, tests };
};

const takeBasic = (scanner: Scanner): Test => {
  if (takeText(scanner, '!')) {
    skipBlank(scanner);
    return { kind: 'not', test: takeGroup(scanner) ?? existsOf(takeQuery(scanner) ?? refuse()) };
  }
  return takeGroup(scanner) ?? takeTest(scanner);
};

const takeGroup = (scanner: Scanner): Test | undefined => {
  if (!takeText(scanner, '(')) return undefined;
  skipBlank(scanner);
  const test = takeOr(scanner);
  expectText(scanner, ')');
  return test;
};

const existsOf = (query: Query): Test => ({ kind: 'exists', query });

/** A comparison, or an existence test. Function results must be compared, because none is a truth value. */
const takeTest = (scanner: Scanner): Test => {
  const query = takeQuery(scanner);
  const left: Comparable = query ? { kind: 'query', query } : takeValue(scanner);
  skipBlank(scanner);
  const sign = take(scanner, operator)?.[0] as Operator | undefined;
  if (sign === undefined) return existsOf(query ?? refuse());
  refuseMany(left);
  skipBlank(scanner);
  return { kind: 'comparison', left, operator: sign, right: takeComparable(scanner) };
};

const takeQuery = (scanner: Scanner): Query | undefined => {
  if (takeText(scanner, '@')) return { from: 'current', segments: takeSegments(scanner) };
  return takeText(scanner, '$') ? { from: 'root', segments: takeSegments(scanner) } : undefined;
};

/** Whether a query can find at most one node. */
const isSingular = ({ segments }: Pick<Query, 'segments'>): boolean =>
  segments.every(
    ({ descends, selectors: [first, ...others] }) =>
      !descends && others.length === 0 && (first?.kind === 'name' || first?.kind === 'index'),
  );

const refuseMany = (comparable: Comparable): void => {
  if (comparable.kind === 'query' && !isSingular(comparable.query)) refuse();
};

const takeComparable = (scanner: Scanner): Comparable => {
  const query = takeQuery(scanner);
  const comparable: Comparable = query ? { kind: 'query', query } : takeValue(scanner);
  refuseMany(comparable);
  return comparable;
};

/** A literal or a function. */
const takeValue = (scanner: Scanner): Comparable => {
  const text = takeQuoted(scanner);
  if (text !== undefined) return { kind: 'literal', value: text };
  const name = take(scanner, word)?.[0];
  if (name === undefined) return { kind: 'literal', value: Number(take(scanner, number)?.[0] ?? refuse()) };
  if (takeText(scanner, '(')) return takeFunction(scanner, name);
  const value = words.get(name);
  return value === undefined ? refuse() : { kind: 'literal', value };
};

const takeFunction = (scanner: Scanner, name: string): Comparable => {
  if (name === 'match' || name === 'search') throw new JsonPathError('pattern');
  skipBlank(scanner);
  let call: Comparable;
  if (name === 'length') call = { kind: 'length', argument: takeComparable(scanner) };
  else if (name === 'count' || name === 'value') call = { kind: name, query: takeQuery(scanner) ?? refuse() };
  else return refuse();
  skipBlank(scanner);
  expectText(scanner, ')');
  return call;
};

/**
 * @param scanner at the start of the text. It counts the parser's steps, for a test.
 * @returns the segments after `$`. @throws JsonPathError.
 */
export const parseJsonPath = (text: string, scanner: Scanner = createScanner(text)): Segment[] => {
  expectText(scanner, '$');
  const segments = takeSegments(scanner);
  return scanner.at === text.length ? segments : refuse();
};
