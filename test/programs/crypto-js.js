// Old code with crypto-js: hashes, HMAC and AES.
// request: {"args":{"text":"Zoë pays 12.50","key":"0123456789abcdef0123456789abcdef"}}
const CryptoJS = require('crypto-js');
const sha256 = require('crypto-js/sha256');
const Base64 = require('crypto-js/enc-base64');
const hmacSHA512 = require('crypto-js/hmac-sha512');

module.exports = ({ args: { text, key } }) => {
  const k = CryptoJS.enc.Hex.parse(key);
  const sealed = CryptoJS.AES.encrypt(text, k, { iv: CryptoJS.enc.Hex.parse('00'.repeat(16)) });
  return {
    raw: {
      md5: CryptoJS.MD5(text).toString(),
      sha256: sha256(text).toString(),
      sha3: CryptoJS.SHA3(text, { outputLength: 256 }).toString(CryptoJS.enc.Hex),
      hmac: Base64.stringify(hmacSHA512(text, key)),
      sealed: sealed.toString(),
      opened: CryptoJS.AES.decrypt(sealed.toString(), k, { iv: CryptoJS.enc.Hex.parse('00'.repeat(16)) }).toString(
        CryptoJS.enc.Utf8,
      ),
      ecb: CryptoJS.TripleDES.encrypt('12345678', CryptoJS.enc.Hex.parse(key + key.slice(0, 16)), {
        mode: CryptoJS.mode.ECB,
        padding: CryptoJS.pad.NoPadding,
      }).ciphertext.toString(),
      pbkdf2: CryptoJS.PBKDF2('password', 'salt', { keySize: 4, iterations: 10 }).toString(),
      words: CryptoJS.enc.Utf8.parse('abcd').words,
      passphrase: CryptoJS.AES.decrypt(CryptoJS.AES.encrypt('x', 'secret').toString(), 'secret').toString(
        CryptoJS.enc.Utf8,
      ),
    },
  };
};
