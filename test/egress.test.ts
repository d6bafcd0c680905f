// The one way out, against real TLS servers of this machine: what may be reached, what crosses, and when it ends.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createTcpServer } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { afterEach, describe, expect, test } from 'vitest';
import { certificateFor, expiredCertificateFor, selfSignedCertificateFor, testCa } from './support/certificates.ts';
import {
  closeAll,
  closeLater,
  delay,
  faultCode,
  headerNames,
  headerOf,
  listen,
  open,
  openEgress,
  saying,
  tenant_id,
  until,
} from './support/egress.ts';
import { startUpstream } from './support/upstream.ts';

type Vector =
  | { kind: 'address'; address: string; outcome: string }
  | { kind: 'destination'; url: string; outcome: string };
const vectors = JSON.parse(
  readFileSync(new URL('./vectors/addresses.json', import.meta.url), 'utf8'),
) as readonly Vector[];

afterEach(closeAll);

describe('where it goes', () => {
  test('the request arrives as it was asked for, over TLS to the name of the URL', async () => {
    const { up, exchange, url, lookups } = await open();
    const answer = await exchange({
      url: url('/a%20b/../c?x=%7B&y#z'),
      method: 'PUT',
      headers: [['X-One', 'a\xe9']],
      body: Buffer.from('caf\xe9', 'latin1'),
    });
    expect(answer).toMatchObject({ status: 200, statusText: 'OK' });
    expect(answer.bodyBytes).toBe(answer.body.byteLength);
    const [received] = up.received;
    expect(received).toMatchObject({ method: 'PUT', url: '/c?x=%7B&y', servername: 'upstream.test' });
    expect(received?.body.toString('latin1')).toBe('caf\xe9');
    expect(received?.headers).toContainEqual(['X-One', 'a\xe9']);
    expect(lookups).toEqual(['upstream.test']);
  });

  test('no spelling of an address and no refused host causes a look-up or a connection', async () => {
    const { up, egress, lookups } = await open();
    const refused = vectors
      .filter((each) => each.kind === 'destination')
      .filter(({ outcome }) => outcome !== 'allowed');
    expect(refused.length).toBeGreaterThan(80);
    for (const { url } of refused) {
      expect(await faultCode(egress.request({ tenant_id, url, method: 'GET', headers: [] }))).toBe(
        'DESTINATION_REFUSED',
      );
    }
    expect(
      await faultCode(egress.request({ tenant_id, url: `https://127.0.0.1:${up.port}/`, method: 'GET', headers: [] })),
    ).toBe('DESTINATION_REFUSED');
    expect(lookups).toEqual([]);
    expect(up.connectionCount()).toBe(0);
  });

  test('a name of an internal address is refused once it is looked up, and is logged', async () => {
    const inside = vectors.filter((each) => each.kind === 'address').filter(({ outcome }) => outcome !== 'public');
    expect(inside.length).toBeGreaterThan(80);
    let address = '';
    const warnings: unknown[] = [];
    const { up, lookups, exchange } = await open(
      {},
      {
        policy: { privateHosts: [] },
        addresses: () => [address],
        log: { warn: (fields) => warnings.push(fields) },
      },
    );
    for (const each of inside) {
      ({ address } = each);
      expect(await faultCode(exchange())).toBe('DESTINATION_REFUSED');
    }
    expect(lookups).toHaveLength(inside.length);
    expect(warnings).toHaveLength(inside.length);
    expect(warnings[0]).toEqual({ tenant_id, code: 'DESTINATION_REFUSED' });
    expect(up.connectionCount()).toBe(0);
  });

  test.each([
    [['93.184.216.34', '127.0.0.1']],
    [['127.0.0.1', '93.184.216.34']],
    [['2606:4700:4700::1111', '10.0.0.1']],
    [['93.184.216.34', '64:ff9b::808:808']],
  ])('a name with one public address and one that is none is refused: %j', async (addresses) => {
    const { up, exchange } = await open({}, { policy: { privateHosts: [] }, addresses: () => addresses });
    expect(await faultCode(exchange())).toBe('DESTINATION_REFUSED');
    expect(up.connectionCount()).toBe(0);
  });

  test('a host of the operator is not a way to the metadata service', async () => {
    const { up, exchange } = await open({}, { addresses: () => ['127.0.0.1', '169.254.169.254'] });
    expect(await faultCode(exchange())).toBe('DESTINATION_REFUSED');
    expect(up.connectionCount()).toBe(0);
  });

  test('the connection goes to the address that was checked, and to one alone', async () => {
    const { up, exchange } = await open({ address: '0.0.0.0' }, { addresses: () => ['127.0.0.2', '127.0.0.3'] });
    await exchange();
    expect(up.received[0]?.address).toBe('127.0.0.2');
    expect(up.connectionCount()).toBe(1);
  });

  test('a name that changes its address is looked up and judged for each connection', async () => {
    let address = '127.0.0.1';
    const { up, lookups, exchange } = await open({}, { addresses: () => [address], limits: { resolutionMs: 0 } });
    await exchange();
    expect(lookups).toHaveLength(1);
    address = '169.254.169.254';
    expect(await faultCode(exchange())).toBe('DESTINATION_REFUSED');
    expect(lookups).toHaveLength(2);
    expect(up.connectionCount()).toBe(1);
    await until(() => up.openCount() === 0);
  });

  test('a connection that the destination closed is not opened again without a look-up', async () => {
    let address = '127.0.0.1';
    const { up, lookups, exchange } = await open(
      { answer: (_, response) => void response.setHeader('connection', 'close').end() },
      { addresses: () => [address] },
    );
    await exchange();
    address = '169.254.169.254';
    await until(() => up.openCount() === 0);
    expect(await faultCode(exchange())).toBe('DESTINATION_REFUSED');
    expect(lookups).toHaveLength(2);
    expect(up.connectionCount()).toBe(1);
  });

  test('a name without an address, or whose look-up fails or is not answered, ends as DNS', async () => {
    const { exchange } = await open({}, { addresses: () => [] });
    expect(await faultCode(exchange())).toBe('DNS');
    const failing = await open({}, { resolve: () => Promise.reject(new Error('no such name')) });
    expect(await faultCode(failing.exchange())).toBe('DNS');
    const silent = await open({}, { resolve: () => new Promise(() => {}) });
    expect(await faultCode(silent.exchange())).toBe('DNS');
  });

  test('where nobody listens ends as CONNECT', async () => {
    const up = await startUpstream();
    await up.close();
    expect(await faultCode(openEgress(up.port).exchange())).toBe('CONNECT');
  });
});

describe('TLS', () => {
  const body = Buffer.from('secret');

  test.each([
    ['a certificate signed by itself', selfSignedCertificateFor('upstream.test')],
    ['a certificate for another name', certificateFor('other.test')],
    ['an expired certificate', expiredCertificateFor('upstream.test')],
  ])('%s ends it before anything is sent', async (_, tls) => {
    const { up, exchange } = await open({ tls });
    expect(await faultCode(exchange({ method: 'POST', body }))).toBe('TLS');
    expect(up.connectionCount()).toBe(1);
    expect(up.received).toEqual([]);
    await until(() => up.openCount() === 0);
  });

  test('nothing in the environment switches the check off', async () => {
    const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    try {
      const { up, exchange } = await open({ tls: selfSignedCertificateFor('upstream.test') });
      expect(await faultCode(exchange({ method: 'POST', body }))).toBe('TLS');
      expect(up.received).toEqual([]);
    } finally {
      if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
      else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before;
    }
  });

  test("an authority that is not the system's is trusted only where it is named", async () => {
    const { up, exchange } = await open({}, { ca: undefined });
    expect(await faultCode(exchange({ method: 'POST', body }))).toBe('TLS');
    expect(up.received).toEqual([]);
  });

  test('a server that speaks only TLS 1.1 is not spoken to', async () => {
    const ciphers = 'DEFAULT@SECLEVEL=0';
    const { up, exchange } = await open({ tls: { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers } });
    // It does speak to whoever takes less.
    const lax = connectTls({
      port: up.port,
      host: '127.0.0.1',
      servername: 'upstream.test',
      ca: [testCa],
      minVersion: 'TLSv1.1',
      ciphers,
    });
    await once(lax, 'secureConnect');
    expect(lax.getProtocol()).toBe('TLSv1.1');
    lax.destroy();
    expect(await faultCode(exchange({ method: 'POST', body }))).toBe('TLS');
    expect(up.received).toEqual([]);
  });

  test('a server that speaks without TLS gets no byte of the request', async () => {
    let heard = '';
    const server = createTcpServer((socket) => {
      socket.on('data', (piece) => {
        heard += piece.toString('latin1');
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
      });
    });
    const port = await listen(server);
    const { exchange } = openEgress(port);
    expect(await faultCode(exchange({ method: 'POST', body, headers: [['x-mine', 'secret']] }))).toBe('TLS');
    expect(heard).not.toBe('');
    expect(heard).not.toContain('secret');
    expect(heard).not.toContain('POST');
  });
});

describe('what crosses', () => {
  test('headers of the connection and of ours stay here', async () => {
    const { up, exchange } = await open();
    await exchange({
      method: 'POST',
      body: Buffer.from('x'),
      headers: [
        ['Connection', 'x-secret, close'],
        ['X-Secret', '1'],
        ['Keep-Alive', 'timeout=5'],
        ['TE', 'trailers'],
        ['Trailer', 'x'],
        ['Upgrade', 'websocket'],
        ['Proxy-Authorization', 'Basic x'],
        ['Expect', '100-continue'],
        ['Transfer-Encoding', 'chunked'],
        ['Content-Length', '99'],
        ['SVC-API-KEY', 'k'],
        ['svc-proxy-key', 'k'],
        ['SVC-PROXY-URL', 'https://evil.test'],
        ['X-Stays', '2'],
      ],
    });
    expect(headerNames(up.received[0]).sort()).toEqual(['connection', 'content-length', 'host', 'x-stays']);
    expect(headerOf(up.received[0], 'connection')).toBe('keep-alive');
    expect(headerOf(up.received[0], 'content-length')).toBe('1');
  });

  test('headers of the connection stay there, and the others come as they are', async () => {
    const { exchange } = await open(
      saying(
        'HTTP/1.1 201 Made\r\nConnection: x-hop, close\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\nProxy-Authenticate: x\r\n' +
          'SVC-Thing: 1\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nX-Latin: \xe9\r\nContent-Length: 2\r\n\r\nok',
      ),
    );
    const answer = await exchange();
    expect(answer).toMatchObject({ status: 201, statusText: 'Made', bodyBytes: 2 });
    expect(answer.headers).toEqual([
      ['Set-Cookie', 'a=1'],
      ['set-cookie', 'b=2'],
      ['X-Latin', '\xe9'],
    ]);
    expect(answer.body.toString()).toBe('ok');
  });

  test('the destination gets its own name as Host, whatever the caller says', async () => {
    const { up, exchange } = await open();
    await exchange({
      headers: [
        ['Host', 'evil.test'],
        ['hOST', 'evil.test'],
      ],
    });
    expect(up.received[0]?.headers.filter(([name]) => name.toLowerCase() === 'host')).toEqual([
      ['host', `upstream.test:${up.port}`],
    ]);
  });

  test('a header or a method that could end its line is refused before a look-up', async () => {
    const { up, exchange, lookups } = await open();
    expect(await faultCode(exchange({ headers: [['x', 'a\r\nHost: evil.test']] }))).toBe('REQUEST_REFUSED');
    expect(await faultCode(exchange({ headers: [['x y', 'a']] }))).toBe('REQUEST_REFUSED');
    for (const method of ['', 'GE T', 'GET\r\n', 'CONNECT', 'connect', 'TRACE', 'Track', 'A'.repeat(33)]) {
      expect(await faultCode(exchange({ method }))).toBe('REQUEST_REFUSED');
    }
    expect(lookups).toEqual([]);
    expect(up.connectionCount()).toBe(0);
  });

  test('a streamed body is sent with its length where it is known, and in chunks otherwise', async () => {
    const { up, exchange } = await open();
    async function* pieces() {
      yield Buffer.from('one');
      yield Buffer.from('two');
    }
    await exchange({ method: 'POST', body: pieces(), bodyBytes: 6 });
    await exchange({ method: 'POST', body: pieces() });
    expect(up.received.map(({ body }) => body.toString())).toEqual(['onetwo', 'onetwo']);
    expect(headerOf(up.received[0], 'content-length')).toBe('6');
    expect(headerOf(up.received[1], 'transfer-encoding')).toBe('chunked');
  });

  test('a body that breaks off does not arrive as a whole one', async () => {
    const { up, exchange } = await open();
    async function* pieces() {
      yield Buffer.from('one');
      throw new Error('gone');
    }
    expect(await faultCode(exchange({ method: 'POST', body: pieces() }))).toBe('ABORTED');
    await until(() => up.openCount() === 0);
    expect(up.received).toEqual([]);
  });

  test.each([301, 302, 303, 307, 308])('an answer %d is returned and not followed', async (status) => {
    const elsewhere = await startUpstream();
    closeLater(() => elsewhere.close());
    const location = `https://upstream.test:${elsewhere.port}/`;
    const { up, exchange, lookups } = await open({
      answer: (_, response) => void response.writeHead(status, { location }).end(),
    });
    const answer = await exchange({ headers: [['authorization', 'Bearer x']] });
    expect(answer.status).toBe(status);
    expect(answer.headers).toContainEqual(['location', location]);
    expect(elsewhere.connectionCount()).toBe(0);
    expect(up.received).toHaveLength(1);
    expect(lookups).toHaveLength(1);
  });
});

describe('when the destination misbehaves', () => {
  const timeouts = { connectMs: 5_000, firstByteMs: 5_000, wholeMs: 5_000 };

  test.each([
    ['no HTTP at all', 'hello\r\n\r\n'],
    ['a broken header', 'HTTP/1.1 200 OK\r\nbad header\r\n\r\n'],
    ['two ways of framing', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc'],
    ['headers of 40 KB', `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(40_000)}\r\n\r\n`],
  ])('%s ends as PROTOCOL', async (_, bytes) => {
    const { up, exchange } = await open(saying(bytes));
    expect(await faultCode(exchange())).toBe('PROTOCOL');
    await until(() => up.openCount() === 0);
  });

  test('an upgrade that nobody asked for is none', async () => {
    const { up, exchange } = await open(
      saying('HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nhi'),
    );
    expect(await faultCode(exchange())).not.toBe('none');
    await until(() => up.openCount() === 0);
  });

  test('one that takes the connection and says nothing ends as TIMEOUT', async () => {
    const port = await listen(createTcpServer());
    const { exchange } = openEgress(port);
    expect(await faultCode(exchange({ timeouts: { ...timeouts, connectMs: 100 } }))).toBe('TIMEOUT');
  });

  test('one that never answers ends as TIMEOUT, and is not asked again', async () => {
    const { up, exchange } = await open({ answer: () => {} });
    expect(await faultCode(exchange({ timeouts: { ...timeouts, firstByteMs: 200 } }))).toBe('TIMEOUT');
    await until(() => up.openCount() === 0);
    expect(up.received).toHaveLength(1);
    expect(up.connectionCount()).toBe(1);
  });

  test('one that answers a byte at a time ends at the deadline of the whole', async () => {
    const { up, request } = await open({
      answer: (_, response) => {
        const timer = setInterval(() => response.write('x'), 20);
        response.once('close', () => clearInterval(timer));
      },
    });
    const answer = await request({ timeouts: { ...timeouts, wholeMs: 400 } });
    let bytes = 0;
    const read = async () => {
      for await (const piece of answer.body) bytes += piece.byteLength;
    };
    expect(await faultCode(read())).toBe('TIMEOUT');
    expect(bytes).toBeGreaterThan(0);
    await until(() => up.openCount() === 0);
  });

  test('one that answers for ever is cut off at the limit', async () => {
    const { up, fetchFrom } = await open({
      answer: (_, response) => {
        const write = () => {
          while (!response.destroyed && response.write(Buffer.alloc(65_536)));
        };
        response.on('drain', write);
        write();
      },
    });
    expect(await faultCode(fetchFrom({ bodyBytesMax: 1_000_000 }))).toBe('BODY_TOO_LARGE');
    await until(() => up.openCount() === 0);
  });

  test('one that resets in the middle of the body ends as RESET, and is not asked again', async () => {
    const { up, exchange } = await open({
      answer: (_, response) => {
        response.writeHead(200, { 'content-length': '100' });
        response.write('half', () => response.socket?.destroy());
      },
    });
    expect(await faultCode(exchange())).toBe('RESET');
    expect(up.received).toHaveLength(1);
    await until(() => up.openCount() === 0);
  });

  test('one that closes before it answers ends as RESET, and is not asked again', async () => {
    const { up, exchange } = await open({ answer: (request) => void request.socket.destroy() });
    expect(await faultCode(exchange())).toBe('RESET');
    expect(await faultCode(exchange({ method: 'POST', body: Buffer.from('x') }))).toBe('RESET');
    expect(up.received).toHaveLength(2);
    expect(up.connectionCount()).toBe(2);
    await until(() => up.openCount() === 0);
  });

  test('one that stops reading a large body ends as TIMEOUT', async () => {
    let heard = '';
    const server = createTlsServer(certificateFor('upstream.test'), (socket) => {
      socket.on('error', () => {});
      socket.once('data', (piece) => {
        heard += piece.toString('latin1');
        socket.pause();
      });
    });
    const { exchange } = openEgress(await listen(server));
    const body = Buffer.alloc(10_000_000);
    const stalled = exchange({ method: 'POST', body, timeouts: { ...timeouts, wholeMs: 500 } });
    expect(await faultCode(stalled)).toBe('TIMEOUT');
    expect(heard).toMatch(/^POST /);
  });

  test('one that answers before the body is read gets the answer through, and the connection ends', async () => {
    const { up, exchange } = await open({
      onHead: (request, response) => {
        request.pause();
        response.end('early');
      },
      answer: () => {},
    });
    const destroyed = Promise.withResolvers<void>();
    const body = {
      async *[Symbol.asyncIterator]() {
        yield Buffer.from('one');
        await destroyed.promise;
      },
      destroy: () => destroyed.resolve(),
    };
    expect((await exchange({ method: 'POST', body })).body.toString()).toBe('early');
    await destroyed.promise;
    await until(() => up.openCount() === 0);
  });

  test('a caller that leaves ends it at each phase', async () => {
    const { up, exchange, request } = await open({
      answer: (request, response) => {
        if (request.url === '/body') response.write('x');
      },
    });
    expect(await faultCode(exchange({ signal: AbortSignal.abort() }))).toBe('ABORTED');
    const waiting = new AbortController();
    const unanswered = faultCode(exchange({ signal: waiting.signal }));
    await until(() => up.received.length === 1);
    waiting.abort();
    expect(await unanswered).toBe('ABORTED');
    const reading = new AbortController();
    const answer = await request({ url: `https://upstream.test:${up.port}/body`, signal: reading.signal });
    const read = async () => {
      for await (const piece of answer.body) if (piece.byteLength > 0) reading.abort();
    };
    expect(await faultCode(read())).toBe('ABORTED');
    await until(() => up.openCount() === 0);
  });

  test('closing ends what is under way and leaves no socket', async () => {
    const { up, egress, exchange } = await open({ answer: () => {} });
    const unanswered = faultCode(exchange());
    await until(() => up.received.length === 1);
    await egress.close();
    expect(await unanswered).toBe('ABORTED');
    expect(await faultCode(exchange())).toBe('ABORTED');
    await until(() => up.openCount() === 0);
  });
});

describe('connections', () => {
  test('are one tenant\u2019s to one host: used again there and nowhere else', async () => {
    const { up, exchange, url } = await open();
    await exchange();
    await exchange();
    await exchange({ tenant_id: 'tenant-b' });
    await exchange({ url: url('/', 'other.upstream.test') });
    await exchange();
    expect(up.received.map(({ connection }) => connection)).toEqual([1, 1, 2, 3, 1]);
  });

  test('are not used again when the answer was not read to its end', async () => {
    const { up, exchange, request } = await open();
    (await request()).body.destroy();
    await until(() => up.openCount() === 0);
    await exchange();
    expect(up.received.map(({ connection }) => connection)).toEqual([1, 2]);
  });

  test('have a bound for each tenant: more wait, then are BUSY, and do not hinder others', async () => {
    const { up, exchange, request } = await open(
      {},
      { tenantLimits: { connections: { ofTenantMax: 1, ofTenantLeast: 1 } } },
    );
    const held = await request();
    expect(await faultCode(exchange({ timeouts: { connectMs: 100 } }))).toBe('BUSY');
    expect((await exchange({ tenant_id: 'tenant-b' })).status).toBe(200);
    const waiting = exchange();
    await delay(20);
    expect(up.connectionCount()).toBe(2);
    held.body.destroy();
    expect((await waiting).status).toBe(200);
  });

  test('are not kept for a request that has left in the moment when one became free', async () => {
    const { up, exchange } = await open(
      { answer: (request, response) => void (request.url === '/silent' || response.end()) },
      { tenantLimits: { connections: { ofTenantMax: 1, ofTenantLeast: 1 } } },
    );
    const [first, second] = [new AbortController(), new AbortController()];
    const holding = exchange({ url: `https://upstream.test:${up.port}/silent`, signal: first.signal });
    await until(() => up.received.length === 1);
    const waiting = exchange({ signal: second.signal });
    await delay(20);
    second.abort();
    first.abort();
    expect(await Promise.all([faultCode(holding), faultCode(waiting)])).toEqual(['ABORTED', 'ABORTED']);
    expect((await exchange({ timeouts: { connectMs: 500 } })).status).toBe(200);
  });

  test('have a bound for all, and one that rests makes room', async () => {
    const { up, exchange, request } = await open({}, { tenantLimits: { connections: { ofAll: 1 } } });
    await exchange();
    const held = await request({ tenant_id: 'tenant-b' });
    await until(() => up.openCount() === 1);
    expect(await faultCode(exchange({ timeouts: { connectMs: 100 } }))).toBe('BUSY');
    held.body.destroy();
    expect((await exchange()).status).toBe(200);
  });

  test('of several that rest the one that has rested longest makes room', async () => {
    const { up, exchange } = await open({}, { tenantLimits: { connections: { ofAll: 2 } } });
    const opened = async (tenant_id: string): Promise<number> => {
      expect((await exchange({ tenant_id })).status).toBe(200);
      return up.connectionCount();
    };
    expect([await opened('tenant-a'), await opened('tenant-b')]).toEqual([1, 2]);
    // In the place of a's; then c's, for b's has been in use since.
    expect([await opened('tenant-c'), await opened('tenant-b'), await opened('tenant-a')]).toEqual([3, 3, 4]);
    expect([await opened('tenant-b'), await opened('tenant-c')]).toEqual([4, 5]);
  });
});
