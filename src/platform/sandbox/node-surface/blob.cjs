// Blob, File and FormData over bytes that are all in memory, and a form as a multipart body.
'use strict';

const { Buffer } = require('./buffer.cjs');
const { viewBytes } = require('./bytes.cjs');

const read = Symbol('read');
const partBytes = (part) => (part instanceof Blob ? part[read]() : (viewBytes(part) ?? Buffer.from(`${part}`, 'utf8')));

class Blob {
  #bytes;
  #type;

  constructor(parts = [], { type = '' } = {}) {
    this.#bytes = Buffer.concat([...parts].map(partBytes));
    this.#type = /[^\u0020-\u007E]/.test(`${type}`) ? '' : `${type}`.toLowerCase();
  }

  get size() {
    return this.#bytes.length;
  }

  get type() {
    return this.#type;
  }

  [read]() {
    return this.#bytes;
  }

  slice(start = 0, end = this.size, type = '') {
    const at = (index) => (index < 0 ? Math.max(this.size + index, 0) : Math.min(index, this.size));
    return new Blob([this.#bytes.subarray(at(start), Math.max(at(start), at(end)))], { type });
  }

  async text() {
    return this.#bytes.toString('utf8');
  }

  async arrayBuffer() {
    return new Uint8Array(this.#bytes).buffer;
  }

  async bytes() {
    return new Uint8Array(this.#bytes);
  }

  stream() {
    return require('./body-stream.cjs').streamOf(this.#bytes);
  }

  get [Symbol.toStringTag]() {
    return 'Blob';
  }
}

class File extends Blob {
  #name;
  #lastModified;

  constructor(parts, name, options = {}) {
    super(parts, options);
    this.#name = `${name}`;
    this.#lastModified = Number(options.lastModified ?? Date.now());
  }

  get name() {
    return this.#name;
  }

  get lastModified() {
    return this.#lastModified;
  }

  get [Symbol.toStringTag]() {
    return 'File';
  }
}

const toEntry = (value, filename) => {
  if (value instanceof Blob)
    return value instanceof File && filename === undefined
      ? value
      : new File([value], filename ?? 'blob', { type: value.type });
  return `${value}`;
};

class FormData {
  #entries = [];

  append(name, value, filename) {
    this.#entries.push([`${name}`, toEntry(value, filename)]);
  }

  set(name, value, filename) {
    const at = this.#entries.findIndex(([key]) => key === `${name}`);
    const left = this.#entries.filter(([key]) => key !== `${name}`);
    left.splice(at === -1 ? left.length : at, 0, [`${name}`, toEntry(value, filename)]);
    this.#entries = left;
  }

  delete(name) {
    this.#entries = this.#entries.filter(([key]) => key !== `${name}`);
  }

  get(name) {
    return this.#entries.find(([key]) => key === `${name}`)?.[1] ?? null;
  }

  getAll(name) {
    return this.#entries.filter(([key]) => key === `${name}`).map(([, value]) => value);
  }

  has(name) {
    return this.#entries.some(([key]) => key === `${name}`);
  }

  forEach(callback, self) {
    for (const [name, value] of this.#entries) callback.call(self, value, name, this);
  }

  *entries() {
    yield* this.#entries.map(([name, value]) => [name, value]);
  }

  *keys() {
    for (const [name] of this.#entries) yield name;
  }

  *values() {
    for (const [, value] of this.#entries) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  get [Symbol.toStringTag]() {
    return 'FormData';
  }
}

const escapeName = (text) => text.replaceAll('\n', '%0A').replaceAll('\r', '%0D').replaceAll('"', '%22');

const encodeForm = (form) => {
  const boundary = `----formdata-${require('./crypto-bridge.cjs').call('randomBytes', 12).toString('hex')}`;
  const parts = [];
  for (const [name, value] of form) {
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${escapeName(name)}"`;
    if (typeof value === 'string') parts.push(Buffer.from(`${head}\r\n\r\n${value.replace(/\r?\n|\r/g, '\r\n')}\r\n`));
    else {
      const type = value.type || 'application/octet-stream';
      parts.push(Buffer.from(`${head}; filename="${escapeName(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`));
      parts.push(value[read](), Buffer.from('\r\n'));
    }
  }
  parts.push(Buffer.from(`--${boundary}--\r\n`));
  return { bytes: Buffer.concat(parts), type: `multipart/form-data; boundary=${boundary}` };
};

module.exports = { Blob, File, FormData, encodeForm, bytesOfBlob: (blob) => blob[read]() };
