// TextEncoder and TextDecoder for UTF-8, UTF-16 and the single bytes of the west.
'use strict';

const { Buffer } = require('./buffer.cjs');
const { viewBytes } = require('./bytes.cjs');
const { decodeUtf8 } = require('./utf8.cjs');
const { invalidArgType, nodeError } = require('./errors.cjs');

const custom = Symbol.for('nodejs.util.inspect.custom');

class TextEncoder {
  get encoding() {
    return 'utf-8';
  }

  encode(text = '') {
    return new Uint8Array(Buffer.from(`${text}`, 'utf8'));
  }

  encodeInto(text, target) {
    let read = 0;
    let written = 0;
    for (const char of `${text}`) {
      const bytes = Buffer.from(char, 'utf8');
      if (written + bytes.length > target.length) break;
      target.set(bytes, written);
      written += bytes.length;
      read += char.length;
    }
    return { read, written };
  }

  [custom]() {
    return "{ encoding: 'utf-8' }";
  }

  get [Symbol.toStringTag]() {
    return 'TextEncoder';
  }
}

const LABELS = {
  __proto__: null,
  'utf-8': 'utf-8',
  utf8: 'utf-8',
  'unicode-1-1-utf-8': 'utf-8',
  'utf-16le': 'utf-16le',
  'utf-16': 'utf-16le',
  'ucs-2': 'utf-16le',
  unicode: 'utf-16le',
  latin1: 'windows-1252',
  'iso-8859-1': 'windows-1252',
  iso88591: 'windows-1252',
  ascii: 'windows-1252',
  'us-ascii': 'windows-1252',
  'windows-1252': 'windows-1252',
  cp1252: 'windows-1252',
  l1: 'windows-1252',
};

const WINDOWS_1252 = [
  8364, 0, 8218, 402, 8222, 8230, 8224, 8225, 710, 8240, 352, 8249, 338, 0, 381, 0, 0, 8216, 8217, 8220, 8221, 8226,
  8211, 8212, 732, 8482, 353, 8250, 339, 0, 382, 376,
];

const decodeWindows1252 = (bytes) =>
  bytes.toString('latin1').replace(/[\u0080-\u009F]/g, (char) => {
    const point = WINDOWS_1252[char.charCodeAt(0) - 128];
    return point === 0 ? char : String.fromCharCode(point);
  });

const toWellFormed = (text) =>
  text.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, '\uFFFD');

class TextDecoder {
  #encoding;
  #fatal;
  #ignoreBom;
  #left = Buffer.alloc(0);
  #isBomSeen = false;

  constructor(label = 'utf-8', options = {}) {
    const encoding = LABELS[`${label}`.trim().toLowerCase()];
    if (encoding === undefined)
      throw nodeError(RangeError, 'ERR_ENCODING_NOT_SUPPORTED', `The "${label}" encoding is not supported`);
    this.#encoding = encoding;
    this.#fatal = !!options?.fatal;
    this.#ignoreBom = !!options?.ignoreBOM;
  }

  get encoding() {
    return this.#encoding;
  }

  get fatal() {
    return this.#fatal;
  }

  get ignoreBOM() {
    return this.#ignoreBom;
  }

  decode(input = new Uint8Array(0), { stream = false } = {}) {
    const given = viewBytes(input);
    if (given === undefined)
      throw invalidArgType('list', 'an instance of SharedArrayBuffer, ArrayBuffer or ArrayBufferView', input);
    const bytes = this.#left.length === 0 ? given : Buffer.concat([this.#left, given]);
    const { text, used } = this.#read(bytes, stream);
    this.#left = stream ? Buffer.from(bytes.subarray(used)) : Buffer.alloc(0);
    const shown = this.#withoutBom(text);
    if (!stream) this.#isBomSeen = false;
    return shown;
  }

  #read(bytes, isPartial) {
    if (this.#encoding === 'utf-8')
      return decodeUtf8(bytes, 0, bytes.length, this.#fatal ? this.#refuse : undefined, isPartial);
    if (this.#encoding === 'windows-1252') return { text: decodeWindows1252(bytes), used: bytes.length };
    const used = bytes.length - (bytes.length % 2);
    const isOdd = used < bytes.length && !isPartial;
    const raw = bytes.toString('utf16le', 0, used) + (isOdd ? '\uFFFD' : '');
    const text = toWellFormed(raw);
    if (this.#fatal && (text !== raw || isOdd)) this.#refuse();
    return { text, used };
  }

  #refuse = () => {
    this.#left = Buffer.alloc(0);
    const message = `The encoded data was not valid for encoding ${this.#encoding}`;
    throw nodeError(TypeError, 'ERR_ENCODING_INVALID_ENCODED_DATA', message);
  };

  #withoutBom(text) {
    if (this.#encoding === 'windows-1252' || this.#ignoreBom || this.#isBomSeen || text === '') return text;
    this.#isBomSeen = true;
    return text.charCodeAt(0) === 65_279 ? text.slice(1) : text;
  }

  get [Symbol.toStringTag]() {
    return 'TextDecoder';
  }
}

module.exports = { TextEncoder, TextDecoder };
