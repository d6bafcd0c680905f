// A callback that holds the event loop is named, and its operation is refused after the second time.
import { execFileSync } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { anonymousAccount } from '../../src/platform/base/accounts.ts';
import { Operation, mark, takeHeld, within } from '../../src/platform/base/event-loop.ts';
import { createHeldOperations, startCountingHeld } from '../../src/platform/base/held-operations.ts';
import { createLog } from '../../src/platform/base/log.ts';
import { startWatchdog } from '../../src/platform/base/watchdog.ts';
import { startServer, type TestServer } from '../support/server.ts';

/** Uses CPU time of this thread, without a pause. */
const spin = (ms: number): void => {
  const cpuMs = (): number => process.threadCpuUsage().user / 1000;
  for (const from = cpuMs(); cpuMs() - from < ms;);
};

/** Long enough for a busy machine to look in between, and short enough for a test. */
const CALLBACK_CPU_MS_MAX = 150;

let stop: () => Promise<void>;
beforeAll(async () => {
  stop = startWatchdog({ callbackCpuMsMax: CALLBACK_CPU_MS_MAX, turnCpuMsMax: 60_000 });
  // The thread is there once it finds something.
  await vi.waitFor(
    () => {
      spin(2 * CALLBACK_CPU_MS_MAX);
      expect(takeHeld()).toBeDefined();
    },
    { timeout: 20_000 },
  );
});
afterAll(() => stop());
beforeEach(async () => {
  // The thread looks again while the test before ends.
  await pause(CALLBACK_CPU_MS_MAX);
  takeHeld();
});

const operation = (route: string, resource = ''): Operation => new Operation(route, () => 'tenant', resource);

describe('the watchdog', () => {
  test('names the operation of a callback, also after it has awaited something', async () => {
    await within(operation('POST /slow', 'an id'), async () => {
      await pause(1);
      mark();
      spin(3 * CALLBACK_CPU_MS_MAX);
    });
    const held = takeHeld();
    expect(held?.cpuMs).toBeGreaterThanOrEqual(CALLBACK_CPU_MS_MAX);
    expect(JSON.parse(held?.name ?? '')).toEqual({ account: 'tenant', route: 'POST /slow', resource: 'an id' });
  });

  test('names nothing where no operation is marked, nor one of an earlier tick', async () => {
    within(operation('POST /earlier'), () => undefined);
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    spin(3 * CALLBACK_CPU_MS_MAX);
    expect(takeHeld()).toMatchObject({ name: undefined });
  });

  // The CPU time of a callback has that of the threads of V8, which may collect garbage of the tests before.
  test('finds nothing where many operations share the time', { retry: 2 }, async () => {
    for (let at = 0; at < 30; at += 1) {
      within(operation(`POST /${at}`), () => spin(CALLBACK_CPU_MS_MAX / 10));
    }
    expect(takeHeld()).toBeUndefined();
  });
});

describe('an operation', () => {
  const name = { account: 'tenant', route: 'POST /slow', resource: 'an id' };
  let now: number;
  const clock = (): Date => new Date(now);
  beforeEach(() => {
    now = Date.now();
  });

  test('is refused for a minute after the second event within ten minutes, and no other one is', () => {
    const held = createHeldOperations(clock);
    held.count({ ...name, route: 'GET /other' });
    held.check(name);
    now += 599_000;
    held.count(name);
    expect(() => held.check(name)).toThrow(
      expect.objectContaining({ code: 'unavailable', retryAfterSeconds: 60, message: expect.stringContaining('1 s') }),
    );
    held.check({ ...name, resource: 'another id' });
    held.check({ ...name, account: 'another tenant' });
    held.check({ ...name, route: 'GET /other' });
    now += 60_000;
    held.check(name);
  });

  test('is not refused where the second event comes later', () => {
    const held = createHeldOperations(clock);
    held.count(name);
    now += 601_000;
    held.count(name);
    held.check(name);
  });

  test('is refused at once where it ended a process', () => {
    const held = createHeldOperations(clock);
    held.count(name, true);
    expect(() => held.check(name)).toThrow(expect.objectContaining({ code: 'unavailable' }));
  });

  test('the earliest events are forgotten where there are very many', () => {
    const held = createHeldOperations(clock);
    held.count(name);
    for (let at = 0; at < 2_000; at += 1) held.count({ ...name, account: `tenant ${at}` });
    held.count(name);
    held.check(name);
  });
});

describe('what the watchdog found', () => {
  let lines: { alarm?: string; route?: string; cpu_ms?: number; gc_ms?: number }[] = [];
  let result: unknown[] = [];
  let stopCounting: () => void;
  beforeAll(() => {
    const log = createLog('info', { write: (line: string) => void lines.push(JSON.parse(line)) });
    stopCounting = startCountingHeld(
      { heldOperations: createHeldOperations(() => new Date()), log },
      (operation) => void result.push(operation),
    );
  });
  afterAll(() => stopCounting());
  beforeEach(() => {
    lines = [];
    result = [];
  });

  test('is logged with the tenant and the operation, and told to the other workers', async () => {
    within(operation('POST /slow', 'an id'), () => spin(1_200));
    const name = { account: 'tenant', route: 'POST /slow', resource: 'an id' };
    await expect.poll(() => lines, { timeout: 10_000 }).toMatchObject([{ alarm: 'event_loop_held', ...name }]);
    expect(result).toEqual([name]);
  });

  test('names no operation for garbage collections', async () => {
    const script = `
      const { Operation, within } = await import(${JSON.stringify(new URL('../../src/platform/base/event-loop.ts', import.meta.url).href)});
      const { startWatchdog } = await import(${JSON.stringify(new URL('../../src/platform/base/watchdog.ts', import.meta.url).href)});
      const { createHeldOperations, startCountingHeld } = await import(${JSON.stringify(new URL('../../src/platform/base/held-operations.ts', import.meta.url).href)});
      startWatchdog({ turnCpuMsMax: 60_000 });
      const log = { error: (line) => console.log(JSON.stringify(line)) };
      startCountingHeld({ heldOperations: createHeldOperations(() => new Date()), log }, () => console.log('told'));
      await new Promise((resolve) => setTimeout(resolve, 2_000));
      const kept = Array.from({ length: 400_000 }, (_, at) => ({ at }));
      within(new Operation('POST /slow', () => 'tenant'), () => {
        const cpuMs = () => process.threadCpuUsage().user / 1000;
        for (const from = cpuMs(); cpuMs() - from < 1_200;) globalThis.gc();
      });
      await new Promise((resolve) => setTimeout(resolve, 500));
      console.log(kept.length);
      process.exit();`;
    const output = execFileSync(process.execPath, ['--expose-gc', '--input-type=module', '-e', script], {
      encoding: 'utf8',
    });
    const [line = '', ...others] = output.trim().split('\n');
    const logged = JSON.parse(line);
    expect(logged).toMatchObject({ alarm: 'event_loop_held' });
    expect(logged.gc_ms).toBeGreaterThan(600);
    expect(logged).not.toHaveProperty('route');
    expect(others).toEqual(['400000']);
  });
});

describe('a request', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
  });
  // Refusals of clients without a key would meet other files.
  afterAll(() => server.close());

  test('of a refused operation is a 503 with the time to retry after; other ids and tenants go on', async () => {
    const [created] = (await server.tokenize(['4111111111111111'])).body as string[];
    const route = 'GET /tokens/:id';
    const name = { account: server.tenant.tenant_id, route, resource: String(created) };
    server.ctx.heldOperations.count(name, true);
    const refused = await server.request('GET', `/tokens/${created}`);
    expect(refused.status).toBe(503);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(50);
    expect(refused.text).toContain('CPU time');
    const another = (await server.tokenize(['another value'])).body as string[];
    expect((await server.request('GET', `/tokens/${another[0]}`)).status).toBe(200);
    const other = await server.newTenant();
    expect((await server.request('GET', `/tokens/${created}`, { key: other.api_key })).status).toBe(404);
  });

  test('has no secret of a link in its name', async () => {
    const secret = 'x'.repeat(32);
    const name = { account: anonymousAccount('127.0.0.1'), route: 'GET /join/:secret' };
    const statusNow = async (): Promise<number> =>
      (await server.request('GET', `/join/${secret}`, { key: null })).status;
    server.ctx.heldOperations.count({ ...name, resource: secret }, true);
    expect(await statusNow()).toBe(410);
    server.ctx.heldOperations.count({ ...name, resource: '' }, true);
    expect(await statusNow()).toBe(503);
  });
});
