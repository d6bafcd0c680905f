// A tenant with heavy work beside another one is served by the heavy worker: as before, by another process.
import { request } from 'node:http';
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { createDataDir } from '../support/database.ts';
import { isAlive, killIfAlive, runCommand, type ServerProcess, spawnServer, untilReady } from '../support/process.ts';
import { linesOf } from '../support/workers.ts';

const WAIT = { timeout: 60_000, interval: 50 };
const METRICS_TOKEN = 'a-token-for-the-metrics-of-tests-0123';
const texts = (count: number): string => JSON.stringify(Array.from({ length: count }, (_, each) => `text ${each}`));
/** Work of several hundred milliseconds in turns. */
const large = texts(3_000);

/** Little less than a server takes: what one process tells the other of the client must not make it too much. */
const HEADER_BYTES = 15_900;

type Tenant = { tenant_id: string; api_key: string };

const describeServer = (name: string, environment: Record<string, string>): void => {
  describe(name, () => {
    let dataDir: string;
    let server: ServerProcess;
    let heavy: Tenant;
    let small: Tenant;
    let looks = 0;

    const makeTenant = async (): Promise<Tenant> => {
      const { stdout } = await runCommand(['tenants', 'create', '--name', 'Another', '--json'], { DATA_DIR: dataDir });
      return JSON.parse(stdout) as Tenant;
    };
    const ask = (of: Tenant, method: string, path: string, body?: string, more = {}): Promise<Response> =>
      fetch(server.base_url + path, {
        method,
        headers: { 'svc-api-key': of.api_key, 'content-type': 'application/json', ...more },
        ...(body !== undefined && { body }),
      });
    const heavyPid = (): number => linesOf(server).findLast(({ msg }) => msg === 'the heavy worker serves')?.pid ?? 0;
    /** The processes that wrote a line for a request, by its trace id. */
    const servedBy = (trace_id: string): number[] =>
      linesOf(server)
        .filter((line) => line.msg === 'request' && line.trace_id === trace_id)
        .map(({ pid }) => pid ?? server.child.pid);
    const served = async (of: Tenant, trace_id: string): Promise<number[]> => {
      expect((await ask(of, 'GET', '/tenants/self', undefined, { 'svc-trace-id': trace_id })).status).toBe(200);
      return vi.waitFor(() => {
        expect(servedBy(trace_id)).toHaveLength(1);
        return servedBy(trace_id);
      }, WAIT);
    };
    /** Works until the heavy worker serves the tenant. */
    const untilHandedOver = async (): Promise<void> => {
      for (let turn = 0; ; turn += 1) {
        expect((await ask(small, 'GET', '/tenants/self')).status).toBe(200);
        const sent = Array.from({ length: 4 }, () => ask(heavy, 'POST', '/tokenize', large));
        for (const { status } of await Promise.all(sent)) expect(status).toBe(200);
        const pid = heavyPid();
        if (pid > 0 && isAlive(pid) && (await served(heavy, `look-${(looks += 1)}`))[0] === pid) return;
        expect(turn).toBeLessThan(20);
      }
    };

    beforeAll(async () => {
      dataDir = createDataDir('heavy');
      server = await spawnServer(dataDir, { HEAVY_WORKER: 'on', LOG_FORMAT: 'json', METRICS_TOKEN, ...environment });
      await untilReady(server);
      await vi.waitFor(() => expect(server.output()).toContain('"listening"'), WAIT);
      heavy = server.credentials();
      small = await makeTenant();
    });
    afterAll(async () => {
      server.child.kill('SIGTERM');
      expect(await server.exited).toBe(0);
      rmSync(dataDir, { recursive: true, force: true });
    });

    test('it starts for the tenant, and serves no other one', { timeout: 120_000 }, async () => {
      expect(heavyPid()).toBe(0);
      await untilHandedOver();
      expect(await served(small, 'of-the-other')).not.toEqual([heavyPid()]);
    });

    test('requests have their bodies, headers and responses as elsewhere', { timeout: 120_000 }, async () => {
      await untilHandedOver();
      const key = { 'svc-idempotency-key': `once-${heavy.tenant_id}` };
      const first = await ask(heavy, 'POST', '/tokens', '{"type":"token","data":"é€😀"}', key);
      expect(first.status).toBe(201);
      const token = (await first.json()) as { id: string };
      expect(first.headers.get('location')).toBe(`/tokens/${token.id}`);
      const again = await ask(heavy, 'POST', '/tokens', '{"type":"token","data":"é€😀"}', key);
      expect(await again.json()).toEqual(token);
      const read = await ask(heavy, 'GET', `/tokens/${token.id}?`, undefined, { 'x-forwarded-for': '192.0.2.7' });
      expect(read.status).toBe(200);
      expect(read.headers.get('connection')).toBe('keep-alive');
      expect((await ask(heavy, 'DELETE', `/tokens/${token.id}`)).status).toBe(204);
      expect((await ask(heavy, 'POST', '/tokens', '{"type":"toke')).status).toBe(400);
      expect((await ask(heavy, 'GET', '/no-such-path')).status).toBe(404);
      const long = { 'x-long': 'x'.repeat(HEADER_BYTES) };
      expect((await ask(heavy, 'GET', '/tenants/self', undefined, long)).status).toBe(200);
      expect((await ask(heavy, 'GET', '/tenants/self', undefined, { 'svc-api-key': 'svc_no' })).status).toBe(401);
      const { data } = (await (await ask(heavy, 'GET', `/logs?entity_id=${token.id}`)).json()) as { data: any[] };
      expect(data.length).toBeGreaterThan(0);
      // The client's own address, not what it says.
      for (const { ip } of data) expect(ip).toBe('127.0.0.1');
    });

    test('a body without a length passes, and one that is too large is refused', { timeout: 120_000 }, async () => {
      await untilHandedOver();
      const send = (chunks: string[]): Promise<{ status: number; body: string }> =>
        new Promise((resolve, reject) => {
          const headers = { 'svc-api-key': heavy.api_key, 'content-type': 'application/json' };
          const sent = request(`${server.base_url}/tokenize`, { method: 'POST', headers }, (answer) => {
            let body = '';
            answer.on('data', (chunk) => (body += chunk));
            answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body }));
          });
          sent.on('error', reject);
          for (const chunk of chunks) sent.write(chunk);
          sent.end();
        });
      const { status, body } = await send(['["in ', 'several ', 'chunks"]']);
      expect([status, JSON.parse(body).length]).toEqual([200, 1]);
      const refused = await ask(heavy, 'POST', '/tokenize', JSON.stringify('x'.repeat(20_000_000))).catch(
        () => undefined,
      );
      // The connection may be closed before the client has read the refusal of a body that it still sends.
      if (refused) expect(refused.status).toBe(413);
      expect((await ask(heavy, 'GET', '/tenants/self')).status).toBe(200);
    });

    test('the metrics of both processes are one', { timeout: 120_000 }, async () => {
      await untilHandedOver();
      const headers = { authorization: `Bearer ${METRICS_TOKEN}` };
      const text = await (await fetch(`${server.base_url}/metrics`, { headers })).text();
      const count = (pattern: RegExp): number => Number(pattern.exec(text)?.[1] ?? 0);
      expect(count(/strongroom_requests_total\{method="POST",route="\/tokens",status="201"\} (\d+)/)).toBe(2);
      const processes = 1 + (environment['WORKERS'] === undefined ? 0 : Number(environment['WORKERS']));
      expect(count(/strongroom_workers\{state="answering"\} (\d+)/)).toBe(processes);
    });

    test('where it is killed, clients are disconnected and another takes its place', { timeout: 120_000 }, async () => {
      await untilHandedOver();
      const killed = heavyPid();
      const asked = ask(heavy, 'POST', '/tokenize', texts(9_000)).then(
        ({ status }) => status,
        () => 'disconnected',
      );
      await vi.waitFor(() => expect(linesOf(server).length).toBeGreaterThan(0), WAIT);
      killIfAlive(killed);
      expect(await asked).toBe('disconnected');
      // Meanwhile the others serve it. A connection that was kept to the one that ended may fail once more.
      const answered = async (): Promise<void> => expect((await ask(heavy, 'GET', '/tenants/self')).status).toBe(200);
      await vi.waitFor(answered, WAIT);
      await vi.waitFor(() => expect(server.output()).toContain('"alarm":"worker_ended"'), WAIT);
      await untilHandedOver();
      expect(heavyPid()).not.toBe(killed);
    });
  });
};

describeServer('beside one process', {});
describeServer('beside two workers', { WORKERS: '2' });
