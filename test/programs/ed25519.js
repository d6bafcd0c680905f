// Signs with Ed25519, checks ECDSA, and agrees on a secret.
// request: {"args":{"message":"pay 12.50 EUR to Zoë"}}
const crypto = require('crypto');

const SEED = Buffer.from('302e020100300506032b657004220420', 'hex');

module.exports = ({ args: { message } }) => {
  const data = Buffer.from(message);
  const key = crypto.createPrivateKey({
    key: Buffer.concat([SEED, Buffer.alloc(32, 7)]),
    format: 'der',
    type: 'pkcs8',
  });
  const publicKey = crypto.createPublicKey(key);
  const signature = crypto.sign(null, data, key);
  const pair = crypto.generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const der = crypto.sign('sha256', data, pair.privateKey);
  const flat = crypto.sign('sha256', data, { key: pair.privateKey, dsaEncoding: 'ieee-p1363' });
  const alice = crypto.createECDH('secp256k1');
  const bob = crypto.createECDH('secp256k1');
  alice.setPrivateKey(Buffer.alloc(32, 1));
  bob.setPrivateKey(Buffer.alloc(32, 2));
  return {
    raw: {
      signature: signature.toString('hex'),
      valid: crypto.verify(null, data, publicKey, signature),
      other: crypto.verify(null, Buffer.from('x'), publicKey, signature),
      jwk: publicKey.export({ format: 'jwk' }),
      ecdsa: [crypto.verify('sha256', data, pair.publicKey, der), flat.length],
      kinds: [key.asymmetricKeyType, pair.publicKey.asymmetricKeyType, pair.privateKey.asymmetricKeyDetails],
      shared: alice.computeSecret(bob.getPublicKey(), null, 'hex'),
      same: alice.computeSecret(bob.getPublicKey()).equals(bob.computeSecret(alice.getPublicKey())),
      compressed: alice.getPublicKey('hex', 'compressed'),
    },
  };
};
