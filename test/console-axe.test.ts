// Pages of the console have no violation of WCAG 2.2 A and AA that axe finds, in light and dark, on a phone and at a desk.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { faultsOf, type Look, LOOKS, violationsOf } from './support/axe.ts';
import { join } from './support/people.ts';
import { consoleRoutes, furnish, pathOf } from './support/console-pages.ts';
import { launchChromium, openPerson, type Person } from './support/chromium.ts';
import { isInstalled } from './support/programs.ts';
import { makeReactor, react } from './support/reactors.ts';
import { startServer, type TestServer } from './support/server.ts';

describe.skipIf(!isInstalled('chromium'))('axe finds nothing', () => {
  let server: TestServer;
  let chromium: Browser;
  let owner: Person;
  /** Every page of the console by its route, and some of them as forms leave them, by name. */
  let paths: Record<string, string>;

  const transform = (n: number): string => `module.exports = ({ args }) => {\n  return { ...args, n: ${n} };\n};`;

  beforeAll(async () => {
    server = await startServer(
      { RATE_LIMIT: 'off', REQUIRE_SECOND_FACTOR: 'off' },
      { resolve: async () => ['127.0.0.1'] },
    );
    chromium = await launchChromium();
    const made = await makeReactor(server, 'const { card } = args; null.charge();');
    await makeReactor(server, 'return { raw: 1 };');
    const card = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };
    const { body } = await server.request('POST', '/tokens', { json: card });
    expect((await react(server, made, { card: `{{ ${body.id} }}` })).status).toBe(500);
    const run = await vi.waitFor(async () => {
      const { data } = (await server.request('GET', '/runs')).body;
      expect(data).toHaveLength(1);
      return data[0];
    });
    // A value that left, a mask that was read, and a child.
    await server.request('GET', `/tokens/${body.id}`);
    await server.request('POST', `/tokens/${body.id}/children`, { json: card });
    const { body: application } = await server.request('POST', '/applications', {
      json: { name: 'Checkout', type: 'private', permissions: ['token:create', 'token:read'] },
    });
    const use = { priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:use'] };
    const { body: bound } = await server.request('POST', '/applications', {
      json: { name: 'Charge', type: 'private', rules: [{ ...use, bound_to: { hosts: ['api.example.com'] } }] },
    });
    const { body: formula } = await server.request('POST', '/reactor-formulas', {
      json: {
        name: 'Own',
        type: 'private',
        code: 'module.exports = () => ({});',
        configuration: [{ name: 'KEY', type: 'string' }],
        request_parameters: [{ name: 'card.number', type: 'string' }],
      },
    });
    const { body: proxy } = await server.request('POST', '/proxies', {
      json: {
        name: 'Payments',
        destination_url: 'https://api.example.com/v1',
        configuration: { API_KEY: 'a', LIMIT: 1 },
        request_transform: { code: transform(1) },
      },
    });
    const second = { request_transform: { code: transform(2) } };
    expect((await server.request('PATCH', `/proxies/${proxy.id}`, { json: second })).status).toBe(200);
    const headers = { 'svc-proxy-url': 'https://no-such-host.example/v1/charges', 'svc-idempotency-key': 'axe' };
    const sent = await server.request('POST', '/proxy', { json: { number: `{{ ${body.id} }}` }, headers });
    const forward_id = sent.headers.get('svc-forward-id') as string;
    await server.sql(`UPDATE forwards SET state = 'unknown', sent_at = now() WHERE id = $1`, [forward_id]);
    const { body: webhook } = await server.request('POST', '/webhooks', {
      json: { name: 'Orders', url: 'https://hooks.example.com/a', events: ['token.created'] },
    });
    owner = await openPerson(chromium, server.base_url);
    const { browser, member_id } = await join(server);
    const cookies = [...browser.cookies].map(([name, value]) => ({ name, value, url: server.base_url }));
    await owner.page.context().addCookies(cookies);
    await server.ctx.usage.write();
    paths = {
      Home: '/console/home',
      'Home of a month': '/console/home?range=30d',
      Usage: '/console/usage',
      'Usage of a day': '/console/usage?by=hour',
      'Find, before': '/console/find',
      'Find, with results': '/console/find?q=Reactor',
      'Find, without': '/console/find?q=no-such-record',
      Runs: '/console/runs',
      'Runs, filtered': '/console/runs?outcome=any_failure&kind=reactor',
      'Runs, with an error': '/console/runs?outcome=odd',
      'a run': `/console/runs/${run.id}`,
      Forwards: '/console/forwards',
      'Forwards, with an error': '/console/forwards?state=odd',
      'a forward': `/console/forwards/${forward_id}`,
      'a forward, with its request': `/console/forwards/${forward_id}?bodies=yes`,
      'the line of a reactor': `/console/reactors/${made.id}?line=1`,
      'a reactor': `/console/reactors/${made.id}`,
      Applications: '/console/applications',
      'New application': '/console/applications/new',
      'an application with a bound rule': `/console/applications/${bound.id}`,
      'an application': `/console/applications/${application.id}`,
      Formulas: '/console/formulas',
      'a formula': `/console/formulas/${formula.id}`,
      'Change a formula': `/console/formulas/${formula.id}/edit`,
      Proxies: '/console/proxies',
      'a proxy': `/console/proxies/${proxy.id}`,
      'a version of a proxy': `/console/proxies/${proxy.id}/versions/1`,
      'New proxy': '/console/proxies/new',
      'Change a proxy': `/console/proxies/${proxy.id}/edit`,
      'Who may': '/console/access',
      'Who may, answered': `/console/access?permission=token:use&token_id=${body.id}&host=api.example.com`,
      Webhooks: '/console/webhooks',
      'New webhook': '/console/webhooks/new',
      'a webhook': `/console/webhooks/${webhook.id}`,
      'Change a webhook': `/console/webhooks/${webhook.id}/edit`,
      Logs: '/console/logs?disclosure=used',
      People: '/console/people',
      'a member': `/console/people/members/${member_id}`,
      Settings: '/console/settings',
      'a token': `/console/tokens/${body.id}`,
      'Change a token': `/console/tokens/${body.id}/edit`,
    };
  });
  afterAll(async () => {
    await owner?.close();
    await chromium?.close();
    await server?.close();
  });

  /** Redirects and files are none. */
  const isPage = async (path: string): Promise<boolean> => {
    const answer = await owner.page.request.get(path, { maxRedirects: 0 });
    return [200, 404].includes(answer.status()) && answer.headers()['content-type']?.startsWith('text/html') === true;
  };

  test.each(LOOKS)('in %s at %i pixels, and nothing is wider than the page', async (...look) => {
    const found: Record<string, string[]> = {};
    for (const [name, path] of Object.entries(paths)) found[name] = await faultsOf(owner.page, path, look);
    expect(found).toEqual(Object.fromEntries(Object.keys(paths).map((name) => [name, []])));
  });

  test('on each page by the list of routes, in one of these looks', async () => {
    const ids = await furnish(server, server.tenant);
    const found: Record<string, string[]> = {};
    for (const { method, url } of consoleRoutes(server)) {
      const path = pathOf(url, ids);
      if (method !== 'GET' || !(await isPage(path))) continue;
      found[url] = await faultsOf(owner.page, path, LOOKS[Object.keys(found).length % LOOKS.length] as Look);
    }
    expect(Object.keys(found).length).toBeGreaterThan(40);
    expect(found).toEqual(Object.fromEntries(Object.keys(found).map((url) => [url, []])));
  });

  test('a previewed request', async () => {
    const { page } = owner;
    await page.goto(paths['a proxy'] as string);
    await page.getByLabel('Body').fill('{ "a": "{{ no-such-token }}" }');
    await page.getByRole('button', { name: 'Preview' }).click();
    await page.getByRole('heading', { name: 'Preview' }).waitFor();
    expect(await violationsOf(page)).toEqual([]);
  });

  test('no page made an error, broke its policy or asked another origin for anything', () => {
    expect(owner.faults).toEqual([]);
  });
});
