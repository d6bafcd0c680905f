// Hash and Hmac: gather what goes in, and ask the host once.
'use strict';

const host = require('./host.cjs');
const { BYTES, Pieces, base64Of, showBase64 } = require('./crypto-input.cjs');
const { addStreamFace } = require('./crypto-stream.cjs');
const { checkString, nodeError } = require('./errors.cjs');

const KNOWN = /^(md5|sha1|sha224|sha256|sha384|sha512|RSA-SHA(1|256|384|512))$/i;
const isKnown = (algorithm) => KNOWN.test(algorithm) || host.crypto('has_hash', { algorithm });
const finalized = () => nodeError(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');

class Hash {
  #algorithm;
  #outputLength;
  #pieces;
  #isFinal = false;

  constructor(algorithm, options, pieces = new Pieces()) {
    checkString(algorithm, 'algorithm');
    if (!isKnown(algorithm)) throw new Error('Digest method not supported');
    this.#algorithm = algorithm;
    this.#outputLength = options?.outputLength;
    this.#pieces = pieces;
  }

  update(data, encoding) {
    if (this.#isFinal) throw finalized();
    this.#pieces.add(data, encoding);
    return this;
  }

  digest(encoding) {
    if (this.#isFinal) throw finalized();
    this.#isFinal = true;
    const input = { algorithm: this.#algorithm, data: this.#pieces.base64(), output_length: this.#outputLength };
    return showBase64(host.crypto('hash', input), encoding);
  }

  copy(options) {
    if (this.#isFinal) throw finalized();
    return new Hash(this.#algorithm, options ?? { outputLength: this.#outputLength }, this.#pieces.copy());
  }
}

addStreamFace(Hash);

class Hmac {
  #algorithm;
  #key;
  #pieces = new Pieces();
  #isFinal = false;

  constructor(algorithm, key, options) {
    checkString(algorithm, 'hmac');
    const { KeyObject, secretBase64 } = require('./crypto-keys.cjs');
    const expected =
      'of type string or an instance of ArrayBuffer, Buffer, TypedArray, DataView, KeyObject, or CryptoKey';
    this.#key = key instanceof KeyObject ? secretBase64(key) : base64Of(key, 'key', options?.encoding, expected);
    if (!isKnown(algorithm)) throw nodeError(Error, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid digest: ${algorithm}`);
    this.#algorithm = algorithm;
  }

  update(data, encoding) {
    if (this.#isFinal) throw finalized();
    this.#pieces.add(data, encoding);
    return this;
  }

  digest(encoding) {
    if (this.#isFinal) return showBase64('', encoding);
    this.#isFinal = true;
    return showBase64(
      host.crypto('hmac', { algorithm: this.#algorithm, key: this.#key, data: this.#pieces.base64() }),
      encoding,
    );
  }
}

addStreamFace(Hmac);
module.exports = { Hash, Hmac, BYTES };
