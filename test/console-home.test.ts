// The console's first page: what happened, what needs attention with its line, where values went, and first steps until they are done.
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Browser, type SharedConsole, textOf, useConsole } from './support/console.ts';
import { makeReactor, react } from './support/reactors.ts';
import type { TestTenant } from './support/server.ts';

const HOME = '/console/home';

let server: SharedConsole;
beforeAll(async () => {
  server = await useConsole();
});

const show = async (browser: Browser, path = HOME): Promise<string> => {
  const { status, text } = await browser.get(path);
  expect(status, text).toBe(200);
  return text;
};

const wordsOf = (page: string): string => textOf(page.replaceAll('<', ' <')).replace(/\s+/g, ' ');

/** The text of a card, by its heading. */
const cardOf = (page: string, heading: string): string | undefined => {
  const card = page.split('<section').find((part) => part.includes(`>${heading}</h2>`));
  return card && wordsOf(`<section${card.split('</section>')[0]}`);
};

const memberAs = async (tenant: TestTenant, role: string): Promise<Browser> => {
  const member = await server.signIn({ tenant });
  const path = `/tenants/self/members/${member.member_id}`;
  expect((await server.request('PUT', path, { json: { role }, key: tenant.api_key })).status).toBe(200);
  return member;
};

const storeCard = async ({ api_key: key }: TestTenant): Promise<string> => {
  const json = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };
  return (await server.request('POST', '/tokens', { json, key })).body.id;
};

/** Stores a card and runs code on it, which fails at its second line. */
const failOnce = async (tenant: TestTenant): Promise<{ reactor_id: string; card_id: string }> => {
  const { api_key: key } = tenant;
  const code = 'module.exports = async ({ args }) => {\n  args.card.charge();\n};';
  const made = await makeReactor(server, { code, key });
  const card_id = await storeCard(tenant);
  expect((await react(server, made, { card: `{{ ${card_id} }}` }, { key })).status).toBe(500);
  await vi.waitFor(async () =>
    expect((await server.request('GET', '/runs', { key })).body.data, 'the run has ended').toHaveLength(1),
  );
  await server.ctx.usage.write();
  return { reactor_id: made.id, card_id };
};

describe('a vault in use', () => {
  let tenant: TestTenant;
  let owner: Browser;
  let reactor_id: string;
  let card_id: string;
  beforeAll(async () => {
    tenant = await server.newTenant();
    ({ reactor_id, card_id } = await failOnce(tenant));
    owner = await server.signIn({ tenant });
  });

  test('has figures of the last 24 hours, as tiles, as bars that are links, and as a table', async () => {
    const page = await show(owner);
    expect(cardOf(page, 'Tokens')).toContain('1 +1 in this time');
    expect(cardOf(page, 'Uses by code and proxy')).toContain('1 in 1 request');
    expect(cardOf(page, 'Errors')).toContain('1 and 0 refused');
    const label = /aria-label="(\d\d:\d\d UTC: 1 stored, 1 used, 1 errors)"/.exec(page)?.[1];
    expect(label, page).toBeDefined();
    expect(page.match(/<a href="\/console\/logs\?start_date=[^"]+&amp;end_date=[^"]+" aria-label/g)).toHaveLength(24);
    expect(cardOf(page, 'Tokens by hour')).toMatch(/From, in UTC stored used revealed errors/);
    const [, errors = ''] = /class="count" href="([^"]+)"/.exec(page) ?? [];
    expect(wordsOf(await show(owner, errors.replaceAll('&amp;', '&')))).toContain('500 crashed');
  });

  test('has the same by day for a week and a month', async () => {
    for (const [range, days] of [
      ['7d', 7],
      ['30d', 30],
    ] as const) {
      const page = await show(owner, `${HOME}?range=${range}`);
      expect(page).toContain(`<h1>Last ${days} days</h1>`);
      expect(page.match(/<a href="\/console\/logs\?start_date=[^"]+" aria-label/g)).toHaveLength(days);
      expect(cardOf(page, 'Tokens')).toContain('1 +1 in this time');
    }
  });

  test('shows a crash of the last hour with a link to its line', async () => {
    const page = await show(owner);
    expect(cardOf(page, 'Needs attention')).toMatch(/1 error Reactor TypeError , line 2 , since/);
    expect(page).toContain(`href="/console/reactors/${reactor_id}?line=2#code"`);
    expect(page).toContain(`/console/runs?outcome=any_failure&amp;start_date=`);
  });

  test('names keys that can do all, end soon or never end, and invitations that wait', async () => {
    const own = await server.newTenant();
    const member = await server.signIn({ tenant: own });
    const { application_id } = await server.newKey(own, { permissions: ['token:read'] });
    const expires_at = new Date(server.ctx.now().getTime() + 3 * 24 * 3_600_000).toISOString();
    const key = { json: { name: 'July', expires_at }, key: own.api_key };
    expect((await server.request('POST', `/applications/${application_id}/keys`, key)).status).toBe(201);
    const invited = { json: { email: 'x@example.com' }, key: own.api_key };
    expect((await server.request('POST', '/tenants/self/invitations', invited)).status).toBe(201);
    const card = cardOf(await show(member), 'Needs attention') ?? '';
    expect(card).toContain('The key July of');
    expect(card).toMatch(/ends soon.*expires/);
    expect(card).toMatch(/all rights.*of First application has all permissions and no end/);
    expect(card).toContain('never expires');
    expect(card).toContain('1 waiting An invitation not accepted yet');
  });

  test('shows where values went, and how many were seen', async () => {
    const rule = { description: 'All', priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
    const reader = await server.newKey(tenant, { rules: [rule] });
    const seen = await server.request('GET', `/tokens/${card_id}`, { key: reader.api_key });
    expect(seen.body.data.number).toBe('4242424242424242');
    await server.ctx.usage.write();
    expect(cardOf(await show(owner), 'Values revealed')).toContain('1 in 1 request');
    expect(cardOf(await show(owner), 'Where values went')).toContain('Shown in plain text 1');
    expect(cardOf(await show(owner), 'Where values went')).toContain('Code in the sandbox 1');
  });

  test('is below 40 KB for each range, and writes only that the log was read', async () => {
    const member = await server.signIn({ tenant });
    for (const range of ['24h', '7d', '30d'])
      expect((await show(member, `${HOME}?range=${range}`)).length, range).toBeLessThan(40_000);
    const rows = await server.sql('SELECT DISTINCT entity_type, message FROM audit_log WHERE actor_id = $1', [
      member.user_id,
    ]);
    expect(
      rows.filter(
        ({ entity_type, message }) => entity_type !== 'log' && !/^Tokens? |^Tenant (?:member|invitation)/.test(message),
      ),
    ).toEqual([]);
  });

  test('an auditor sees failures and destinations, without links to what the role does not open', async () => {
    const page = await show(await memberAs(tenant, 'AUDITOR'));
    expect(cardOf(page, 'Needs attention')).toContain('TypeError , line 2');
    expect(cardOf(page, 'Where values went')).toContain('Code in the sandbox');
    expect(page).not.toMatch(/href="\/console\/(?:reactors|tokens|applications|people)/);
    expect(cardOf(page, 'Errors')).toBeUndefined();
  });

  test('a role without the log sees no figures, and the pages that it opens', async () => {
    const page = await show(await memberAs(tenant, 'SUPPORT'));
    expect(cardOf(page, 'What you can open')).toContain('Tokens');
    for (const heading of ['Needs attention', 'Where values went', 'Errors', 'First steps'])
      expect(cardOf(page, heading), heading).toBeUndefined();
  });
});

test('reveals above three times the usual of the hour need attention, with who made most', async () => {
  const tenant = await server.newTenant();
  const member = await server.signIn({ tenant });
  const id = await storeCard(tenant);
  const rule = { description: 'All', priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
  const reader = await server.newKey(tenant, { rules: [rule] });
  for (let count = 0; count < 10; count += 1)
    expect((await server.request('GET', `/tokens/${id}`, { key: reader.api_key })).status).toBe(200);
  await server.ctx.usage.write();
  const alarm = async () => cardOf(await show(member), 'Needs attention') ?? '';
  expect(await alarm()).toMatch(/10 reveals Above the usual 0 in the hour from .*, most by First application/);
  const { tenant_id } = tenant;
  const usual = (tokens: number) =>
    server.sql(
      `INSERT INTO usage_hours SELECT tenant_id, hour - day * interval '24 hours', kind, application_id, requests, $2,
  ms_5, ms_10, ms_25, ms_50, ms_100, ms_250, ms_500, ms_1000, ms_2500, ms_5000, ms_10000, ms_more
FROM usage_hours, generate_series(1, 8) AS day WHERE tenant_id = $1 AND kind = 'revealed' AND hour > now() - interval '2 hours'
ON CONFLICT (tenant_id, application_id, hour, kind) DO UPDATE SET tokens = excluded.tokens`,
      [tenant_id, tokens],
    );
  await usual(3);
  expect(await alarm()).toContain('Above the usual 3');
  await usual(4);
  expect(await alarm()).not.toContain('Above the usual');
});

test('an empty vault has first steps with its own URL, which are gone when they are done', async () => {
  const tenant = await server.newTenant();
  const member = await server.signIn({ tenant });
  const first = await show(member);
  expect(cardOf(first, 'First steps')).toContain(`curl ${server.base_url}/tokens`);
  expect(cardOf(first, 'First steps')).toContain(`fetch('${server.base_url}/tokens'`);
  expect(cardOf(first, 'Needs attention')).not.toContain('error');
  await failOnce(tenant);
  expect(cardOf(await show(member), 'First steps')).toMatch(
    /Store a token done.*Use it: in a reactor or through a proxy done/,
  );
  await server.newKey(tenant, { permissions: ['token:create'] });
  await server.signIn({ tenant });
  expect(cardOf(await show(member), 'First steps')).toBeUndefined();
});
