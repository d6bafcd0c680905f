// Posts a card to a payment API, and says in the vault's own errors what became of it. Nothing it returns or throws holds
// the card's number: what the API repeats of it is masked, and of its errors only a code is passed on.
const {
  AuthenticationError,
  BadRequestError,
  InvalidPaymentMethodError,
  RateLimitError,
  ServiceUnavailableError,
} = require('@svc/reactor-formulas-sdk');

const errorFor = (status, code) => {
  if (status === 401 || status === 403) return new AuthenticationError(code);
  if (status === 402) return new InvalidPaymentMethodError(code);
  if (status === 429) return new RateLimitError(code);
  if (status === 408 || status >= 500) return new ServiceUnavailableError(code);
  return new BadRequestError(code);
};

// A word of the API, never a sentence: sentences repeat what they were given.
const codeOf = (answer, status) => {
  const { error } = Object(answer);
  const code = typeof error === 'string' ? error : (Object(error).code ?? Object(answer).code);
  return typeof code === 'string' && /^[A-Za-z][A-Za-z_.-]{0,63}$/.test(code) ? code : `status_${status}`;
};

const parse = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const withoutNumber = (value, number) => {
  const masked = `${'X'.repeat(number.length - 4)}${number.slice(-4)}`;
  return JSON.parse(JSON.stringify(value), (_name, each) =>
    (typeof each === 'string' || typeof each === 'number') && String(each).includes(number)
      ? String(each).split(number).join(masked)
      : each,
  );
};

module.exports = async ({ args, configuration }) => {
  const { card, amount, currency, reference } = args;
  const number = card.number.replace(/[ -]/g, '');
  if (!/^\d{12,19}$/.test(number)) throw new BadRequestError({ 'card.number': ['must be 12 to 19 digits'] });
  const { expiration_month, expiration_year, cvc } = card;
  const headers = {
    Accept: 'application/json',
    Authorization: `Bearer ${configuration.api_key}`,
    'Content-Type': 'application/json',
  };
  if (reference !== undefined && reference !== null) headers['Idempotency-Key'] = reference;
  let response;
  let text;
  try {
    response = await fetch(configuration.url, {
      method: 'POST',
      headers,
      body: JSON.stringify({ card: { number, expiration_month, expiration_year, cvc }, amount, currency, reference }),
      redirect: 'error',
    });
    text = await response.text();
  } catch {
    throw new ServiceUnavailableError('the payment API cannot be reached');
  }
  const answer = parse(text);
  if (!response.ok) throw errorFor(response.status, codeOf(answer, response.status));
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer))
    throw new ServiceUnavailableError('the payment API answered something else than a JSON object');
  const { network_token, ...rest } = answer;
  const result = { raw: withoutNumber(rest, number) };
  if (network_token) result.tokenize = { network_token: { type: 'token', data: network_token } };
  return result;
};
