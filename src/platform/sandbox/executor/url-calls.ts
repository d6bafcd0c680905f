// Answers what the prelude asks about addresses, by the executor's own URL: strings in, JSON text out. Never throws, and
// refuses to fetch anything.
import { domainToASCII, domainToUnicode, format, parse, resolve, type UrlObject } from 'node:url';

/** Far more than any address that is sent; what is longer is no address. */
const ADDRESS_LENGTH_MAX = 64 * 1024;

type Part =
  | 'href'
  | 'protocol'
  | 'username'
  | 'password'
  | 'host'
  | 'hostname'
  | 'port'
  | 'pathname'
  | 'search'
  | 'hash';

const settable = new Set<string>([
  'href',
  'protocol',
  'username',
  'password',
  'host',
  'hostname',
  'port',
  'pathname',
  'search',
  'hash',
] satisfies Part[]);

const isSettable = (name: string): name is Part => settable.has(name);

const partsOf = (url: URL) => ({
  href: url.href,
  origin: url.origin,
  protocol: url.protocol,
  username: url.username,
  password: url.password,
  host: url.host,
  hostname: url.hostname,
  port: url.port,
  pathname: url.pathname,
  search: url.search,
  hash: url.hash,
});

const legacyParts = (text: string, slashesDenoteHost: boolean) => {
  const { protocol, slashes, auth, host, port, hostname, hash, search, query, pathname, path, href } = parse(
    text,
    false,
    slashesDenoteHost,
  );
  return { protocol, slashes, auth, host, port, hostname, hash, search, query, pathname, path, href };
};

const legacyNames = ['auth', 'hash', 'host', 'hostname', 'pathname', 'port', 'protocol', 'search'] as const;

const formatLegacy = (json: string): string => {
  const given = JSON.parse(json) as Record<string, unknown>;
  const parts: UrlObject = {};
  for (const name of legacyNames) {
    const value = Object.hasOwn(given, name) ? given[name] : undefined;
    if (typeof value === 'string' || typeof value === 'number') parts[name] = String(value);
  }
  if (given.slashes === true) parts.slashes = true;
  const { queryText } = given;
  if (parts.search === undefined && typeof queryText === 'string' && queryText !== '') parts.search = `?${queryText}`;
  return format(parts);
};

type Operation = (first: string, second?: string, third?: string) => object;

const operations: Record<string, Operation> = {
  __proto__: null as never,
  parse: (text, base) => ({ parts: partsOf(new URL(text, base)) }),
  set: (href, name = '', value = '') => {
    const url = new URL(href);
    if (isSettable(name)) url[name] = value;
    return { parts: partsOf(url) };
  },
  legacyParse: (text, slashes) => ({ parts: legacyParts(text, slashes === 'slashes') }),
  legacyFormat: (json) => ({ text: formatLegacy(json) }),
  legacyResolve: (from, to = '') => ({ text: resolve(from, to) }),
  domainToASCII: (domain) => ({ text: domainToASCII(domain) }),
  domainToUnicode: (domain) => ({ text: domainToUnicode(domain) }),
};

/** @returns JSON text: `{parts}` or `{text}`, and `{}` for what is no address, no operation or too long. */
export const answerUrl = (operation: string, ...given: (string | undefined)[]): string => {
  const answer = Object.hasOwn(operations, operation) ? operations[operation] : undefined;
  const texts = given.filter((text) => text !== undefined);
  const isFit = texts.every((text) => typeof text === 'string' && text.length <= ADDRESS_LENGTH_MAX);
  if (answer === undefined || texts.length === 0 || !isFit) return '{}';
  const [first = '', second, third] = texts;
  try {
    return JSON.stringify(answer(first, second, third));
  } catch {
    return '{}';
  }
};
