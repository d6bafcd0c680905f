// Headers: names in lower case and in order, values joined, and neither with what would end a line.
'use strict';

const custom = Symbol.for('nodejs.util.inspect.custom');
const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

const toName = (name) => {
  const text = `${name}`;
  if (!NAME.test(text)) throw new TypeError(`Headers.append: ${text} is an invalid header name.`);
  return text.toLowerCase();
};

const toValue = (value) => {
  const text = `${value}`.replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
  if (/[\0\r\n]|[^\0-\u00FF]/.test(text)) throw new TypeError(`Headers.append: ${text} is an invalid header value.`);
  return text;
};

class Headers {
  #values = new Map();

  constructor(init) {
    if (init == null) return;
    if (typeof init !== 'object') throw new TypeError('Headers constructor: init is not an object');
    const pairs = typeof init[Symbol.iterator] === 'function' ? init : Object.entries(init);
    for (const pair of pairs) {
      const [name, value, ...more] = pair;
      if (value === undefined && !Array.isArray(pair))
        throw new TypeError('Headers constructor: expected name/value pair');
      if (more.length > 0) throw new TypeError('Headers constructor: expected name/value pair to be length 2');
      this.append(name, value);
    }
  }

  append(name, value) {
    const key = toName(name);
    const text = toValue(value);
    const known = this.#values.get(key);
    if (known === undefined) this.#values.set(key, [text]);
    else known.push(text);
  }

  set(name, value) {
    this.#values.set(toName(name), [toValue(value)]);
  }

  delete(name) {
    this.#values.delete(toName(name));
  }

  get(name) {
    const key = toName(name);
    return this.#values.get(key)?.join(key === 'cookie' ? '; ' : ', ') ?? null;
  }

  has(name) {
    return this.#values.has(toName(name));
  }

  getSetCookie() {
    return [...(this.#values.get('set-cookie') ?? [])];
  }

  #sorted() {
    const pairs = [];
    for (const name of [...this.#values.keys()].sort()) {
      if (name === 'set-cookie') {
        for (const value of this.#values.get(name)) pairs.push([name, value]);
      } else pairs.push([name, this.get(name)]);
    }
    return pairs;
  }

  *entries() {
    yield* this.#sorted();
  }

  *keys() {
    for (const [name] of this.#sorted()) yield name;
  }

  *values() {
    for (const [, value] of this.#sorted()) yield value;
  }

  forEach(callback, self) {
    for (const [name, value] of this.#sorted()) callback.call(self, value, name, this);
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  [custom](depth, options, inspect) {
    return `Headers ${inspect(Object.fromEntries(this.#sorted()), options)}`;
  }

  get [Symbol.toStringTag]() {
    return 'Headers';
  }
}

exports.Headers = Headers;
