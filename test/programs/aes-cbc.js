// Encrypts with AES-CBC, with and without padding, and triple DES for an old gateway.
// request: {"args":{"key":"603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4","iv":"000102030405060708090a0b0c0d0e0f","text":"attack at dawn, and again at dusk"}}
const crypto = require('crypto');

module.exports = ({ args: { key, iv, text } }) => {
  const bytes = (hex) => Buffer.from(hex, 'hex');
  const encrypt = (name, k, v, data, pad = true) => {
    const cipher = crypto.createCipheriv(name, k, v);
    cipher.setAutoPadding(pad);
    return Buffer.concat([cipher.update(data), cipher.final()]);
  };
  const decrypt = (name, k, v, data) => {
    const decipher = crypto.createDecipheriv(name, k, v);
    return decipher.update(data, undefined, 'utf8') + decipher.final('utf8');
  };
  const one = encrypt('aes-256-cbc', bytes(key), bytes(iv), text);
  const errors = [];
  const tries = [
    () => decrypt('aes-256-cbc', bytes(key), bytes(iv), one.subarray(0, 20)),
    () => encrypt('aes-256-cbc', bytes(key), bytes(iv), 'short', false),
    () => encrypt('aes-256-cbc', bytes(key).subarray(1), bytes(iv), text),
    () => encrypt('aes-256-cbc', bytes(key), bytes(iv).subarray(1), text),
    () => encrypt('rot13', bytes(key), bytes(iv), text),
  ];
  for (const each of tries) {
    try {
      each();
      errors.push(null);
    } catch (error) {
      errors.push([error.name, error.code, error instanceof Error]);
    }
  }
  return {
    raw: {
      cbc: one.toString('base64'),
      back: decrypt('aes-256-cbc', bytes(key), bytes(iv), one),
      ctr: encrypt('aes-128-ctr', bytes(key).subarray(0, 16), bytes(iv), text).toString('hex'),
      ecb: encrypt('aes-128-ecb', bytes(key).subarray(0, 16), null, text).toString('hex'),
      des3: encrypt('des-ede3-cbc', bytes(key).subarray(0, 24), bytes(iv).subarray(0, 8), text).toString('hex'),
      noPadding: encrypt('aes-256-cbc', bytes(key), bytes(iv), Buffer.alloc(32, 7), false).length,
      errors,
    },
  };
};
