// The usage page: 30 days by day, a day by hour, of all requests or of an application's, drawn and as a table.
import { beforeAll, expect, test } from 'vitest';
import { addUsage, ALL_APPLICATIONS } from '../src/modules/access/rows/usage.ts';
import { type Browser, type SharedConsole, textOf, unescaped, useConsole } from './support/console.ts';
import type { TestTenant } from './support/server.ts';

const USAGE = '/console/usage';
const DAY_MS = 24 * 3_600_000;

let server: SharedConsole;
let tenant: TestTenant;
let owner: Browser;
let application_id: string;
/** The newest day. */
let today: Date;

const dayText = (daysAgo: number): string => new Date(today.getTime() - daysAgo * DAY_MS).toISOString().slice(0, 10);

/** Of each of the last 40 days, at noon: as many stored tokens as days ago, of one request. */
beforeAll(async () => {
  server = await useConsole();
  tenant = await server.newTenant();
  owner = await server.signIn({ tenant });
  ({ application_id } = await server.newKey(tenant, { permissions: ['token:read'] }));
  today = new Date(Math.floor(server.ctx.now().getTime() / DAY_MS) * DAY_MS);
  const latencies = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
  const at = (daysAgo: number, id: string, tokens: number, kind: 'stored' | 'failed' = 'stored') => ({
    hour: today.getTime() - daysAgo * DAY_MS + DAY_MS / 2,
    kind,
    application_id: id,
    requests: 1,
    tokens,
    latencies,
  });
  await addUsage(server.ctx.db.for({ tenant_id: tenant.tenant_id }), [
    ...Array.from({ length: 40 }, (_, daysAgo) => at(daysAgo, ALL_APPLICATIONS, 1000 + daysAgo)),
    at(3, application_id, 7),
    at(3, ALL_APPLICATIONS, 0, 'failed'),
  ]);
});

const show = async (path: string, browser = owner): Promise<string> => {
  const { status, text } = await browser.get(path);
  expect(status, text).toBe(200);
  expect(text.length, path).toBeLessThan(40_000);
  return text;
};

const wordsOf = (page: string): string => textOf(page.replaceAll('<', ' <')).replace(/\s+/g, ' ');

/** The names of bars and where they lead. */
const barsOf = (page: string): [name: string, path: string][] =>
  [...page.matchAll(/<a href="([^"]+)" aria-label="([^"]+)"/g)].map(([, path = '', name = '']) => [
    name,
    unescaped(path),
  ]);

test('draws 30 days, with the same as a table, and each bar leads to the hours of its day', async () => {
  const page = await show(USAGE);
  expect(page).toContain(`<h1>Usage from ${dayText(29)} to ${dayText(0)}</h1>`);
  const bars = barsOf(page);
  expect(bars).toHaveLength(30);
  expect(bars.map(([name]) => name)).toContain(`${dayText(3).slice(5)} UTC: 1,003 stored, 1 errors`);
  expect(wordsOf(page)).toContain(`${dayText(29).slice(5)} 1,029 0 0 0`);
  expect(wordsOf(page)).not.toContain('1,030');
  expect(wordsOf(page)).toMatch(/Stored 30 30,435 24 ms/);
  const [, path = ''] = bars[26] ?? [];
  const hours = await show(path);
  expect(hours).toContain(`<h1>Usage of ${dayText(3)}</h1>`);
  expect(barsOf(hours).map(([name]) => name)).toContain('12:00 UTC: 1,003 stored, 1 errors');
  expect(barsOf(hours)[12]?.[1]).toMatch(/^\/console\/logs\?start_date=/);
});

test('goes to earlier and later times, and not beyond today', async () => {
  const link = (page: string, name: string): string =>
    unescaped(new RegExp(`href="([^"]+)"[^>]*>${name}<`).exec(page)?.[1] ?? '');
  const newest = await show(USAGE);
  expect(link(newest, 'Later')).toBe('');
  const earlier = await show(link(newest, 'Earlier'));
  expect(wordsOf(earlier)).toContain(`${dayText(39).slice(5)} 1,039`);
  expect(wordsOf(earlier)).toMatch(/Stored 10 10,345/);
  expect(await show(link(earlier, 'Later'))).toContain(`to ${dayText(0)}</h1>`);
  for (const odd of ['2999-01-01', 'odd', '2026-13-40', dayText(-1)])
    expect(await show(`${USAGE}?to=${odd}`), odd).toContain(`to ${dayText(0)}</h1>`);
  expect((await owner.get(`${USAGE}?to=a&to=b`)).status).toBe(400);
});

test('is of one application, which a form chooses', async () => {
  const page = await show(`${USAGE}?application_id=${application_id}`);
  expect(wordsOf(page)).toMatch(/Stored 1 7 24 ms/);
  expect(page).toContain(`<option value="${application_id}" selected>`);
  const other = await server.newKey(await server.newTenant(), { permissions: ['token:read'] });
  expect(wordsOf(await show(`${USAGE}?application_id=${other.application_id}`))).toMatch(/Stored 0 0/);
});

test('opens for roles that read reports, and another tenant sees nothing of it', async () => {
  const anonymous = await server.signIn({ tenant: await server.newTenant() });
  expect(wordsOf(await show(USAGE, anonymous))).toContain('Nothing happened.');
  for (const [role, status] of [
    ['DEVELOPER', 200],
    ['SUPPORT', 403],
    ['AUDITOR', 403],
  ] as const) {
    const member = await server.signIn({ tenant });
    const path = `/tenants/self/members/${member.member_id}`;
    expect((await server.request('PUT', path, { json: { role }, key: tenant.api_key })).status).toBe(200);
    expect((await member.get(USAGE)).status, role).toBe(status);
    expect((await member.get('/console/home')).text.includes(USAGE), role).toBe(status === 200);
  }
});
