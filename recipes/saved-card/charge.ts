// Charges a saved card once: its number goes to one processor only, its security code is typed again, and a lost answer is asked for again.
import type { IncomingHttpHeaders } from 'node:http';
import { ref, type Strongroom } from '@strongroom/node';
import { Webhook } from 'standardwebhooks';

/** The stored proxy: its id is no secret, its key is one. */
export type Payments = { id: string; key: string; processorKey: string };
type Order = { id: string; amount: number; currency: string };

/** For the page where the card is typed once. No key reads its number afterwards, and it leaves the vault through this proxy alone. */
export const createCardSession = (vault: Strongroom, { id }: Payments, origin: string) =>
  vault.sessions.create({ types: ['card'], allowed_origins: [origin], bound_to: { proxies: [id] } });

/** For the page where the customer, who has come back, types the security code. */
export const createCodeSession = (vault: Strongroom, card: string, origin: string) =>
  vault.sessions.create({ token_id: card, types: ['cvc'], allowed_origins: [origin] });

/** @param session the id that the page sends back. @returns what became of the code too. @throws StrongroomError; Error for a decline. */
export const charge = async (
  vault: Strongroom,
  { session, card }: { session: string; card: string },
  order: Order,
  { key, processorKey }: Payments,
): Promise<{ id: string; code: string | null }> => {
  // The browser names a session; whose card it is, your database says.
  const { tokens } = await vault.sessions.get(session);
  if (!tokens.includes(card)) throw new Error('The session has no code of this card.');
  const response = await vault.proxy.fetch('/charges', {
    method: 'POST',
    proxyKey: key,
    headers: { authorization: `Bearer ${processorKey}` },
    // Where an answer is lost the client asks again: the same key tells the vault that it is the same charge.
    idempotencyKey: order.id,
    json: {
      amount: order.amount,
      currency: order.currency,
      number: ref(card).path('number'),
      expiry: ref(card).filter('card_exp', 'MM/YY'),
      cvc: ref(card).path('cvc'),
    },
  });
  const { id, error } = (await response.json()) as { id: string; error?: string };
  if (!response.ok) throw new Error(`The payment was declined: ${error}`);
  return { id, code: response.headers.get('svc-cvc') };
};

/** For the address of the webhook: what became of the charge that an event is about. @throws where the signature is wrong. */
export const readEvent = async (vault: Strongroom, secret: string, body: string, headers: IncomingHttpHeaders) => {
  const { type, data } = new Webhook(secret).verify(body, headers as Record<string, string>) as {
    type: string;
    data: { id: string };
  };
  const { state, attempts, status } = await vault.forwards.get(data.id);
  return { type, state, attempts, status };
};
