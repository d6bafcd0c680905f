// Ciphers as objects with `update` and `final`. The host keeps nothing between calls, so each is asked with the whole of
// what went in so far.
'use strict';

const host = require('./host.cjs');
const { Buffer } = require('./buffer.cjs');
const { Pieces, base64Of, show } = require('./crypto-input.cjs');
const { fromBase64, toBase64 } = require('./bytes.cjs');
const { addStreamFace } = require('./crypto-stream.cjs');
const { checkString, nodeError } = require('./errors.cjs');

// Up to here `update` gives out what is ready, as Node's does. Above, all comes with `final`: asking with the whole each
// time would cost the square of its length.
const EAGER_BYTES_MAX = 64 * 1024;
const AUTHENTICATED = /-(gcm|ccm|ocb)$|poly1305$/i;
const invalidState = (method) => nodeError(Error, 'ERR_CRYPTO_INVALID_STATE', `Invalid state for operation ${method}`);

class Cipher {
  #input;
  #pieces = new Pieces();
  #given = 0;
  #isFinal = false;
  #tag;

  constructor(direction, algorithm, key, iv, options) {
    checkString(algorithm, 'cipher');
    const { KeyObject, secretBase64 } = require('./crypto-keys.cjs');
    this.#input = {
      direction,
      algorithm,
      key: key instanceof KeyObject ? secretBase64(key) : base64Of(key, 'key'),
      iv: iv === null ? null : base64Of(iv, 'iv'),
      auth_tag_length: options?.authTagLength,
    };
    host.crypto('cipher_check', this.#input);
  }

  update(data, inputEncoding, outputEncoding) {
    if (this.#isFinal) throw new Error('Trying to add data in unsupported state');
    this.#pieces.add(data, inputEncoding);
    if (this.#pieces.length > EAGER_BYTES_MAX) return show(Buffer.alloc(0), outputEncoding);
    const { output } = host.crypto('cipher', { ...this.#input, data: this.#pieces.base64(), is_final: false });
    return show(this.#fresh(fromBase64(output)), outputEncoding);
  }

  #fresh(output) {
    const fresh = output.subarray(this.#given);
    this.#given = output.length;
    return fresh;
  }

  final(outputEncoding) {
    if (this.#isFinal) throw invalidState('final');
    this.#isFinal = true;
    const { output, auth_tag: tag } = host.crypto('cipher', {
      ...this.#input,
      data: this.#pieces.base64(),
      is_final: true,
    });
    if (tag !== undefined) this.#tag = fromBase64(tag);
    return show(this.#fresh(fromBase64(output)), outputEncoding);
  }

  setAutoPadding(isOn = true) {
    this.#input.auto_padding = !!isOn;
    return this;
  }

  setAAD(data, options) {
    this.#input.aad = toBase64(
      Buffer.concat([fromBase64(this.#input.aad ?? ''), fromBase64(base64Of(data, 'aadbuf', options?.encoding))]),
    );
    if (options?.plaintextLength !== undefined) this.#input.plaintext_length = options.plaintextLength;
    return this;
  }

  static setTag(cipher, tag, encoding) {
    const bytes = fromBase64(base64Of(tag, 'buffer', encoding));
    if (!AUTHENTICATED.test(cipher.#input.algorithm) || cipher.#isFinal) throw invalidState('setAuthTag');
    if (/gcm$/i.test(cipher.#input.algorithm) && ![4, 8, 12, 13, 14, 15, 16].includes(bytes.length))
      throw nodeError(TypeError, 'ERR_CRYPTO_INVALID_AUTH_TAG', `Invalid authentication tag length: ${bytes.length}`);
    cipher.#input.auth_tag = toBase64(bytes);
  }

  static getTag(cipher) {
    if (cipher.#tag === undefined) throw invalidState('getAuthTag');
    return Buffer.from(cipher.#tag);
  }
}

addStreamFace(Cipher);
const { setTag, getTag } = Cipher;
delete Cipher.setTag;
delete Cipher.getTag;

class Cipheriv extends Cipher {
  constructor(algorithm, key, iv, options) {
    super('encrypt', algorithm, key, iv, options);
  }

  getAuthTag() {
    return getTag(this);
  }
}

class Decipheriv extends Cipher {
  constructor(algorithm, key, iv, options) {
    super('decrypt', algorithm, key, iv, options);
  }

  setAuthTag(tag, encoding) {
    setTag(this, tag, encoding);
    return this;
  }
}

module.exports = { Cipheriv, Decipheriv };
