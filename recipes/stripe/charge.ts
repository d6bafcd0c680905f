// Charges a stored card at Stripe. This server never has the number: the vault puts it into the request.
import { type Expression, ref, type Strongroom, type Token } from '@strongroom/node';

type Stripe = { stripeUrl: string; stripeKey: string };
type Order = { id: string; amount: number; currency: string };
type Result = { paid: string } | { declined: string };
type Fields = Record<string, string | number | boolean | Expression>;

const post = async (
  vault: Strongroom,
  { stripeUrl, stripeKey }: Stripe,
  { path, key, fields }: { path: string; key: string; fields: Fields },
): Promise<{ id: string } | { declined: string }> => {
  const response = await vault.proxy.fetch(`${stripeUrl}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${stripeKey}`, 'idempotency-key': key },
    form: fields,
  });
  const body = (await response.json()) as { id: string; error?: { code?: string; decline_code?: string } };
  // A decline is an answer of Stripe, not a failure.
  if (response.status === 402) return { declined: body.error?.decline_code ?? body.error?.code ?? 'card_declined' };
  if (!response.ok) throw new Error(`${path}: ${response.status} ${body.error?.code}`);
  return { id: body.id };
};

/** @returns `{ paid: id }` or `{ declined: reason }`. @param order.id the same in each attempt, so that nothing is charged twice. */
export const charge = async (vault: Strongroom, card: Token, order: Order, stripe: Stripe): Promise<Result> => {
  const method = await post(vault, stripe, {
    path: '/v1/payment_methods',
    key: `${order.id}-method`,
    fields: {
      type: 'card',
      'card[number]': ref(card).path('number'),
      'card[exp_month]': ref(card).path('expiration_month'),
      'card[exp_year]': ref(card).path('expiration_year'),
      // The code lives for an hour. Without it Stripe may ask for more.
      'card[cvc]': ref(card).path('cvc').default(''),
    },
  });
  if ('declined' in method) return method;
  const intent = await post(vault, stripe, {
    path: '/v1/payment_intents',
    key: order.id,
    fields: { amount: order.amount, currency: order.currency, payment_method: method.id, confirm: true },
  });
  return 'declined' in intent ? intent : { paid: intent.id };
};
