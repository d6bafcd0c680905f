// Keys of the console in Chromium, and what each page says of its server: the mode and the zone of its times.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Browser as Chromium } from 'playwright-core';
import { launchChromium, openMember, type Person } from './support/chromium.ts';
import { type SharedConsole, useConsole } from './support/console.ts';
import { isInstalled } from './support/programs.ts';
import type { TestTenant } from './support/server.ts';

let server: SharedConsole;
let tenant: TestTenant;
beforeAll(async () => {
  server = await useConsole();
  tenant = await server.newTenant();
  for (const number of ['4242424242424242', '5555555555554444']) {
    const json = { type: 'card', data: { number } };
    expect((await server.request('POST', '/tokens', { json, key: tenant.api_key })).status).toBe(201);
  }
});

test('each page says that the server is one of development, and in which zone its times are', async () => {
  const { text } = await (await server.signIn({ tenant })).get('/console/home');
  expect(text).toContain('<span class="badge warn">development</span>');
  expect(text).toContain('data-zone>Times in UTC<');
});

describe.skipIf(!isInstalled('chromium'))('in Chromium', () => {
  let chromium: Chromium;
  let person: Person;
  beforeAll(async () => {
    chromium = await launchChromium();
    person = await openMember(chromium, server, tenant);
  });
  afterAll(() => chromium?.close());

  const focused = (): Promise<string> =>
    person.page.evaluate('document.activeElement.getAttribute("href") ?? document.activeElement.tagName');

  test('/ goes to Find, and arrows from there through the rows of a list and back', async () => {
    const { page } = person;
    await page.goto('/console/tokens');
    await page.keyboard.press('/');
    expect(await focused()).toBe('INPUT');
    await page.keyboard.press('ArrowDown');
    const first = await focused();
    expect(first).toMatch(/^\/console\/tokens\//);
    await page.keyboard.press('ArrowDown');
    const second = await focused();
    expect(second).toMatch(/^\/console\/tokens\//);
    expect(second).not.toBe(first);
    await page.keyboard.press('ArrowDown');
    expect(await focused(), 'the last row').toBe(second);
    await page.keyboard.press('ArrowUp');
    expect(await focused()).toBe(first);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1 }).waitFor();
    expect(new URL(page.url()).pathname).toBe(first);
  });

  test('? shows the keys, which can be switched off, and on again by the button', async () => {
    const { page } = person;
    await page.goto('/console/tokens');
    await page.keyboard.press('?');
    const dialog = page.getByRole('dialog', { name: 'Keys' });
    await dialog.waitFor();
    await dialog.getByLabel('The keys / and ? are on').uncheck();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.keyboard.press('?');
    await page.keyboard.press('/');
    expect([await dialog.count(), await focused()]).toEqual([0, expect.not.stringMatching('INPUT')]);
    await page.getByRole('button', { name: 'Keys' }).click();
    await dialog.getByLabel('The keys / and ? are on').check();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await page.locator('body').press('/');
    expect(await focused()).toBe('INPUT');
    expect(person.faults).toEqual([]);
  });

  test('keys that are typed into a field stay in it', async () => {
    const { page } = person;
    await page.goto('/console/tokens');
    const box = page.getByRole('searchbox', { name: 'Find' });
    await box.focus();
    await page.keyboard.type('a/?');
    expect(await box.inputValue()).toBe('a/?');
    expect(await page.getByRole('dialog').count()).toBe(0);
  });
});
