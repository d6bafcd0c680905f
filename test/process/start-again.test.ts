// Stops and starts of a server with nothing configured: the same vault, with files that are lost or wrong.
import { readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { failing, shareServer, test } from '../support/place.ts';
import { isAlive, postgresProcesses, spawnServer, untilReady } from '../support/process.ts';

describe('a server with nothing configured', () => {
  const here = shareServer();

  // Each of these stops the server, and leaves one to the next.
  describe('and stopped', { concurrent: false }, () => {
    test('SIGTERM drains, exits 0, and Postgres is stopped; the second start has the same key', async () => {
      const before = here.server.credentials();
      const pids = postgresProcesses(here.dataDir);
      here.server.child.kill('SIGTERM');
      expect(await here.server.exited).toBe(0);
      expect(pids.filter(isAlive)).toEqual([]);
      // As in a data directory of an earlier release.
      rmSync(join(here.dataDir, 'dev-api-key'));
      await here.start();
      expect(readFileSync(join(here.dataDir, 'dev-api-key'), 'utf8')).toBe(`${before.api_key}\n`);
      expect(here.server.credentials()).toEqual({ ...before, base_url: here.server.base_url });
      expect((await here.tokenize(before.api_key)).status).toBe(200);
    });

    test('a lost file of credentials is written again, with a key of the same tenant', async () => {
      const path = join(here.dataDir, 'dev-credentials.json');
      const before = here.server.credentials();
      const losses = [() => rmSync(path), () => truncateSync(path, 40)];
      for (const lose of losses) {
        await here.stop();
        lose();
        await here.start();
        const after = here.server.credentials();
        expect(after.tenant_id).toBe(before.tenant_id);
        expect(after.application_id).not.toBe(before.application_id);
        expect(statSync(path).mode & 0o777).toBe(0o600);
        for (const { api_key } of [before, after]) expect((await here.tokenize(api_key)).status).toBe(200);
      }
    });

    test('a start while the last server is stopping gets the data directory and its database', async () => {
      for (const delayMs of [0, 350, 600]) {
        const last = here.server;
        here.server = await spawnServer(here.dataDir);
        await pause(delayMs);
        last.child.kill('SIGTERM');
        expect(await last.exited).toBe(0);
        await untilReady(here.server);
        expect((await here.tokenize()).status).toBe(200);
        expect(last.output() + here.server.output()).not.toContain('lock_lost');
      }
    });

    test('a wrong root key on existing data is refused at the start, and nothing is written', async () => {
      await here.stop();
      const path = join(here.dataDir, 'master.key');
      const right = readFileSync(path, 'utf8');
      writeFileSync(path, `${Buffer.alloc(32, 1).toString('base64')}\n`);
      const refused = await spawnServer(here.dataDir);
      expect(await refused.exited).toBe(1);
      expect(refused.output()).toContain('The root key does not open this vault');
      expect((await failing(here.dataDir, ['doctor'])).stdout).toContain(
        '✘ root key: The root key does not open this vault',
      );
      // One character too many: what is lenient with it would find 32 bytes all the same.
      writeFileSync(path, right.replace(/^./, '$&!'));
      const garbled = await spawnServer(here.dataDir);
      expect(await garbled.exited).toBe(1);
      expect(garbled.output()).toContain('is not 32 bytes in base64');
      rmSync(path);
      const without = await spawnServer(here.dataDir);
      expect(await without.exited).toBe(1);
      expect(without.output()).toContain('The root key is missing');
      expect(readdirSync(here.dataDir).filter((name) => name.startsWith('master.key'))).toEqual([]);
      writeFileSync(path, right);
      await here.start();
      expect((await here.tokenize()).status).toBe(200);
    });
  });
});
