// Warnings of creates in a container that may be misspelt: when there is one, and to whom.
import { beforeAll, expect, test } from 'vitest';
import { operatorCreates } from '../src/modules/access/work.ts';
import {
  createUsedContainers,
  findContainerWarning,
  findEmptyContainers,
} from '../src/modules/tokens/container-warnings.ts';
import { codeOf, makeReactor, react } from './support/reactors.ts';
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

test('a misspelt container below one of a rule has one with the nearest name', async () => {
  const { api_key } = await server.newTenant();
  const rule = { priority: 1, container: '/cards/', transform: 'mask', permissions: ['token:read'] };
  const named = { priority: 2, container: '/cards/returns/', transform: 'mask', permissions: ['token:read'] };
  const json = { name: 'A', rules: [rule, named] };
  expect((await server.request('POST', '/applications', { json, key: api_key })).status).toBe(201);
  const warningIn = async (container: string) => warningOf(await create(container, {}, api_key));
  for (const container of ['/cards/prod/', '/cards/shop-1/', '/cards/shop-2/', '/cards/eu/', '/cards/us/'])
    expect([container, await warningIn(container)]).toEqual([container, null]);
  for (const [container, meant] of [
    ['/cards/prdo/', '/cards/prod/'],
    ['/cards/retruns/', '/cards/returns/'],
  ] as const)
    expect(await warningIn(container)).toBe(
      `The container ${container} held no token before. Did you mean ${meant} in place of ${container}?`,
    );
  expect(await warningIn('/crads/prod/')).toBe(
    `${sentence('/crads/prod/')} Did you mean /cards/prod/ in place of /crads/prod/?`,
  );
});

test('code that creates tokens has its warnings in the response of the reactor', async () => {
  const { application_id } = await server.newKey(server.tenant, { permissions: ['token:create'] });
  const code =
    codeOf(`for (const container of args.containers) await svc.tokens.create({ type: 'token', data: 'x', containers: [container] });
    return { raw: 'done' };`);
  const reactor = await makeReactor(server, { code, application: { application_id } });
  const containers = ['/of-code/', '/of-code/', '/of-code-too/'];
  const answer = await react(server, reactor, { containers });
  expect(warningOf(answer)).toBe(`${sentence('/of-code/')} ${sentence('/of-code-too/')}`);
});

test('a create does not fail where its warning cannot be looked up', async () => {
  const { tenant_id } = server.tenant;
  const work = operatorCreates(server.ctx, tenant_id, { allows_absent_paths: false, warn: () => undefined });
  // The database takes no NUL.
  const container = '/\0/';
  await expect(findEmptyContainers(work.db, [container])).rejects.toThrow();
  expect(await findContainerWarning(server.ctx, work, [container])).toBeUndefined();
});

test('a process remembers thousands of used containers of a tenant', () => {
  const used = createUsedContainers();
  const containers = Array.from({ length: 500 }, (_, at) => `/customers/${at}/`);
  for (const container of containers) used.add('one', container);
  expect(containers.filter((container) => used.has('one', container)).length).toBeGreaterThan(400);
  expect(containers.filter((container) => used.has('other', container))).toEqual([]);
  expect(used.has('one', '/customers/500/')).toBe(false);
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
