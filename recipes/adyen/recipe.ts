// A fake of Adyen's payments, and a run in which a customer comes back and types the security code again.
import { Strongroom } from '@strongroom/node';
import type { Answer, Place, Received } from '../run.ts';
import { chargeOnFile, createCodeSession } from './charge.ts';

const SHOP = 'https://shop.example.com';

export const answer = ({ url, headers, body }: Received): Answer => {
  if (headers['x-api-key'] !== 'AQE_recipe') return { status: 401, json: { errorCode: '000' } };
  const { paymentMethod, amount } = JSON.parse(body);
  if (url !== '/v71/payments' || typeof paymentMethod?.expiryMonth !== 'string' || typeof amount?.value !== 'number')
    return { status: 422, json: { errorCode: '100' } };
  if (paymentMethod.cvc !== '737')
    return { status: 200, json: { pspReference: 'B2', resultCode: 'Refused', refusalReason: 'CVC Declined' } };
  return { status: 200, json: { pspReference: 'A1', resultCode: 'Authorised' } };
};

/** The request of the frame, which has the key of the session and no other. */
const typeCode = async (vaultUrl: string, { id, session_key }: { id: string; session_key: string }, cvc: string) => {
  const response = await fetch(`${vaultUrl}/sessions/${id}/cvc`, {
    method: 'POST',
    headers: { 'svc-api-key': session_key, 'content-type': 'application/json', origin: SHOP },
    body: JSON.stringify({ cvc }),
  });
  if (!response.ok) throw new Error(`the code was not stored: ${response.status}`);
};

export const run = async ({ vaultUrl, vaultKey, processorUrl, received, cards }: Place): Promise<unknown> => {
  const vault = new Strongroom({ apiKey: vaultKey, baseUrl: vaultUrl });
  const adyen = { adyenUrl: processorUrl, adyenKey: 'AQE_recipe', merchantAccount: 'Shop' };
  const data = { number: cards.approved, expiration_month: 8, expiration_year: 2031 };
  const card = await vault.tokens.create({ type: 'card', data });
  const charge = async (order: string, code: string): Promise<unknown> => {
    const session = (await createCodeSession(vault, card, SHOP)) as { id: string; session_key: string };
    await typeCode(vaultUrl, session, code);
    return chargeOnFile(vault, { session: session.id, card }, { id: order, amount: 1250, currency: 'EUR' }, adyen);
  };
  return {
    paid: await charge('order-1', '737'),
    declined: await charge('order-2', '123'),
    adyen_received: JSON.parse(received[0]?.body ?? '').paymentMethod,
  };
};
