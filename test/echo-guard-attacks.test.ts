// Attempts of a destination to say a value back past the echo guard, and what the guard leaves in logs, traces and the database.
import { type IncomingMessage, request as requestHttp, type ServerResponse } from 'node:http';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Collector, startCollector } from './support/collector.ts';
import { tokenOf } from './support/reactors.ts';
import { startServerBefore, type TestServer, upstreamOn } from './support/server.ts';
import { makeProxy, type StoredProxy } from './support/stored-proxies.ts';
import { type Received, startUpstream, type Upstream } from './support/upstream.ts';

const NUMBER = '5555555555554444';
const NAME = 'Zoë "Q" O\'Hara & Söhne';

type Answering = (response: ServerResponse) => unknown;

let collector: Collector;
let server: TestServer;
let upstream: Upstream;
let card: string;
let name: string;
const proxies = new Map<string, StoredProxy>();
let answering: Answering = (response) => response.end();

beforeAll(async () => {
  collector = await startCollector();
  upstream = await startUpstream({
    answer: (_: IncomingMessage, response: ServerResponse, __: Received) => void answering(response),
  });
  server = await startServerBefore(upstreamOn(upstream.port), { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
  const data = { number: NUMBER, expiration_month: 12, expiration_year: 2040, cvc: '739' };
  card = await tokenOf(server, data, { type: 'card' });
  name = await tokenOf(server, NAME);
  const destination_url = `https://upstream.test:${upstream.port}`;
  for (const echo_guard of ['off', 'mask', 'block'])
    proxies.set(echo_guard, await makeProxy(server, { destination_url, echo_guard }));
  proxies.set('none', await makeProxy(server, { destination_url }));
});
afterAll(async () => {
  await server.close();
  await upstream.close();
  await collector.close();
});

type Came = {
  status: number;
  statusText: string;
  headers: [name: string, value: string][];
  body: Buffer;
  trailers: string[];
  /** Status lines and headers before the answer. */
  early: string;
  isWhole: boolean;
};

const pairsOf = (raw: readonly string[]): [string, string][] =>
  Array.from({ length: raw.length / 2 }, (_, at) => [raw[2 * at] as string, raw[2 * at + 1] as string]);

/** Sends both values to a destination that answers so. @returns all that the caller sees. */
const ask = (mode: string, answer: Answering, method = 'POST'): Promise<Came> => {
  answering = answer;
  const { hostname, port } = new URL(server.base_url);
  const headers = {
    'svc-api-key': server.tenant.api_key,
    'svc-proxy-key': proxies.get(mode)?.key ?? '',
    'content-type': 'application/json',
    'x-card': `{{ ${card} | json: '$.number' }}`,
    te: 'trailers',
  };
  return new Promise((resolve, reject) => {
    let early = '';
    const sent = requestHttp({ hostname, port, method, path: '/proxy/a', headers, agent: false }, (response) => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('error', () => {});
      response.on('close', () =>
        resolve({
          status: response.statusCode ?? 0,
          statusText: response.statusMessage ?? '',
          headers: pairsOf(response.rawHeaders),
          body: Buffer.concat(pieces),
          trailers: response.rawTrailers,
          early,
          isWhole: response.complete,
        }),
      );
    });
    sent.on('information', (information) => (early += JSON.stringify(information)));
    sent.on('error', reject);
    sent.end(method === 'GET' ? undefined : JSON.stringify({ name: `{{ ${name} }}` }));
  });
};

const say =
  (body: string | Buffer, type = 'text/plain', headers: Record<string, string | string[]> = {}): Answering =>
  (response) => {
    response.writeHead(200, { 'content-type': type, ...headers });
    response.end(body);
  };

/** In pieces, each of which is a chunk of its own on the wire. */
const sayInPieces =
  (pieces: readonly (string | Buffer)[], type = 'text/plain', headers: Record<string, string> = {}): Answering =>
  async (response) => {
    response.writeHead(200, { 'content-type': type, ...headers });
    for (const piece of pieces) {
      response.write(piece);
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  };

const each = (encode: (character: string, at: number) => string, text = NUMBER): string =>
  [...text].map(encode).join('');
const codeOf = (character: string): number => character.codePointAt(0) as number;
const hexOf = (character: string): string => codeOf(character).toString(16);
const percent = (character: string): string => `%${hexOf(character)}`;
const cut = (text: string, size: number): string[] => text.match(new RegExp(`.{1,${size}}`, 'gsu')) ?? [];
const swapped = (text: string): Buffer => Buffer.from(text, 'utf16le').swap16();
const utf32 = (text: string): Buffer => Buffer.from(each((character) => `${character}\0\0\0`, text));
const json = (text: string): string => `{"a":"${text}"}`;
const trailing =
  (trailer: string): Answering =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/plain', trailer: 'x-end' });
    response.write('abc');
    response.addTrailers({ 'x-end': trailer });
    response.end();
  };
const withHead =
  (status: number, statusText: string, headers: Record<string, string | string[]>): Answering =>
  (response) => {
    response.writeHead(status, statusText, headers);
    response.end();
  };

/** What the destination writes, and how the value stands in it. */
const attempts: [attempt: string, answer: Answering, secret: string | Buffer][] = [
  ['chunks of one byte', sayInPieces([...NUMBER]), NUMBER],
  ['chunks of three bytes', sayInPieces(cut(`a ${NUMBER}`, 3)), NUMBER],
  [
    'a chunk within a JSON escape',
    sayInPieces(cut(json(each((it) => `\\u003${it}`)), 5), 'application/json'),
    '\\u0035',
  ],
  ['chunks within percent escapes', sayInPieces(cut(each(percent), 2)), '%35'],
  ['chunks within base64', sayInPieces(cut(Buffer.from(`ab${NUMBER}`).toString('base64'), 7)), 'NTU1NTU1NTU1'],
  [
    'JSON escapes in lower case',
    say(json(each((it) => `\\u${hexOf(it).padStart(4, '0')}`, NAME)), 'application/json'),
    '\\u0048',
  ],
  [
    'JSON escapes in upper case',
    say(json(each((it) => `\\u${hexOf(it).padStart(4, '0').toUpperCase()}`, NAME)), 'application/json'),
    '\\u0048',
  ],
  [
    'a JSON escape of every second character',
    say(json(each((it, at) => (at % 2 === 0 ? it : `\\u003${it}`)))),
    '5\\u0035',
  ],
  [
    'escapes of JavaScript',
    say(
      each((it) => `\\x3${it}`),
      'text/javascript',
    ),
    '\\x35',
  ],
  [
    'escapes of JavaScript in braces',
    say(
      each((it) => `\\u{3${it}}`),
      'text/javascript',
    ),
    '\\u{35}',
  ],
  ['JSON in JSON', say(json(each((it) => `\\\\u003${it}`)), 'application/json'), '\\u0035'],
  ['a number of JSON', say(`{"a":${NUMBER}}`, 'application/json'), NUMBER],
  ['a number of JSON with an exponent behind it', say(`{"a":${NUMBER}e0}`, 'application/json'), NUMBER],
  ['a name of JSON', say(`{"${NUMBER}":1}`, 'application/json'), NUMBER],
  [
    'HTML in decimal',
    say(
      each((it) => `&#${codeOf(it)};`),
      'text/html',
    ),
    '&#53;',
  ],
  [
    'HTML in decimal with zeros',
    say(
      each((it) => `&#00000${codeOf(it)};`),
      'text/html',
    ),
    '&#0000053;',
  ],
  ['HTML in decimal without semicolons', say(`${each((it) => `&#${codeOf(it)}`)} end`, 'text/html'), '&#53&#53'],
  [
    'HTML in hex',
    say(
      each((it) => `&#x${hexOf(it)};`),
      'text/html',
    ),
    '&#x35;',
  ],
  [
    'HTML in upper hex with zeros',
    say(
      each((it) => `&#X000${hexOf(it)};`),
      'text/html',
    ),
    '&#X00035;',
  ],
  [
    'HTML of HTML',
    say(
      each((it) => `&amp;#${codeOf(it)};`),
      'text/html',
    ),
    '&amp;#53;',
  ],
  ['names of HTML', say(NAME.replaceAll('"', '&quot;').replaceAll('&', '&amp;'), 'text/html'), 'Zoë'],
  ['names of Latin letters', say(NAME.replace('ë', '&euml;').replace('ö', '&ouml;'), 'text/html'), 'Zo&euml;'],
  ['CDATA', say(`<a><![CDATA[${NUMBER}]]></a>`, 'application/xml'), NUMBER],
  ['an attribute of XML', say(`<a b='${NUMBER}'/>`, 'application/xml'), NUMBER],
  ['percent escapes', say(each(percent)), '%35'],
  ['percent of percent', say(each((it) => `%25${hexOf(it)}`)), '%2535'],
  ['percent escapes of JavaScript', say(each((it) => `%u003${it}`)), '%u0035'],
  ['an escape of an escape', say(each((it) => `\\u0025${hexOf(it)}`)), '\\u002535'],
  ['an escape within an escape', say(each((it) => `%3%3${it}`)), '%3%35'],
  ['a letter of an escape in an escape', say(each((it) => `\\%7500${hexOf(it)}`)), '\\%750035'],
  [
    'another escape for each character',
    say(each((it, at) => [percent(it), `&#${codeOf(it)};`, `\\u003${it}`][at % 3] as string)),
    '%35&#53;',
  ],
  ['a form', say(new URLSearchParams({ a: NAME }).toString(), 'application/x-www-form-urlencoded'), 'Zo%C3%AB'],
  ['a form with groups of digits', say('a=5555+5555+5555+4444', 'application/x-www-form-urlencoded'), '5555+5555'],
  ['groups with dashes', say('5555-5555-5555-4444'), '5555-5555'],
  [
    'base64url',
    say(Buffer.from(`>>>${NAME}???`).toString('base64url')),
    Buffer.from(NAME).toString('base64url').slice(0, 20),
  ],
  ['hex in lower case', say(Buffer.from(NAME).toString('hex')), '48617261'],
  ['hex in upper case', say(Buffer.from(NAME).toString('hex').toUpperCase()), '48617261'],
  ['UTF-16', say(Buffer.from(`a ${NUMBER}`, 'utf16le'), 'text/plain; charset=utf-16'), Buffer.from(NUMBER, 'utf16le')],
  [
    'UTF-16 of the other order with a byte order mark',
    say(swapped(`\ufeff${NUMBER}`), 'text/plain; charset=utf-16'),
    swapped(NUMBER),
  ],
  ['UTF-32', say(utf32(NUMBER), 'text/plain; charset=utf-32'), utf32(NUMBER)],
  [
    'JSON escapes in UTF-16',
    say(Buffer.from(json(each((it) => `\\u003${it}`)), 'utf16le'), 'application/json'),
    Buffer.from('\\u0035', 'utf16le'),
  ],
  ['HTML in UTF-16', say(swapped(each((it) => `&#${codeOf(it)};`)), 'text/html'), swapped('&#53;')],
  ['a byte order mark', say(`\ufeff${NUMBER}`), NUMBER],
  ['Latin-1', say(Buffer.from(NAME, 'latin1'), 'text/plain; charset=iso-8859-1'), Buffer.from(NAME, 'latin1')],
  ['gzip', say(gzipSync(NUMBER), 'text/plain', { 'content-encoding': 'gzip' }), NUMBER],
  [
    'gzip in two members',
    say(Buffer.concat([gzipSync(NUMBER.slice(0, 9)), gzipSync(NUMBER.slice(9))]), 'text/plain', {
      'content-encoding': 'gzip',
    }),
    NUMBER,
  ],
  ['gzip of gzip', say(gzipSync(gzipSync(NUMBER)), 'text/plain', { 'content-encoding': 'gzip, gzip' }), NUMBER],
  ['brotli', say(brotliCompressSync(NUMBER), 'text/plain', { 'content-encoding': 'br' }), NUMBER],
  ['deflate', say(deflateSync(NUMBER), 'text/plain', { 'content-encoding': 'deflate' }), NUMBER],
  ['deflate without a head', say(deflateRawSync(NUMBER), 'text/plain', { 'content-encoding': 'deflate' }), NUMBER],
  ['x-gzip', say(gzipSync(NUMBER), 'text/plain', { 'content-encoding': 'x-gzip' }), NUMBER],
  ['a value of a header', say('', 'text/plain', { 'x-a': NUMBER }), NUMBER],
  ['a name of a header', say('', 'text/plain', { [`x-${NUMBER}`]: '1' }), NUMBER],
  ['the second of two headers', say('', 'text/plain', { 'x-a': ['1', NUMBER] }), NUMBER],
  ['a cookie', say('', 'text/plain', { 'set-cookie': [`a=${NUMBER}; Path=/`, 'b=1'] }), NUMBER],
  ['a challenge', withHead(401, 'Unauthorized', { 'www-authenticate': `Basic realm="${NUMBER}"` }), NUMBER],
  ['the place of a redirect', withHead(302, 'Found', { location: `https://a.test/${each(percent)}?a=1` }), '%35'],
  ['a link to preload', withHead(200, 'OK', { link: `<https://a.test/${NUMBER}>; rel=preload` }), NUMBER],
  ['the reason phrase', withHead(402, `No ${NUMBER}`, {}), NUMBER],
  ['a code of a header', say('', 'text/plain', { cvc: '739' }), '739'],
  ['a trailer', trailing(NUMBER), NUMBER],
  [
    'early hints',
    (response) => {
      response.writeEarlyHints({ link: `<https://a.test/${NUMBER}>; rel=preload`, 'x-a': NUMBER });
      say('abc')(response);
    },
    NUMBER,
  ],
  [
    'a processing notice',
    (response) => {
      response.writeProcessing();
      say(NUMBER)(response);
    },
    NUMBER,
  ],
  [
    'a part of a multipart',
    say(`--x\r\ncontent-disposition: form-data; name="a"\r\n\r\n${NUMBER}\r\n--x--`, 'multipart/form-data; boundary=x'),
    NUMBER,
  ],
  [
    'a file name of a multipart',
    say(`--x\r\ncontent-disposition: form-data; filename="${NUMBER}"\r\n\r\na\r\n--x--`, 'multipart/mixed; boundary=x'),
    NUMBER,
  ],
  [
    'an event stream with CR alone',
    sayInPieces(['data: 5555\r\r', `data: ${NUMBER}\r\r`], 'text/event-stream'),
    NUMBER,
  ],
  ['an event stream in pieces', sayInPieces(cut(`data: ${NUMBER}\n\n`, 4), 'text/event-stream'), NUMBER],
  ['lines of JSON', say(`{"a":1}\n{"a":"${NUMBER}"}\n`, 'application/x-ndjson'), NUMBER],
  ['a type that is none', say(NUMBER, 'nothing'), NUMBER],
  ['no type', (response) => response.end(NUMBER), NUMBER],
  [
    'an error of the server',
    (response) => {
      response.writeHead(500, { 'content-type': 'application/json' });
      response.end(json(NUMBER));
    },
    NUMBER,
  ],
];

const isInAny = ({ statusText, headers, body, trailers, early }: Came, secret: string | Buffer): boolean =>
  body.includes(secret) ||
  [statusText, early, ...headers.flat(), ...trailers].some((text) => text.includes(String(secret)));

/** Runs of eight characters of a value. */
const runsOf = (value: string): string[] =>
  Array.from({ length: value.length - 7 }, (_, at) => value.slice(at, at + 8));

describe.each(['mask', 'block'])('%s: a destination does not say a value back', (mode) => {
  test.each(attempts)('by %s', async (_, answer, secret) => {
    const came = await ask(mode, answer);
    expect(isInAny(came, secret)).toBe(false);
    for (const value of [NUMBER, NAME]) for (const run of runsOf(value)) expect(isInAny(came, run)).toBe(false);
  });
});

/** Each with what the caller must get, byte by byte. */
const plain: [
  answer: string,
  method: string,
  status: number,
  headers: Record<string, string | string[]>,
  body: string | Buffer | undefined,
][] = [
  ['a value', 'POST', 200, { 'content-type': 'application/json', etag: '"a"' }, json(NUMBER)],
  ['gzip', 'POST', 200, { 'content-type': 'text/plain', 'content-encoding': 'gzip' }, gzipSync(`a ${NUMBER}`)],
  ['an unknown coding', 'POST', 200, { 'content-encoding': 'zstd' }, Buffer.from([1, 2, 3])],
  ['a broken coding', 'GET', 200, { 'content-encoding': 'gzip' }, 'no gzip'],
  ['binary', 'GET', 200, { 'content-type': 'image/png' }, Buffer.from(Array.from({ length: 256 }, (_, at) => at))],
  ['ranges', 'GET', 206, { 'content-type': 'multipart/byteranges; boundary=a' }, `--a\r\n\r\n${NUMBER}\r\n--a--`],
  ['an event stream', 'GET', 200, { 'content-type': 'text/event-stream' }, `data: ${NUMBER}\r\r`],
  ['headers more than once', 'GET', 200, { 'set-cookie': ['a=1', `b=${NUMBER}`], 'x-a': NUMBER }, 'abc'],
  ['no content', 'POST', 204, { 'x-a': NUMBER }, undefined],
  ['nothing new', 'GET', 304, { etag: '"a"' }, undefined],
  ['a refusal', 'POST', 402, { 'content-type': 'application/json' }, json(NUMBER)],
  ['a fault', 'POST', 500, { 'content-type': 'text/html' }, `<p>${NUMBER}</p>`],
];

test.each(plain)('off: %s passes byte by byte', async (_, method, status, headers, body) => {
  const came = await ask(
    'off',
    (response) => {
      response.writeHead(status, `Reason ${status}`, headers);
      response.end(body);
    },
    method,
  );
  expect([came.status, came.statusText, came.isWhole]).toEqual([status, `Reason ${status}`, true]);
  expect(came.body.equals(Buffer.from(body ?? ''))).toBe(true);
  const wanted = Object.entries(headers).flatMap(([key, value]) => [value].flat().map((one) => `${key}: ${one}`));
  expect(came.headers.map(([key, value]) => `${key.toLowerCase()}: ${value}`)).toEqual(expect.arrayContaining(wanted));
  expect(came.headers.some(([key]) => /^svc-echo/i.test(key))).toBe(false);
});

test.each([
  ['a value', NUMBER],
  ['a digest', 'sha-256=:AAAA:'],
])('off: trailers with %s go no further, as without a guard', async (_, trailer) => {
  const [off, none] = [await ask('off', trailing(trailer)), await ask('none', trailing(trailer))];
  const lasting = (came: Came) => came.headers.filter(([key]) => !/^(?:date|svc-trace-id)$/i.test(key));
  expect(lasting(off).map(([key]) => key.toLowerCase())).not.toEqual(expect.arrayContaining(['trailer']));
  expect([off.body.toString(), off.trailers, off.isWhole]).toEqual(['abc', [], true]);
  expect({ ...off, headers: lasting(off) }).toEqual({ ...none, headers: lasting(none) });
});

test('logs, traces and the database hold no value that was said back', async () => {
  for (const mode of ['mask', 'block', 'off'])
    for (const answer of [
      say(json(NUMBER), 'application/json'),
      say('', 'text/plain', { 'x-a': NUMBER }),
      withHead(402, NUMBER, {}),
    ])
      await ask(mode, answer);
  const spellings = [NUMBER, NAME].flatMap((value) => {
    const bytes = Buffer.from(value);
    return [
      value,
      bytes.toString('hex'),
      ...[0, 1, 2].map((at) =>
        Buffer.concat([Buffer.alloc(at), bytes])
          .toString('base64')
          .slice(4, 16),
      ),
    ];
  });
  const holding = (texts: readonly string[]): string[] =>
    spellings.filter((spelling) => texts.some((text) => text.includes(spelling)));
  await expect.poll(() => collector.spans().length, { timeout: 30_000 }).toBeGreaterThan(20);
  expect(holding([JSON.stringify(collector.spans())])).toEqual([]);
  expect(server.logLines.length).toBeGreaterThan(0);
  expect(holding(server.logLines)).toEqual([]);
  const tables = await server.sql(
    `SELECT format('%I', c.relname) AS name FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')`,
  );
  expect(tables.length).toBeGreaterThan(40);
  let found = 0;
  for (const { name: table } of tables) {
    const rows = await server.sql(`SELECT t::text AS row FROM ${String(table)} t`);
    found += rows.length;
    expect([table, holding(rows.map(({ row }) => String(row)))]).toEqual([table, []]);
  }
  expect(found).toBeGreaterThan(200);
});
