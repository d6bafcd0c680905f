// A person with the API reference in a real browser: finds an operation, tries it with a pasted key, and runs its samples.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { faultsOf, type Look, LOOKS } from './support/axe.ts';
import { launchChromium, openPerson, type Person, takePicture } from './support/chromium.ts';
import { type SharedConsole, useConsole } from './support/console.ts';
import { isInstalled } from './support/programs.ts';
import type { TestTenant } from './support/server.ts';

/** Pages that have all parts: parameters, bodies, variants, no body, no key. */
const PAGES = ['/docs', '/docs?q=card', '/docs/tokens', '/docs/proxy', '/docs/members', '/docs/health'];

/** Pages with tabs, tables, lists, drawings, checkboxes and decisions. */
const GUIDES = [
  '/guides',
  '/guides?q=card',
  '/guides/tokenize',
  '/guides/card-on-file',
  '/guides/reference/api',
  '/guides/operations/production',
  '/guides/decisions/0118-api-reference',
];

describe.skipIf(!isInstalled('chromium'))('the API reference', () => {
  let server: SharedConsole;
  let tenant: TestTenant;
  let chromium: Browser;
  let reader: Person;
  beforeAll(async () => {
    server = await useConsole();
    tenant = await server.newTenant();
    chromium = await launchChromium();
    reader = await openPerson(chromium, server.base_url);
  });
  afterAll(async () => {
    await reader?.close();
    await chromium?.close();
  });

  /** The form of an operation, opened. */
  const openForm = async (page: Page, id: string) => {
    const form = page.locator(`#${id} [data-try]`);
    await form.locator('summary').click();
    return form;
  };

  const giveKey = async (page: Page, key: string): Promise<void> => {
    await page.getByLabel('API key').fill(key);
    await page.locator('[data-use-key]').click();
  };

  /** Where a browser may keep a text: storage, cookies, the address, and the page itself. */
  const tracesOf = async (page: Page, text: string): Promise<string[]> => {
    const kept = {
      ...((await page.evaluate(`({
        storage: JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state]),
        page: document.documentElement.outerHTML,
        fields: [...document.querySelectorAll('input, textarea')].map(({ value }) => value).join(' '),
        title: document.title + location.href,
      })`)) as Record<string, string>),
      cookies: JSON.stringify(await page.context().cookies()),
      state: JSON.stringify(await page.context().storageState({ indexedDB: true })),
    };
    return Object.entries(kept).flatMap(([place, held]) => (held.includes(text) ? [place] : []));
  };

  test('is a link away from every page of the console, and leads back', async () => {
    const member = await server.signIn({ tenant });
    for (const path of ['/console/home', '/console/tokens', '/console/account'])
      expect((await member.get(path)).text, path).toContain(
        '<a href="/guides">Guides</a><a href="/docs">API reference</a>',
      );
    expect((await member.get('/docs')).text).toContain('<a href="/console">Console</a>');
  });

  test('finds an operation while one types, and by words of a link without script', async () => {
    const { page } = reader;
    await page.goto('/docs');
    await page.keyboard.press('/');
    await page.keyboard.type('rotate proxy');
    await page.getByText('1 operation', { exact: true }).waitFor();
    expect(await page.locator('[data-words]:visible').allTextContents()).toEqual([
      expect.stringContaining('Rotate the key of a proxy'),
    ]);
    await page.keyboard.press('Enter');
    await page.waitForURL('**/docs?q=rotate+proxy');
    expect(await page.locator('[data-words]:visible').count()).toBe(1);
    await page.locator('[data-find]').fill('deleteTenant');
    await page.getByRole('link', { name: 'Delete the tenant' }).waitFor();
    await page.locator('[data-find]').fill('rotate proxy');
    await page.getByRole('link', { name: 'Rotate the key of a proxy' }).click();
    expect(new URL(page.url()).pathname + new URL(page.url()).hash).toBe('/docs/proxies#rotateProxyKey');
    await page.locator('#rotateProxyKey').getByText('Try it').waitFor();
  });

  test('tries an operation with a pasted key, which is nowhere afterwards', async () => {
    const { page } = reader;
    const sent: { url: string; key: string | undefined; cookie: string | undefined }[] = [];
    await page.context().addCookies([{ name: 'kept', value: 'by-another-page', url: server.base_url }]);
    page.on('request', async (request) => {
      // A request may still be under way when the page is closed.
      const headers: Record<string, string> = await request.allHeaders().catch(() => ({}));
      sent.push({ url: request.url(), key: headers['svc-api-key'], cookie: headers['cookie'] });
    });
    await page.goto('/docs/tokens');
    await giveKey(page, tenant.api_key);
    const form = await openForm(page, 'createToken');
    await form.getByRole('button', { name: 'Send POST' }).click();
    await form.getByText('201 Created').waitFor();
    expect(await form.locator('pre').first().textContent()).toContain('"number": "XXXXXXXXXXXX4242"');
    await takePicture(page, 'reference');
    expect(sent.filter(({ key }) => key !== undefined)).toEqual([
      { url: `${server.base_url}/tokens`, key: tenant.api_key, cookie: undefined },
    ]);
    expect(await tracesOf(page, tenant.api_key)).toEqual([]);
    expect(sent.filter(({ url }) => url.includes(tenant.api_key))).toEqual([]);

    await page.goto('/docs/tenants');
    await page.goBack();
    const again = await openForm(page, 'createToken');
    expect(await again.locator('pre').count()).toBe(0);
    await again.getByRole('button', { name: 'Send POST' }).click();
    await again.getByText('401 Unauthorized').waitFor();
    expect(await tracesOf(page, tenant.api_key)).toEqual([]);
  });

  test('fills paths, queries and headers, and refuses what would be another path', async () => {
    const { page } = reader;
    await page.goto('/docs/tokens');
    await giveKey(page, tenant.api_key);
    const form = await openForm(page, 'getToken');
    await form.getByRole('button', { name: 'Send GET' }).click();
    await form.getByText('id is required.').waitFor();
    for (const id of ['..', '.']) {
      await form.locator('[data-name="id"]').fill(id);
      await form.getByRole('button', { name: 'Send GET' }).click();
      await form.getByText('must not have the part').waitFor();
    }
    const asked = page.waitForRequest((request) => request.url().includes('/tokens/'));
    await form.locator('[data-name="id"]').fill('//evil.example/?a#b{id}');
    await form.getByRole('button', { name: 'Send GET' }).click();
    expect((await asked).url()).toBe(`${server.base_url}/tokens/${encodeURIComponent('//evil.example/?a#b{id}')}`);
    await form.getByText('404 Not Found').waitFor();

    await page.goto('/docs/logs');
    // Sent without a click on the button beside it.
    await page.getByLabel('API key').fill(tenant.api_key);
    const logs = await openForm(page, 'listLogs');
    await logs.locator('[data-name="size"]').fill('1');
    await logs.getByRole('button', { name: 'Send GET' }).click();
    await logs.getByText('200 OK').waitFor();
    expect(JSON.parse((await logs.locator('pre').first().textContent()) ?? '').data).toHaveLength(1);
  });

  test('asks before it deletes', async () => {
    const { page } = reader;
    await page.goto('/docs/tenants');
    await giveKey(page, tenant.api_key);
    const asked: string[] = [];
    page.once('dialog', (dialog) => {
      asked.push(dialog.message());
      void dialog.dismiss();
    });
    const form = await openForm(page, 'deleteTenant');
    await form.getByRole('button', { name: 'Send DELETE' }).click();
    expect(asked).toEqual(['Send DELETE /tenants/self? It changes this vault.']);
    expect((await server.request('GET', '/tenants/self', { key: tenant.api_key })).status).toBe(200);
  });

  test('has samples with the address of the vault, which run as they are', async () => {
    const { page } = reader;
    await page.goto('/docs/tokens');
    const samples = await page.locator('#createToken [data-sample]').allTextContents();
    expect(samples).toHaveLength(3);
    const runs: [program: string, args: string[]][] = [
      ['sh', ['-c', samples[0]?.replace('curl ', 'curl -sS ') as string]],
      [process.execPath, ['--input-type=module', '-e', samples[1] as string]],
      ['python3', ['-c', samples[2] as string]],
    ];
    for (const [program, args] of runs) {
      const env = { ...process.env, SVC_API_KEY: tenant.api_key };
      const { stdout } = await promisify(execFile)(program, args, { env });
      expect(JSON.parse(stdout), program).toMatchObject({ type: 'card', data: { number: 'XXXXXXXXXXXX4242' } });
    }
  });

  test.each(LOOKS)('has nothing that axe finds, in %s at %i pixels, and no page is too wide', async (...look) => {
    const found: Record<string, unknown> = {};
    for (const path of [...PAGES, ...GUIDES]) found[path] = await faultsOf(reader.page, path, look);
    expect(found).toEqual(Object.fromEntries(Object.keys(found).map((path) => [path, []])));
    expect(reader.faults).toEqual([]);
  });

  test('has nothing that axe finds on any page', async () => {
    await reader.page.goto('/docs');
    const paths: string[] = await reader.page.evaluate(
      '[...new Set([...document.querySelectorAll(\'a[href^="/docs/"]\')].map(({ pathname }) => pathname))]',
    );
    expect(paths.length).toBeGreaterThan(15);
    const found: Record<string, unknown> = {};
    // All pages in all looks would take more than a minute: each page has one of the four, and the pages above have all parts.
    for (const [index, path] of paths.filter((each) => !PAGES.includes(each)).entries())
      found[path] = await faultsOf(reader.page, path, LOOKS[index % LOOKS.length] as Look);
    expect(found).toEqual(Object.fromEntries(Object.keys(found).map((path) => [path, []])));
  });

  test('is whole without script', async () => {
    const context = await chromium.newContext({ javaScriptEnabled: false, baseURL: server.base_url });
    try {
      const page = await context.newPage();
      await page.goto('/docs?q=createToken');
      await page.getByRole('link', { name: 'Create a token', exact: true }).click();
      expect(await page.locator('#createToken [data-sample]').first().textContent()).toContain('/tokens');
      expect(await page.locator('[data-try]:visible, [data-key-card]:visible').count()).toBe(0);
    } finally {
      await context.close();
    }
  });
});
