// Node's crypto: functions that the host carries out, and objects that gather input for it.
'use strict';

const { Buffer } = require('./buffer.cjs');
const { KeyObject, call, createSecretKey } = require('./crypto-bridge.cjs');
const { Cipheriv, Decipheriv, ECDH, Hash, Hmac, Sign, Verify, toBytes } = require('./crypto-objects.cjs');
const { checkFunction } = require('./errors.cjs');
const { nextTick } = require('./ticks.cjs');

const direct =
  (name) =>
  (...args) =>
    call(name, ...args);

const ARGUMENT_FAULT = /^ERR_(INVALID_ARG_TYPE|OUT_OF_RANGE|CRYPTO_INVALID_DIGEST)$/;

/** Wrong arguments throw at once, what fails later goes to the callback, as in Node. */
const withCallback =
  (work, toArguments = (value) => [value]) =>
  (...args) => {
    const callback = args.pop();
    checkFunction(callback);
    let answer;
    try {
      answer = [null, ...toArguments(work(...args))];
    } catch (error) {
      if (ARGUMENT_FAULT.test(error?.code)) throw error;
      answer = [error];
    }
    nextTick(callback, answer);
  };

const orCallback =
  (work) =>
  (...args) =>
    (typeof args.at(-1) === 'function' ? withCallback(work) : work)(...args);

const pbkdf2Sync = direct('pbkdf2');
const scryptSync = (password, salt, keylen, options) => call('scrypt', password, salt, keylen, options);
const hkdfSync = (...args) => new Uint8Array(call('hkdfSync', ...args)).buffer;

const randomBytes = direct('randomBytes');

const randomFillSync = (target, offset = 0, size = undefined) => {
  const view = Buffer.from(target.buffer ?? target, target.byteOffset ?? 0, target.byteLength);
  randomBytes(size ?? view.length - offset).copy(view, offset);
  return target;
};

const generateKeyPairSync = (type, options = {}) => {
  const { publicKeyEncoding, privateKeyEncoding } = options;
  const { publicKey, privateKey } = call('generateKeyPair', type, options);
  return {
    publicKey: publicKeyEncoding === undefined ? publicKey : publicKey.export(publicKeyEncoding),
    privateKey: privateKeyEncoding === undefined ? privateKey : privateKey.export(privateKeyEncoding),
  };
};

const generateKeyPair = withCallback(generateKeyPairSync, ({ publicKey, privateKey }) => [publicKey, privateKey]);

Object.defineProperty(generateKeyPair, Symbol.for('nodejs.util.promisify.custom'), {
  value: async (type, options) => generateKeyPairSync(type, options),
});

const generateKeySync = (type, { length }) => {
  if (type !== 'hmac' && type !== 'aes') throw new TypeError(`The key type '${type}' is not supported`);
  return createSecretKey(randomBytes(Math.floor(length / 8)));
};

const constants = {
  RSA_PKCS1_PADDING: 1,
  RSA_NO_PADDING: 3,
  RSA_PKCS1_OAEP_PADDING: 4,
  RSA_X931_PADDING: 5,
  RSA_PKCS1_PSS_PADDING: 6,
  RSA_PSS_SALTLEN_DIGEST: -1,
  RSA_PSS_SALTLEN_MAX_SIGN: -2,
  RSA_PSS_SALTLEN_AUTO: -2,
  POINT_CONVERSION_COMPRESSED: 2,
  POINT_CONVERSION_UNCOMPRESSED: 4,
  POINT_CONVERSION_HYBRID: 6,
};

module.exports = {
  constants,
  KeyObject,
  Hash,
  Hmac,
  Sign,
  Verify,
  ECDH,
  createHash: (algorithm, options) => new Hash(algorithm, options),
  createHmac: (algorithm, key, options) => new Hmac(algorithm, key, options),
  createCipheriv: (...args) => new Cipheriv(...args),
  createDecipheriv: (...args) => new Decipheriv(...args),
  createSign: (algorithm) => new Sign(algorithm),
  createVerify: (algorithm) => new Verify(algorithm),
  createECDH: (curve) => new ECDH(curve),
  createSecretKey: (key, encoding) => createSecretKey(toBytes(key, 'key', encoding)),
  createPrivateKey: direct('createPrivateKey'),
  createPublicKey: direct('createPublicKey'),
  generateKeySync,
  generateKeyPairSync,
  generateKeyPair,
  sign: orCallback(direct('sign')),
  verify: orCallback(direct('verify')),
  publicEncrypt: direct('publicEncrypt'),
  publicDecrypt: direct('publicDecrypt'),
  privateEncrypt: direct('privateEncrypt'),
  privateDecrypt: direct('privateDecrypt'),
  diffieHellman: direct('diffieHellman'),
  pbkdf2Sync,
  pbkdf2: withCallback(pbkdf2Sync),
  scryptSync,
  scrypt: withCallback(scryptSync),
  hkdfSync,
  hkdf: withCallback(hkdfSync),
  randomBytes: orCallback(randomBytes),
  randomFillSync,
  randomFill: withCallback(randomFillSync),
  randomInt: orCallback(direct('randomInt')),
  randomUUID: () => call('randomUUID'),
  timingSafeEqual: direct('timingSafeEqual'),
  getHashes: direct('getHashes'),
  getCiphers: direct('getCiphers'),
  getCurves: direct('getCurves'),
  getRandomValues: (array) => require('./crypto-bridge.cjs').crypto.getRandomValues(array),
  get webcrypto() {
    return require('./crypto-bridge.cjs').crypto;
  },
};
