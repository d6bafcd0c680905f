// Encrypts with AES-256-GCM under a fixed nonce, and refuses what was changed.
// request: {"args":{"key":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f","iv":"cafebabefacedbaddecaf888","text":"4242 4242 4242 4242 – Zoë","aad":"tenant-1"}}
const crypto = require('crypto');

const seal = ({ key, iv, text, aad }) => {
  const cipher = crypto.createCipheriv('aes-256-gcm', Buffer.from(key, 'hex'), Buffer.from(iv, 'hex'));
  cipher.setAAD(Buffer.from(aad));
  const body = cipher.update(text, 'utf8', 'hex') + cipher.final('hex');
  return { body, tag: cipher.getAuthTag().toString('hex') };
};

const open = ({ key, iv, aad }, { body, tag }) => {
  const decipher = crypto.createDecipheriv('aes-256-gcm', Buffer.from(key, 'hex'), Buffer.from(iv, 'hex'));
  decipher.setAAD(Buffer.from(aad));
  decipher.setAuthTag(Buffer.from(tag, 'hex'));
  return Buffer.concat([decipher.update(body, 'hex'), decipher.final()]).toString('utf8');
};

module.exports = ({ args }) => {
  const sealed = seal(args);
  const attempt = (change) => {
    try {
      return open(args, { ...sealed, ...change });
    } catch (error) {
      return `${error.name}: ${error.message}`;
    }
  };
  return {
    raw: {
      sealed,
      opened: attempt({}),
      changed: attempt({ tag: '0'.repeat(32) }),
      cut: attempt({ body: sealed.body.slice(2) }),
    },
  };
};
