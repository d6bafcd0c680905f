// Builds the destination URL: appends the path after /proxy and the query of a request to the destination.
// The result always has the destination's authority and lies below its path.
import { URL_CHARACTERS_MAX } from '../../platform/egress/destination.ts';
import { ownNameOf } from '../../platform/http/header-prefixes.ts';
import { badRequest, invalidField } from '../../platform/base/errors.ts';
import { decodePercent } from './bodies/percent.ts';

const PREFIX = '/proxy';

/** The query parameter that replaces the header SVC-PROXY-KEY. */
const KEY_PARAMETER = 'svc-proxy-key';

/** The error for a destination, in a stored proxy or a request. */
export const NO_KEY = 'must not have the parameter svc-proxy-key';

/** The error for an expression in a destination, as NO_KEY. Braces in percent-encoding are the author's own. */
export const NO_EXPRESSION =
  'must have no {{: expressions stand in the path, the query, the headers and the body of the request';

/** @param prefixes of the API beside SVC. */
const isKeyParameter = (name: string, prefixes: readonly string[]): boolean =>
  ownNameOf(name.toLowerCase(), prefixes) === KEY_PARAMETER;

/** Whether a URL has the key parameter, which would be forwarded. */
export const namesKey = ({ searchParams }: URL, prefixes: readonly string[]): boolean =>
  [...searchParams.keys()].some((name) => isKeyParameter(name, prefixes));

/**
 * Parameters of one query. Forms have tens of them. Each costs a transform or the search for expressions some microseconds, however
 * short it is.
 */
export const QUERY_PARAMETERS_MAX = 1_000;

export const TOO_MANY_PARAMETERS = `must have at most ${QUERY_PARAMETERS_MAX} parameters`;

/**
 * Path and query before values are inserted. An expression may be longer than its value: as many as a request may have, each as
 * `svc.expression` writes it, take 46,000 characters.
 */
const TARGET_CHARACTERS_MAX = 65_536;

const TOO_LONG = `must leave the URL of the destination at most ${URL_CHARACTERS_MAX} characters`;

/** The path and query of a request as spelled, without the proxy key. */
export type Target = {
  /** Empty, or begins with a slash. */
  path: string;
  /** Without the question mark. */
  query: string;
  /** Whether the target ends with a question mark: some services sign it. */
  isBare: boolean;
  proxyKeys: string[];
};

/** The destination. `search` is its query as its author spelled it, with the question mark. */
export type Base = { url: URL; search: string };

/** A URL, and its path and query as they are written on the wire. */
export type SpelledUrl = { url: URL; target: string };

/** A parsed URL has %27 for an apostrophe, and no question mark without a query. */
const asParsed = (search: string): string => (search === '?' ? '' : search.replaceAll("'", '%27'));

/** @param url the parsed text. */
export const baseOf = (text: string, url: URL): Base => {
  const spelled = /^[^?#]*(\?[^#]*)/.exec(text.trim())?.[1] ?? '';
  return { url, search: asParsed(spelled) === url.search ? spelled : url.search };
};

/** @throws invalidInput. */
export const refuseLongTarget = (characters: number): void => {
  if (characters > TARGET_CHARACTERS_MAX) throw invalidField('query', TOO_LONG, 'too_large');
};

/** @param rawUrl the request target as received. @param prefixes of the API beside SVC. @throws invalidInput; badRequest. */
export const parseTarget = (rawUrl: string, prefixes: readonly string[] = []): Target => {
  if (rawUrl.includes('#')) throw invalidField('path', 'must not have a fragment');
  const question = rawUrl.indexOf('?');
  const whole = question === -1 ? rawUrl : rawUrl.slice(0, question);
  const path = whole.slice(PREFIX.length);
  if (!whole.startsWith(PREFIX) || !/^(?:\/|$)/.test(path)) throw badRequest(`The path must begin with ${PREFIX}.`);
  const proxyKeys: string[] = [];
  const kept: string[] = [];
  const pairs = question === -1 ? [] : rawUrl.slice(question + 1).split('&');
  refuseLongTarget(rawUrl.length);
  if (pairs.length > QUERY_PARAMETERS_MAX) throw invalidField('query', TOO_MANY_PARAMETERS, 'too_large');
  for (const pair of pairs) {
    const [name = '', ...rest] = pair.split('=');
    if (!isKeyParameter(decodePercent(name, true), prefixes)) kept.push(pair);
    else proxyKeys.push(decodePercent(rest.join('='), true));
  }
  // `/proxy/` means the destination itself. Slashes further on belong to the destination's path.
  const query = encodeNonAscii(kept.join('&'));
  return { path: path === '/' ? '' : encodeNonAscii(path), query, isBare: query === '' && kept.length > 0, proxyKeys };
};

/** Percent-encodes characters beyond ASCII, which a request target must not have but clients send. */
const encodeNonAscii = (raw: string): string =>
  raw.replace(/[\x80-\uffff]+/g, (text) => {
    const isBytes = !/[\u0100-\uffff]/.test(text);
    return Buffer.from(text, isBytes ? 'latin1' : 'utf8')
      .toString('hex')
      .replace(/../g, '%$&')
      .toUpperCase();
  });

/** A percent sign, encoded any number of times, because servers may decode a path repeatedly. */
const percent = '%(?:25)*';

/** `.` or `..`, also with tabs and line ends in it, which URL parsers remove (https://url.spec.whatwg.org/#url-parsing). */
const dots = `(?:(?:\\.|${percent}2e)(?:${percent}0[9ad])*){1,2}`;

/** The end of a segment, or a character where some servers cut a path off: `;`, `?`, `#`, a space, a control character. */
const segmentEnd = `$|[/\\\\;]|${percent}(?:2f|5c|3b|3f|23|20|7f|[01][0-9a-f])`;

/**
 * `.` or `..` in any spelling, also between encoded slashes. A server that decodes the path once more, or cuts it off, would
 * leave the path of the destination.
 */
const dotSegment = new RegExp(`(?:^|[/\\\\]|${percent}(?:2f|5c))${dots}(?=${segmentEnd})`, 'i');

/** Characters that the URL parser encodes, and a backslash, which it reads as a slash (https://url.spec.whatwg.org/#path-state). */
const notInPath = /[\0-\x20"#<>?\\^`{}\x7f-\uffff]/g;
const notInQuery = /[\0-\x20"#<>\x7f-\uffff]/g;

const percentEncode = (text: string, characters: RegExp): string =>
  text.replace(characters, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);

/**
 * Appends the path and query of a request to the destination's URL: its path without the last slash, its query first.
 * With nothing to append, the URL itself.
 * @throws invalidInput for a path or query that would leave the destination.
 */
export const destinationOf = (
  { url: base, search: own }: Base,
  { path, query, isBare }: Pick<Target, 'path' | 'query' | 'isBare'>,
): SpelledUrl => {
  if (path === '' && query === '' && !isBare) return { url: base, target: base.pathname + own };
  const safePath = appendPath(base.pathname, path);
  const safeQuery = [own.slice(1), percentEncode(encodeNonAscii(query), notInQuery)].filter((each) => each !== '');
  const search = safeQuery.length > 0 || isBare || own === '?' ? `?${safeQuery.join('&')}` : '';
  const url = URL.parse(authorityOf(base) + safePath + search);
  // The parsed URL must be exactly what was written. A difference would be an error in the rules above.
  if (url?.origin !== base.origin || url.pathname !== safePath || url.search !== asParsed(search))
    throw invalidField('path', 'must be a path and a query that can be appended to a URL');
  return { url, target: safePath + search };
};

const authorityOf = ({ href, protocol }: URL): string => href.slice(0, href.indexOf('/', protocol.length + 2));

/** The whole URL as it is spelled. */
export const spell = ({ url, target }: SpelledUrl): string => authorityOf(url) + target;

const appendPath = (basePath: string, path: string): string => {
  if (path === '') return basePath;
  if (dotSegment.test(path)) throw invalidField('path', 'must not have the segments . or ..');
  return basePath.replace(/\/$/, '') + percentEncode(encodeNonAscii(path), notInPath);
};

/** @throws invalidInput if path and query, with their values, make the URL too long. */
export const refuseLongUrl = (url: SpelledUrl, { path, query }: Pick<Target, 'path' | 'query'>): void => {
  if (spell(url).length > URL_CHARACTERS_MAX)
    throw invalidField(path.length > query.length ? 'path' : 'query', TOO_LONG, 'too_large');
};
