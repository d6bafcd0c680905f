// The proxy on the wire, in both directions: forwarded headers, framing, and messages that break off.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  delay,
  type Head,
  makeProxy,
  type Message,
  nothingReaches,
  OK,
  pour,
  proxyErrorIn,
  receiving,
  type SharedProxyFixture,
  soon,
  startProxyFixture,
  statusOf,
  until,
  useProxyFixture,
  valuesOf,
  type Wire,
} from './support/proxy.ts';
import { tokenOf, usesOf } from './support/reactors.ts';

let fixture: SharedProxyFixture;
beforeAll(async () => {
  fixture = await useProxyFixture();
});
afterAll(() => fixture.close());
const wires: Wire[] = [];
afterEach(() => {
  for (const { socket } of wires.splice(0)) socket.destroy();
  fixture.destination.script = receiving(fixture.destination, OK);
});

const connect = async (): Promise<Wire> => {
  const wire = await fixture.connect();
  wires.push(wire);
  return wire;
};

const chunked = (...pieces: string[]): string =>
  `${pieces.map((piece) => `${Buffer.byteLength(piece, 'latin1').toString(16)}\r\n${piece}\r\n`).join('')}0\r\n\r\n`;

/** Sends it, and says what arrived. */
const arriving = async (bytes: string): Promise<Message> => {
  const before = fixture.destination.received.length;
  const answer = await fixture.ask(bytes);
  expect(statusOf(answer), answer.body.toString()).toBe(200);
  expect(fixture.destination.received).toHaveLength(before + 1);
  return fixture.last();
};

/** What the caller gets of an answer of these bytes. */
const answered = async (bytes: string | Uint8Array, request = fixture.head('GET /proxy')): Promise<Message> => {
  fixture.destination.script = receiving(fixture.destination, bytes);
  return fixture.ask(request);
};

const targetOf = ({ start }: Head): string => start.split(' ')[1] as string;
const namesOf = ({ headers }: Head): string[] => headers.map(([name]) => name.toLowerCase());

/** What we add to each request, and to each answer. */
const ofRequests = ['host', 'connection', 'cdn-loop'];
const ofAnswers = [
  'date',
  'connection',
  'keep-alive',
  'svc-trace-id',
  'svc-proxy-destination-status',
  'cache-control',
  'cdn-cache-control',
  'content-security-policy',
  'vary',
  'x-content-type-options',
];

describe('headers on their way to the destination', () => {
  test('keep their spelling, their order and their number, to the byte', async () => {
    const lines = [
      'X-b: 2',
      'x-A: 1',
      'Cookie: a=b',
      'X-B:   2, again',
      'cookie: c=d',
      'Accept-Encoding: br;q=1.0, gzip',
      'x-bytes: \xe9\xff\x80',
      'X-Empty:',
      'User-Agent: own/1.0',
      "x_under.score!#$%&'*+^`|~: ok",
      'CF-Access-Client-Id: ours',
      'X-Forwarded: 1',
      'X-Real: 1',
    ];
    const message = await arriving(fixture.head('GET /proxy/x', ...lines));
    const theirs = message.headers.filter(([name]) => !ofRequests.includes(name.toLowerCase()));
    expect(theirs.map(([name, value]) => `${name}:${value}`)).toEqual(lines.map((line) => line.replace(/:\s*/, ':')));
  });

  test('are all that is added to', async () => {
    const message = await arriving(fixture.head('GET /proxy'));
    expect(namesOf(message).toSorted()).toEqual(ofRequests.toSorted());
    expect(valuesOf(message, 'host')).toEqual([new URL(fixture.url).host]);
  });

  test("say nothing of the caller's address or of the servers before this one", async () => {
    const { key } = await makeProxy(fixture, {
      request_transform: {
        code: "module.exports = async ({ args }) => ({ body: args.body, headers: { ...args.headers, 'x-forwarded-host': 'set by code' } });",
      },
    });
    const lines = [
      'Forwarded: for=203.0.113.9;host=the-secret',
      'X-Forwarded-For: 203.0.113.9, the-secret',
      'x-forwarded-host: the-secret.internal',
      'X-FORWARDED-Anything: the-secret',
      'X-Real-IP: the-secret',
      'Via: 1.1 the-secret.internal',
      'CF-Connecting-IP: the-secret',
      'CF-IPCountry: the-secret',
      'CF-Ray: the-secret',
      'CF-Visitor: the-secret',
      'True-Client-IP: the-secret',
      'Traceparent: the-secret',
      'tracestate: the-secret',
      'BAGGAGE: the-secret',
    ];
    const direct = await arriving(fixture.head('GET /proxy', ...lines, 'X-Stays: 1'));
    expect(namesOf(direct).toSorted()).toEqual([...ofRequests, 'x-stays'].toSorted());
    const transformed = await arriving(fixture.head('GET /proxy', ...lines, 'X-Stays: 1', `SVC-PROXY-KEY: ${key}`));
    expect(transformed.headers.flat().join()).not.toContain('the-secret');
    expect(valuesOf(transformed, 'x-forwarded-host')).toEqual(['set by code']);
  });

  test('none of ours cross, nor what they say', async () => {
    const { key } = await makeProxy(fixture);
    const { api_key } = fixture.server.tenant;
    const lines = [
      `svc-proxy-key: ${key}`,
      'SVC-PROXY-URL: https://the-secret.test/',
      'Svc-Trace-Id: the-secret',
      'SVC-IDEMPOTENCY-KEY: the-secret',
      'sVc-AnyThing: the-secret',
      'SVC-PROXY-DESTINATION-STATUS: 299',
    ];
    const head = fixture.head(`POST /proxy?SVC-Proxy-Key=${key}&a=1`, ...lines, 'Content-Length: 2');
    const message = await arriving(`${head}ok`);
    const whole = message.start + message.headers.flat().join('\n') + message.body.toString();
    for (const secret of [key, api_key, 'the-secret']) expect(whole).not.toContain(secret);
    expect(namesOf(message).filter((name) => name.startsWith('svc-'))).toEqual([]);
    expect(targetOf(message)).toBe('/?a=1');
  });

  test('those of the connection stay, and those that it names', async () => {
    const message = await arriving(
      fixture.head(
        'GET /proxy',
        'Connection: x-secret, Close , X-OTHER',
        'Connection: x-third',
        'X-Secret: the-secret',
        'x-other: the-secret',
        'X-Third: the-secret',
        'Keep-Alive: timeout=77',
        'TE: trailers',
        'Trailer: x-after',
        'Proxy-Authorization: Basic the-secret',
        'Proxy-Connection: keep-alive',
        'Proxy-Anything: the-secret',
        'HTTP2-Settings: the-secret',
        'X-Stays: 1',
      ),
    );
    expect(namesOf(message).toSorted()).toEqual([...ofRequests, 'x-stays'].toSorted());
    expect(message.headers.flat().join()).not.toContain('the-secret');
    expect(valuesOf(message, 'connection')).toEqual(['keep-alive']);
  });

  test('no connection is upgraded', async () => {
    const upgrades = [
      ['Upgrade: websocket', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version: 13'],
      ['Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA'],
    ];
    for (const lines of upgrades) {
      const message = await arriving(fixture.head('GET /proxy', 'Connection: Upgrade', ...lines));
      expect(namesOf(message)).not.toContain('upgrade');
    }
    const answer = await answered(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nraw',
      fixture.head('GET /proxy', 'Connection: Upgrade', 'Upgrade: websocket'),
    );
    expect(proxyErrorIn(answer).status).toBe(502);
  });

  test('the destination gets its own host name, whatever Host the caller sends', async () => {
    for (const host of ['evil.test', 'upstream.test:1', '127.0.0.1', '']) {
      const message = await arriving(fixture.head('GET /proxy', `Host: ${host}`, 'X-Forwarded-Host: evil.test'));
      expect(valuesOf(message, 'host'), host).toEqual([new URL(fixture.url).host]);
    }
  });

  test('Expect is for us', async () => {
    const wire = await connect();
    wire.send(fixture.head('POST /proxy', 'Expect: 100-continue', 'Content-Length: 5'));
    expect((await wire.head()).start).toBe('HTTP/1.1 100 Continue');
    wire.send('hello');
    expect(statusOf(await wire.message())).toBe(200);
    expect(namesOf(fixture.last())).not.toContain('expect');
    expect(fixture.last().body.toString()).toBe('hello');
    const other = await nothingReaches(fixture, () => fixture.ask(fixture.head('POST /proxy', 'Expect: 200-maybe')));
    expect(statusOf(other)).toBe(417);
  });

  test('too much of them is refused, and as much as fits goes on', async () => {
    const value = 'a'.repeat(15_000);
    expect(valuesOf(await arriving(fixture.head('GET /proxy', `X-Long: ${value}`)), 'x-long')).toEqual([value]);
    const refused = await nothingReaches(fixture, () =>
      fixture.ask(fixture.head('GET /proxy', `X-Long: ${value}${value}`)),
    );
    expect(statusOf(refused)).toBe(431);
  });

  test('content types that are not well formed go on as they came, and so do their bodies', async () => {
    const body = '{"a": 1.0 }';
    const types = [
      'application/json;;charset',
      'json',
      'a b/c',
      'text/',
      'application/json; charset="utf-8" x',
      ';',
      '',
    ];
    for (const type of types) {
      const head = fixture.head('POST /proxy', `Content-Type: ${type}`, `Content-Length: ${body.length}`);
      const message = await arriving(head + body);
      expect(valuesOf(message, 'content-type'), type).toEqual([type]);
      expect(message.body.toString(), type).toBe(body);
    }
    const twice = (...types: string[]) =>
      fixture.head('POST /proxy', ...types.map((type) => `Content-Type: ${type}`), `Content-Length: ${body.length}`) +
      body;
    const message = await arriving(twice('Application/JSON', 'application/json'));
    expect(valuesOf(message, 'content-type')).toEqual(['Application/JSON', 'application/json']);
    for (const types of [['text/plain', 'application/json'], ['application/json; charset="x']])
      expect([400, 415]).toContain(statusOf(await fixture.ask(twice(...types))));
  });
});

describe('paths on their way to the destination', () => {
  const to = (target: string, url = fixture.url) => fixture.head(`GET ${target}`, `SVC-PROXY-URL: ${url}`);

  test('are appended to the path of the destination, and never lead above it', async () => {
    const base = `${fixture.url}/base/path/?own=1`;
    const appended: Record<string, string> = {
      '/proxy': '/base/path/?own=1',
      '/proxy/': '/base/path/?own=1',
      '/proxy?': '/base/path/?own=1',
      '/proxy/x': '/base/path/x?own=1',
      '/proxy/x/': '/base/path/x/?own=1',
      '/proxy//evil.test': '/base/path//evil.test?own=1',
      '/proxy///': '/base/path///?own=1',
      '/proxy/http://evil.test/': '/base/path/http://evil.test/?own=1',
      '/proxy/@evil.test/:1': '/base/path/@evil.test/:1?own=1',
      '/proxy/a;b=c,d/%41%7e%2F': '/base/path/a;b=c,d/%41%7e%2F?own=1',
      '/proxy/...': '/base/path/...?own=1',
      '/proxy/.well-known/a..b/..c/100%25/a%2520b/%2525/...%20/x..%20':
        '/base/path/.well-known/a..b/..c/100%25/a%2520b/%2525/...%20/x..%20?own=1',
      '/proxy/x?a=1&a=2&&b': '/base/path/x?own=1&a=1&a=2&&b',
      "/proxy/x?a=/../&b=?'": "/base/path/x?own=1&a=/../&b=?'",
    };
    for (const [target, arrived] of Object.entries(appended))
      expect(targetOf(await arriving(to(target, base))), target).toBe(arrived);
  });

  test('with dots in any spelling are refused, and nothing is sent', async () => {
    const targets = [
      '..',
      '../x',
      'a/../../x',
      '.',
      '%2e%2e/',
      '%2E./x',
      '.%2e',
      'a/%2e',
      '..%2fx',
      'x%2f..',
      '..%5cx',
      '..;/x',
      '..%00',
      '..%00/x',
      'a/..%20',
      '..%20/x',
      '..%23',
      '..%3f',
      '..%3Fx=1',
      '..%09',
      '.%0a./x',
      '..%7f/',
      '%252e%252e',
      '%252E%252e/x',
      '.%25252e%2525252fx',
      'x%252f..',
      '..%255cx',
      '..%253b/x',
      '.%20',
    ];
    for (const target of targets) {
      const answer = await nothingReaches(fixture, () => fixture.ask(to(`/proxy/${target}`)));
      expect(proxyErrorIn(answer), target).toMatchObject({ status: 400, errors: { path: [expect.any(String)] } });
    }
  });

  test('with a fragment, or that are no path, are refused', async () => {
    for (const target of ['/proxy#x', '/proxy/a#b?c', '/proxy/\x00', '/proxy/a\tb', 'proxy']) {
      const answer = await nothingReaches(fixture, () => fixture.ask(to(target)));
      expect([400, 404], target).toContain(statusOf(answer));
    }
  });

  test('with percent signs that encode nothing pass in the query, and are refused in the path', async () => {
    expect(targetOf(await arriving(to('/proxy/a?b=%zz&c=%')))).toBe('/a?b=%zz&c=%');
    for (const target of ['/a%zz', '/100%', '/%E9', '/%c3%28']) {
      const answer = await nothingReaches(fixture, () => fixture.ask(to(`/proxy${target}`)));
      expect(proxyErrorIn(answer), target).toMatchObject({
        status: 400,
        errors: { path: ['must be percent-encoded UTF-8'] },
      });
    }
  });

  test('of 15 KB arrive whole', async () => {
    const path = `/${'a/'.repeat(7_500)}`;
    expect(targetOf(await arriving(to(`/proxy${path}`)))).toBe(path);
  });

  test('beyond ASCII are no requests', async () => {
    for (const target of ['/proxy/\xc3\xa9', '/proxy?q=\xe9', '/proxy/\xef\xbc\x8e\xef\xbc\x8e/']) {
      const answer = await nothingReaches(fixture, () => fixture.ask(to(target)));
      expect(statusOf(answer), target).toBe(400);
    }
  });

  test('beside the prefix are not the proxy', async () => {
    for (const target of [
      '/proxyx',
      '/proxy.',
      '/PROXY',
      '/%70roxy',
      '//proxy',
      '/proxy%2fx',
      '/./proxy',
      '/x/../proxy',
    ]) {
      const answer = await nothingReaches(fixture, () => fixture.ask(to(target)));
      expect([400, 404], target).toContain(statusOf(answer));
    }
  });

  test('the key of a proxy is taken out of the query, in any spelling, and nothing else is', async () => {
    const { key } = await makeProxy(fixture, { destination_url: `${fixture.url}/base` });
    const ask = (query: string) => fixture.head(`GET /proxy/x?${query}`, 'SVC-PROXY-URL: https://nowhere.test');
    const asked: Record<string, string> = {
      [`svc-proxy-key=${key}&a=1`]: '?a=1',
      [`a=1&SVC-Proxy-Key=${key}`]: '?a=1',
      [`a=%20+&%73vc-proxy-key=${key}&b=%zz`]: '?a=%20+&b=%zz',
      [`svc-proxy-key=${key}&svc-proxy-key=${key}`]: '',
      [`svc-proxy-key=${key}&svc-proxy-keys=1`]: '?svc-proxy-keys=1',
    };
    for (const [query, arrived] of Object.entries(asked))
      expect(targetOf(await arriving(ask(query))), query).toBe(`/base/x${arrived}`);
  });

  test('the keys of two proxies, in headers, in the query or in both, are 400', async () => {
    const [one, two] = [(await makeProxy(fixture)).key, (await makeProxy(fixture)).key];
    const heads = [
      fixture.head(`GET /proxy?svc-proxy-key=${one}`, `SVC-PROXY-KEY: ${two}`),
      fixture.head(`GET /proxy?svc-proxy-key=${one}&svc-proxy-key=${two}`),
      fixture.head('GET /proxy', `SVC-PROXY-KEY: ${one}`, `svc-proxy-key: ${two}`),
      fixture.head('GET /proxy', `SVC-PROXY-KEY: ${one}, ${two}`),
      fixture.head(`GET /proxy?svc-proxy-key=`, `SVC-PROXY-KEY: ${one}`),
    ];
    for (const head of heads) {
      const answer = await nothingReaches(fixture, () => fixture.ask(head));
      expect([400, 404], head).toContain(proxyErrorIn(answer).status);
    }
    await arriving(fixture.head(`GET /proxy?svc-proxy-key=${one}`, `SVC-PROXY-KEY: ${one}`));
  });

  test('a key within the destination that a request names would go on to it, and is refused', async () => {
    for (const name of ['svc-proxy-key', 'SVC-Proxy-Key', 'svc%2dproxy%2Dkey']) {
      const answer = await nothingReaches(fixture, () =>
        fixture.ask(fixture.head('GET /proxy/x', `SVC-PROXY-URL: ${fixture.url}/?a=1&${name}=secret`)),
      );
      expect(proxyErrorIn(answer), name).toMatchObject({
        status: 400,
        errors: { 'SVC-PROXY-URL': ['must not have the parameter svc-proxy-key'] },
      });
    }
  });

  test('two destinations in one request, and none, are 400', async () => {
    const answer = await nothingReaches(fixture, () =>
      fixture.ask(fixture.head('GET /proxy', `SVC-PROXY-URL: ${fixture.url}`, `svc-proxy-url: ${fixture.url}`)),
    );
    const errors = { 'headers.svc-proxy-url': ['must be there once'] };
    expect(proxyErrorIn(answer)).toMatchObject({ status: 400, errors });
  });
});

describe('framing on its way in', () => {
  test.each([
    ['gzip, chunked', 501],
    ['identity, chunked', 501],
    ['x-own, chunked', 501],
    ['deflate\r\nTransfer-Encoding: chunked', 400],
  ])('in another coding than chunks is refused, since it would be lost: %j', async (coding, status) => {
    const head = fixture.head('POST /proxy', `Transfer-Encoding: ${coding}`, 'Connection: close');
    const answer = await nothingReaches(fixture, () => fixture.ask(head + chunked('hello')));
    expect(proxyErrorIn(answer)).toMatchObject({ status });
  });

  test('in chunks goes on, however the coding is spelled', async () => {
    const message = await arriving(fixture.head('POST /proxy', 'Transfer-Encoding:  Chunked ') + chunked('hello'));
    expect(message.body.toString()).toBe('hello');
  });

  const start = () => fixture.head('POST /proxy').slice(0, -2);

  const refused: [name: string, rest: string][] = [
    ['a length and chunks', 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['chunks and a length', 'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n'],
    ['two lengths', 'Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!'],
    ['two lengths in one', 'Content-Length: 5, 5\r\n\r\nhello'],
    ['a signed length', 'Content-Length: +2\r\n\r\nok'],
    ['a negative length', 'Content-Length: -2\r\n\r\nok'],
    ['a length of letters', 'Content-Length: 0x2\r\n\r\nok'],
    ['a coding that is none', 'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n'],
    ['a coding behind chunks', 'Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n'],
    ['chunks twice', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n'],
    ['a line that ends in LF alone', 'X-A: 1\nX-B: 2\r\n\r\n'],
    ['a line with CR in it', 'X-A: 1\rX-B: 2\r\n\r\n'],
    ['a space before the colon', 'X-A : 1\r\n\r\n'],
    ['a space before the colon of the length', 'Content-Length : 2\r\n\r\nok'],
    ['a line folded onto the next', 'X-A: 1\r\n 2\r\n\r\n'],
    ['a folded coding', 'Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n'],
    ['NUL in a value', 'X-A: 1\x002\r\n\r\n'],
    ['NUL in a name', 'X-\x00A: 1\r\n\r\n'],
    ['a header without a colon', 'X-A\r\n\r\n'],
    ['a header without a name', ': 1\r\n\r\n'],
    ['two hosts', 'Host: evil.test\r\n\r\n'],
    ['a chunk whose length is none', 'Transfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n0\r\n\r\n'],
    ['a chunk that is longer than it says', 'Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n'],
    ['chunks whose lines end in LF alone', 'Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n'],
  ];
  for (const [name, rest] of refused)
    test(`${name} is 400 and the end of the connection, and nothing is sent`, async () => {
      const before = fixture.destination.received.length;
      const wire = await connect();
      wire.send(start() + rest);
      const answer = await wire.message();
      expect(statusOf(answer)).toBe(400);
      await wire.closed;
      await delay(20);
      expect(fixture.destination.received).toHaveLength(before);
    });

  test('a request without a host, and one of a version that is none, is 400', async () => {
    const keys = `SVC-API-KEY: ${fixture.server.tenant.api_key}\r\nSVC-PROXY-URL: ${fixture.url}\r\n\r\n`;
    for (const first of [
      'GET /proxy HTTP/1.1',
      'GET /proxy HTTP/9.9',
      'GET /proxy HTTP/1.1 x',
      'GET  /proxy HTTP/1.1',
    ]) {
      const answer = await nothingReaches(fixture, () => fixture.ask(`${first}\r\n${keys}`));
      expect(statusOf(answer), first).toBe(400);
    }
  });

  test('a target with a host in it is 400', async () => {
    for (const target of ['http://evil.test/proxy', 'http://vault.test/proxy/x', 'https://evil.test/proxy?a=1']) {
      const answer = await nothingReaches(fixture, () => fixture.ask(fixture.head(`GET ${target}`)));
      expect(statusOf(answer), target).toBe(400);
    }
  });

  test('extensions of chunks go no further, and are bounded', async () => {
    const head = fixture.head('POST /proxy', 'Transfer-Encoding: chunked');
    const message = await arriving(`${head}2;a=b;c="d"\r\nok\r\n3;x\r\nyes\r\n0;z=1\r\n\r\n`);
    expect(message.body.toString()).toBe('okyes');
    const before = fixture.destination.received.length;
    const wire = await connect();
    wire.send(`${head}2;${'a'.repeat(100_000)}\r\nok\r\n0\r\n\r\n`);
    expect([400, 413]).toContain(statusOf(await wire.message()));
    expect(fixture.destination.received).toHaveLength(before);
  });

  test('trailers go no further', async () => {
    const head = fixture.head('POST /proxy', 'Transfer-Encoding: chunked', 'Trailer: x-after');
    const message = await arriving(`${head}2\r\nok\r\n0\r\nX-After: the-secret\r\nHost: evil.test\r\n\r\n`);
    expect(message.body.toString()).toBe('ok');
    expect(message.headers.flat().join()).not.toContain('the-secret');
    expect(valuesOf(message, 'host')).toEqual([new URL(fixture.url).host]);
  });

  test('a body with a length, and one in chunks, arrives whole and framed once', async () => {
    for (const type of ['application/json', 'application/octet-stream', 'text/plain', 'application/cbor']) {
      const body = '{"a":[1,2]}';
      const lines = [`Content-Type: ${type}`];
      const heads = [
        fixture.head('POST /proxy', ...lines, `Content-Length: ${body.length}`) + body,
        fixture.head('POST /proxy', ...lines, 'Transfer-Encoding: chunked') + chunked('{"a":', '[1,', '2]}'),
        fixture.head('POST /proxy', ...lines, 'Transfer-Encoding: Chunked') + chunked(body),
      ];
      for (const head of heads) {
        const message = await arriving(head);
        expect([message.body.toString(), message.isWhole]).toEqual([body, true]);
        const framing = [...valuesOf(message, 'content-length'), ...valuesOf(message, 'transfer-encoding')];
        expect(framing, head).toHaveLength(1);
      }
    }
  });

  test('no body, an empty one and empty chunks are no body', async () => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
      const bodies = [
        fixture.head(`${method} /proxy`),
        fixture.head(`${method} /proxy`, 'Content-Length: 0'),
        fixture.head(`${method} /proxy`, 'Transfer-Encoding: chunked') + chunked(),
      ];
      for (const bytes of bodies) {
        const message = await arriving(bytes);
        expect([message.start, message.body.byteLength]).toEqual([`${method} / HTTP/1.1`, 0]);
        expect(valuesOf(message, 'content-length').filter((length) => length !== '0')).toEqual([]);
      }
    }
  });

  test('a body of each of the five methods arrives, of GET and DELETE as well', async () => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'])
      for (const type of ['text/plain', 'application/octet-stream']) {
        const line = `Content-Type: ${type}`;
        const whole = await arriving(`${fixture.head(`${method} /proxy`, line, 'Content-Length: 5')}hello`);
        expect([whole.start, whole.body.toString()]).toEqual([`${method} / HTTP/1.1`, 'hello']);
        const inChunks = fixture.head(`${method} /proxy`, line, 'Transfer-Encoding: chunked') + chunked('he', 'llo');
        expect((await arriving(inChunks)).body.toString()).toBe('hello');
      }
  });

  test('other methods are 405 in the frame of the proxy, or no method at all', async () => {
    for (const method of ['HEAD', 'OPTIONS', 'TRACE', 'PROPFIND', 'PURGE', 'M-SEARCH', 'LINK', 'QUERY'])
      for (const target of ['/proxy', '/proxy/x']) {
        const wire = await connect();
        // The framework wants to know what a query is made of.
        wire.send(fixture.head(`${method} ${target}`, ...(method === 'QUERY' ? ['Content-Type: text/plain'] : [])));
        const head = await nothingReaches(fixture, () => wire.head());
        expect(statusOf(head), `${method} ${target}`).toBe(405);
        expect(valuesOf(head, 'allow')).toEqual(['GET, POST, PUT, PATCH, DELETE']);
        if (method !== 'HEAD') expect(proxyErrorIn({ ...head, ...(await wire.body(head)) }).status).toBe(405);
      }
    for (const method of ['BREW', 'get', 'GET\t', 'G@T'])
      expect(statusOf(await nothingReaches(fixture, () => fixture.ask(fixture.head(`${method} /proxy`)))), method).toBe(
        400,
      );
  });

  test('CONNECT is the end of the connection', async () => {
    await nothingReaches(fixture, async () => {
      const wire = await connect();
      wire.send(`CONNECT upstream.test:${fixture.destination.port} HTTP/1.1\r\nHost: vault.test\r\n\r\n`);
      await Promise.race([wire.closed, wire.head().catch(() => undefined)]);
      wire.send(OK);
      await wire.closed;
    });
  });

  test('requests that follow each other without waiting are answered in their order', async () => {
    fixture.destination.script = async (wire, head) => {
      const { body } = await wire.body(head);
      if (targetOf(head) === '/slow') await delay(200);
      const text = targetOf(head) + body.toString();
      wire.send(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    };
    const wire = await connect();
    wire.send(
      `${fixture.head('POST /proxy/slow', 'Content-Length: 2')}ab${fixture.head('GET /proxy/two')}${fixture.head('POST /proxy/three', 'Content-Length: 1')}c`,
    );
    const bodies: string[] = [];
    for (let count = 0; count < 3; count += 1) bodies.push((await wire.message()).body.toString());
    expect(bodies).toEqual(['/slowab', '/two', '/threec']);
  });

  test('a caller of HTTP/1.0 gets an answer without chunks', async () => {
    fixture.destination.script = receiving(
      fixture.destination,
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunked('ok', 'yes')}`,
    );
    const wire = await connect();
    wire.send(fixture.head('GET /proxy').replace('HTTP/1.1', 'HTTP/1.0'));
    const answer = await wire.message();
    expect(valuesOf(answer, 'transfer-encoding')).toEqual([]);
    expect(answer.body.toString()).toBe('okyes');
    await wire.closed;
  });
});

describe('answers on their way to the caller', () => {
  const bodyless = (line: string, ...headers: string[]): string =>
    [`HTTP/1.1 ${line}`, ...headers, '', ''].join('\r\n');

  test('keep status, reason phrase, headers and body, to the byte', async () => {
    const lines = [
      'X-b: 2',
      'Set-Cookie: a=1; Path=/',
      'x-A: \xe9',
      'set-cookie: b=2',
      'X-B: 2, again',
      'Date: Thu, 01 Jan 1970 00:00:00 GMT',
      'Server: own/1.0',
      'X-Empty:',
      'Content-Type: application/json;;',
      'Content-Encoding: gzip',
    ];
    const body = Buffer.from([0x7b, 0, 255, 10, 13]);
    const head = ['HTTP/1.1 418 I am, a TEAPOT', ...lines, 'Content-Length: 5', '', ''].join('\r\n');
    const answer = await answered(Buffer.concat([Buffer.from(head, 'latin1'), body]));
    expect(answer.start).toBe('HTTP/1.1 418 I am, a TEAPOT');
    expect(answer.body).toEqual(body);
    const theirs = answer.headers.filter(
      ([name]) => name === 'Date' || !['content-length', ...ofAnswers].includes(name.toLowerCase()),
    );
    expect(theirs.map(([name, value]) => `${name}:${value}`)).toEqual(lines.map((line) => line.replace(/:\s*/, ':')));
    expect(valuesOf(answer, 'content-length')).toEqual(['5']);
    expect(valuesOf(answer, 'svc-proxy-destination-status')).toEqual(['418']);
  });

  test('nothing is added but what says where they come from, and keeps them from caches and pages', async () => {
    const answer = await answered(
      bodyless('200 OK', 'Content-Length: 0'),
      fixture.head('GET /proxy', 'SVC-TRACE-ID: my-trace'),
    );
    expect(namesOf(answer).toSorted()).toEqual(['content-length', ...ofAnswers].toSorted());
    expect(valuesOf(answer, 'svc-trace-id')).toEqual(['my-trace']);
  });

  test('statuses of every kind pass, with and without a reason phrase', async () => {
    const lines = [
      '200 ',
      '200',
      '201 Created',
      '299 Miscellaneous',
      '302 Found',
      '404 Not Found',
      '500 Internal Server Error',
      '503 ',
      '599 Custom',
      '600 Beyond',
      '999 Request denied',
    ];
    for (const line of lines) {
      const answer = await answered(bodyless(line, 'Content-Length: 2', 'Location: https://evil.test/') + 'ok');
      expect(statusOf(answer), line).toBe(Number(line.slice(0, 3)));
      if (line.length > 4) expect(answer.start).toBe(`HTTP/1.1 ${line}`);
      expect(answer.body.toString(), line).toBe('ok');
      expect(valuesOf(answer, 'svc-proxy-destination-status')).toEqual([line.slice(0, 3)]);
    }
  });

  test('a reason phrase beyond ASCII does not stop a response', async () => {
    for (const words of ['Caf\xe9', 'Caf\xc3\xa9', 'a\tb', '\xff\xfe']) {
      const wire = await connect();
      fixture.destination.script = receiving(fixture.destination, bodyless(`200 ${words}`, 'Content-Length: 0'));
      wire.send(fixture.head('GET /proxy'));
      const answer = await Promise.race([wire.message(), delay(2_000)]);
      expect(answer && [200, 502].includes(statusOf(answer)), JSON.stringify(words)).toBe(true);
    }
  });

  test('without a body they have none: 204 and 304', async () => {
    const heads = [
      bodyless('204 No Content', 'ETag: "a"'),
      bodyless('304 Not Modified', 'ETag: "a"'),
      bodyless('304 Not Modified', 'ETag: "a"', 'Content-Length: 1234'),
    ];
    for (const head of heads) {
      const wire = await connect();
      fixture.destination.script = receiving(fixture.destination, head);
      wire.send(fixture.head('GET /proxy'));
      const answer = await wire.message();
      expect(`HTTP/1.1 ${statusOf(answer)}`).toBe(head.slice(0, 12));
      // RFC 9110 section 8.6: a length here would be that of another answer.
      expect(
        valuesOf(answer, 'content-length').filter((length) => length !== '1234'),
        head,
      ).toEqual([]);
      expect(valuesOf(answer, 'etag')).toEqual(['"a"']);
      fixture.destination.script = receiving(fixture.destination, OK);
      wire.send(fixture.head('GET /proxy'));
      expect((await wire.message()).body.toString()).toBe('ok');
    }
  });

  test('headers of the connection stay, and those that it names, and what looks like ours', async () => {
    const answer = await answered(
      bodyless(
        '200 OK',
        'Connection: x-secret, close',
        'X-Secret: the-secret',
        'Keep-Alive: timeout=77',
        'Proxy-Authenticate: Basic the-secret',
        'Trailer: x-after',
        'TE: trailers',
        'Upgrade: h2c',
        'SVC-TRACE-ID: the-secret',
        'svc-proxy-destination-status: 418',
        'SVC-IDEMPOTENT-REPLAYED: true',
        'X-Stays: 1',
        'Content-Length: 2',
      ) + 'ok',
    );
    expect(namesOf(answer).toSorted()).toEqual([...ofAnswers, 'content-length', 'x-stays'].toSorted());
    expect(answer.headers.flat().join()).not.toContain('the-secret');
    expect(valuesOf(answer, 'svc-proxy-destination-status')).toEqual(['200']);
    expect(valuesOf(answer, 'connection')).toEqual(['keep-alive']);
  });

  test('redirects are for the caller to follow', async () => {
    for (const status of [301, 302, 303, 307, 308]) {
      const before = fixture.destination.received.length;
      const answer = await answered(
        bodyless(`${status} Moved`, 'Location: https://127.0.0.1/', 'Content-Length: 0'),
        fixture.head('GET /proxy', 'Authorization: Bearer abc'),
      );
      expect([statusOf(answer), ...valuesOf(answer, 'location')]).toEqual([status, 'https://127.0.0.1/']);
      expect(fixture.destination.received).toHaveLength(before + 1);
    }
  });

  test('what comes before an answer is not for the caller', async () => {
    const early = bodyless('103 Early Hints', 'Link: </style.css>; rel=preload', 'X-Early: 1');
    const answer = await answered(`${early}${bodyless('102 Processing')}${early}${OK}`);
    expect(statusOf(answer)).toBe(200);
    expect(namesOf(answer)).not.toContain('x-early');
    expect(answer.body.toString()).toBe('ok');
  });

  test('an unrequested 100 Continue is not taken for the response', async () => {
    const answer = await answered(`${bodyless('100 Continue')}${OK}`);
    expect([statusOf(answer), answer.body.toString()]).toEqual([200, 'ok']);
  });

  test('in chunks, with extensions and trailers, they arrive whole', async () => {
    const answer = await answered(
      `${bodyless('200 OK', 'Transfer-Encoding: chunked', 'Trailer: x-after')}2;a=b\r\nok\r\n3\r\nyes\r\n0\r\nX-After: the-secret\r\n\r\n`,
    );
    expect([answer.body.toString(), answer.isWhole]).toEqual(['okyes', true]);
    expect(answer.headers.flat().join()).not.toContain('the-secret');
  });

  test('up to the end of the connection they arrive whole', async () => {
    fixture.destination.script = async (wire, head) => {
      await wire.body(head);
      wire.send(bodyless('200 OK', 'Content-Type: text/plain'));
      wire.send('the end');
      wire.socket.end();
    };
    const answer = await fixture.ask(fixture.head('GET /proxy'));
    expect([answer.body.toString(), answer.isWhole]).toEqual(['the end', true]);
  });

  const untrue: [name: string, answer: string][] = [
    ['a length and chunks', bodyless('200 OK', 'Content-Length: 5', 'Transfer-Encoding: chunked') + chunked('hello')],
    ['two lengths', bodyless('200 OK', 'Content-Length: 5', 'Content-Length: 6') + 'hello!'],
    ['a signed length', bodyless('200 OK', 'Content-Length: +5') + 'hello'],
    ['a negative length', bodyless('200 OK', 'Content-Length: -5') + 'hello'],
    ['a length of letters', bodyless('200 OK', 'Content-Length: 0x5') + 'hello'],
    ['NUL in a header', bodyless('200 OK', 'X-A: 1\x002', 'Content-Length: 0')],
    ['a control character in a header', bodyless('200 OK', 'X-A: 1\x1b2', 'Content-Length: 0')],
    ['a header without a colon', bodyless('200 OK', 'X-A', 'Content-Length: 0')],
    ['a header name that is none', bodyless('200 OK', 'X A: 1', 'Content-Length: 0')],
    ['no status', 'HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n'],
    ['a status of two digits', bodyless('20 OK', 'Content-Length: 0')],
    ['no HTTP', '220 mail.test ESMTP\r\n'],
    ['headers of 100 KB', bodyless('200 OK', `X-A: ${'a'.repeat(100_000)}`, 'Content-Length: 0')],
  ];
  for (const [name, bytes] of untrue)
    test(`with ${name} they are no answers, and 502`, async () => {
      const answer = await answered(bytes);
      expect(proxyErrorIn(answer).status, answer.start).toBe(502);
      expect(valuesOf(answer, 'svc-proxy-destination-status')).toEqual([]);
    });

  test('one that is longer than it says is not the answer to the next request', async () => {
    const smuggled = bodyless('200 OK', 'X-Smuggled: 1', 'Content-Length: 4') + 'evil';
    for (const isLate of [false, true]) {
      fixture.destination.script = async (wire, head) => {
        await wire.body(head);
        wire.send(isLate ? OK : OK + smuggled);
        await delay(20);
        if (isLate) wire.send(smuggled);
      };
      for (let count = 0; count < 4; count += 1) {
        const answer = await fixture.ask(fixture.head(`GET /proxy/${count}`));
        expect(answer.body.toString()).toBe('ok');
        expect(namesOf(answer)).not.toContain('x-smuggled');
        await delay(50);
      }
    }
  });
});

describe('answers in pieces', () => {
  const STREAM = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n';

  test('events arrive one by one, each before the next is sent', async () => {
    const seen: (() => void)[] = [];
    const sight = () => new Promise<void>((resolve) => seen.push(resolve));
    fixture.destination.script = async (wire, head) => {
      await wire.body(head);
      wire.send(STREAM);
      await sight();
      for (const event of ['data: one\n\n', 'data: two\n\n', 'data: three\n\n']) {
        wire.send(`${event.length.toString(16)}\r\n${event}\r\n`);
        await sight();
      }
      wire.send('0\r\n\r\n');
    };
    const wire = await connect();
    wire.send(fixture.head('GET /proxy', 'Accept: text/event-stream'));
    expect(statusOf(await wire.head())).toBe(200);
    for (const event of ['data: one\n\n', 'data: two\n\n', 'data: three\n\n']) {
      await until(() => seen.length > 0, event);
      seen.shift()?.();
      await wire.upTo(event);
    }
    await until(() => seen.length > 0, 'the end');
    seen.shift()?.();
    await wire.upTo('0\r\n\r\n');
  });

  test('those with a length arrive as they come, too', async () => {
    let isSeen = (): void => {};
    const seen = new Promise<void>((resolve) => (isSeen = resolve));
    fixture.destination.script = async (wire, head) => {
      await wire.body(head);
      wire.send('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst');
      await seen;
      wire.send('after');
    };
    const wire = await connect();
    wire.send(fixture.head('GET /proxy'));
    await wire.head();
    await wire.upTo('first');
    isSeen();
    await wire.upTo('after');
  });

  const breaks: [name: string, bytes: string, isReset: boolean][] = [
    ['in chunks, by closing', `${STREAM}5\r\nhello\r\n`, false],
    ['in chunks, by a reset', `${STREAM}5\r\nhello\r\n`, true],
    ['within a chunk', `${STREAM}5\r\nhello\r\nff\r\nhalf`, false],
    ['with a length, by closing', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello', false],
    ['with a length, by a reset', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello', true],
    ['with what is no chunk', `${STREAM}5\r\nhello\r\nnonsense\r\n`, false],
    ['in chunks that are longer than they say', `${STREAM}5\r\nhello world\r\n0\r\n\r\n`, false],
  ];
  for (const [name, bytes, isReset] of breaks)
    test(`one that breaks off ${name} never looks complete`, async () => {
      fixture.destination.script = async (wire, head) => {
        await wire.body(head);
        wire.send(bytes);
        await delay(100);
        if (isReset) wire.socket.resetAndDestroy();
        else wire.socket.end();
      };
      const wire = await connect();
      wire.send(fixture.head('GET /proxy'));
      const head = await wire.head();
      if (valuesOf(head, 'svc-proxy-destination-status').length === 0) expect(statusOf(head)).toBe(502);
      else {
        expect((await wire.body(head)).isWhole).toBe(false);
        await wire.closed;
      }
    });

  test('one that breaks off before its head is whole is 502', async () => {
    for (const bytes of ['', 'HTTP/1.1 200', 'HTTP/1.1 200 OK\r\nContent-Le']) {
      fixture.destination.script = async (wire, head) => {
        await wire.body(head);
        wire.send(bytes);
        wire.socket.end();
      };
      expect(proxyErrorIn(await fixture.ask(fixture.head('GET /proxy'))).status).toBe(502);
    }
  });

  test('a request whose response breaks off is sent once, with any method', async () => {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE']) {
      // Over a connection that has served before as well.
      await fixture.ask(fixture.head('GET /proxy'));
      let asked = 0;
      fixture.destination.script = async (wire) => {
        asked += 1;
        wire.socket.destroy();
      };
      const answer = await fixture.ask(fixture.head(`${method} /proxy`, 'Content-Length: 0'));
      expect([proxyErrorIn(answer).status, asked], method).toEqual([502, 1]);
      fixture.destination.script = receiving(fixture.destination, OK);
    }
  });
});

test('a request is one line of our log, which holds nothing of it', async () => {
  const before = fixture.server.logLines.length;
  const id = await tokenOf(fixture.server, 'the-secret');
  const body = `the-secret {{${id}}}`;
  const head = fixture.head(
    'POST /proxy/the-secret?q=the-secret',
    'X-Value: the-secret',
    'Content-Type: text/plain',
    `Content-Length: ${body.length}`,
  );
  await answered('HTTP/1.1 418 the-secret\r\nX-Value: the-secret\r\nContent-Length: 10\r\n\r\nthe-secret', head + body);
  const lineOf = () => fixture.server.logLines.slice(before).filter((line) => line.includes('"/proxy/*"'));
  await until(() => lineOf().length > 0, 'the line');
  expect(lineOf().map((line) => JSON.parse(line))).toMatchObject([{ method: 'POST', route: '/proxy/*', status: 418 }]);
  expect(fixture.server.logLines.slice(before).join('')).not.toContain('the-secret');
});

describe('a caller who leaves', () => {
  /** The destination's end of what is asked for now, and whether it saw it end. */
  const holding = () => {
    const held: { head?: Head; wire?: Wire; hasEnded?: boolean } = {};
    fixture.destination.script = async (wire, head) => {
      held.wire = wire;
      void wire.closed.then(() => (held.hasEnded = true));
      held.head = head;
      await wire.closed;
    };
    return held;
  };

  const leaving = async (wire: Wire, held: { hasEnded?: boolean }): Promise<void> => {
    wire.socket.destroy();
    await until(() => held.hasEnded === true, 'the end of the request to the destination');
  };

  test('while it waits for the answer ends the request to the destination, and the use stands', async () => {
    const id = await tokenOf(fixture.server, 'x');
    const held = holding();
    const wire = await connect();
    const body = `{{${id}}}`;
    wire.send(fixture.head('POST /proxy', 'Content-Type: text/plain', `Content-Length: ${body.length}`) + body);
    await until(() => held.head !== undefined);
    await leaving(wire, held);
    expect(await usesOf(fixture.server, id)).toHaveLength(1);
  });

  for (const framing of ['Content-Length: 100000', 'Transfer-Encoding: chunked'])
    test(`in the middle of a body (${framing}) leaves the destination without its end`, async () => {
      const held = holding();
      const wire = await connect();
      const piece = framing.startsWith('C') ? 'a'.repeat(50_000) : `c350\r\n${'a'.repeat(50_000)}\r\n`;
      wire.send(fixture.head('POST /proxy', 'Content-Type: application/octet-stream', framing) + piece);
      await until(() => held.wire !== undefined && held.wire.bytesReceived() > 50_000);
      await leaving(wire, held);
      const { isWhole } = await (held.wire as Wire).body(held.head as Head);
      expect(isWhole).toBe(false);
    });

  test('in the middle of a body that must be whole first sends nothing', async () => {
    const before = fixture.destination.bytesReceived();
    const wire = await connect();
    wire.send(
      `${fixture.head('POST /proxy', 'Content-Type: text/plain', 'Content-Length: 100000')}${'a'.repeat(90_000)}`,
    );
    await delay(100);
    wire.socket.destroy();
    await delay(100);
    expect(fixture.destination.bytesReceived()).toBe(before);
  });

  test('in the middle of the answer ends the request to the destination', async () => {
    const held: { hasEnded?: boolean } = {};
    fixture.destination.script = async (wire, head) => {
      await wire.body(head);
      void wire.closed.then(() => (held.hasEnded = true));
      wire.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n');
      await wire.closed;
    };
    const wire = await connect();
    wire.send(fixture.head('GET /proxy'));
    await wire.upTo('hello');
    await leaving(wire, held);
  });

  test('while the destination is being looked up sends nothing', async () => {
    let asked = 0;
    const own = await startProxyFixture({}, { resolve: () => ((asked += 1), new Promise(() => {})) });
    try {
      const wire = await own.connect();
      wire.send(own.head('GET /proxy'));
      await until(() => asked === 1);
      wire.socket.destroy();
      await delay(100);
      expect(own.destination.connectionCount()).toBe(0);
    } finally {
      await own.close();
    }
  });

  test('takes nothing from others: what is asked for next is answered', async () => {
    for (let count = 0; count < 20; count += 1) {
      const wire = await connect();
      wire.send(fixture.head('POST /proxy', 'Content-Length: 10') + 'half');
      wire.socket.destroy();
    }
    await arriving(fixture.head('GET /proxy'));
  });
});

describe('an answer while the body is still coming', () => {
  const BODY_BYTES = 8 * 1024 * 1024;
  const octets = 'Content-Type: application/octet-stream';

  /** Sends the head and the whole body whatever is answered meanwhile, then another request: what comes of both. */
  const askWhileSending = async (
    head: string,
    bytes = BODY_BYTES,
  ): Promise<{ first: Message; second: Message | undefined }> => {
    const wire = await connect();
    wire.send(head);
    const isChunked = /transfer-encoding/i.test(head);
    const sending = pour(wire, Buffer.alloc(bytes, 'a'), { isChunked });
    const first = await wire.message();
    await soon(sending, 'the end of the body');
    wire.send(fixture.head('GET /proxy/second'));
    return {
      first,
      second: await soon(
        wire.message().catch(() => undefined),
        'the second answer',
      ),
    };
  };

  test.each(['application/octet-stream', 'text/plain'])(
    '413 of ours while %s is read reaches the caller, and the connection is clean behind it',
    async (type) => {
      fixture.destination.script = async (wire, head) => {
        await wire.body(head);
        wire.send(OK);
      };
      const head = fixture.head('POST /proxy', `Content-Type: ${type}`, 'Transfer-Encoding: chunked');
      const { first, second } = await askWhileSending(head, 33 * 1024 * 1024);
      expect(proxyErrorIn(first).status).toBe(413);
      expect(second?.body.toString()).toBe('ok');
    },
  );

  const framings = [`Content-Length: ${BODY_BYTES}`, 'Transfer-Encoding: chunked'];
  for (const framing of framings) {
    const refusals: [status: number, lines: string[]][] = [
      [401, ['SVC-API-KEY: nobody']],
      [400, ['SVC-PROXY-URL: https://127.0.0.1/']],
      [404, ['SVC-PROXY-KEY: unknown']],
    ];
    for (const [status, lines] of refusals)
      test(`${status} of ours reaches the caller, and the connection is clean behind it (${framing})`, async () => {
        const { first, second } = await askWhileSending(fixture.head('POST /proxy', octets, framing, ...lines));
        expect([statusOf(first), first.isWhole]).toEqual([status, true]);
        expect(proxyErrorIn(first).status).toBe(status);
        if (second) expect(second.body.toString()).toBe('ok');
      });

    test(`of the destination reaches the caller, and the connection is reusable (${framing})`, async () => {
      let asked = 0;
      fixture.destination.script = async (wire, head) => {
        asked += 1;
        if (asked === 1) {
          wire.send('HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno');
          await wire.body(head);
        } else wire.send(OK);
      };
      const { first, second } = await askWhileSending(fixture.head('POST /proxy', octets, framing));
      expect([statusOf(first), first.body.toString(), first.isWhole]).toEqual([401, 'no', true]);
      if (second) expect(second.body.toString()).toBe('ok');
    });

    test(`one of a destination that closes at once reaches the caller (${framing})`, async () => {
      let asked = 0;
      fixture.destination.script = async (wire) => {
        asked += 1;
        wire.send(asked === 1 ? 'HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno' : OK);
        if (asked === 1) wire.socket.end();
      };
      const { first } = await askWhileSending(fixture.head('POST /proxy', octets, framing));
      expect([statusOf(first), first.body.toString(), first.isWhole]).toEqual([413, 'no', true]);
    });
  }
});
