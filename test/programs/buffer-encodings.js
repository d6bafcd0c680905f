// Turns bytes into texts and back, in each encoding of Buffer.
// request: {"args":{"text":"Zoë 🙂 \u0000 ÿ","broken":"4142c3284344"}}
module.exports = ({ args: { text, broken } }) => {
  const bytes = Buffer.from(text);
  const encodings = ['utf8', 'hex', 'base64', 'base64url', 'latin1', 'ascii', 'utf16le', 'binary', 'ucs2'];
  const out = {};
  for (const encoding of encodings) {
    const shown = bytes.toString(encoding);
    out[encoding] = [shown, Buffer.from(shown, encoding).toString('hex'), Buffer.byteLength(shown, encoding)];
  }
  return {
    raw: {
      out,
      broken: Buffer.from(broken, 'hex').toString(),
      url: Buffer.from([251, 255, 254]).toString('base64url'),
      loose: [
        Buffer.from('-_8', 'base64').toString('hex'),
        Buffer.from('+/8=', 'base64url').toString('hex'),
        Buffer.from(' YQ = =', 'base64').toString(),
      ],
      hex: [
        Buffer.from('abc', 'hex').length,
        Buffer.from('zz', 'hex').length,
        Buffer.from('12zz34', 'hex').toString('hex'),
      ],
      known: ['base64url', 'UTF-8', 'utf-16le', 'hex', 'utf7', ''].map((name) => Buffer.isEncoding(name)),
      json: Buffer.from('hi'),
      slice: bytes.toString('utf8', 0, 4),
    },
  };
};
