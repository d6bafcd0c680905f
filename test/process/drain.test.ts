// A server that drains serves requests until clients and load balancers have left: no request fails.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { balance, send } from '../support/balancer.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { type ServerProcess, spawnServer, untilReady } from '../support/process.ts';

let dataDir: string;
let database: TestDatabase;
let servers: ServerProcess[];
beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'strongroom-drain-'));
  database = await createDatabase();
  servers = [];
});
afterEach(async () => {
  for (const { child, exited } of servers) {
    child.kill('SIGKILL');
    await exited;
  }
  await database.drop();
  rmSync(dataDir, { recursive: true, force: true });
});

const start = async (environment: Record<string, string> = {}): Promise<ServerProcess> => {
  const server = await spawnServer(dataDir, { DATABASE_URL: database.url, ...environment });
  servers.push(server);
  await untilReady(server);
  return server;
};

describe('a rolling restart', () => {
  test('behind a balancer that asks /readyz fails no request', async () => {
    const first = await start({ DRAIN_SECONDS: '2' });
    const second = await start({ DRAIN_SECONDS: '2' });
    const balancer = balance([first.base_url, second.base_url], first.credentials().api_key);
    await expect.poll(() => balancer.inUse.size, { timeout: 10_000 }).toBe(2);
    const port = new URL(first.base_url).port;
    await expect.poll(() => balancer.answers.length, { timeout: 20_000 }).toBeGreaterThan(200);
    const before = balancer.answers.length;
    first.child.kill('SIGTERM');
    expect(await first.exited).toBe(0);
    const during = balancer.answers.slice(before).filter(({ url }) => url === first.base_url);
    // On connections from before the signal and on new ones: each answer closes its connection.
    const closed = during.filter(({ connection }) => connection === 'close');
    expect(closed.filter(({ isReused }) => isReused).length).toBeGreaterThan(0);
    expect(closed.filter(({ isReused }) => !isReused).length).toBeGreaterThan(0);
    await start({ DRAIN_SECONDS: '2', PORT: port });
    await expect.poll(() => balancer.inUse.size, { timeout: 10_000 }).toBe(2);
    second.child.kill('SIGTERM');
    expect(await second.exited).toBe(0);
    await balancer.stop();
    expect(balancer.failures).toEqual([]);
    expect([...new Set(balancer.answers.map(({ status }) => status))]).toEqual([200]);
  });
});

describe('a server that drains', () => {
  const raw = async (base_url: string) => {
    const socket = connect(Number(new URL(base_url).port), '127.0.0.1');
    await once(socket, 'connect');
    let text = '';
    socket.on('data', (chunk) => (text += String(chunk)));
    socket.on('error', () => undefined);
    return { socket, text: () => text };
  };

  test('closes after each answer, also of an earlier request, and ends at once by a second signal', async () => {
    const server = await start({ DRAIN_SECONDS: '60' });
    const { api_key } = server.credentials();
    const begun = await raw(server.base_url);
    begun.socket.write(
      `POST /tokenize HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${api_key}\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n"`,
    );
    await pause(200);
    server.child.kill('SIGTERM');
    await expect.poll(() => send(false, `${server.base_url}/readyz`)).toMatchObject({ status: 503 });
    begun.socket.write('x"');
    await once(begun.socket, 'close');
    expect(begun.text()).toMatch(/^HTTP\/1\.1 200 /);
    expect(begun.text().toLowerCase()).toContain('\r\nconnection: close\r\n');
    const agent = new Agent({ keepAlive: true });
    for (const [path, status] of [
      ['/readyz', 503],
      ['/healthz', 200],
      ['/tokens/x', 401],
      ['/nothing', 404],
      ['/proxy', 401],
      ['/console', 303],
    ] as const) {
      const answer = await send(agent, `${server.base_url}${path}`);
      expect([path, answer.status, answer.connection]).toEqual([path, status, 'close']);
    }
    agent.destroy();
    // Signals within a second count as one.
    await pause(1_000);
    server.child.kill('SIGTERM');
    expect(await server.exited).toBe(1);
    expect(server.output()).toContain('Ended by a second signal');
  });
});
