// One of everything that the console shows, and its pages by the list of routes with the ids of that.
import { expect, vi } from 'vitest';
import { join } from './people.ts';
import type { SharedServer, TestTenant } from './server.ts';

/** What stands for a parameter of a route where nothing has it. */
export const NO_ID = '00000000-0000-4000-8000-000000000000';

const card = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };

/** Ids by the part of the path before them, such as `tokens`. */
export type Furnished = Record<
  | 'tokens'
  | 'runs'
  | 'applications'
  | 'keys'
  | 'reactors'
  | 'formulas'
  | 'proxies'
  | 'webhooks'
  | 'members'
  | 'invitations'
  | 'forwards',
  string
>;

/** @param text stands in each text that members and keys give to records. */
export const furnish = async (server: SharedServer, tenant: TestTenant, text = 'Plain'): Promise<Furnished> => {
  const ask = async (method: string, path: string, json?: object): Promise<Record<string, any>> => {
    const {
      status,
      body,
      text: answered,
    } = await server.request(method, path, { key: tenant.api_key, ...(json && { json }) });
    expect(status, answered).toBeLessThan(300);
    return body;
  };
  const parent = await ask('POST', '/tokens', { ...card, metadata: { note: text } });
  for (const _ of [1, 2]) await ask('POST', `/tokens/${parent['id']}/children`, card);
  await ask('POST', '/tokens', { type: 'token', data: text, mask: '{{ data }}', metadata: { note: text } });
  const application = await ask('POST', '/applications', {
    name: text,
    type: 'private',
    rules: [{ description: text, priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:read'] }],
  });
  const key = await ask('POST', `/applications/${application['id']}/keys`, { name: text });
  // Twice: in a list, and alone.
  for (const path of ['/tokens', `/tokens/${parent['id']}`])
    expect((await server.request('GET', path, { key: application['key'] })).status).toBe(200);
  const code = (line: string): string =>
    `// ${text.replaceAll('\n', ' ')}\nmodule.exports = ({ args }) => { ${line} };`;
  const elements = [{ name: 'KEY', type: 'string', description: text }];
  const formula = {
    name: text,
    description: text,
    type: 'private',
    code: code('throw new Error(args.card.number);'),
    configuration: elements,
    request_parameters: [{ name: 'card.number', type: 'string', description: text }],
  };
  const { id: formula_id } = await ask('POST', '/reactor-formulas', formula);
  await ask('PUT', `/reactor-formulas/${formula_id}`, { ...formula, code: `${formula.code}\n`, note: text });
  const reactor = await ask('POST', '/reactors', {
    name: text,
    formula: { id: formula_id },
    configuration: { KEY: text },
    application: { id: application['id'] },
  });
  const proxy = await ask('POST', '/proxies', {
    name: text,
    destination_url: 'https://no-such-host.invalid',
    application: { id: application['id'] },
    configuration: { KEY: text },
    request_transform: { code: code('return args;') },
  });
  await ask('PATCH', `/proxies/${proxy['id']}`, { request_transform: { code: code('return { ...args };') } });
  const webhook = await ask('POST', '/webhooks', { name: text, url: 'https://hooks.example.com/a', events: ['*'] });
  const headers = { 'svc-proxy-key': proxy['key'], 'svc-idempotency-key': 'once' };
  const forwarded = await server.request('POST', '/proxy', { key: tenant.api_key, json: {}, headers });
  const { id: invitation_id } = await ask('POST', '/tenants/self/invitations', { email: 'waiting@example.com' });
  const { member_id } = await join(server, { tenant, first_name: text });
  const args = { card: `{{ ${parent['id']} }}` };
  const react = { key: tenant.api_key, json: { args } };
  expect((await server.request('POST', `/reactors/${reactor['id']}/react`, react)).status).toBe(500);
  const run = await vi.waitFor(async () => {
    const { data } = await ask('GET', `/runs?resource_id=${reactor['id']}`);
    expect(data).toHaveLength(1);
    return data[0];
  });
  await server.ctx.usage.write();
  return {
    tokens: parent['id'],
    runs: run.id,
    applications: application['id'],
    keys: key['id'],
    reactors: reactor['id'],
    formulas: formula_id,
    proxies: proxy['id'],
    webhooks: webhook['id'],
    members: member_id,
    invitations: invitation_id,
    forwards: forwarded.headers.get('svc-forward-id') ?? '',
  };
};

export type ConsoleRoute = { method: 'GET' | 'POST'; url: string };

/** Every route of the console. */
export const consoleRoutes = (server: SharedServer): ConsoleRoute[] =>
  server.routes
    .filter(({ url, config }) => url.startsWith('/console') && !config?.methodGuard)
    .flatMap(({ method, url }) => [method].flat().map((each) => ({ method: each as ConsoleRoute['method'], url })))
    .filter(({ method }) => ['GET', 'POST'].includes(method));

/** The path of a route, with the ids of what is there. */
export const pathOf = (url: string, ids: Furnished): string =>
  url
    .replace(':key_id', ids.keys)
    .replace(':number', '1')
    .replaceAll(/\/(\w+)\/:id/g, (_, kind: string) => `/${kind}/${(ids as Record<string, string>)[kind] ?? NO_ID}`)
    .replace('/*', '/no/such/page')
    .replaceAll(/:\w+/g, NO_ID);
