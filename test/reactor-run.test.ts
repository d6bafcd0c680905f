// `strongroom admin reactor run`: what an author learns of an error.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { callCommand } from './support/command.ts';

const folder = mkdtempSync(join(tmpdir(), 'strongroom-run-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('a module that does not exist has the nearest one, and the list of modules', async () => {
  const file = join(folder, 'formula.js');
  writeFileSync(file, `require('axois');\nmodule.exports = async () => ({ raw: 1 });\n`);
  const { code, stdout } = await callCommand(['reactor', 'run', file], { env: { DATA_DIR: folder } });
  expect([code, stdout]).toEqual([
    1,
    expect.stringMatching(/Cannot find module 'axois'\. Did you mean axios\? Modules: .*\bcrypto\b/),
  ]);
});
