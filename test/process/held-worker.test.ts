// What ended a worker is refused by the workers that start after it: the supervisor remembers it for them.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createDataDir } from '../support/database.ts';
import { killIfAlive, type ServerProcess, spawnServer, untilReady, workersOf } from '../support/process.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const WAIT = { timeout: 120_000, interval: 100 };

let dataDir: string;
let namePath: string;
let server: ServerProcess;
beforeAll(async () => {
  dataDir = createDataDir('held');
  namePath = join(dataDir, 'operation.json');
  // Loaded before the server, into each process: holds the loop for the named operation when it is told to.
  const eventLoop = pathToFileURL(join(root, 'src/platform/base/event-loop.ts')).href;
  const holder = `import { readFileSync } from 'node:fs';
    import { Operation, within } from '${eventLoop}';
    process.on('SIGUSR2', () => {
      const { account, route, resource } = JSON.parse(readFileSync('${namePath}', 'utf8'));
      within(new Operation(route, () => account, resource), () => { for (;;); });
    });`;
  server = await spawnServer(dataDir, { WORKERS: '2', NODE_ENV: 'test', LOG_FORMAT: 'json' }, [
    process.execPath,
    '--disable-sigusr1',
    '--import',
    `data:text/javascript,${encodeURIComponent(holder)}`,
    join(root, 'src/main.ts'),
  ]);
  await untilReady(server);
  await vi.waitFor(() => expect(server.output()).toContain('"workers":2'), WAIT);
});
afterAll(async () => {
  server.child.kill('SIGTERM');
  await server.exited;
  rmSync(dataDir, { recursive: true, force: true });
});

const statusOf = async (method: string, path: string, key: string, body?: string): Promise<[number, unknown]> => {
  // A connection of its own: the supervisor gives connections to workers in turn.
  const headers = { 'svc-api-key': key, 'content-type': 'application/json', connection: 'close' };
  const answer = await fetch(server.base_url + path, { method, headers, ...(body !== undefined && { body }) });
  return [answer.status, await answer.json()];
};

test('the operation that ended a worker is refused by those that start later', { timeout: 240_000 }, async () => {
  const { tenant_id, api_key } = server.credentials();
  const [, ids] = await statusOf('POST', '/tokenize', api_key, '["held","other"]');
  const [held, other] = ids as [string, string];
  expect((await statusOf('GET', `/tokens/${held}`, api_key))[0]).toBe(200);
  writeFileSync(namePath, JSON.stringify({ account: tenant_id, route: 'GET /tokens/:id', resource: held }));
  const before = workersOf(server);
  const [first = 0, second = 0] = before;
  process.kill(first, 'SIGUSR2');
  await vi.waitFor(() => expect(server.output()).toContain('"alarm":"event_loop_stuck"'), WAIT);
  // The other worker was told at once. Without it, all answers are of workers that start after the event.
  killIfAlive(second);
  const places = (): number => server.output().split('a worker took its place').length - 1;
  await vi.waitFor(() => expect(places()).toBe(2), WAIT);
  expect(workersOf(server).filter((pid) => before.includes(pid))).toEqual([]);
  for (let each = 0; each < 4; each += 1) expect((await statusOf('GET', `/tokens/${held}`, api_key))[0]).toBe(503);
  for (let each = 0; each < 4; each += 1) expect((await statusOf('GET', `/tokens/${other}`, api_key))[0]).toBe(200);
});
