// Sends bytes through crypto's streams.
// request: {"args":{"text":"stream me through"}}
const crypto = require('crypto');
const { Readable } = require('stream');
const { pipeline } = require('stream/promises');

module.exports = async ({ args: { text } }) => {
  const hash = crypto.createHash('sha256');
  await pipeline(Readable.from([Buffer.from(text.slice(0, 4)), Buffer.from(text.slice(4))]), hash);
  const cipher = crypto.createCipheriv('aes-128-cbc', Buffer.alloc(16, 1), Buffer.alloc(16, 2));
  const parts = [];
  cipher.on('data', (part) => parts.push(part));
  const done = new Promise((resolve) => cipher.on('end', resolve));
  cipher.write(text);
  cipher.end();
  await done;
  return { raw: { hash: hash.read().toString('hex'), cipher: Buffer.concat(parts).toString('hex') } };
};
