// The whole way of people through the pages, in a real browser: the owner's first link, an invitation by mail, acceptance by
// keyboard, sign-in, a masked card, a reactor's run, an application, the log, and removal.
// PICTURES=docs/console takes the pictures of the docs.
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTenant } from '../src/modules/people/bootstrap.ts';
import { sendDueMails } from '../src/modules/people/send-mails.ts';
import { launchChromium, openPerson, type Person } from './support/chromium.ts';
import { isInstalled } from './support/programs.ts';
import { startServer, type TestServer } from './support/server.ts';
import { startSmtp, type TestSmtp } from './support/smtp.ts';

const CARD = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' };
const PASSWORDS = { ada: 'analytical engine 1843', grace: 'nanoseconds of wire' };

const CODE = `module.exports = async ({ args }) => {
  const { card, amount } = args;
  if (amount <= 0) throw new Error('nothing to charge');
  return { raw: { brand: 'visa', last4: card.number.slice(-4), amount } };
};
`;

/** Types as a person does who has no mouse: from field to field by Tab. */
const typeThrough = async (page: Page, first: string, texts: string[]): Promise<void> => {
  await page.getByLabel(first).focus();
  for (const [index, text] of texts.entries()) {
    if (index > 0) await page.keyboard.press('Tab');
    await page.keyboard.type(text);
  }
  await page.keyboard.press('Enter');
};

describe.skipIf(!isInstalled('chromium'))('the way of people through the pages, in Chromium', () => {
  let server: TestServer;
  let smtp: TestSmtp;
  let chromium: Browser;
  let api_key: string;
  let reactor_id: string;
  let card_id: string;
  const people: Person[] = [];

  const open = async (): Promise<Person> => {
    const person = await openPerson(chromium, server.base_url);
    people.push(person);
    return person;
  };

  /** Sends what is due, and finds the link in the mail that came for somebody. */
  const linkFor = async (address: string): Promise<string> => {
    await sendDueMails(server.ctx, server.base_url);
    const mail = smtp.mails.findLast(({ to }) => to.includes(address));
    const [link] = /https?:\/\/\S+\/join\/\w+/.exec(mail?.text ?? '') ?? [];
    expect(link, `a mail for ${address}`).toBeDefined();
    return link as string;
  };

  const post = async (path: string, json: unknown): Promise<{ id: string }> => {
    const { status, body, text } = await server.request('POST', path, { json, key: api_key });
    expect(status, text).toBeLessThan(300);
    return body as { id: string };
  };

  beforeAll(async () => {
    smtp = await startSmtp({ tls: 'none' });
    server = await startServer({ SMTP_URL: smtp.url, SMTP_TLS: 'off', MAIL_FROM: 'Strongroom <vault@example.com>' });
    chromium = await launchChromium();
    const made = await createTenant(server.ctx, { name: 'Acme Payments', ownerEmail: 'ada@example.com' });
    api_key = made?.api_key.reveal() ?? '';
    card_id = (await post('/tokens', { type: 'card', data: CARD, metadata: { order: '4711' } })).id;
    await post('/tokens', { type: 'bank', data: { routing_number: '110000000', account_number: '000123456789' } });
    await post('/tokens', { type: 'social_security_number', data: '123-45-6789' });
    await post('/tokens', { data: 'Ada Lovelace', metadata: { customer: 'c-17' } });
    const formula = await post('/reactor-formulas', { name: 'Charge', type: 'private', code: CODE });
    reactor_id = (await post('/reactors', { name: 'Charge a card', formula: { id: formula.id } })).id;
    await post('/proxies', { name: 'Payments API', destination_url: 'https://api.payments.example/v1' });
  });
  afterAll(async () => {
    await Promise.all(people.map((person) => person.close()));
    await chromium?.close();
    await server?.close();
    await smtp?.close();
  });

  let ada: Person;
  let grace: Person;

  test('the owner comes by the first link, with the keyboard alone', async () => {
    ada = await open();
    await ada.page.goto(await linkFor('ada@example.com'));
    await ada.picture('join');
    await typeThrough(ada.page, 'First name', ['Ada', 'Lovelace', PASSWORDS.ada]);
    await ada.page.waitForURL('**/console/home');
  });

  test('the owner invites a person, who joins, signs out, and signs in again', async () => {
    await ada.page.goto('/console/people');
    await ada.page.getByLabel('E-mail address').fill('grace@example.com');
    await ada.page.keyboard.press('Enter');
    await ada.page.getByText('grace@example.com').first().waitFor();
    await ada.picture('people');

    const link = await linkFor('grace@example.com');
    grace = await open();
    await grace.page.goto(link);
    await typeThrough(grace.page, 'First name', ['Grace', 'Hopper', PASSWORDS.grace]);
    await grace.page.waitForURL('**/console/home');
    await grace.page.getByRole('button', { name: 'Sign out' }).click();
    await grace.page.waitForURL('**/console/sign-in');
    await grace.picture('sign-in');
    await typeThrough(grace.page, 'E-mail address', ['grace@example.com', PASSWORDS.grace]);
    await grace.page.waitForURL('**/console/home');

    const again = await grace.page.goto(link);
    expect(again?.status()).toBe(410);
    await grace.picture('dead-link');
  });

  test('a card is looked at by its mask, and no page has its number or its code', async () => {
    await grace.page.goto('/console/tokens');
    await grace.picture('tokens');
    await grace.page.locator(`a[href="/console/tokens/${card_id}"]`).first().click();
    await grace.page.waitForURL(`**/console/tokens/${card_id}`);
    const text = await grace.page.content();
    expect(text).toContain('XXXXXXXXXXXX4242');
    expect(text).not.toContain(CARD.number);
  });

  test('a reactor is run on the card', async () => {
    await grace.page.goto('/console/reactors');
    await grace.picture('reactors');
    await grace.page.getByRole('link', { name: 'Charge a card' }).click();
    await grace.page.waitForURL(`**/console/reactors/${reactor_id}`);
    await grace.page.getByLabel('Arguments').fill(JSON.stringify({ card: `{{ ${card_id} }}`, amount: 1999 }, null, 2));
    await grace.page.getByRole('button', { name: 'Run', exact: true }).click();
    await grace.page.getByText('"last4": "4242"').waitFor();
    await grace.picture('reactor');

    await grace.page.getByLabel('Arguments').fill(JSON.stringify({ card: `{{ ${card_id} }}`, amount: 0 }, null, 2));
    await grace.page.getByRole('button', { name: 'Run', exact: true }).click();
    await grace.page.getByText('nothing to charge', { exact: true }).waitFor();
    expect(await grace.page.locator('.gutter .marked').textContent()).toBe('3\n');
    await grace.picture('reactor-error');
  });

  test('the error of code is on the first page and among the runs, and both lead to its line', async () => {
    const { page } = grace;
    await server.ctx.usage.write();
    await page.goto('/console/home');
    const attention = page.locator('section', { hasText: 'Needs attention' }).last();
    await attention.getByText('1 error').waitFor();
    await grace.picture('home');
    await attention.getByRole('link', { name: 'line 3' }).click();
    await page.getByText('A run failed at').waitFor();
    expect(await page.locator('.gutter .marked').textContent()).toBe('3\n');

    await page.goto('/console/runs');
    await grace.picture('runs');
    await page.getByRole('link', { name: 'Failed' }).click();
    expect(await page.locator('tbody tr').count()).toBe(1);
    await page.locator('tbody tr td a').first().click();
    await page.getByRole('heading', { name: 'What happened' }).waitFor();
    await page.getByText('XXXXXXXXXXXX4242').waitFor();
    await grace.picture('run');
    await page.getByRole('link', { name: 'line 3' }).click();
    await page.waitForURL(`**/console/reactors/${reactor_id}?line=3#code`);
  });

  test('a proxy is tried without a value being seen or sent', async () => {
    await grace.page.goto('/console/proxies');
    await grace.picture('proxies');
    await grace.page.getByRole('link', { name: 'Payments API' }).click();
    await grace.page.getByLabel('Path and query').fill('/charges');
    await grace.page
      .getByLabel('Body')
      .fill(JSON.stringify({ number: `{{ ${card_id} | json: '$.number' }}`, to: '{{ no-such-token }}' }, null, 2));
    await grace.page.getByRole('button', { name: 'Preview' }).click();
    await grace.page.getByRole('link', { name: card_id }).or(grace.page.getByText(card_id)).first().waitFor();
    expect(await grace.page.content()).not.toContain(CARD.number);
    await grace.picture('proxy');
  });

  test('the key of a proxy and a revealed value are copied by a button', async () => {
    const { page } = grace;
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.base_url });
    const copied = async (): Promise<string> => {
      await page.getByRole('button', { name: 'Copy', exact: true }).click();
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      return page.evaluate('navigator.clipboard.readText()');
    };
    await page.getByText('Show the key').click();
    expect(await copied()).toMatch(/^[0-9A-Za-z]{32}$/);
    await page.goto(`/console/tokens/${card_id}`);
    await page.getByText('Reveal the value', { exact: true }).first().click();
    await page.getByRole('button', { name: /reveal/i }).click();
    await page.getByRole('heading', { name: 'Value' }).waitFor();
    expect(JSON.parse(await copied())).toMatchObject({ number: CARD.number });
  });

  test.each([
    ['Formulas', 'formulas'],
    ['Webhooks', 'webhooks'],
    ['Who may', 'access'],
    ['Settings', 'settings'],
  ])('the page %s opens from the menu', async (name, picture) => {
    await grace.page.getByRole('link', { name, exact: true }).click();
    await grace.page.getByRole('heading', { level: 1, name }).waitFor();
    await grace.picture(picture);
  });

  test('an application is made in the console, its key is copied once, and its name is changed', async () => {
    const { page } = grace;
    await page.goto('/console/applications');
    await page.getByRole('link', { name: 'New application' }).click();
    await page.getByRole('radio', { name: /^Custom/ }).check();
    await page.getByLabel('token:create').check();
    await page.getByLabel('Requests per second').fill('many');
    await page.getByRole('button', { name: 'Create application' }).click();
    await page.getByText('It must be a whole number').waitFor();
    await grace.picture('application-new');
    expect(await page.getByLabel('token:create').isChecked()).toBe(true);
    await page.getByLabel('Name').fill('Checkout');
    await page.getByLabel('Requests per second').fill('50');
    await page.getByRole('button', { name: 'Create application' }).click();
    await page.getByText('Copy the key now.').waitFor();
    await page.getByRole('button', { name: 'Copy', exact: true }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const key: string = await page.evaluate('navigator.clipboard.readText()');
    expect((await server.tokenize('4711', key)).status).toBe(200);
    await page.getByRole('link', { name: 'Done' }).click();
    await page.getByRole('heading', { name: 'Checkout' }).waitFor();
    expect(await page.content()).not.toContain(key);

    await server.ctx.keyUses.write();
    await page.goto('/console/applications');
    await grace.picture('applications');
    await page.getByRole('link', { name: 'Checkout' }).click();
    await page.getByLabel('Name').fill('Shop checkout');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The application was saved.').waitFor();
    await grace.picture('application');

    const other = await page.context().newPage();
    await other.goto(page.url());
    await other.getByText('Replace all keys').click();
    await other.getByRole('button', { name: /make a new one/ }).click();
    await other.getByText('Copy the key now.').waitFor();
    expect((await server.tokenize('4711', key)).status).toBe(401);
    await other.getByRole('link', { name: 'Done' }).click();
    await other.getByRole('heading', { name: 'Shop checkout' }).waitFor();
    // The browser has not stored the page with the key.
    await expect(other.goBack()).rejects.toThrow('ERR_CACHE_MISS');
    await other.close();
  });

  test('the log names the actor', async () => {
    await grace.page.goto(`/console/logs?entity_id=${card_id}`);
    await grace.page.getByText('Token used').first().waitFor();
    expect(await grace.page.content()).toContain('Grace Hopper');
    await grace.page.goto('/console/logs');
    await grace.picture('logs');
    const { body } = await server.request('GET', `/logs?entity_id=${card_id}`, { key: api_key });
    expect(body.data.filter((entry: { actor_type: string }) => entry.actor_type === 'user').length).toBeGreaterThan(1);
  });

  test('a removed member is signed out at the next request', async () => {
    await ada.page.goto('/console/people');
    await ada.page.getByText('Remove', { exact: true }).click();
    await ada.page.getByRole('button', { name: 'Remove Grace Hopper' }).click();
    await ada.page.getByText('Grace Hopper').waitFor({ state: 'detached' });
    await grace.page.getByRole('link', { name: 'Tokens' }).click();
    await grace.page.waitForURL('**/console/sign-in*');
  });

  test('no page made an error, broke its policy or asked another origin for anything', () => {
    expect(people.flatMap(({ faults }) => faults)).toEqual([]);
  });
});
