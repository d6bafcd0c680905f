// DOMException with its names and their old codes.
'use strict';

const CODES = {
  __proto__: null,
  IndexSizeError: 1,
  HierarchyRequestError: 3,
  InvalidCharacterError: 5,
  NotFoundError: 8,
  NotSupportedError: 9,
  InvalidStateError: 11,
  SyntaxError: 12,
  InvalidAccessError: 15,
  TypeMismatchError: 17,
  SecurityError: 18,
  NetworkError: 19,
  AbortError: 20,
  QuotaExceededError: 22,
  TimeoutError: 23,
  DataCloneError: 25,
};

class DOMException extends Error {
  #name;

  constructor(message = '', options = 'Error') {
    super(`${message}`);
    const isName = typeof options !== 'object' || options === null;
    this.#name = `${isName ? options : (options.name ?? 'Error')}`;
    if (!isName && 'cause' in options)
      Object.defineProperty(this, 'cause', { value: options.cause, configurable: true, writable: true });
    const { stack } = this;
    const frames = typeof stack === 'string' ? stack.slice(stack.indexOf('\n')) : '';
    const head = `${this.#name}${this.message === '' ? '' : `: ${this.message}`}`;
    Object.defineProperty(this, 'stack', { value: head + frames, configurable: true, writable: true });
  }

  get name() {
    return this.#name;
  }

  get code() {
    return CODES[this.#name] ?? 0;
  }

  get [Symbol.toStringTag]() {
    return 'DOMException';
  }
}

for (const [name, code] of Object.entries(CODES)) {
  const constant = `${name
    .replace(/Error$/, '')
    .replace(/(?<=[a-z])(?=[A-Z])/g, '_')
    .toUpperCase()}_ERR`;
  for (const holder of [DOMException, DOMException.prototype])
    Object.defineProperty(holder, constant, { value: code, enumerable: true });
}

exports.DOMException = DOMException;
