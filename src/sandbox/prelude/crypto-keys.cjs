// KeyObject and what makes one. A key is kept as text or bytes here and goes to the host with each use.
'use strict';

const host = require('./host.cjs');
const { Buffer } = require('./buffer.cjs');
const { fromBase64, toBase64, viewBytes } = require('./bytes.cjs');
const { base64Of, BYTES } = require('./crypto-input.cjs');
const { invalidArgType, nodeError } = require('./errors.cjs');

const KEY = 'of type string or an instance of ArrayBuffer, Buffer, TypedArray, DataView, KeyObject, or CryptoKey';
const allowed = Symbol('allowed');

class KeyObject {
  #type;
  #wire;
  #kind;
  #details;

  constructor(key, { type, wire, kind, details }) {
    if (key !== allowed) throw nodeError(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor');
    this.#type = type;
    this.#wire = wire;
    this.#kind = kind;
    this.#details = details;
  }

  static wireOf(key) {
    return key.#wire;
  }

  get type() {
    return this.#type;
  }

  get symmetricKeySize() {
    return this.#type === 'secret' ? fromBase64(this.#wire.bytes).length : undefined;
  }

  get asymmetricKeyType() {
    return this.#kind;
  }

  get asymmetricKeyDetails() {
    return this.#details === undefined ? undefined : { ...this.#details };
  }

  export(options = {}) {
    if (this.#type === 'secret') {
      const bytes = fromBase64(this.#wire.bytes);
      return options.format === 'jwk' ? { kty: 'oct', k: bytes.toString('base64url') } : bytes;
    }
    const { format = 'pem', type, cipher, passphrase } = options;
    const exported = host.crypto('export_key', {
      key: this.#wire,
      kind: this.#type,
      format,
      type: type ?? (this.#type === 'public' ? 'spki' : 'pkcs8'),
      cipher,
      passphrase: passphrase === undefined ? undefined : `${passphrase}`,
    });
    return exported.jwk !== undefined ? exported.jwk : (exported.text ?? fromBase64(exported.bytes));
  }

  equals(other) {
    return (
      other instanceof KeyObject &&
      this.#type === other.#type &&
      JSON.stringify(this.#wire) === JSON.stringify(other.#wire)
    );
  }

  get [Symbol.toStringTag]() {
    return 'KeyObject';
  }
}

const { wireOf } = KeyObject;
// For this module alone.
delete KeyObject.wireOf;
class SecretKeyObject extends KeyObject {}
class PublicKeyObject extends KeyObject {}
class PrivateKeyObject extends KeyObject {}

const secretBase64 = (key) => {
  if (key.type !== 'secret') {
    const text = `Invalid key object type ${key.type}, expected secret.`;
    throw nodeError(TypeError, 'ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE', text);
  }
  return wireOf(key).bytes;
};

const toWire = (given) => {
  if (given instanceof KeyObject) return wireOf(given);
  if (typeof given === 'string') return { text: given };
  const bytes = viewBytes(given);
  if (bytes !== undefined) return { bytes: toBase64(bytes) };
  if (typeof given !== 'object' || given === null) throw invalidArgType('key', KEY, given);
  const { key, format, type, passphrase, encoding } = given;
  if (format === 'jwk') return { jwk: JSON.stringify(key) };
  if (key instanceof KeyObject) return wireOf(key);
  const shared = {
    format,
    type,
    passphrase: passphrase === undefined ? undefined : Buffer.from(passphrase).toString('base64'),
  };
  if (typeof key === 'string')
    return encoding === undefined || encoding === 'utf8'
      ? { text: key, ...shared }
      : { bytes: base64Of(key, 'key', encoding), ...shared };
  const inner = viewBytes(key);
  if (inner === undefined) throw invalidArgType('key.key', KEY, key);
  return { bytes: toBase64(inner), ...shared };
};

const describe = (wire, kind) => {
  const { type, text, asymmetric_key_type: keyType, details } = host.crypto('describe_key', { key: wire, kind });
  if (details?.publicExponent !== undefined) details.publicExponent = BigInt(details.publicExponent);
  const Class = type === 'public' ? PublicKeyObject : PrivateKeyObject;
  return new Class(allowed, { type, wire: { text }, kind: keyType, details });
};

const createSecretKey = (key, encoding) => {
  const bytes = fromBase64(base64Of(key, 'key', encoding, BYTES));
  return new SecretKeyObject(allowed, { type: 'secret', wire: { bytes: toBase64(bytes) } });
};

const createPrivateKey = (key) => describe(toWire(key), 'private');
const createPublicKey = (key) => describe(toWire(key), 'public');

const generateKeySync = (type, { length }) => {
  const { randomBytes } = require('./crypto-random.cjs');
  if (type !== 'hmac' && type !== 'aes')
    throw nodeError(
      TypeError,
      'ERR_INVALID_ARG_VALUE',
      `The argument 'type' must be a supported key type. Received '${type}'`,
    );
  return createSecretKey(randomBytes(Math.floor(length / 8)));
};

const encodePair = (pair, options) => ({
  publicKey:
    options.publicKeyEncoding === undefined ? pair.publicKey : pair.publicKey.export(options.publicKeyEncoding),
  privateKey:
    options.privateKeyEncoding === undefined ? pair.privateKey : pair.privateKey.export(options.privateKeyEncoding),
});

const generateKeyPairSync = (type, options = {}) => {
  const { modulusLength, publicExponent, namedCurve } = options;
  const text = host.crypto('generate_key_pair', {
    type,
    modulus_length: modulusLength,
    public_exponent: publicExponent,
    named_curve: namedCurve,
  });
  return encodePair({ publicKey: createPublicKey(text), privateKey: createPrivateKey(text) }, options);
};

const generateKeyPair = (type, options, callback) => {
  const { nextTick } = require('./ticks.cjs');
  try {
    const { publicKey, privateKey } = generateKeyPairSync(type, options);
    nextTick(callback, [null, publicKey, privateKey]);
  } catch (error) {
    nextTick(callback, [error]);
  }
};

Object.defineProperty(generateKeyPair, Symbol.for('nodejs.util.promisify.custom'), {
  value: async (type, options) => generateKeyPairSync(type, options),
});

module.exports = {
  KeyObject,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  generateKeyPair,
  generateKeyPairSync,
  generateKeySync,
  secretBase64,
  toWire,
};
