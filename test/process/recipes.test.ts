// Runs each recipe by the command of its page, and compares what it prints with the page.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { freePort, root } from '../support/process.ts';

const folder = join(root, 'recipes');
const names = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

const blockOf = (page: string, language: string): string =>
  new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(page)?.[1] ?? '';

const runRecipe = (name: string) => promisify(execFile)(process.execPath, ['recipes/run.ts', name], { cwd: root });

test('the page of recipes lists each', () => {
  const page = readFileSync(join(folder, 'README.md'), 'utf8');
  expect(names).toEqual(['adyen', 'braintree', 'saved-card', 'stripe']);
  for (const name of names) expect(page).toContain(`\`npm run recipe -- ${name}\``);
});

test.each(names)('the recipe %s prints what its page shows', async (name) => {
  const page = readFileSync(join(folder, name, 'README.md'), 'utf8');
  expect(blockOf(page, 'console')).toBe(`npm run -s recipe -- ${name}\n`);
  const { stdout } = await runRecipe(name);
  expect(JSON.parse(stdout)).toEqual(JSON.parse(blockOf(page, 'json')));
});

test('a fake is served alone, with the certificate that a development server trusts', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-fake-'));
  const PORT = String(await freePort());
  const child = spawn(process.execPath, ['recipes/run.ts', 'stripe', 'fake'], {
    cwd: root,
    env: { PATH: process.env['PATH'], DATA_DIR: dataDir, PORT },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => {
    child.kill();
    rmSync(dataDir, { recursive: true, force: true });
  });
  expect(String((await once(child.stdout, 'data'))[0])).toContain(
    `https://localhost:${PORT} answers as the fake of stripe`,
  );
  const { certificate, port } = JSON.parse(readFileSync(join(dataDir, 'echo.json'), 'utf8'));
  const asked = request({
    host: 'localhost',
    port,
    ca: certificate,
    path: '/v1/payment_methods',
    method: 'POST',
  }).end();
  const [response] = await once(asked, 'response');
  response.resume();
  expect(response.statusCode).toBe(401);
});

test('another name is refused, with the names that there are', async () => {
  const wrong = await runRecipe('strype').catch((error: { code: number; stderr: string }) => error);
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('adyen, braintree, saved-card, stripe') });
});
