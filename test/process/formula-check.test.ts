// A formula whose check could not run: the error does not blame the code, and the author can retry.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SandboxOwner } from '../../src/platform/sandbox/host/supervisor.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const create = (code: string) =>
  server.request('POST', '/reactor-formulas', { json: { name: 'Checked', type: 'private', code } });

test('an executor killed during a check is a 503 with Retry-After, not an error of the code', async () => {
  const sandbox = server.ctx.sandbox as SandboxOwner;
  const killed = new Set<number>();
  // A check is begun once more in another executor: that one is killed too.
  const killing = setInterval(() => {
    for (const { pid, runs } of sandbox.executors()) {
      if (runs === 0 || killed.has(pid)) continue;
      killed.add(pid);
      process.kill(pid, 'SIGKILL');
    }
  }, 10);
  // Longer than the pause between two looks, shorter than a check may take.
  const code = 'for (const end = Date.now() + 500; Date.now() < end;); module.exports = () => ({});';
  const refused = await create(code).finally(() => clearInterval(killing));
  expect([refused.status, refused.body.errors], refused.text).toEqual([503, undefined]);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(killed.size).toBe(2);
  expect((await create(code)).status).toBe(201);
});
