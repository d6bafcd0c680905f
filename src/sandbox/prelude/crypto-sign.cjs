// Signatures, encryption with RSA keys, and agreements on keys: inputs in Node's shapes, answered by the host.
'use strict';

const host = require('./host.cjs');
const { Buffer } = require('./buffer.cjs');
const { fromBase64 } = require('./bytes.cjs');
const { Pieces, base64Of, show, showBase64 } = require('./crypto-input.cjs');
const { addStreamFace } = require('./crypto-stream.cjs');
const { toWire, KeyObject } = require('./crypto-keys.cjs');
const { checkString, nodeError } = require('./errors.cjs');
const { nextTick } = require('./ticks.cjs');

const optionsOf = (key) => {
  if (typeof key !== 'object' || key === null || key instanceof KeyObject || ArrayBuffer.isView(key)) return {};
  const { padding, saltLength, dsaEncoding, oaepHash, oaepLabel } = key;
  return {
    padding,
    salt_length: saltLength,
    dsa_encoding: dsaEncoding,
    oaep_hash: oaepHash,
    oaep_label: oaepLabel === undefined ? undefined : base64Of(oaepLabel, 'key.oaepLabel'),
  };
};

const checkKey = (key) => {
  if (key == null) throw nodeError(Error, 'ERR_CRYPTO_SIGN_KEY_REQUIRED', 'No key provided to sign');
};

const signBase64 = (algorithm, data, key) => {
  checkKey(key);
  return host.crypto('sign', { algorithm, data, key: toWire(key), ...optionsOf(key) });
};

const verifyBase64 = (algorithm, data, key, signature) =>
  host.crypto('verify', { algorithm, data, key: toWire(key), signature, ...optionsOf(key) });

const checkDigest = (algorithm) => {
  checkString(algorithm, 'algorithm');
  if (!host.crypto('has_hash', { algorithm })) throw new Error(`Invalid digest: ${algorithm}`);
};

class Sign {
  #algorithm;
  #pieces = new Pieces();

  constructor(algorithm) {
    checkDigest(algorithm);
    this.#algorithm = algorithm;
  }

  update(data, encoding) {
    this.#pieces.add(data, encoding);
    return this;
  }

  sign(key, encoding) {
    return showBase64(signBase64(this.#algorithm, this.#pieces.base64(), key), encoding);
  }
}

addStreamFace(Sign);

class Verify {
  #algorithm;
  #pieces = new Pieces();

  constructor(algorithm) {
    checkDigest(algorithm);
    this.#algorithm = algorithm;
  }

  update(data, encoding) {
    this.#pieces.add(data, encoding);
    return this;
  }

  verify(key, signature, encoding) {
    return verifyBase64(this.#algorithm, this.#pieces.base64(), key, base64Of(signature, 'signature', encoding));
  }
}

addStreamFace(Verify);

const answer = (callback, work) => {
  if (callback === undefined) return work();
  try {
    nextTick(callback, [null, work()]);
  } catch (error) {
    nextTick(callback, [error]);
  }
};

const sign = (algorithm, data, key, callback) =>
  answer(callback, () => fromBase64(signBase64(algorithm ?? null, base64Of(data, 'data'), key)));

const verify = (algorithm, data, key, signature, callback) =>
  answer(callback, () =>
    verifyBase64(algorithm ?? null, base64Of(data, 'data'), key, base64Of(signature, 'signature')),
  );

const crypt = (operation) => (key, data) =>
  fromBase64(
    host.crypto(operation, { key: toWire(key), data: base64Of(data, 'buffer', key?.encoding), ...optionsOf(key) }),
  );

const diffieHellman = ({ privateKey, publicKey }) =>
  fromBase64(host.crypto('key_agreement', { private_key: toWire(privateKey), public_key: toWire(publicKey) }));

class ECDH {
  #curve;
  #pair;

  constructor(curve) {
    checkString(curve, 'curve');
    this.#curve = curve;
  }

  generateKeys(encoding, format) {
    this.#pair = host.crypto('ecdh_generate', { curve: this.#curve });
    return this.getPublicKey(encoding, format);
  }

  setPrivateKey(key, encoding) {
    this.#pair = host.crypto('ecdh_public', { curve: this.#curve, private_key: base64Of(key, 'key', encoding) });
  }

  #need() {
    if (this.#pair === undefined)
      throw nodeError(Error, 'ERR_CRYPTO_ECDH_INVALID_KEY', 'Failed to get ECDH private key');
    return this.#pair;
  }

  getPrivateKey(encoding) {
    return showBase64(this.#need().private_key, encoding);
  }

  getPublicKey(encoding, format = 'uncompressed') {
    const point = this.#need().public_key;
    return format === 'uncompressed'
      ? showBase64(point, encoding)
      : ECDH.convertKey(fromBase64(point), this.#curve, undefined, encoding, format);
  }

  computeSecret(other, inputEncoding, outputEncoding) {
    const input = {
      curve: this.#curve,
      private_key: this.#need().private_key,
      public_key: base64Of(other, 'otherPublicKey', inputEncoding),
    };
    return showBase64(host.crypto('ecdh_secret', input), outputEncoding);
  }

  static convertKey(key, curve, inputEncoding, outputEncoding, format = 'uncompressed') {
    const point = host.crypto('ecdh_convert', { curve, public_key: base64Of(key, 'key', inputEncoding), format });
    return show(Buffer.from(point, 'base64'), outputEncoding);
  }
}

module.exports = {
  ECDH,
  Sign,
  Verify,
  diffieHellman,
  sign,
  verify,
  publicEncrypt: crypt('public_encrypt'),
  publicDecrypt: crypt('public_decrypt'),
  privateEncrypt: crypt('private_encrypt'),
  privateDecrypt: crypt('private_decrypt'),
};
