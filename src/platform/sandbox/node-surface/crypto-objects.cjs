// Hashes, ciphers, signatures and key agreements as objects. The host keeps nothing between calls: an object gathers its input
// and sends the whole of it.
'use strict';

const { Buffer } = require('./buffer.cjs');
const { viewBytes } = require('./bytes.cjs');
const { call, run } = require('./crypto-bridge.cjs');
const { checkString, invalidArgType, nodeError } = require('./errors.cjs');

// What hashes, ciphers and signatures inherit: the methods of a stream. Most code uses none of them, and the stream is made when
// the first is used.

const METHODS =
  'addListener destroy emit end eventNames isPaused listenerCount listeners off on once pause pipe prependListener push ' +
  'read removeAllListeners removeListener resume setEncoding unpipe write';

const PROPERTIES =
  '_readableState _writableState destroyed readable readableEnded readableFlowing readableHighWaterMark writable ' +
  'writableEnded writableFinished writableHighWaterMark writableLength writableNeedDrain closed errored';

const streams = new WeakMap();

const streamOf = (object) => {
  let stream = streams.get(object);
  if (stream === undefined) {
    const { Transform } = require('library/stream');
    stream = new Transform({
      transform(chunk, encoding, callback) {
        try {
          const out = object.update(chunk, encoding);
          callback(null, out === object ? undefined : out);
        } catch (error) {
          callback(error);
        }
      },
      flush(callback) {
        try {
          callback(null, typeof object.digest === 'function' ? object.digest() : object.final?.());
        } catch (error) {
          callback(error);
        }
      },
    });
    streams.set(object, stream);
  }
  return stream;
};

class StreamLike {
  [Symbol.asyncIterator]() {
    return streamOf(this)[Symbol.asyncIterator]();
  }
}

const define = (name, descriptor) =>
  Object.defineProperty(StreamLike.prototype, name, { configurable: true, ...descriptor });

const methodOf = (name) =>
  function (...args) {
    const stream = streamOf(this);
    const result = stream[name](...args);
    return result === stream ? this : result;
  };

for (const name of METHODS.split(' ')) define(name, { value: methodOf(name), writable: true });

for (const name of PROPERTIES.split(' '))
  define(name, {
    get() {
      return streamOf(this)[name];
    },
  });

const DATA = 'of type string or an instance of Buffer, TypedArray, or DataView';
/** Up to here a cipher's `update` answers as Node's does. Above, all comes with `final`, as to send it each time is quadratic. */
const EAGER_BYTES_MAX = 64 * 1024;
const AUTHENTICATED = /-(gcm|ccm|ocb)$|poly1305$/i;
/** Every Node has them. */
const COMMON_HASHES = new Set(['md5', 'sha1', 'sha256', 'sha384', 'sha512']);

const toBytes = (value, name, encoding) => {
  if (typeof value === 'string') return Buffer.from(value, encoding === 'buffer' ? 'utf8' : encoding);
  const bytes = viewBytes(value);
  if (bytes === undefined) throw invalidArgType(name, DATA, value);
  return Buffer.from(bytes);
};

const show = (bytes, encoding) => (encoding === undefined || encoding === 'buffer' ? bytes : bytes.toString(encoding));

/** What an object was fed. */
class Pieces {
  #pieces = [];
  length = 0;

  add(value, encoding) {
    const piece = toBytes(value, 'data', encoding);
    this.#pieces.push(piece);
    this.length += piece.length;
  }

  all() {
    if (this.#pieces.length !== 1) this.#pieces = [Buffer.concat(this.#pieces)];
    return this.#pieces[0];
  }
}

class Digest extends StreamLike {
  #create;
  #pieces = new Pieces();
  #isFinal = false;

  /** `isFine`: the host need not be asked whether this can be made. */
  constructor(create, isFine) {
    super();
    checkString(create[1], 'algorithm');
    if (!isFine) run(create);
    this.#create = create;
  }

  #check() {
    if (this.#isFinal) throw nodeError(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
  }

  update(data, encoding) {
    this.#check();
    this.#pieces.add(data, encoding);
    return this;
  }

  digest(encoding) {
    if (this.#isFinal && this.#create[0] === 'createHmac') return show(Buffer.alloc(0), encoding);
    this.#check();
    this.#isFinal = true;
    return show(run(this.#create, ['update', this.#pieces.all()], ['digest']).at(-1), encoding);
  }

  /** For `Hash.copy` alone. */
  static copy(digest, Class, options) {
    digest.#check();
    const [, algorithm, given] = digest.#create;
    return new Class(algorithm, options ?? given).update(digest.#pieces.all());
  }
}

const { copy } = Digest;
delete Digest.copy;

class Hash extends Digest {
  constructor(algorithm, options) {
    super(['createHash', algorithm, options], COMMON_HASHES.has(algorithm) && options === undefined);
  }

  copy(options) {
    return copy(this, Hash, options);
  }
}

class Hmac extends Digest {
  constructor(algorithm, key, options) {
    const bytes = typeof key === 'string' ? toBytes(key, 'key', options?.encoding) : key;
    super(['createHmac', algorithm, bytes], COMMON_HASHES.has(algorithm) && ArrayBuffer.isView(bytes));
  }
}

const invalidState = (method) => nodeError(Error, 'ERR_CRYPTO_INVALID_STATE', `Invalid state for operation ${method}`);

class Cipher extends StreamLike {
  #create;
  #settings = [];
  #pieces = new Pieces();
  #given = 0;
  #isFinal = false;
  #tag;

  constructor(...create) {
    super();
    checkString(create[1], 'cipher');
    run(create);
    this.#create = create;
  }

  #set(...step) {
    if (this.#isFinal) throw invalidState(step[0]);
    run(this.#create, step);
    this.#settings.push(step);
    return this;
  }

  #fresh(output, encoding) {
    const fresh = output.subarray(this.#given);
    this.#given = output.length;
    return show(fresh, encoding);
  }

  update(data, inputEncoding, outputEncoding) {
    if (this.#isFinal) throw new Error('Trying to add data in unsupported state');
    this.#pieces.add(data, inputEncoding);
    if (this.#pieces.length > EAGER_BYTES_MAX) return show(Buffer.alloc(0), outputEncoding);
    const output = run(this.#create, ...this.#settings, ['update', this.#pieces.all()]).at(-1);
    return this.#fresh(output, outputEncoding);
  }

  final(outputEncoding) {
    if (this.#isFinal) throw invalidState('final');
    this.#isFinal = true;
    const hasTag = this instanceof Cipheriv && AUTHENTICATED.test(this.#create[1]);
    const steps = [['update', this.#pieces.all()], ['final'], ...(hasTag ? [['getAuthTag']] : [])];
    const [output, last, tag] = run(this.#create, ...this.#settings, ...steps).slice(1 + this.#settings.length);
    this.#tag = tag;
    return this.#fresh(Buffer.concat([output, last]), outputEncoding);
  }

  setAutoPadding(isOn = true) {
    return this.#set('setAutoPadding', !!isOn);
  }

  setAAD(data, options) {
    return this.#set('setAAD', toBytes(data, 'aadbuf', options?.encoding), options);
  }

  setAuthTag(tag, encoding) {
    return this.#set('setAuthTag', toBytes(tag, 'buffer', encoding));
  }

  getAuthTag() {
    if (this.#tag === undefined) throw invalidState('getAuthTag');
    return Buffer.from(this.#tag);
  }
}

class Cipheriv extends Cipher {
  constructor(...args) {
    super('createCipheriv', ...args);
  }
}

class Decipheriv extends Cipher {
  constructor(...args) {
    super('createDecipheriv', ...args);
  }
}

/** A signature is made or checked of all data at once, by the functions `sign` and `verify`. */
class Signing extends StreamLike {
  #algorithm;
  #pieces = new Pieces();

  constructor(algorithm) {
    super();
    checkString(algorithm, 'algorithm');
    run(['createHash', algorithm]);
    this.#algorithm = algorithm;
  }

  update(data, encoding) {
    this.#pieces.add(data, encoding);
    return this;
  }

  sign(key, encoding) {
    return show(call('sign', this.#algorithm, this.#pieces.all(), key), encoding);
  }

  verify(key, signature, encoding) {
    return call('verify', this.#algorithm, this.#pieces.all(), key, toBytes(signature, 'signature', encoding));
  }
}

class Sign extends Signing {}
class Verify extends Signing {}

class ECDH {
  #curve;
  #privateKey;

  constructor(curve) {
    checkString(curve, 'curve');
    this.#curve = curve;
  }

  #ask(...steps) {
    if (this.#privateKey === undefined)
      throw nodeError(Error, 'ERR_CRYPTO_ECDH_INVALID_KEY', 'Failed to get ECDH private key');
    return run(['createECDH', this.#curve], ['setPrivateKey', this.#privateKey], ...steps).at(-1);
  }

  generateKeys(encoding, format) {
    this.#privateKey = run(['createECDH', this.#curve], ['generateKeys'], ['getPrivateKey']).at(-1);
    return this.getPublicKey(encoding, format);
  }

  setPrivateKey(key, encoding) {
    const bytes = toBytes(key, 'key', encoding);
    run(['createECDH', this.#curve], ['setPrivateKey', bytes]);
    this.#privateKey = bytes;
  }

  getPrivateKey(encoding) {
    return show(this.#ask(['getPrivateKey']), encoding);
  }

  getPublicKey(encoding, format) {
    return show(this.#ask(['getPublicKey', undefined, format]), encoding);
  }

  computeSecret(other, inputEncoding, outputEncoding) {
    return show(this.#ask(['computeSecret', toBytes(other, 'otherPublicKey', inputEncoding)]), outputEncoding);
  }

  static convertKey(key, curve, inputEncoding, outputEncoding, format) {
    const bytes = toBytes(key, 'key', inputEncoding);
    return show(call('convertECDHKey', bytes, curve, undefined, undefined, format), outputEncoding);
  }
}

module.exports = { Cipheriv, Decipheriv, ECDH, Hash, Hmac, Sign, Verify, toBytes };
