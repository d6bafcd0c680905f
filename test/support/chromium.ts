// A real browser, where the machine has one, which reports whatever a page does wrong: errors, what its policy forbids, and
// every request that leaves the server's own origin.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { join as joinTenant } from './people.ts';
import { findProgram } from './programs.ts';
import type { SharedServer, TestTenant } from './server.ts';

/** Where a browser is; undefined where there is none. */
export const chromiumPath = findProgram('chromium');

/** A phone and a desk. */
export const widths = [390, 1280] as const;

const sizes = { 390: { width: 390, height: 844 }, 1280: { width: 1280, height: 800 } } as const;

/** Pictures of the pages go here, for the documentation; undefined: none are taken. */
const picturesDir = process.env['PICTURES'];

/** Takes a picture of a page as it is, where pictures are wanted. */
export const takePicture = async (page: Page, name: string): Promise<void> => {
  if (picturesDir === undefined) return;
  mkdirSync(picturesDir, { recursive: true });
  await page.screenshot({ path: join(picturesDir, `${name}.png`) });
};

/** @param args more of the command line. */
export const launchChromium = (args: string[] = []): Promise<Browser> =>
  chromium.launch({
    executablePath: chromiumPath as string,
    // No sandbox of its own: tests run as root too. The rest keeps it from calling its maker.
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      ...args,
    ],
  });

/** A page that has not come by then does not come. */
const WAIT_MS = 15_000;

export type Person = {
  page: Page;
  /** What went wrong so far; empty as long as nothing did. */
  faults: string[];
  /** Takes pictures of the page at all widths, where they are wanted. */
  picture(name: string): Promise<void>;
  close(): Promise<void>;
};

/** A person with a browser of their own: cookies are not shared. */
export const openPerson = async (browser: Browser, base_url: string): Promise<Person> => {
  const context = await browser.newContext({
    viewport: sizes[1280],
    baseURL: base_url,
    locale: 'en-GB',
    timezoneId: 'UTC',
  });
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // A page that is not there, or refuses, is told of here too, and looked at by whoever asked for it.
    if (message.type() === 'error' && !/status of (4\d\d)/.test(message.text())) faults.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${base_url}/`) && !request.url().startsWith('data:'))
      faults.push(`foreign: ${request.url()}`);
  });
  return {
    page,
    faults,
    picture: async (name) => {
      if (picturesDir === undefined) return;
      mkdirSync(picturesDir, { recursive: true });
      for (const width of widths) {
        await page.setViewportSize(sizes[width]);
        await page.screenshot({ path: join(picturesDir, `${name}-${width}.png`) });
      }
      await page.setViewportSize(sizes[1280]);
    },
    close: () => context.close(),
  };
};

/** A new member of a tenant, signed in, with a browser of their own. */
export const openMember = async (browser: Browser, server: SharedServer, tenant: TestTenant): Promise<Person> => {
  const person = await openPerson(browser, server.base_url);
  const { cookies } = (await joinTenant(server, { tenant })).browser;
  const url = server.base_url;
  await person.page.context().addCookies([...cookies].map(([name, value]) => ({ name, value, url })));
  return person;
};
