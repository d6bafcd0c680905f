// Hashes texts and bytes in every way that authors do.
// request: {"args":{"text":"The quick brown fox jumps over the lazy dog – ünïcödé 🙂"}}
const crypto = require('crypto');

module.exports = ({ args: { text } }) => {
  const names = ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512', 'sha3-256', 'ripemd160', 'RSA-SHA256'];
  const all = Object.fromEntries(names.map((name) => [name, crypto.createHash(name).update(text).digest('hex')]));
  const pieces = crypto.createHash('sha256');
  for (const char of text) pieces.update(char);
  const copy = pieces.copy();
  const xof = crypto.createHash('shake256', { outputLength: 24 }).update(text).digest('base64url');
  const done = pieces.digest();
  let again;
  try {
    pieces.digest();
  } catch (error) {
    again = [error.code, error.message];
  }
  let unknown;
  try {
    crypto.createHash('sha999');
  } catch (error) {
    unknown = error.message;
  }
  return {
    raw: {
      all,
      same: done.toString('hex') === all.sha256,
      copy: copy.update('!').digest('latin1').length,
      bytes: crypto
        .createHash('md5')
        .update(new Uint8Array([1, 2, 3]))
        .update('00ff', 'hex')
        .digest('base64'),
      xof,
      again,
      unknown,
    },
  };
};
