// Node's Buffer: the package, with base64url, which it does not know, and with our UTF-8, which needs no array of numbers.
'use strict';

const packaged = require('library/buffer');
const { DOMException } = require('./dom-exception.cjs');

// UTF-8 to text and back, by the Encoding standard: broken bytes become U+FFFD (https://encoding.spec.whatwg.org/#utf-8-decoder).

const { fromCharCode } = String;
const { apply } = Reflect;

/** Few enough to be arguments of one call. */
const UNITS_MAX = 4096;
const REPLACEMENT = 0xff_fd;

const fromUnits = (units) => apply(fromCharCode, undefined, units);

const decodeUtf8 = (bytes, start, end) => {
  let text = '';
  let i = start;
  while (i < end && bytes[i] < 0x80) i++;
  for (let at = start; at < i; at += UNITS_MAX) text += fromUnits(bytes.subarray(at, Math.min(at + UNITS_MAX, i)));
  let units = [];
  let point = 0;
  let left = 0;
  let low = 0x80;
  let high = 0xbf;
  for (; i < end; i++) {
    const byte = bytes[i];
    if (left > 0 && byte >= low && byte <= high) {
      point = (point << 6) | (byte & 0x3f);
      left -= 1;
      low = 0x80;
      high = 0xbf;
      if (left === 0 && point <= 0xff_ff) units.push(point);
      else if (left === 0) units.push(0xd7_c0 + (point >> 10), 0xdc_00 + (point & 0x3_ff));
      continue;
    }
    if (left > 0) units.push(REPLACEMENT);
    left = 0;
    if (byte < 0x80) units.push(byte);
    else if (byte < 0xc2 || byte > 0xf4) units.push(REPLACEMENT);
    else {
      left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
      point = byte & (0x3f >> left);
      low = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
      high = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
    }
    if (units.length >= UNITS_MAX) {
      text += fromUnits(units);
      units = [];
    }
  }
  if (left > 0) units.push(REPLACEMENT);
  return text + fromUnits(units);
};

const isHigh = (unit) => unit >= 55_296 && unit <= 56_319;
const isLow = (unit) => unit >= 56_320 && unit <= 57_343;

const lengthOfUtf8 = (text) => {
  let length = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 128) length += 1;
    else if (unit < 2048) length += 2;
    else if (isHigh(unit) && isLow(text.charCodeAt(i + 1))) {
      length += 4;
      i++;
    } else length += 3;
  }
  return length;
};

const encodeUtf8 = (text, bytes) => {
  let at = 0;
  for (let i = 0; i < text.length; i++) {
    let point = text.charCodeAt(i);
    if (point < 128) {
      bytes[at++] = point;
      continue;
    }
    if (isHigh(point) && isLow(text.charCodeAt(i + 1))) point = text.codePointAt(i++);
    else if (isHigh(point) || isLow(point)) point = 65_533;
    if (point < 2048) bytes[at++] = 192 | (point >> 6);
    else {
      if (point < 65_536) bytes[at++] = 224 | (point >> 12);
      else {
        bytes[at++] = 240 | (point >> 18);
        bytes[at++] = 128 | ((point >> 12) & 63);
      }
      bytes[at++] = 128 | ((point >> 6) & 63);
    }
    bytes[at++] = 128 | (point & 63);
  }
  return bytes;
};

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
