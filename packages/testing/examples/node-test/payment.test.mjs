// A vault in node:test: one for the file, a tenant for each test.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { cards, startVault } from '@strongroom/testing';

let vault;
before(async () => {
  vault = await startVault();
});
after(() => vault.stop());

const post = (key, path, body, headers = {}) =>
  fetch(vault.url + path, {
    method: 'POST',
    headers: { 'svc-api-key': key, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

test('a card is charged through the proxy, and the processor received its number', async () => {
  const { key } = await vault.newTenant();
  const data = { number: cards.approved, expiration_month: 12, expiration_year: 2030 };
  const { id } = await (await post(key, '/tokens', { type: 'card', data })).json();
  const charge = { amount: 1000, card: `{{ ${id} | json: '$.number' }}` };
  const charged = await post(key, '/proxy', charge, { 'svc-proxy-url': `${vault.processorUrl}/charges` });
  assert.equal((await charged.json()).status, 'approved');
  assert.deepEqual(vault.requests.at(-1).body, { amount: 1000, card: cards.approved });
});

test('a token ends with its time', async () => {
  const { key } = await vault.newTenant();
  const expires_at = new Date(Date.now() + 60_000).toISOString();
  const { id } = await (await post(key, '/tokens', { type: 'token', data: 'a', expires_at })).json();
  await vault.clock.advance('1h');
  const read = await fetch(`${vault.url}/tokens/${id}`, { headers: { 'svc-api-key': key } });
  assert.equal(read.status, 404);
});
