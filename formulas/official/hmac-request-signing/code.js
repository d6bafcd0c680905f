// Signs a request. The secret stays here, and so does the body's digest: of a short body it could be guessed.
const crypto = require('crypto');
const { BadRequestError } = require('@svc/reactor-formulas-sdk');

const textOf = (body) => {
  if (body === undefined || body === null) return '';
  return typeof body === 'string' ? body : JSON.stringify(body);
};

module.exports = async ({ args, configuration }) => {
  const { method, path, body } = args;
  const timestamp = args.timestamp ?? Math.floor(Date.now() / 1000);
  if (!/^[A-Za-z]+$/.test(method)) throw new BadRequestError({ method: ['must be the name of a method'] });
  if (!/^\/[!-~]*$/.test(path)) throw new BadRequestError({ path: ['must be a path that begins with /'] });
  const digest = crypto.createHash('sha256').update(textOf(body), 'utf8').digest('hex');
  const signed = [timestamp, method.toUpperCase(), path, digest].join('\n');
  const signature = crypto.createHmac('sha256', configuration.SECRET).update(signed, 'utf8').digest('hex');
  return {
    raw: {
      headers: {
        'X-Key-Id': configuration.KEY_ID,
        'X-Timestamp': String(timestamp),
        'X-Signature': `v1=${signature}`,
      },
    },
  };
};
