// Node's string_decoder: text of bytes that come in pieces, no character cut in two.
'use strict';

const { Buffer } = require('./buffer.cjs');
const { viewBytes } = require('./bytes.cjs');
const { decodeUtf8 } = require('./utf8.cjs');
const { invalidArgType, nodeError } = require('./errors.cjs');

const NAMES = {
  __proto__: null,
  utf8: 'utf8',
  'utf-8': 'utf8',
  ucs2: 'utf16le',
  'ucs-2': 'utf16le',
  utf16le: 'utf16le',
  'utf-16le': 'utf16le',
  latin1: 'latin1',
  binary: 'latin1',
  base64: 'base64',
  base64url: 'base64url',
  ascii: 'ascii',
  hex: 'hex',
};

const usable = {
  __proto__: null,
  base64: (bytes) => bytes.length - (bytes.length % 3),
  base64url: (bytes) => bytes.length - (bytes.length % 3),
  utf16le(bytes) {
    const even = bytes.length - (bytes.length % 2);
    return even >= 2 && (bytes[even - 1] & 252) === 216 ? even - 2 : even;
  },
};

class StringDecoder {
  #left = Buffer.alloc(0);

  constructor(encoding = 'utf8') {
    const name = NAMES[`${encoding || 'utf8'}`.toLowerCase()];
    if (name === undefined) throw nodeError(TypeError, 'ERR_UNKNOWN_ENCODING', `Unknown encoding: ${encoding}`);
    this.encoding = name;
  }

  write(chunk) {
    if (typeof chunk === 'string') return chunk;
    const given = viewBytes(chunk);
    if (given === undefined) throw invalidArgType('buf', 'an instance of Buffer, TypedArray, or DataView', chunk);
    const bytes = this.#left.length === 0 ? given : Buffer.concat([this.#left, given]);
    const { text, used } = this.#read(bytes);
    this.#left = Buffer.from(bytes.subarray(used));
    return text;
  }

  #read(bytes) {
    if (this.encoding === 'utf8') return decodeUtf8(bytes, 0, bytes.length, undefined, true);
    const used = usable[this.encoding]?.(bytes) ?? bytes.length;
    return { text: bytes.toString(this.encoding, 0, used), used };
  }

  end(chunk) {
    const text = chunk === undefined ? '' : this.write(chunk);
    const rest = this.#left;
    this.#left = Buffer.alloc(0);
    return text + rest.toString(this.encoding);
  }

  get lastNeed() {
    return this.#left.length;
  }
}

exports.StringDecoder = StringDecoder;
