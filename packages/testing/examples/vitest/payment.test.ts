// A vault in vitest: one for the file. `requests` has what the fake processor received.
import { cards, startVault, type Vault } from '@strongroom/testing';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

let vault: Vault;
beforeAll(async () => {
  vault = await startVault();
}, 60_000);
afterAll(() => vault.stop());
beforeEach(() => {
  vault.requests.length = 0;
});

const post = async (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(vault.url + path, {
    method: 'POST',
    headers: { 'svc-api-key': vault.key, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

const pay = async (number: string): Promise<Response> => {
  const data = { number, expiration_month: 12, expiration_year: 2030 };
  const { id } = (await (await post('/tokens', { type: 'card', data })).json()) as { id: string };
  return post('/proxy', { card: `{{ ${id} | json: '$.number' }}` }, { 'svc-proxy-url': `${vault.processorUrl}/pay` });
};

test.each([
  [cards.approved, 200],
  [cards.declined, 402],
  [cards.resets, 502],
])('the card %s is answered with %i', async (number, status) => {
  expect((await pay(number)).status).toBe(status);
  expect(vault.requests.map(({ path, body }) => [path, body])).toEqual([['/pay', { card: number }]]);
});
