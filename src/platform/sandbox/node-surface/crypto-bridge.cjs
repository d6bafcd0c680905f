// The bridge to the host's node:crypto (executor/crypto-calls.ts): values as JSON, calls with steps, and KeyObject, which crosses it.
'use strict';

const host = require('./host.cjs');
const { fromBase64, viewBytes } = require('./bytes.cjs');
const { DOMException } = require('./dom-exception.cjs');
const { nodeError } = require('./errors.cjs');

const allowed = Symbol('allowed');

/** The key's material stays here as text and goes to the host with each use. */
class KeyObject {
  #wire;

  constructor(key, wire, more) {
    if (key !== allowed) throw nodeError(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor');
    this.#wire = wire;
    Object.assign(this, more);
  }

  static wireOf(key) {
    return key.#wire;
  }

  get type() {
    return Object.keys(this.#wire)[0];
  }

  get symmetricKeySize() {
    return this.type === 'secret' ? fromBase64(this.#wire.secret).length : undefined;
  }

  export(options = {}) {
    if (this.type !== 'secret') {
      const type = this.type === 'public' ? 'spki' : 'pkcs8';
      return call('exportKey', this, { format: 'pem', type, ...options });
    }
    const bytes = fromBase64(this.#wire.secret);
    return options.format === 'jwk' ? { kty: 'oct', k: bytes.toString('base64url') } : bytes;
  }

  equals(other) {
    return other instanceof KeyObject && JSON.stringify(this.#wire) === JSON.stringify(other.#wire);
  }

  get [Symbol.toStringTag]() {
    return 'KeyObject';
  }
}

const { wireOf } = KeyObject;
// Only this module reads a key's material.
delete KeyObject.wireOf;

const mapValues = (object, change) =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));

/** What JSON has no form for is an object with one property that names its kind. */
const encode = (value) => {
  if (typeof value === 'bigint') return { bigint: `${value}` };
  if (value === undefined || typeof value === 'function' || typeof value === 'symbol') return { undefined: true };
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof KeyObject) return wireOf(value);
  const bytes = viewBytes(value);
  if (bytes !== undefined) return { bytes: bytes.toString('base64') };
  return Array.isArray(value) ? value.map(encode) : { object: mapValues(value, encode) };
};

const decode = (wire) => {
  if (typeof wire !== 'object' || wire === null) return wire;
  if (Array.isArray(wire)) return wire.map(decode);
  const { bytes, bigint, key, object } = wire;
  if (bytes !== undefined) return fromBase64(bytes);
  if (bigint !== undefined) return BigInt(bigint);
  return key === undefined ? mapValues(object, decode) : makeKey(key);
};

const makeKey = ({ type, pem, asymmetricKeyType, asymmetricKeyDetails }) =>
  new KeyObject(allowed, { [type]: pem }, { asymmetricKeyType, asymmetricKeyDetails: decode(asymmetricKeyDetails) });

/** Calls a function, and methods of what it returned, each `[name, ...args]`. Answers what each of them returned. */
const run = ([name, ...args], ...steps) => decode(host.crypto(name, encode([args, ...steps])));

const call = (...first) => run(first)[0];

// The global `crypto`: random values and UUIDs. There is no `subtle`.

const BYTES_MAX = 65_536;

const crypto = {
  getRandomValues(array) {
    if (!ArrayBuffer.isView(array) || array instanceof DataView || /Float/.test(array.constructor.name))
      throw new DOMException('The data argument must be an integer-type TypedArray', 'TypeMismatchError');
    if (array.byteLength > BYTES_MAX)
      throw new DOMException(`The requested length exceeds ${BYTES_MAX} bytes`, 'QuotaExceededError');
    const bytes = call('randomBytes', array.byteLength);
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(bytes);
    return array;
  },
  randomUUID: () => call('randomUUID'),
};

module.exports = {
  KeyObject,
  call,
  crypto,
  run,
  createSecretKey: (bytes) => new KeyObject(allowed, { secret: bytes.toString('base64') }),
};
