// Where a forwarded request goes: what stands behind /proxy is appended to the destination's URL. Whatever is appended,
// the authority stays the destination's, and the path below it.
import { URL_CHARACTERS_MAX } from '../egress/destination.ts';
import { badRequest, invalidField } from '../errors.ts';
import { decodePercent } from './percent.ts';

const PREFIX = '/proxy';

/** In the query, what the header SVC-PROXY-KEY says otherwise. */
const KEY_PARAMETER = 'svc-proxy-key';

/** Of a destination, wherever it is named. */
export const NO_KEY = 'must not have the parameter svc-proxy-key';

/** Would the key of a proxy go on to this destination, as a parameter of its own? */
export const namesKey = ({ searchParams }: URL): boolean =>
  [...searchParams.keys()].some((name) => name.toLowerCase() === KEY_PARAMETER);

const TOO_LONG = `must leave the URL of the destination at most ${URL_CHARACTERS_MAX} characters`;

/** What came in, as it was spelled, but for its key. */
export type Target = {
  /** Empty, or what begins with a slash. */
  path: string;
  /** Without the question mark. */
  query: string;
  proxyKeys: string[];
};

/** @param rawUrl the request target as received. @throws invalidInput; badRequest. */
export const parseTarget = (rawUrl: string): Target => {
  if (rawUrl.includes('#')) throw invalidField('path', 'must not have a fragment');
  const question = rawUrl.indexOf('?');
  const whole = question === -1 ? rawUrl : rawUrl.slice(0, question);
  const path = whole.slice(PREFIX.length);
  if (!whole.startsWith(PREFIX) || !/^(?:\/|$)/.test(path)) throw badRequest(`The path must begin with ${PREFIX}.`);
  const proxyKeys: string[] = [];
  const kept: string[] = [];
  for (const piece of question === -1 ? [] : rawUrl.slice(question + 1).split('&')) {
    const [name = '', ...rest] = piece.split('=');
    if (decodePercent(name, true).toLowerCase() !== KEY_PARAMETER) kept.push(piece);
    else proxyKeys.push(decodePercent(rest.join('='), true));
  }
  // A slash right behind the prefix is ours (decisions.md section 1); below it, slashes are the destination's.
  return { path: path === '/' ? '' : spellBytes(path), query: spellBytes(kept.join('&')), proxyKeys };
};

/** Bytes beyond ASCII, which a request target must not have and some have, as they should be spelled. */
const spellBytes = (raw: string): string =>
  raw.replace(/[\x80-\uffff]+/g, (text) => {
    const isBytes = !/[\u0100-\uffff]/.test(text);
    return Buffer.from(text, isBytes ? 'latin1' : 'utf8')
      .toString('hex')
      .replace(/../g, '%$&')
      .toUpperCase();
  });

/** A percent sign, encoded as often as a path may be decoded behind us. */
const percent = '%(?:25)*';

/** `.` or `..`, also with the tabs and line ends between them that URL parsers take out (https://url.spec.whatwg.org/#url-parsing). */
const dots = `(?:(?:\\.|${percent}2e)(?:${percent}0[9ad])*){1,2}`;

/** What ends a segment, or what some servers cut a path off at: a semicolon, `?`, `#`, a space, a control character. */
const segmentEnd = `$|[/\\\\;]|${percent}(?:2f|5c|3b|3f|23|20|7f|[01][0-9a-f])`;

/**
 * `.` or `..` in any spelling, also between slashes that are encoded: a server that decodes once more than we do, or cuts the
 * path off, would leave the path of the destination.
 */
const dotSegment = new RegExp(`(?:^|[/\\\\]|${percent}(?:2f|5c))${dots}(?=${segmentEnd})`, 'i');

/** What the URL parser would change, and a backslash, which it takes for a slash (https://url.spec.whatwg.org/#path-state). */
const notInPath = /[\0-\x20"#<>?\\^`{}\x7f-\uffff]/g;
const notInQuery = /[\0-\x20"#'<>\x7f-\uffff]/g;

const encodeAll = (text: string, characters: RegExp): string =>
  text.replace(characters, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);

/**
 * The destination's URL with the path and query of a request appended to it: its own path without its last slash, its own
 * query first. With nothing to append it is that very URL.
 * @throws invalidInput for what would leave it.
 */
export const destinationOf = (base: URL, path: string, query: string): URL => {
  if (path === '' && query === '') return base;
  const safePath = spellPath(base.pathname, path);
  const safeQuery = [base.search.slice(1), encodeAll(spellBytes(query), notInQuery)].filter((each) => each !== '');
  const authority = base.href.slice(0, base.href.indexOf('/', base.protocol.length + 2));
  const search = safeQuery.length === 0 ? '' : `?${safeQuery.join('&')}`;
  const url = URL.parse(`${authority}${safePath}${search}`);
  // What we wrote and what will be asked for is the same, or we have misread the standard.
  if (url?.origin !== base.origin || url.pathname !== safePath || url.search !== search)
    throw invalidField('path', 'must be a path and a query that can be appended to a URL');
  return url;
};

const spellPath = (basePath: string, path: string): string => {
  if (path === '') return basePath;
  if (dotSegment.test(path)) throw invalidField('path', 'must not have the segments . or ..');
  return basePath.replace(/\/$/, '') + encodeAll(spellBytes(path), notInPath);
};

/** @throws invalidInput where what is appended, its values put in, makes the URL too long to be asked for. */
export const refuseLong = ({ href }: URL, { path, query }: Pick<Target, 'path' | 'query'>): void => {
  if (href.length > URL_CHARACTERS_MAX) throw invalidField(path.length > query.length ? 'path' : 'query', TOO_LONG);
};
