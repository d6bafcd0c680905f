// Node's Buffer: the package's, amended where it differs from Node in encodings, checks, numbers and how it prints.
'use strict';

const packaged = require('buffer');
const { decodeUtf8, encodeUtf8, lengthOfUtf8 } = require('./utf8.cjs');
const { invalidArgType, nodeError, outOfRange } = require('./errors.cjs');

const { Buffer } = packaged;
const { isEncoding: isKnown, from: makeFrom, byteLength: countBytes, alloc: makeZeros } = Buffer;
const { toString: encode, write: writeText, fill, indexOf, lastIndexOf } = Buffer.prototype;
const isUrlSafe = (encoding) => typeof encoding === 'string' && encoding.toLowerCase() === 'base64url';
const readable = (encoding) => (isUrlSafe(encoding) ? 'base64' : encoding);
const toUrlSafe = (text) => text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
const isUtf8 = (encoding) => encoding === undefined || /^utf-?8$/i.test(encoding);
const FROM_EXPECTED = 'of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object';
const SIZE_MAX = 2 ** 32;

const checkSize = (size) => {
  if (typeof size !== 'number') throw invalidArgType('size', 'of type number', size);
  if (!(size >= 0 && size <= SIZE_MAX)) throw outOfRange('size', `>= 0 && <= ${SIZE_MAX}`, size);
};

const isLatin1 = (encoding) => typeof encoding === 'string' && /^(latin1|binary|ascii)$/i.test(encoding);
const HEX = /[^0-9A-Fa-f]/;

const bytesOfHex = (text) => {
  const bad = text.search(HEX);
  return makeFrom(text.slice(0, bad === -1 ? text.length - (text.length % 2) : bad - (bad % 2)), 'hex');
};

const bytesOfText = (text, encoding) => {
  if (isUtf8(encoding)) return encodeUtf8(text, Buffer.alloc(lengthOfUtf8(text)));
  if (isLatin1(encoding)) {
    const bytes = Buffer.alloc(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }
  return /^hex$/i.test(encoding) ? bytesOfHex(text) : makeFrom(text, readable(encoding));
};

const lengthOfBase64 = (text) => {
  const padding = /={1,2}$/.exec(text)?.[0].length ?? 0;
  return Math.floor(((text.length - padding) * 3) / 4);
};

const patches = {
  isEncoding: (encoding) =>
    isUrlSafe(encoding) || (typeof encoding === 'string' && encoding !== '' && isKnown(encoding)),
  from(value, encodingOrOffset, length) {
    if (typeof value === 'string') {
      if (typeof encodingOrOffset === 'string' && encodingOrOffset !== '' && !Buffer.isEncoding(encodingOrOffset))
        throw nodeError(TypeError, 'ERR_UNKNOWN_ENCODING', `Unknown encoding: ${encodingOrOffset}`);
      return bytesOfText(
        value,
        typeof encodingOrOffset === 'string' && encodingOrOffset !== '' ? encodingOrOffset : undefined,
      );
    }
    if (typeof value !== 'object' || value === null) throw invalidArgType('first argument', FROM_EXPECTED, value);
    return makeFrom(value, encodingOrOffset, length);
  },
  alloc(size, fillWith, encoding) {
    checkSize(size);
    return makeZeros(size, typeof fillWith === 'number' ? fillWith & 255 : fillWith, readable(encoding));
  },
  allocUnsafe(size) {
    checkSize(size);
    return makeZeros(size);
  },
  allocUnsafeSlow(size) {
    checkSize(size);
    return makeZeros(size);
  },
  byteLength(value, encoding) {
    if (typeof value === 'string' && /^base64(url)?$/i.test(encoding)) return lengthOfBase64(value);
    const isText = typeof value === 'string';
    if (isText && (isUtf8(encoding) || !Buffer.isEncoding(encoding))) return lengthOfUtf8(value);
    if (isText || ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return countBytes(value, encoding);
    throw invalidArgType('string', 'of type string or an instance of Buffer or ArrayBuffer', value);
  },
};

for (const [name, value] of Object.entries(patches)) Buffer[name] = value;
Buffer.poolSize = 8192;
Object.defineProperty(Buffer, 'name', { value: 'Buffer', configurable: true });

const define = (name, value) =>
  Object.defineProperty(Buffer.prototype, name, { value, writable: true, enumerable: false, configurable: true });

const clampIndex = (index, length, fallback) => {
  if (index === undefined) return fallback;
  const whole = Math.trunc(Number(index)) || 0;
  return Math.min(Math.max(whole, 0), length);
};

define('toString', function (encoding, start, end) {
  const from = clampIndex(start, this.length, 0);
  const to = clampIndex(end, this.length, this.length);
  if (to <= from) return '';
  if (isUtf8(encoding)) return decodeUtf8(this, from, to).text;
  if (isUrlSafe(encoding)) return toUrlSafe(encode.call(this, 'base64', from, to));
  if (!Buffer.isEncoding(encoding)) throw nodeError(TypeError, 'ERR_UNKNOWN_ENCODING', `Unknown encoding: ${encoding}`);
  return encode.call(this, encoding, from, to);
});

define('toLocaleString', Buffer.prototype.toString);

define('write', function (text, ...rest) {
  const last = rest.length - 1;
  if (last >= 0) rest[last] = readable(rest[last]);
  return writeText.call(this, text, ...rest);
});

define('fill', function (value, ...rest) {
  const last = rest.length - 1;
  if (last >= 0) rest[last] = readable(rest[last]);
  return fill.call(this, value, ...rest);
});

define('indexOf', function (value, from, encoding) {
  return indexOf.call(this, value, readable(from), readable(encoding));
});

define('lastIndexOf', function (value, from, encoding) {
  return lastIndexOf.call(this, value, readable(from), readable(encoding));
});

define('includes', function (value, from, encoding) {
  return this.indexOf(value, from, encoding) !== -1;
});

require('./buffer-numbers.cjs').addNumbers(Buffer.prototype);
const SHOWN_MAX = 50;

const inspectBuffer = function (depth, options) {
  const shown = Math.min(this.length, SHOWN_MAX);
  const hex = [];
  for (let i = 0; i < shown; i++) hex.push(this[i].toString(16).padStart(2, '0'));
  const left = this.length - shown;
  const more = left > 0 ? ` ... ${left} more byte${left > 1 ? 's' : ''}` : '';
  const extras = Object.keys(this).slice(this.length);
  const { inspect: show } = require('./inspect.cjs');
  const own = extras
    .map((key) => `${hex.length > 0 ? ', ' : ''}${key}: ${show(this[key], { ...options, depth })}`)
    .join('');
  return `<${this.constructor.name} ${hex.join(' ')}${more}${own}>`;
};

define('inspect', inspectBuffer);
define(Symbol.for('nodejs.util.inspect.custom'), inspectBuffer);

for (const name of Object.getOwnPropertyNames(Buffer.prototype)) {
  const descriptor = Object.getOwnPropertyDescriptor(Buffer.prototype, name);
  if (descriptor.enumerable && descriptor.configurable)
    Object.defineProperty(Buffer.prototype, name, { ...descriptor, enumerable: false });
}

const invalidCharacter = () => {
  const { DOMException } = require('./dom-exception.cjs');
  return new DOMException('The string to be decoded is not correctly encoded.', 'InvalidCharacterError');
};

const atob = (input) => {
  const text = `${input}`.replace(/[\t\n\f\r ]/g, '');
  const body = text.length % 4 === 0 ? text.replace(/={1,2}$/, '') : text;
  if (body.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(body)) throw invalidCharacter();
  return Buffer.from(body, 'base64').toString('latin1');
};

const btoa = (input) => {
  const text = `${input}`;
  if (/[^\0-\u00FF]/.test(text)) {
    const { DOMException } = require('./dom-exception.cjs');
    throw new DOMException('Invalid character', 'InvalidCharacterError');
  }
  return Buffer.from(text, 'latin1').toString('base64');
};

const MAX_STRING_LENGTH = 2 ** 29 - 24;

module.exports = {
  Buffer,
  SlowBuffer: packaged.SlowBuffer,
  INSPECT_MAX_BYTES: SHOWN_MAX,
  kMaxLength: SIZE_MAX,
  kStringMaxLength: MAX_STRING_LENGTH,
  constants: { MAX_LENGTH: SIZE_MAX, MAX_STRING_LENGTH },
  atob,
  btoa,
  get Blob() {
    return require('./blob.cjs').Blob;
  },
};
