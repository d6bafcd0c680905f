// Runs each recipe by the command of its page, and compares what it prints with the page.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { root } from '../support/process.ts';

const folder = join(root, 'recipes');
const names = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

const blockOf = (page: string, language: string): string =>
  new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(page)?.[1] ?? '';

const runRecipe = (name: string) => promisify(execFile)(process.execPath, ['recipes/run.ts', name], { cwd: root });

test('the page of recipes lists each', () => {
  const page = readFileSync(join(folder, 'README.md'), 'utf8');
  expect(names).toEqual(['adyen', 'braintree', 'stripe']);
  for (const name of names) expect(page).toContain(`\`npm run recipe -- ${name}\``);
});

test.each(names)('the recipe %s prints what its page shows', async (name) => {
  const page = readFileSync(join(folder, name, 'README.md'), 'utf8');
  expect(blockOf(page, 'console')).toBe(`npm run -s recipe -- ${name}\n`);
  const { stdout } = await runRecipe(name);
  expect(JSON.parse(stdout)).toEqual(JSON.parse(blockOf(page, 'json')));
});

test('another name is refused, with the names that there are', async () => {
  const wrong = await runRecipe('strype').catch((error: { code: number; stderr: string }) => error);
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('adyen, braintree, stripe') });
});
