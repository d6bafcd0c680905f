// Charges a card on file at Adyen, with its security code typed again.
import { ref, type Strongroom, type Token } from '@strongroom/node';

type Adyen = { adyenUrl: string; adyenKey: string; merchantAccount: string };
type Order = { id: string; amount: number; currency: string };
type Result = { paid: string } | { declined: string };

/** Your page gives `session` to the frame of the vault (docs/guides/card-on-file.md), where the customer types the code. */
export const createCodeSession = (vault: Strongroom, card: Token, origin: string) =>
  vault.sessions.create({ token_id: card.id, types: ['cvc'], allowed_origins: [origin] });

/** @returns `{ paid: pspReference }` or `{ declined: reason }`. @param session the id that the page sends back. */
export const chargeOnFile = async (
  vault: Strongroom,
  { session, card }: { session: string; card: Token },
  order: Order,
  { adyenUrl, adyenKey, merchantAccount }: Adyen,
): Promise<Result> => {
  // The browser names a session; whose card it is, your database says.
  const { tokens } = await vault.sessions.get(session);
  if (!tokens.includes(card.id)) throw new Error('The session has no code of this card.');
  const response = await vault.proxy.fetch(`${adyenUrl}/v71/payments`, {
    method: 'POST',
    headers: { 'x-api-key': adyenKey, 'idempotency-key': order.id },
    json: {
      merchantAccount,
      reference: order.id,
      amount: { currency: order.currency, value: order.amount },
      shopperInteraction: 'ContAuth',
      recurringProcessingModel: 'CardOnFile',
      paymentMethod: {
        type: 'scheme',
        number: ref(card).path('number'),
        // Adyen takes texts: `08`, not 8.
        expiryMonth: ref(card).path('expiration_month').filter('to_string').filter('pad_left', 2, '0'),
        expiryYear: ref(card).path('expiration_year').filter('to_string'),
        cvc: ref(card).path('cvc'),
      },
    },
  });
  const body = (await response.json()) as Record<'resultCode' | 'pspReference' | 'refusalReason' | 'errorCode', string>;
  if (!response.ok) throw new Error(`/v71/payments: ${response.status} ${body.errorCode}`);
  // Adyen declines with status 200.
  return body.resultCode === 'Authorised' ? { paid: body.pspReference } : { declined: body.refusalReason };
};
