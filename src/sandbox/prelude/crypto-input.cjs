// What crypto takes as data, and how it shows bytes. Pieces gather what comes in parts.
'use strict';

const { Buffer } = require('./buffer.cjs');
const { viewBytes, toBase64, fromBase64 } = require('./bytes.cjs');
const { invalidArgType } = require('./errors.cjs');

const DATA = 'of type string or an instance of Buffer, TypedArray, or DataView';
const BYTES = 'of type string or an instance of ArrayBuffer, Buffer, TypedArray, or DataView';

const toBytes = (value, name, encoding, expected = DATA) => {
  if (typeof value === 'string') return Buffer.from(value, encoding === 'buffer' ? 'utf8' : encoding);
  const bytes = viewBytes(value);
  if (bytes === undefined) throw invalidArgType(name, expected, value);
  return bytes;
};

const base64Of = (value, name, encoding, expected) => toBase64(toBytes(value, name, encoding, expected));
const show = (bytes, encoding) => (encoding === undefined || encoding === 'buffer' ? bytes : bytes.toString(encoding));
const showBase64 = (text, encoding) => show(fromBase64(text), encoding);

class Pieces {
  #pieces;
  length;

  constructor(pieces = []) {
    this.#pieces = pieces;
    this.length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  }

  add(value, encoding) {
    const piece = Buffer.from(toBytes(value, 'data', encoding));
    this.#pieces.push(piece);
    this.length += piece.length;
  }

  copy() {
    return new Pieces([...this.#pieces]);
  }

  all() {
    if (this.#pieces.length !== 1) this.#pieces = [Buffer.concat(this.#pieces)];
    return this.#pieces[0];
  }

  base64() {
    return this.all().toString('base64');
  }
}

module.exports = { BYTES, DATA, Pieces, base64Of, show, showBase64, toBytes };
