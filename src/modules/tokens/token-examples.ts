// Tokens that the examples of the OpenAPI document show. Cards and accounts are masked, as in real responses.
import { CARD_TOKEN_ID, created, TENANT_ID } from '../../platform/http/schemas.ts';

export const GENERIC_TOKEN_ID = 'b8e1d6c2-3f47-4d0a-8c95-1e7a2b6f4d30';

const maskedCard = { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 };
const maskedBank = { routing_number: '110000000', account_number: 'XXXXXXXX6789' };

export const cardToken = {
  id: CARD_TOKEN_ID,
  tenant_id: TENANT_ID,
  type: 'card',
  data: maskedCard,
  mask: maskedCard,
  card: { brand: 'visa', last4: '4242', expiration_month: 12, expiration_year: 2030 },
  fingerprint: '3tWn8K2m9bQxFZrV5cLhJdYpGsTuAeN7wXvB4kRyMzqE',
  fingerprint_expression: '{{ data.number }}',
  containers: ['/pci/high/'],
  metadata: { order: '4711' },
  search_indexes: [],
  ...created,
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
  ...created,
};

export const genericToken = {
  id: GENERIC_TOKEN_ID,
  tenant_id: TENANT_ID,
  type: 'token',
  data: 'Ada Lovelace',
  fingerprint: '6XkVtB9mQ2zLpNwR4cYhJdFsGuTeA7nKxvW3bRyMzqE5',
  fingerprint_expression: '{{ data | stringify }}',
  containers: ['/general/high/'],
  search_indexes: [],
  ...created,
};
