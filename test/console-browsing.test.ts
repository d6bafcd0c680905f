// What a member leaves in the log by looking around: no refusal, and one row for the tokens of a page.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Role, roles } from '../src/modules/people/roles.ts';
import { consoleRoutes, furnish, type Furnished, pathOf } from './support/console-pages.ts';
import { type Browser, join, type Joined } from './support/people.ts';
import { startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
let tenant: TestTenant;
let ids: Furnished;
let pages: string[];

beforeAll(async () => {
  server = await startServer(
    { RATE_LIMIT: 'off', REQUIRE_SECOND_FACTOR: 'off' },
    { resolve: async () => ['127.0.0.1'] },
  );
  tenant = await server.newTenant();
  ids = await furnish(server, tenant);
  pages = consoleRoutes(server).flatMap(({ method, url }) => (method === 'GET' ? [url] : []));
});
afterAll(() => server.close());

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
    const { status, text, headers } = await browser.get(pathOf(url, ids));
    const isPage = headers.get('content-type')?.startsWith('text/html') === true;
    expect(isPage ? Buffer.byteLength(text) : 0, url).toBeLessThan(PAGE_BYTES_MAX);
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
  const missing = [...answered].flatMap(([url, status]) => (status === 404 ? [url] : []));
  if (role === 'ADMIN') expect(missing).toEqual(['/console/*']);
  expect((await rowsOf(member.user_id)).filter(({ outcome }) => outcome === 'refused')).toEqual([]);
});

test('what a member does without the right is a refusal in the log, as before', async () => {
  const member = await memberAs('SUPPORT');
  const csrf = await member.browser.csrf(`/console/account`);
  const sent = await member.browser.post(`/console/tokens/${ids.tokens}/delete`, { csrf, sure: 'yes' });
  expect(sent.status).toBe(403);
  expect((await rowsOf(member.user_id)).filter(({ outcome }) => outcome === 'refused')).toMatchObject([
    { message: 'Refused: token:delete' },
  ]);
});

test('a page has one row for all tokens on it, with its children or those of a search', async () => {
  const member = await memberAs('SUPPORT');
  const tokenRows = async () => (await rowsOf(member.user_id)).filter(({ entity_type }) => entity_type === 'card');
  await member.browser.get('/console/tokens?type=card');
  await member.browser.get(`/console/tokens/${ids.tokens}`);
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
  expect(text).toContain('<bdi>Plain</bdi>');
});

test('a page is as small with long lists of records whose names are long', async () => {
  const own = await server.newTenant();
  const name = (n: number): string => `Payments of the online shop in Northern Europe ${n}`;
  const make = async (path: string, json: object): Promise<void> => {
    const { status, text } = await server.request('POST', path, { key: own.api_key, json });
    expect(status, text).toBe(201);
  };
  const code = 'module.exports = ({ args }) => args;';
  for (let n = 0; n < 20; n += 1) {
    await make('/tokens', { type: 'token', data: name(n), mask: '{{ data }}' });
    await make('/applications', { name: name(n), type: 'private', permissions: ['token:read'] });
    await make('/reactor-formulas', { name: name(n), description: name(n), type: 'private', code });
    await make('/reactors', { name: name(n), code });
    await make('/proxies', { name: name(n), destination_url: 'https://api.example.com', request_transform: { code } });
    await make('/webhooks', { name: name(n), url: 'https://hooks.example.com/a', events: ['*'] });
    await make('/tenants/self/invitations', { email: `first.last.${n}@subsidiary.example.com` });
    await join(server, { tenant: own, first_name: 'Wilhelmina' });
  }
  const { browser } = await join(server, { tenant: own });
  const sizes: Record<string, number> = {};
  for (const url of pages.filter((each) => !each.includes(':'))) {
    const { text, headers } = await browser.get(url.replace('*', 'x'));
    if (headers.get('content-type')?.startsWith('text/html')) sizes[url] = Buffer.byteLength(text);
  }
  expect(Object.entries(sizes).filter(([, bytes]) => bytes >= PAGE_BYTES_MAX)).toEqual([]);
});
