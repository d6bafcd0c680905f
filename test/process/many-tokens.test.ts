// Requests with thousands of tokens, and pages of large ones: they pass, or are refused before they are read.
import { beforeAll, expect, test } from 'vitest';
import { type SharedServer, type TestTenant, useServer } from '../support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };
const times = <T>(length: number, value: T): T[] => Array.from({ length }, () => value);

const create = async (tenant: TestTenant, json: object): Promise<void> => {
  const answer = await server.request('POST', '/tokens', { key: tenant.api_key, json });
  expect(answer.status, answer.text).toBe(201);
};

const list = async (tenant: TestTenant, query: string) => {
  const answer = await server.request('GET', `/tokens${query}`, { key: tenant.api_key });
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

test('of ten thousand cards with aliases each has one of its own', async () => {
  const item = { type: 'card', data: { number: card.number }, id: '{{ data.number | alias_preserve_format }}' };
  const answer = await server.tokenize(
    Array.from({ length: 10_000 }, () => item),
    (await server.newTenant()).api_key,
  );
  expect(answer.status, answer.text.slice(0, 200)).toBe(200);
  expect(new Set(answer.body.map(({ id }: { id: string }) => id)).size).toBe(10_000);
});

test('when every alias is taken a UUID stands in', async () => {
  const tenant = await server.newTenant();
  // Three digits are drawn, and one of them is the check digit: a hundred aliases.
  const request = { type: 'card_number', data: '4222222222222', id: '{{ data | alias_card }}' };
  const ids = new Set<string>();
  for (let index = 0; index < 140; index += 1) ids.add((await server.tokenize(request, tenant.api_key)).body.id);
  expect(ids.size).toBe(140);
  expect([...ids].some((id) => uuid.test(id))).toBe(true);
});

test('honest batches pass: 4,000 cards with masks of their own, 10,000 with their type has', async () => {
  const mask = { number: '{{ data.number | reveal: 6, 4 }}', year: '{{ data.expiration_year | to_string }}' };
  const own = await server.tokenize(times(4000, { type: 'card', data: { ...card, cvc: undefined }, mask }));
  expect(own.status, own.text.slice(0, 200)).toBe(200);
  expect(own.body[3999].data).toEqual({ number: '424242XXXXXX4242', year: '2030' });
  const ssn = await server.tokenize(times(10_000, { type: 'social_security_number', data: '123-45-6789' }));
  expect(ssn.status, ssn.text.slice(0, 200)).toBe(200);
});

test('a page of large tokens is refused before they are read, and a smaller one is not', async () => {
  const tenant = await server.newTenant();
  for (let count = 0; count < 20; count += 1) await create(tenant, { data: 'x'.repeat(1_000_000) });
  const ask = (size: number) => server.request('GET', `/tokens?size=${size}`, { key: tenant.api_key });
  expect((await ask(20)).status).toBe(413);
  expect((await ask(5)).body.data).toHaveLength(5);
  expect(
    (
      await server.sql(
        'SELECT sum(cardinality(entity_ids)) AS n FROM audit_log WHERE operation = $1 AND tenant_id = $2',
        ['read', tenant.tenant_id],
      )
    )[0].n,
  ).toBe('5');
});

test('requests with thousands of fingerprints leave the locks of the database to others', async () => {
  const tenant = await server.newTenant();
  const values = Array.from({ length: 4000 }, (_, index) => ({
    type: 'token',
    data: `locked ${index}`,
    deduplicate_token: true,
  }));
  const answers = await Promise.all([1, 2, 3].map(() => server.tokenize(values, tenant.api_key)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect((await list(tenant, '?size=1')).pagination.total_items).toBe(4000);
});
