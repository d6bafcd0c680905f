// Servers on one database may share a data directory, and start at once.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { loadConfig } from '../../platform/config/config.ts';
import { readCredentials, writeCredentials } from './dev-credentials.ts';

/** Many, for a start refreshes the file once: with one name for all drafts, two of three processes fail within these. */
const REFRESHES = 150;

test('processes that refresh the file at once all succeed, and leave it whole and alone', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-credentials-'));
  try {
    const config = loadConfig({ DATA_DIR: dataDir });
    writeCredentials(config, { base_url: 'http://first', api_key: 'the key' });
    const module = JSON.stringify(fileURLToPath(new URL('./dev-credentials.ts', import.meta.url)));
    const children = [1, 2, 3].map((n) => {
      const code = `
        import { refreshBaseUrl } from ${module};
        const config = { dataDir: ${JSON.stringify(dataDir)} };
        for (let at = 0; at < ${REFRESHES}; at += 1) refreshBaseUrl(config, 'http://${n}/' + at);
      `;
      return spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: 'inherit' });
    });
    expect(await Promise.all(children.map(async (child) => (await once(child, 'exit'))[0]))).toEqual([0, 0, 0]);
    expect(readCredentials(config)).toEqual({
      base_url: expect.stringMatching(`^http://[123]/${REFRESHES - 1}$`),
      api_key: 'the key',
    });
    expect(readdirSync(dataDir)).toEqual(['dev-api-key', 'dev-credentials.json']);
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});
