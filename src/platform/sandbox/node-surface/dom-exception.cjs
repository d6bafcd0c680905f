// DOMException with its names and their old codes (https://webidl.spec.whatwg.org/#idl-DOMException-error-names).
'use strict';

const CODES = new Map([
  ['IndexSizeError', 1],
  ['HierarchyRequestError', 3],
  ['InvalidCharacterError', 5],
  ['NotFoundError', 8],
  ['NotSupportedError', 9],
  ['InvalidStateError', 11],
  ['SyntaxError', 12],
  ['InvalidAccessError', 15],
  ['TypeMismatchError', 17],
  ['SecurityError', 18],
  ['NetworkError', 19],
  ['AbortError', 20],
  ['QuotaExceededError', 22],
  ['TimeoutError', 23],
  ['DataCloneError', 25],
]);

class DOMException extends Error {
  constructor(message = '', options = 'Error') {
    const { name = 'Error', cause } = typeof options === 'object' && options !== null ? options : { name: options };
    super(`${message}`, cause === undefined ? undefined : { cause });
    const define = (key, value) => Object.defineProperty(this, key, { value, writable: true, configurable: true });
    define('name', `${name}`);
    define(
      'stack',
      `${this.stack}`.replace(/^Error/, () => this.name),
    );
  }

  get code() {
    return CODES.get(this.name) ?? 0;
  }

  get [Symbol.toStringTag]() {
    return 'DOMException';
  }
}

for (const [name, code] of CODES) {
  const constant = name.replace(/Error$/, '').replace(/(?<=[a-z])(?=[A-Z])/g, '_');
  for (const holder of [DOMException, DOMException.prototype])
    Object.defineProperty(holder, `${constant.toUpperCase()}_ERR`, { value: code, enumerable: true });
}

exports.DOMException = DOMException;
