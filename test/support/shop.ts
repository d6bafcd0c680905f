// A merchant's site on another origin than the vault, with a strict policy: its page mounts the fields and keeps all that it hears.
import { createServer } from 'node:http';
import type { Browser, BrowserContext, BrowserContextOptions, Frame, Page } from 'playwright-core';
import type { TestServer } from './server.ts';

export type PageOptions = {
  session: { id: string; session_key: string };
  /** Makes `form` and mounts it. The default mounts a card. */
  script?: string;
  /** Of the library. The default is the vault's digest of it. */
  integrity?: string;
  /** In place of the strict policy. */
  policy?: string;
  /** In place of the library: a bundle of the page's own. */
  bundle?: string;
  /** Another name of the site, which is another origin. */
  host?: string;
  /** Runs before the page is loaded. */
  prepare?: (context: BrowserContext) => Promise<unknown>;
  context?: BrowserContextOptions;
};

export type Visit = {
  page: Page;
  context: BrowserContext;
  frame(field: string): Frame;
  /** Runs an expression in the page. */
  run<T>(expression: string): Promise<T>;
  /** Waits until an expression is true in the page. The browser's own way would need `unsafe-eval` in its policy. */
  until(expression: string): Promise<void>;
  /** Waits until all frames can be typed in. */
  ready(): Promise<void>;
  /** The events of a kind so far. */
  events(name: string): Promise<any[]>;
  /** Each request of the page and its frames, with its body. */
  requests: { method: string; url: string; body: string }[];
  /** Errors of the page and lines of the console. */
  console: string[];
  close(): Promise<void>;
};

export type Shop = {
  origin: string;
  /** Of the library that the vault serves. */
  version: string;
  /** Opens the page in a new context of the browser. */
  open(browser: Browser, options: PageOptions): Promise<Visit>;
  close(): Promise<void>;
};

/** Of 20 ms each. */
const TRIES_MAX = 500;

const NONCE = 'c2hvcA';

const MOUNT_CARD = `
  window.form = fields.card();
  follow(form);
  form.mount({ number: '#number', expiry: '#expiry', cvc: '#cvc', name: document.querySelector('#name') });`;

/** Keeps what the library hears on its ports, what the window gets, and the events of the form. */
const SPY = `
  window.heard = []; window.events = []; window.state = undefined;
  const listen = MessagePort.prototype.addEventListener;
  MessagePort.prototype.addEventListener = function (kind, listener) {
    listen.call(this, kind, (event) => { heard.push(JSON.stringify(event.data)); listener(event); });
  };
  addEventListener('message', ({ data }) => heard.push(JSON.stringify(data)));
  addEventListener('error', ({ message }) => heard.push(message));
  addEventListener('unhandledrejection', ({ reason }) => heard.push(String(reason)));
  window.follow = (form) => {
    form.on('change', (state) => { window.state = state; });
    for (const name of ['ready', 'change', 'submit', 'error'])
      form.on(name, (payload) => events.push({ name, payload: payload instanceof Error ? { ...payload } : payload }));
  };
  window.tokenize = (options) => form.tokenize(options).catch(({ code, errors }) => ({ code, errors }));
`;

const pageOf = (vault: string, version: string, integrity: string, options: PageOptions): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Shop</title>
<script nonce="${NONCE}">${SPY}
  window.place = { origin: '${vault}', session: ${JSON.stringify(options.session)} };</script>
<script nonce="${NONCE}" src="${vault}/fields/${version}/fields.js" crossorigin="anonymous" integrity="${integrity}"></script>
</head><body>
<input aria-label="Before">
<div id="number"></div><div id="expiry"></div><div id="cvc"></div><div id="name"></div><div id="value"></div>
<button id="pay">Pay</button>
${
  options.bundle === undefined
    ? `<script nonce="${NONCE}">const fields = StrongroomFields.createFields(place); ${options.script ?? MOUNT_CARD}</script>`
    : `<script nonce="${NONCE}" src="/bundle.js"></script>`
}
</body></html>`;

export const startShop = async (vault: Pick<TestServer, 'base_url'>): Promise<Shop> => {
  let shown: PageOptions | undefined;
  const { current, versions } = (await (await fetch(`${vault.base_url}/fields/integrity.json`)).json()) as {
    current: string;
    versions: Record<string, Record<string, string>>;
  };
  const digest = versions[current]?.['fields.js'] ?? '';
  const strict = `default-src 'none'; script-src 'nonce-${NONCE}'; frame-src ${vault.base_url}; base-uri 'none'`;
  const server = createServer(({ url }, response) => {
    if (!shown || url === '/favicon.ico') return void response.writeHead(204).end();
    if (url === '/bundle.js')
      return void response.writeHead(200, { 'content-type': 'text/javascript; charset=utf-8' }).end(shown.bundle);
    response.writeHead(200, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': shown.policy ?? strict,
    });
    response.end(pageOf(vault.base_url, current, shown.integrity ?? digest, shown));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };

  return {
    origin: `http://localhost:${port}`,
    version: current,
    open: async (browser, options) => {
      shown = options;
      const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'UTC', ...options.context });
      context.setDefaultTimeout(15_000);
      const requests: Visit['requests'] = [];
      const lines: string[] = [];
      context.on('request', (request) =>
        requests.push({ method: request.method(), url: request.url(), body: request.postData() ?? '' }),
      );
      await options.prepare?.(context);
      const page = await context.newPage();
      page.on('console', (message) => lines.push(message.text()));
      page.on('pageerror', (error) => lines.push(error.message));
      await page.goto(`http://${options.host ?? 'localhost'}:${port}/`);
      const run = <T>(expression: string) => page.evaluate(expression) as Promise<T>;
      const until = async (expression: string): Promise<void> => {
        for (let tries = 0; tries < TRIES_MAX; tries += 1) {
          if (await run(`Boolean(${expression})`)) return;
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        throw new Error(`in the page this did not become true: ${expression}`);
      };
      return {
        page,
        context,
        requests,
        console: lines,
        run,
        frame: (field) => {
          const found = page.frames().find((frame) => frame.url().endsWith(`/${field}`));
          if (!found) throw new Error(`there is no frame ${field}`);
          return found;
        },
        until,
        ready: () => until(`events.some(({ name }) => name === 'ready')`),
        events: (name) =>
          run(`events.filter((event) => event.name === '${name}').map(({ payload }) => payload)`) as Promise<any[]>,
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
