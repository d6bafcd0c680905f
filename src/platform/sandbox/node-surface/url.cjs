// URL and Node's module `url`. Addresses are parsed by the host, which does nothing else with them.
'use strict';

const { Buffer } = require('./buffer.cjs');
const host = require('./host.cjs');
const { nodeError, invalidArgType } = require('./errors.cjs');

const custom = Symbol.for('nodejs.util.inspect.custom');

const wellFormed = (value) => `${value}`.toWellFormed();

// URLSearchParams, and its encoding of forms (https://url.spec.whatwg.org/#interface-urlsearchparams).

/** Bytes that are not UTF-8 become U+FFFD, and a percent sign without two digits stays. */
const decode = (text) => {
  const spaced = text.replaceAll('+', ' ');
  if (!spaced.includes('%')) return spaced;
  const bytes = Buffer.from(spaced, 'utf8').toString('latin1');
  const decoded = bytes.replace(/%([0-9A-Fa-f]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(decoded, 'latin1')
    .toString('utf8')
    .replace(/^\uFEFF/, '');
};

const encode = (text) =>
  encodeURIComponent(text)
    .replace(/[!'()~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+');

const parsePairs = (text) =>
  text
    .replace(/^\?/, '')
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const at = part.indexOf('=');
      return at === -1 ? [decode(part), ''] : [decode(part.slice(0, at)), decode(part.slice(at + 1))];
    });

const pairsOf = (init) => {
  if (init == null) return [];
  if (typeof init !== 'object' && typeof init !== 'function') return parsePairs(wellFormed(init));
  const isIterable = typeof init[Symbol.iterator] === 'function';
  return Array.from(isIterable ? init : Object.entries(init), (pair) => {
    const [name, value, ...rest] = pair;
    if (value === undefined || rest.length > 0)
      throw new TypeError('Each query pair must be an iterable [name, value] tuple');
    return [wellFormed(name), wellFormed(value)];
  });
};

class URLSearchParams {
  #pairs;
  #onChange;

  constructor(init) {
    this.#pairs = pairsOf(init);
  }

  static bind(params, onChange) {
    params.#onChange = onChange;
    return params;
  }

  static reset(params, text) {
    params.#pairs = parsePairs(text);
  }

  #change(pairs = this.#pairs) {
    this.#pairs = pairs;
    this.#onChange?.(this.toString());
  }

  append(name, value) {
    this.#pairs.push([wellFormed(name), wellFormed(value)]);
    this.#change();
  }

  delete(name, value) {
    this.#change(this.#pairs.filter((pair) => !isPair(pair, name, value)));
  }

  get(name) {
    return this.getAll(name)[0] ?? null;
  }

  getAll(name) {
    return this.#pairs.filter((pair) => isPair(pair, name)).map(([, value]) => value);
  }

  has(name, value) {
    return this.#pairs.some((pair) => isPair(pair, name, value));
  }

  set(name, value) {
    const first = this.#pairs.findIndex((pair) => isPair(pair, name));
    if (first === -1) return this.append(name, value);
    const changed = this.#pairs.with(first, [wellFormed(name), wellFormed(value)]);
    this.#change(changed.filter((pair, i) => i === first || !isPair(pair, name)));
  }

  sort() {
    this.#change(this.#pairs.toSorted(([a], [b]) => (a < b ? -1 : +(a > b))));
  }

  get size() {
    return this.#pairs.length;
  }

  forEach(callback, self) {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  *entries() {
    for (let i = 0; i < this.#pairs.length; i++) yield [...this.#pairs[i]];
  }

  *keys() {
    for (const [name] of this.entries()) yield name;
  }

  *values() {
    for (const [, value] of this.entries()) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toString() {
    return this.#pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&');
  }

  [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
    const shown = this.#pairs.map(([name, value]) => `${inspect(name, options)} => ${inspect(value, options)}`);
    return shown.length === 0 ? 'URLSearchParams {}' : `URLSearchParams { ${shown.join(', ')} }`;
  }

  get [Symbol.toStringTag]() {
    return 'URLSearchParams';
  }
}

const isPair = (pair, name, value) =>
  pair[0] === wellFormed(name) && (value === undefined || pair[1] === wellFormed(value));

const { bind, reset } = URLSearchParams;
delete URLSearchParams.bind;
delete URLSearchParams.reset;

const SETTABLE = ['href', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'];

const refuse = (input, base) => {
  const error = nodeError(TypeError, 'ERR_INVALID_URL', 'Invalid URL');
  error.input = input;
  if (base !== undefined) error.base = base;
  return error;
};

class URL {
  #parts;
  #searchParams;

  constructor(input, base) {
    if (arguments.length === 0) throw nodeError(TypeError, 'ERR_MISSING_ARGS', 'The "url" argument must be specified');
    const text = wellFormed(input);
    const baseText = base === undefined ? undefined : wellFormed(base);
    const { parts } = host.url('parse', text, baseText);
    if (parts === undefined) throw refuse(text, baseText);
    this.#parts = parts;
  }

  static canParse(input, base) {
    return host.url('parse', wellFormed(input), base === undefined ? undefined : wellFormed(base)).parts !== undefined;
  }

  static read(url, name) {
    return url.#parts[name];
  }

  static write(url, name, value) {
    const { parts } = host.url('set', url.#parts.href, name, wellFormed(value));
    if (parts === undefined) throw refuse(wellFormed(value));
    url.#parts = parts;
    if (url.#searchParams !== undefined) reset(url.#searchParams, parts.search);
  }

  get origin() {
    return this.#parts.origin;
  }

  get searchParams() {
    if (this.#searchParams === undefined) {
      this.#searchParams = bind(new URLSearchParams(this.#parts.search), (query) => {
        this.#parts = host.url('set', this.#parts.href, 'search', query).parts;
      });
    }
    return this.#searchParams;
  }

  toString() {
    return this.#parts.href;
  }

  toJSON() {
    return this.#parts.href;
  }

  [custom](depth, options, inspect) {
    if (depth !== null && depth < 0) return this.constructor.name;
    const shown = {};
    for (const name of ['href', 'origin', ...SETTABLE.slice(1, 9), 'searchParams', 'hash']) shown[name] = this[name];
    return `${this.constructor.name} ${inspect(shown, options)}`;
  }

  get [Symbol.toStringTag]() {
    return 'URL';
  }
}

const { read, write } = URL;
delete URL.read;
delete URL.write;

for (const name of SETTABLE) {
  Object.defineProperty(URL.prototype, name, {
    get() {
      return read(this, name);
    },
    set(value) {
      write(this, name, value);
    },
    enumerable: true,
    configurable: true,
  });
}

for (const name of ['origin', 'searchParams', 'toString', 'toJSON'])
  Object.defineProperty(URL.prototype, name, { enumerable: true });

// Its name is what inspect shows of a parsed address.
// oxlint-disable-next-line typescript/no-extraneous-class
class Url {}

const parse = (input, parseQuery = false, slashesDenoteHost = false) => {
  if (input instanceof Url) return input;
  if (typeof input !== 'string') throw invalidArgType('url', 'of type string', input);
  const { parts } = host.url('legacyParse', input, slashesDenoteHost ? 'slashes' : '');
  if (parts === undefined) throw refuse(input);
  const url = Object.assign(new Url(), parts);
  if (parseQuery) url.query = require('./small-modules.cjs').querystring.parse(url.query ?? '');
  return url;
};

const formatUrl = (url, { auth = true, fragment = true, search = true, unicode = false } = {}) => {
  const shown = new URL(url.href);
  if (!auth) {
    shown.username = '';
    shown.password = '';
  }
  if (!fragment) shown.hash = '';
  if (!search) shown.search = '';
  return unicode ? shown.href.replace(shown.hostname, host.url('domainToUnicode', shown.hostname).text) : shown.href;
};

const format = (input, options) => {
  if (input instanceof URL) return formatUrl(input, options);
  if (typeof input === 'string') return format(parse(input));
  if (typeof input !== 'object' || input === null)
    throw invalidArgType('urlObject', 'one of type object or string', input);
  const parts = {};
  for (const name of ['auth', 'hash', 'host', 'hostname', 'pathname', 'port', 'protocol', 'search', 'slashes']) {
    if (input[name] !== undefined && input[name] !== null) parts[name] = input[name];
  }
  const { query } = input;
  if (query !== null && typeof query === 'object')
    parts.queryText = require('./small-modules.cjs').querystring.stringify(query);
  return host.url('legacyFormat', JSON.stringify(parts)).text;
};

Url.prototype.format = function () {
  return format(this);
};

Url.prototype.parse = function (input, parseQuery, slashesDenoteHost) {
  return Object.assign(this, parse(input, parseQuery, slashesDenoteHost));
};

Url.prototype.resolve = function (relative) {
  return resolve(format(this), relative);
};

const textOf = (value) => (typeof value === 'string' ? value : format(value));
const resolve = (from, to) => host.url('legacyResolve', textOf(from), textOf(to)).text;

const urlToHttpOptions = (url) => {
  const { protocol, hostname, hash, search, pathname, href, port, username, password } = url;
  const options = {
    protocol,
    hostname: hostname.replace(/^\[|\]$/g, ''),
    hash,
    search,
    pathname,
    path: `${pathname}${search}`,
    href,
  };
  if (port !== '') options.port = Number(port);
  if (username || password) options.auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return options;
};

module.exports = {
  URL,
  URLSearchParams,
  Url,
  parse,
  format,
  resolve,
  resolveObject: (from, to) => parse(resolve(from, to)),
  domainToASCII: (domain) => host.url('domainToASCII', `${domain}`).text,
  domainToUnicode: (domain) => host.url('domainToUnicode', `${domain}`).text,
  urlToHttpOptions,
};
