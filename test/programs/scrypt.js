// Derives keys by scrypt and HKDF.
// request: {"args":{"password":"pleaseletmein","salt":"SodiumChloride"}}
const crypto = require('crypto');

module.exports = async ({ args: { password, salt } }) => {
  const asked = await new Promise((resolve, reject) => {
    crypto.scrypt(password, salt, 16, { N: 1024, r: 8, p: 2 }, (error, key) => (error ? reject(error) : resolve(key)));
  });
  return {
    raw: {
      plain: crypto.scryptSync(password, salt, 32).toString('hex'),
      strong: crypto.scryptSync(password, salt, 64, { N: 2048, r: 8, p: 1 }).toString('hex'),
      asked: asked.toString('hex'),
      hkdf: Buffer.from(crypto.hkdfSync('sha256', password, salt, 'info', 42)).toString('hex'),
      zero: Buffer.from(crypto.hkdfSync('sha512', 'key', '', '', 16)).toString('hex'),
    },
  };
};
