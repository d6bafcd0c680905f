// The programs of the pages of @strongroom/fields and @strongroom/fields-react, in Chromium: bundled and run as they are printed.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { describe, expect, test } from 'vitest';
import { NUMBER, shareFieldsFixture } from './support/fields-fixture.ts';
import { root } from './support/process.ts';
import { isInstalled } from './support/programs.ts';
import type { Visit } from './support/shop.ts';

const readPage = (path: string): string => readFileSync(join(root, path), 'utf8');

const programsOf = (name: string): string[] =>
  [...readPage(`packages/${name}/README.md`).matchAll(/^```tsx?\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);

/** @param program as the page has it, with the vault and the session of a test in place of the reader's. */
const bundle = async (program: string): Promise<string> => {
  const source = (name: string) => join(root, 'packages', name, 'src', `${name}.ts`);
  const bundled = await build({
    stdin: {
      contents: `const { session } = place;\n${program.replaceAll(`'https://vault.example.com'`, 'place.origin')}`,
      resolveDir: import.meta.dirname,
      loader: 'tsx',
    },
    bundle: true,
    write: false,
    jsx: 'automatic',
    // The sources, and not what an earlier build left.
    alias: { '@strongroom/fields': source('fields'), '@strongroom/fields-react': source('fields-react') },
    define: {
      'process.env.NODE_ENV': '"development"',
      FIELDS_VERSION: JSON.stringify(JSON.parse(readPage('packages/fields/package.json')).version),
    },
  });
  return bundled.outputFiles[0]?.text ?? '';
};

const fill = async ({ page }: Visit, texts: Record<string, string>): Promise<void> => {
  for (const [field, text] of Object.entries(texts))
    await page.frameLocator(`iframe[data-strongroom-field=${field}]`).locator('input').fill(text);
};

const CARD = { number: NUMBER, expiry: '12/40', cvc: '739' };

describe.skipIf(!isInstalled('chromium'))('the programs of the pages, in Chromium', () => {
  const { fixture, newSession, open, revealed } = shareFieldsFixture();
  const [collect = '', again = ''] = programsOf('fields');

  test('every program of the pages is one of these', () => {
    expect([programsOf('fields').length, programsOf('fields-react').length]).toEqual([2, 1]);
  });

  test('fields: a card is stored when the button is pressed', async () => {
    const visit = await open({ bundle: await bundle(collect) });
    await fill(visit, CARD);
    const isStored = async (): Promise<string | undefined> => visit.console.find((line) => line.includes('visa'));
    await visit.page.getByRole('button', { name: 'Pay' }).click();
    await expect.poll(isStored).toBeTruthy();
    const [id = ''] = String(await isStored()).split(' ');
    expect(await revealed(id)).toMatchObject({ number: NUMBER });
    const { body } = await fixture.server.request('GET', `/tokens/${id}`);
    expect(body.metadata).toEqual({ order: '4711' });
  });

  test('fields: the security code of a stored card is saved when the button is pressed', async () => {
    const data = { number: NUMBER, expiration_month: 12, expiration_year: 2040 };
    const { id } = (await fixture.server.request('POST', '/tokens', { json: { type: 'card', data } })).body;
    const session = await newSession({ types: ['cvc'], token_id: id });
    const visit = await open({ session, bundle: await bundle(again) });
    await fill(visit, { cvc: '739' });
    await visit.page.getByRole('button', { name: 'Pay' }).click();
    await expect.poll(() => visit.console.some((line) => line.startsWith(id))).toBe(true);
    expect(await revealed(id)).toMatchObject({ cvc: '739' });
  });

  test('fields-react: the component collects a card, and its button waits until it is complete', async () => {
    const [program = ''] = programsOf('fields-react');
    const mounted = `${program}
      import { createRoot } from 'react-dom/client';
      const onPaid = (paid) => Object.assign(window, { paid });
      createRoot(document.querySelector('#value')).render(<Checkout origin={place.origin} session={session} onPaid={onPaid} />);`;
    const visit = await open({ bundle: await bundle(mounted) });
    const button = visit.page.locator('#value').getByRole('button', { name: 'Pay' });
    await button.waitFor();
    expect(await button.isDisabled()).toBe(true);
    await fill(visit, CARD);
    await expect.poll(() => button.isDisabled()).toBe(false);
    await button.click();
    await visit.until('window.paid');
    expect(await revealed(await visit.run('paid.id'))).toMatchObject({ number: NUMBER });
  });
});
