// Transforms of stored proxies over HTTP: their input, their results and errors, and the rights of their code.
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { delay, proxyErrorOf, until } from './support/proxy.ts';
import {
  codeOf,
  makeReactor,
  rawOf,
  react,
  type ReactorServer,
  runBody,
  startReactorServer,
  tokenOf,
  usesOf,
} from './support/reactors.ts';
import type { Answer, TestServer, TestTenant } from './support/server.ts';
import {
  askOnWire,
  askProxy,
  changeProxy,
  makeApplication,
  makeProxy,
  problemIn,
  remove,
  type StoredProxy,
  type WireOptions,
} from './support/stored-proxies.ts';
import type { Received } from './support/upstream.ts';
import { withoutDrawn } from './support/text.ts';

const WALL_MS = 4_000;
const MEGABYTE = 1024 * 1024;
/** What code may be given, and may return. */
const RUN_BYTES_MAX = 5 * MEGABYTE;

let fixture: ReactorServer;
let server: TestServer;
let otherTenant: TestTenant;

beforeAll(async () => {
  fixture = await startReactorServer({ SANDBOX_WALL_MS: String(WALL_MS), SANDBOX_CPU_MS: '1500', LOG_LEVEL: 'debug' });
  ({ server } = fixture);
  otherTenant = await server.newTenant();
});
afterAll(() => fixture.close());

type Sides = { request?: string | undefined; response?: string | undefined; [field: string]: unknown };

/** @param sides the bodies of the two functions, which see `args`, `configuration` and `svc`. */
const wantedOf = ({ request, response, ...given }: Sides) => {
  const { path: _, ...rest } = given;
  return {
    destination_url: fixture.url,
    ...(request !== undefined && { request_transform: { code: codeOf(request) } }),
    ...(response !== undefined && { response_transform: { code: codeOf(response) } }),
    ...rest,
  };
};

const make = (sides: Sides, key?: string): Promise<StoredProxy> => makeProxy(server, wantedOf(sides), key);

const PASS = 'return { body: args.body, headers: args.headers };';
/** Sends, or answers, what it was given. */
const TELL = `return { body: JSON.stringify(req), headers: { 'content-type': 'text/plain' } };`;

const typed = (type: string | undefined): Record<string, string> =>
  type === undefined ? {} : { 'content-type': type };

const last = (): Received => fixture.upstream.received.at(-1) as Received;

const reaching = async (work: () => Promise<unknown>): Promise<Received[]> => {
  const from = fixture.upstream.received.length;
  await work();
  return fixture.upstream.received.slice(from);
};

const onWire = (proxy: StoredProxy, { path = '/proxy', ...options }: WireOptions & { path?: string } = {}) =>
  askOnWire(server, 'POST', path, { ...options, headers: { 'svc-proxy-key': proxy.key, ...options.headers } });

let paths = 0;
/** A place of the destination that answers so. */
const answering = (
  body: string | Uint8Array,
  headers: Record<string, string | string[]> = {},
  status = 200,
): { destination_url: string; path: string } => {
  const path = `/answer-${(paths += 1)}`;
  fixture.routes.set(path, (_, response) => void response.writeHead(status, headers).end(body));
  return { destination_url: fixture.url + path, path };
};

/** In pieces, its length not announced. */
const streaming = (body: Uint8Array): { destination_url: string } => {
  const { destination_url, path } = answering('');
  fixture.routes.set(path, (_, response) => {
    response.write(body.subarray(0, 1));
    response.end(body.subarray(1));
  });
  return { destination_url };
};

/** What code is given of a request. */
const givenOfRequest = async (options: WireOptions & { path?: string } = {}, more: object = {}): Promise<any> => {
  const result = await onWire(await make({ request: TELL, ...more }), options);
  expect(result.status, result.body.toString()).toBe(200);
  return JSON.parse(last().body.toString());
};

/** What code is given of an answer. */
const givenOfAnswer = async (
  body: string | Uint8Array,
  headers: Record<string, string | string[]> = {},
  options: WireOptions & { path?: string } = {},
): Promise<any> => {
  const result = await onWire(await make({ response: TELL, ...answering(body, headers) }), options);
  expect(result.status, result.body.toString()).toBe(200);
  return JSON.parse(result.body.toString());
};

describe('code before the destination is given', () => {
  test('method, path, query, headers and body of the request, as it would go on', async () => {
    const { args, configuration, svc, ...rest } = await givenOfRequest({
      path: '/proxy/v1/a%20b?x=1&x=2&y=%20z&flag',
      headers: { 'X-Mixed-Case': 'Value', 'content-type': 'application/json', authorization: 'Bearer a' },
      body: '{"a":[1,{"b":null}]}',
    });
    expect(args).toMatchObject({
      method: 'POST',
      path: '/v1/a%20b',
      query: { x: ['1', '2'], y: ' z', flag: '' },
      headers: { 'x-mixed-case': 'Value', 'content-type': 'application/json', authorization: 'Bearer a' },
      body: { a: [1, { b: null }] },
    });
    const names = ['body', 'headers', 'method', 'path', 'query', 'raw_headers', 'url'];
    expect(Object.keys(args).sort()).toEqual(names);
    expect([configuration, svc, rest]).toEqual([{}, null, {}]);
  });

  test('no header of ours, of the connection or of the framing', async () => {
    const { args } = await givenOfRequest({
      headers: {
        'svc-trace-id': 'trace',
        'SVC-PROXY-URL': 'https://evil.test',
        'keep-alive': 'timeout=5',
        connection: 'x-hop',
        'x-hop': '1',
        te: 'trailers',
        'proxy-authorization': 'Basic x',
      },
      body: 'x',
    });
    const names = Object.keys(args.headers);
    expect(names.filter((name) => /^svc-|^proxy-|^(?:host|connection|x-hop|te|keep-alive)$|length/.test(name))).toEqual(
      [],
    );
    expect(JSON.stringify(args)).not.toContain(server.tenant.api_key);
  });

  test('headers that stand several times as one, as the standard joins them', async () => {
    const { args } = await givenOfRequest({ headers: { 'x-many': ['1', '2'], cookie: ['a=1', 'b=2'] } });
    expect(args.headers).toMatchObject({ 'x-many': '1, 2', cookie: 'a=1; b=2' });
  });

  test('values in the place of expressions, whose use is in the log by then', async () => {
    const id = await tokenOf(server, 'the value');
    const { args } = await givenOfRequest({
      path: `/proxy/${encodeURIComponent(`{{ ${id} }}`)}?q=${encodeURIComponent(`{{ ${id} }}`)}`,
      headers: { 'content-type': 'application/json', 'x-value': `{{ ${id} }}` },
      body: `{"a":"{{ ${id} }}"}`,
    });
    expect(args).toMatchObject({
      path: '/the%20value',
      query: { q: 'the value' },
      headers: { 'x-value': 'the value' },
      body: { a: 'the value' },
    });
    expect(await usesOf(server, id)).toHaveLength(1);
  });

  test('the configuration of its proxy', async () => {
    const values = { TEXT: 'secret', NUMBER: 1.5, FLAG: false };
    expect((await givenOfRequest({}, { configuration: values })).configuration).toEqual(values);
  });

  test('names that reach a prototype as names like others', async () => {
    const path = '/proxy?__proto__=1&constructor=2&toString=3&__proto__=4';
    const headers = { ['__proto__']: 'a', constructor: 'b', 'content-type': 'application/json' };
    const proxy = await make({
      request: `return { body: [Object.entries(args.query), Object.entries(args.headers).filter(([name]) => /proto|constr/.test(name)), ({}).polluted], headers: {} };`,
    });
    const sent = await onWire(proxy, { path, headers, body: '{"constructor":1,"toString":2}' });
    expect(sent.status, sent.body.toString()).toBe(200);
    const [query, named, polluted] = JSON.parse(last().body.toString());
    expect(Object.fromEntries(query)).toMatchObject({ constructor: '2', toString: '3' });
    expect(query.find(([name]: [string]) => name === '__proto__')).toEqual(['__proto__', ['1', '4']]);
    expect(named).toContainEqual(['constructor', 'b']);
    expect(polluted).toBeNull();
  });
});

describe('code behind the destination is given', () => {
  test('status, headers and body of the answer, beside method, path and query of the request', async () => {
    const answer = answering(
      '{"ok":true}',
      { 'Content-Type': 'application/json', 'X-Own': 'A', 'set-cookie': ['a=1', 'b=2'] },
      201,
    );
    const result = await onWire(await make({ response: TELL, ...answer }), { path: '/proxy?x=1' });
    expect([result.status, result.headers['svc-proxy-destination-status']]).toEqual([201, '201']);
    const { args, configuration, svc } = JSON.parse(result.body.toString());
    expect(args).toMatchObject({
      status: 201,
      method: 'POST',
      path: '',
      query: { x: '1' },
      headers: { 'content-type': 'application/json', 'x-own': 'A', 'set-cookie': ['a=1', 'b=2'] },
      body: { ok: true },
    });
    expect([configuration, svc]).toEqual([{}, null]);
  });

  test('no header of the connection, of the framing or in our name', async () => {
    const headers = {
      'svc-proxy-destination-status': '999',
      connection: 'x-hop',
      'x-hop': '1',
      'proxy-authenticate': 'x',
    };
    const { args } = await givenOfAnswer('x', headers);
    const names = Object.keys(args.headers);
    expect(
      names.filter((name) => /^svc-|^proxy-|^(?:connection|x-hop|keep-alive|transfer-encoding)$|length/.test(name)),
    ).toEqual([]);
  });
});

describe('a body is', () => {
  const JSON_TYPE = 'application/json';
  test.each<[string, string | undefined, string, unknown]>([
    ['an object', JSON_TYPE, '{"a":1}', { a: 1 }],
    ['a list', JSON_TYPE, '[1,"2"]', [1, '2']],
    ['a text in JSON', JSON_TYPE, '"x"', 'x'],
    ['a number', JSON_TYPE, '1.50', 1.5],
    ['null', JSON_TYPE, 'null', null],
    ['JSON by its suffix', 'application/vnd.x+json; charset=utf-8', '{"a":1}', { a: 1 }],
    ['JSON in capitals', 'APPLICATION/JSON', '{"a":1}', { a: 1 }],
    ['JSON in words alone', JSON_TYPE, '{"a":', '{"a":'],
    ['text', 'text/plain', '{"a":1}', '{"a":1}'],
    ['a form', 'application/x-www-form-urlencoded', 'a=1&b=%20', 'a=1&b=%20'],
    ['XML', 'application/xml', '<a>é</a>', '<a>é</a>'],
    ['of no type', undefined, 'é漢😀', 'é漢😀'],
    ['of no bytes', JSON_TYPE, '', null],
  ])('%s, before and behind', async (_, type, body, value) => {
    const headers = typed(type);
    expect((await givenOfRequest({ headers, body })).args.body).toEqual(value);
    expect((await givenOfAnswer(body, headers)).args.body).toEqual(value);
  });
});

describe('what code returns', () => {
  /** @returns what the destination received, and what the caller got. */
  const sentBy = async (body: string): Promise<Received> => {
    const result = await onWire(await make({ request: body }), { body: 'before', headers: { 'x-before': '1' } });
    expect(result.status, result.body.toString()).toBe(200);
    return last();
  };
  const answeredBy = async (body: string, status = 200) => {
    const answer = answering('before', { 'x-before': '1' }, status);
    const result = await onWire(await make({ response: body, ...answer }));
    expect([result.status, result.isWhole], result.body.toString()).toEqual([status, true]);
    return result;
  };
  const valuesIn = ({ headers }: Pick<Received, 'headers'>, wanted: string) =>
    headers.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value);

  test.each([
    ['an object', '{ a: [1] }', '{"a":[1]}', 'application/json'],
    ['a list', '[1, 2]', '[1,2]', 'application/json'],
    ['a number', '5', '5', 'application/json'],
    ['false', 'false', 'false', 'application/json'],
    ['a text', `'é漢'`, 'é漢', undefined],
    ['an empty text', `''`, '', undefined],
    ['null', 'null', '', undefined],
  ])('as its body, %s, is sent and answered', async (_, code, bytes, type) => {
    for (const returned of [
      `{ body: ${code}, headers: { 'x-after': '2' } }`,
      `{ raw: { body: ${code}, headers: { 'x-after': '2' } } }`,
    ]) {
      const sent = await sentBy(`return ${returned};`);
      expect(sent.body.toString()).toBe(bytes);
      expect([valuesIn(sent, 'x-before'), valuesIn(sent, 'x-after')]).toEqual([[], ['2']]);
      expect(valuesIn(sent, 'content-type')).toEqual(type === undefined ? [] : [type]);
      const result = await answeredBy(`return ${returned};`);
      expect(result.body.toString()).toBe(bytes);
      expect(result.headers).toMatchObject({ 'x-after': '2', 'svc-proxy-destination-status': '200' });
      expect([result.headers['x-before'], result.headers['content-type']]).toEqual([undefined, type]);
      expect(result.headers['content-length'] ?? '0').toBe(String(Buffer.byteLength(bytes)));
    }
  });

  test('as headers, texts, numbers and truths go on, lists as several, null not at all', async () => {
    const code = `return { body: 'x', headers: { 'X-Text': 'a', 'x-number': 5, 'x-truth': true, 'x-null': null, 'Set-Cookie': ['a=1', 'b=2'], 'content-type': 'text/x-own' } };`;
    const sent = await sentBy(code);
    const own = sent.headers.filter(([name]) => /^x-|^set-|^content-type/i.test(name));
    expect(own).toEqual([
      ['X-Text', 'a'],
      ['x-number', '5'],
      ['x-truth', 'true'],
      ['Set-Cookie', 'a=1'],
      ['Set-Cookie', 'b=2'],
      ['content-type', 'text/x-own'],
    ]);
    const { headers } = await answeredBy(code);
    expect(headers).toMatchObject({ 'x-text': 'a', 'x-number': '5', 'x-truth': 'true', 'set-cookie': ['a=1', 'b=2'] });
    expect(headers['x-null']).toBeUndefined();
  });

  const forged = `{
    host: 'evil.test', 'Content-Length': '1', 'transfer-encoding': 'chunked', Connection: 'x-named, close', 'x-named': '1',
    'keep-alive': 'timeout=9', te: 'trailers', trailer: 'x', Upgrade: 'websocket', Expect: '100-continue',
    'SVC-API-KEY': 'k', 'svc-proxy-key': 'k', 'svc-proxy-url': 'https://evil.test', 'SVC-Proxy-Destination-Status': '999',
    'svc-trace-id': 'forged', 'proxy-authorization': 'x', 'x-kept': '1' }`;

  test('of framing, of the connection and in our name goes neither on nor back', async () => {
    const code = `return { body: 'longer than one', headers: ${forged} };`;
    const sent = await sentBy(code);
    expect(sent.body.toString()).toBe('longer than one');
    expect(valuesIn(sent, 'host')).toEqual([new URL(fixture.url).host]);
    expect(valuesIn(sent, 'content-length')).toEqual(['15']);
    const names = sent.headers.map(([name]) => name.toLowerCase());
    expect(names.filter((name) => !['cdn-loop', 'connection', 'content-length', 'host'].includes(name))).toEqual([
      'x-kept',
    ]);
    expect(valuesIn(sent, 'connection')).toEqual(['keep-alive']);
    const result = await answeredBy(code);
    expect(result.body.toString()).toBe('longer than one');
    expect(result.headers).toMatchObject({
      'svc-proxy-destination-status': '200',
      'content-length': '15',
      'x-kept': '1',
    });
    expect(result.headers['svc-trace-id']).not.toContain('forged');
    for (const name of [
      'svc-api-key',
      'svc-proxy-url',
      'upgrade',
      'trailer',
      'transfer-encoding',
      'host',
      'expect',
      'x-named',
    ])
      expect(result.headers[name], name).toBeUndefined();
  });

  test('of another destination, method, path or status changes nothing of them', async () => {
    const elsewhere = `url: '${fixture.otherUrl}', destination_url: '${fixture.otherUrl}', host: 'evil.test', method: 'DELETE', path: '/evil', query: { evil: 1 }, status: 500`;
    const proxy = await make({
      request: `return { body: 'x', headers: { 'x-forwarded-host': 'evil.test', location: '${fixture.otherUrl}' }, ${elsewhere} };`,
      response: `return { body: args.body, headers: {}, ${elsewhere} };`,
      destination_url: `${fixture.url}/fixed`,
    });
    const result = await onWire(proxy, { path: '/proxy/a?b=c' });
    expect(result.status).toBe(200);
    expect(last()).toMatchObject({ method: 'POST', url: '/fixed/a?b=c', servername: 'upstream.test' });
    expect(valuesIn(last(), 'host')).toEqual([new URL(fixture.url).host]);
  });

  test.each([
    ['a line end in a value', `{ 'x-a': 'a\\r\\nx-b: c' }`],
    ['a bare line feed', `{ 'x-a': 'a\\nb' }`],
    ['a NUL', `{ 'x-a': 'a\\0b' }`],
    ['a letter of more than a byte', `{ 'x-a': '漢' }`],
    ['a name with a blank', `{ 'x a': 'b' }`],
    ['a name with a colon', `{ ':authority': 'evil.test' }`],
    ['a name with a line end', `{ 'x-a\\r\\nx-b': 'c' }`],
    ['no name', `{ '': 'b' }`],
    ['an object for a value', `{ 'x-a': { b: 1 } }`],
    ['lists in a list', `{ 'x-a': [['b']] }`],
    ['100 KB', `{ 'x-a': 'b'.repeat(100000) }`],
  ])('with %s among its headers is a 422 in the frame of the proxy', async (_, headers) => {
    const returned = `return { body: 'made by code', headers: ${headers} };`;
    const before = await make({ request: returned });
    const reached = await reaching(async () => {
      const result = await onWire(before, { body: 'x' });
      expect([result.status, problemIn(result).detail]).toEqual([422, 'Reactor Runtime Error']);
    });
    expect(reached).toEqual([]);
    const behind = await make({ response: returned, ...answering('canary-behind', { 'x-canary': 'canary-behind' }) });
    const result = await onWire(behind);
    expect([result.status, problemIn(result).detail]).toEqual([422, 'Reactor Runtime Error']);
    expect(JSON.stringify([result.headers, result.body.toString()])).not.toMatch(/canary|made by code/);
  });

  test.each([
    'undefined',
    'null',
    '5',
    `'text'`,
    '[]',
    '{}',
    `{ body: 'x' }`,
    `{ headers: {} }`,
    `{ body: undefined, headers: {} }`,
    `{ body: () => 1, headers: {} }`,
    `{ body: 'x', headers: null }`,
    `{ body: 'x', headers: 'x: 1' }`,
    `{ body: 'x', headers: [['x', '1']] }`,
    `{ raw: null }`,
    `{ raw: { body: 'x' } }`,
    `{ tokenize: 'x' }`,
  ])('and is no message is a 422: %s', async (returned) => {
    const reached = await reaching(async () => {
      const result = await onWire(await make({ request: `return ${returned};` }), { body: 'x' });
      expect(result.status).toBe(422);
      expect(problemIn(result).errors.error[0]).toContain('request transform');
    });
    expect(reached).toEqual([]);
    const result = await onWire(await make({ response: `return ${returned};`, ...answering('canary-behind') }));
    expect(result.status).toBe(422);
    expect(problemIn(result).errors.error[0]).toContain('response transform');
    expect(result.body.toString()).not.toContain('canary');
  });

  test.each([
    ['what JSON cannot hold', `{ body: 10n, headers: {} }`],
    ['a circle', `(() => { const body = {}; body.body = body; return { body, headers: {} }; })()`],
    ['what throws when it is looked at', `{ get body() { throw new Error('x'); }, headers: {} }`],
    ['6 MB', `{ body: 'x'.repeat(6 * 1024 * 1024), headers: {} }`],
    ['a header of 10 MB', `{ body: 'x', headers: { a: 'b'.repeat(10 * 1024 * 1024) } }`],
  ])('and is %s is an error of the code', async (_, returned) => {
    const reached = await reaching(async () => {
      const result = await onWire(await make({ request: `return ${returned};` }), { body: 'x' });
      expect([result.status, problemIn(result).detail]).toEqual([500, 'Reactor Runtime Error']);
    });
    expect(reached).toEqual([]);
    const result = await onWire(await make({ response: `return ${returned};`, ...answering('canary-behind') }));
    expect([result.status, problemIn(result).detail]).toEqual([500, 'Reactor Runtime Error']);
    expect(result.body.toString()).not.toContain('canary');
  });

  test('is no place for expressions, nor is what the destination answers: neither is opened', async () => {
    const id = await tokenOf(server, 'value');
    const expression = `{{ ${id} }}`;
    const returned = `return { body: { a: '${expression}' }, headers: { 'x-a': '${expression}' } };`;
    const sent = await sentBy(returned);
    expect([sent.body.toString(), valuesIn(sent, 'x-a')]).toEqual([`{"a":"${expression}"}`, [expression]]);
    const result = await answeredBy(returned);
    expect([result.body.toString(), result.headers['x-a']]).toEqual([`{"a":"${expression}"}`, expression]);
    const answer = answering(expression, { 'x-a': expression });
    const came = await onWire(await make({ response: PASS, ...answer }));
    expect([came.body.toString(), came.headers['x-a']]).toEqual([expression, expression]);
    expect(await usesOf(server, id)).toEqual([]);
  });

  test.each([201, 202, 300, 302, 400, 401, 404, 429, 500, 503])(
    'is answered with the status %d of the destination',
    async (status) => {
      const result = await answeredBy(`return { body: { was: args.status, said: args.body }, headers: {} };`, status);
      expect(JSON.parse(result.body.toString())).toEqual({ was: status, said: 'before' });
      expect(result.headers['svc-proxy-destination-status']).toBe(String(status));
    },
  );

  test.each([204, 304])(
    'has no body with the status %d, and the connection serves the next request',
    async (status) => {
      const { destination_url } = answering('', {}, status);
      const proxy = await make({
        response: `return { body: { was: args.body }, headers: { 'x-after': '1' } };`,
        destination_url,
      });
      const plain = await make({});
      for (let round = 0; round < 3; round += 1) {
        const result = await askProxy(server, proxy, { method: 'GET' });
        expect([result.status, result.text, result.headers.get('x-after')]).toEqual([status, '', '1']);
        expect((await askProxy(server, plain, { method: 'GET' })).status).toBe(200);
      }
    },
  );
});

describe('a body that code leaves as it was', () => {
  const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  test.each<[string, string | undefined, Uint8Array]>([
    ['of any bytes', 'application/octet-stream', everyByte],
    ['of any bytes and no type', undefined, everyByte],
    ['of an image', 'image/png', Buffer.concat([Buffer.from('\x89PNG\r\n', 'latin1'), everyByte])],
    ['of another alphabet', 'text/plain; charset=iso-8859-1', Buffer.from('caf\xe9', 'latin1')],
    ['of half a letter', 'text/plain', Buffer.from('é').subarray(0, 1)],
    ['of no JSON', 'application/json', Buffer.from('{"a":')],
  ])('%s is the same to the byte, before and behind, whatever becomes of its headers', async (_, type, bytes) => {
    const headers = typed(type);
    for (const code of [PASS, `return { body: args.body, headers: { ...args.headers, 'x-after': '1' } };`]) {
      const sent = await onWire(await make({ request: code }), { headers, body: bytes });
      expect(sent.status, sent.body.toString()).toBe(200);
      expect(last().body.equals(bytes)).toBe(true);
      const result = await onWire(await make({ response: code, ...answering(bytes, headers) }));
      expect(result.status, result.body.toString()).toBe(200);
      expect(result.body.equals(bytes)).toBe(true);
      expect(result.headers['content-type']).toBe(type);
    }
  });

  const json = { 'content-type': 'application/json' };
  const returning = [PASS, `return { body: args.body, headers: { ...args.headers, 'x-after': '1' } };`];

  test.each<[string, string]>([
    ['with a byte order mark', '\ufeff{"a":1}'],
    ['of numbers that are as exact otherwise', '{"n":1.0,"e":1.5e3,"f":10e-1}'],
    ['of spaces', '{ "a" : 1,\n "b":2 }\r\n'],
    ['of JSON’s null', 'null'],
    ['of a text in JSON', '"a\\u0041"'],
  ])('%s goes on as it came, and comes back so', async (_, text) => {
    for (const code of returning) {
      const sent = await onWire(await make({ request: code }), { headers: json, body: text });
      expect(sent.status, sent.body.toString()).toBe(200);
      expect(last().body.toString()).toBe(text);
      const result = await onWire(await make({ response: code, ...answering(text, json) }));
      expect([result.status, result.body.toString()]).toEqual([200, text]);
    }
  });

  test('of an answer has nothing that code could not read', async () => {
    for (const code of returning) {
      const twice = answering('{"pan":"4242424242424242","pan":"x"}', json);
      const result = await onWire(await make({ response: code, ...twice }));
      expect([result.status, withoutDrawn(result.body.toString()).includes('4242')]).toEqual([502, false]);
      for (const [type, sentence] of [
        ['application/json; charset=x-own', 'The body of the destination\'s answer cannot be decoded from "x-own".'],
        ['text/plain; charset=utf-7', 'The body of the destination\'s answer cannot be decoded from "utf-7".'],
        ['text/plain; charset=euc-kr', 'The body of the destination\'s answer cannot be decoded from "euc-kr".'],
        ['image/png; charset=windows-1251', 'cannot be decoded from "windows-1251"'],
        ['text/plain; charset="<b>"', 'cannot be decoded from the charset that it declares'],
      ] as const) {
        const unread = answering(Buffer.from('{"pan":"4242\xff"}', 'latin1'), { 'content-type': type });
        const refused = await onWire(await make({ response: code, ...unread }));
        expect([refused.status, problemIn(refused).detail]).toEqual([502, expect.stringContaining(sentence)]);
        expect(withoutDrawn(refused.body.toString())).not.toContain('4242');
      }
    }
  });

  const big = (text: string) => Buffer.from(text, 'utf16le').swap16();
  const little = (text: string) => Buffer.from(text, 'utf16le');

  test.each<[string, string, Uint8Array, unknown, string]>([
    ['Shift_JIS', 'text/plain; charset=Shift_JIS', Buffer.from([0x82, 0xa0]), 'あ', 'text/plain; charset=utf-8'],
    [
      'windows-1251, JSON',
      'application/json; charset="windows-1251"',
      Buffer.from('{"a":"\xc4\xe0"}', 'latin1'),
      { a: 'Да' },
      'application/json; charset=utf-8',
    ],
    [
      'EUC-KR with later syllables',
      'text/plain; charset=euc-kr',
      Buffer.from([0x81, 0x41]),
      '갂',
      'text/plain; charset=utf-8',
    ],
    [
      'windows-1252 with a control',
      'text/plain; charset=windows-1252',
      Buffer.from([0x81, 0x80]),
      '\x81€',
      'text/plain; charset=utf-8',
    ],
    ['gb18030', 'text/csv; charset = gb18030', Buffer.from([0xc4, 0xe3, 0x2c]), '你,', 'text/csv; charset=utf-8'],
    [
      'koi8-r, XML that says so',
      'text/xml;charset=koi8-r',
      Buffer.from('<?xml version="1.0" encoding="koi8-r"?><a>\xc1</a>', 'latin1'),
      '<?xml version="1.0" encoding="UTF-8"?><a>а</a>',
      'text/xml; charset=utf-8',
    ],
    ['UTF-16', 'application/json; charset=utf-16', big('{"a":"é"}'), { a: 'é' }, 'application/json; charset=utf-8'],
    ['UTF-16LE in quotation marks', 'text/plain; charset="utf-16le"', little('é'), 'é', 'text/plain; charset=utf-8'],
    ['UTF-8 in single quotes', `application/json; charset='utf-8'`, Buffer.from('{"a":"é"}'), { a: 'é' }, ''],
  ])('in an answer in %s is read by code, and goes on as it came or in UTF-8', async (_, type, body, value, sent) => {
    const headers = { 'content-type': type };
    expect((await givenOfAnswer(body, headers)).args.body).toEqual(value);
    const text = (of: unknown) => (typeof of === 'string' ? of : JSON.stringify(of));
    // A receiver that does not know UTF-16 would read another text than code has seen.
    const isKept = !/utf-16/i.test(type);
    for (const code of returning) {
      const result = await onWire(await make({ response: code, ...answering(body, headers) }));
      expect([result.status, result.headers['content-type']]).toEqual([200, isKept ? type : sent]);
      expect(isKept ? result.body : result.body.toString()).toEqual(isKept ? body : text(value));
    }
    const code = `return { body: [args.body], headers: args.headers };`;
    const changed = await onWire(await make({ response: code, ...answering(body, headers) }));
    expect([changed.body.toString(), changed.headers['content-type']]).toEqual([JSON.stringify([value]), sent || type]);
  });

  test('of an answer in UTF-16 is read by code, though nothing says so', async () => {
    const text = '{"pan":"4242"}';
    const utf32 = Buffer.from([...text].flatMap((each) => [each.charCodeAt(0), 0, 0, 0]));
    for (const type of [
      'application/json',
      'text/plain; charset=windows-1251',
      'text/plain; charset=latin1',
      undefined,
    ])
      for (const body of [little(`\ufeff${text}`), big(`\ufeff${text}`)]) {
        const read = type === 'application/json' ? JSON.parse(text) : text;
        expect((await givenOfAnswer(body, typed(type))).args.body).toEqual(read);
        const result = await onWire(await make({ response: PASS, ...answering(body, typed(type)) }));
        expect([result.status, result.body.toString()]).toEqual([200, text]);
      }
    for (const type of ['application/json', 'text/plain', 'application/json; charset=utf-8', undefined])
      for (const body of [little(text), big(text)]) {
        const result = await onWire(await make({ response: PASS, ...answering(body, typed(type)) }));
        expect([result.status, result.body.toString()]).toEqual([200, text]);
      }
    for (const body of [utf32, Buffer.from(' {"pan":"4242"}\0')]) {
      const result = await onWire(await make({ response: PASS, ...answering(body, json) }));
      expect([result.status, problemIn(result).status]).toEqual([502, 502]);
    }
  });

  test('is written in the charset that code gives it', async () => {
    const body = Buffer.from('caf\xe9', 'latin1');
    const latin = { 'content-type': 'text/plain; charset=iso-8859-1' };
    const code = `return { body: args.body, headers: { 'content-type': 'text/plain; charset=utf-8' } };`;
    expect((await onWire(await make({ request: code }), { headers: latin, body })).status).toBe(200);
    expect(last().body.toString()).toBe('café');
    const result = await onWire(await make({ response: code, ...answering(body, latin) }));
    expect([result.status, result.body.toString()]).toEqual([200, 'café']);
  });

  test('holds the values of tokens', async () => {
    const id = await tokenOf(server, { number: 1 });
    const result = await onWire(await make({ request: PASS }), {
      headers: json,
      body: `{ "big": 123456789012, "a": "{{ ${id} }}" }`,
    });
    expect(result.status).toBe(200);
    expect(last().body.toString()).toBe('{ "big": 123456789012, "a": {"number":1} }');
  });
});

describe('a coded answer', () => {
  const text = 'some text, '.repeat(1_000);
  test.each([
    ['gzip', gzipSync(text)],
    ['x-gzip', gzipSync(text)],
    ['br', brotliCompressSync(text)],
    ['deflate', deflateSync(text)],
    ['identity', Buffer.from(text)],
    ['gzip, br', brotliCompressSync(gzipSync(text))],
  ])('by %s is decoded for code, and goes on so where code changes it', async (coding, body) => {
    const headers = { 'content-encoding': coding, 'content-type': 'text/plain' };
    const result = await onWire(await make({ response: PASS, ...answering(body, headers) }));
    expect([result.status, result.body.equals(body), result.headers['content-encoding']]).toEqual([200, true, coding]);
    const change = `return { body: args.body + '!', headers: args.headers };`;
    const changed = await onWire(await make({ response: change, ...answering(body, headers) }));
    expect([changed.body.toString(), changed.headers['content-encoding']]).toEqual([`${text}!`, undefined]);
    expect((await givenOfAnswer(body, headers)).args.body).toBe(text);
  });

  test('passes as it is where there is no code behind', async () => {
    const bomb = gzipSync(Buffer.alloc(50 * MEGABYTE));
    for (const [coding, body] of [
      ['gzip', bomb],
      [Array(100).fill('gzip').join(','), bomb],
      ['unknown', Buffer.from(text)],
    ] as const) {
      const result = await onWire(await make({ request: PASS, ...answering(body, { 'content-encoding': coding }) }));
      expect([result.status, result.headers['content-encoding'], result.body.equals(body)]).toEqual([
        200,
        coding,
        true,
      ]);
    }
  });

  test.each([
    ['three layers', 'gzip, gzip, gzip', gzipSync(gzipSync(gzipSync(text)))],
    ['a hundred layers', Array(100).fill('gzip').join(','), gzipSync(text)],
    ['what is not coded', 'gzip', Buffer.from(text)],
    ['half of it', 'gzip', gzipSync(text).subarray(0, -9)],
    ['broken bytes', 'br', Buffer.from(text)],
  ])('of %s is a 502 for code', async (_, coding, body) => {
    const result = await onWire(await make({ response: PASS, ...answering(body, { 'content-encoding': coding }) }));
    expect([result.status, problemIn(result).detail]).toEqual([
      502,
      'The answer of the destination could not be decoded. It may have acted on the request.',
    ]);
  });

  test.each([
    ['gzip', gzipSync(Buffer.alloc(50 * MEGABYTE))],
    ['br', brotliCompressSync(Buffer.alloc(50 * MEGABYTE))],
    ['gzip, gzip', gzipSync(gzipSync(Buffer.alloc(50 * MEGABYTE)))],
  ])('that is a bomb by %s is a 413 for code', async (coding, body) => {
    const result = await onWire(await make({ response: PASS, ...answering(body, { 'content-encoding': coding }) }));
    expect(result.status).toBe(413);
    problemIn(result);
  });

  test('requests only content codings that code can read, whatever the caller accepts', async () => {
    const { destination_url, path } = answering('');
    // As servers do that have the choice.
    fixture.routes.set(path, (request, response) => {
      const isTaken = String(request.headers['accept-encoding']).includes('zstd');
      response.setHeader('content-type', 'application/json');
      if (isTaken) response.setHeader('content-encoding', 'zstd');
      response.end(isTaken ? zstdCompressSync('{"a":1}') : '{"a":1}');
    });
    const proxy = await make({ response: TELL, destination_url });
    const result = await onWire(proxy, { headers: { 'accept-encoding': 'gzip, deflate, br, zstd' } });
    expect(JSON.parse(result.body.toString()).args.body).toEqual({ a: 1 });
  });

  test('by what we cannot decode is never passed on as if it were decoded', async () => {
    for (const coding of ['zstd', 'gzip, zstd', 'unknown']) {
      const body = zstdCompressSync(text);
      const result = await onWire(await make({ response: PASS, ...answering(body, { 'content-encoding': coding }) }));
      if (result.status === 200) expect(result.headers['content-encoding']).toBe(coding);
      else expect([result.status, problemIn(result).status]).toEqual([502, 502]);
    }
  });
});

describe('a coded request', () => {
  test('in a coding that cannot be undone is a 415 where code would see it, and nothing is sent', async () => {
    const proxy = await make({ request: PASS });
    for (const coding of ['zstd', 'gzip, zstd', 'unknown', 'gzip, gzip, gzip']) {
      const reached = await reaching(async () => {
        const result = await onWire(proxy, { headers: { 'content-encoding': coding }, body: gzipSync('x') });
        expect([result.status, problemIn(result).status]).toEqual([415, 415]);
      });
      expect(reached, coding).toEqual([]);
    }
    const result = await onWire(proxy, { headers: { 'content-encoding': 'identity' }, body: 'x' });
    expect(result.status).toBe(200);
  });

  test('passes as it is where code sees answers alone', async () => {
    const body = gzipSync('{ "no": "expression" }');
    const headers = { 'content-encoding': 'gzip', 'content-type': 'application/json' };
    expect((await onWire(await make({ response: PASS }), { headers, body })).status).toBe(200);
    expect(last().body.equals(body)).toBe(true);
  });
});

describe('a body beyond what code may be given', () => {
  const large = Buffer.alloc(RUN_BYTES_MAX + 1, 'x');
  const bytes = { 'content-type': 'application/octet-stream' };

  test('is a 413 of the request before anything is sent, its length announced or not', async () => {
    const proxy = await make({ request: PASS });
    const reached = await reaching(async () => {
      for (const headers of [bytes, { ...bytes, 'transfer-encoding': 'chunked' }]) {
        const result = await onWire(proxy, { headers, body: large });
        expect([result.status, problemIn(result).status]).toEqual([413, 413]);
      }
    });
    expect(reached).toEqual([]);
  });

  test('is a 413 of the answer, its length announced or not, and nothing of it leaks', async () => {
    for (const answer of [
      answering(large, { 'content-length': String(large.byteLength), 'x-canary': '1' }),
      streaming(large),
    ]) {
      const result = await onWire(await make({ response: PASS, ...answer }));
      expect([result.status, problemIn(result).status]).toEqual([413, 413]);
      expect(result.headers['x-canary']).toBeUndefined();
    }
  });

  test('is a 413 too where it becomes so large on its way to the code', async () => {
    const quotes = Buffer.alloc(3 * MEGABYTE, '"');
    const reached = await reaching(async () => {
      const result = await onWire(await make({ request: PASS }), {
        headers: { 'content-type': 'text/plain' },
        body: quotes,
      });
      expect([result.status, problemIn(result).status]).toEqual([413, 413]);
    });
    expect(reached).toEqual([]);
    const result = await onWire(await make({ response: PASS, ...answering(quotes) }));
    expect([result.status, problemIn(result).status]).toEqual([413, 413]);
  });

  test('passes on the side without code', async () => {
    const behind = await make({ response: PASS, ...answering('small') });
    expect((await onWire(behind, { headers: bytes, body: large })).body.toString()).toBe('small');
    expect(last().body.equals(large)).toBe(true);
    const before = await make({ request: PASS, ...answering(large) });
    const result = await onWire(before, { body: 'small' });
    expect([result.status, result.body.equals(large)]).toEqual([200, true]);
  });

  test('and one that is not passes both', async () => {
    const most = Buffer.alloc(4 * MEGABYTE, 'x');
    const result = await onWire(await make({ request: PASS, response: PASS, ...answering(most) }), {
      headers: bytes,
      body: most,
    });
    expect([result.status, result.body.equals(most), last().body.equals(most)]).toEqual([200, true, true]);
  });

  test('in its depth is a 400 of the request and a 502 of the answer', async () => {
    const deep = '['.repeat(5_000) + ']'.repeat(5_000);
    const headers = { 'content-type': 'application/json' };
    const reached = await reaching(async () => {
      const result = await onWire(await make({ request: PASS }), { headers, body: deep });
      expect([result.status, Object.keys(problemIn(result).errors)]).toEqual([400, ['body']]);
    });
    expect(reached).toEqual([]);
    const result = await onWire(await make({ response: PASS, ...answering(deep, headers) }));
    expect([result.status, problemIn(result).status]).toEqual([502, 502]);
  });
});

describe('a query beyond what a request may have', () => {
  const TOO_MANY = ['must have at most 1000 parameters'];
  /** Code that runs sends a request of its own. */
  const CALLS = `await fetch(configuration.URL); ${PASS}`;
  const makeCalling = () => make({ request: CALLS, configuration: { URL: fixture.url }, require_auth: false });

  test('is a 400 that names the limit, with and without an API key, and no code runs', async () => {
    const proxy = await makeCalling();
    const reached = await reaching(async () => {
      for (const key of [server.tenant.api_key, null]) {
        const result = await askOnWire(server, 'GET', `/proxy?${'a&'.repeat(1_000)}a`, {
          key,
          headers: { 'svc-proxy-key': proxy.key },
        });
        expect([result.status, problemIn(result).errors]).toEqual([400, { query: TOO_MANY }]);
      }
    });
    expect(reached).toEqual([]);
  });

  test('at the limit is given to code, each parameter of it', async () => {
    const { args } = await givenOfRequest({ path: `/proxy?${'a=b&'.repeat(998)}c&d` });
    expect(args.query).toEqual({ a: Array.from({ length: 998 }, () => 'b'), c: '', d: '' });
  });

  test('in a URL that becomes too long is a 400 before code runs', async () => {
    const proxy = await makeCalling();
    const id = await tokenOf(server, 'x'.repeat(33_000));
    const reached = await reaching(async () => {
      const result = await onWire(proxy, { path: `/proxy?a=%7B%7B%20${id}%20%7D%7D` });
      expect([result.status, Object.keys(problemIn(result).errors)]).toEqual([400, ['query']]);
    });
    expect(reached).toEqual([]);
  });
});

describe('a caller that leaves', () => {
  test('while code works on its request has nothing sent', async () => {
    const { destination_url, path } = answering('sent');
    const gate = Promise.withResolvers<void>();
    let isAsked = false;
    fixture.routes.set('/gate', async (_, response) => {
      isAsked = true;
      await gate.promise;
      response.end();
    });
    const proxy = await make({
      request: `await fetch(configuration.GATE); ${PASS}`,
      configuration: { GATE: `${fixture.url}/gate` },
      destination_url,
    });
    const leaving = new AbortController();
    const left = expect(onWire(proxy, { body: 'x', signal: leaving.signal })).rejects.toThrow();
    await until(() => isAsked);
    leaving.abort();
    await left;
    gate.resolve();
    await delay(500);
    expect(fixture.receivedAt(path)).toEqual([]);
    fixture.routes.delete('/gate');
    expect((await askProxy(server, proxy, { json: {} })).text).toBe('sent');
  });
});

describe('code that throws', () => {
  const CANARY = 'canary-of-the-answer';
  /** Nothing is sent by the one, and nothing of the destination's answer told by the other. */
  const bothSides = async (
    code: string,
    look: (result: Answer, side: 'request' | 'response') => void,
  ): Promise<void> => {
    const before = await make({ request: code });
    const behind = await make({ response: code, ...answering(CANARY, { 'x-canary': CANARY }) });
    const connections = fixture.upstream.connectionCount();
    const reached = await reaching(async () => look(await askProxy(server, before, { json: {} }), 'request'));
    expect(reached).toEqual([]);
    expect(fixture.upstream.connectionCount()).toBe(connections);
    const result = await askProxy(server, behind, { json: {} });
    look(result, 'response');
    expect(JSON.stringify([result.text, ...result.headers])).not.toContain(CANARY);
  };

  test.each([
    ['BadRequestError', 400, 'Bad Request'],
    ['AuthenticationError', 401, 'Authentication Failed'],
    ['InvalidPaymentMethodError', 402, 'Invalid Payment Method'],
    ['AuthorizationError', 403, 'Forbidden'],
    ['RateLimitError', 429, 'Rate Limit Exceeded'],
    ['ReactorRuntimeError', 500, 'Reactor Runtime Error'],
    ['ServiceUnavailableError', 503, 'Service Unavailable'],
    ['InvalidReactorConfigurationError', 400, 'Invalid Reactor Configuration'],
    ['InvalidReactorFormulaError', 422, 'Invalid Reactor Formula'],
  ])('a %s is a %d in the frame of the proxy', async (name, status, detail) => {
    const code = `const sdk = require('@svc/reactor-formulas-sdk'); throw new sdk.${name}({ amount: ['is wrong'] });`;
    await bothSides(code, (result) => {
      expect(proxyErrorOf(result)).toEqual({
        title: 'One or more validation errors occurred.',
        status,
        detail,
        errors: { amount: ['is wrong'] },
      });
      expect(result.headers.get('retry-after')).toBe(status === 429 || status === 503 ? '1' : null);
    });
  });

  test('a CustomHttpResponseError is the response itself, without a frame', async () => {
    const code = `const { CustomHttpResponseError } = require('@svc/reactor-formulas-sdk');
      throw new CustomHttpResponseError({ status: 418, headers: { 'X-Own': 'a', 'svc-proxy-destination-status': '999', connection: 'close' }, body: { made: 'by code' } });`;
    await bothSides(code, (result, side) => {
      expect([result.status, result.text, result.headers.get('x-own')]).toEqual([418, '{"made":"by code"}', 'a']);
      expect(result.headers.get('content-type')).toBe('application/json');
      expect(result.headers.get('svc-proxy-destination-status')).toBe(side === 'request' ? null : '200');
    });
  });

  test.each([
    ['no body', '{ status: 204 }', 204, ''],
    ['a text', `{ status: 400, body: 'no' }`, 400, 'no'],
    ['a status of its own class', '{ status: 599, body: null }', 599, ''],
  ])('a CustomHttpResponseError with %s is answered so', async (_, given, status, text) => {
    const code = `const { CustomHttpResponseError } = require('@svc/reactor-formulas-sdk'); throw new CustomHttpResponseError(${given});`;
    await bothSides(code, (result) => expect([result.status, result.text]).toEqual([status, text]));
  });

  test.each([
    ['a status that is none', '{ status: 99 }'],
    ['a header that is none', `{ status: 200, headers: { a: 'b\\r\\nc: d' } }`],
  ])('a CustomHttpResponseError with %s is a 500 in the frame', async (_, given) => {
    const code = `const { CustomHttpResponseError } = require('@svc/reactor-formulas-sdk'); throw new CustomHttpResponseError(${given});`;
    await bothSides(code, (result) => expect(proxyErrorOf(result)).toMatchObject({ status: 500 }));
  });

  test.each([
    ['an Error', `throw new Error('the words of the code');`, 'the words of the code'],
    ['no Error', `throw 'a text';`, expect.any(String)],
    ['null', 'throw null;', expect.any(String)],
    ['an Error with a status of its own', `throw Object.assign(new Error('mine'), { status: 200 });`, 'mine'],
    ['by a slip', 'return args.body.a.b.c;', expect.stringContaining('undefined')],
    ['in a promise', `await Promise.reject(new Error('late'));`, 'late'],
  ])('%s is a 500 in the frame', async (_, code, message) => {
    await bothSides(code, (result) => {
      const { status, detail, errors } = proxyErrorOf(result);
      expect([status, detail, errors]).toEqual([500, 'Reactor Runtime Error', { error: [message] }]);
      expect(result.text).not.toMatch(/\/work\/|node_modules|at .*\.cjs/);
    });
  });

  test('what it prints stands neither in its answer nor in a log of ours', async () => {
    const code = `console.log('canary-of-a-console'); console.error('canary-of-a-console'); ${PASS}`;
    const result = await askProxy(server, await make({ request: code, response: code }), { json: {} });
    expect(result.status).toBe(200);
    expect(JSON.stringify([result.text, ...result.headers, ...server.logLines])).not.toContain('canary-of-a-console');
  });

  test('what it throws with its input reaches its caller, and no log', async () => {
    const id = await tokenOf(server, 'canary-of-a-token');
    const proxy = await make({ request: `throw new Error(args.body.a);` });
    const result = await askProxy(server, proxy, { json: { a: `{{ ${id} }}` } });
    expect(proxyErrorOf(result).errors).toEqual({ error: ['canary-of-a-token'] });
    expect(server.logLines.join('')).not.toContain('canary-of-a-token');
  });

  test.each([
    ['never ends', 'await new Promise(() => {});', [408]],
    ['takes all of the processor', 'for (;;);', [408]],
    // Whichever limit it meets first.
    ['takes all of the memory', 'const all = []; for (;;) all.push(new Array(1e6).fill(Math.random()));', [408, 500]],
  ])('code that %s is ended, and told of in the frame', async (_, code, statuses) => {
    const reached = await reaching(async () => {
      const [before, behind] = await Promise.all([
        make({ request: code }).then((proxy) => askProxy(server, proxy, { json: {} })),
        make({ response: code, ...answering(CANARY) }).then((proxy) => askProxy(server, proxy, { json: {} })),
      ]);
      for (const result of [before, behind]) {
        expect(proxyErrorOf(result).detail).toBe('Reactor Runtime Error');
        expect(statuses).toContain(result.status);
      }
      expect(behind.text).not.toContain(CANARY);
    });
    expect(reached).toHaveLength(1);
    expect((await askProxy(server, await make({ request: PASS }), { json: {} })).status).toBe(200);
  });
});

describe('svc', () => {
  const app = async (...permissions: string[]) => {
    const { id, key } = await makeApplication(server, { permissions });
    return { application: { id }, id, key };
  };

  test('is there with an application, and its key is nowhere', async () => {
    const { application, key } = await app('token:use', 'token:read');
    const result = await givenOfRequest({}, { application });
    expect(result.svc).toMatchObject({ tokens: {}, proxy: {} });
    expect(JSON.stringify(result)).not.toContain(key);
  });

  test("makes tokens of an answer before its caller sees it, with the application's rights", async () => {
    const { application, id } = await app('token:create');
    const proxy = await make({
      ...answering('{"card":"4242424242424242"}', { 'content-type': 'application/json' }),
      response: `const tokens = await svc.tokenize({ card: args.body.card }); return { body: tokens, headers: {} };`,
      application,
    });
    const caller = await server.newKey(server.tenant, { permissions: ['token:use'] });
    const result = await askProxy(server, proxy, { key: caller.api_key });
    expect(result.status, result.text).toBe(200);
    expect(result.text).not.toContain('4242424242424242');
    const stored = await server.request('GET', `/tokens/${result.body.card}`);
    expect([stored.body.data, stored.body.created_by]).toEqual(['4242424242424242', id]);
  });

  test('has the permissions of the application, not of the caller', async () => {
    const { application } = await app('token:use');
    const proxy = await make({
      request: `let code; try { await svc.tokenize('x'); } catch (error) { ({ code } = error); } return { body: { code }, headers: {} };`,
      application,
    });
    expect((await askProxy(server, proxy, { json: {} })).status).toBe(200);
    expect(JSON.parse(last().body.toString())).toEqual({ code: 'FORBIDDEN' });
  });

  test('opens no expression that came out of a token that the caller sent to the destination', async () => {
    const { application } = await app('token:use', 'token:read');
    const secret = await tokenOf(server, '4242424242424242');
    const carrier = await tokenOf(server, `{{ ${secret} }}`);
    const response = `const [, note] = args.body.headers.find(([name]) => name === 'x-note');
      return { body: await svc.detokenize({ note }).catch(({ code, message }) => ({ code, message })), headers: {} };`;
    const proxy = await make({ response, application });
    const result = await onWire(proxy, { headers: { 'x-note': `{{ ${carrier} }}` } });
    expect(JSON.parse(result.body.toString())).toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('came out of a token'),
    });
    expect(await usesOf(server, secret)).toEqual([]);
  });

  test('is gone with its application, with the next request', async () => {
    const { application, id } = await app('token:use');
    const proxy = await make({ request: `return { body: { has: svc !== null }, headers: {} };`, application });
    await askProxy(server, proxy);
    expect(JSON.parse(last().body.toString())).toEqual({ has: true });
    await remove(server, `/applications/${id}`);
    await askProxy(server, proxy);
    expect(JSON.parse(last().body.toString())).toEqual({ has: false });
  });

  test('fetch reaches only hosts that the proxy, its application and the caller allow', async () => {
    const code = `const outcome = {};
      for (const url of [configuration.ONE, configuration.OTHER])
        outcome[new URL(url).hostname] = await fetch(url).then(({ status }) => status, ({ cause }) => cause.code);
      return { body: outcome, headers: {} };`;
    const configuration = { ONE: fixture.url, OTHER: fixture.otherUrl };
    const toldBy = async (more: object, key = server.tenant.api_key) => {
      const result = await askProxy(server, await make({ request: code, configuration, ...more }), { key, json: {} });
      expect(result.status, result.text).toBe(200);
      return Object.values(JSON.parse(last().body.toString()));
    };
    const narrow = await makeApplication(server, { permissions: ['token:use'], allowed_hosts: ['upstream.test'] });
    expect(await toldBy({})).toEqual([200, 200]);
    expect(await toldBy({ allowed_hosts: ['upstream.test'] })).toEqual([200, 'DESTINATION_REFUSED']);
    expect(await toldBy({ application: { id: narrow.id } })).toEqual([200, 'DESTINATION_REFUSED']);
    expect(await toldBy({}, narrow.key)).toEqual([200, 'DESTINATION_REFUSED']);
  });
});

describe('svc.proxy', () => {
  const TRY = `const attempt = async (work) => {
    try { return await work(); } catch ({ code, status, message }) { return { code, status, message }; }
  };`;
  const run = async (body: string, args: object, more: { permissions?: string[] } = {}) => {
    const { id } = await makeApplication(server, { permissions: more.permissions ?? ['token:use'] });
    const reactor = await makeReactor(server, { code: codeOf(`${TRY} ${body}`), application: { application_id: id } });
    return { raw: await rawOf(react(server, reactor, args)), application_id: id };
  };

  test('sends from a reactor, with the rights and in the name of its application', async () => {
    const id = await tokenOf(server, 'the value');
    const { raw, application_id } = await run(
      `const headers = { 'svc-proxy-url': args.url, 'X-Own': 'a', 'x-value': args.value };
       return { raw: await svc.proxy.post({ headers, path: '/a/b', query: { x: 1, y: ['2', '3'] }, body: { a: args.value } }) };`,
      { url: `${fixture.url}/base` },
    );
    expect(raw.status).toBe(200);
    expect(raw.headers).toMatchObject({ 'content-type': 'application/json' });
    expect(last()).toMatchObject({ method: 'POST', url: '/base/a/b?x=1&y=2&y=3' });
    expect(last().headers).toContainEqual(['X-Own', 'a']);
    expect(raw.body).toMatchObject({ url: '/base/a/b?x=1&y=2&y=3' });

    const proxy = await make({ destination_url: `${fixture.url}/stored` });
    const stored = await run(
      `const value = svc.expression(args.id);
       return { raw: await svc.proxy.put({ headers: { 'SVC-PROXY-KEY': args.key }, body: { value } }) };`,
      { key: proxy.key, id },
    );
    expect(stored.raw.status).toBe(200);
    expect([last().method, last().url, last().body.toString()]).toEqual(['PUT', '/stored', '{"value":"the value"}']);
    const uses = await usesOf(server, id, proxy.id);
    expect(new Set(uses.map(({ actor_id }) => actor_id))).toEqual(new Set([stored.application_id]));
    expect(uses).toHaveLength(2);
    expect(application_id).not.toBe(stored.application_id);
  });

  const sendBody = (body: string, args: object) =>
    run(
      `const headers = { 'svc-proxy-url': args.url, ...args.headers };
       return { raw: await attempt(() => svc.proxy.post({ headers, ...(${body}) })) };`,
      { url: fixture.url, ...args },
    );

  test('puts values in for svc.expression wherever a request may have them', async () => {
    const id = await tokenOf(server, { number: '4242 4242', kind: 'a&b' });
    const { raw } = await sendBody(
      `{
        path: '/a/' + svc.expression(args.id, "json: '$.kind'"),
        query: { q: svc.expression(args.id, "json: '$.kind'") },
        headers: { ...headers, authorization: \`Bearer \${svc.expression(args.id, "json: '$.number' | last4")}\`, 'x-raw': svc.literal('{{ x }}') },
        body: { whole: svc.expression(args.id), part: 'is ' + svc.expression(args.id, "json: '$.number'"), kept: svc.literal('{{ x }} "') },
      }`,
      { id },
    );
    expect(raw.status, JSON.stringify(raw)).toBe(200);
    expect(last().url).toBe('/a/a%26b?q=a%26b');
    const sent = new Map(last().headers);
    expect([sent.get('authorization'), sent.get('x-raw')]).toEqual(['Bearer 4242', '{{ x }}']);
    expect(JSON.parse(last().body.toString())).toEqual({
      whole: { number: '4242 4242', kind: 'a&b' },
      part: 'is 4242 4242',
      kept: '{{ x }} "',
    });
  });

  test('puts values in where code wrote the body itself, as JSON, a form or XML', async () => {
    const id = await tokenOf(server, '"a" & <b>');
    const sent = async (type: string, body: string) => {
      const { raw } = await sendBody(`{ body: ${body} }`, { id, headers: { 'content-type': type } });
      expect(raw.status, JSON.stringify(raw)).toBe(200);
      return last().body.toString();
    };
    expect(await sent('application/json', `JSON.stringify({ a: svc.expression(args.id) })`)).toBe(
      String.raw`{"a":"\"a\" & <b>"}`,
    );
    expect(
      await sent('application/x-www-form-urlencoded', `new URLSearchParams({ a: svc.expression(args.id) }).toString()`),
    ).toBe('a=%22a%22%20%26%20%3Cb%3E');
    expect(await sent('application/xml', `'<a>' + svc.expression(args.id) + '</a>'`)).toBe(
      '<a>&quot;a&quot; &amp; &lt;b&gt;</a>',
    );
    expect(await sent('application/json', `svc.literal('{"a":"{{ x }}"}')`)).toBe('{"a":"{{ x }}"}');
  });

  test('never reads text as an expression, be it from args, from a token or joined by the code', async () => {
    const secret = await tokenOf(server, '4242424242424242');
    const text = `{{ ${secret} }}`;
    const carrier = await tokenOf(server, text);
    const reached = await reaching(async () => {
      for (const [place, part] of Object.entries({
        'body.note': '{ body: { note: args.first + args.second } }',
        body: `{ body: 'note: ' + args.first + args.second }`,
        path: `{ path: '/a/' + args.first + args.second }`,
        'query.q': '{ query: { q: args.first + args.second } }',
        'headers.x-note': `{ headers: { ...headers, 'x-note': args.first + args.second } }`,
      })) {
        for (const args of [
          { first: `{{ ${carrier} }}`, second: '' },
          { first: '{', second: text.slice(1) },
        ]) {
          const { raw } = await sendBody(part, args);
          expect(raw, place).toMatchObject({ code: 'INVALID_INPUT', status: 400 });
          expect(raw.message).toContain(`${place} must have no {{ but what svc.expression`);
          expect(raw.message).toContain('svc.literal(text)');
        }
      }
    });
    expect(reached).toEqual([]);
    expect(await usesOf(server, secret)).toEqual([]);

    const { raw } = await sendBody('{ body: { note: svc.literal(args.first) } }', { first: `{{ ${carrier} }}` });
    expect(raw.status).toBe(200);
    expect(JSON.parse(last().body.toString())).toEqual({ note: text });
  });

  test('refuses a mark that no svc.expression made, or in a place that is not searched', async () => {
    const id = await tokenOf(server, 'value');
    const forged = await sendBody(`{ body: { a: args.open + args.rest, b: svc.expression(args.id) } }`, {
      id,
      open: '{',
      rest: `{svc-${crypto.randomUUID()}-1}}`,
    });
    expect(forged.raw).toMatchObject({ code: 'INVALID_INPUT', status: 400 });
    const asName = await sendBody('{ body: { [svc.expression(args.id)]: 1 } }', { id });
    expect(asName.raw).toMatchObject({ code: 'BAD_REQUEST', status: 400 });
    const asBytes = await sendBody('{ body: svc.expression(args.id) }', {
      id,
      headers: { 'content-type': 'application/octet-stream' },
    });
    expect(asBytes.raw).toMatchObject({ code: 'BAD_REQUEST', status: 400 });
    const twice = `const mark = svc.expression(args.id); headers['x-note'] = mark;`;
    for (const [body, type] of [
      ['{ [mark]: 1 }', 'application/json'],
      ['mark', 'application/octet-stream'],
    ]) {
      const reached = await reaching(async () => {
        const { raw } = await run(
          `const headers = { 'svc-proxy-url': args.url, 'content-type': '${type}' }; ${twice}
           return { raw: await attempt(() => svc.proxy.post({ headers, body: ${body} })) };`,
          { url: fixture.url, id: await tokenOf(server, 'value') },
        );
        expect(raw, type).toMatchObject({ code: 'BAD_REQUEST', status: 400 });
      });
      expect(reached).toEqual([]);
    }
    for (const [other, filter] of [
      [`'${id} }' + '} {' + '{ ${id}'`, 'undefined'],
      [`'${id} | last4'`, 'undefined'],
      [`'token: ${id}'`, 'undefined'],
      [`'${id}'`, `'last4 }' + '} {' + '{ ${id}'`],
      [`'x'.repeat(5000)`, 'undefined'],
    ]) {
      const { raw } = await sendBody(`{ body: { a: svc.expression(${other}, ${filter}) } }`, {});
      expect(raw, other).toMatchObject({ code: 'INVALID_INPUT', status: 400 });
    }
    expect(await usesOf(server, id)).toEqual([]);
  });

  test('sends headers of reverse proxies that the code wrote', async () => {
    const { raw } = await sendBody(`{ headers: { ...headers, 'X-Forwarded-For': '192.0.2.1', via: '1.1 own' } }`, {});
    expect(raw.status, JSON.stringify(raw)).toBe(200);
    expect(last().headers).toEqual(
      expect.arrayContaining([
        ['X-Forwarded-For', '192.0.2.1'],
        ['via', '1.1 own'],
      ]),
    );
  });

  test('alone takes what svc.expression and svc.literal make', async () => {
    const { raw } = await run(
      `const marked = svc.literal('x');
       return { raw: [await attempt(() => svc.tokenize({ a: marked })), await attempt(() => svc.detokenize(marked)),
         await attempt(() => svc.expression(5)), await attempt(() => svc.literal({}))] };`,
      {},
    );
    expect(raw.slice(0, 2)).toEqual([
      expect.objectContaining({ code: 'INVALID_INPUT', status: 400 }),
      expect.objectContaining({ code: 'INVALID_INPUT', status: 400 }),
    ]);
    expect(raw.slice(2)).toEqual([
      { message: 'The id of svc.expression must be a text' },
      { message: 'What svc.literal wraps must be a text' },
    ]);
  });

  test('has the five methods, and answers of any status are answers', async () => {
    const answer = answering('no', { 'content-type': 'text/plain', 'set-cookie': ['a=1', 'b=2'] }, 404);
    const { raw } = await run(
      `const headers = { 'svc-proxy-url': args.url };
       const outcome = {};
       for (const method of Object.keys(svc.proxy)) outcome[method] = await svc.proxy[method]({ headers });
       return { raw: outcome };`,
      { url: answer.destination_url },
    );
    expect(Object.keys(raw)).toEqual(['get', 'post', 'put', 'patch', 'delete']);
    for (const result of Object.values<any>(raw)) expect(result).toMatchObject({ status: 404, body: 'no' });
    expect(fixture.receivedAt(answer.path).map(({ method }) => method)).toEqual([
      'GET',
      'POST',
      'PUT',
      'PATCH',
      'DELETE',
    ]);
  });

  test('refuses a query of too many parameters or characters', async () => {
    const ask = (query: string) =>
      run(
        `return { raw: await attempt(() => svc.proxy.get({ headers: { 'svc-proxy-url': args.url }, query: ${query} })) };`,
        {
          url: fixture.url,
        },
      );
    const reached = await reaching(async () => {
      for (const query of [
        `{ a: Array(1001).fill('') }`,
        `Object.fromEntries(Array.from({ length: 1001 }, (_, n) => ['n' + n, 1]))`,
      ])
        expect((await ask(query)).raw).toMatchObject({
          code: 'INVALID_INPUT',
          status: 400,
          message: expect.stringContaining('query must have at most 1000 parameters'),
        });
      expect((await ask(`{ a: Array(1000).fill('x'.repeat(4000)) }`)).raw).toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('query must leave the URL of the destination at most 32768 characters'),
      });
    });
    expect(reached).toEqual([]);
    expect((await ask(`{ a: Array(1000).fill('') }`)).raw.status).toBe(200);
  });

  test('says what is wrong as the proxy does', async () => {
    const theirs = await make({ require_auth: false }, otherTenant.api_key);
    const bad = `
      const to = (headers, more) => attempt(() => svc.proxy.post({ headers, ...more }));
      return { raw: [
        await to({ 'svc-proxy-url': 'http://upstream.test' }), await to({ 'svc-proxy-url': 'https://127.0.0.1' }),
        await to({}), await to({ 'svc-proxy-key': args.theirs }), await to({ 'svc-proxy-key': 'x'.repeat(32) }),
        await to({ 'svc-proxy-url': args.url }, { body: svc.expression('unknown-token') }),
        await to({ 'svc-proxy-url': args.url }, { path: '/../x' }),
        await to({ 'svc-proxy-url': args.url, 'x-a': { b: 1 } }), await to({ 'svc-proxy-url': args.url, 'x-a': 'a\\r\\nb' }),
        await to({ 'svc-proxy-url': 'https://nowhere.test' }),
        await attempt(() => svc.proxy.post('x')), await attempt(() => svc.proxy.post()),
      ] };`;
    const reached = await reaching(async () => {
      const { raw } = await run(bad, { url: fixture.url, theirs: theirs.key });
      expect(raw.map(({ code, status }: any) => [code, status])).toEqual([
        ['INVALID_INPUT', 400],
        ['INVALID_INPUT', 400],
        ['INVALID_INPUT', 400],
        ['NOT_FOUND', 404],
        ['NOT_FOUND', 404],
        ['BAD_REQUEST', 400],
        ['INVALID_INPUT', 400],
        ['INVALID_INPUT', 400],
        ['BAD_REQUEST', 400],
        ['BAD_GATEWAY', 502],
        ['INVALID_INPUT', 400],
        ['INVALID_INPUT', 400],
      ]);
    });
    expect(reached).toEqual([]);
    expect(await usesOf(server, theirs.id)).toEqual([]);
  });

  test('needs token:use of the application, for every caller', async () => {
    const { raw } = await run(
      `return { raw: await attempt(() => svc.proxy.get({ headers: { 'svc-proxy-url': args.url } })) };`,
      { url: fixture.url },
      { permissions: ['token:read'] },
    );
    expect(raw).toMatchObject({ code: 'FORBIDDEN', status: 403 });
    const { body } = await runBody(server, 'return { raw: svc };');
    expect(body.raw).toBeNull();
  });

  test('acts as the application, whatever keys the code sends', async () => {
    const id = await tokenOf(server, 'theirs', {}, otherTenant.api_key);
    const { raw } = await run(
      `return { raw: await attempt(() => svc.proxy.post({ headers: { 'svc-proxy-url': args.url, 'SVC-API-KEY': args.key }, body: svc.expression(args.id) })) };`,
      { url: fixture.url, key: otherTenant.api_key, id },
    );
    expect(raw).toMatchObject({ code: 'BAD_REQUEST', status: 400 });
    expect(await usesOf(server, id)).toEqual([]);
  });

  test('gives code answers decoded, and none beyond what it may be given', async () => {
    const small = answering(gzipSync('{"a":1}'), { 'content-encoding': 'gzip', 'content-type': 'application/json' });
    const none = answering('', {}, 204);
    const { raw } = await run(
      `const outcome = [];
       for (const url of args.urls) outcome.push(await attempt(() => svc.proxy.get({ headers: { 'svc-proxy-url': url } })));
       return { raw: outcome.map(({ status, code, body }) => [status, code ?? null, body ?? null]) };`,
      {
        urls: [
          small.destination_url,
          none.destination_url,
          answering(Buffer.alloc(RUN_BYTES_MAX + 1, 'x')).destination_url,
          answering(gzipSync(Buffer.alloc(50 * MEGABYTE)), { 'content-encoding': 'gzip' }).destination_url,
        ],
      },
    );
    expect(raw).toEqual([
      [200, null, { a: 1 }],
      [204, null, null],
      [413, 'PAYLOAD_TOO_LARGE', null],
      [413, 'PAYLOAD_TOO_LARGE', null],
    ]);
  });

  test('is counted among the calls of a run', async () => {
    const { destination_url, path } = answering('x');
    const { raw } = await run(
      `const outcome = [];
       for (let i = 0; i < 55; i++) outcome.push((await attempt(() => svc.proxy.get({ headers: { 'svc-proxy-url': args.url } }))).code ?? 'ok');
       return { raw: outcome };`,
      { url: destination_url },
    );
    expect(raw.filter((each: string) => each === 'ok')).toHaveLength(50);
    expect(raw.slice(50)).toEqual(Array(5).fill('CALL_LIMIT'));
    expect(fixture.receivedAt(path)).toHaveLength(50);
  });

  test('of a transform stays where the proxy and its application may go', async () => {
    const { id } = await makeApplication(server, { permissions: ['token:use'] });
    const other = await make({ destination_url: fixture.otherUrl });
    const code = `${TRY}
      const outcome = [];
      for (const headers of [{ 'svc-proxy-url': configuration.OTHER }, { 'svc-proxy-key': configuration.KEY }])
        outcome.push((await attempt(() => svc.proxy.get({ headers }))).status);
      return { body: outcome, headers: {} };`;
    const configuration = { OTHER: fixture.otherUrl, KEY: other.key };
    const open = await make({ request: code, configuration, application: { id } });
    expect((await askProxy(server, open)).status).toBe(200);
    expect(JSON.parse(last().body.toString())).toEqual([200, 200]);
    const narrow = await make({ request: code, configuration, application: { id }, allowed_hosts: ['upstream.test'] });
    expect((await askProxy(server, narrow)).status).toBe(200);
    expect(JSON.parse(last().body.toString())).toEqual([400, 400]);
  });

  test('of a transform may hand on the headers that it was given', async () => {
    const { id } = await makeApplication(server, { permissions: ['token:use'] });
    const { destination_url, path } = answering('handed on');
    const proxy = await make({
      request: `${TRY}
        const headers = { ...args.headers, 'svc-proxy-url': configuration.URL };
        const { body, code } = await attempt(() => svc.proxy.post({ headers, body: args.body }));
        return { body: { body, code }, headers: {} };`,
      configuration: { URL: destination_url },
      application: { id },
    });
    expect((await askProxy(server, proxy, { json: { a: 1 }, headers: { 'x-own': '1' } })).status).toBe(200);
    expect(JSON.parse(last().body.toString())).toEqual({ body: 'handed on' });
    expect(fixture.receivedAt(path)[0]?.headers).toContainEqual(['x-own', '1']);
    expect(fixture.receivedAt(path)[0]?.body.toString()).toBe('{"a":1}');
  });

  test('ends with the run that made it', async () => {
    let isClosed = false;
    fixture.routes.set('/silent', (_, response) => void response.once('close', () => (isClosed = true)));
    fixture.routes.set('/heard', async (_, response) => {
      await until(() => fixture.receivedAt('/silent').length > 0);
      response.end();
    });
    const { raw } = await run(
      `svc.proxy.get({ headers: { 'svc-proxy-url': args.silent } }).catch(() => {});
       await fetch(args.heard);
       return { raw: 'over' };`,
      { silent: `${fixture.url}/silent`, heard: `${fixture.url}/heard` },
    );
    expect(raw).toBe('over');
    await until(() => isClosed);
  });

  /** A proxy whose code asks itself. */
  const makeEndless = async () => {
    const { id } = await makeApplication(server, { permissions: ['token:use'] });
    const { destination_url, path } = answering('{}', { 'content-type': 'application/json' });
    const code = `${TRY}
      const inner = await attempt(() => svc.proxy.post({ headers: { 'svc-proxy-key': configuration.KEY }, body: {} }));
      return { body: { code: inner.code, status: inner.status }, headers: {} };`;
    const wanted = { request: code, destination_url, application: { id } };
    const proxy = await make(wanted);
    await changeProxy(server, proxy, wantedOf({ ...wanted, configuration: { KEY: proxy.key } }));
    return { proxy, path };
  };

  test('of code that asks itself ends after three levels', async () => {
    const { proxy, path } = await makeEndless();
    const result = await askProxy(server, proxy, { json: {} });
    expect(result.status, result.text).toBe(200);
    const bodies = fixture.receivedAt(path).map(({ body }) => JSON.parse(body.toString()));
    expect(bodies).toEqual([{ code: 'BAD_REQUEST', status: 400 }, { status: 200 }, { status: 200 }, { status: 200 }]);
    expect(await usesOf(server, proxy.id)).toHaveLength(4);
  });

  test('of code that calls itself forty times at once ends, and other tenants are served', async () => {
    const { proxy } = await makeEndless();
    const theirs = await make({ request: PASS }, otherTenant.api_key);
    expect((await askProxy(server, theirs, { key: otherTenant.api_key, json: {} })).status).toBe(200);
    let isOver = false;
    const all = Promise.all(Array.from({ length: 40 }, () => askProxy(server, proxy, { json: {} }))).then((result) => {
      isOver = true;
      return result;
    });
    expect((await askProxy(server, theirs, { key: otherTenant.api_key, json: {} })).status).toBe(200);
    expect(isOver).toBe(false);
    for (const result of await all) expect([200, 408, 429, 503]).toContain(result.status);
    expect((await askProxy(server, proxy, { json: {} })).status).toBe(200);
  });

  test('of a reactor whose proxies ask themselves ends as well', async () => {
    const { proxy, path } = await makeEndless();
    const { raw } = await run(
      `return { raw: (await svc.proxy.post({ headers: { 'svc-proxy-key': args.key }, body: {} })).status };`,
      { key: proxy.key },
    );
    expect(raw).toBe(200);
    expect(fixture.receivedAt(path).length).toBeLessThanOrEqual(4);
  });
});

describe('one run and the next', () => {
  const LEAVE = `
    const found = [globalThis.left, Array.prototype.left, Object.prototype.left, JSON.stringify({ a: 1 }), typeof leftover];
    globalThis.left = 'left'; Array.prototype.left = 'left'; Object.prototype.left = 'left';
    JSON.parse = () => 'left'; JSON.stringify = () => 'left'; leftover = 'left';
    require('crypto').left = 'left'; Promise.prototype.then = Promise.prototype.then;
    return { body: found.map((each) => each === undefined ? 'nothing' : each), headers: {} };`;
  const CLEAN = ['nothing', 'nothing', 'nothing', '{"a":1}', 'undefined'];

  test('share nothing: within a proxy, its two sides, its tenant, or between tenants', async () => {
    const proxy = await make({ request: LEAVE, response: LEAVE });
    const sibling = await make({ request: LEAVE, response: LEAVE });
    const theirs = await make({ request: LEAVE, response: LEAVE }, otherTenant.api_key);
    for (let round = 0; round < 3; round += 1)
      for (const [each, key] of [[proxy], [sibling], [theirs, otherTenant.api_key]] as [StoredProxy, string?][]) {
        const result = await askProxy(server, each, { json: {}, ...(key !== undefined && { key }) });
        expect(result.body, result.text).toEqual(CLEAN);
        expect(JSON.parse(last().body.toString())).toEqual(CLEAN);
      }
  });

  test('a value that one was given is not there for the next', async () => {
    const proxy = await make({
      request: `const kept = globalThis.kept ?? 'nothing'; globalThis.kept = args.body; module.exports.kept = args.body; return { body: { kept }, headers: {} };`,
    });
    for (const value of ['one', 'two', 'three']) {
      await askProxy(server, proxy, { json: { value } });
      expect(JSON.parse(last().body.toString())).toEqual({ kept: 'nothing' });
    }
  });

  test('code that is changed runs with the next request, and none of what it was', async () => {
    const proxy = await make({ request: `return { body: 'one', headers: {} };` });
    for (const word of ['two', 'three', 'four']) {
      await askProxy(server, proxy);
      await changeProxy(server, proxy, wantedOf({ request: `return { body: '${word}', headers: {} };` }));
      await askProxy(server, proxy);
      expect(last().body.toString()).toBe(word);
    }
    await changeProxy(server, proxy, wantedOf({}));
    await askProxy(server, proxy, { body: 'as it is' });
    expect(last().body.toString()).toBe('as it is');
  });
});
