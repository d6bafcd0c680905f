// The echo guard at the entry points: what a destination says back of the values that were sent to it. Each split of each encoding is
// tested in src/modules/tokens/echo/echo-scanner.test.ts.
import { once } from 'node:events';
import { type IncomingMessage, request as requestHttp, type ServerResponse } from 'node:http';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DAY_MS } from '../src/platform/base/times.ts';
import { watchMemory } from './support/memory.ts';
import { codeOf, react, tokenOf } from './support/reactors.ts';
import { startServerBefore, type TestServer, upstreamOn } from './support/server.ts';
import {
  askOnWire,
  makeApplication,
  makeProxy,
  problemIn,
  type StoredProxy,
  type WireAnswer,
} from './support/stored-proxies.ts';
import { type Received, startUpstream, type Upstream } from './support/upstream.ts';

const NUMBER = '5555555555554444';
const CARD = { number: NUMBER, expiration_month: 12, expiration_year: 2040, cvc: '739' };
const TOLD = "The destination's answer holds a value that was sent to it.";

let server: TestServer;
let upstream: Upstream;
let destination_url: string;
let card: string;

type Answering = (response: ServerResponse, received: Received) => void;
/** By path. */
const answers = new Map<string, Answering>();
let paths = 0;

const answer = (request: IncomingMessage, response: ServerResponse, received: Received): void => {
  const { pathname } = new URL(request.url ?? '', 'https://upstream.test');
  answers.get(pathname)?.(response, received);
};

beforeAll(async () => {
  upstream = await startUpstream({ answer });
  server = await startServerBefore(upstreamOn(upstream.port));
  destination_url = `https://upstream.test:${upstream.port}`;
  card = await tokenOf(server, CARD, { type: 'card' });
});
afterAll(async () => {
  await server.close();
  await upstream.close();
});

const proxies = new Map<string, StoredProxy>();
const proxyOf = async (echo_guard: string, more: object = {}): Promise<StoredProxy> => {
  const name = JSON.stringify([echo_guard, more]);
  const proxy = proxies.get(name) ?? (await makeProxy(server, { destination_url, echo_guard, ...more }));
  proxies.set(name, proxy);
  return proxy;
};

const bodyOf = (): string => JSON.stringify({ card: `{{ ${card} }}` });

/** Sends the card through a proxy to a destination that answers so. */
const ask = async (
  mode: string,
  answering: Answering,
  { headers = {}, more = {}, key }: { headers?: Record<string, string>; more?: object; key?: string } = {},
): Promise<WireAnswer> => {
  paths += 1;
  const path = `/${paths}`;
  answers.set(path, answering);
  const { key: proxyKey } = await proxyOf(mode, more);
  const sent = { 'svc-proxy-key': proxyKey, 'content-type': 'application/json', ...headers };
  return askOnWire(server, 'POST', `/proxy${path}`, {
    headers: sent,
    body: bodyOf(),
    ...(key !== undefined && { key }),
  });
};

const say =
  (body: string | Buffer, type = 'text/plain', headers: Record<string, string> = {}): Answering =>
  (response) => {
    response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body), ...headers });
    response.end(body);
  };

const jsonEscapes = [...NUMBER].map((digit) => `\\u003${digit}`).join('');
const encodings: Record<string, string> = {
  itself: NUMBER,
  groups: '5555-5555-5555-4444',
  'JSON escapes': jsonEscapes,
  'HTML numbers': [...NUMBER].map((digit) => `&#x3${digit};`).join(''),
  percent: [...NUMBER].map((digit) => `%3${digit}`).join(''),
  base64: Buffer.from(`x${NUMBER}yz`).toString('base64'),
  hex: Buffer.from(NUMBER).toString('hex'),
};

const newestRun = async () => (await server.request('GET', '/runs?size=1')).body.data[0];

const holdsRun = (text: string, secret = NUMBER): boolean =>
  Array.from({ length: secret.length - 7 }, (_, at) => secret.slice(at, at + 8)).some((run) => text.includes(run));

describe.each(Object.entries(encodings))('a destination that says a value as %s', (_, encoded) => {
  test.each([
    ['JSON', `{"a":"${encoded}"}`, 'application/json'],
    ['XML', `<a>${encoded}</a>`, 'application/xml'],
    ['HTML', `<p>${encoded}</p>`, 'text/html'],
    ['a form', `a=${encoded}&b=1`, 'application/x-www-form-urlencoded'],
    ['text', `no: ${encoded}`, 'text/plain'],
  ])('in %s is masked', async (_place, text, type) => {
    const { status, headers, body } = await ask('mask', say(text, type));
    expect([status, headers['svc-echoes']]).toEqual([200, '1']);
    expect(body.toString()).not.toContain(encoded.slice(2, 12));
    expect(holdsRun(body.toString())).toBe(false);
    expect(headers['content-length']).toBe(String(body.length));
  });
  test('in a header is masked, and blocked', async () => {
    const echo = say('{}', 'application/json', { 'x-echo': `no ${encoded} here` });
    const { headers } = await ask('mask', echo);
    expect(headers['svc-echoes']).toBe('1');
    expect(headers['x-echo']).toMatch(/^no .* here$/);
    expect(headers['x-echo']).not.toContain(encoded.slice(2, 12));
    expect((await ask('block', echo)).status).toBe(502);
  });
  test('is blocked: 502, with the status of the destination kept', async () => {
    const before = server.logLines.length;
    const blocked = await ask('block', say(`{"a":"${encoded}"}`, 'application/json'));
    expect(blocked.status).toBe(502);
    expect(problemIn(blocked).detail).toBe(TOLD);
    expect(blocked.body.toString()).not.toContain(encoded.slice(2, 12));
    await expect
      .poll(newestRun)
      .toMatchObject({ outcome: 'failed', destination_status: 200, error: 'ECHO', echoes: 1 });
    expect(server.logLines.slice(before).some((line) => holdsRun(line))).toBe(false);
  });
});

test('the alarm comes once a day for a proxy, also from several processes', async () => {
  const echo = say(NUMBER);
  answers.set('/alarm', echo);
  // Its runs of tomorrow would be the newest of another test.
  const { tenant_id, api_key: key } = await server.newTenant();
  const made = await server.request('POST', '/tokens', { key, json: { type: 'token', data: NUMBER } });
  const proxy = await makeProxy(server, { destination_url, echo_guard: 'mask' }, key);
  const other = await startServerBefore(upstreamOn(upstream.port), { DATABASE_URL: server.databaseUrl });
  const alarms = () =>
    [...server.logLines, ...other.logLines]
      .filter((line) => line.includes('"alarm":"echo"') && line.includes(proxy.id))
      .map((line) => JSON.parse(line));
  try {
    const headers = { 'svc-proxy-key': proxy.key, 'content-type': 'text/plain' };
    const send = async (at: TestServer): Promise<void> => {
      const got = await askOnWire(at, 'POST', '/proxy/alarm', { headers, body: `{{ ${made.body.id} }}`, key });
      expect(got.headers['svc-echoes']).toBe('1');
    };
    await Promise.all([server, other, server, other].map(send));
    await expect.poll(alarms).toMatchObject([{ tenant_id, record: 'proxy', record_id: proxy.id }]);
    const leases = await server.sql(`SELECT name FROM leases WHERE name LIKE 'echo-alarm %' || $1`, [proxy.id]);
    expect(leases).toHaveLength(1);
    server.clock.offsetMs += DAY_MS;
    await send(server);
    await expect.poll(alarms).toHaveLength(2);
  } finally {
    server.clock.offsetMs -= DAY_MS;
    await other.close();
  }
});

describe('a mask', () => {
  test('is the expression of the token, escaped for its place', async () => {
    const { body } = await ask('mask', say(`{"number":${NUMBER},"cvc":"739","total":739}`, 'application/json'));
    expect(JSON.parse(body.toString())).toEqual({ number: `{{ ${card} }}`, cvc: `{{ ${card} }}`, total: 739 });
    const form = await ask('mask', say(`n=${NUMBER}`, 'application/x-www-form-urlencoded'));
    expect(new URLSearchParams(form.body.toString()).get('n')).toBe(`{{ ${card} }}`);
  });
  test('drops what describes the bytes that were', async () => {
    const digests = { etag: '"a"', 'content-md5': 'x', digest: 'sha-256=x', signature: 'a=:x:', 'x-kept': '1' };
    const { headers } = await ask('mask', say(NUMBER, 'text/plain', digests));
    expect(Object.keys(headers).filter((name) => name in digests)).toEqual(['x-kept']);
    const same = await ask('mask', say('nothing', 'text/plain', digests));
    expect(same.headers).toMatchObject({ ...digests, 'svc-echoes': '0' });
  });
});

describe('codings', () => {
  test.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('%s is decoded, searched and sent decoded', async (coding, encode) => {
    const echo = say(encode(Buffer.from(`a ${NUMBER} b`)), 'text/plain', { 'content-encoding': coding });
    const { headers, body } = await ask('mask', echo);
    expect([body.toString(), headers['content-encoding']]).toEqual([`a {{ ${card} }} b`, undefined]);
    expect((await ask('block', echo)).status).toBe(502);
    const asked = upstream.received.at(-1)?.headers.filter(([name]) => name === 'accept-encoding');
    expect(asked).toEqual([['accept-encoding', 'identity']]);
  });
  test.each([
    ['an unknown coding', say('abc', 'text/plain', { 'content-encoding': 'zstd' })],
    ['a broken coding', say('abc', 'text/plain', { 'content-encoding': 'gzip' })],
    [
      'a coding that is cut',
      say(gzipSync('abc'.repeat(99)).subarray(0, 20), 'text/plain', { 'content-encoding': 'gzip' }),
    ],
    ['ranges', say('abc', 'multipart/byteranges; boundary=a')],
  ])('%s is a 502 in both modes', async (_, answering) => {
    for (const mode of ['mask', 'block']) expect((await ask(mode, answering)).status).toBe(502);
  });
  test('a range is not asked for', async () => {
    await ask('mask', say('abc'), { headers: { range: 'bytes=0-6' } });
    expect(upstream.received.at(-1)?.headers.some(([name]) => name === 'range')).toBe(false);
  });
  test('an image is blocked where it holds a value, and passes where not', async () => {
    expect((await ask('mask', say(`GIF${NUMBER}`, 'image/gif'))).status).toBe(502);
    const bytes = Buffer.from([0, 1, 2, 255, 43, 37, 38, 92]);
    expect((await ask('mask', say(bytes, 'image/gif'))).body.equals(bytes)).toBe(true);
  });
});

describe('a long answer', () => {
  const filler = Buffer.alloc(1_100_000, 'lorem ipsum ');
  const late: Answering = (response) => {
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.write(filler);
    response.write(NUMBER.slice(0, 9));
    setImmediate(() => response.end(`${NUMBER.slice(9)} end`));
  };
  test('is masked as it comes, with the number in a trailer', async () => {
    const { headers, body, isWhole } = await ask('mask', late);
    expect([isWhole, headers['trailer'], headers['svc-echoes']]).toEqual([true, 'SVC-ECHOES', undefined]);
    expect(body.equals(Buffer.concat([filler, Buffer.from(`{{ ${card} }} end`)]))).toBe(true);
  });
  test('is broken off by an echo behind what was held', async () => {
    const { status, isWhole, body } = await ask('block', late);
    expect([status, isWhole]).toEqual([200, false]);
    expect(holdsRun(body.toString())).toBe(false);
    await expect.poll(newestRun).toMatchObject({ outcome: 'failed', error: 'ECHO', destination_status: 200 });
  });
  test('without values passes as it came', async () => {
    for (const mode of ['mask', 'block', 'off']) expect((await ask(mode, say(filler))).body.equals(filler)).toBe(true);
  });
});

describe('an answer that is after the memory', () => {
  test('is not kept: 32 MB of zeros behind the beginning of a value pass as they come', async () => {
    const piece = Buffer.alloc(1024 * 1024);
    const zeros: Answering = async (response) => {
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      response.write(NUMBER.slice(0, 9));
      for (let count = 0; count < 32; count += 1) if (!response.write(piece)) await once(response, 'drain');
      response.end();
    };
    await ask('mask', zeros);
    const memory = watchMemory({ megabytes: 96 });
    const { body, isWhole } = await ask('mask', zeros);
    memory.end();
    expect([isWhole, body.length, body.subarray(0, 9).toString()]).toEqual([
      true,
      9 + 32 * piece.length,
      NUMBER.slice(0, 9),
    ]);
    expect(body.subarray(9).every((byte) => byte === 0)).toBe(true);
  });
  test('is broken off where more than 1 MB may be the beginning of one value', async () => {
    const value = Array.from({ length: 2_000 }, (_, at) => ((at * 7_919) % 36).toString(36)).join('');
    const inHtml = (text: string): string =>
      text.replaceAll(/./g, (each) => `&#${String(each.charCodeAt(0)).padStart(23, '0')};`);
    const long = await tokenOf(server, value);
    const headers = { 'x-long': `{{ ${long} }}` };
    const escaped = inHtml(inHtml(value));
    expect(escaped.length).toBeGreaterThan(1_200_000);
    const stream: Answering = (response) => {
      response.writeHead(200, { 'content-type': 'text/html' });
      response.end(escaped);
    };
    const { isWhole, body } = await ask('mask', stream, { headers });
    expect([isWhole, body.length]).toEqual([false, 0]);
    await expect.poll(newestRun).toMatchObject({ outcome: 'failed', error: 'DECODE', destination_status: 200 });
  });
});

test('an event stream goes on line by line', async () => {
  const proxy = await proxyOf('mask');
  const sent: ServerResponse[] = [];
  answers.set('/events', (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: 5555\n\n');
    sent.push(response);
  });
  const { hostname, port } = new URL(server.base_url);
  const headers = {
    'svc-api-key': server.tenant.api_key,
    'svc-proxy-key': proxy.key,
    'content-type': 'application/json',
  };
  const asked = requestHttp({ hostname, port, method: 'POST', path: '/proxy/events', headers, agent: false });
  const came = new Promise<string[]>((resolve, reject) => {
    asked.on('error', reject);
    asked.on('response', async (response) => {
      const got: string[] = [];
      for await (const piece of response) {
        got.push(String(piece));
        if (got.length === 1) sent[0]?.write(`data: ${NUMBER}\n\n`);
        if (got.length === 2) sent[0]?.end();
      }
      resolve([...got, String(response.trailers['svc-echoes'])]);
    });
  });
  asked.end(bodyOf());
  expect(await came).toEqual(['data: 5555\n\n', `data: {{ ${card} }}\n\n`, '1']);
});

describe('who says how strict it is', () => {
  const echo = say(NUMBER);
  test('nobody: the answer is what it was', async () => {
    const { headers, body } = await ask('off', echo);
    expect([body.toString(), 'svc-echoes' in headers]).toEqual([NUMBER, false]);
    expect('svc-echo-guard' in headers).toBe(false);
  });
  test.each([
    ['off', 'mask', 200],
    ['off', 'block', 502],
    ['mask', 'block', 502],
    ['block', 'off', 502],
    ['block', 'mask', 502],
    ['mask', 'off', 200],
  ])('a proxy with %s and a request with %s: the stricter', async (mode, asked, status) => {
    const got = await ask(mode, echo, { headers: { 'svc-echo-guard': asked } });
    expect([got.status, holdsRun(got.body.toString())]).toEqual([status, false]);
    expect(upstream.received.at(-1)?.headers.some(([name]) => name.toLowerCase().startsWith('svc-'))).toBe(false);
  });
  test('a request with anything else: 400', async () => {
    const got = await ask('off', echo, { headers: { 'svc-echo-guard': 'on' } });
    expect(problemIn(got).errors).toEqual({ 'SVC-ECHO-GUARD': ['must be off, mask or block'] });
  });
  test('the application, where the request names its destination', async () => {
    answers.set('/app', echo);
    const application = await makeApplication(server, { permissions: ['token:use'], echo_guard: 'mask' });
    const headers = { 'svc-proxy-url': destination_url, 'content-type': 'application/json' };
    const { body } = await askOnWire(server, 'POST', '/proxy/app', { key: application.key, headers, body: bodyOf() });
    expect(body.toString()).toBe(`{{ ${card} }}`);
  });
  test('the tenant, where nothing else says it', async () => {
    const tenant = await server.newTenant();
    const { id: own } = (
      await server.request('POST', '/tokens', { key: tenant.api_key, json: { type: 'token', data: NUMBER } })
    ).body;
    const [silent, open] = await Promise.all(
      [{}, { echo_guard: 'off' }].map((more) => makeProxy(server, { destination_url, ...more }, tenant.api_key)),
    );
    answers.set('/tenant', echo);
    const send = async (proxy: StoredProxy | undefined) => {
      const headers = { 'svc-proxy-key': proxy?.key ?? '', 'content-type': 'text/plain' };
      return (
        await askOnWire(server, 'POST', '/proxy/tenant', { key: tenant.api_key, headers, body: `{{ ${own} }}` })
      ).body.toString();
    };
    expect(await send(silent)).toBe(NUMBER);
    const settings = { echo_guard: 'mask' };
    const { status } = await server.request('PUT', '/tenants/self', {
      key: tenant.api_key,
      json: { name: 'T', settings },
    });
    expect(status).toBe(200);
    expect(await send(silent)).toBe(`{{ ${own} }}`);
    expect(await send(open)).toBe(NUMBER);
  });
});

describe('code', () => {
  const transformOf = (text: string) => ({ code: codeOf(text) });
  test('that puts a value into the answer: it is masked behind the transform', async () => {
    const response_transform = transformOf(
      'return { body: { a: [1, 2], n: args.body.n.split("-").join("") }, headers: args.headers };',
    );
    const { body } = await ask('mask', say('{"n":"5-5-5-5-5-5-5-5-5-5-5-5-4-4-4-4"}', 'application/json'), {
      more: { response_transform },
    });
    expect(JSON.parse(body.toString())).toEqual({ a: [1, 2], n: `{{ ${card} }}` });
  });
  test('that opens a value itself, and throws it', async () => {
    const application = await makeApplication(server, {
      permissions: ['token:use', 'token:read'],
      rules: [{ priority: 1, container: '/', permissions: ['token:read'], transform: 'reveal' }],
    });
    const { id } = (await server.request('POST', '/tokens', { json: { type: 'token', data: 'Zaphod Beeblebrox' } }))
      .body;
    for (const [code, status] of [
      [`const v = await req.svc.detokenize('{{ ${id} }}'); return { body: { v }, headers: {} };`, 200],
      [`const v = (await req.svc.tokens.retrieve('${id}')).data; return { body: { v }, headers: {} };`, 200],
      [`throw new Error(await req.svc.detokenize('{{ ${id} }}'));`, 502],
    ] as const) {
      const response_transform = { code: `module.exports = async (req) => { ${code} };` };
      const got = await ask('mask', say('{}', 'application/json'), {
        more: { response_transform, application: { id: application.id } },
      });
      expect([got.status, got.body.toString()]).toEqual([status, expect.not.stringContaining('Zaphod')]);
      if (status === 200) expect(JSON.parse(got.body.toString())).toEqual({ v: `{{ ${id} }}` });
    }
  });
});

describe('a reactor', () => {
  const reactorOf = async (code: string, more: object): Promise<string> => {
    const made = await server.request('POST', '/reactors', { json: { name: 'Echo', code: codeOf(code), ...more } });
    expect(made.status, made.text).toBe(201);
    return made.body.id;
  };
  const argsOf = () => ({ card: `{{ ${card} }}` });
  const NUMBER_IN_ALL =
    'return { raw: { a: `no ${args.card.number}`, b: Buffer.from(args.card.number).toString("base64"), c: [1] } };';

  test('returns its result masked, blocked or as it is', async () => {
    const masked = await react(server, await reactorOf(NUMBER_IN_ALL, { echo_guard: 'mask' }), argsOf());
    expect([masked.status, masked.headers.get('svc-echoes')]).toEqual([200, '2']);
    expect(masked.body.raw).toMatchObject({ a: `no {{ ${card} }}`, c: [1] });
    expect(Buffer.from(masked.body.raw.b, 'base64').toString('latin1')).toContain(card.slice(1, -1));
    const blocked = await react(server, await reactorOf(NUMBER_IN_ALL, { echo_guard: 'block' }), argsOf());
    expect([blocked.status, blocked.body.detail]).toEqual([502, TOLD]);
    const off = await react(server, await reactorOf(NUMBER_IN_ALL, {}), argsOf());
    expect([off.body.raw.a, off.headers.has('svc-echoes')]).toEqual([`no ${NUMBER}`, false]);
  });
  test('shows no value in the tokens that its code made, also to a repetition', async () => {
    const TOKENIZED = `return { tokenize: { ['n' + args.card.number]: { type: 'token', data: 'x', metadata: { n: args.card.number } } } };`;
    const id = await reactorOf(TOKENIZED, { echo_guard: 'mask' });
    const send = (headers: Record<string, string>) =>
      server.request('POST', `/reactors/${id}/react`, { json: { args: argsOf() }, headers });
    const keyed = { 'svc-idempotency-key': 'echo-tokens' };
    for (const got of [await send({}), await send(keyed), await send(keyed)]) {
      expect([got.status, holdsRun(got.text)], got.text).toEqual([200, false]);
      expect(Object.keys(got.body.tokens)).toEqual([`n{{ ${card} }}`]);
    }
    const blocked = await reactorOf(TOKENIZED, { echo_guard: 'block' });
    const { status, body } = await react(server, blocked, argsOf());
    expect([status, body.detail]).toEqual([502, TOLD]);
  });
  test('is told as strict as it is, and by PATCH as strict as it becomes', async () => {
    const id = await reactorOf('return {};', { echo_guard: 'block' });
    const shown = async () => (await server.request('GET', `/reactors/${id}`)).body.echo_guard;
    expect(await shown()).toBe('block');
    await server.request('PATCH', `/reactors/${id}`, { json: { name: 'Other' } });
    expect(await shown()).toBe('block');
    await server.request('PATCH', `/reactors/${id}`, { json: { echo_guard: null } });
    expect(await shown()).toBeUndefined();
  });
  test.each([
    ['an error of its code', 'throw new Error(args.card.number);'],
    [
      'a response of its code',
      'throw new (require("@svc/reactor-formulas-sdk").CustomHttpResponseError)({ status: 402, headers: { "x-a": args.card.number }, body: "no" });',
    ],
  ])('tells no value in %s', async (_, code) => {
    const got = await react(server, await reactorOf(code, { echo_guard: 'mask' }), argsOf());
    expect(holdsRun(got.text + JSON.stringify([...got.headers]))).toBe(false);
  });
  test('whose code asks a proxy sees the answer as it came; its own result is masked', async () => {
    const application = await makeApplication(server, { permissions: ['token:use'] });
    const proxy = await proxyOf('mask');
    answers.set('/nested', say(`{"n":"${NUMBER}"}`, 'application/json'));
    const code = `const got = await svc.proxy.post({ path: 'nested', headers: { 'SVC-PROXY-KEY': '${proxy.key}' }, body: { n: svc.expression('${card}', "json: '$.number'") } });
      return { raw: { length: got.body.n.length, n: got.body.n } };`;
    const id = await reactorOf(code, { application: { id: application.id } });
    const { body, text } = await react(server, id, {});
    expect(body.raw, text).toEqual({ length: 16, n: `{{ ${card} }}` });
  });
});
