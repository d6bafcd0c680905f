// Node's crypto, put together from its parts. Whatever is computed, the host computes.
'use strict';

const host = require('./host.cjs');
const { BYTES, base64Of, toBytes } = require('./crypto-input.cjs');
const { fromBase64 } = require('./bytes.cjs');
const { checkFunction, checkString, invalidArgType, nodeError, outOfRange } = require('./errors.cjs');
const { nextTick } = require('./ticks.cjs');
const hashes = require('./crypto-hash.cjs');
const random = require('./crypto-random.cjs');

const ciphers = () => require('./crypto-cipher.cjs');
const signatures = () => require('./crypto-sign.cjs');
const keys = () => require('./crypto-keys.cjs');

const checkInteger = (value, name, min, max = 2 ** 31 - 1) => {
  if (typeof value !== 'number') throw invalidArgType(name, 'of type number', value);
  if (!Number.isInteger(value)) throw outOfRange(name, 'an integer', value);
  if (value < min || value > max) throw outOfRange(name, `>= ${min} && <= ${max}`, value);
};

const withCallback = (sync, callback, args) => {
  checkFunction(callback);
  let error = null;
  let key;
  try {
    key = sync(...args);
  } catch (thrown) {
    if (/^ERR_(INVALID_ARG_TYPE|OUT_OF_RANGE|CRYPTO_INVALID_DIGEST)$/.test(thrown?.code)) throw thrown;
    error = thrown;
  }
  nextTick(callback, error === null ? [null, key] : [error]);
};

const secretOf = (key, name) => {
  const { KeyObject, secretBase64 } = keys();
  return key instanceof KeyObject ? secretBase64(key) : base64Of(key, name, undefined, BYTES);
};

const pbkdf2Sync = (password, salt, iterations, keylen, digest) => {
  checkString(digest, 'digest');
  const input = {
    password: base64Of(password, 'password', undefined, BYTES),
    salt: base64Of(salt, 'salt', undefined, BYTES),
  };
  checkInteger(iterations, 'iterations', 1);
  checkInteger(keylen, 'keylen', 0);
  return fromBase64(host.crypto('pbkdf2', { ...input, iterations, length: keylen, digest }));
};

const scryptSync = (password, salt, keylen, options = {}) => {
  const input = {
    password: base64Of(password, 'password', undefined, BYTES),
    salt: base64Of(salt, 'salt', undefined, BYTES),
  };
  checkInteger(keylen, 'keylen', 0);
  const { N = options.cost, r = options.blockSize, p = options.parallelization, maxmem } = options;
  return fromBase64(
    host.crypto('scrypt', { ...input, length: keylen, cost: N, block_size: r, parallelization: p, maxmem }),
  );
};

const hkdfSync = (digest, key, salt, info, keylen) => {
  checkString(digest, 'digest');
  const input = { key: secretOf(key, 'ikm'), salt: base64Of(salt, 'salt'), info: base64Of(info, 'info') };
  checkInteger(keylen, 'length', 0);
  const bytes = fromBase64(host.crypto('hkdf', { ...input, length: keylen, digest }));
  return new Uint8Array(bytes).buffer;
};

const timingSafeEqual = (a, b) => {
  for (const [name, value] of [
    ['buf1', a],
    ['buf2', b],
  ]) {
    if (!ArrayBuffer.isView(value) && !(value instanceof ArrayBuffer))
      throw invalidArgType(name, 'an instance of ArrayBuffer, Buffer, TypedArray, or DataView', value);
  }
  const left = toBytes(a, 'buf1');
  const right = toBytes(b, 'buf2');
  if (left.length !== right.length)
    throw nodeError(RangeError, 'ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH', 'Input buffers must have the same byte length');
  let difference = 0;
  for (let i = 0; i < left.length; i++) difference |= left[i] ^ right[i];
  return difference === 0;
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

const crypto = {
  constants,
  ...random,
  Hash: hashes.Hash,
  Hmac: hashes.Hmac,
  createHash: (algorithm, options) => new hashes.Hash(algorithm, options),
  createHmac: (algorithm, key, options) => new hashes.Hmac(algorithm, key, options),
  createCipheriv: (...args) => new (ciphers().Cipheriv)(...args),
  createDecipheriv: (...args) => new (ciphers().Decipheriv)(...args),
  createSign: (algorithm) => new (signatures().Sign)(algorithm),
  createVerify: (algorithm) => new (signatures().Verify)(algorithm),
  createECDH: (curve) => new (signatures().ECDH)(curve),
  pbkdf2Sync,
  pbkdf2: (password, salt, iterations, keylen, digest, callback) =>
    withCallback(pbkdf2Sync, callback, [password, salt, iterations, keylen, digest]),
  scryptSync,
  scrypt: (password, salt, keylen, ...rest) =>
    withCallback(scryptSync, rest.at(-1), [password, salt, keylen, rest.length > 1 ? rest[0] : {}]),
  hkdfSync,
  hkdf: (digest, key, salt, info, keylen, callback) =>
    withCallback(hkdfSync, callback, [digest, key, salt, info, keylen]),
  timingSafeEqual,
  getHashes: () => host.crypto('hashes', {}),
  getCiphers: () => host.crypto('ciphers', {}),
  getCurves: () => host.crypto('curves', {}),
  getRandomValues: (array) => require('./web-crypto.cjs').crypto.getRandomValues(array),
  get webcrypto() {
    return require('./web-crypto.cjs').crypto;
  },
};

for (const name of [
  'sign',
  'verify',
  'publicEncrypt',
  'publicDecrypt',
  'privateEncrypt',
  'privateDecrypt',
  'diffieHellman',
])
  crypto[name] = (...args) => signatures()[name](...args);

for (const name of ['createPrivateKey', 'createPublicKey', 'createSecretKey', 'generateKeyPairSync', 'generateKeySync'])
  crypto[name] = (...args) => keys()[name](...args);

for (const [name, load] of [
  ['KeyObject', keys],
  ['ECDH', signatures],
  ['generateKeyPair', keys],
  ['Sign', signatures],
  ['Verify', signatures],
])
  Object.defineProperty(crypto, name, { get: () => load()[name], enumerable: true, configurable: true });

module.exports = crypto;
