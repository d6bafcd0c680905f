// The page of a token shows where its value went: a picture, a folded timeline and reads of the mask, for roles that read the log.
import type { Browser as Chromium } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchChromium, openMember, takePicture } from './support/chromium.ts';
import { type Browser, textOf, withMembers } from './support/console.ts';
import { insertLogRows, logRowAt } from './support/log-rows.ts';
import { isInstalled } from './support/programs.ts';
import { makeReactor, react, startReactorServer } from './support/reactors.ts';
import type { TestTenant } from './support/server.ts';

const PAGE_BYTES_MAX = 40 * 1024;

let fixture: Awaited<ReturnType<typeof startReactorServer>>;
let server: ReturnType<typeof withMembers<typeof fixture.server>>;
let tenant: TestTenant;
let host: string;
let card_id: string;
let twin_id: string;

const ask = (method: string, path: string, more: object = {}) =>
  server.request(method, path, { key: tenant.api_key, ...more });

const send = (id: string) =>
  ask('POST', '/proxy', {
    json: { card: `{{ ${id} | json: '$.number' }}` },
    headers: { 'svc-proxy-url': `${fixture.url}/charges` },
  });

beforeAll(async () => {
  fixture = await startReactorServer();
  server = withMembers(fixture.server);
  ({ host } = new URL(fixture.url));
  tenant = await server.newTenant();
  const json = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };
  card_id = (await ask('POST', '/tokens', { json })).body.id;
  twin_id = (await ask('POST', '/tokens', { json })).body.id;
  const made = await makeReactor(server, {
    code: 'module.exports = ({ args }) => ({ raw: args.card.number.slice(-4) });',
    key: tenant.api_key,
  });
  for (const _ of [1, 2, 3]) expect((await send(card_id)).status).toBe(200);
  expect((await react(server, made, { card: `{{ ${card_id} }}` }, { key: tenant.api_key })).status).toBe(200);
});
afterAll(() => fixture?.close());

const memberAs = async (role: string): Promise<Browser> => {
  const member = await server.signIn({ tenant });
  const path = `/tenants/self/members/${member.member_id}`;
  expect((await ask('PUT', path, { json: { role } })).status).toBe(200);
  return member;
};

const show = async (by: Browser, id = card_id): Promise<string> => {
  const { status, text } = await by.get(`/console/tokens/${id}`);
  expect(status, text).toBe(200);
  return text;
};

/** The texts of the first picture. */
const drawnIn = (page: string): string[] =>
  [...(/<svg class="flow desk".*?<\/svg>/s.exec(page)?.[0] ?? '').matchAll(/<text[^>]*>(.*?)<\/text>/gs)].map(
    ([, text = '']) => textOf(text),
  );

const entriesOf = (page: string): string[] =>
  [...page.matchAll(/<li class="(?:\w*)">(.*?)<\/li>/gs)].map(([, entry = '']) =>
    textOf(entry).replace(/\s+/g, ' ').trim(),
  );

describe('the page of a token', () => {
  test('draws its source, hosts, code and plain text, with counts and how long ago', async () => {
    const member = await memberAs('ADMIN');
    await show(member);
    expect((await member.post(`/console/tokens/${card_id}/reveal`)).status).toBe(200);
    server.clock.offsetMs += 2 * 60_000;
    const page = await show(member);
    const drawn = drawnIn(page);
    expect(drawn).toEqual(
      expect.arrayContaining(['First application', '2 stored', '\u2022\u2022\u2022\u2022 4242 12/2030']),
    );
    expect(drawn).toEqual(
      expect.arrayContaining([
        host,
        '3 uses, last 2 min ago',
        'Reactor',
        '1 use, last 2 min ago',
        'left in plain text',
      ]),
    );
    expect(drawn).toEqual(expect.arrayContaining(['1 reveal, last 2 min ago', 'Ada Lovelace']));
    expect(textOf(page)).toContain('The value left for 3 places.');
    expect(page).toMatch(/<svg class="flow phone"/);
  });

  test('lists equal entries once, and links code, raw log and tokens of the same value', async () => {
    const member = await memberAs('ADMIN');
    const page = await show(member);
    const entries = entriesOf(page);
    expect(entries.find((entry) => entry.includes(host))).toMatch(/^Sent to .* by First application 3 times /);
    expect(entries.filter((entry) => entry.startsWith('Used by code of Reactor for First application'))).toHaveLength(
      1,
    );
    expect(entries.find((entry) => entry.startsWith('Created'))).toContain('by First application 2 times');
    expect(page).toMatch(/<a href="\/console\/reactors\/[^"]+"><bdi>Reactor<\/bdi>/);
    expect(page).toContain(`/console/logs?entity_id=${card_id}`);
    expect(textOf(page)).toContain(`Same value in${twin_id}`);
    // The reads of the mask are apart, and the reading of the timeline is none of them.
    expect(entries.join()).not.toContain('retrieved');
    expect(textOf(page)).toMatch(/Reads of the mask \d+/);
    expect(Buffer.byteLength(page)).toBeLessThan(PAGE_BYTES_MAX);
  });

  test('says so where the value has not left', async () => {
    const { id } = (await ask('POST', '/tokens', { json: { data: 'stays' } })).body;
    const page = await show(await memberAs('ADMIN'), id);
    expect(textOf(page)).toContain('Where has this value been?');
    expect(textOf(page)).toContain('The value has not left the vault.');
  });

  test('has no picture for a role without log:read, and asks for none', async () => {
    const support = await memberAs('SUPPORT');
    const page = await show(support);
    expect(page).not.toContain('<svg class="flow');
    expect(textOf(page)).not.toContain('Timeline');
    const rows = await server.sql('SELECT message, outcome FROM audit_log WHERE actor_id = $1', [support.user_id]);
    expect(rows.filter(({ outcome }) => outcome === 'refused')).toEqual([]);
    expect(rows.map(({ message }) => message)).not.toContain('Token timeline retrieved');
    const auditor = await memberAs('AUDITOR');
    expect((await auditor.get(`/console/tokens/${card_id}`)).status).toBe(403);
    expect(
      await server.sql("SELECT id FROM audit_log WHERE actor_id = $1 AND outcome = 'refused'", [auditor.user_id]),
    ).toEqual([]);
  });

  test('stays below 40 KB where a card has gone to very many places', async () => {
    const json = { type: 'card', data: { number: '5555555555554444' }, metadata: { note: 'v'.repeat(100) } };
    const { id } = (await ask('POST', '/tokens', { json })).body;
    for (let index = 0; index < 20; index += 1)
      await ask('POST', `/tokens/${id}/children`, { json: { data: `child ${index}`, mask: '{{ data }}'.repeat(8) } });
    const rows = Array.from({ length: 300 }, (_, index) => ({
      ...logRowAt(server, new Date(server.ctx.now().getTime() - index), id),
      entity_type: 'card',
      operation: 'use' as const,
      message: 'Token used',
      disclosure: 'used' as const,
      destination_host: `${'long-'.repeat(40)}${index}.example.com`,
    }));
    await insertLogRows(server, tenant.tenant_id, rows);
    const page = await show(await memberAs('ADMIN'), id);
    expect(textOf(page)).toContain('The value left for 200 places. The picture has 6 of them.');
    expect(textOf(page)).toContain('Older entries are in the raw log.');
    expect(Buffer.byteLength(page)).toBeLessThan(PAGE_BYTES_MAX);
  });
});

test('a revealed value is hidden after a minute, and the log keeps that it was seen', async () => {
  const member = await memberAs('ADMIN');
  await show(member);
  const { headers, text } = await member.post(`/console/tokens/${card_id}/reveal`);
  expect(text).toContain('4242424242424242');
  expect(headers.get('refresh')).toBe(`60; url=/console/tokens/${card_id}?done=hidden`);
  const after = await member.get(`/console/tokens/${card_id}?done=hidden`);
  expect(textOf(after.text)).toContain('The value was hidden after 60 seconds.');
  expect(after.text).not.toContain('4242424242424242');
});

describe.skipIf(!isInstalled('chromium'))('in a browser', () => {
  let chromium: Chromium;
  beforeAll(async () => {
    chromium = await launchChromium();
  });
  afterAll(() => chromium?.close());

  test('one of two pictures is seen, and a revealed value leaves the screen', async () => {
    const person = await openMember(chromium, server, tenant);
    const { page } = person;
    await page.goto(`/console/tokens/${card_id}`);
    for (const [width, seen] of [
      [1280, 'desk'],
      [320, 'phone'],
    ] as const) {
      await page.setViewportSize({ width, height: 900 });
      await takePicture(page, `token-been-${width}`);
      expect(await page.locator('svg.flow:visible').getAttribute('class')).toBe(`flow ${seen}`);
      const box = await page.locator('svg.flow:visible').boundingBox();
      expect((box?.x ?? 0) + (box?.width ?? width)).toBeLessThanOrEqual(width);
    }
    // The minute passes at once.
    await page.route('**/reveal', async (route) => {
      const sent = { ...route.request().headers(), 'sec-fetch-site': 'same-origin' };
      const response = await route.fetch({ headers: sent });
      const headers = { ...response.headers(), refresh: String(response.headers()['refresh']).replace(/^60;/, '0;') };
      await route.fulfill({ response, headers });
    });
    await page.getByText('Reveal the value', { exact: true }).first().click();
    await page.getByRole('button', { name: 'Reveal the value' }).click();
    await page.getByText('The value was hidden after 60 seconds.').waitFor();
    expect(await page.content()).not.toContain('4242424242424242');
    expect(person.faults).toEqual([]);
    await person.close();
  });
});
