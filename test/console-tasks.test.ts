// The eleven everyday tasks of people in the console, in Chromium, from Home and by what is seen on the pages alone, in few steps.
// PICTURES=docs/console takes the pictures of the docs.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { addUsage, ALL_APPLICATIONS } from '../src/modules/access/rows/usage.ts';
import { DAY_MS } from '../src/platform/base/times.ts';
import { launchChromium, openMember, type Person } from './support/chromium.ts';
import { join } from './support/people.ts';
import { isInstalled } from './support/programs.ts';
import { makeReactor, react } from './support/reactors.ts';
import { type SharedServer, type TestTenant, useServer } from './support/server.ts';

const NUMBER = '4242424242424242';
const CARD = { type: 'card', data: { number: NUMBER, expiration_month: 12, expiration_year: 2030 } };

describe.skipIf(!isInstalled('chromium'))('a new user', () => {
  let server: SharedServer;
  let tenant: TestTenant;
  let chromium: Browser;
  let person: Person;
  let page: Page;
  let card_id: string;
  let colleague: string;
  /** A key that has read the value of the card. */
  let reading: TestTenant;

  const ask = async (method: string, path: string, json?: object, key = tenant.api_key) => {
    const { status, body, text } = await server.request(method, path, { key, ...(json && { json }) });
    expect(status, text).toBeLessThan(300);
    return body;
  };

  /** Yesterday at noon, code failed at its second line; it did so a minute ago in another reactor. */
  const failTwice = async (): Promise<void> => {
    const code = 'module.exports = async ({ args }) => {\n  args.card.charge();\n};';
    const yesterday = Math.floor(Date.now() / DAY_MS) * DAY_MS - DAY_MS / 2;
    for (const at of [yesterday, Date.now()]) {
      server.clock.offsetMs = at - Date.now();
      const made = await makeReactor(server, { code, key: tenant.api_key });
      expect((await react(server, made, { card: {} }, { key: tenant.api_key })).status).toBe(500);
    }
    await vi.waitFor(async () => expect((await ask('GET', '/runs')).data).toHaveLength(2));
  };

  /** Thirty days, with fewer requests at weekends. */
  const fillUsage = (): Promise<void> => {
    const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
    const rows = Array.from({ length: 30 }, (_, daysAgo) => {
      const hour = today - daysAgo * DAY_MS;
      const tokens = ([0, 6].includes(new Date(hour).getUTCDay()) ? 300 : 1_000) + ((daysAgo * 7_919) % 400);
      const more = { hour, application_id: ALL_APPLICATIONS, latencies: [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0] };
      return (
        [
          ['stored', tokens],
          ['used', tokens / 2],
          ['revealed', tokens / 100],
        ] as const
      ).map(([kind, count]) => ({ ...more, kind, requests: Math.round(count), tokens: Math.round(count) }));
    });
    return addUsage(server.ctx.db.for({ tenant_id: tenant.tenant_id }), rows.flat());
  };

  beforeAll(async () => {
    server = await useServer();
    tenant = await server.newTenant({ name: 'Acme Payments' });
    chromium = await launchChromium();
    card_id = (await ask('POST', '/tokens', CARD)).id;
    await ask('POST', '/tokens', { ...CARD, data: { ...CARD.data, number: '5555555555554444' } });
    await failTwice();
    await fillUsage();
    const rule = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
    const { id: application_id, key: api_key } = await ask('POST', '/applications', {
      name: 'Nightly report',
      type: 'private',
      rules: [rule],
    });
    reading = { ...tenant, application_id, api_key };
    for (const _ of [1, 2, 3]) await ask('GET', `/tokens/${card_id}`, undefined, api_key);
    const code = 'module.exports = ({ args }) => ({ raw: args.card.number.slice(-4) });';
    const charging = await makeReactor(server, { code, key: tenant.api_key });
    for (const _ of [1, 2])
      expect((await react(server, charging, { card: `{{ ${card_id} }}` }, { key: tenant.api_key })).status).toBe(200);
    colleague = (await join(server, { tenant, email: 'grace@example.com' })).member_id;
    person = await openMember(chromium, server, tenant);
    ({ page } = person);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.base_url });
  });
  afterAll(async () => {
    await person?.close();
    await chromium?.close();
  });

  type Step = () => Promise<unknown>;

  /** Playwright touches what is visible alone. @param most clicks, fields and choices that the task may take. */
  const fromHome = async (most: number, steps: readonly Step[]): Promise<void> => {
    expect(steps.length).toBeLessThanOrEqual(most);
    await page.goto('/console/home');
    for (const step of steps) await step();
  };

  const follow =
    (name: string | RegExp, within?: Locator): Step =>
    () =>
      (within ?? page).getByRole('link', { name, exact: true }).click();
  const press =
    (name: string | RegExp): Step =>
    () =>
      page.getByRole('button', { name, exact: true }).click();
  const type =
    (label: string, text: string): Step =>
    () =>
      page.getByRole('textbox', { name: label, exact: true }).fill(text);
  const open =
    (summary: string, within?: Locator): Step =>
    () =>
      (within ?? page).locator('summary', { hasText: summary }).click();

  /** The box of all pages, and the record that it found. */
  const findCard: readonly [Step, Step] = [
    async () => {
      await page.getByRole('searchbox', { name: 'Find' }).fill('4242');
      await page.keyboard.press('Enter');
      await page.waitForURL('**/console/find');
      await person.picture('find');
    },
    follow(/4242/),
  ];

  const copied = (): Promise<string> => page.evaluate('navigator.clipboard.readText()');

  test('1. finds a card by its last four digits in two steps, which are in no URL', async () => {
    await fromHome(2, findCard);
    await page.waitForURL(`**/console/tokens/${card_id}`);
    await page.getByRole('heading', { name: '4242' }).first().waitFor();
    expect(await page.content()).not.toContain(NUMBER);
  });

  test('2. sees who read the card, in two steps, and no rows of people who looked around', async () => {
    await fromHome(2, findCard);
    await page.locator('svg:visible', { hasText: '3 reveals' }).waitFor();
    const rows = page.locator('#timeline li');
    expect(await rows.allTextContents()).toEqual([
      expect.stringMatching(/^Used by code of Reactor for First application 2 times/),
      expect.stringMatching(/^Revealed to Nightly report 3 times/),
      expect.stringMatching(/^Created by First application/),
    ]);
    await person.picture('token');
  });

  test('3. makes a key that reads values in /pci/ alone, in six steps, and types no JSON', async () => {
    const { id: elsewhere } = await ask('POST', '/tokens', { type: 'token', data: 'x' });
    await fromHome(6, [
      follow('Applications'),
      follow('New application'),
      type('Name', 'Support tool'),
      () => page.getByRole('radio', { name: /^Read raw values/ }).check(),
      async () => {
        await page.getByText('read the values of all tokens').waitFor();
        await page.getByLabel('Which tokens').fill('/pci/');
        await page.getByText('read the values of tokens below /pci/').waitFor();
        expect(await page.getByLabel('Rules', { exact: true }).isVisible()).toBe(false);
      },
      press('Create application'),
    ]);
    await page.getByRole('heading', { name: 'A first request' }).waitFor();
    await press('Copy')();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const key = await copied();
    expect((await ask('GET', `/tokens/${card_id}`, undefined, key)).data.number).toBe(NUMBER);
    expect((await server.request('GET', `/tokens/${elsewhere}`, { key })).status).toBe(403);
  });

  test('4. writes, tries and deploys a reactor, and undoes a bad deploy in two clicks', async () => {
    const code = 'module.exports = ({ args }) => ({ raw: { last4: args.card.number.slice(-4) } });';
    await fromHome(9, [
      follow('Reactors'),
      type('Name', 'Charge a card'),
      press('Create reactor'),
      type('Code', code),
      type('Last four', '4242'),
      press('Find a token'),
      async () => {
        const expression = await page.locator('code', { hasText: card_id }).first().textContent();
        await page.getByLabel('Arguments').fill(JSON.stringify({ card: expression }));
      },
      press('Test draft'),
      press('Deploy version 2'),
    ]);
    await page.getByText('live: version 2').waitFor();
    await type('Code', 'module.exports = ({ args }) => {\n  return args.cart.number;\n};')();
    await press('Test draft')();
    await page.getByText('TypeError').waitFor();
    expect(await page.locator('.gutter .marked').textContent()).toBe('2\n');
    await type('Note', 'Straight from the cart')();
    await press('Deploy version 3')();
    await page.getByText('live: version 3').waitFor();
    const [, id = ''] = /reactors\/([0-9a-f-]+)/.exec(page.url()) ?? [];
    for (const click of [open('Restore version 2'), press('Restore version 2')]) await click();
    await page.getByText('Version 2 was restored. It runs now as version 4.').waitFor();
    await page.locator('#versions').scrollIntoViewIfNeeded();
    await person.picture('reactor-versions');
    expect((await ask('GET', `/reactors/${id}`)).formula.code).toBe(code);
  });

  test('5. makes a proxy and previews a request in six steps', async () => {
    await fromHome(6, [
      follow('Proxies'),
      follow('New proxy'),
      type('Name', 'Payments'),
      () => page.getByLabel('Destination').fill('https://api.example.com/v1'),
      press('Create proxy'),
      press('Preview'),
    ]);
    await page.getByText('POST /v1 HTTP/1.1').waitFor();
  });

  test('6. sees the errors of yesterday in three steps, and their line of code in one more', async () => {
    await fromHome(3, [follow('Runs'), follow('Failed'), follow('Yesterday')]);
    const rows = page.getByRole('table', { name: 'Runs' }).locator('tbody tr');
    expect(await rows.count()).toBe(1);
    expect(await rows.textContent()).toContain('TypeError');
    await follow('line 2', rows)();
    await page.getByText('A run failed at').waitFor();
    expect(await page.locator('.gutter .marked').textContent()).toBe('2\n');
  });

  test('7. sees the usage of 30 days in one step, and the hours of a day in another', async () => {
    await fromHome(1, [follow('Usage')]);
    const heights: number[] = await page.evaluate(
      "[...document.querySelectorAll('svg.bars rect.stored')].map((rect) => rect.getBoundingClientRect().height)",
    );
    expect(heights).toHaveLength(30);
    expect(Math.min(...heights)).toBeGreaterThan(5);
    await person.picture('usage');
    const day = new Date(Date.now() - 3 * DAY_MS).toISOString().slice(0, 10);
    await page
      .getByRole('link', { name: `${day.slice(5)} UTC` })
      .first()
      .click();
    await page.getByRole('heading', { name: `Usage of ${day}` }).waitFor();
  });

  test('8. copies the id, curl and JavaScript of a card with a click each, and they run', async () => {
    await fromHome(3, [...findCard, press('Copy curl')]);
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const env = { PATH: process.env['PATH'], SVC_API_KEY: tenant.api_key };
    const run = async (file: string, ...args: string[]): Promise<unknown> =>
      JSON.parse((await promisify(execFile)(file, args, { env })).stdout);
    const curl = await copied();
    expect(await run('sh', '-c', curl.replace('curl ', 'curl -sS '))).toMatchObject({ id: card_id });
    await press('Copy JavaScript')();
    await page.getByRole('button', { name: 'Copied' }).nth(1).waitFor();
    expect(await run(process.execPath, '--input-type=module', '-e', await copied())).toMatchObject({ id: card_id });
    await press('Copy id')();
    await page.getByRole('button', { name: 'Copied' }).nth(2).waitFor();
    expect(await copied()).toBe(card_id);
  });

  test('9. revokes a key in five steps', async () => {
    const { api_key: key } = reading;
    const [, , id = ''] = key.split('_');
    await fromHome(5, [
      follow('Applications'),
      follow('Nightly report'),
      follow(id),
      open('Revoke this key'),
      press('Revoke the key'),
    ]);
    await page.getByText('The key was revoked.').waitFor();
    expect((await server.request('GET', '/tokens', { key })).status).toBe(401);
  });

  test('10. changes the role of a colleague in four steps', async () => {
    const row = page.getByRole('row', { name: 'grace@example.com' });
    await fromHome(4, [
      follow('People'),
      open('Change', row),
      () => row.getByLabel('Role').selectOption('AUDITOR'),
      () => row.getByRole('button', { name: 'Change the role' }).click(),
    ]);
    await page.getByText('The role was changed. Takes effect now.').waitFor();
    const { data } = await ask('GET', '/tenants/self/members');
    expect(data.find(({ id }: { id: string }) => id === colleague).role).toBe('AUDITOR');
  });

  test('11. reveals the value of a card in two steps from its page, which says who saw it', async () => {
    await fromHome(4, [...findCard, open('Reveal the value'), press('Reveal the value')]);
    await page.getByRole('heading', { name: 'Value', exact: true }).waitFor();
    expect(await page.locator('pre').textContent()).toContain(NUMBER);
    await follow('Back to the token')();
    await page.locator('#timeline li', { hasText: 'Revealed to Ada Lovelace' }).waitFor();
    expect(await page.content()).not.toContain(NUMBER);
  });

  test('meets no page that made an error, broke its policy or asked another origin for anything', () => {
    expect(person.faults).toEqual([]);
  });
});
