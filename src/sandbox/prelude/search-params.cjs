// URLSearchParams, and its encoding of forms.
'use strict';

const { Buffer } = require('./buffer.cjs');
const { nodeError, invalidArgType } = require('./errors.cjs');

const custom = Symbol.for('nodejs.util.inspect.custom');

const wellFormed = (value) =>
  `${value}`.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, '\uFFFD');

const decode = (text) => {
  const spaced = text.replaceAll('+', ' ');
  if (!spaced.includes('%')) return spaced;
  const bytes = Buffer.from(spaced, 'utf8');
  const decoded = Buffer.alloc(bytes.length);
  let length = 0;
  for (let i = 0; i < bytes.length; i++) {
    const hex = bytes[i] === 37 ? bytes.toString('latin1', i + 1, i + 3) : '';
    if (/^[0-9A-Fa-f]{2}$/.test(hex)) {
      decoded[length++] = Number.parseInt(hex, 16);
      i += 2;
    } else decoded[length++] = bytes[i];
  }
  const result = decoded.toString('utf8', 0, length);
  return result.charCodeAt(0) === 65_279 ? result.slice(1) : result;
};

const encode = (text) =>
  encodeURIComponent(text)
    .replace(/[!'()~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+');

const parse = (text) =>
  text
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const at = part.indexOf('=');
      return at === -1 ? [decode(part), ''] : [decode(part.slice(0, at)), decode(part.slice(at + 1))];
    });

const fromPairs = (iterable) => {
  const pairs = [];
  for (const pair of iterable) {
    const both =
      pair !== null && typeof pair === 'object' && typeof pair[Symbol.iterator] === 'function' ? [...pair] : [];
    if (both.length !== 2)
      throw nodeError(TypeError, 'ERR_INVALID_TUPLE', 'Each query pair must be an iterable [name, value] tuple');
    pairs.push([wellFormed(both[0]), wellFormed(both[1])]);
  }
  return pairs;
};

const fromObject = (object) => {
  const pairs = new Map();
  for (const key of Reflect.ownKeys(object)) {
    if (typeof key !== 'symbol' && Object.prototype.propertyIsEnumerable.call(object, key))
      pairs.set(wellFormed(key), wellFormed(object[key]));
  }
  return [...pairs];
};

const IteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));

const iterate = (read, pick) => {
  let i = 0;
  const iterator = Object.create(IteratorPrototype);
  const define = (name, value) => Object.defineProperty(iterator, name, { value, configurable: true, writable: true });
  define('next', () => {
    const pairs = read();
    return i < pairs.length ? { value: pick(pairs[i++]), done: false } : { value: undefined, done: true };
  });
  define(Symbol.toStringTag, 'URLSearchParams Iterator');
  define(
    custom,
    (depth, options, inspect) =>
      `URLSearchParams Iterator { ${read()
        .slice(i)
        .map(pick)
        .map((item) => inspect(item, options))
        .join(', ')} }`,
  );
  return iterator;
};

const needArguments = (given, names) => {
  if (given >= names.length) return;
  const text = `The ${names.map((name) => `"${name}"`).join(' and ')} argument${names.length > 1 ? 's' : ''} must be specified`;
  throw nodeError(TypeError, 'ERR_MISSING_ARGS', text);
};

class URLSearchParams {
  #pairs = [];
  #onChange;

  constructor(init) {
    if (init != null) {
      if (typeof init !== 'object' && typeof init !== 'function')
        this.#pairs = parse(wellFormed(init).replace(/^\?/, ''));
      else if (init instanceof URLSearchParams) this.#pairs = init.#pairs.map(([name, value]) => [name, value]);
      else if (typeof init[Symbol.iterator] === 'function') this.#pairs = fromPairs(init);
      else {
        if (init[Symbol.iterator] !== undefined && init[Symbol.iterator] !== null)
          throw nodeError(TypeError, 'ERR_ARG_NOT_ITERABLE', 'Query pairs must be iterable');
        this.#pairs = fromObject(init);
      }
    }
  }

  static bind(params, onChange) {
    params.#onChange = onChange;
    return params;
  }

  static reset(params, text) {
    params.#pairs = parse(text.replace(/^\?/, ''));
  }

  #changed() {
    this.#onChange?.(this.toString());
  }

  append(name, value) {
    needArguments(arguments.length, ['name', 'value']);
    this.#pairs.push([wellFormed(name), wellFormed(value)]);
    this.#changed();
  }

  delete(name, value) {
    needArguments(arguments.length, ['name']);
    const key = wellFormed(name);
    this.#pairs = this.#pairs.filter(
      (pair) => pair[0] !== key || (value !== undefined && pair[1] !== wellFormed(value)),
    );
    this.#changed();
  }

  get(name) {
    needArguments(arguments.length, ['name']);
    return this.#pairs.find((pair) => pair[0] === wellFormed(name))?.[1] ?? null;
  }

  getAll(name) {
    needArguments(arguments.length, ['name']);
    return this.#pairs.filter((pair) => pair[0] === wellFormed(name)).map((pair) => pair[1]);
  }

  has(name, value) {
    needArguments(arguments.length, ['name']);
    return this.#pairs.some(
      (pair) => pair[0] === wellFormed(name) && (value === undefined || pair[1] === wellFormed(value)),
    );
  }

  set(name, value) {
    needArguments(arguments.length, ['name', 'value']);
    const key = wellFormed(name);
    const first = this.#pairs.find((pair) => pair[0] === key);
    if (first === undefined) this.#pairs.push([key, wellFormed(value)]);
    else {
      first[1] = wellFormed(value);
      this.#pairs = this.#pairs.filter((pair) => pair[0] !== key || pair === first);
    }
    this.#changed();
  }

  sort() {
    this.#pairs.sort(([a], [b]) => (a < b ? -1 : +(a > b)));
    this.#changed();
  }

  get size() {
    return this.#pairs.length;
  }

  forEach(callback, self) {
    if (typeof callback !== 'function') throw invalidArgType('callback', 'of type function', callback);
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  entries() {
    return iterate(
      () => this.#pairs,
      ([name, value]) => [name, value],
    );
  }

  keys() {
    return iterate(
      () => this.#pairs,
      ([name]) => name,
    );
  }

  values() {
    return iterate(
      () => this.#pairs,
      ([, value]) => value,
    );
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toString() {
    return this.#pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&');
  }

  [custom](depth, options, inspect) {
    if (depth !== null && depth < 0) return '[Object]';
    const shown = this.#pairs.map(([name, value]) => `${inspect(name, options)} => ${inspect(value, options)}`);
    return shown.length === 0 ? 'URLSearchParams {}' : `URLSearchParams { ${shown.join(', ')} }`;
  }

  get [Symbol.toStringTag]() {
    return 'URLSearchParams';
  }
}

const { bind, reset } = URLSearchParams;
delete URLSearchParams.bind;
delete URLSearchParams.reset;

Object.defineProperty(URLSearchParams.prototype, Symbol.iterator, {
  value: URLSearchParams.prototype.entries,
  writable: true,
  configurable: true,
});

module.exports = { URLSearchParams, bind, reset, encode, decode };
