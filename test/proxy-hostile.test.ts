// Hostile destinations, through both forms of the proxy: internal addresses, insecure connections, broken or endless responses.
// Errors are the proxy's own, and neither another tenant nor the next request is affected.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as requestHttp } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { LOCAL_HINT } from '../src/platform/config/dev-destination.ts';
import { certificateFor, expiredCertificateFor, selfSignedCertificateFor } from './support/certificates.ts';
import { until } from './support/proxy.ts';
import { codeOf, tokenOf } from './support/reactors.ts';
import { startServerBefore, type TestServer, type TestTenant } from './support/server.ts';
import {
  askOnWire,
  makeProxy,
  problemIn,
  type StoredProxy,
  type WireAnswer,
  type WireOptions,
} from './support/stored-proxies.ts';
import { startUpstream, type Upstream, type UpstreamOptions } from './support/upstream.ts';

type Vector =
  | { kind: 'address'; address: string; outcome: string }
  | { kind: 'destination'; url: string; outcome: string };
const vectors = JSON.parse(
  readFileSync(new URL('./vectors/addresses.json', import.meta.url), 'utf8'),
) as readonly Vector[];

/** Part of the request: it must reach the destination only. */
const CANARY = 'canary-4000056655665556';

const passing = { code: codeOf('return { body: args.body, headers: args.headers };') };

/** Names for which destinations have a good certificate, unless they have another. */
const HOSTS = ['good', 'moving', 'elsewhere', 'front', 'slow', 'flooded'].map((name) => `${name}.test`);

const closers: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

const openUpstream = async (options: UpstreamOptions = {}): Promise<Upstream> => {
  const upstream = await startUpstream({ hosts: HOSTS, ...options });
  closers.push(() => upstream.close());
  return upstream;
};

const openServer = async (...wanted: Parameters<typeof startServerBefore>): Promise<TestServer> => {
  const server = await startServerBefore(...wanted);
  closers.push(() => server.close());
  return server;
};

type Bare = { port: number; heard(): string; openCount(): number; connectionCount(): number };

/** A TCP or TLS server that records what it receives and sends nothing by itself. */
const openBare = async (server: Server): Promise<Bare> => {
  const open = new Set<Socket>();
  let heard = '';
  let connections = 0;
  server.on('connection', (socket: Socket) => {
    connections += 1;
    open.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => open.delete(socket));
    socket.on('data', (piece) => (heard += piece.toString('latin1')));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(async () => {
    const closed = once(server, 'close');
    server.close();
    for (const socket of open) socket.destroy();
    await closed;
  });
  const { port } = server.address() as AddressInfo;
  return { port, heard: () => heard, openCount: () => open.size, connectionCount: () => connections };
};

type Options = WireOptions & { path?: string };

/** To a destination that the caller names, or by the key of a stored proxy. */
const pass = (server: TestServer, to: string | StoredProxy, { path, headers, ...rest }: Options = {}) =>
  askOnWire(server, 'POST', path ?? '/proxy', {
    ...rest,
    headers: { ...(typeof to === 'string' ? { 'svc-proxy-url': to } : { 'svc-proxy-key': to.key }), ...headers },
  });

/** Far more than a tenant has connections. */
const FLOOD = 500;

type Timed = { result: WireAnswer; ms: number };

const timed = async (work: Promise<WireAnswer>): Promise<Timed> => {
  const from = performance.now();
  return { result: await work, ms: performance.now() - from };
};

/** Of the one server whose destinations use up their time; as far apart as the real ones, and shorter. */
const DEADLINES = { connectMs: 4_000, firstByteMs: 10_000, wholeMs: 10_000 };

/** A timer may be a little early. */
const WHOLE_MS_LEAST = DEADLINES.wholeMs - 100;

/** What takes as long as a destination may: all of it begins here, and is waited for at the end of this file. */
const beginSlowly = async () => {
  const slow = await openUpstream({
    answer: (request, response) => {
      if (request.url === '/silent') return;
      const [piece, everyMs] = request.url === '/trickle' ? ['x', 1_000] : [Buffer.alloc(131_072), 50];
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write(piece);
      const timer = setInterval(() => response.write(piece), everyMs);
      response.once('close', () => clearInterval(timer));
    },
  });
  const good = await openUpstream();
  const flooded = await openUpstream({ answer: () => {} });
  const mute = await openBare(createTcpServer());
  let listenAgain = () => {};
  const deaf = await openBare(
    createTlsServer(certificateFor('deaf.test'), (socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.pause());
      listenAgain = () => void socket.resume();
    }),
  );
  const bare = { 'mute.test': mute.port, 'deaf.test': deaf.port };
  const whole = { 'slow.test': slow.port, 'good.test': good.port, 'flooded.test': flooded.port };
  const server = await openServer({ ...bare, ...whole }, {}, { egressTimeouts: DEADLINES });
  const [otherTenant, flooder] = [await server.newTenant(), await server.newTenant()];
  const at = (path: string) => `https://slow.test:${slow.port}${path}`;
  const store = (path: string, more: object) => makeProxy(server, { destination_url: at(path), ...more });
  const stored = await store('/silent', { request_transform: passing });
  const seenTrickle = await store('/trickle', { response_transform: passing });
  const seenEndless = await store('/endless', { response_transform: passing });
  const ask = (to: string | StoredProxy, options: Options = { body: CANARY }) => timed(pass(server, to, options));
  const upload = { body: Buffer.alloc(10_000_000), headers: { 'content-type': 'application/octet-stream' } };
  const begun = {
    mute: ask(`https://mute.test:${mute.port}`),
    silent: ask(at('/silent')),
    stored: ask(stored),
    trickle: ask(at('/trickle')),
    endless: ask(at('/endless')),
    seenTrickle: ask(seenTrickle),
    seenEndless: ask(seenEndless),
    deaf: ask(`https://deaf.test:${deaf.port}`, upload),
  };
  const flood = Array.from({ length: FLOOD }, () =>
    pass(server, `https://flooded.test:${flooded.port}`, { key: flooder.api_key }),
  );
  // Whoever waits for one of them hears how it failed.
  for (const each of [...Object.values(begun), ...flood]) each.catch(() => undefined);
  let isFloodOver = false;
  void Promise.allSettled(flood).then(() => (isFloodOver = true));
  return {
    server,
    otherTenant,
    flooder,
    slow,
    good,
    flooded,
    mute,
    deaf,
    begun,
    flood,
    isFloodOver: () => isFloodOver,
    listenAgain: () => listenAgain(),
  };
};

let slowly: Awaited<ReturnType<typeof beginSlowly>>;
beforeAll(async () => {
  slowly = await beginSlowly();
});

describe('while destinations take their time', () => {
  test('other tenants are served meanwhile, and so is the rest of what the flooding one does', async () => {
    const { server, otherTenant, flooder, good, flooded, isFloodOver } = slowly;
    await until(() => flooded.openCount() > 100);
    const to = `https://good.test:${good.port}`;
    for (let each = 0; each < 20; each += 1) {
      const id = await tokenOf(server, 'value', {}, otherTenant.api_key);
      const headers = { 'content-type': 'text/plain' };
      const result = await pass(server, to, { key: otherTenant.api_key, body: `{{ ${id} }}`, headers });
      expect(result.status).toBe(200);
      expect((await server.request('GET', `/tokens/${id}`, { key: otherTenant.api_key })).status).toBe(200);
    }
    const own = await tokenOf(server, 'value', {}, flooder.api_key);
    expect((await server.request('GET', `/tokens/${own}`, { key: flooder.api_key })).status).toBe(200);
    expect(isFloodOver()).toBe(false);
  });

  test('one that sends without end to code is a 413 once it is more than code may see', async () => {
    const { result } = await slowly.begun.seenEndless;
    expect(result.status).toBe(413);
    problemIn(result);
  });
});

describe('what may be named', () => {
  let server: TestServer;
  let decoy: Upstream;
  let url: string;
  const lookups: string[] = [];
  /** Where names lead. */
  const resolvers = new Map<string, () => Promise<string[]>>();
  const leadTo = (host: string, ...addresses: string[]) => resolvers.set(host, () => Promise.resolve(addresses));

  beforeAll(async () => {
    decoy = await openUpstream({
      answer: (request, response) => {
        if (request.headers['x-close']) response.setHeader('connection', 'close');
        response.end();
      },
    });
    const resolve = (host: string): Promise<string[]> => {
      lookups.push(host);
      return resolvers.get(host)?.() ?? Promise.resolve([]);
    };
    server = await openServer({ 'good.test': decoy.port, 'moving.test': decoy.port }, {}, { resolve });
    leadTo('good.test', '127.0.0.1');
    url = `https://good.test:${decoy.port}`;
  });

  afterEach(() => expect(server.logLines.join('')).not.toContain(CANARY));

  /** @returns what was looked up and how many connections were made meanwhile. */
  const during = async (work: () => Promise<void>): Promise<{ lookups: string[]; connections: number }> => {
    const [from, connections] = [lookups.length, decoy.connectionCount()];
    await work();
    return { lookups: lookups.slice(from), connections: decoy.connectionCount() - connections };
  };

  const refused = vectors.flatMap((each) =>
    each.kind === 'destination' && each.outcome !== 'allowed' ? [each.url] : [],
  );

  /** A header holds bytes: what is more is spelled as URLs spell it, and read the same. */
  const asHeader = (given: string): string => given.replace(/[^\x20-\x7e]+/gu, encodeURIComponent);

  test('no spelling of an address and no refused host causes a look-up or a connection', async () => {
    expect(refused.length).toBeGreaterThan(80);
    const urls = [...refused, `https://127.0.0.1:${decoy.port}/`, `https://2130706433:${decoy.port}/`];
    const seen = await during(async () => {
      for (const each of urls) {
        const result = await pass(server, asHeader(each), { body: CANARY });
        expect(result.status, each).toBe(400);
        expect(Object.keys(problemIn(result).errors), each).toEqual(['SVC-PROXY-URL']);
      }
    });
    expect(seen).toEqual({ lookups: [], connections: 0 });
  });

  test('none of them can be the destination of a stored proxy', async () => {
    const seen = await during(async () => {
      for (const destination_url of refused) {
        const result = await server.request('POST', '/proxies', { json: { name: 'Proxy', destination_url } });
        expect(result.status, destination_url).toBe(400);
        expect(Object.keys(result.body.errors), destination_url).toEqual(['destination_url']);
      }
    });
    expect(seen).toEqual({ lookups: [], connections: 0 });
  });

  test('expressions in SVC-PROXY-URL are none', async () => {
    const whole = await tokenOf(server, url);
    const host = await tokenOf(server, 'good.test');
    const seen = await during(async () => {
      for (const each of [`{{ ${whole} }}`, `https://{{${host}}}:${decoy.port}/`]) {
        const result = await pass(server, each, { body: CANARY });
        expect(result.status, each).toBe(400);
        expect(Object.keys(problemIn(result).errors)).toEqual(['SVC-PROXY-URL']);
      }
    });
    expect(seen).toEqual({ lookups: [], connections: 0 });
  });

  test('no path, query or Host of the caller leads to a host other than the named one', async () => {
    const proxy = await makeProxy(server, { destination_url: url });
    const paths = [
      '//evil.test/',
      '/https://evil.test/',
      '/@evil.test/',
      '/%5Cevil.test/',
      '/:443@evil.test/',
      '?@evil.test',
    ];
    const seen = await during(async () => {
      for (const to of [url, `${url}#@evil.test`, proxy])
        for (const path of paths) await pass(server, to, { path: `/proxy${path}`, headers: { host: 'evil.test' } });
    });
    expect(new Set(seen.lookups)).toEqual(new Set(['good.test']));
    expect(decoy.received.length).toBeGreaterThan(paths.length);
    expect(new Set(decoy.received.map(({ servername }) => servername))).toEqual(new Set(['good.test']));
  });

  test('a name of an internal address is refused, looked up once and never connected to', async () => {
    const inside = vectors.flatMap((each) =>
      each.kind === 'address' && each.outcome !== 'public' ? [each.address] : [],
    );
    expect(inside.length).toBeGreaterThan(80);
    const proxy = await makeProxy(server, { destination_url: `https://inside.test:${decoy.port}/v1` });
    for (const address of inside) {
      leadTo('inside.test', address);
      const seen = await during(async () => {
        const named = await pass(server, `https://inside.test:${decoy.port}`, { body: CANARY });
        expect(named.status, address).toBe(400);
        expect(Object.keys(problemIn(named).errors)).toEqual(['SVC-PROXY-URL']);
        const stored = await pass(server, proxy, { body: CANARY });
        expect(stored.status, address).toBe(400);
        expect(problemIn(stored)).toMatchObject({ title: 'Invalid proxy request', errors: {} });
      });
      expect(seen, address).toEqual({ lookups: ['inside.test', 'inside.test'], connections: 0 });
    }
  });

  test.each([
    [['93.184.216.34', '127.0.0.1']],
    [['127.0.0.1', '93.184.216.34']],
    [['2606:4700:4700::1111', '10.0.0.1']],
    [['93.184.216.34', '64:ff9b::808:808']],
  ])('a name with one public address and one that is none is refused: %j', async (addresses) => {
    leadTo('half.test', ...addresses);
    const seen = await during(async () => {
      expect((await pass(server, `https://half.test:${decoy.port}`, { body: CANARY })).status).toBe(400);
    });
    expect(seen).toEqual({ lookups: ['half.test'], connections: 0 });
  });

  test('a name that moves is looked up for each connection, and refused once it is inside', async () => {
    const moving = `https://moving.test:${decoy.port}`;
    const proxy = await makeProxy(server, { destination_url: moving });
    const turns = ['127.0.0.1', '169.254.169.254', '127.0.0.1', '169.254.169.254'];
    resolvers.set('moving.test', () => Promise.resolve([turns.shift() ?? '']));
    const seen = await during(async () => {
      for (const to of [moving, proxy]) {
        expect((await pass(server, to, { headers: { 'x-close': '1' } })).status).toBe(200);
        await until(() => decoy.openCount() === 0);
        const result = await pass(server, to, { body: CANARY });
        expect(result.status).toBe(400);
        problemIn(result);
      }
    });
    expect(seen).toEqual({ lookups: Array(4).fill('moving.test'), connections: 2 });
  });

  test('a name without an address, or whose look-up fails or is not answered, is a 502', async () => {
    leadTo('nowhere.test');
    resolvers.set('failing.test', () => Promise.reject(new Error('no such name')));
    resolvers.set('silent.test', () => new Promise(() => {}));
    for (const host of ['nowhere.test', 'failing.test', 'silent.test']) {
      const result = await pass(server, `https://${host}/`, { body: CANARY });
      expect(result.status, host).toBe(502);
      expect(problemIn(result).detail).toBe('The name of the destination could not be resolved.');
    }
  });
});

describe('a connection that is not secure', () => {
  let server: TestServer;
  const upstreams = new Map<string, Upstream>();
  let plain: Bare;
  const portOf = (host: string): number => upstreams.get(host)?.port ?? plain.port;

  beforeAll(async () => {
    const bad: [string, UpstreamOptions['tls']][] = [
      ['signed-by-itself.test', selfSignedCertificateFor('signed-by-itself.test')],
      ['expired.test', expiredCertificateFor('expired.test')],
      ['another.test', certificateFor('name.test')],
      ['old.test', { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }],
      ['good.test', {}],
    ];
    for (const [host, tls] of bad) upstreams.set(host, await openUpstream(tls ? { tls } : {}));
    plain = await openBare(
      createTcpServer((socket) => {
        socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'));
      }),
    );
    const hosts = [...upstreams.keys(), 'plain.test'];
    server = await openServer(Object.fromEntries(hosts.map((host) => [host, portOf(host)])));
  });

  const names = ['signed-by-itself.test', 'expired.test', 'another.test', 'old.test', 'plain.test'];

  test.each(names)('%s is a 502 in the frame of the proxy, and hears nothing of the request', async (host) => {
    const id = await tokenOf(server, CANARY);
    const proxy = await makeProxy(server, {
      destination_url: `https://${host}:${portOf(host)}`,
      response_transform: passing,
    });
    const headers = { 'content-type': 'text/plain', 'x-canary': CANARY };
    for (const to of [`https://${host}:${portOf(host)}`, proxy]) {
      const result = await pass(server, to, { body: `{{ ${id} }}`, path: `/proxy/${CANARY}`, headers });
      expect(result.status).toBe(502);
      expect(problemIn(result).detail).toBe(`No secure connection to the destination could be made. ${LOCAL_HINT}`);
      expect(result.headers['svc-proxy-destination-status']).toBeUndefined();
    }
    const upstream = upstreams.get(host);
    if (upstream === undefined) {
      expect(plain.connectionCount()).toBe(2);
      expect(plain.heard()).not.toContain(CANARY);
      expect(plain.heard()).not.toContain('POST');
    } else {
      expect(upstream.connectionCount()).toBe(2);
      expect(upstream.received).toEqual([]);
    }
    await until(() => (upstream ?? plain).openCount() === 0);
    expect(server.logLines.join('')).not.toContain(CANARY);
  });

  test('where it is secure, the same request arrives', async () => {
    const id = await tokenOf(server, CANARY);
    const headers = { 'content-type': 'text/plain' };
    const result = await pass(server, `https://good.test:${portOf('good.test')}`, { body: `{{ ${id} }}`, headers });
    expect(result.status).toBe(200);
    expect(upstreams.get('good.test')?.received[0]?.body.toString()).toBe(CANARY);
  });

  test('a closed port is a 502 too', async () => {
    const upstream = await startUpstream({ hosts: HOSTS });
    const own = await openServer({ 'gone.test': upstream.port });
    await upstream.close();
    const result = await pass(own, `https://gone.test:${upstream.port}`, { body: CANARY });
    expect(result.status).toBe(502);
    expect(problemIn(result).detail).toBe('The destination could not be reached.');
  });
});

describe('answers', () => {
  let server: TestServer;
  let upstream: Upstream;
  let elsewhere: Upstream;
  let otherTenant: TestTenant;
  let url: string;
  /** By path: the bytes that are answered as soon as the head of the request is there. */
  const bytesAt = new Map<string, string>();
  const routes = new Map<string, UpstreamOptions['answer'] & object>();

  beforeAll(async () => {
    elsewhere = await openUpstream();
    upstream = await openUpstream({
      onHead: (request) => {
        const bytes = bytesAt.get(request.url ?? '');
        if (bytes !== undefined) request.socket.end(Buffer.from(bytes, 'latin1'));
      },
      answer: (request, response, received) => {
        if (bytesAt.has(request.url ?? '')) return;
        const route = routes.get(request.url ?? '');
        if (route) return route(request, response, received);
        response.end('good');
      },
    });
    server = await openServer({ 'good.test': upstream.port, 'elsewhere.test': elsewhere.port });
    otherTenant = await server.newTenant();
    url = `https://good.test:${upstream.port}`;
  });

  let paths = 0;
  /** A destination that answers so, named, stored, and stored with code that would see the answer. */
  const waysTo = async (answer: string | (UpstreamOptions['answer'] & object)) => {
    const path = `/${(paths += 1)}`;
    if (typeof answer === 'string') bytesAt.set(path, answer);
    else routes.set(path, answer);
    const destination_url = url + path;
    const stored = await makeProxy(server, { destination_url });
    const seen = await makeProxy(server, { destination_url, response_transform: passing });
    return { path, named: destination_url, stored, seen };
  };

  const requestsAt = (path: string) => upstream.received.filter((each) => each.url === path).length;

  test.each([
    ['no HTTP at all', 'hello\r\n\r\n'],
    ['nothing', ''],
    ['half a status line', 'HTTP/1.1 2'],
    ['half of its headers', 'HTTP/1.1 200 OK\r\nx-one: 1\r\n'],
    ['a broken header', 'HTTP/1.1 200 OK\r\nbad header\r\n\r\n'],
    ['a header with a control character', 'HTTP/1.1 200 OK\r\nx: a\x01b\r\ncontent-length: 0\r\n\r\n'],
    ['two ways of framing', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc'],
    ['headers of 40 KB', `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(40_000)}\r\n\r\n`],
    ['an unrequested upgrade', 'HTTP/1.1 101 Go\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nhi'],
  ])('%s is a 502 in the frame of the proxy, and is not asked for again', async (_, bytes) => {
    const { named, stored, seen } = await waysTo(bytes);
    for (const to of [named, stored, seen]) {
      const before = upstream.connectionCount();
      const result = await pass(server, to, { body: CANARY });
      expect(result.status).toBe(502);
      problemIn(result);
      expect(upstream.connectionCount() - before).toBeLessThanOrEqual(1);
      await until(() => upstream.openCount() === 0);
    }
    expect((await pass(server, `${url}/good`)).body.toString()).toBe('good');
  });

  test.each([
    ['in the middle of an announced body', 'HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\nhalf'],
    ['in the middle of a chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\nhalf'],
    ['before the last chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n'],
  ])('one that breaks off %s is never a whole answer, and under a transform a 502', async (_, bytes) => {
    const { named, stored, seen } = await waysTo(bytes);
    for (const to of [named, stored]) {
      const result = await pass(server, to, { body: CANARY });
      expect([result.status, result.isWhole]).toEqual([200, false]);
    }
    const result = await pass(server, seen, { body: CANARY });
    expect(result.status).toBe(502);
    expect(problemIn(result).detail).toBe('The destination closed the connection. It may have acted on the request.');
    expect(result.body.toString()).not.toContain('half');
    await until(() => upstream.openCount() === 0);
  });

  test('one that is small and breaks off at once is a 502 of the proxy, however it was asked for', async () => {
    const { named, stored, seen } = await waysTo('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf');
    for (const to of [named, stored, seen]) {
      const result = await pass(server, to, { body: CANARY });
      expect([result.status, result.isWhole]).toEqual([502, true]);
      expect(problemIn(result).detail).toBe('The destination closed the connection. It may have acted on the request.');
      expect(result.body.toString()).not.toContain('half');
    }
    await until(() => upstream.openCount() === 0);
  });

  test.each([
    ['control characters', 'a\x01b\x7f'],
    ['letters of one byte', 'tr\xe8s bien'],
    ['letters of UTF-8', Buffer.from('很好').toString('latin1')],
    ['what is no UTF-8', '\xff\xfe'],
    ['nothing', ''],
  ])('one whose status line holds %s is an answer or a 502, and ends', async (_, text) => {
    const { named, stored, seen } = await waysTo(`HTTP/1.1 200 ${text}\r\ncontent-length: 2\r\n\r\nok`);
    const ways = [named, stored, seen].map((to) =>
      pass(server, to, { body: CANARY, signal: AbortSignal.timeout(5_000) }),
    );
    for (const result of await Promise.all(ways)) {
      if (result.status === 200) expect(result.body.toString()).toBe('ok');
      else expect([result.status, problemIn(result).status]).toEqual([502, 502]);
    }
  });

  test.each([
    ['a negative length', 'HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok'],
    ['a length with a sign', 'HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok'],
    ['a length beyond all numbers', `HTTP/1.1 200 OK\r\ncontent-length: ${'9'.repeat(30)}\r\n\r\nok`],
    ['a length in a list', 'HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nok'],
    ['a length that is none', 'HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\nok'],
    ['a chunk beyond all numbers', `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'f'.repeat(30)}\r\nok`],
    ['a chunk that is none', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n'],
    ['a coding of the framing that is not known', 'HTTP/1.1 200 OK\r\ntransfer-encoding: xchunked\r\n\r\nok'],
    ['chunks that are framed twice', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n'],
    ['a body where there is none', 'HTTP/1.1 204 No\r\ncontent-length: 2\r\n\r\nok'],
    ['a body that is not modified', 'HTTP/1.1 304 No\r\ncontent-length: 2\r\n\r\nok'],
    ['a folded header', 'HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\nok'],
    ['a blank before the colon', 'HTTP/1.1 200 OK\r\ncontent-length : 2\r\n\r\nok'],
    ['bare line feeds', 'HTTP/1.1 200 OK\ncontent-length: 2\n\nok'],
    ['another version', 'HTTP/3.7 200 OK\r\ncontent-length: 2\r\n\r\nok'],
    ['a status beyond all', 'HTTP/1.1 999 What\r\ncontent-length: 2\r\n\r\nok'],
    ['a status below all', 'HTTP/1.1 099 What\r\ncontent-length: 2\r\n\r\nok'],
    ['no status', 'HTTP/1.1\r\ncontent-length: 2\r\n\r\nok'],
    ['announcements alone', 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n'],
  ])('%s ends as an answer of one framing or as a 502', async (_, bytes) => {
    const { named, stored, seen } = await waysTo(bytes);
    const ways = [named, stored, seen].map((to) =>
      pass(server, to, { body: CANARY, signal: AbortSignal.timeout(5_000) }),
    );
    for (const result of await Promise.all(ways)) {
      if (result.headers['svc-proxy-destination-status'] === undefined)
        expect([result.status, problemIn(result).status]).toEqual([502, 502]);
      else {
        expect(result.headers['svc-proxy-destination-status']).toBe(String(result.status));
        expect(['', 'ok']).toContain(result.body.toString());
      }
    }
    expect((await pass(server, `${url}/good`)).body.toString()).toBe('good');
  });

  test('have 10 s for a connection, 25 s for the head of a response and 55 s for all of it', () => {
    expect(server.ctx.egress.timeouts).toEqual({ connectMs: 10_000, firstByteMs: 25_000, wholeMs: 55_000 });
  });

  test('an unrequested response is never the response to the next request', async () => {
    const { path, named } = await waysTo((request) => {
      const answer = (body: string) => `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
      request.socket.write(answer('first') + answer('evil'));
    });
    for (let round = 0; round < 5; round += 1) {
      const result = await pass(server, named);
      if (result.status === 200) expect(result.body.toString()).toBe('first');
      else expect([result.status, problemIn(result).status]).toEqual([502, 502]);
      expect((await pass(server, `${url}/good`)).body.toString()).toBe('good');
    }
    expect(requestsAt(path)).toBe(5);
  });

  test.each([301, 302, 303, 307, 308])('%d is answered as it is and not followed', async (status) => {
    for (const location of [
      `https://elsewhere.test:${elsewhere.port}/x`,
      'https://169.254.169.254/latest/',
      'http://good.test/',
      '/again',
    ]) {
      const { path, named, stored, seen } = await waysTo((_, response) => {
        response.writeHead(status, { location }).end('moved');
      });
      for (const to of [named, stored, seen]) {
        const result = await pass(server, to, { headers: { authorization: 'Bearer x' } });
        expect(result.status).toBe(status);
        expect(result.headers['location']).toBe(location);
        expect(result.headers['svc-proxy-destination-status']).toBe(String(status));
        expect(result.body.toString()).toBe('moved');
      }
      expect(requestsAt(path)).toBe(3);
    }
    expect(requestsAt('/again')).toBe(0);
    expect(elsewhere.connectionCount()).toBe(0);
  });

  test('a connection serves one tenant, whichever form of the proxy it uses', async () => {
    const { path, named, stored } = await waysTo((_, response) => void response.end());
    const theirs = await makeProxy(server, { destination_url: named, require_auth: false }, otherTenant.api_key);
    const asks: [string | StoredProxy, string | null | undefined][] = [
      [named, undefined],
      [stored, undefined],
      [named, otherTenant.api_key],
      [theirs, otherTenant.api_key],
      [theirs, null],
      [named, undefined],
    ];
    for (const [to, key] of asks) expect((await pass(server, to, key === undefined ? {} : { key })).status).toBe(200);
    const [mine, ...rest] = upstream.received.filter((each) => each.url === path).map(({ connection }) => connection);
    expect(new Set([mine, rest[0], rest[4]]).size).toBe(1);
    expect(new Set([rest[1], rest[2], rest[3]]).size).toBe(1);
    expect(rest[1]).not.toBe(mine);
  });

  test('nothing of a request stands in the log of the server', () => {
    expect(server.logLines.join('')).not.toContain(CANARY);
  });
});

describe('a request that comes back', () => {
  /** A loop that nothing ends is ended here. */
  const ROUNDS_MAX = 20;
  let server: TestServer;
  let front: Upstream;
  let url: string;
  /** What the front adds to what it hands on: keys that we took off. */
  let added: Record<string, string> = {};

  beforeAll(async () => {
    // TLS in front of the server itself, under a name that it does not know.
    front = await openUpstream({
      answer: (request, response, { headers, body }) => {
        if (front.received.length > ROUNDS_MAX) return void response.end('endless');
        const { hostname, port } = new URL(server.base_url);
        const kept = Object.fromEntries(
          headers.filter(([name]) => !/^(?:host|content-length|transfer-encoding)$/i.test(name)),
        );
        const { method, url: path } = request;
        const again = requestHttp(
          { hostname, port, method, path, headers: { ...kept, ...added }, agent: false },
          (answer) => {
            response.writeHead(answer.statusCode ?? 500, answer.headers);
            answer.pipe(response);
          },
        );
        again.on('error', () => response.destroy());
        again.end(body);
      },
    });
    const resolve = () => Promise.resolve(['127.0.0.1']);
    const own = { PUBLIC_HOSTS: 'vault.test,*.vault.test', RATE_LIMIT: 'off' };
    server = await openServer({ 'front.test': front.port, 'vault.test': front.port, 'a.vault.test': front.port }, own, {
      resolve,
    });
    url = `https://front.test:${front.port}/proxy`;
  });

  /** How often it came to the front. */
  const rounds = async (work: () => Promise<unknown>): Promise<number> => {
    front.received.length = 0;
    await work();
    return front.received.length;
  };

  test('under a public name of ours is not sent at all', async () => {
    for (const host of ['vault.test', 'a.vault.test', 'VAULT.test.']) {
      const named = `https://${host}:${front.port}/proxy`;
      expect(await rounds(async () => expect((await pass(server, named)).status, host).toBe(400))).toBe(0);
      const stored = await server.request('POST', '/proxies', { json: { name: 'x', destination_url: named } });
      expect(stored.status, host).toBe(400);
    }
  });

  test('under another name passes once, even if our keys are added again', async () => {
    const proxy = await makeProxy(server, { destination_url: url, require_auth: false });
    const keys: Record<string, string>[] = [
      {},
      { 'svc-api-key': server.tenant.api_key, 'svc-proxy-url': url },
      { 'svc-proxy-key': proxy.key },
      { 'svc-api-key': server.tenant.api_key, 'svc-proxy-key': proxy.key },
    ];
    for (added of keys)
      for (const to of [url, proxy]) {
        let result: WireAnswer | undefined;
        expect(await rounds(async () => (result = await pass(server, to, { body: CANARY })))).toBe(1);
        expect(result?.status).toBe(400);
        expect(problemIn(result as WireAnswer).detail).toBe('The request came back to where it was sent from.');
      }
  });

  test('under another name goes round once, though its header Connection names our mark', async () => {
    added = { 'svc-api-key': server.tenant.api_key, 'svc-proxy-url': url };
    expect(await rounds(() => pass(server, url, { headers: { connection: 'cdn-loop' } }))).toBe(1);
  });

  test('under another name goes round once, though code takes our mark off', async () => {
    const bare = { code: codeOf('return { body: args.body, headers: {} };') };
    const stored = await makeProxy(server, { destination_url: url, request_transform: bare });
    added = { 'svc-api-key': server.tenant.api_key, 'svc-proxy-key': stored.key };
    expect(await rounds(() => pass(server, stored))).toBe(1);
  });

  test('a loop mark of another vault is not ours', async () => {
    added = {};
    const headers = { 'cdn-loop': 'other; id=1, strongroom; id=2, strongroom' };
    expect(await rounds(() => pass(server, url, { headers }))).toBe(1);
    expect(front.received[0]?.headers.filter(([name]) => name.toLowerCase() === 'cdn-loop')[0]?.[1]).toBe(
      headers['cdn-loop'],
    );
  });
});

describe('destinations that took their time', () => {
  test('one that takes the connection and says nothing is a 504', async () => {
    const { begun, mute } = slowly;
    const { result, ms } = await begun.mute;
    expect(result.status).toBe(504);
    problemIn(result);
    // For the connection it has less time than for the answer.
    expect(ms).toBeLessThan((await begun.silent).ms);
    expect(mute.connectionCount()).toBe(1);
    await until(() => mute.openCount() === 0);
  });

  test('one that never answers is a 504 when its time is over, and is not asked again', async () => {
    const { begun, slow } = slowly;
    for (const { result, ms } of [await begun.silent, await begun.stored]) {
      expect(result.status).toBe(504);
      expect(problemIn(result).detail).toBe(
        'The destination did not answer in time. It may have acted on the request.',
      );
      expect(ms).toBeGreaterThan(WHOLE_MS_LEAST);
    }
    expect(slow.received.filter((each) => each.url === '/silent')).toHaveLength(2);
  });

  test('one that stops reading a large body is a 504 when its time is over', async () => {
    const { begun, deaf, listenAgain } = slowly;
    const { result, ms } = await begun.deaf;
    expect(result.status).toBe(504);
    problemIn(result);
    expect(ms).toBeGreaterThan(WHOLE_MS_LEAST);
    // What is not read does not tell that it is over.
    listenAgain();
    await until(() => deaf.openCount() === 0);
  });

  test('one that answers slowly or without end is broken off in time, and is no whole answer', async () => {
    const { begun, slow } = slowly;
    for (const { result, ms } of [await begun.trickle, await begun.endless]) {
      expect([result.status, result.isWhole]).toEqual([200, false]);
      expect(result.body.byteLength).toBeGreaterThan(0);
      expect(ms).toBeGreaterThan(WHOLE_MS_LEAST);
    }
    const { result, ms } = await begun.seenTrickle;
    expect(result.status).toBe(504);
    problemIn(result);
    expect(ms).toBeGreaterThan(WHOLE_MS_LEAST);
    await until(() => slow.openCount() === 0);
  });

  test('500 requests of a tenant to a silent destination are 504, and 429 beyond its connections', async () => {
    const { server, flooder, flooded, flood, good } = slowly;
    const result = await Promise.all(flood);
    const busy = result.filter(({ status }) => status === 429);
    const late = result.filter(({ status }) => status === 504);
    expect(busy.length + late.length).toBe(FLOOD);
    expect(busy.length).toBeGreaterThan(0);
    expect(late.length).toBeGreaterThan(0);
    for (const each of result) problemIn(each);
    for (const { headers } of busy) expect(Number(headers['retry-after'])).toBeGreaterThan(0);
    // The flood waits for its share of the loop too, since another tenant asks: the time of some is over before they connect.
    expect(flooded.received.length).toBeGreaterThan(0);
    expect(flooded.received.length).toBeLessThanOrEqual(flooded.connectionCount());
    expect(flooded.connectionCount()).toBeLessThanOrEqual(late.length);
    await until(() => flooded.openCount() === 0);
    const to = `https://good.test:${good.port}`;
    expect((await pass(server, to, { key: flooder.api_key })).status).toBe(200);
  });

  test('nothing of a request stands in the log of the server', () => {
    expect(slowly.server.logLines.join('')).not.toContain(CANARY);
  });
});
