// A tenant with heavy work beside another one is served by the heavy worker: as before, by another process.
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { testCa } from '../support/certificates.ts';
import { createDataDir } from '../support/database.ts';
import { isAlive, killIfAlive, runCommand, type ServerProcess, spawnServer, untilReady } from '../support/process.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { linesOf } from '../support/workers.ts';

const WAIT = { timeout: 60_000, interval: 50 };
const METRICS_TOKEN = 'a-token-for-the-metrics-of-tests-0123';
const texts = (count: number): string => JSON.stringify(Array.from({ length: count }, (_, each) => `text ${each}`));
/** Work of several hundred milliseconds in turns. */
const large = texts(3_000);

/** Little less than a server takes: what one process tells the other of the client must not make it too much. */
const HEADER_BYTES = 15_900;

/** More connections than a socket of Unix keeps by Node's default. */
const CONNECTIONS = 1_000;

/** Requests whose responses show the framing, the version and the prefix that both processes saw. */
const requestsOf = (api_key: string): string[] => {
  const key = `SVC-API-KEY: ${api_key}\r\n`;
  const head = `HTTP/1.1\r\nHost: localhost\r\n${key}`;
  return [
    `GET /no-such-path HTTP/1.0\r\n${key}\r\n`,
    `GET /tokens/none HTTP/1.0\r\n${key}\r\n`,
    `GET /tokens/none HTTP/1.0\r\nHost: localhost\r\n${key}Connection: keep-alive\r\n\r\n`,
    `GET /tokens/none HTTP/1.1\r\nHost: localhost\r\nBT-API-KEY: ${api_key}\r\nBT-TRACE-ID: given\r\n\r\n`,
    `HEAD /tokens/none ${head}\r\n`,
    `POST /tokens ${head}\r\n`,
    `POST /tokens ${head}Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi`,
    `POST /tokens ${head}Content-Type: application/json\r\nContent-Length: 3\r\n\r\n{"a`,
    `POST /tokenize ${head}Content-Type: application/json\r\nContent-Length: 99999999\r\n\r\n"`,
    `POST /detokenize ${head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\n"ab\r\n1\r\n"\r\n0\r\nX: y\r\n\r\n`,
    `DELETE /tokens/none ${head}Connection: svc-api-key, close\r\nX-Forwarded-Host: x\r\n\r\n`,
  ];
};

type Tenant = { tenant_id: string; api_key: string };

const describeServer = (name: string, environment: Record<string, string>): void => {
  describe(name, () => {
    let dataDir: string;
    let server: ServerProcess;
    let heavy: Tenant;
    let small: Tenant;
    let looks = 0;
    let upstream: Upstream;

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

    const openSocket = async (): Promise<Socket> => {
      const socket = connect(Number(new URL(server.base_url).port), '127.0.0.1');
      await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
      return socket.on('error', () => undefined);
    };
    /** All that is sent back on a connection of its own until it is closed, or as long as nothing more comes. */
    const send = async (bytes: string): Promise<string> => {
      const socket = await openSocket();
      socket.write(bytes, 'latin1');
      let received = '';
      socket.on('data', (chunk) => {
        received += chunk.toString('latin1');
        socket.setTimeout(300, () => socket.destroy());
      });
      await new Promise((resolve) => socket.once('close', resolve));
      return received;
    };

    beforeAll(async () => {
      dataDir = createDataDir('heavy');
      upstream = await startUpstream({
        hosts: ['localhost'],
        // `/begins` has no body yet, as a stream of events.
        answer: ({ url }, response) => void (url === '/begins' ? response.flushHeaders() : response.end('whole')),
      });
      const ca = join(dataDir, 'ca.pem');
      writeFileSync(ca, testCa);
      server = await spawnServer(dataDir, {
        HEAVY_WORKER: 'on',
        LOG_FORMAT: 'json',
        METRICS_TOKEN,
        API_HEADER_PREFIXES: 'SVC,BT',
        EGRESS_PRIVATE_HOSTS: `localhost:${upstream.port}`,
        NODE_EXTRA_CA_CERTS: ca,
        ...environment,
      });
      await untilReady(server);
      await vi.waitFor(() => expect(server.output()).toContain('"listening"'), WAIT);
      heavy = server.credentials();
      small = await makeTenant();
    });
    afterAll(async () => {
      server.child.kill('SIGTERM');
      expect(await server.exited).toBe(0);
      expect(server.output()).not.toContain('"level":"fatal"');
      await upstream.close();
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

    test('responses are the same, byte for byte', { timeout: 120_000 }, async () => {
      await untilHandedOver();
      const withoutIds = (text: string): string =>
        text.replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID').replaceAll(/\r\nDate: [^\r]+/g, '');
      const responsesTo = (of: Tenant) =>
        Promise.all(requestsOf(of.api_key).map(async (each) => withoutIds(await send(each))));
      const expected = await responsesTo(small);
      expect(expected).not.toContain('');
      expect(await responsesTo(heavy)).toEqual(expected);
    });

    test(
      'a destination gets the headers as elsewhere, and its response begins at once',
      { timeout: 120_000 },
      async () => {
        await untilHandedOver();
        const head = (of: Tenant) => `POST /proxy HTTP/1.1\r\nHost: localhost\r\nSVC-API-KEY: ${of.api_key}\r\n`;
        const url = `SVC-PROXY-URL: https://localhost:${upstream.port}/\r\n`;
        const rest = 'Connection: close, X-Named\r\nX-Named: 1\r\nX-Other: 2\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n';
        for (const tenant of [small, heavy]) expect(await send(head(tenant) + url + rest)).toMatch(/^HTTP\/1\.1 200 /);
        const begins = url.replace('/\r\n', '/begins\r\n');
        expect(await send(head(heavy) + begins + rest)).toMatch(/^HTTP\/1\.1 200 /);
        const [first, second] = upstream.received.map(({ headers }) => headers);
        expect(second).toEqual(first);
        expect(JSON.stringify(second)).toMatch(/^(?!.*Named).*X-Other/);
      },
    );

    test('requests by a public key stay', { timeout: 120_000 }, async () => {
      const made = await ask(
        heavy,
        'POST',
        '/applications',
        '{"name":"p","type":"public","permissions":["token:create"]}',
      );
      const { key } = (await made.json()) as { key: string };
      await untilHandedOver();
      const asked = await ask({ ...heavy, api_key: key }, 'POST', '/tokenize', '"x"', { 'svc-trace-id': 'of-public' });
      expect(asked.status).toBe(200);
      await vi.waitFor(() => expect(servedBy('of-public')).toHaveLength(1), WAIT);
      expect(servedBy('of-public')).not.toEqual([heavyPid()]);
    });

    test('clients that leave at once do no harm', { timeout: 120_000 }, async () => {
      await untilHandedOver();
      const bytes = `GET /tenants/self HTTP/1.1\r\nHost: localhost\r\nSVC-API-KEY: ${heavy.api_key}\r\n\r\n`;
      for (let turn = 0; turn < 200; turn += 1) {
        const socket = await openSocket();
        await new Promise<void>((resolve) => {
          socket.write(bytes, () => resolve());
        });
        socket.resetAndDestroy();
      }
      expect((await ask(heavy, 'GET', '/tenants/self')).status).toBe(200);
      expect(server.output()).not.toContain('ERR_HTTP_INVALID_HEADER_VALUE');
    });

    test('many connections at once do not end its service', { timeout: 120_000 }, async () => {
      await untilHandedOver();
      const bytes = `GET /tokens/none HTTP/1.1\r\nHost: localhost\r\nSVC-API-KEY: ${heavy.api_key}\r\n\r\n`;
      const sockets = await Promise.all(Array.from({ length: CONNECTIONS }, openSocket));
      process.kill(heavyPid(), 'SIGSTOP');
      const responses = sockets.map(
        (socket) => new Promise((resolve) => socket.once('data', resolve).once('close', resolve)),
      );
      for (const socket of sockets) socket.write(bytes);
      // Until the server has handed all over.
      for (let turn = 0; turn < 20; turn += 1) await ask(small, 'GET', '/tenants/self');
      process.kill(heavyPid(), 'SIGCONT');
      expect(await Promise.all(responses)).not.toContain(false);
      for (const socket of sockets) socket.destroy();
      expect((await ask(small, 'GET', '/tenants/self')).status).toBe(200);
      expect(await served(heavy, 'after-many')).toEqual([heavyPid()]);
    });

    test('a body without a length passes, and one that is too large is refused', { timeout: 120_000 }, async () => {
      await untilHandedOver();
      const sendChunks = (chunks: string[]): Promise<{ status: number; body: string }> =>
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
      const { status, body } = await sendChunks(['["in ', 'several ', 'chunks"]']);
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
