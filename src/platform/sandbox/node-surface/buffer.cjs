// Node's Buffer: the package, with base64url, which it does not know, and with our UTF-8, which needs no array of numbers.
'use strict';

const packaged = require('library/buffer');
const { DOMException } = require('./dom-exception.cjs');
const { decodeUtf8, encodeUtf8, lengthOfUtf8 } = require('./utf8.cjs');

const { Buffer } = packaged;
const { isEncoding, from, byteLength } = Buffer;
const { toString } = Buffer.prototype;

const isUrlSafe = (encoding) => typeof encoding === 'string' && encoding.toLowerCase() === 'base64url';
const isUtf8 = (encoding) => encoding === undefined || encoding === '' || /^utf-?8$/i.test(encoding);
const known = (encoding) => (isUrlSafe(encoding) ? 'base64' : encoding);

const define = (target, name, value) =>
  Object.defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });

define(Buffer, 'name', 'Buffer');
define(Buffer, 'isEncoding', (encoding) => isUrlSafe(encoding) || isEncoding(encoding));

define(Buffer, 'from', (value, encodingOrOffset, length) =>
  typeof value === 'string' && isUtf8(encodingOrOffset)
    ? encodeUtf8(value, Buffer.alloc(lengthOfUtf8(value)))
    : from(value, known(encodingOrOffset), length),
);

define(Buffer, 'byteLength', (value, encoding) =>
  typeof value === 'string' && isUtf8(encoding) ? lengthOfUtf8(value) : byteLength(value, known(encoding)),
);

const clampIndex = (index, length, fallback) =>
  index === undefined ? fallback : Math.min(Math.max(Math.trunc(index) || 0, 0), length);

define(Buffer.prototype, 'toString', function (encoding, start, end) {
  const first = clampIndex(start, this.length, 0);
  const last = clampIndex(end, this.length, this.length);
  if (last <= first) return '';
  if (isUtf8(encoding)) return decodeUtf8(this, first, last);
  const text = toString.call(this, known(encoding), first, last);
  return isUrlSafe(encoding) ? text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '') : text;
});

for (const name of ['fill', 'includes', 'indexOf', 'lastIndexOf', 'write']) {
  const method = Buffer.prototype[name];
  define(Buffer.prototype, name, function (value, ...rest) {
    return method.call(this, value, ...rest.map(known));
  });
}

// A loop over a buffer's properties finds its bytes only, as in Node.
for (const [name, { configurable, value }] of Object.entries(Object.getOwnPropertyDescriptors(Buffer.prototype)))
  if (configurable) define(Buffer.prototype, name, value);

const invalid = (message) => new DOMException(message, 'InvalidCharacterError');

const atob = (input) => {
  const text = `${input}`.replace(/[\t\n\f\r ]/g, '');
  const body = text.length % 4 === 0 ? text.replace(/={1,2}$/, '') : text;
  if (body.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(body))
    throw invalid('The string to be decoded is not correctly encoded.');
  return Buffer.from(body, 'base64').toString('latin1');
};

const btoa = (input) => {
  const text = `${input}`;
  if (/[^\0-\u00FF]/.test(text)) throw invalid('Invalid character');
  return Buffer.from(text, 'latin1').toString('base64');
};

const MAX_LENGTH = packaged.kMaxLength;
const MAX_STRING_LENGTH = 2 ** 29 - 24;

module.exports = {
  ...packaged,
  kStringMaxLength: MAX_STRING_LENGTH,
  constants: { MAX_LENGTH, MAX_STRING_LENGTH },
  atob,
  btoa,
};
