// A start of several workers: what it refuses, and where it has its secrets from.
import { once } from 'node:events';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { prepareDataDir } from '../support/database.ts';
import { freePort, killIfAlive, workersOf } from '../support/process.ts';
import { MASTER_KEY, test, untilListening, WAIT } from '../support/workers.ts';

describe('a start', () => {
  test('with WORKERS=65 is refused, and says why', async ({ dataDir, startWorkers }) => {
    const refused = await startWorkers({ WORKERS: '65' });
    expect(await refused.exited).toBe(1);
    expect(refused.output()).toContain('WORKERS: must be a whole number from 1 to 64, or auto');
    expect(refused.output()).not.toMatch(/\n\s+at /);
    expect(readdirSync(dataDir)).toEqual([]);
  });

  test('of workers that cannot listen says so once, and leaves nothing behind', async ({ dataDir, startWorkers }) => {
    prepareDataDir(dataDir);
    const port = await freePort();
    const holder = createServer().listen(port, '127.0.0.1');
    await once(holder, 'listening');
    const refused = await startWorkers({ PORT: String(port) });
    expect(await refused.exited).toBe(1);
    expect(refused.output().match(/Port \d+ .* is taken/g)).toHaveLength(1);
    expect(refused.output()).toContain('postgres_stopped');
    holder.close();
  });

  test('of workers takes its secrets from files too', async ({ dataDir, database, startWorkers }) => {
    const files = { MASTER_KEY_FILE: join(dataDir, 'key'), DATABASE_URL_FILE: join(dataDir, 'url') };
    writeFileSync(files.MASTER_KEY_FILE, MASTER_KEY);
    writeFileSync(files.DATABASE_URL_FILE, database.url);
    const server = await startWorkers({ ...files, NODE_ENV: 'production', DRAIN_SECONDS: '0' });
    await untilListening(server);
    // What a replaced worker needs is not read again.
    for (const path of Object.values(files)) rmSync(path);
    killIfAlive(workersOf(server)[0] as number);
    await expect.poll(() => server.output(), WAIT).toContain('a worker took its place');
    server.child.kill('SIGTERM');
    expect(await server.exited).toBe(0);
  });
});
