// Makes an ISO 9564 PIN block and encrypts it with triple DES.
// request: {"args":{"pin":"1234","pan":"4242424242424242","key":"0123456789ABCDEFFEDCBA98765432100123456789ABCDEF"}}
const crypto = require('crypto');

module.exports = async ({ args: { pin, pan, key } }) => {
  const first = Buffer.from(`0${pin.length.toString(16)}${pin}`.padEnd(16, 'F'), 'hex');
  const second = Buffer.from(pan.slice(-13, -1).padStart(16, '0'), 'hex');
  const block = Buffer.from(first.map((byte, i) => byte ^ second[i]));
  const cipher = crypto.createCipheriv('des-ede3', Buffer.from(key, 'hex'), null).setAutoPadding(false);
  const sealed = Buffer.concat([cipher.update(block), cipher.final()]);
  const kcv = crypto.createCipheriv('des-ede3', Buffer.from(key, 'hex'), '').setAutoPadding(false);
  return {
    raw: {
      block: block.toString('hex'),
      sealed: sealed.toString('hex'),
      kcv: kcv.update(Buffer.alloc(8)).toString('hex').slice(0, 6),
    },
  };
};
