// Looks at pages with axe, in light and dark, on a narrow and a wide window.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

export const LOOKS = [
  ['light', 320],
  ['light', 1280],
  ['dark', 320],
  ['dark', 1280],
] as const;
export type Look = (typeof LOOKS)[number];

/** What axe finds on the page as it is: the rule, and the element. */
export const violationsOf = async (page: Page): Promise<string[]> => {
  await page.evaluate(axe);
  return page.evaluate(`axe.run(document, { resultTypes: ['violations'], runOnly: ${JSON.stringify(TAGS)} }).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => id + ': ' + target.join(' '))))`);
};

/** What axe finds on a page as it looks there, with its closed parts open, and whether it is wider than the window. */
export const faultsOf = async (page: Page, path: string, [colorScheme, width]: Look): Promise<string[]> => {
  await page.emulateMedia({ colorScheme });
  await page.setViewportSize({ width, height: 900 });
  await page.goto(path);
  await page.evaluate("document.querySelectorAll('main details:not([name])').forEach((each) => { each.open = true; })");
  const isTooWide = 'document.documentElement.scrollWidth > document.documentElement.clientWidth';
  return [...(await violationsOf(page)), ...((await page.evaluate(isTooWide)) ? ['too wide'] : [])];
};
