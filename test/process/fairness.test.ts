// One tenant cannot take what others need: memory, connections, runs, the event loop and the database.
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { LimitName } from '../../src/platform/base/accounts.ts';
import { READ_MS_MAX } from '../../src/platform/base/times.ts';
import { holdRow } from '../support/held-rows.ts';
import { makeReactor, react } from '../support/reactors.ts';
import { type Answer, startServerBefore, type TestServer, type TestTenant } from '../support/server.ts';
import { askProxy, makeProxy } from '../support/stored-proxies.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const MEGABYTE = 1024 * 1024;
const CONNECTIONS_OF_TENANT = 8;

/** An eighth of those of a tenant. */
const RUNS_OF_ADDRESS = 16;

let server: TestServer;
let upstream: Upstream;
/** Requests that the destination keeps waiting. */
const silent: (() => void)[] = [];

beforeAll(async () => {
  upstream = await startUpstream({
    answer: (request, response) => {
      if (request.url?.includes('silent')) silent.push(() => response.end('late'));
      else response.end('answered');
    },
  });
  const limits = {
    unsent_bytes: { ofAll: 48 * MEGABYTE, ofTenantMax: 12 * MEGABYTE, ofTenantLeast: 4 * MEGABYTE },
    connections: { ofAll: 32, ofTenantMax: CONNECTIONS_OF_TENANT, ofTenantLeast: 2 },
    body_bytes: { ofTenantMax: 1_500_000, ofTenantLeast: 1_500_000 },
  };
  server = await startServerBefore({ 'upstream.test': upstream.port }, {}, { limits });
});
afterAll(async () => {
  await server.close();
  await upstream.close();
});

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const answer of silent.splice(0)) answer();
  server.clock.stoppedAtMs = undefined;
});

const until = async (isSo: () => boolean): Promise<void> => {
  await expect.poll(isSo, { timeout: 10_000, interval: 10 }).toBe(true);
};

type Sender = { socket: Socket; start: Promise<string> };

/** Sends bytes over a connection of its own, reads the beginning of the response, and then nothing more. */
const send = (head: string[], body = ''): Sender => {
  const socket = connect(Number(new URL(server.base_url).port), '127.0.0.1');
  sockets.push(socket);
  socket.on('error', () => undefined);
  const start = new Promise<string>((resolve) => {
    socket.once('data', (piece: Buffer) => {
      socket.pause();
      resolve(piece.toString('latin1'));
    });
  });
  socket.write(`${[...head, 'Host: vault.test', ''].join('\r\n')}\r\n${body}`);
  return { socket, start };
};

const statusOf = (start: string): number => Number(start.split(' ', 2)[1]);

const sum = (statuses: number[]): Record<number, number> =>
  Object.fromEntries([...Map.groupBy(statuses, (status) => status)].map(([status, all]) => [status, all.length]));

/** Tenants with what they hold of a limit. */
const holdersOf = (limit: LimitName): Map<string, number> =>
  server.ctx.accounts
    .figures()
    .limits.find(({ name }) => name === limit)
    ?.holders() ?? new Map();

const expectShare = (answer: Pick<Answer, 'status' | 'body' | 'headers'>, limit: string): void => {
  expect(answer.status).toBe(429);
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
  expect((answer.body.proxy_error ?? answer.body).detail).toContain(`limit of ${limit}`);
};

describe('responses that a client does not read', () => {
  /** A request of a few bytes for a response of some 4.5 MB. */
  const makeLarge = async (tenant: TestTenant): Promise<{ json: string[]; length: string; head: string[] }> => {
    const id = (await server.tokenize('x'.repeat(900_000), tenant.api_key)).body as string;
    const json = Array.from({ length: 5 }, () => `{{ ${id} }}`);
    const length = `Content-Length: ${JSON.stringify(json).length}`;
    const key = `SVC-API-KEY: ${tenant.api_key}`;
    return { json, length, head: ['POST /detokenize HTTP/1.1', key, 'Content-Type: application/json', length] };
  };

  test('take a share, then their tenant gets 429; all else goes on, and they are cut', async () => {
    const { json, head } = await makeLarge(server.tenant);
    const other = await server.newTenant();
    const others = await makeLarge(other);
    const from = Date.now();
    server.clock.stoppedAtMs = from;
    const senders: Sender[] = [];
    // One after the other: what the system's buffers hold of a response is not counted.
    for (let each = 0; each < 6; each += 1) {
      const sender = send(head, JSON.stringify(json));
      senders.push(sender);
      await sender.start;
    }
    const starts = await Promise.all(senders.map(({ start }) => start));
    expect(sum(starts.map(statusOf))).toEqual({ 200: 2, 429: 4 });
    expectShare(await server.request('POST', '/detokenize', { json }), 'unsent bytes');
    // What is stored is answered, however much is unsent; small responses and other tenants are not concerned.
    const stored = await server.tokenize(Array.from({ length: 2_000 }, () => 'value'));
    expect(stored.body).toHaveLength(2_000);
    expect((await server.request('POST', '/detokenize', { json: 'small' })).status).toBe(200);
    expect((await server.request('POST', '/detokenize', { json: others.json, key: other.api_key })).status).toBe(200);

    await pause(600);
    server.clock.stoppedAtMs = from + READ_MS_MAX - 1;
    await pause(600);
    const held = senders.filter((_, index) => statusOf(starts[index] as string) === 200);
    expect(server.app.server.listening && held.every(({ socket }) => !socket.destroyed)).toBe(true);
    expectShare(await server.request('POST', '/detokenize', { json }), 'unsent bytes');
    server.clock.stoppedAtMs = from + 2 * READ_MS_MAX;
    const now = async (): Promise<number> => (await server.request('POST', '/detokenize', { json })).status;
    // The tenant also waits for its share of the event loop.
    await expect.poll(now, { timeout: 20_000 }).toBe(200);
    for (const { socket } of held) {
      socket.resume();
      await new Promise((resolve) => socket.once('close', resolve));
    }
  });

  test('are limited on pages too, and not counted after the client has left', async () => {
    const { json, head } = await makeLarge(server.tenant);
    for (let each = 0; each < 8; each += 1) {
      const { socket, start } = send(head, JSON.stringify(json));
      expect(statusOf(await start)).toBe(200);
      socket.destroy();
      await pause(50);
    }
    const document = send(['GET /openapi.json HTTP/1.1']);
    expect(statusOf(await document.start)).toBe(200);
  });
});

test('large bodies have a share of their tenant, and are refused before they are read', async () => {
  const [first, second] = [1, 2].map(() =>
    send([
      'POST /tokenize HTTP/1.1',
      `SVC-API-KEY: ${server.tenant.api_key}`,
      'Content-Type: application/json',
      'Content-Length: 1000000',
    ]),
  );
  expect(statusOf(await Promise.race([first!.start, second!.start]))).toBe(429);
  expect((await server.tokenize('small')).status).toBe(200);
  const other = await server.newTenant();
  expect((await server.tokenize('x'.repeat(900_000), other.api_key)).status).toBe(200);
});

test('large bodies of those who have a public key leave the share of the tenant alone', async () => {
  const json = { name: 'Shop', type: 'public', permissions: ['token:create'] };
  const { key } = (await server.request('POST', '/applications', { json })).body;
  const refused = await Promise.all(
    [1, 2].map(
      () =>
        send([
          'POST /tokenize HTTP/1.1',
          `SVC-API-KEY: ${key}`,
          'Content-Type: application/json',
          'Content-Length: 1000000',
        ]).start,
    ),
  );
  expect(refused.map(statusOf)).toEqual([429, 429]);
  expect(refused[0]).toContain('Clients without a secret key');
  expect((await server.tokenize('x'.repeat(900_000))).status).toBe(200);
});

describe('connections to destinations', () => {
  const forward = (path: string, key?: string): Promise<Answer> =>
    server.request('GET', `/proxy${path}`, {
      ...(key !== undefined && { key }),
      headers: { 'svc-proxy-url': `https://upstream.test:${upstream.port}` },
    });

  test('of four tenants whose destinations do not answer leave some for a fifth', async () => {
    const tenants = await Promise.all(Array.from({ length: 4 }, () => server.newTenant()));
    const waiting = tenants.flatMap(({ api_key }) =>
      Array.from({ length: CONNECTIONS_OF_TENANT }, () => forward('/silent', api_key)),
    );
    await until(() => silent.length >= 24);
    const fifth = await server.newTenant();
    const before = upstream.connectionCount();
    // Its idle connection stays, however many requests of the others wait for one.
    for (let each = 0; each < 4; each += 1) expect((await forward('/', fifth.api_key)).text).toBe('answered');
    expect(upstream.connectionCount() - before).toBe(1);
    const answering = setInterval(() => silent.splice(0).forEach((answer) => answer()), 10);
    expect(sum((await Promise.all(waiting)).map(({ status }) => status))).toEqual({ 200: waiting.length });
    clearInterval(answering);
  });

  test('of anonymous clients of an open proxy are few, and not those of the tenant', async () => {
    const open = await makeProxy(server, {
      destination_url: `https://upstream.test:${upstream.port}`,
      require_auth: false,
    });
    const anonymous = Array.from({ length: 20 }, () =>
      askProxy(server, open, { key: null, method: 'GET', path: '/proxy/silent' }),
    );
    await until(() => silent.length > 0);
    for (let each = 0; each < 3; each += 1) expect((await forward('/')).text).toBe('answered');
    expect((await askProxy(server, open, { method: 'GET' })).text).toBe('answered');
    expect(silent).toHaveLength(1);
    const answering = setInterval(() => silent.splice(0).forEach((answer) => answer()), 10);
    expect(sum((await Promise.all(anonymous)).map(({ status }) => status))).toEqual({ 200: 20 });
    clearInterval(answering);
  });

  test('are not taken for anonymous bodies that arrive slowly', async () => {
    const open = await makeProxy(server, {
      destination_url: `https://upstream.test:${upstream.port}`,
      require_auth: false,
    });
    const before = upstream.connectionCount();
    for (let each = 0; each < 140; each += 1)
      send(
        [
          'POST /proxy HTTP/1.1',
          `SVC-PROXY-KEY: ${open.key}`,
          'Content-Type: application/octet-stream',
          'Content-Length: 100000',
        ],
        'slow',
      );
    expect((await forward('/')).text).toBe('answered');
    expect((await askProxy(server, open, { key: null, method: 'GET' })).text).toBe('answered');
    expect(upstream.connectionCount() - before).toBeLessThanOrEqual(2);
  });
});

test('runs for anonymous clients of an open proxy are few, and reactors of the tenant go on', async () => {
  const open = await makeProxy(server, {
    destination_url: `https://upstream.test:${upstream.port}`,
    require_auth: false,
    // Ends with its client only, so that the order in which requests arrive decides nothing.
    request_transform: { code: 'module.exports = () => new Promise(() => {});' },
  });
  const reactor = await makeReactor(server, 'return { raw: args };');
  const heldRuns = () => holdersOf('runs').get(server.tenant.tenant_id) ?? 0;
  const head = [`SVC-PROXY-KEY: ${open.key}`, 'Content-Type: application/json', 'Content-Length: 2'];
  const refused: string[] = [];
  for (let each = 0; each < 140; each += 1)
    void send(['POST /proxy HTTP/1.1', ...head], '{}').start.then((start) => refused.push(start));
  await until(() => refused.length === 140 - RUNS_OF_ADDRESS);
  expect(refused.filter((start) => statusOf(start) !== 429)).toEqual([]);
  expect(heldRuns()).toBe(RUNS_OF_ADDRESS);
  for (let each = 0; each < 5; each += 1) expect((await react(server, reactor, each)).status).toBe(200);
  expectShare(await askProxy(server, open, { key: null, json: {} }), 'runs');
  expect(heldRuns()).toBe(RUNS_OF_ADDRESS);
});

describe('long work', () => {
  test('of one tenant does not keep the requests of another waiting until it is done', async () => {
    const request = (each: number) => ({
      type: 'token',
      data: `v${each}`,
      mask: '{{ data | last4 }}',
      metadata: { a: 'b' },
    });
    const heavy = Array.from({ length: 2_000 }, (_, each) => request(each));
    const other = await server.newTenant();
    const id = (await server.tokenize('value', other.api_key)).body as string;
    let done = 0;
    const works = Array.from({ length: 10 }, async () => {
      const { status } = await server.tokenize(heavy);
      done += 1;
      return status;
    });
    // Body bytes of the tenant: what is refused is not concerned.
    const reads: number[] = [];
    for (let each = 0; each < 5; each += 1) {
      expect((await server.request('GET', `/tokens/${id}`, { key: other.api_key })).status).toBe(200);
      reads.push(done);
    }
    const statuses = sum(await Promise.all(works));
    expect(statuses[200]).toBeGreaterThan(2);
    expect(reads[0]).toBeLessThan(statuses[200] as number);
  });
});

test('transactions of one tenant do not keep those of another waiting until they are done', async () => {
  const other = await server.newTenant();
  const keyed = (key: string, each: number) =>
    server.request('POST', '/tokenize', { key, json: `v${each}`, headers: { 'svc-idempotency-key': `fair-${each}` } });
  // All wait for one lock, so that the queue, and not the time of arrival, decides who is next.
  const lock = await holdRow(server, 'LOCK TABLE tokens IN EXCLUSIVE MODE', []);
  const many = Array.from({ length: 200 }, (_, each) => keyed(server.tenant.api_key, each));
  await until(() => (holdersOf('transactions').get(server.tenant.tenant_id) ?? 0) > 150);
  const one = keyed(other.api_key, 1);
  await until(() => holdersOf('transactions').has(other.tenant_id));
  await lock.letGo();
  const answers = await Promise.all([one, ...many]);
  expect(sum(answers.map(({ status }) => status))).toEqual({ 200: 201 });
  const [{ earlier }] = await server.sql(
    `SELECT count(*)::int AS earlier FROM tokens WHERE tenant_id = $1 AND xmin::text::bigint <
     (SELECT xmin::text::bigint FROM tokens WHERE id = $2) AND id = ANY($3)`,
    [server.tenant.tenant_id, answers[0].body, answers.slice(1).map(({ body }) => body)],
  );
  expect(earlier).toBeLessThan(50);
});
