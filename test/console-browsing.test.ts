// What a member leaves in the log by looking around: no refusal, and one row for the tokens of a page.
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { roles, type Role } from '../src/modules/people/roles.ts';
import { type Browser, join, type Joined } from './support/people.ts';
import { startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
let tenant: TestTenant;
/** For the parameters of pages: records that are there. */
let parameters: Record<string, string>;
let pages: string[];

const post = async (path: string, json: object): Promise<Record<string, any>> => {
  const { status, body, text } = await server.request('POST', path, { json, key: tenant.api_key });
  expect(status, text).toBe(201);
  return body;
};

const card = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };

beforeAll(async () => {
  server = await startServer(
    { RATE_LIMIT: 'off', REQUIRE_SECOND_FACTOR: 'off' },
    { resolve: async () => ['127.0.0.1'] },
  );
  tenant = await server.newTenant();
  const parent = await post('/tokens', card);
  for (const _ of [1, 2]) await post(`/tokens/${parent['id']}/children`, card);
  const application = await post('/applications', { name: 'A', type: 'private', permissions: ['token:read'] });
  const code = 'module.exports = ({ args }) => ({ raw: args.card.number.length });';
  const formula = await post('/reactor-formulas', { name: 'F', type: 'private', code });
  const reactor = await post('/reactors', { name: 'R', formula: { id: formula['id'] } });
  const application_id = { id: application['id'] };
  const proxy = await post('/proxies', {
    name: 'P',
    destination_url: 'https://example.com',
    application: application_id,
    request_transform: { code: 'module.exports = ({ args }) => args;' },
  });
  const args = { card: `{{ ${parent['id']} }}` };
  const ran = await server.request('POST', `/reactors/${reactor['id']}/react`, { json: { args }, key: tenant.api_key });
  expect(ran.status, ran.text).toBe(200);
  const run = await vi.waitFor(async () => {
    const { body } = await server.request('GET', '/runs', { key: tenant.api_key });
    expect(body.data).toHaveLength(1);
    return body.data[0];
  });
  const headers = { 'svc-proxy-url': 'https://no-such-host.example', 'svc-idempotency-key': 'browsing' };
  const sent = await server.request('POST', '/proxy', { json: {}, headers, key: tenant.api_key });
  parameters = {
    runs: run.id,
    forwards: sent.headers.get('svc-forward-id') ?? '',
    tokens: parent['id'],
    applications: application['id'],
    reactors: reactor['id'],
    formulas: formula['id'],
    proxies: proxy['id'],
  };
  pages = server.routes
    .filter(({ method, url, config }) => method === 'GET' && url.startsWith('/console') && !config?.methodGuard)
    .map(({ url }) => url);
});
afterAll(() => server.close());

const pathOf = (url: string): string =>
  url
    .replace(/^\/console\/(\w+)\/:id/, (_, kind: string) => `/console/${kind}/${parameters[kind]}`)
    .replace(':number', '1')
    .replaceAll(/:\w+/g, '00000000-0000-4000-8000-000000000000');

const memberAs = async (role: Role): Promise<Joined> => {
  const member = await join(server, { tenant });
  const path = `/tenants/self/members/${member.member_id}`;
  if (role !== 'OWNER')
    expect((await server.request('PUT', path, { json: { role }, key: tenant.api_key })).status).toBe(200);
  return member;
};

const rowsOf = (user_id: string): Promise<Record<string, any>[]> =>
  server.sql('SELECT id, message, entity_type, entity_ids, outcome FROM audit_log WHERE actor_id = $1 ORDER BY id', [
    user_id,
  ]);

/** Of the HTML of a page. */
const PAGE_BYTES_MAX = 40 * 1024;

/** Opens each page, but those that end its session. @returns what it was answered. */
const openAll = async (browser: Browser): Promise<Map<string, number>> => {
  const answered = new Map<string, number>();
  for (const url of pages) {
    const { status, text } = await browser.get(pathOf(url));
    expect(Buffer.byteLength(text), url).toBeLessThan(PAGE_BYTES_MAX);
    answered.set(url, status);
  }
  return answered;
};

test.each(roles.filter((role) => role !== 'OWNER'))('%s opens every page, and no refusal is logged', async (role) => {
  const member = await memberAs(role);
  const answered = await openAll(member.browser);
  expect(answered.size).toBeGreaterThan(20);
  for (const path of ['/console/forwards', '/console/forwards/:id'])
    expect(answered.get(path), path).toBe(role === 'ADMIN' ? 200 : 403);
  for (const path of ['/console/logs', '/console/runs', '/console/runs/:id'])
    expect(answered.get(path), path).toBe(role === 'SUPPORT' ? 403 : 200);
  expect([...answered.values()].filter((status) => status >= 500)).toEqual([]);
  expect((await rowsOf(member.user_id)).filter(({ outcome }) => outcome === 'refused')).toEqual([]);
});

test('what a member does without the right is a refusal in the log, as before', async () => {
  const member = await memberAs('SUPPORT');
  const csrf = await member.browser.csrf(`/console/account`);
  const sent = await member.browser.post(`/console/tokens/${parameters['tokens']}/delete`, { csrf, sure: 'yes' });
  expect(sent.status).toBe(403);
  expect((await rowsOf(member.user_id)).filter(({ outcome }) => outcome === 'refused')).toMatchObject([
    { message: 'Refused: token:delete' },
  ]);
});

test('a page has one row for all tokens on it, with its children or those of a search', async () => {
  const member = await memberAs('SUPPORT');
  const tokenRows = async () => (await rowsOf(member.user_id)).filter(({ entity_type }) => entity_type === 'card');
  await member.browser.get('/console/tokens');
  await member.browser.get(`/console/tokens/${parameters['tokens']}`);
  const csrf = await member.browser.csrf('/console/account');
  await member.browser.post('/console/tokens/search', { csrf, query: 'type:card' });
  const rows = await tokenRows();
  expect(rows.map(({ message, entity_ids }) => [message, entity_ids.length])).toEqual([
    ['Tokens listed', 3],
    ['Tokens listed', 3],
    ['Tokens listed', 3],
  ]);
});

test('an auditor reads names of actors and entities', async () => {
  const member = await memberAs('AUDITOR');
  const { text } = await member.browser.get(`/console/logs?entity_type=application`);
  expect(text).toContain('<bdi>A</bdi>');
});
