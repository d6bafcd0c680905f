// The demo, as `npm run demo` starts it: a card that a person types arrives at the processor, and the shop's page never holds it.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchChromium, takePicture } from '../support/chromium.ts';
import { isInstalled } from '../support/programs.ts';
import { root } from '../support/process.ts';

const NUMBER = '4916338506082832';
const CVC = '739';
/** Typed when the card is on file. */
const OTHER_CVC = '648';
const EXPIRY = '12/30';

/** Digits of the number that stand beside each other, also as they are shown in groups. The mask shows the last four. */
const RUN_LENGTH = 6;
const runs = Array.from({ length: NUMBER.length - RUN_LENGTH + 1 }, (_, at) => NUMBER.slice(at, at + RUN_LENGTH));
const grouped = ['4916 3', '6 3385', '3385 0', '5 0608', '0608 2', '8 2832'];

const findRuns = (text: string): string[] => [...runs, ...grouped].filter((run) => text.includes(run));

describe.skipIf(!isInstalled('chromium'))('the demo, in Chromium', () => {
  let dataDir: string;
  let demo: ChildProcess;
  let url: string;
  let chromium: Browser;
  let printed = '';

  beforeAll(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'strongroom-demo-'));
    const { DEMO_PORT: _, ...environment } = process.env;
    demo = spawn(process.execPath, ['demo/start.ts'], {
      cwd: root,
      // The vault of the demo listens on loopback, whatever the shell sets for another one.
      env: { ...environment, DATA_DIR: dataDir, DEMO_PORT: '0', HOST: '::1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [demo.stdout, demo.stderr]) stream?.on('data', (text: Buffer) => (printed += String(text)));
    while (!printed.includes('The shop:')) {
      if (demo.exitCode !== null) throw new Error(`the demo ended: ${printed}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    url = /http:\/\/localhost:\d+\//.exec(printed)?.[0] ?? '';
    chromium = await launchChromium();
  });
  afterAll(async () => {
    await chromium?.close();
    if (demo?.exitCode === null) {
      demo.kill('SIGTERM');
      await once(demo, 'exit');
    }
    rmSync(dataDir, { recursive: true, force: true });
  });

  test('prints the vault, its key and the console, and how to join', async () => {
    const [, vault = ''] = /The vault: +(http:\/\/127\.0\.0\.1:\d+),/.exec(printed) ?? [];
    const [, key = ''] = /Its key: +(svc_test_\w+)/.exec(printed) ?? [];
    expect((await fetch(`${vault}/applications/key`, { headers: { 'svc-api-key': key } })).status).toBe(200);
    expect(printed).toContain(`${vault}/console.`);
    const { stdout } = await promisify(execFile)(
      'npm',
      /npm (run -s strongroom -- admin owner invite .*)/.exec(printed)?.[1]?.split(' ') ?? [],
      {
        cwd: root,
        env: { ...process.env, DATA_DIR: dataDir },
      },
    );
    expect(stdout).toContain(`${vault}/join/`);
  });

  test('a card arrives at the processor, and nothing of it is in the page of the shop', async () => {
    const context = await chromium.newContext({ viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    const lines: string[] = [];
    const requests: { url: string; frame: string; body: string }[] = [];
    page.on('console', (message) => lines.push(message.text()));
    page.on('pageerror', (error) => lines.push(error.message));
    page.on('request', (request) =>
      requests.push({ url: request.url(), frame: request.frame().url(), body: request.postData() ?? '' }),
    );
    await page.goto(url);
    const fill = (field: string, text: string) =>
      page.frameLocator(`#form iframe[data-strongroom-field=${field}]`).locator('input').pressSequentially(text);
    await fill('number', NUMBER);
    await fill('expiry', EXPIRY);
    await fill('cvc', CVC);
    const devtools = await context.newCDPSession(page);
    const takeHeap = async (): Promise<string> => {
      const chunks: string[] = [];
      const keep = ({ chunk }: { chunk: string }): void => void chunks.push(chunk);
      devtools.on('HeapProfiler.addHeapSnapshotChunk', keep);
      await devtools.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false });
      devtools.off('HeapProfiler.addHeapSnapshotChunk', keep);
      const { strings } = JSON.parse(chunks.join('')) as { strings: string[] };
      return strings.join('\n');
    };
    const typed = await takeHeap();
    await page.getByRole('button', { name: 'Pay', exact: true }).click();
    await page.getByText('Payment succeeded').waitFor();

    const processor = page.frameLocator('#processor').locator('pre');
    await processor.getByText(`"number":"${NUMBER}"`).waitFor();
    expect(await processor.textContent()).toContain(`"cvc":"${CVC}"`);
    await takePicture(page, 'demo');

    const paid = await takeHeap();
    // The snapshots are of this page: they hold what it shows.
    expect(paid).toContain('XXXXXXXXXXXX2832');
    const stored = await page.evaluate(
      `JSON.stringify([document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage }, document.cookie,
        performance.getEntries()])`,
    );
    const ofPage = requests.filter(({ frame }) => frame === url);
    for (const text of [typed, paid, String(stored), lines.join('\n'), JSON.stringify(ofPage), printed])
      expect(findRuns(text)).toEqual([]);
    const holding = requests.filter(({ url: to, body }) => findRuns(to + body).length > 0);
    expect(holding.map(({ url: to }) => new URL(to).pathname)).toEqual(['/tokens']);
    expect(lines.filter((line) => !/autofill|favicon/i.test(line))).toEqual([]);
    await context.close();
  });

  test('the card on file is paid with its security code alone, which goes to the vault only', async () => {
    const page = await chromium.newPage();
    const requests: { url: string; body: string }[] = [];
    page.on('request', (request) => requests.push({ url: request.url(), body: request.postData() ?? '' }));
    await page.goto(url);
    await page.getByText('The card that ends with 2832').waitFor();
    const code = page.locator('#code').frameLocator('iframe').locator('input');
    await code.pressSequentially(OTHER_CVC);
    await page.getByRole('button', { name: 'Pay again' }).click();
    await page.locator('#on-file').getByText('Payment succeeded').waitFor();
    const processor = page.frameLocator('#processor').locator('pre');
    await processor.getByText(`"cvc":"${OTHER_CVC}"`).waitFor();
    expect(await processor.textContent()).toContain(`"number":"${NUMBER}"`);
    const holding = requests.filter(({ body }) => body.includes(`"${OTHER_CVC}"`));
    expect(holding.map(({ url: to }) => new URL(to).pathname)).toEqual([
      expect.stringMatching(/^\/sessions\/.*\/cvc$/),
    ]);
    for (const text of [await page.locator('#browser').textContent(), await page.locator('#merchant').textContent()])
      expect(text).not.toContain(`"${OTHER_CVC}"`);
    expect(findRuns(JSON.stringify(requests))).toEqual([]);
    await page.close();
  });

  test.each([
    ['4000000000000002', 'Payment declined', 'received 402'],
    ['4000000000000341', 'Payment unknown: The destination closed the connection.', 'received 502'],
  ])('the page says what became of card %s: %s', async (number, result, merchant) => {
    const page = await chromium.newPage();
    await page.goto(url);
    const fill = (field: string, text: string) =>
      page.frameLocator(`#form iframe[data-strongroom-field=${field}]`).locator('input').pressSequentially(text);
    await fill('number', number);
    await fill('expiry', EXPIRY);
    await fill('cvc', CVC);
    await page.getByRole('button', { name: 'Pay', exact: true }).click();
    await page.getByText(result).waitFor();
    expect(await page.locator('#merchant').textContent()).toContain(merchant);
    await page.close();
  });

  test('the shop charges no token of a session that it did not create', async () => {
    const vaultUrl = /src="(http:\/\/127\.0\.0\.1:\d+)\/fields\//.exec(await (await fetch(url)).text())?.[1] ?? '';
    const { api_key } = JSON.parse(readFileSync(join(dataDir, 'dev-credentials.json'), 'utf8')) as { api_key: string };
    const { origin } = new URL(url);
    const ask = async (path: string, key: string, body: object): Promise<any> => {
      const headers = { 'svc-api-key': key, 'content-type': 'application/json', origin };
      const response = await fetch(`${vaultUrl}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
      return response.json();
    };
    const session = await ask('/sessions', api_key, { allowed_origins: [origin], types: ['card'] });
    const data = { number: NUMBER, expiration_month: 12, expiration_year: 2030, cvc: CVC };
    const { id } = await ask('/tokens', session.session_key, { type: 'card', data });
    expect(id).toEqual(expect.any(String));
    const body = JSON.stringify({ session: session.id, token: id });
    expect((await fetch(`${url}pay`, { method: 'POST', body })).status).toBe(502);
  });
});
