// GET /metrics of servers as processes: on a port of its own, refused starts, and the sums of workers.
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { freePort, killIfAlive, type ServerProcess, spawnServer, untilReady, workersOf } from '../support/process.ts';
import { samplesOf, sumOf } from '../support/metrics.ts';
import { createDataDir } from '../support/database.ts';

const TOKEN = 'metrics-token-0123456789abcdef';
const WAIT = { timeout: 30_000 };

describe('a server as a process', () => {
  const directories: string[] = [];
  const servers: ServerProcess[] = [];
  const start = async (environment: Record<string, string>): Promise<ServerProcess> => {
    const directory = createDataDir('metrics');
    directories.push(directory);
    const server = await spawnServer(directory, environment);
    servers.push(server);
    return server;
  };
  const listening = async (server: ServerProcess): Promise<void> => {
    await untilReady(server);
    await expect.poll(() => server.output(), WAIT).toContain('"listening"');
  };
  afterEach(async () => {
    for (const { child, exited } of servers.splice(0)) {
      child.kill();
      await exited;
    }
    for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true });
  });

  const ask = (port: string, path = '/metrics', init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${port}${path}`, init);

  test('serves the metrics on METRICS_PORT alone, and asks there for METRICS_TOKEN', async () => {
    const METRICS_PORT = String(await freePort());
    const server = await start({ METRICS_PORT, METRICS_TOKEN: TOKEN });
    await listening(server);
    const headers = { authorization: `Bearer ${TOKEN}` };
    const answer = await ask(METRICS_PORT, '/metrics?x=1', { headers });
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    const text = await answer.text();
    expect(text).toMatch(/^process_cpu_seconds_total /m);
    expect(sumOf(text, 'strongroom_requests_total', { route: '/readyz' })).toBeGreaterThan(0);
    expect(samplesOf(text).filter(({ value }) => Number.isNaN(value))).toEqual([]);
    expect((await ask(METRICS_PORT)).status).toBe(401);
    expect((await ask(METRICS_PORT, '/tokens')).status).toBe(401);
    expect((await ask(METRICS_PORT, '/tokens', { headers })).status).toBe(404);
    expect((await ask(METRICS_PORT, '/metrics', { headers, method: 'POST' })).status).toBe(405);
    const { api_key } = server.credentials();
    const keyed = await ask(METRICS_PORT, '/metrics', {
      headers: { 'svc-api-key': api_key, authorization: `Bearer ${api_key}` },
    });
    expect([keyed.status, await keyed.text()]).toEqual([401, 'Unauthorized\n']);
    expect((await fetch(`${server.base_url}/metrics`, { headers })).status).toBe(404);
    expect(server.output()).toContain(`"metrics_url":"http://127.0.0.1:${METRICS_PORT}/metrics"`);
    expect(server.output()).not.toContain(TOKEN);
  });

  test('does not start on a METRICS_PORT that is taken, and says what to set', async () => {
    const port = await freePort();
    const holder = createServer().listen(port, '127.0.0.1');
    await once(holder, 'listening');
    try {
      for (const WORKERS of ['1', '2']) {
        const server = await start({ METRICS_PORT: String(port), WORKERS });
        expect(await server.exited).toBe(1);
        expect(server.output()).toContain(
          `Port ${port} on 127.0.0.1, which METRICS_PORT names, is taken. Stop what uses it, or take another: METRICS_PORT=${port + 1}`,
        );
        expect(server.output()).not.toContain('"listening"');
      }
    } finally {
      holder.close();
    }
  });

  test('does not start on a METRICS_HOST that is not its own', async () => {
    const server = await start({ METRICS_PORT: '0', METRICS_HOST: '203.0.113.1' });
    expect(await server.exited).toBe(1);
    expect(server.output()).toContain('METRICS_HOST: 203.0.113.1 is no address of this machine.');
  });

  describe('with workers', () => {
    const WORKERS = 2;
    const REQUESTS = 24;

    /** Each over a connection of its own: the supervisor gives them to the workers in turn. */
    const send = async (server: ServerProcess): Promise<void> => {
      for (let sent = 0; sent < REQUESTS; sent += 1)
        expect((await fetch(`${server.base_url}/healthz`, { headers: { connection: 'close' } })).status).toBe(200);
    };
    const served = (text: string) => sumOf(text, 'strongroom_requests_total', { route: '/healthz' });

    test('adds up what they counted, also of one that ended', async () => {
      const METRICS_PORT = String(await freePort());
      const server = await start({ METRICS_PORT, WORKERS: String(WORKERS) });
      await listening(server);
      const scrape = async () => (await ask(METRICS_PORT)).text();
      await send(server);
      await expect.poll(async () => served(await scrape()), WAIT).toBe(REQUESTS);
      const text = await scrape();
      expect(sumOf(text, 'strongroom_workers', { state: 'answering' })).toBe(WORKERS);
      expect(sumOf(text, 'strongroom_request_seconds_count', { route: '/healthz' })).toBe(REQUESTS);
      expect(sumOf(text, 'strongroom_database_connections_max')).toBe(10);
      expect(samplesOf(text).filter(({ name }) => name === 'process_start_time_seconds')).toHaveLength(1);

      killIfAlive(workersOf(server)[0] as number);
      await expect.poll(() => server.output(), WAIT).toContain('a worker took its place');
      const later = await scrape();
      expect(served(later)).toBe(REQUESTS);
      expect(sumOf(later, 'strongroom_workers_ended_total')).toBe(1);
      expect(sumOf(later, 'strongroom_workers', { state: 'answering' })).toBe(WORKERS);
      await send(server);
      await expect.poll(async () => served(await scrape()), WAIT).toBe(2 * REQUESTS);
    });

    test('any of them gives the sum to a scraper with METRICS_TOKEN', async () => {
      const server = await start({ METRICS_TOKEN: TOKEN, WORKERS: String(WORKERS) });
      await listening(server);
      await send(server);
      const headers = { authorization: `Bearer ${TOKEN}`, connection: 'close' };
      const scrape = async () => (await fetch(`${server.base_url}/metrics`, { headers })).text();
      await expect.poll(async () => served(await scrape()), WAIT).toBe(REQUESTS);
      const sums = [];
      for (let asked = 0; asked < 2 * WORKERS; asked += 1) sums.push(served(await scrape()));
      expect(sums).toEqual(sums.map(() => REQUESTS));
      expect((await fetch(`${server.base_url}/metrics`)).status).toBe(401);
    });
  });
});
