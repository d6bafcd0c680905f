// Checks the signature of a webhook in constant time, as payment providers sign them.
// request: {"args":{"secret":"whsec_test_0123456789","body":"{\"id\":\"evt_1\",\"amount\":1250,\"note\":\"Grüße\"}","at":1763719200}}
const crypto = require('crypto');

const sign = (secret, at, body) => crypto.createHmac('sha256', secret).update(`${at}.${body}`, 'utf8').digest('hex');

function verify(header, secret, body, now) {
  const parts = Object.fromEntries(header.split(',').map((part) => part.split('=')));
  if (Math.abs(now - Number(parts.t)) > 300) return 'too old';
  const expected = Buffer.from(sign(secret, parts.t, body));
  const given = Buffer.from(parts.v1 || '');
  if (expected.length !== given.length) return 'wrong length';
  return crypto.timingSafeEqual(expected, given) ? 'ok' : 'wrong';
}

module.exports = ({ args: { secret, body, at } }) => {
  const header = `t=${at},v1=${sign(secret, at, body)}`;
  return {
    raw: {
      header,
      base64: crypto.createHmac('sha512', Buffer.from(secret)).update(body).digest('base64'),
      good: verify(header, secret, body, at + 10),
      old: verify(header, secret, body, at + 1000),
      forged: verify(header.slice(0, -1) + (header.endsWith('0') ? '1' : '0'), secret, body, at),
      short: verify(`t=${at},v1=ab`, secret, body, at),
    },
  };
};
