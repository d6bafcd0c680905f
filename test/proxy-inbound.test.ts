// Proxies that take requests of other systems: braces are data, code sees the exact bytes, and bad data is the sender's fault.
import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { codeOf } from './support/reactors.ts';
import { startServerBefore, type TestServer } from './support/server.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

const HOST = 'backend.test';
const BRACES = '{"note":"Dear {{ name }}, {{id | json: 1}}"}';

let server: TestServer;
let upstream: Upstream;
let destination_url: string;

beforeAll(async () => {
  upstream = await startUpstream({ hosts: [HOST] });
  server = await startServerBefore({ [HOST]: upstream.port });
  destination_url = `https://${HOST}:${upstream.port}/base?v=2`;
});
afterAll(async () => {
  await server.close();
  await upstream.close();
});

const makeProxy = async (more: object): Promise<{ id: string; key: string; expressions: string }> => {
  const made = await server.request('POST', '/proxies', {
    json: { name: 'Inbound', destination_url, require_auth: false, ...more },
  });
  expect(made.status, made.text).toBe(201);
  return made.body;
};

type Sent = { body: string | Buffer; path?: string; headers?: Record<string, string> };

const send = async (key: string, { body, path = '/in', headers = {} }: Sent) => {
  const response = await fetch(`${server.base_url}/proxy${path}`, {
    method: 'POST',
    headers: { 'svc-proxy-key': key, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : Uint8Array.from(body),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
};

const applicationOf = async (...permissions: ('token:create' | 'token:use')[]) => ({
  id: (await server.newKey(server.tenant, { permissions })).application_id,
});

/** Returns what `expression` is in a request transform, as the response of the proxy. */
const showing = (expression: string) => ({
  request_transform: {
    code: codeOf(`const { CustomHttpResponseError } = require('@svc/reactor-formulas-sdk');
      throw new CustomHttpResponseError({ status: 200, body: { shown: ${expression} } });`),
  },
});

describe('expressions: off', () => {
  test.each([
    ['application/json', BRACES],
    ['application/x-www-form-urlencoded', 'note=%7B%7B+name+%7D%7D&{{x}}=1'],
    ['application/xml', '<a b={{x}}>{{ name }}</a>'],
    ['text/plain', '{{'],
    ['multipart/form-data; boundary=b', '--b\r\n{{ x }}\r\n--b--'],
  ])('leaves braces in %s, path, query and headers as they came', async (type, body) => {
    const { key } = await makeProxy({ expressions: 'off' });
    const path = '/%7B%7Bname%7D%7D?q=%7B%7Bname%7D%7D';
    const sent = await send(key, { body, path, headers: { 'content-type': type, 'x-note': '{{ name }}' } });
    expect(sent.status).toBe(200);
    const received = upstream.received.at(-1);
    expect(received?.url).toBe('/base/%7B%7Bname%7D%7D?v=2&q=%7B%7Bname%7D%7D');
    expect(String(received?.body)).toBe(body);
    expect(JSON.stringify(received)).toContain('{{ name }}');
  });

  test('inserts no value, also of a caller that may use it', async () => {
    const { body: token } = await server.request('POST', '/tokens', { json: { type: 'token', data: 'raw-value' } });
    const application = await applicationOf('token:use');
    const body = JSON.stringify({ pan: `{{ ${token.id} }}` });
    const off = await makeProxy({ expressions: 'off', application });
    expect((await send(off.key, { body })).status).toBe(200);
    expect(String(upstream.received.at(-1)?.body)).toBe(body);
    const on = await makeProxy({ application });
    expect((await send(on.key, { body })).status).toBe(200);
    expect(String(upstream.received.at(-1)?.body)).toBe('{"pan":"raw-value"}');
  });

  test('is on by default, also after a change without it, and no other word', async () => {
    const { id, key, expressions } = await makeProxy({});
    expect(expressions).toBe('on');
    expect((await send(key, { body: BRACES })).status).toBe(403);
    const change = (more: object) =>
      server.request('PUT', `/proxies/${id}`, {
        json: { name: 'Inbound', destination_url, require_auth: false, ...more },
      });
    expect((await change({ expressions: 'off' })).body.expressions).toBe('off');
    expect((await send(key, { body: BRACES })).status).toBe(200);
    expect((await change({})).body.expressions).toBe('on');
    expect((await send(key, { body: BRACES })).status).toBe(403);
    expect((await change({ expressions: 'maybe' })).body.errors).toEqual({ expressions: ["must be 'on' or 'off'"] });
  });
});

describe('a transform of the request', () => {
  const exact = '{\n  "id": "evt_1", "amount": 1.10, "name": "jos\\u00e9 \\/ x"\n}\n';

  test('gets the bytes of the body, all lines of the headers, and the URL', async () => {
    const { key } = await makeProxy({ expressions: 'off', ...showing('[args.raw_body, args.raw_headers, args.url]') });
    const { body } = await send(key, { body: exact, path: '/orders?x=1', headers: { 'X-Signature': 'v1=a' } });
    const [raw, headers, url] = body.shown;
    expect(Buffer.from(raw, 'base64').toString()).toBe(exact);
    expect(headers).toContainEqual(['X-Signature', 'v1=a']);
    expect(url).toBe(`https://${HOST}:${upstream.port}/base/orders?v=2&x=1`);
  });

  test('gets bytes that are no text, and null for none', async () => {
    const { key } = await makeProxy({ expressions: 'off', ...showing('args.raw_body') });
    const bytes = Buffer.from([0, 255, 254, 128, 10]);
    const { body } = await send(key, { body: bytes, headers: { 'content-type': 'application/octet-stream' } });
    expect(body.shown).toBe(bytes.toString('base64'));
    expect((await send(key, { body: '' })).body.shown).toBeNull();
  });

  test('can check a signature over the bytes', async () => {
    const check = `require('crypto').createHmac('sha256', 's').update('1.').update(Buffer.from(args.raw_body, 'base64')).digest('hex') === args.headers['x-signature']`;
    const { key } = await makeProxy({ expressions: 'off', ...showing(check) });
    const signature = createHmac('sha256', 's').update(`1.${exact}`).digest('hex');
    for (const [body, shown] of [
      [exact, true],
      [exact.replace('1.10', '1.1'), false],
    ] as const)
      expect((await send(key, { body, headers: { 'x-signature': signature } })).body.shown).toBe(shown);
  });

  const tokenize = (more = '') => ({
    request_transform: {
      code: codeOf(`const made = await svc.tokenize({ card: { type: 'card', data: args.body.card } });
        ${more} return { body: made, headers: args.headers };`),
    },
  });

  test('that tokenizes a bad card is a 400 that names the place, and sends nothing', async () => {
    const { key } = await makeProxy({
      expressions: 'off',
      application: await applicationOf('token:create'),
      ...tokenize(),
    });
    const before = upstream.received.length;
    const number = '4242424242424241';
    const { status, body } = await send(key, { body: JSON.stringify({ card: { number } }) });
    expect([status, body.proxy_error.detail]).toEqual([400, 'Bad Request']);
    expect(body.proxy_error.errors.error[0]).toContain('card.data.number');
    expect(JSON.stringify(body)).not.toContain(number);
    expect(upstream.received).toHaveLength(before);
  });

  test('that throws an error of its own is a 500, whatever it says', async () => {
    const application = await applicationOf('token:create');
    const { key } = await makeProxy({ expressions: 'off', application, ...tokenize(`throw new Error('mine');`) });
    const { status } = await send(key, { body: '{"card":{"number":"4242424242424242"}}' });
    expect(status).toBe(500);
  });

  test('without an application says why svc is null', async () => {
    const { key } = await makeProxy({ expressions: 'off', ...tokenize() });
    const { status, body } = await send(key, { body: '{"card":{}}' });
    expect([status, body.proxy_error.errors.error]).toEqual([
      500,
      ["Cannot read properties of null (reading 'tokenize'): the proxy has no application, so `svc` is null."],
    ]);
  });
});
