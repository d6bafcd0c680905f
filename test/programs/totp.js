// A one-time code for a given moment, from a base32 secret.
// request: {"args":{"secret":"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ","times":[59,1111111109,1234567890,20000000000]}}
const crypto = require('crypto');
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

const base32 = (text) => {
  let bits = '';
  for (const char of text) bits += ALPHABET.indexOf(char).toString(2).padStart(5, '0');
  return Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
};

module.exports = ({ args: { secret, times } }) => ({
  raw: times.map((time) => {
    const counter = Buffer.alloc(8);
    counter.writeBigUInt64BE(BigInt(Math.floor(time / 30)));
    const mac = crypto.createHmac('sha1', base32(secret)).update(counter).digest();
    const at = mac[mac.length - 1] & 15;
    return String((mac.readUInt32BE(at) & 0x7fffffff) % 1e8).padStart(8, '0');
  }),
});
