// The request transform of a stored proxy: checks the signature of a webhook in Braintree's form, and stores the card that it has.
const { createHash, createHmac, timingSafeEqual } = require('crypto');
const { XMLParser } = require('fast-xml-parser');
const { AuthenticationError } = require('@svc/reactor-formulas-sdk');

/** `public_key|signature`, for each of the sender's keys, joined by `&`. The key is the SHA-1 of the private key. */
const checkSignature = (signature, payload, { PUBLIC_KEY, PRIVATE_KEY }) => {
  const own = signature.split('&').find((pair) => pair.startsWith(`${PUBLIC_KEY}|`)) ?? '';
  const given = Buffer.from(own.split('|')[1] ?? '', 'hex');
  const key = createHash('sha1').update(PRIVATE_KEY).digest();
  const expected = createHmac('sha1', key).update(payload).digest();
  if (given.length !== expected.length || !timingSafeEqual(given, expected))
    throw new AuthenticationError('The signature is not valid.');
};

module.exports = async ({ args, configuration, svc }) => {
  const form = new URLSearchParams(String(args.body));
  const payload = form.get('bt_payload') ?? '';
  checkSignature(form.get('bt_signature') ?? '', payload, configuration);
  const xml = Buffer.from(payload, 'base64').toString();
  const { notification } = new XMLParser({ parseTagValue: false }).parse(xml);
  const { number, 'expiration-month': month, 'expiration-year': year } = notification.subject['credit-card'];
  const data = { number, expiration_month: Number(month), expiration_year: Number(year) };
  const { id } = await svc.tokens.create({ type: 'card', data });
  return { body: { kind: notification.kind, card: id }, headers: { 'content-type': 'application/json' } };
};
