// URL and Node's module `url`. Addresses are parsed by the host, which does nothing else with them.
'use strict';

const host = require('./host.cjs');
const { URLSearchParams, bind, reset } = require('./search-params.cjs');
const { nodeError, invalidArgType } = require('./errors.cjs');

const custom = Symbol.for('nodejs.util.inspect.custom');

const wellFormed = (value) =>
  `${value}`.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, '\uFFFD');

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
  if (parseQuery) url.query = require('./querystring.cjs').parse(url.query ?? '');
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
  if (query !== null && typeof query === 'object') parts.queryText = require('./querystring.cjs').stringify(query);
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
