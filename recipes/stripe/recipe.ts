// A fake of the two calls of Stripe's API, and a run with a card that is paid and one that is declined.
import { Strongroom } from '@strongroom/node';
import type { Answer, Place, Received } from '../run.ts';
import { charge } from './charge.ts';

const methods = new Map<string, string>();
/** Ids of payments, by the idempotency key: one that is repeated is not another payment. */
const payments = new Map<string, string>();

export const answer = ({ url, headers, body }: Received): Answer => {
  const fields = new URLSearchParams(body);
  if (headers.authorization !== 'Bearer sk_test_recipe')
    return { status: 401, json: { error: { type: 'invalid_request_error', code: 'api_key_invalid' } } };
  if (url === '/v1/payment_methods') {
    const number = fields.get('card[number]') ?? '';
    if (!/^\d{15,16}$/.test(number) || fields.get('type') !== 'card')
      return { status: 400, json: { error: { type: 'invalid_request_error', code: 'parameter_invalid' } } };
    const id = `pm_${methods.size + 1}`;
    methods.set(id, number);
    return { status: 200, json: { id, object: 'payment_method', card: { last4: number.slice(-4) } } };
  }
  if (methods.get(fields.get('payment_method') ?? '')?.endsWith('0002'))
    return {
      status: 402,
      json: { error: { type: 'card_error', code: 'card_declined', decline_code: 'generic_decline' } },
    };
  const key = String(headers['idempotency-key'] ?? payments.size);
  const id = payments.get(key) ?? `pi_${payments.size + 1}`;
  payments.set(key, id);
  return {
    status: 200,
    json: { id, object: 'payment_intent', status: 'succeeded', amount: Number(fields.get('amount')) },
  };
};

export const run = async ({ vaultUrl, vaultKey, processorUrl, received, cards }: Place): Promise<unknown> => {
  const vault = new Strongroom({ apiKey: vaultKey, baseUrl: vaultUrl });
  const stripe = { stripeUrl: processorUrl, stripeKey: 'sk_test_recipe' };
  const store = (number: string) =>
    vault.tokens.create({ type: 'card', data: { number, expiration_month: 12, expiration_year: 2031, cvc: '123' } });
  const paid = await charge(
    vault,
    await store(cards.approved),
    { id: 'order-1', amount: 1250, currency: 'usd' },
    stripe,
  );
  const declined = await charge(
    vault,
    await store(cards.declined),
    { id: 'order-2', amount: 1250, currency: 'usd' },
    stripe,
  );
  const [first] = received;
  return {
    paid,
    declined,
    stripe_received: Object.fromEntries(new URLSearchParams(first?.body)),
    idempotency_key: first?.headers['idempotency-key'],
  };
};
