// A fake backend, and a sender that signs webhooks as Braintree does: one that is valid, and one with a wrong signature.
import { createHash, createHmac } from 'node:crypto';
import { Strongroom } from '@strongroom/node';
import type { Answer, Place } from '../run.ts';
import { setUp } from './set-up.ts';

const keys = { PUBLIC_KEY: 'recipe_public', PRIVATE_KEY: 'recipe_private' };

export const answer = (): Answer => ({ status: 200, json: { received: true } });

const webhookOf = (number: string, privateKey: string): URLSearchParams => {
  const card = `<credit-card><number>${number}</number><expiration-month>12</expiration-month><expiration-year>2031</expiration-year></credit-card>`;
  const xml = `<notification><kind>card_updated</kind><subject>${card}</subject></notification>`;
  const payload = `${Buffer.from(xml).toString('base64')}\n`;
  const signature = createHmac('sha1', createHash('sha1').update(privateKey).digest()).update(payload).digest('hex');
  return new URLSearchParams({ bt_signature: `${keys.PUBLIC_KEY}|${signature}`, bt_payload: payload });
};

export const run = async ({ vaultUrl, vaultKey, processorUrl, received, cards }: Place): Promise<unknown> => {
  const vault = new Strongroom({ apiKey: vaultKey, baseUrl: vaultUrl });
  const path = await setUp(vault, `${processorUrl}/webhooks`, keys);
  const send = (privateKey: string) =>
    fetch(vaultUrl + path, { method: 'POST', body: webhookOf(cards.approved, privateKey) });
  const accepted = await send(keys.PRIVATE_KEY);
  const refused = await send('another');
  const body = JSON.parse(received[0]?.body ?? '{}');
  const token = await vault.tokens.get(body.card);
  return {
    accepted: accepted.status,
    refused: refused.status,
    backend_received: { kind: body.kind, is_token: token.id === body.card },
    times: received.length,
    stored: token.data,
  };
};
