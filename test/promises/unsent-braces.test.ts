// What looks like an expression is replaced by a value or refused: no destination receives it as it stands.
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ReactorServer, startReactorServer, tokenOf } from '../support/reactors.ts';
import { askOnWire, makeProxy, type WireOptions } from '../support/stored-proxies.ts';

let fixture: ReactorServer;
let id: string;
beforeAll(async () => {
  fixture = await startReactorServer();
  id = await tokenOf(fixture.server, 'the-value');
});
afterAll(() => fixture.close());

type Way = (expression: string) => {
  path?: string;
  headers?: Record<string, string | string[]>;
  body?: string | Buffer;
};

const typed =
  (type: string | string[], make: (expression: string) => string | Buffer = (expression) => `a ${expression} b`): Way =>
  (expression) => ({ headers: { 'content-type': type }, body: make(expression) });

const part = (headers: string, content = 'x') => `--b\r\n${headers}\r\n\r\n${content}\r\n`;
const PARTS = 'multipart/form-data; boundary=b';
const inUtf7 = (text: string) =>
  text.replace(
    /[{}]+/g,
    (braces) => `+${Buffer.from(braces, 'utf16le').swap16().toString('base64').replace(/=+$/, '')}-`,
  );
const inUtf32 = (text: string) => Buffer.from([...text].flatMap((each) => [each.charCodeAt(0), 0, 0, 0]));
const cbor = (text: string) => Buffer.concat([Buffer.from([0xa1, 0x61, 0x61, 0x78, text.length]), Buffer.from(text)]);
const nested = (level: number, content: string): string =>
  level === 0
    ? content
    : `--b${level}\r\nContent-Type: multipart/mixed; boundary=b${level - 1}\r\n\r\n${nested(level - 1, content)}\r\n--b${level}--`;

const ways: [string, Way][] = [
  ['the name of a member', typed('application/json', (expression) => `{"a":1,"${expression}":2}`)],
  ['an escaped name', typed('application/json', (expression) => `{"${expression.replace('{{', '\\u007b\\u007B')}":2}`)],
  ['a name in a line of JSON', typed('application/x-ndjson', (expression) => `{"a":1}\n{"${expression}":2}`)],
  ['a name in JSON without a type', typed([], (expression) => `{"${expression}":2}`)],
  ['the name of a field', typed('application/x-www-form-urlencoded', (expression) => `a=1&${expression}=2`)],
  ['the name of a parameter', (expression) => ({ path: `/proxy?a=1&${encodeURIComponent(expression)}=2` })],
  [
    'the file name of a part',
    typed(PARTS, (expression) => `${part(`Content-Disposition: form-data; name="a"; filename="${expression}"`)}--b--`),
  ],
  [
    'the name of a part',
    typed(PARTS, (expression) => `${part(`Content-Disposition: form-data; name="${expression}"`)}--b--`),
  ],
  [
    'a file name in percent-encoding',
    typed(
      PARTS,
      (expression) =>
        `${part(`Content-Disposition: form-data; name="a"; filename*=UTF-8''${encodeURIComponent(expression)}`)}--b--`,
    ),
  ],
  ['a preamble', typed(PARTS, (expression) => `${expression}\r\n${part('x: y')}--b--`)],
  ['an epilogue', typed(PARTS, (expression) => `${part('x: y')}--b--\r\n${expression}`)],
  [
    'a part in quoted-printable',
    typed(PARTS, (expression) => `${part('Content-Transfer-Encoding: quoted-printable', expression)}--b--`),
  ],
  ['a part of CBOR', typed(PARTS, (expression) => `${part('Content-Type: application/cbor', expression)}--b--`)],
  [
    'a part that is no UTF-8',
    typed(PARTS, (expression) => Buffer.from(`${part('x: y', `\xff${expression}`)}--b--`, 'latin1')),
  ],
  [
    'a part on the fifth level',
    typed('multipart/mixed; boundary=b5', (expression) => nested(5, `--b0\r\n\r\n${expression}\r\n--b0--`)),
  ],
  ['multipart without a boundary', typed('multipart/form-data')],
  ['CBOR', typed('application/cbor', cbor)],
  ['a suffix of CBOR', typed('application/senml+cbor', cbor)],
  ['MessagePack', typed('application/msgpack', cbor)],
  ['Protobuf', typed('application/x-protobuf', cbor)],
  ['an unknown type', typed('application/x-own')],
  ['a name in an invalid type', typed('nonsense', (expression) => `{"${expression}":1}`)],
  ['two types in one header', typed('application/json, text/plain')],
  ['two headers of types', typed(['application/json', 'text/plain'])],
  ['UTF-7', typed('text/plain; charset=utf-7')],
  ['UTF-7, encoded', typed('text/plain; charset=utf-7', inUtf7)],
  ['UTF-32', typed('text/plain; charset=utf-32', inUtf32)],
  ['a name in JSON in Shift JIS', typed('application/json; charset=shift_jis', (expression) => `{"${expression}":1}`)],
  [
    'XML that declares another charset',
    typed('text/xml', (expression) => `<?xml version="1.0" encoding="x-own"?><a>${expression}</a>`),
  ],
  ['binary data without a type', typed([], (expression) => Buffer.from(`\xff\x00${expression}`, 'latin1'))],
  [
    'a compressed body of an unknown type',
    (expression) => ({
      headers: { 'content-type': 'application/cbor', 'content-encoding': 'gzip' },
      body: gzipSync(cbor(expression)),
    }),
  ],
  [
    'a compressed body in an unknown charset',
    (expression) => ({
      headers: { 'content-type': 'text/plain; charset=utf-7', 'content-encoding': 'gzip' },
      body: gzipSync(expression),
    }),
  ],
  ['the destination', (expression) => ({ headers: { 'svc-proxy-url': `${fixture.url}/${expression}` } })],
];

const send = (way: ReturnType<Way>, named: Record<string, string>) => {
  const { path = '/proxy', headers = {}, body } = way;
  const options: WireOptions = { headers: { ...named, ...headers }, ...(body !== undefined && { body }) };
  return askOnWire(fixture.server, 'POST', path, options);
};

/** Refused with any body: receivers read these differently than the proxy would. */
const refusedAlways = new Set([
  'multipart without a boundary',
  'two types in one header',
  'two headers of types',
  'UTF-7',
  'UTF-7, encoded',
  'UTF-32',
  'a compressed body in an unknown charset',
]);

test.each(ways)('an expression in %s is a 400 or 415, and nothing is sent', async (name, way) => {
  for (const expression of [`{{ ${id} }}`, `{{${id}}}`, `{{ ${id} | json: '$.number' }}`]) {
    const before = fixture.upstream.received.length;
    const answer = await send(way(expression), { 'svc-proxy-url': fixture.url });
    expect([400, 415], answer.body.toString()).toContain(answer.status);
    expect(fixture.upstream.received).toHaveLength(before);
  }
  if (refusedAlways.has(name)) return;
  // Without an expression it is sent.
  const sent = await send(way('{ none }'), { 'svc-proxy-url': fixture.url });
  expect(sent.status, sent.body.toString()).toBe(200);
});

test('a request transform gets no such body either', async () => {
  const code = 'module.exports = async ({ args }) => ({ body: args.body, headers: args.headers });';
  const { key } = await makeProxy(fixture.server, { destination_url: fixture.url, request_transform: { code } });
  for (const [name, way] of ways) {
    const sent = way(`{{ ${id} }}`);
    if (sent.headers?.['svc-proxy-url'] !== undefined) continue;
    const before = fixture.upstream.received.length;
    const answer = await send(sent, { 'svc-proxy-key': key });
    expect([400, 415], name).toContain(answer.status);
    expect(fixture.upstream.received).toHaveLength(before);
  }
});

test('a stored proxy has no expression in its destination', async () => {
  const json = { name: 'Proxy', destination_url: `${fixture.url}/{{ ${id} }}`.replaceAll(' ', '') };
  const answer = await fixture.server.request('POST', '/proxies', { json });
  expect([answer.status, Object.keys(answer.body.errors)], answer.text).toEqual([400, ['destination_url']]);
});

test('a body that is too large to be held is cut off before the expression', async () => {
  const whole = Buffer.concat([
    Buffer.alloc(11 * 1024 * 1024, 'x'),
    Buffer.from(`{{ ${id} }}`),
    Buffer.alloc(9000, 'y'),
  ]);
  for (const type of ['application/cbor', 'text/plain; charset=gbk', 'nonsense']) {
    const answer = await send({ headers: { 'content-type': type }, body: whole }, { 'svc-proxy-url': fixture.url });
    expect(answer.status, type).toBe(413);
    expect(fixture.upstream.received.some(({ body }) => body.includes(id))).toBe(false);
  }
});
