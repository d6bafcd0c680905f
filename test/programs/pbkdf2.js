// Derives keys from a password by PBKDF2, at once and with a callback.
// request: {"args":{"password":"pässword","salt":"NaCl","iterations":1000}}
const { pbkdf2Sync, pbkdf2 } = require('crypto');
const { promisify } = require('util');

module.exports = async ({ args: { password, salt, iterations } }) => {
  const later = await promisify(pbkdf2)(password, salt, iterations, 20, 'sha1');
  let refused;
  try {
    pbkdf2Sync(password, salt, iterations, 32, 'sha0');
  } catch (error) {
    refused = [error.name, error.code, error.message];
  }
  return {
    raw: {
      sha256: pbkdf2Sync(password, salt, iterations, 32, 'sha256').toString('hex'),
      sha512: pbkdf2Sync(Buffer.from(password), Buffer.from(salt), iterations, 64, 'sha512').toString('base64'),
      later: later.toString('hex'),
      refused,
    },
  };
};
