// A vault in Jest, which loads the package as CommonJS.
const { cards, startVault } = require('@strongroom/testing');

let vault;
beforeAll(async () => {
  vault = await startVault();
}, 60_000);
afterAll(() => vault.stop());

const post = (path, body, headers = {}) =>
  fetch(vault.url + path, {
    method: 'POST',
    headers: { 'svc-api-key': vault.key, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

test('a declined card is told to the client, and no number is in the answer', async () => {
  const data = { number: cards.declined, expiration_month: 12, expiration_year: 2030 };
  const { id } = await (await post('/tokens', { type: 'card', data })).json();
  const charge = { card: `{{ ${id} | json: '$.number' }}` };
  const charged = await post('/proxy', charge, { 'svc-proxy-url': `${vault.processorUrl}/charges` });
  expect(charged.status).toBe(402);
  expect(await charged.json()).toEqual({ status: 'declined', code: 'card_declined' });
  expect(vault.requests).toHaveLength(1);
});
