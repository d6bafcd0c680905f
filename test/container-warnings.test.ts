// Warnings of creates in a container that may be misspelt: when there is one, and to whom.
import { beforeAll, expect, test } from 'vitest';
import { type Answer, type SharedServer, useServer } from './support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

const create = (container: string, more: object = {}, key?: string): Promise<Answer> =>
  server.request('POST', '/tokens', {
    json: { type: 'token', data: 'x', containers: [container], ...more },
    ...(key !== undefined && { key }),
  });

const warningOf = ({ status, headers, text }: Answer): string | null => {
  expect(status, text).toBeLessThan(300);
  return headers.get('svc-warning');
};

const sentence = (container: string) => `The container ${container} held no token before, and no access rule names it.`;

test('the first token of a container that no rule names has a warning, and no later one', async () => {
  const first = await create('/Misspelt/');
  expect(warningOf(first)).toBe(sentence('/misspelt/'));
  const second = await create('/misspelt/');
  expect(warningOf(second)).toBeNull();
  // The process remembers it: the database would say that it holds no token.
  for (const { body } of [first, second])
    expect((await server.request('DELETE', `/tokens/${body.id}`)).status).toBe(204);
  expect(warningOf(await create('/misspelt/'))).toBeNull();
});

test('containers of types, and those that a rule names or is around, have none', async () => {
  const tenant = await server.newTenant();
  const rules = [
    { priority: 1, container: '/named/', transform: 'mask', permissions: ['token:read'] },
    {
      priority: 2,
      conditions: [{ attribute: 'container', operator: 'starts_with', value: '/condition/' }],
      transform: 'mask',
      permissions: ['token:read'],
    },
  ];
  const made = await server.request('POST', '/applications', { json: { name: 'A', rules }, key: tenant.api_key });
  expect(made.status, made.text).toBe(201);
  for (const container of ['/', '/pci/high/', '/general/high/', '/named/', '/named/below/', '/condition/'])
    expect([container, warningOf(await create(container, {}, tenant.api_key))]).toEqual([container, null]);
  expect(warningOf(await create('/nam/', {}, tenant.api_key))).toBe(sentence('/nam/'));
});

test('of another tenant, neither its tokens nor its rules count', async () => {
  const [one, other] = [await server.newTenant(), await server.newTenant()];
  await create('/shared-name/', {}, one.api_key);
  expect(warningOf(await create('/shared-name/', {}, other.api_key))).toBe(sentence('/shared-name/'));
});

test('a body with several is warned of once, with the first three', async () => {
  const body = ['/m1/', '/m2/', '/m3/', '/m4/', '/m1/'].map((container) => ({
    type: 'token',
    data: 'x',
    containers: [container],
  }));
  const answer = await server.tokenize(body);
  expect(warningOf(answer)).toBe(
    'The containers /m1/, /m2/, /m3/ and 1 more held no token before, and no access rule names them.',
  );
});

test('a session is warned of, its own creates are not; a create that fails has no warning', async () => {
  const session = await server.request('POST', '/sessions', {
    json: { types: ['token'], containers: ['/of-session/'], allowed_origins: ['https://shop.example.com'] },
  });
  expect(warningOf(session)).toBe(sentence('/of-session/'));
  const made = await server.request('POST', '/tokens', {
    key: session.body.session_key,
    headers: { origin: 'https://shop.example.com' },
    json: { type: 'token', data: 'x' },
  });
  expect(warningOf(made)).toBeNull();
  const { body } = await create('/taken-id/');
  const taken = await create('/never-used/', { id: body.id });
  expect([taken.status, taken.headers.get('svc-warning')]).toEqual([409, null]);
});
