// The records that examples of the document show, so that every example tells of the same ones.
// No token holds more than a vault shows: cards and accounts are masked.

export const TENANT_ID = '7f4c2b1e-9d3a-4a57-8f61-2c5b8e0d9a13';
export const APPLICATION_ID = 'c1a8f0d4-2e6b-4b39-9a75-6d0e3f8b1c52';
export const REACTOR_ID = '3b9d5f02-7c1e-4a86-b0f4-8e2d6a91c7b3';
export const PROXY_ID = '91e4c6a8-0d2b-4f57-a3c9-5b7f1d8e2046';
export const TRACE_ID = '5e8f2a90-1c3d-4b7e-9a64-0f2d7c5b8e13';
export const CREATED_AT = '2026-11-20T18:04:05.123Z';

export const genericTokenId = 'b8e1d6c2-3f47-4d0a-8c95-1e7a2b6f4d30';
export const cardTokenId = '0f6ad6a4-5b1c-4f0e-9a35-0f3d2b1c4e5f';

const madeBy = { created_by: APPLICATION_ID, created_at: CREATED_AT };
const maskedCard = { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 };
const maskedBank = { routing_number: '110000000', account_number: 'XXXXXXXX6789' };

export const cardToken = {
  id: cardTokenId,
  tenant_id: TENANT_ID,
  type: 'card',
  data: maskedCard,
  mask: maskedCard,
  fingerprint: '3tWn8K2m9bQxFZrV5cLhJdYpGsTuAeN7wXvB4kRyMzqE',
  fingerprint_expression: '{{ data.number }}',
  containers: ['/pci/high/'],
  metadata: { order: '4711' },
  search_indexes: [],
  ...madeBy,
};

export const bankToken = {
  id: '5d92e7b1-0c84-4f6a-b3d7-8a1f4c6e2095',
  tenant_id: TENANT_ID,
  type: 'bank',
  data: maskedBank,
  mask: maskedBank,
  fingerprint: '8HqPzL4vNc2RtYxWb6KmJfD9gSuEaT5iVoX3nBrZkMwQ',
  fingerprint_expression: '{{ data.account_number }}|{{ data.routing_number }}',
  containers: ['/bank/high/'],
  search_indexes: [],
  ...madeBy,
};

export const genericToken = {
  id: genericTokenId,
  tenant_id: TENANT_ID,
  type: 'token',
  data: 'Ada Lovelace',
  fingerprint: '6XkVtB9mQ2zLpNwR4cYhJdFsGuTeA7nKxvW3bRyMzqE5',
  fingerprint_expression: '{{ data | stringify }}',
  containers: ['/general/high/'],
  search_indexes: [],
  ...madeBy,
};

export const exampleFormula = {
  id: '9e4b7a26-5d13-4c8f-a0e7-3b6d9f2c1a58',
  name: 'Last digits',
  description: 'Tells the last digits of a card',
  type: 'private',
  status: 'verified',
  code: `module.exports = async (req) => {
  const { number } = req.args.card;
  return { raw: { shop: req.configuration.SHOP, last4: number.slice(-4) } };
};
`,
  configuration: [{ name: 'SHOP', description: 'Which shop asks', type: 'string' }],
  request_parameters: [{ name: 'card.number', description: 'The card', type: 'string', optional: false }],
  ...madeBy,
};

export const exampleReactor = {
  id: '4a7d0c93-8e52-4b1f-b6a9-5c3e7d1f8024',
  tenant_id: TENANT_ID,
  name: 'Shop digits',
  formula: exampleFormula,
  configuration: { SHOP: 'example-shop' },
  application: { id: APPLICATION_ID, tenant_id: TENANT_ID, name: 'Checkout', type: 'private' },
  ...madeBy,
};

export const exampleProxy = {
  id: 'd3f60b7c-94a1-4e28-8b5d-7a2c9e1f4063',
  tenant_id: TENANT_ID,
  key: 'ExampleExampleExampleExample0000',
  name: 'Payments',
  destination_url: 'https://api.example.com/v1',
  require_auth: true,
  request_transform: {
    code: `module.exports = async ({ args, configuration }) => ({
  body: args.body,
  headers: { ...args.headers, authorization: \`Bearer \${configuration.API_KEY}\` },
});
`,
  },
  application_id: APPLICATION_ID,
  configuration: { API_KEY: 'example-key' },
  allowed_hosts: ['api.example.com'],
  ...madeBy,
};

export const exampleInvitation = {
  id: '6c2e9a51-7b04-4d3f-9e18-0a5d7c4b2f86',
  tenant_id: TENANT_ID,
  email: 'ada@example.com',
  status: 'PENDING',
  expires_at: '2026-11-23T18:04:05.123Z',
  ...madeBy,
};

const USER_ID = 'a94d3c07-5e61-4b8a-8f2d-1c7b9e0d6a35';

export const exampleMember = {
  id: 'e7b05f2c-3d98-4a61-b4c7-9f1e6d2a8053',
  tenant_id: TENANT_ID,
  role: 'ADMIN',
  user: { id: USER_ID, email: 'ada@example.com', first_name: 'Ada', last_name: 'Lovelace' },
  created_by: USER_ID,
  created_at: CREATED_AT,
};
