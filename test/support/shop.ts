// A merchant's site on another origin than the vault, with a strict policy: its page mounts the fields and keeps all that it hears.
import { createServer } from 'node:http';
import type { Browser, BrowserContext, Frame, Page } from 'playwright-core';
import type { TestServer } from './server.ts';

export type Shop = {
  origin: string;
  /** Opens the page in a new context of the browser. */
  open(browser: Browser, options?: PageOptions): Promise<Visit>;
  close(): Promise<void>;
};

export type PageOptions = {
  session: { id: string; session_key: string };
  /** What the page's script does with `form`. The default mounts a card. */
  script?: string;
  form?: 'card' | 'bank' | 'text';
  type?: string;
  integrity?: string;
  /** Directives of the page's policy in place of the usual ones. */
  policy?: string;
  origin?: string;
};

export type Visit = {
  page: Page;
  context: BrowserContext;
  frame(field: string): Frame;
  /** Runs an expression in the page. */
  run<T>(expression: string): Promise<T>;
  /** The events of the form so far. */
  events(): Promise<{ name: string; payload: any }[]>;
  /** Each request of the page and its frames, with its body. */
  requests: { method: string; url: string; body: string }[];
  /** Errors of the page and lines of the console. */
  console: string[];
  close(): Promise<void>;
};

const NONCE = 'c2hvcA';

const MOUNT_CARD = `form.mount({ number: '#number', expiry: '#expiry', cvc: '#cvc', name: document.querySelector('#name') });`;

/** Keeps what the library hears on its ports and what the window gets. */
const SPY = `
  window.heard = []; window.events = [];
  const listen = MessagePort.prototype.addEventListener;
  MessagePort.prototype.addEventListener = function (kind, listener) {
    listen.call(this, kind, (event) => { heard.push(JSON.stringify(event.data)); listener(event); });
  };
  addEventListener('message', ({ data }) => heard.push(JSON.stringify(data)));
  addEventListener('error', ({ message }) => heard.push(message));
  addEventListener('unhandledrejection', ({ reason }) => heard.push(String(reason)));
`;

const pageOf = (vault: string, version: string, options: PageOptions): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Shop</title>
<script nonce="${NONCE}">${SPY}</script>
<script nonce="${NONCE}" src="${vault}/fields/${version}/fields.js" crossorigin="anonymous"${options.integrity === undefined ? '' : ` integrity="${options.integrity}"`}></script>
</head><body>
<input aria-label="Before">
<div id="number"></div><div id="expiry"></div><div id="cvc"></div><div id="name"></div><div id="value"></div>
<button id="pay">Pay</button>
<script nonce="${NONCE}">
  const session = ${JSON.stringify(options.session)};
  const fields = StrongroomFields.createFields({ origin: '${vault}', session });
  window.form = fields.${options.form ?? 'card'}(${options.type === undefined ? '' : `'${options.type}'`});
  for (const name of ['ready', 'change', 'submit', 'error'])
    form.on(name, (payload) => events.push({ name, payload: payload instanceof Error ? { ...payload } : payload }));
  window.until = (name) => new Promise((done) => form.on(name, done));
  window.tokenize = (options) => form.tokenize(options).catch(({ code, errors }) => ({ code, errors }));
  ${options.script ?? MOUNT_CARD}
</script>
</body></html>`;

export const startShop = async (vault: TestServer): Promise<Shop> => {
  let shown: PageOptions | undefined;
  const { current } = (await (await fetch(`${vault.base_url}/fields/integrity.json`)).json()) as { current: string };
  const strict = `default-src 'none'; script-src 'nonce-${NONCE}'; frame-src ${vault.base_url}; base-uri 'none'`;
  const server = createServer((_request, response) => {
    if (!shown) return void response.writeHead(404).end();
    response.writeHead(200, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': shown.policy ?? strict,
    });
    response.end(pageOf(vault.base_url, current, shown));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const origin = `http://localhost:${port}`;

  return {
    origin,
    open: async (browser, options) => {
      shown = options;
      const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'UTC' });
      context.setDefaultTimeout(15_000);
      const page = await context.newPage();
      const requests: Visit['requests'] = [];
      const lines: string[] = [];
      page.on('console', (message) => lines.push(message.text()));
      page.on('pageerror', (error) => lines.push(error.message));
      context.on('request', (request) =>
        requests.push({ method: request.method(), url: request.url(), body: request.postData() ?? '' }),
      );
      await page.goto(`${options?.origin ?? origin}/`);
      return {
        page,
        context,
        requests,
        console: lines,
        frame: (field) => {
          const found = page.frames().find((frame) => frame.url().endsWith(`/${field}`));
          if (!found) throw new Error(`there is no frame ${field}`);
          return found;
        },
        run: <T>(expression: string) => page.evaluate(expression) as Promise<T>,
        events: () => page.evaluate('events') as ReturnType<Visit['events']>,
        close: () => context.close(),
      };
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
};
