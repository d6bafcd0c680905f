// One box finds records by id, trace id, name and last four digits; what may be a value stays out of URLs, and roles find what they may.
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Browser, type SharedConsole, textOf, useConsole } from './support/console.ts';
import { makeReactor, react } from './support/reactors.ts';
import type { TestTenant } from './support/server.ts';
import { makeProxy } from './support/stored-proxies.ts';

const FIND = '/console/find';

let server: SharedConsole;
let tenant: TestTenant;
let owner: Browser;
/** By what they are. */
let ids: Record<'token' | 'reactor' | 'proxy' | 'application' | 'run' | 'log', string>;

beforeAll(async () => {
  server = await useConsole();
  tenant = await server.newTenant();
  owner = await server.signIn({ tenant });
  const { api_key: key } = tenant;
  const json = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };
  const token = (await server.request('POST', '/tokens', { json, key })).body.id;
  const reactor = await makeReactor(server, {
    code: 'module.exports = ({ args }) => ({ raw: args.card.number.length });',
    key,
  });
  const proxy = await makeProxy(server, { name: 'Payments', destination_url: 'https://example.com' }, key);
  const headers = { 'svc-trace-id': 'trace-to-find' };
  expect((await react(server, reactor, { card: `{{ ${token} }}` }, { key, headers })).status).toBe(200);
  const run = await vi.waitFor(async () => {
    const { data } = (await server.request('GET', '/runs', { key })).body;
    expect(data).toHaveLength(1);
    return data[0];
  });
  const log = (await server.request('GET', '/logs?trace_id=trace-to-find', { key })).body.data[0];
  const { application_id: application } = tenant;
  ids = { token, reactor: reactor.id, proxy: proxy.id, application, run: run.id, log: log.id };
});

const memberAs = async (role: string): Promise<Browser> => {
  const member = await server.signIn({ tenant });
  const path = `/tenants/self/members/${member.member_id}`;
  expect((await server.request('PUT', path, { json: { role }, key: tenant.api_key })).status).toBe(200);
  return member;
};

/** What the box leads to: sent by POST, and followed to a page of results or to the record. */
const find = async (by: Browser, q: string): Promise<{ path: string; text: string }> => {
  const sent = await by.post(FIND, { q });
  expect(sent.status, sent.text).toBe(303);
  const path = sent.headers.get('location') ?? '';
  const shown = await by.get(path);
  return shown.status === 303
    ? { path: shown.headers.get('location') ?? '', text: '' }
    : { path, text: textOf(shown.text) };
};

describe('an id leads to its record', () => {
  test.each<[keyof typeof ids, (id: string) => string]>([
    ['token', (id) => `/console/tokens/${id}`],
    ['reactor', (id) => `/console/reactors/${id}`],
    ['proxy', (id) => `/console/proxies/${id}`],
    ['application', (id) => `/console/applications/${id}`],
    ['run', (id) => `/console/runs/${id}`],
  ])('of a %s', async (kind, path) => {
    expect((await find(owner, ` ${ids[kind].toUpperCase()} `)).path).toBe(path(ids[kind]));
  });

  test('of a row of the log, at its time', async () => {
    const { path } = await find(owner, ids.log);
    expect(path).toMatch(/^\/console\/logs\?start_date=/);
    expect((await owner.get(path)).text).toContain('Token used');
  });

  test('not for a member of another tenant', async () => {
    const other = await server.signIn({ tenant: await server.newTenant() });
    for (const id of Object.values(ids)) expect((await find(other, id)).text, id).toContain('Nothing matches.');
  });
});

test('a trace id leads to its entries in the log', async () => {
  expect((await find(owner, 'trace-to-find')).path).toBe('/console/logs?trace_id=trace-to-find');
});

test('the beginning of a name leads to its record, and several are listed', async () => {
  expect((await find(owner, 'paym')).path).toBe(`/console/proxies/${ids.proxy}`);
  await makeProxy(server, { name: 'Reactor of others', destination_url: 'https://example.com' }, tenant.api_key);
  const { text } = await find(owner, 'Reactor');
  expect(text.replace(/\s+/g, ' ')).toMatch(/Reactor Reactor ?.*Proxy Reactor of others/);
});

test('last four digits find the card in two steps, and stand in no URL', async () => {
  const sent = await owner.post(FIND, { q: '4242' });
  expect(sent.status).toBe(200);
  expect(textOf(sent.text)).toContain('XXXXXXXXXXXX4242');
  expect(sent.text).toContain(`href="/console/tokens/${ids.token}"`);
  const none = await owner.post(FIND, { q: '4243' });
  expect(textOf(none.text)).toContain('Nothing matches.');
});

test.each(['4242424242424242', '4242 4242 4242 4242', '4242-4242', 'card 4242424242424242'])(
  'what may be a whole number is neither searched nor put into a URL: %s',
  async (q) => {
    const { status, text } = await owner.post(FIND, { q });
    expect(status).toBe(200);
    expect(text).toContain('That may be a whole number.');
    expect(text).not.toContain(q);
  },
);

test('text that is no id, no query and no name is escaped and finds nothing', async () => {
  for (const q of ['<script>alert(1)</script>', '../..', '%00', '" OR 1', 'x'.repeat(400), '*', '{{ x }}'])
    expect((await owner.get(`${FIND}?${new URLSearchParams({ q })}`)).status, q).toBeLessThan(400);
  const { text } = await owner.get(`${FIND}?q=${encodeURIComponent('<script>alert(1)</script>')}`);
  expect(text).not.toContain('<script>alert');
});

describe('a role finds what it may open, and no refusal is logged', () => {
  const refusals = async ({ user_id }: Browser): Promise<unknown[]> =>
    server.sql("SELECT message FROM audit_log WHERE actor_id = $1 AND outcome = 'refused'", [user_id]);

  test('AUDITOR: runs and the log', async () => {
    const member = await memberAs('AUDITOR');
    for (const kind of ['token', 'reactor', 'proxy', 'application'] as const)
      expect((await find(member, ids[kind])).text, kind).toContain('Nothing matches.');
    expect((await find(member, ids.run)).path).toBe(`/console/runs/${ids.run}`);
    expect(textOf((await member.post(FIND, { q: '4242' })).text)).toContain('Nothing matches.');
    expect(await refusals(member)).toEqual([]);
  });

  test('SUPPORT: tokens', async () => {
    const member = await memberAs('SUPPORT');
    expect((await find(member, ids.token)).path).toBe(`/console/tokens/${ids.token}`);
    expect(textOf((await member.post(FIND, { q: '4242' })).text)).toContain('XXXXXXXXXXXX4242');
    for (const kind of ['reactor', 'run', 'log'] as const)
      expect((await find(member, ids[kind])).text, kind).toContain('Nothing matches.');
    expect(await refusals(member)).toEqual([]);
  });
});
