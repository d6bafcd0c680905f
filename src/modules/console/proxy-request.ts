// Parses a proxy request that was typed on a page, or reports the errors of its fields.
// A path that would leave /proxy is refused, because the API request must not reach another route.
import { AppError } from '../../platform/base/errors.ts';
import { ownNameOf } from '../../platform/http/header-prefixes.ts';
import { destinationOf, parseTarget, type Target } from '../proxy/target.ts';

export const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** The fields of the form, as typed. */
export type Typed = { destination: string; method: string; path: string; headers: string; body: string };

export type ReadRequest = {
  method: (typeof methods)[number];
  /** Path and query with /proxy, encoded so that no URL parser changes them. */
  url: string;
  target: Target;
  headers: [name: string, value: string][];
  /** Undefined for none. */
  body: string | undefined;
};

/** Error sentences by field. */
export type TypedProblems = Partial<Record<keyof Typed | 'sure', string[]>>;

export const newRequest: Typed = {
  destination: '',
  method: 'POST',
  path: '/',
  headers: 'Content-Type: application/json',
  body: '',
};

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Headers that the connection or the page sets. The proxy drops or replaces them anyway. */
const notTyped =
  /^(?:svc-.*|proxy-.*|host|connection|content-length|transfer-encoding|expect|keep-alive|te|trailer|upgrade)$/i;

const HEADERS_MAX = 100;

const readHeaders = (
  typed: string,
  prefixes: readonly string[],
): { headers: [string, string][]; problems: string[] } => {
  const headers: [string, string][] = [];
  const problems: string[] = [];
  const known = new Set<string>();
  const lines = typed.split('\n').map((line, index) => [line.trim(), index + 1] as const);
  for (const [line, number] of lines.filter(([text]) => text !== '')) {
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon)).trimEnd();
    const lower = name.toLowerCase();
    if (!headerName.test(name)) problems.push(`Line ${number} must be Name: value.`);
    else if (notTyped.test(ownNameOf(lower, prefixes)))
      problems.push(`Line ${number}: ${name} cannot be sent from here.`);
    else if (known.has(lower)) problems.push(`Line ${number}: ${name} is there already.`);
    else headers.push([name, line.slice(colon + 1).trim()]);
    known.add(lower);
    if (problems.length > 4 || headers.length > HEADERS_MAX) break;
  }
  if (headers.length > HEADERS_MAX) problems.push(`There must be at most ${HEADERS_MAX} headers.`);
  return { headers, problems };
};

/** Characters that URL parsers change or cut off at, and a backslash, which they read as a slash. */
const unsafe = /[^\x21-\x7e]|["#'<>\\^`{|}]/gu;

/** Control characters and unpaired surrogates, some of which URL parsers remove. */
const unreadable = /[\p{Cc}\p{Cs}]/u;

/** In place of the destination, which only the proxy knows. */
const ANYWHERE = { url: new URL('https://destination.invalid'), search: '' };

/** @throws AppError for a path that would leave the proxy. */
const readTarget = (path: string, prefixes: readonly string[]): Pick<ReadRequest, 'url' | 'target'> | string => {
  if (unreadable.test(path)) return 'The path must not have line ends or other controls.';
  if (path !== '' && !/^[/?]/.test(path)) return 'The path must begin with a slash.';
  const url = `/proxy${path.replace(unsafe, (character) => percent(character))}`;
  const target = parseTarget(url, prefixes);
  if (target.proxyKeys.length > 0) return 'The query must not have svc-proxy-key: this page names the proxy.';
  // Throws for dot segments in any spelling.
  destinationOf(ANYWHERE, target);
  const parsed = new URL(url, 'http://localhost');
  return parsed.pathname + parsed.search === url ? { url, target } : 'The path must be a path of a URL.';
};

const percent = (character: string): string =>
  [...Buffer.from(character)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');

/** Multipart bodies need CRLF; other text is sent with LF. */
const readBody = (typed: string, headers: ReadRequest['headers']): string | undefined => {
  const isMultipart = headers.some(([name, value]) => /^content-type$/i.test(name) && /^multipart\//i.test(value));
  const body = isMultipart ? typed.replace(/\r?\n/g, '\r\n') : typed;
  return body === '' ? undefined : body;
};

export const readRequest = (
  typed: Typed,
  prefixes: readonly string[] = [],
): { request: ReadRequest; problems?: never } | { request?: never; problems: TypedProblems } => {
  const problems: TypedProblems = {};
  const method = methods.find((each) => each === typed.method);
  if (!method) problems.method = [`The method must be one of ${methods.join(', ')}.`];
  const { headers, problems: headerProblems } = readHeaders(typed.headers, prefixes);
  if (headerProblems.length > 0) problems.headers = headerProblems;
  let read: ReturnType<typeof readTarget>;
  try {
    read = readTarget(typed.path, prefixes);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const sentences = Object.values(error.errors ?? {}).flat();
    read = `The path ${sentences[0] ?? 'is not valid'}`;
  }
  if (typeof read === 'string') problems.path = [read];
  if (!method || typeof read === 'string' || Object.keys(problems).length > 0) return { problems };
  return { request: { method, ...read, headers, body: readBody(typed.body, headers) } };
};
