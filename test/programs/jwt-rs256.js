// Signs a JSON Web Token with an RSA key and checks it with the public one.
// request: {"args":{"key":"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC9qkDQb+be3v38\nxAZySwBs0vRHEBO1jRHyX44U+LBASIePuAX8SZ/tCAiP/WqRwjmfpLafCOmmzPkm\nn1EvZMqbRENxrJK1ebvsLnVRKD80nlgD0XnGvu9hEnox/UgKT0PUpNTXcB45bnnN\nSqLYSCOmeT5QIc5MhZOYWnBy/GHpuEXf1PB10cEN5BNyPxjxPsbqB+Bkvz8zOWDN\n5xbQ2HQQum6L+nrOmARSHYVHldstqRQFIbDrW+lzAyH9a5pvQHQMUxKWPZu6fvtn\ngBRyjPOtJETATtpLuDs+TQLBvPwwz/HYGp+Sd5mbVNbA45XzxnZyDg/9vwL/ERkU\nCiyLboN9AgMBAAECggEACPlOvW37VE05uDrFe/qSJ76oIdqgDBrYyrPRuFVMmuYI\n9U2wNCUppMtDWHNq65WZ019gPVBsebYWDclDoUSZaipF2fw1KX1RMmtqT++MZLQf\nQaL+KjSrhSzHd6kJE7p3YPl25ptJRXoK16Hx6DOAQvwBQkUEiqNWqJfoMntAM2Yt\n26b9wq1ymmWUG8AXm+96SpwmFWUqMb62XmUy3Tt8qYFW7wBtTuIgz84v9PV0zREa\nvSoOsrmglD2SFE7lPxGc8eEZSixSevaohWm0DiYNoNXKCFa+LtexBXTeRTmxet48\ntTZKmotlZ5B6lFzRNfJ+hY2Xoy3yW6RZGyiJYedTwQKBgQDxhpLkIj4tL2+c38dB\nkQ3OMsG8v59XpXMZz0tD/tzDluU99dnnEynkJ38EeOeemjxQK9ntpRaVoekeXX+1\nAzNqwCslqIyWJb2Eo58uDdgAq9NXmZ/AQPX8m3+DHT73s0aIZy/+IHfg6T0nu3E7\nUAOOh3YsU8jpUnGnc/1bWL7O4QKBgQDJCAvzuVAFiYrWCZ/r2RPEteqtD1fUma80\n5EDSmxSP2ioiO/+qbIJySkRCRWEbBxjYvcqaDfPtW+I/Pe0583xkjX9TwpY0hP1H\nXueeCwoV3ictLao6njfxZ3BFeO6RrIy1O+L0Q9XCKmdQLLm7ygYnADpcxLsYbblK\nq7vrmBeUHQKBgQCIsGK9neuWYvxFyhfYsaEgi3U9vy0My2QCvWCZUMncH7AJivQR\nZLUWnIu0GkDrb9qmfMrPRdksQf/O4Zd++BrHVY6Vt3gpGZ7STE+wHsGaT6RCNX1F\nrv4IQnC94XVbdih61ftBVVrC/P1RWTHSIYyBw4RLvfc8pR4RaQGACw+hwQKBgE3a\n3O4d9Zy/YNJ11cZ8QoirP2CYkZZXkqA0SdqGjtcLUcgCXoh9D6P9mSPlRK8392px\nTlaNUsu5Cw0dCZOo9aLnncktkghy/Lg4TBFMCzLe32NCzSt4fQfz3Go7ZIFsRu4l\nbEbXQqC41Vwahi/xFKLkFrY4xpC2Zc1CZzvdojwNAoGAWB8eqpRrB1jczRQicxeV\nYo3IRaCiadvEsskdzvuGs2cpFUmNILhdbjbCbvoVQM6Ht6iTjWhal7vygdaAoSQ1\nrD7teNO6GmjAaeqaGfCml7aDGJ7hypUMh2CHaddcG0qayoCcFStwQHeTilhSYJWp\ndIhWUPBlCn9QcTI4w4qdRrg=\n-----END PRIVATE KEY-----\n","claims":{"iss":"strongroom","aud":["a","b"],"exp":2000000000}}}
const { createSign, createVerify, createPublicKey, createPrivateKey } = require('crypto');
const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

module.exports = ({ args: { key, claims } }) => {
  const head = `${part({ alg: 'RS256', typ: 'JWT', kid: 'k1' })}.${part(claims)}`;
  const signer = createSign('RSA-SHA256');
  signer.update(head.slice(0, 10));
  signer.update(head.slice(10));
  signer.end();
  const signature = signer.sign(key);
  const publicKey = createPublicKey(key);
  const check = (text) => createVerify('RSA-SHA256').update(text).verify(publicKey, signature);
  const jwk = publicKey.export({ format: 'jwk' });
  return {
    raw: {
      token: `${head}.${signature.toString('base64url')}`,
      valid: check(head),
      changed: check(head + 'x'),
      pem: publicKey.export({ type: 'spki', format: 'pem' }),
      jwk,
      kind: [publicKey.type, publicKey.asymmetricKeyType, createPrivateKey(key).type],
      bits: publicKey.asymmetricKeyDetails.modulusLength,
      exponent: String(publicKey.asymmetricKeyDetails.publicExponent),
      fromJwk: createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'pkcs1', format: 'pem' }).split('\n')[0],
    },
  };
};
