// The guides: every page of docs/ is listed, rendered without markup of its own, and every link of every page leads somewhere.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildApp } from '../src/app.ts';
import type { Context } from '../src/modules.ts';
import { readGuides } from '../src/modules/docs/guide-files.ts';
import { renderMarkdown } from '../src/modules/docs/markdown.ts';
import { createAccounts } from '../src/platform/base/accounts.ts';
import { createHeldOperations } from '../src/platform/base/held-operations.ts';
import { createLog } from '../src/platform/base/log.ts';
import { docsUrlOf, loadConfig } from '../src/platform/config/config.ts';
import type { App } from '../src/platform/http/app-type.ts';
import { root } from './support/process.ts';

let app: App;
beforeAll(async () => {
  // No page of these asks the database.
  const parts: Partial<Context> = {
    config: loadConfig({}),
    log: createLog('silent'),
    newUuid: () => 'trace',
    heldOperations: createHeldOperations(() => new Date()),
    accounts: createAccounts(),
  };
  app = await buildApp(parts as Context);
});
afterAll(() => app.close());

const guides = readGuides();
const paths = guides.all.map(({ path }) => path);
const listed = guides.byRole.flatMap((role) => role.guides);

const REPOSITORY = 'https://github.com/strongroom/strongroom/blob/main/';
/** A page with all that it loads, in bytes on the wire. */
const PAGE_BYTES_MAX = 200_000;

const linksOf = (body: string): string[] => [...body.matchAll(/ (?:href|src)="([^"]+)"/g)].map(([, link = '']) => link);

describe('a page', () => {
  test.each(['/guides', ...paths])('%s has unique ids and names, and every link leads to something', async (path) => {
    const { statusCode, body, headers } = await app.inject(path);
    expect([statusCode, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    const tags = body.match(/<[^>]*>/g) ?? [];
    expect(tags.filter((tag) => /^<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|"javascript:/i.test(tag))).toEqual([]);
    const ids = [...body.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const regions = [...body.matchAll(/role="region" aria-label="([^"]+)"/g)].map(([, label]) => label);
    expect(new Set(regions).size).toBe(regions.length);
    const broken: string[] = [];
    for (const link of new Set(linksOf(body))) {
      const [target = '', anchor] = link.split('#');
      if (target === '') {
        if (!ids.includes(anchor)) broken.push(link);
      } else if (target.startsWith(REPOSITORY)) {
        if (!existsSync(join(root, target.slice(REPOSITORY.length)))) broken.push(link);
      } else if (target.startsWith('/') && !target.startsWith('/console')) {
        const answer = await app.inject(target);
        if (answer.statusCode !== 200 || (anchor !== undefined && !answer.body.includes(` id="${anchor}"`)))
          broken.push(link);
      } else if (!/^(?:https?:\/\/|mailto:|\/console$)/.test(target)) broken.push(link);
    }
    expect(broken).toEqual([]);
  });

  test.each(listed.map(({ path }) => path))('%s is small, compressed and asked for once', async (path) => {
    const packed = await app.inject({ url: path, headers: { 'accept-encoding': 'gzip' } });
    expect(packed.headers).toMatchObject({
      'content-encoding': 'gzip',
      vary: 'accept-encoding',
      'cache-control': 'no-cache',
    });
    const tag = String(packed.headers['etag']);
    const again = await app.inject({
      url: path,
      headers: { 'if-none-match': `"other", ${tag}`, host: 'evil.example' },
    });
    expect([again.statusCode, again.body]).toEqual([304, '']);
    let bytes = packed.rawPayload.length;
    const body = gunzipSync(packed.rawPayload).toString();
    expect(body).not.toContain('evil.example');
    const loaded = linksOf(body).filter((link) => link.startsWith('/assets/'));
    for (const link of new Set(loaded))
      bytes += (await app.inject({ url: link, headers: { 'accept-encoding': 'gzip' } })).rawPayload.length;
    expect(bytes).toBeLessThan(PAGE_BYTES_MAX);
  });

  test.each(paths.map((path) => `${path}.md`))('%s is Markdown whose links lead to Markdown', async (path) => {
    const { statusCode, headers, body } = await app.inject(path);
    expect([statusCode, headers['content-type']]).toEqual([200, 'text/markdown; charset=utf-8']);
    expect(body).toMatch(/^# /);
    const targets = [...body.replaceAll(/^```[\s\S]*?^```$/gm, '').matchAll(/\]\((\/[^)\s#]*)/g)];
    for (const [, target = ''] of targets) expect((await app.inject(target)).statusCode, target).toBe(200);
  });
});

test('samples of one step in several languages are tabs, of which one is open', () => {
  const targets = { link: (href: string) => href, picture: (href: string) => href };
  const block = (language: string): string => `\`\`\`${language}\nrun ${language}\n\`\`\`\n\n`;
  const page = String(
    renderMarkdown(`# Page\n\n${block('sh')}${block('js')}${block('python')}${block('sh')}`, targets),
  );
  expect([...page.matchAll(/<summary>(\w+)<\/summary>/g)].map(([, name]) => name)).toEqual([
    'curl',
    'JavaScript',
    'Python',
  ]);
  expect(page.match(/<details [^>]*open>/g)).toHaveLength(1);
  // The fourth is the next step.
  expect(page.match(/<pre/g)).toHaveLength(4);
});

test('markup in Markdown is refused, and text is never markup', () => {
  const targets = { link: (href: string) => href, picture: (href: string) => href };
  for (const markdown of ['<b>bold</b>', 'a <img src=x onerror=alert(1)> b', '<!-- a --><script>x</script>'])
    expect(() => renderMarkdown(markdown, targets), markdown).toThrow('which the guides do not show');
  const page = String(renderMarkdown('`<b>` 1 < 2 & "x" | \\<i> [a<](/b"c)\n\n```\n<s>\n```', targets));
  expect(page).toContain('<code>&lt;b&gt;</code> 1 &lt; 2 &amp; &quot;x&quot; | &lt;i&gt;');
  expect(page).toContain('<code data-sample>&lt;s&gt;</code>');
  expect(page).not.toMatch(/<[bis]>|"c"/);
});

test('a search finds sections in any case, those with the words in their heading first', async () => {
  const search = async (q: string): Promise<string[]> => {
    const { body } = await app.inject(`/guides?${new URLSearchParams({ q })}`);
    return [...body.matchAll(/<li><a href="([^"]+)"/g)].map(([, href = '']) => href);
  };
  expect((await search('ROTATE  key'))[0]).toMatch(/^\/guides\/(?:rotate-a-key|operations\/keys)#/);
  expect(await search('EGRESS_PRIVATE_HOSTS')).toContain('/guides/proxy#start-a-destination');
  expect(await search('no-such-word')).toEqual([]);
  expect(await search('x'.repeat(10_000))).toEqual([]);
  expect((await search('the')).length).toBe(30);
  for (const href of await search('token')) expect(href).not.toContain('/decisions/00');
  const { body } = await app.inject(`/guides?q=${encodeURIComponent('"><script>alert(1)</script>')}`);
  expect(body).toContain('value="&quot;&gt;&lt;script&gt;');
  expect((await app.inject('/guides?q=a&q=b')).statusCode).toBe(200);
});

test('llms.txt lists every page by role, with its Markdown', async () => {
  const { body, headers } = await app.inject('/llms.txt');
  expect(headers['content-type']).toBe('text/plain; charset=utf-8');
  expect(body).toMatch(/^# Strongroom\n\n> /);
  for (const { path, title } of listed) expect(body).toContain(`- [${title}](${path}.md): `);
});

test('what is no page is a 404: other files, ways up, pictures of other folders', async () => {
  for (const path of [
    '/guides/nothing',
    '/guides/..%2fapi',
    '/guides/../package.json',
    '/guides/__proto__',
    '/guides/operations/decrypt-export.py',
    '/guides/console/README',
    '/assets/guides/..%2fLICENSE',
    '/assets/guides/constructor',
  ])
    expect((await app.inject(path)).statusCode, path).toBe(404);
  const framed = await app.inject({ url: '/guides/tokenize', headers: { 'sec-fetch-dest': 'iframe' } });
  expect(framed.statusCode).toBe(403);
  const picture = await app.inject({ url: '/assets/guides/proxy.svg', headers: { 'sec-fetch-dest': 'image' } });
  expect([picture.statusCode, picture.headers['content-type']]).toEqual([200, 'image/svg+xml']);
});

test('the guides, the reference and the console lead to each other', async () => {
  const { body } = await app.inject('/guides');
  expect(body).toContain('<a href="/docs">API reference</a>');
  expect(body).toContain('<a href="/console">Console</a>');
  expect((await app.inject('/docs')).body).toContain('<a href="/guides">Guides</a>');
  expect((await app.inject('/')).json()).toMatchObject({ guides: '/guides' });
  expect(docsUrlOf(loadConfig({}), '/guides')).toBe('/guides');
  expect(docsUrlOf(loadConfig({ DOCS: 'off' }), '/guides')).toBeUndefined();
});
