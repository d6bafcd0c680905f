// URLSearchParams, and its encoding of forms (https://url.spec.whatwg.org/#interface-urlsearchparams).
'use strict';

const { Buffer } = require('./buffer.cjs');

const wellFormed = (value) => `${value}`.toWellFormed();

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

const parse = (text) =>
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
  if (typeof init !== 'object' && typeof init !== 'function') return parse(wellFormed(init));
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
    params.#pairs = parse(text);
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

module.exports = { URLSearchParams, bind, reset };
