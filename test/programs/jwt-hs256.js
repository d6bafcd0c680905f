// Makes and checks a JSON Web Token with a shared secret.
// request: {"args":{"secret":"correct horse battery staple","claims":{"sub":"1234567890","name":"Jöhn Doe","iat":1516239022}}}
const crypto = require('crypto');
const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

const sign = (claims, secret, alg = 'HS256') => {
  const head = `${part({ alg, typ: 'JWT' })}.${part(claims)}`;
  return `${head}.${crypto
    .createHmac(`sha${alg.slice(2)}`, secret)
    .update(head)
    .digest('base64url')}`;
};

const verify = (token, secret) => {
  const [header, payload, signature] = token.split('.');
  const { alg } = JSON.parse(Buffer.from(header, 'base64url').toString('utf8'));
  const expected = crypto
    .createHmac(`sha${alg.slice(2)}`, secret)
    .update(`${header}.${payload}`)
    .digest();
  const given = Buffer.from(signature, 'base64url');
  if (given.length !== expected.length || !crypto.timingSafeEqual(given, expected)) throw new Error('bad signature');
  return JSON.parse(Buffer.from(payload, 'base64url'));
};

module.exports = async ({ args: { secret, claims } }) => {
  const tokens = ['HS256', 'HS384', 'HS512'].map((alg) => sign(claims, secret, alg));
  let failure;
  try {
    verify(tokens[0], secret + '!');
  } catch (error) {
    failure = error.message;
  }
  return { raw: { tokens, claims: tokens.map((token) => verify(token, secret)), failure } };
};
