// Response headers under /proxy: what a destination may tell caches and browsers, also in a real browser.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { launchChromium } from './support/chromium.ts';
import { isInstalled } from './support/programs.ts';
import {
  makeProxy,
  type Message,
  OK,
  proxyErrorIn,
  receiving,
  type SharedProxyFixture,
  statusOf,
  useProxyFixture,
  valuesOf,
} from './support/proxy.ts';

let fixture: SharedProxyFixture;
beforeAll(async () => {
  fixture = await useProxyFixture();
});
afterAll(() => fixture.close());
afterEach(() => {
  fixture.destination.script = receiving(fixture.destination, OK);
});

const OURS = {
  'cache-control': 'private, no-store',
  'cdn-cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
};

const VARY = [
  'SVC-API-KEY',
  'SVC-PROXY-KEY',
  'SVC-PROXY-URL',
  'Sec-Fetch-Dest',
  'Sec-Fetch-Mode',
  'Sec-Fetch-Site',
  'Sec-Fetch-User',
];

/** Each of ours stands there once, with our value. */
const expectOurs = (answer: Message, varyOfDestination: string[] = []): void => {
  for (const [name, value] of Object.entries(OURS)) expect([name, ...valuesOf(answer, name)]).toEqual([name, value]);
  const names = valuesOf(answer, 'vary').flatMap((line) => line.split(',').map((name) => name.trim()));
  expect(names).toEqual([...varyOfDestination, ...VARY]);
};

/** What the caller gets of an answer with these headers. */
const answered = (lines: string[], request = fixture.head('GET /proxy')): Promise<Message> => {
  const head = ['HTTP/1.1 203 Their words', ...lines, 'Content-Length: 4', '', ''].join('\r\n');
  fixture.destination.script = receiving(fixture.destination, `${head}body`);
  return fixture.ask(request);
};

/** Headers that speak for a whole origin. */
const ofOrigins = [
  'Set-Cookie: a=1; Path=/',
  'set-cookie: b=2',
  'Strict-Transport-Security: max-age=31536000; includeSubDomains',
  'Cross-Origin-Opener-Policy: same-origin',
  'Cross-Origin-Embedder-Policy: require-corp',
  'Cross-Origin-Resource-Policy: cross-origin',
  'Service-Worker-Allowed: /',
  'Clear-Site-Data: "cookies"',
];

const others = [
  'Content-Type: text/html',
  'ETag: "1"',
  'Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT',
  'Expires: Thu, 01 Jan 2099 00:00:00 GMT',
  'Content-Security-Policy-Report-Only: default-src *',
  'Access-Control-Allow-Origin: *',
  'X-Own: stays',
];

const namesOfLines = (lines: string[]): string[] => lines.map((line) => line.slice(0, line.indexOf(':')));

const linesOf = ({ headers }: Message, among: string[]): string[] => {
  const names = namesOfLines(among);
  return headers.filter(([name]) => names.includes(name)).map((header) => header.join(': '));
};

describe('an answer under /proxy', () => {
  test("has this server's headers about caches and pages in place of the destination's", async () => {
    const theirs = [
      'Cache-Control: public, max-age=600',
      'cache-control: immutable',
      'CDN-Cache-Control: max-age=600',
      'X-Content-Type-Options: no',
      'Content-Security-Policy: default-src *',
      "content-security-policy: script-src 'unsafe-inline'",
      'Vary: Accept, Origin',
    ];
    const ofOneCache = ['Cloudflare-CDN-Cache-Control: max-age=600', 'Surrogate-Control: max-age=600'];
    const answer = await answered([...theirs, ...ofOneCache, ...others]);
    expect(linesOf(answer, ofOneCache)).toEqual([]);
    expect(answer.start).toBe('HTTP/1.1 203 Their words');
    expect(answer.body.toString()).toBe('body');
    expectOurs(answer, ['Accept', 'Origin']);
    expect(linesOf(answer, others)).toEqual(others);
  });

  test('has them where the destination sent none', async () => {
    expectOurs(await answered([]));
  });

  test('has them with every result of a response transform', async () => {
    const code = `module.exports = async ({ args }) => ({ body: args.body, headers: {
      ...args.headers, 'Cache-Control': 'public', 'content-security-policy': 'default-src *', vary: 'X-Own' } });`;
    const { key } = await makeProxy(fixture, { response_transform: { code } });
    const answer = await answered(['Cache-Control: public'], fixture.head('GET /proxy', `SVC-PROXY-KEY: ${key}`));
    expect(statusOf(answer), answer.body.toString()).toBe(203);
    expectOurs(answer, ['X-Own']);
  });

  test('has them where a transform makes the response itself', async () => {
    const code = `const { CustomHttpResponseError } = require('@svc/reactor-formulas-sdk');
    module.exports = async () => { throw new CustomHttpResponseError({ status: 201, headers: { 'Cache-Control': 'public' }, body: { own: 1 } }); };`;
    const { key } = await makeProxy(fixture, { request_transform: { code } });
    const answer = await fixture.ask(fixture.head('GET /proxy', `SVC-PROXY-KEY: ${key}`));
    expect(statusOf(answer), answer.body.toString()).toBe(201);
    expectOurs(answer);
  });

  test('has them where the proxy itself refuses the request', async () => {
    const refused: [status: number, request: string][] = [
      [400, fixture.head('GET /proxy/..')],
      [400, fixture.head('GET /proxy/%zz')],
      [401, fixture.head('GET /proxy', 'SVC-API-KEY: wrong')],
      [403, fixture.head('GET /proxy', 'Sec-Fetch-Mode: navigate')],
      [404, fixture.head('GET /proxy', `SVC-PROXY-KEY: ${'A'.repeat(32)}`)],
      [405, fixture.head('OPTIONS /proxy')],
      [502, fixture.head('GET /proxy', 'SVC-PROXY-URL: https://upstream.test:1/')],
    ];
    for (const [status, request] of refused) {
      const answer = await fixture.ask(request);
      expect(proxyErrorIn(answer).status).toBeGreaterThanOrEqual(400);
      if (status !== 502) expect(statusOf(answer)).toBe(status);
      expectOurs(answer);
    }
  });

  test.each([
    'Origin: https://shop.example',
    'Sec-Fetch-Site: same-site',
    'sec-fetch-mode: cors',
    'Sec-Fetch-Dest: empty',
  ])('keeps what speaks for a whole origin from a caller that sends %s', async (line) => {
    const answer = await answered([...ofOrigins, ...others], fixture.head('GET /proxy', line));
    expect(statusOf(answer)).toBe(203);
    expect(linesOf(answer, ofOrigins)).toEqual([]);
    expect(linesOf(answer, others)).toEqual(others);
    expectOurs(answer);
  });

  test('gives a program all of them', async () => {
    expect(linesOf(await answered(ofOrigins), ofOrigins)).toEqual(ofOrigins);
  });
});

describe.skipIf(!isInstalled('chromium'))('the HTML of a destination, in Chromium,', () => {
  let chromium: Browser;
  let attacker: Server;
  let attacker_url: string;
  let key: string;
  const HTML = `<!doctype html><title>before</title><script>document.title = 'script ran in ' + origin</script>`;
  const VAULT_NAME = 'vault.plain.example';

  beforeAll(async () => {
    // By that name over plain HTTP a browser says nothing of where it asks from.
    chromium = await launchChromium([`--host-resolver-rules=MAP ${VAULT_NAME} 127.0.0.1`]);
    attacker = createServer((_, response) => {
      response.setHeader('content-type', 'text/html');
      response.end('<!doctype html><title>attacker</title>');
    });
    await new Promise<void>((resolve) => attacker.listen(0, '127.0.0.1', resolve));
    attacker_url = `http://127.0.0.1:${(attacker.address() as AddressInfo).port}/`;
    key = (await makeProxy(fixture, { require_auth: false })).key;
  });
  afterAll(async () => {
    await chromium?.close();
    await new Promise((resolve) => attacker.close(resolve));
  });

  const serveHtml = (): void => {
    const head = [
      'HTTP/1.1 200 OK',
      'Content-Type: text/html',
      'Cache-Control: public, max-age=3600',
      'Access-Control-Allow-Origin: *',
      'Cross-Origin-Opener-Policy: same-origin',
      `Content-Length: ${HTML.length}`,
    ];
    fixture.destination.script = receiving(fixture.destination, [...head, '', HTML].join('\r\n'));
  };

  test("is not opened from the browser's cache after a page of the same site fetched it", async () => {
    serveHtml();
    const link = `${fixture.server.base_url}/proxy/?svc-proxy-key=${key}`;
    const page = await (await chromium.newContext()).newPage();
    await page.goto(attacker_url);
    const fetched = await page.evaluate(async (url) => (await fetch(url)).text(), link);
    expect(fetched).toBe(HTML);
    const [opened] = await Promise.all([
      page.waitForResponse(link),
      page.evaluate(`void (location.href = ${JSON.stringify(link)})`).catch(() => undefined),
    ]);
    await page.waitForURL(link);
    expect([opened.status(), opened.fromServiceWorker()]).toEqual([403, false]);
    expect(await page.title()).not.toContain('script ran');
    await page.context().close();
  });

  test('runs no script where the browser does not say that it opens a page', async () => {
    serveHtml();
    const { port } = new URL(fixture.server.base_url);
    const page = await (await chromium.newContext()).newPage();
    const opened = await page.goto(`http://${VAULT_NAME}:${port}/proxy/?svc-proxy-key=${key}`);
    expect(opened?.status()).toBe(200);
    expect(await page.title()).toBe('before');
    await page.context().close();
  });
});
