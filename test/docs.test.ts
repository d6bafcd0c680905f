// The API reference: it loads from its own origin alone, has all operations of the document, and takes no text of it for markup.
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildApp } from '../src/app.ts';
import type { Context } from '../src/modules.ts';
import { readReference, type Reference } from '../src/modules/docs/reference.ts';
import { chapterPage, createOverview } from '../src/modules/docs/reference-pages.ts';
import { prose } from '../src/modules/docs/prose.ts';
import { createAccounts } from '../src/platform/base/accounts.ts';
import { createHeldOperations } from '../src/platform/base/held-operations.ts';
import { createLog } from '../src/platform/base/log.ts';
import { docsUrlOf, loadConfig } from '../src/platform/config/config.ts';
import type { App } from '../src/platform/http/app-type.ts';
import { document, type Node } from './support/document.ts';

const build = (environment: Record<string, string> = {}): Promise<App> => {
  // No page of these asks the database.
  const parts: Partial<Context> = {
    config: loadConfig(environment),
    log: createLog('silent'),
    newUuid: () => 'trace',
    heldOperations: createHeldOperations(() => new Date()),
    accounts: createAccounts(),
  };
  return buildApp(parts as Context);
};

let app: App;
beforeAll(async () => {
  app = await build();
});
afterAll(() => app.close());

const referencesOf = (html: string): string[] =>
  [...html.matchAll(/<(?:script|link)\b[^>]*?\b(?:src|href)="([^"]*)"/g)].map(([, url]) => url as string);

test.each(['/docs', '/docs/'])('GET %s shows the reference, without a key, under a strict policy', async (url) => {
  const answer = await app.inject(url);
  expect(answer.statusCode).toBe(200);
  expect(answer.headers['content-type']).toBe('text/html; charset=utf-8');
  const policy = String(answer.headers['content-security-policy']);
  expect(policy).toContain("default-src 'none'");
  expect(policy).toMatch(/script-src 'self'(;|$)/);
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toMatch(/https?:|unsafe-eval|\*/);
  expect(answer.headers).toMatchObject({
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-cache',
  });
});

test('the page has no inline script, and what it loads is ours, answers and may be kept', async () => {
  const { body } = await app.inject('/docs');
  expect(body).not.toMatch(/<script(?![^>]*\bsrc=)|\son\w+=|javascript:/i);
  const references = referencesOf(body);
  expect(references.length).toBeGreaterThanOrEqual(5);
  for (const url of references) {
    expect(url).toMatch(/^\/assets\/[a-z-]+\.[0-9a-f]{8}\.(js|css|svg)$/);
    const plain = await app.inject(url);
    expect(plain.statusCode, url).toBe(200);
    expect(plain.headers['content-type']).toMatch(/^(text\/javascript|text\/css|image\/svg\+xml)/);
    expect(plain.headers['cache-control']).toBe('public, max-age=31536000, immutable');
    expect(plain.headers['content-security-policy']).toBeDefined();

    const packed = await app.inject({ url, headers: { 'accept-encoding': 'gzip, br' } });
    expect(packed.headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(packed.rawPayload).equals(plain.rawPayload), url).toBe(true);
  }
});

test('GET /openapi.json answers without a key', async () => {
  const answer = await app.inject('/openapi.json');
  expect(answer.statusCode).toBe(200);
  expect(answer.json()).toMatchObject({ openapi: '3.1.0', info: { title: 'Strongroom' } });
});

test('GET / leads browsers to the reference and tells others where it is', async () => {
  const browser = await app.inject({ url: '/', headers: { accept: 'text/html,application/xhtml+xml' } });
  expect([browser.statusCode, browser.headers.location, browser.headers['vary']]).toEqual([302, '/docs', 'accept']);
  const client = await app.inject('/');
  expect(client.json()).toEqual({
    name: 'Strongroom',
    version: expect.any(String),
    docs: '/docs',
    guides: '/guides',
    openapi: '/openapi.json',
  });
});

test('other methods on the pages are refused with Allow', async () => {
  const answer = await app.inject({ method: 'POST', url: '/docs' });
  expect([answer.statusCode, answer.headers['allow']]).toEqual([405, 'GET, HEAD, OPTIONS']);
});

const operations = Object.entries(document['paths'] as Node).flatMap(([path, item]) =>
  Object.entries(item as Node).map(([method, operation]) => ({
    path,
    method: method.toUpperCase(),
    operation: operation as Node,
  })),
);

const slugOf = (tag: string): string => tag.toLowerCase().replaceAll(' ', '-');
const slugs = [...new Set(operations.map(({ operation }) => slugOf(operation['tags'][0])))];

const pages = ['/docs', '/docs?q=token', ...slugs.map((slug) => `/docs/${slug}`)];

/** A page on the wire is much below what a phone waits for. */
const WIRE_BYTES_MAX = 40_000;

describe('a page', () => {
  test.each(pages)('%s has unique ids, and its links lead to something', async (url) => {
    const { statusCode, body } = await app.inject(url);
    expect(statusCode).toBe(200);
    const ids = [...body.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const links = [...body.matchAll(/ href="([^"]+)"/g)].map(([, link = '']) => link);
    for (const link of links.filter((each) => each.startsWith('#'))) expect(ids, link).toContain(link.slice(1));
    for (const link of new Set(links.filter((each) => each.startsWith('/docs')))) {
      const [path = '', anchor] = link.split('#');
      const target = await app.inject(path);
      expect(target.statusCode, link).toBe(200);
      if (anchor !== undefined) expect(target.body, link).toContain(` id="${anchor}"`);
    }
  });

  test.each(pages.filter((url) => !url.includes('?')))('%s is small on the wire, and the same for all', async (url) => {
    const packed = await app.inject({ url, headers: { 'accept-encoding': 'gzip' } });
    expect(packed.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'accept-encoding' });
    expect(packed.rawPayload.length).toBeLessThan(WIRE_BYTES_MAX);
    const { rawPayload } = await app.inject({ url, headers: { host: 'evil.example' } });
    expect(gunzipSync(packed.rawPayload).equals(rawPayload)).toBe(true);
    expect(rawPayload.includes('evil.example')).toBe(false);
  });
});

test('each operation is whole on the page of its chapter', async () => {
  expect(operations.length).toBeGreaterThan(100);
  for (const { path, method, operation } of operations) {
    const id = operation['operationId'] as string;
    const { body } = await app.inject(`/docs/${slugOf(operation['tags'][0])}`);
    const section = body.split(`<section class="card operation" id="${id}"`)[1]?.split('</section>')[0] ?? '';
    expect(section, id).toContain(operation['summary']);
    expect(section, id).toContain(`<code>${path}</code>`);
    expect(section.match(/data-sample>/g), id).toHaveLength(3);
    expect(section, id).toContain(method === 'GET' || method === 'POST' ? 'curl' : `curl -X ${method}`);
    for (const name of [...(operation['x-permissions'] ?? []), ...Object.keys(operation['responses'] as Node)])
      expect(section, `${id} ${name}`).toContain(name);
    const schema = operation['requestBody']?.content?.['application/json']?.schema.$ref?.split('/').at(-1);
    for (const name of Object.keys(document['components'].schemas[schema]?.properties ?? {}))
      expect(section, `${id} ${name}`).toContain(`<code>${name}</code>`);
  }
});

test('a search finds by words of the text, a path, a permission or an attribute', async () => {
  const search = async (q: string) => {
    const { body } = await app.inject(`/docs?${new URLSearchParams({ q })}`);
    return [...body.matchAll(/<li data-words="[^"]*">/g)].length;
  };
  expect(await search('rotateProxyKey')).toBe(1);
  expect(await search('PROXY:update  rotate')).toBe(1);
  expect(await search('/reactors/{id}/react')).toBe(1);
  expect(await search('fingerprint_expression')).toBeGreaterThan(0);
  expect(await search('no-such-word')).toBe(0);
  expect(await search('x'.repeat(10_000))).toBe(0);
  expect(await search(' ')).toBe(operations.length);
  expect((await app.inject('/docs?q=a&q=b')).statusCode).toBe(200);
  const { body } = await app.inject(`/docs?q=${encodeURIComponent('"><script>alert(1)</script>')}`);
  expect(body).toContain('value="&quot;&gt;&lt;script&gt;');
});

test('a chapter that is not there is a 404, and a page within another page is refused', async () => {
  for (const path of ['/docs/nothing', '/docs/__proto__', '/docs/constructor', '/docs/..%2f', '/docs/tokens/x'])
    expect((await app.inject(path)).statusCode, path).toBe(404);
  const framed = await app.inject({ url: '/docs/tokens', headers: { 'sec-fetch-dest': 'iframe' } });
  expect(framed.statusCode).toBe(403);
});

test('links lead to the console where there is one, on its host', async () => {
  const linkOf = async (environment: Record<string, string>) => {
    const other = await build(environment);
    try {
      return /<a href="([^"]+)">Console<\/a>/.exec((await other.inject('/docs')).body)?.[1];
    } finally {
      await other.close();
    }
  };
  expect(await linkOf({})).toBe('/console');
  expect(await linkOf({ CONSOLE: 'off' })).toBeUndefined();
  expect(await linkOf({ PUBLIC_URL: 'https://vault.example', CONSOLE_HOST: 'console.example' })).toBe(
    'https://console.example/console',
  );
});

test('the console links to the reference where it knows its address', () => {
  const urlOf = (environment: Record<string, string>) => docsUrlOf(loadConfig(environment));
  expect(urlOf({})).toBe('/docs');
  expect(urlOf({ DOCS: 'off' })).toBeUndefined();
  expect(urlOf({ CONSOLE_HOST: 'console.example' })).toBeUndefined();
  expect(urlOf({ PUBLIC_URL: 'https://vault.example', CONSOLE_HOST: 'console.example' })).toBe(
    'https://vault.example/docs',
  );
});

describe('a hostile document', () => {
  const HOSTILE = `'"><img src=x onerror=alert(1)><script>alert(2)</script></textarea></code></template>&lt;b&gt;<!--`;

  /** Values that the pages read as parts of the language of schemas, not as text. */
  const isLanguage = (name: string, value: string): boolean =>
    ['type', 'in', '$ref'].includes(name) || value === 'SVC-TRACE-ID' || /^(?:#|https:\/)\//.test(value);

  const corrupt = (value: unknown, name = ''): unknown => {
    if (typeof value === 'string') return isLanguage(name, value) ? value : HOSTILE + value;
    if (Array.isArray(value)) return value.map((each) => corrupt(each, name));
    if (typeof value !== 'object' || value === null) return value;
    const isNamed = ['properties', 'content'].includes(name);
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [isNamed ? HOSTILE + key : key, corrupt(each, isNamed ? '' : key)]),
    );
  };

  /** Elements and the names of their attributes. */
  const skeletonOf = (page: string): string[] =>
    page.match(/<[^>]*>/g)?.map((tag) => tag.replaceAll(/"[^"]*"/g, '""')) ?? [];

  const pagesOf = (reference: Reference): string[] => {
    const places = { serverUrl: reference.serverUrl, consoleUrl: '/console' };
    const chapters = reference.groups.flatMap((group) => group.chapters);
    return [
      createOverview(reference, places)(''),
      ...chapters.map((chapter) => chapterPage(reference, places, chapter)),
    ];
  };

  test('adds no element and no attribute to any page', () => {
    const clean = pagesOf(readReference(document));
    const hostile = pagesOf(readReference(corrupt(document) as Node));
    expect(hostile).toHaveLength(slugs.length + 1);
    for (const [index, page] of hostile.entries()) {
      expect(page).toContain('&lt;script&gt;');
      expect(skeletonOf(page).toSorted()).toEqual(skeletonOf(clean[index] as string).toSorted());
    }
  });

  test('has links to https only, and code as text', () => {
    const text =
      'javascript:alert(1) http://a.example data:text/html,x https://a.example/"onclick="x `<b>` https://a.example/b#c.';
    expect(String(prose(text))).toBe(
      '<p>javascript:alert(1) http://a.example data:text/html,x <a href="https://a.example/">https://a.example/</a>&quot;onclick=&quot;x <code>&lt;b&gt;</code> <a href="https://a.example/b#c">https://a.example/b#c</a>.</p>\n',
    );
  });
});
