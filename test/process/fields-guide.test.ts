// The guide of the fields library, as a merchant follows it: its backend and its page, as they are printed, sell something.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchChromium } from '../support/chromium.ts';
import { isInstalled } from '../support/programs.ts';
import { freePort, root } from '../support/process.ts';
import { startServerBefore, type TestServer } from '../support/server.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const guide = readFileSync(join(root, 'docs/guides/collect-cards.md'), 'utf8');

/** A test card that the processor declines. */
const DECLINED = '4000000000000002';

/** The block of a language that has these words. */
const blockOf = (language: string, words: string): string =>
  [...guide.matchAll(/```(\w+)\n([^]*?)```/g)].find(([block, of]) => of === language && block.includes(words))?.[2] ??
  '';

describe.skipIf(!isInstalled('chromium'))('the backend and the page of the guide, in Chromium', () => {
  let server: TestServer;
  let processor: Upstream;
  let directory: string;
  let backend: ChildProcess;
  let origin: string;

  beforeAll(async () => {
    processor = await startUpstream({
      answer: (_request, response, { body }) => {
        const isDeclined = String(body).includes(DECLINED);
        response.writeHead(isDeclined ? 402 : 200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ status: isDeclined ? 'declined' : 'succeeded' }));
      },
    });
    server = await startServerBefore({ 'upstream.test': processor.port });
    const { body } = await server.request('GET', '/fields/integrity.json', { key: null });
    const page = blockOf('html', '<!doctype html>').replace('sha384-DIGEST', body.versions[body.current]['fields.js']);
    expect(page).toContain(`/fields/${body.current}/fields.js`);
    directory = mkdtempSync(join(tmpdir(), 'strongroom-guide-'));
    writeFileSync(join(directory, 'server.mjs'), blockOf('js', 'createServer('));
    writeFileSync(join(directory, 'page.html'), page);
    const port = await freePort();
    origin = `http://localhost:${port}`;
    const permissions = ['session:create', 'session:read', 'token:create', 'token:use'] as const;
    const { api_key } = await server.newKey(server.tenant, { permissions: [...permissions] });
    backend = spawn(process.execPath, ['server.mjs'], {
      cwd: directory,
      env: {
        SVC_API_KEY: api_key,
        VAULT_URL: server.base_url,
        PORT: String(port),
        PROCESSOR_URL: `https://upstream.test:${processor.port}`,
      },
      stdio: 'inherit',
    });
    while (!(await fetch(origin).catch(() => undefined))) await new Promise((resolve) => setTimeout(resolve, 20));
  });
  afterAll(async () => {
    backend?.kill();
    rmSync(directory, { recursive: true, force: true });
    await server?.close();
    await processor?.close();
  });

  test('sell something, without an error in the console', async () => {
    const chromium = await launchChromium();
    const page = await chromium.newPage();
    const lines: string[] = [];
    page.on('console', (message) => lines.push(message.text()));
    await page.goto(origin);
    const fill = (field: string, text: string) =>
      page.frameLocator(`iframe[data-strongroom-field=${field}]`).locator('input').fill(text);
    const pay = async (number: string) => {
      await fill('number', number);
      await fill('expiry', '12/30');
      await fill('cvc', '123');
      await page.getByRole('button', { name: 'Pay' }).click();
    };
    await pay(DECLINED);
    await page.getByText('The card was declined. Use another one.').waitFor();
    await pay('4242424242424242');
    await page.getByText('Paid with XXXXXXXXXXXX4242').waitFor();
    expect(processor.received.map(({ body }) => JSON.parse(String(body)).number)).toEqual([
      DECLINED,
      '4242424242424242',
    ]);
    expect(lines.filter((line) => !/favicon|404|402|autofill/.test(line))).toEqual([]);
    await chromium.close();
  });

  test('ask the vault for no path that a browser names', async () => {
    const body = JSON.stringify({ session: '../tokens/4711', token: 'x' });
    expect((await fetch(`${origin}/pay`, { method: 'POST', body })).status).toBe(500);
    const { id } = (await (await fetch(`${origin}/session`, { method: 'POST' })).json()) as { id: string };
    const other = JSON.stringify({ session: id, token: 'x' });
    expect((await fetch(`${origin}/pay`, { method: 'POST', body: other })).status).toBe(500);
    const log = server.logLines.join('');
    expect(log).toContain('"route":"/sessions/:id"');
    expect(log).not.toContain('"route":"/tokens/:id"');
  });
});
