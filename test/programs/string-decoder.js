// Puts characters together that arrive in pieces.
// request: {"args":{"text":"Zoë €uro 🙂"}}
const { StringDecoder } = require('string_decoder');

module.exports = ({ args: { text } }) => {
  const run = (encoding, bytes, size) => {
    const decoder = new StringDecoder(encoding);
    const parts = [];
    for (let at = 0; at < bytes.length; at += size) parts.push(decoder.write(bytes.subarray(at, at + size)));
    parts.push(decoder.end());
    return parts;
  };
  const utf8 = Buffer.from(text);
  return {
    raw: {
      ones: run('utf8', utf8, 1),
      threes: run('utf8', utf8, 3),
      utf16: run('utf16le', Buffer.from(text, 'utf16le'), 2),
      base64: run('base64', utf8, 4),
      hex: run('hex', utf8, 5),
      cut: run('utf8', utf8.subarray(0, utf8.length - 1), 2),
    },
  };
};
