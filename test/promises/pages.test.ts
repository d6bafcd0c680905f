// Every page of the app: no console page without a session, no form without its token, no content from other origins.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { join, type Joined, openBrowser } from '../support/people.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
let member: Joined;
let pages: { method: 'GET' | 'POST'; url: string }[];
beforeAll(async () => {
  server = await startServer({ RATE_LIMIT: 'off' });
  member = await join(server);
  pages = server.routes
    .filter(({ url, config }) => /^\/(?:console|join)(?:\/|$)/.test(url) && !config?.methodGuard)
    .flatMap(({ method, url }) => [method].flat().map((each) => ({ method: each as 'GET' | 'POST', url })))
    .filter(({ method }) => (method as string) !== 'HEAD');
});
afterAll(() => server.close());

const pathOf = (url: string): string =>
  url.replace(':secret', 'x'.repeat(32)).replaceAll(/:\w+/g, '00000000-0000-4000-8000-000000000000');

/** Where sessions begin: by a password, and by the way back from a provider. And where a forgotten password is reset. */
const isOpen = (url: string): boolean =>
  [
    '/console/sign-in',
    '/console/sign-in/forgotten',
    '/console/sign-in/reset/:secret',
    '/console/sso/:tenant_id/callback',
  ].includes(url);
const isConsole = ({ url }: { url: string }): boolean => url.startsWith('/console') && !isOpen(url);

const countOperations = async (): Promise<number> =>
  (await server.sql("SELECT FROM audit_log WHERE outcome = 'success'")).length;

test('pages are got and their forms posted, and there are some of each', () => {
  expect(new Set(pages.map(({ method }) => method))).toEqual(new Set(['GET', 'POST']));
  expect(pages.filter(isConsole).length).toBeGreaterThan(5);
});

test('a page names no permission, for it knows no key, and stands in no document', () => {
  for (const { url, config, schema } of server.routes)
    if (pages.some((page) => page.url === url)) {
      expect(config?.permission, url).toBeNull();
      expect((schema as { hide?: boolean } | undefined)?.hide, url).toBe(true);
    }
});

describe('without a session', () => {
  test('every page of the console leads to where one signs in, and no form does anything', async () => {
    const before = await countOperations();
    for (const { method, url } of pages.filter(isConsole)) {
      const browser = openBrowser(server);
      const answer = await (method === 'GET' ? browser.get(pathOf(url)) : browser.post(pathOf(url)));
      expect(answer.status, `${method} ${url}`).toBe(303);
      expect(answer.headers.get('location'), `${method} ${url}`).toMatch(/^\/console\/sign-in(?:\?next=|$)/);
      expect(answer.text, `${method} ${url}`).toBe('');
    }
    expect(await countOperations()).toBe(before);
  });

  test('nor with an API key in place of one', async () => {
    for (const { method, url } of pages.filter(isConsole)) {
      const headers = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' };
      const body = method === 'POST' ? 'csrf=x' : undefined;
      const answer = await server.request(method, pathOf(url), { headers, body });
      expect(answer.status, `${method} ${url}`).toBe(303);
      expect(answer.headers.get('location'), `${method} ${url}`).toMatch(/^\/console\/sign-in/);
    }
  });
});

test('a page is opened by itself, and as the image, frame or script of another it is nothing', async () => {
  const browser = openBrowser(server);
  for (const { method, url } of pages) {
    if (method !== 'GET') continue;
    for (const destination of ['image', 'iframe', 'script', 'object', 'empty']) {
      const answer = await browser.get(pathOf(url), { 'sec-fetch-dest': destination });
      expect([answer.status, answer.text.includes('must be opened by itself')], url).toEqual([403, true]);
    }
  }
  const { text } = await browser.get('/console/sign-in', { 'sec-fetch-dest': 'document' });
  const [, style = ''] = /href="(\/assets\/[^"]+\.css)"/.exec(text) ?? [];
  expect((await browser.get(style, { 'sec-fetch-dest': 'style' })).status).toBe(200);
});

test('a form of very many fields is refused', async () => {
  const headers = { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin' };
  const answer = await server.request('POST', '/console/sign-in', { key: null, headers, body: '&a'.repeat(400) });
  expect(answer.status).toBe(400);
  expect(answer.text).toContain('The form has too many fields.');
});

describe('with a session', () => {
  test('no form of the console does anything without its token, or from another site', async () => {
    const csrf = await member.browser.csrf();
    const before = await countOperations();
    for (const { method, url } of pages.filter(isConsole)) {
      if (method !== 'POST') continue;
      for (const [fields, headers] of [
        [{}, {}],
        [{ csrf: 'x' }, {}],
        [{ csrf }, { 'sec-fetch-site': 'cross-site' }],
        [{ csrf }, { 'sec-fetch-site': 'same-site' }],
      ] as [Record<string, string>, Record<string, string>][]) {
        const answer = await member.browser.post(pathOf(url), fields, headers);
        expect(answer.status, `${url} ${JSON.stringify([fields, headers])}`).toBe(403);
      }
    }
    expect(await countOperations()).toBe(before);
    expect(await member.browser.isSignedIn()).toBe(true);
  });

  test('of a server that knows its origin, no form of another scheme, host or port is taken', async () => {
    const known = await startServer({ PUBLIC_URL: 'https://vault.example.com:8443', RATE_LIMIT: 'off' });
    try {
      const { host } = new URL(known.base_url);
      const others = [
        'http://vault.example.com:8443',
        'https://vault.example.com',
        'https://vault.example.com:8444',
        'https://www.vault.example.com:8443',
        'https://example.com:8443',
        `http://${host}`,
        `https://${host}`,
        'x',
      ];
      for (const { method, url } of pages) {
        if (method !== 'POST') continue;
        const post = (origin: string, site: string | undefined) => {
          const headers: Record<string, string> = { 'content-type': 'application/x-www-form-urlencoded', origin };
          if (site !== undefined) headers['sec-fetch-site'] = site;
          return known.request('POST', pathOf(url), { key: null, headers, body: 'email=x' });
        };
        for (const origin of others)
          for (const site of [undefined, 'same-origin'])
            expect((await post(origin, site)).text, `${url} ${origin}`).toContain('sent from another site');
        expect((await post('null', undefined)).text).toContain('sent from another site');
        // The pages send no referrer, so browsers hide the origin of their own forms.
        for (const [origin, site] of [
          ['https://vault.example.com:8443', undefined],
          ['https://vault.example.com:8443', 'same-origin'],
          ['null', 'same-origin'],
        ] as const)
          expect((await post(origin, site)).text, `${url} ${origin}`).not.toContain('sent from another site');
      }
    } finally {
      await known.close();
    }
  });

  test('unknown pages and invalid forms of the console are answered with a page', async () => {
    const missing = await member.browser.get('/console/no/such/page');
    expect([missing.status, missing.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8']);
    expect(missing.text).toContain('The page was not found.');
    for (const headers of [{ 'content-type': 'application/json' }, { 'content-type': 'text/plain' }]) {
      const answer = await server.request('POST', '/console/sign-in', { headers, body: '{}' });
      expect(answer.status).toBe(415);
      expect(answer.text).toContain('The body must be a form of this page.');
    }
  });

  test('every page stays in its origin, is not cached, and fails like the others', async () => {
    for (const { method, url } of pages) {
      if (method !== 'GET') continue;
      const { status, headers, text } = await member.browser.get(pathOf(url));
      expect(status, url).toBeLessThan(500);
      expect(headers.get('content-security-policy'), url).toBe(
        "default-src 'none';script-src 'self';style-src 'self';img-src 'self' data:;connect-src 'self';form-action 'self';base-uri 'none';frame-ancestors 'none'",
      );
      expect(headers.get('referrer-policy'), url).toBe('no-referrer');
      expect(headers.get('cache-control'), url).toBe('no-store');
      expect(headers.get('x-content-type-options'), url).toBe('nosniff');
      expect(headers.get('x-frame-options'), url).toBe('DENY');
      expect(text, url).not.toMatch(/(?:src|href|action)="(?!\/(?!\/)|#|\?)/);
      expect(text, url).not.toMatch(/<[^>]* (?:on\w+|style)=|<script(?![^>]* src=)/);
      expect(text, url).not.toContain(member.secret);
    }
  });
});
