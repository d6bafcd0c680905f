// `fetch` of a tenant's code: bodies decoded in memory, redirects, and memory for many of them.
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { FREE_BYTES } from '../src/platform/base/accounts.ts';
import {
  closeAll,
  delay,
  faultCode,
  headerNames,
  headerOf,
  open,
  sending,
  streaming,
  tenant_id,
  until,
} from './support/egress.ts';
import type { UpstreamOptions } from './support/upstream.ts';

afterEach(closeAll);

describe('bodies in memory', () => {
  const text = Buffer.from('some text, '.repeat(1_000));

  test.each([
    ['gzip', gzipSync(text)],
    ['x-gzip', gzipSync(text)],
    ['GZip', gzipSync(text)],
    ['br', brotliCompressSync(text)],
    ['deflate', deflateSync(text)],
    ['deflate', deflateRawSync(text)],
    ['identity', text],
    ['gzip, br', brotliCompressSync(gzipSync(text))],
    ['identity, gzip', gzipSync(text)],
  ])('content-encoding %s is undone', async (coding, body) => {
    const { fetchFrom } = await open({ answer: sending(body, { 'content-encoding': coding }) });
    expect((await fetchFrom()).body.equals(text)).toBe(true);
  });

  test.each([
    ['zstd', text],
    ['gzip, unknown', text],
  ])('content-encoding %s is not known, and the body stays as it is', async (coding, body) => {
    const { fetchFrom } = await open({ answer: sending(body, { 'content-encoding': coding }) });
    expect((await fetchFrom()).body.equals(body)).toBe(true);
  });

  test.each([
    ['gzip, gzip, gzip', gzipSync(gzipSync(gzipSync(text)))],
    [Array(100).fill('gzip').join(','), gzipSync(text)],
    ['gzip', text],
    ['gzip', gzipSync(text).subarray(0, -9)],
    ['br', text],
    ['deflate', text],
  ])('content-encoding %s that cannot be undone ends as DECODE', async (coding, body) => {
    const { fetchFrom } = await open({ answer: sending(body, { 'content-encoding': coding }) });
    expect(await faultCode(fetchFrom())).toBe('DECODE');
  });

  test.each([
    ['gzip', gzipSync(Buffer.alloc(50_000_000))],
    ['br', brotliCompressSync(Buffer.alloc(50_000_000))],
    ['gzip, gzip', gzipSync(gzipSync(Buffer.alloc(50_000_000)))],
  ])('a compressed bomb by %s ends at the limit', async (coding, body) => {
    expect(body.byteLength).toBeLessThan(FREE_BYTES);
    const { fetchFrom } = await open({ answer: sending(body, { 'content-encoding': coding }) });
    expect(await faultCode(fetchFrom())).toBe('BODY_TOO_LARGE');
  });

  test('what decodes to more than needs no room is whole as well', async () => {
    const large = Buffer.alloc(1_000_000, 'ab');
    const { fetchFrom } = await open({ answer: sending(gzipSync(large), { 'content-encoding': 'gzip' }) });
    expect((await fetchFrom({ bodyBytesMax: 1_000_000 })).body.equals(large)).toBe(true);
    expect(await faultCode(fetchFrom({ bodyBytesMax: 999_999 }))).toBe('BODY_TOO_LARGE');
  });

  test.each([0, 1, FREE_BYTES - 1, FREE_BYTES, FREE_BYTES + 1, 300_000])(
    'a body of %d bytes comes whole up to the limit and not beyond, announced or not',
    async (bytes) => {
      const body = Buffer.alloc(bytes, 'abc');
      for (const answer of [sending(body, { 'content-length': String(bytes) }), streaming(body)]) {
        const { fetchFrom } = await open({ answer });
        expect((await fetchFrom({ bodyBytesMax: bytes })).body.equals(body)).toBe(true);
        if (bytes > 0) expect(await faultCode(fetchFrom({ bodyBytesMax: bytes - 1 }))).toBe('BODY_TOO_LARGE');
      }
    },
  );

  test('a body that is announced as too large is not waited for', async () => {
    const { up, fetchFrom } = await open({
      answer: (_, response) => response.writeHead(200, { 'content-length': '1000001' }).flushHeaders(),
    });
    expect(await faultCode(fetchFrom({ bodyBytesMax: 1_000_000 }))).toBe('BODY_TOO_LARGE');
    await until(() => up.openCount() === 0);
  });

  test('the length that an answer to HEAD announces is not that of its body', async () => {
    const { fetchFrom } = await open({
      answer: (_, response) => void response.writeHead(200, { 'content-length': '9000000' }).end(),
    });
    expect((await fetchFrom({ method: 'HEAD' })).body.byteLength).toBe(0);
  });
});

describe('fetch', () => {
  /** Redirects `/<status>` to where the query says, and echoes the rest. */
  const redirecting: UpstreamOptions = {
    answer: (request, response, received) => {
      const { pathname, searchParams } = new URL(received.url, 'https://x.test');
      const status = Number(pathname.slice(1));
      const location = searchParams.get('to');
      if (status >= 300 && location !== null) response.writeHead(status, { location }).end('moved');
      else response.end(received.body);
    },
  };
  const to = (location: string, status = 302) => `/${status}?to=${encodeURIComponent(location)}`;

  test('says who asks, unless the code does', async () => {
    const { up, fetchFrom } = await open();
    await fetchFrom();
    await fetchFrom({
      headers: [
        ['User-Agent', 'mine'],
        ['ACCEPT', 'text/plain'],
        ['Accept-Encoding', 'identity'],
      ],
    });
    expect(up.received[0]?.headers).toEqual(
      expect.arrayContaining([
        ['accept', '*/*'],
        ['accept-encoding', 'gzip, deflate, br'],
        ['user-agent', 'strongroom'],
      ]),
    );
    expect(headerNames(up.received[1]).filter((name) => /^accept|^user/.test(name))).toEqual([
      'user-agent',
      'accept',
      'accept-encoding',
    ]);
  });

  test('follows five redirects, not six, and says where it ended', async () => {
    const chain = (length: number): string => (length === 0 ? '/end#there' : to(chain(length - 1)));
    const { fetchFrom, url } = await open(redirecting);
    const answer = await fetchFrom({ url: url(chain(5)) });
    expect(answer).toMatchObject({ status: 200, redirected: true, url: url('/end') });
    expect(await faultCode(fetchFrom({ url: url(chain(6)) }))).toBe('TOO_MANY_REDIRECTS');
    expect(await fetchFrom({ url: url('/end#x') })).toMatchObject({ redirected: false, url: url('/end') });
  });

  test('returns or refuses redirects on request', async () => {
    const { up, fetchFrom, url } = await open(redirecting);
    const left = await fetchFrom({ url: url(to('/end')), redirect: 'manual' });
    expect(left).toMatchObject({ status: 302, redirected: false });
    expect(left.body.toString()).toBe('moved');
    expect(await faultCode(fetchFrom({ url: url(to('/end')), redirect: 'error' }))).toBe('REDIRECT_REFUSED');
    expect(up.received).toHaveLength(2);
  });

  test('a redirect without a place to go is an answer, and so is one by another status', async () => {
    const { fetchFrom, url } = await open({
      answer: (request, response) =>
        void response
          .writeHead(request.url === '/300' ? 300 : 302, request.url === '/300' ? { location: '/x' } : {})
          .end(),
    });
    expect((await fetchFrom({ url: url('/300') })).status).toBe(300);
    expect((await fetchFrom({ url: url('/302') })).status).toBe(302);
  });

  test.each([
    ['http', 'http://upstream.test/'],
    ['an address', 'https://127.0.0.1/'],
    ['credentials', 'https://a:b@upstream.test/'],
    ['no URL', 'https://['],
    ['another scheme', 'file:///etc/passwd'],
  ])('a redirect to %s is refused', async (_, location) => {
    const { up, fetchFrom, url, lookups } = await open(redirecting);
    expect(await faultCode(fetchFrom({ url: url(to(location)) }))).toBe('DESTINATION_REFUSED');
    expect(up.received).toHaveLength(1);
    expect(lookups).toHaveLength(1);
  });

  test('a redirect to an internal name or to a host that is not allowed is refused', async () => {
    const { up, fetchFrom, url, lookups } = await open(redirecting, {
      addresses: (host) => [host === 'upstream.test' ? '127.0.0.1' : '169.254.169.254'],
    });
    const inside = url(to('https://metadata.evil.test/'));
    expect(await faultCode(fetchFrom({ url: inside }))).toBe('DESTINATION_REFUSED');
    const other = url(to(url('/', 'other.upstream.test')));
    expect(await faultCode(fetchFrom({ url: other, allowLists: [['upstream.test']] }))).toBe('DESTINATION_REFUSED');
    expect(up.received.map(({ servername }) => servername)).toEqual(['upstream.test', 'upstream.test']);
    expect(lookups).toEqual(['upstream.test', 'metadata.evil.test', 'upstream.test']);
  });

  test('a place to go is read as UTF-8, and against where it was said', async () => {
    const { up, fetchFrom, url } = await open({
      answer: (request, response) => {
        if (request.url === '/a/b')
          response.writeHead(302, { location: Buffer.from('c/\u00e9?\u00e9').toString('latin1') });
        response.end();
      },
    });
    await fetchFrom({ url: url('/a/b') });
    expect(up.received[1]?.url).toBe('/a/c/%C3%A9?%C3%A9');
  });

  test.each([
    [301, 'POST', 'GET'],
    [302, 'POST', 'GET'],
    [303, 'POST', 'GET'],
    [303, 'PUT', 'GET'],
    [303, 'DELETE', 'GET'],
    [301, 'PUT', 'PUT'],
    [302, 'PATCH', 'PATCH'],
    [307, 'POST', 'POST'],
    [308, 'POST', 'POST'],
    [308, 'PUT', 'PUT'],
  ])('after %d a %s goes on as %s, and its body with it or not', async (status, method, next) => {
    const { up, fetchFrom, url } = await open(redirecting);
    await fetchFrom({
      url: url(to('/end', status)),
      method,
      body: Buffer.from('data'),
      headers: [
        ['Content-Type', 'text/plain'],
        ['content-language', 'en'],
        ['x-other', '1'],
      ],
    });
    const [first, second] = up.received;
    expect(first).toMatchObject({ method, body: Buffer.from('data') });
    expect(second?.method).toBe(next);
    const isKept = method === next;
    expect(second?.body.toString()).toBe(isKept ? 'data' : '');
    expect(headerOf(second, 'content-type')).toBe(isKept ? 'text/plain' : undefined);
    expect(headerOf(second, 'content-language')).toBe(isKept ? 'en' : undefined);
    expect(headerOf(second, 'x-other')).toBe('1');
  });

  test.each([301, 302, 303, 307])('after %d a HEAD stays one', async (status) => {
    const { up, fetchFrom, url } = await open(redirecting);
    await fetchFrom({ url: url(to('/end', status)), method: 'HEAD' });
    expect(up.received.map(({ method }) => method)).toEqual(['HEAD', 'HEAD']);
  });

  test('another origin gets accept, content type and user agent alone; credentials do not return', async () => {
    const { up, fetchFrom, url } = await open(redirecting);
    const back = to(url('/end'));
    const away = to(url(back, 'other.upstream.test'));
    await fetchFrom({
      url: url(to(away)),
      headers: [
        ['Authorization', 'Bearer x'],
        ['COOKIE', 'a=1'],
        ['x-other', '1'],
        ['X-API-Key', 'secret'],
        ['Accept-Language', 'en'],
        ['Content-Type', 'text/plain'],
        ['User-Agent', 'own'],
      ],
    });
    expect(up.received.map((each) => headerOf(each, 'authorization'))).toEqual([
      'Bearer x',
      'Bearer x',
      undefined,
      undefined,
    ]);
    expect(up.received.map((each) => headerOf(each, 'cookie'))).toEqual(['a=1', 'a=1', undefined, undefined]);
    expect(up.received.map((each) => headerOf(each, 'x-other'))).toEqual(['1', '1', undefined, undefined]);
    const sentByUs = ['host', 'connection'];
    for (const each of up.received.slice(2))
      expect(
        headerNames(each)
          .filter((name) => !sentByUs.includes(name))
          .toSorted(),
      ).toEqual(['accept', 'accept-encoding', 'accept-language', 'content-type', 'user-agent']);
    expect(up.received[2]?.servername).toBe('other.upstream.test');
  });

  test.each([
    [307, 'POST'],
    [308, 'PUT'],
    [301, 'PUT'],
  ])(
    'a %d of a %s with a body to another origin fails the call, and the body is not sent there',
    async (status, method) => {
      const { up, fetchFrom, url } = await open(redirecting);
      const away = to(url('/end', 'other.upstream.test'), status);
      await expect(fetchFrom({ url: url(away), method, body: Buffer.from('a card') })).rejects.toMatchObject({
        code: 'REDIRECT_REFUSED',
        message: expect.stringContaining('to another origin, and its body is not sent there'),
      });
      expect(up.received).toHaveLength(1);
      // Without a body there is none to keep.
      expect((await fetchFrom({ url: url(away), method })).redirected).toBe(true);
    },
  );

  test('redirects share one deadline', async () => {
    const { up, fetchFrom, url } = await open({
      answer: async (_, response) => {
        await delay(150);
        response.writeHead(302, { location: '/again' }).end();
      },
    });
    expect(await faultCode(fetchFrom({ url: url('/'), timeouts: { wholeMs: 400 } }))).toBe('TIMEOUT');
    expect(up.received.length).toBeLessThan(4);
  });
});

describe('memory for bodies', () => {
  const large = Buffer.alloc(100_000, 'x');
  const small = Buffer.alloc(FREE_BYTES, 'x');
  // Of all, a quarter is kept for tenants that hold less than any of these answers.
  const tenantLimits = { response_bytes: { ofAll: 400_000, ofTenantMax: 150_000, ofTenantLeast: 90_000 } };
  const memoryWaitMs = 100;
  const serving: UpstreamOptions = {
    answer: (request, response) => {
      if (request.url === '/small') sending(small)(request, response);
      else if (request.url === '/short')
        response.writeHead(200, { 'content-length': '100000' }).write(large.subarray(1), () => response.destroy());
      else sending(large, { 'content-length': String(large.byteLength) })(request, response);
    },
  };

  test('a large answer is BUSY while others of its tenant are in memory, others are not', async () => {
    const { fetchFrom, url } = await open(serving, { tenantLimits });
    const held = await fetchFrom({ bodyBytesMax: 150_000 });
    expect(await faultCode(fetchFrom({ bodyBytesMax: 150_000, memoryWaitMs }))).toBe('BUSY');
    expect((await fetchFrom({ url: url('/small'), bodyBytesMax: 150_000 })).body.equals(small)).toBe(true);
    const other = await fetchFrom({ tenant_id: 'tenant-b', bodyBytesMax: 150_000 });
    other.release();
    held.release();
    held.release();
    const next = await fetchFrom({ bodyBytesMax: 150_000 });
    expect(next.body.equals(large)).toBe(true);
    expect(await faultCode(fetchFrom({ bodyBytesMax: 150_000, memoryWaitMs }))).toBe('BUSY');
  });

  test('all tenants together have a bound', async () => {
    const { fetchFrom } = await open(serving, { tenantLimits });
    for (const each of ['a', 'b', 'c']) await fetchFrom({ tenant_id: each, bodyBytesMax: 150_000 });
    expect(await faultCode(fetchFrom({ tenant_id: 'd', bodyBytesMax: 150_000, memoryWaitMs }))).toBe('BUSY');
  });

  test('many at once that each need most of the room come one after the other, and none is stuck', async () => {
    const { fetchFrom } = await open({ answer: streaming(large) }, { tenantLimits });
    const answers = Array.from({ length: 12 }, async () => {
      const answer = await fetchFrom({ bodyBytesMax: 150_000 });
      await delay(5);
      answer.release();
      return answer.body.byteLength;
    });
    expect(await Promise.all(answers)).toEqual(Array(12).fill(100_000));
  });

  test('an answer that breaks off, is too large or was left leaves no room taken', async () => {
    const { fetchFrom, url } = await open(serving, { tenantLimits });
    expect(await faultCode(fetchFrom({ url: url('/short'), bodyBytesMax: 150_000 }))).toBe('RESET');
    const bomb = await open(
      { answer: sending(gzipSync(Buffer.alloc(1_000_000)), { 'content-encoding': 'gzip' }) },
      { tenantLimits },
    );
    for (let each = 0; each < 3; each += 1) {
      expect(await faultCode(bomb.fetchFrom({ bodyBytesMax: 100_000 }))).toBe('BODY_TOO_LARGE');
    }
    const held = await fetchFrom({ bodyBytesMax: 150_000 });
    const leaving = new AbortController();
    const waiting = faultCode(fetchFrom({ bodyBytesMax: 150_000, signal: leaving.signal }));
    await delay(50);
    leaving.abort();
    expect(await waiting).toBe('ABORTED');
    held.release();
    expect((await fetchFrom({ bodyBytesMax: 150_000 })).status).toBe(200);
  });

  test('closing ends the wait for room', async () => {
    const { accounts, fetchFrom } = await open(serving, { tenantLimits });
    await fetchFrom({ bodyBytesMax: 150_000 });
    const waiting = faultCode(fetchFrom({ bodyBytesMax: 150_000 }));
    await delay(50);
    accounts.close();
    expect(await waiting).toBe('BUSY');
  });

  test('bodies of requests have room of their own, and are BUSY at once', async () => {
    const gate = Promise.withResolvers<void>();
    const { up, fetchFrom } = await open(
      { answer: (_, response) => gate.promise.then(() => void response.end()) },
      { tenantLimits: { request_bytes: { ofAll: 2_000_000, ofTenantMax: 1_000_000, ofTenantLeast: 100_000 } } },
    );
    const post = (bytes: number, tenant = tenant_id) =>
      fetchFrom({ tenant_id: tenant, method: 'POST', body: Buffer.alloc(bytes) });
    const first = post(1_000_000);
    await until(() => up.received.length === 1);
    expect(await faultCode(post(FREE_BYTES + 1))).toBe('BUSY');
    expect(await faultCode(post(500_001, 'tenant-b'))).toBe('BUSY');
    const second = post(500_000, 'tenant-b');
    // What is small needs none.
    const third = post(FREE_BYTES);
    await until(() => up.received.length === 3);
    gate.resolve();
    await Promise.all([first, second, third]);
    expect((await post(1_000_000)).status).toBe(200);
    expect(up.received).toHaveLength(4);
  });
});
