// The console's pages of runs: what failed is found by its outcome and resource, and leads to the line of its code.
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Browser, type SharedConsole, textOf, useConsole } from './support/console.ts';
import { makeReactor, react } from './support/reactors.ts';
import type { TestTenant } from './support/server.ts';
import { makeProxy } from './support/stored-proxies.ts';
import { withoutDrawn } from './support/text.ts';

let server: SharedConsole;
let tenant: TestTenant;
let browser: Browser;
let reactor_id: string;
let card_id: string;
/** Of the run that crashed. */
let run_id: string;

/** Fails at its third line where the amount is zero. */
const CODE = `module.exports = async ({ args }) => {
  const { card, amount } = args;
  if (amount === 0) null.charge();
  return { raw: card.number.slice(-4) };
};`;

const runsOf = async (of = tenant): Promise<Record<string, any>[]> =>
  (await server.request('GET', '/runs', { key: of.api_key })).body.data;

beforeAll(async () => {
  server = await useConsole();
  tenant = await server.newTenant();
  browser = await server.signIn({ tenant });
  const { api_key: key } = tenant;
  const made = await makeReactor(server, { code: CODE, key });
  reactor_id = made.id;
  const card = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };
  card_id = (await server.request('POST', '/tokens', { json: card, key })).body.id;
  for (const amount of [1, 0]) {
    const args = { card: `{{ ${card_id} }}`, amount };
    const headers = { 'svc-trace-id': `console-run-${amount}` };
    expect((await react(server, made, args, { key, headers })).status).toBe(amount === 0 ? 500 : 200);
  }
  await vi.waitFor(async () => expect(await runsOf()).toHaveLength(2));
  run_id = (await runsOf()).find(({ outcome }) => outcome === 'crashed')?.['id'];
});

const show = async (path: string, by = browser): Promise<string> => {
  const { status, text } = await by.get(path);
  expect(status, text).toBe(200);
  return text;
};

/** The rows of the page, each as the text of its cells. */
const rowsOf = (page: string): string[][] =>
  [...page.matchAll(/<tr>(<td.*?)<\/tr>/gs)].map(([, row = '']) =>
    row.split('</td>').map((cell) => textOf(cell).replace(/\s+/g, ' ').trim()),
  );

const memberAs = async (role: string): Promise<Browser> => {
  const member = await server.signIn({ tenant });
  const path = `/tenants/self/members/${member.member_id}`;
  expect((await server.request('PUT', path, { json: { role }, key: tenant.api_key })).status).toBe(200);
  return member;
};

describe('the list', () => {
  test('has outcome, resource, error with a link to its line, and caller by name', async () => {
    const page = await show('/console/runs');
    const rows = rowsOf(page).map((cells) => cells.slice(1, 7));
    expect(rows).toHaveLength(2);
    const [outcome, resource, took, error, , caller] = rows.find(([text]) => text === '500 crashed') ?? [];
    expect([outcome, resource, error, caller]).toEqual([
      '500 crashed',
      'Reactor Reactor',
      'TypeError, line 3',
      'First application',
    ]);
    expect(took).toMatch(/^\d+ ms$/);
    expect(page).toContain(`href="/console/reactors/${reactor_id}?line=3#code"`);
    expect(page).toContain(`href="/console/runs/${run_id}"`);
  });

  test('is filtered by outcome, kind, resource and time, each in the URL', async () => {
    const other = await makeProxy(server, { destination_url: 'https://example.com' }, tenant.api_key);
    const now = new Date(server.ctx.now().getTime() + 60_000).toISOString();
    for (const [query, outcomes] of [
      ['outcome=any_failure', ['500 crashed']],
      ['outcome=success', ['200 success']],
      ['kind=proxy', []],
      [`kind=reactor&outcome=&resource_id=${reactor_id}`, ['500 crashed', '200 success']],
      [`resource_id=${other.id}`, []],
      [`start_date=${now}`, []],
      [`end_date=${now}`, ['500 crashed', '200 success']],
    ] as [string, string[]][]) {
      const page = await show(`/console/runs?${query}`);
      expect(
        rowsOf(page).map(([, outcome]) => outcome),
        query,
      ).toEqual(outcomes);
      if (outcomes.length === 0) expect(page, query).toContain('No runs match.');
    }
    const named = await show(`/console/runs?resource_id=${reactor_id}`);
    expect(named).toContain(`<option value="${reactor_id}" selected>Reactor</option>`);
  });

  test('says which filter is wrong, next to it', async () => {
    const { status, text } = await browser.get('/console/runs?outcome=odd&resource_id=<b>');
    expect(status).toBe(400);
    expect(text).toMatch(/name="outcome" aria-invalid="true"/);
    expect(text).toMatch(/name="resource_id" aria-invalid="true"/);
    expect(text).not.toContain('<b>');
  });

  test('of another tenant has none of these', async () => {
    const other = await server.signIn({ tenant: await server.newTenant() });
    expect(await show('/console/runs', other)).toContain('No runs match.');
    expect((await other.get(`/console/runs/${run_id}`)).status).toBe(404);
  });
});

describe('the page of a run', () => {
  test('leads to the line, the trace in the log, and its token by mask', async () => {
    const page = await show(`/console/runs/${run_id}`);
    expect(page).toContain(`href="/console/reactors/${reactor_id}?line=3#code"`);
    expect(page).toContain('href="/console/logs?trace_id=console-run-0"');
    expect(page).toContain(`href="/console/tokens/${card_id}"`);
    expect(textOf(page)).toContain('XXXXXXXXXXXX4242');
    const log = await show('/console/logs?trace_id=console-run-0');
    expect(rowsOf(log).map((cells) => cells[4])).toContain('Token used failed');
    const code = await show(`/console/reactors/${reactor_id}?line=3`);
    expect(textOf(code)).toContain('A run failed at line 3.');
    expect(code).toContain('data-error-line="3"');
    expect(textOf(code)).toContain('if (amount === 0) null.charge();');
  });

  test('a line that is not in the code, or no line, changes nothing on the page of the code', async () => {
    for (const line of ['0', '6', '-1', '3x', ''])
      expect(await show(`/console/reactors/${reactor_id}?line=${line}`), line).not.toContain('A run failed');
  });

  test('an auditor sees the line, and no link to pages that the role does not open', async () => {
    const page = await show(`/console/runs/${run_id}`, await memberAs('AUDITOR'));
    expect(textOf(page)).toContain('TypeError, line 3');
    expect(textOf(page)).toContain(card_id);
    expect(page).not.toMatch(/href="\/console\/(?:reactors|tokens|proxies)/);
    expect(withoutDrawn(page)).not.toContain('4242');
  });

  test('is refused to a role without log:read', async () => {
    const support = await memberAs('SUPPORT');
    for (const path of ['/console/runs', `/console/runs/${run_id}`]) expect((await support.get(path)).status).toBe(403);
  });
});

test('pages of runs are below 40 KB', async () => {
  for (const path of ['/console/runs', `/console/runs/${run_id}`])
    expect((await show(path)).length, path).toBeLessThan(40_000);
});
