// Compressed and UTF-16 request bodies: expressions in them are found, and bodies without one arrive unchanged.
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { watchMemory } from './support/memory.ts';
import {
  makeProxy,
  type Message,
  nothingReaches,
  proxyErrorOf,
  type SharedProxyFixture,
  useProxyFixture,
  valuesOf,
} from './support/proxy.ts';
import { codeOf, tokenOf as tokenOn } from './support/reactors.ts';
import type { Answer } from './support/server.ts';

let fixture: SharedProxyFixture;
beforeAll(async () => {
  fixture = await useProxyFixture();
});
afterAll(() => fixture.close());

const MEGABYTE = 1024 * 1024;
/** What a coded body may be when it is decoded. */
const DECODED_BYTES_MAX = 10 * MEGABYTE;
const UNKNOWN = '00000000-0000-4000-8000-000000000000';
const JSON_TYPE = 'application/json';

type Sent = { type?: string; coding?: string; body: Uint8Array; headers?: Record<string, string> };

const forward = ({ type, coding, body, headers }: Sent): Promise<Answer> =>
  fixture.forward('POST', '/proxy', {
    headers: {
      ...(type !== undefined && { 'content-type': type }),
      ...(coding !== undefined && { 'content-encoding': coding }),
      ...headers,
    },
    body: new Uint8Array(body),
  });

const arriving = async (sent: Sent): Promise<Message> => {
  const before = fixture.destination.received.length;
  const answer = await forward(sent);
  expect(answer.status, answer.text).toBe(200);
  expect(fixture.destination.received).toHaveLength(before + 1);
  const message = fixture.last();
  expect(message.isWhole).toBe(true);
  expect(valuesOf(message, 'content-length')).toEqual([String(message.body.byteLength)]);
  return message;
};

const refused = async (sent: Sent) => {
  const answer = await nothingReaches(fixture, () => forward(sent));
  return { ...proxyErrorOf(answer), accepts: answer.headers.get('accept-encoding') };
};

/** What arrives is what was sent: bytes and headers. */
const passes = async (sent: Sent): Promise<void> => {
  const message = await arriving(sent);
  expect(message.body.equals(sent.body), 'the same bytes').toBe(true);
  expect(valuesOf(message, 'content-encoding')).toEqual(sent.coding === undefined ? [] : [sent.coding]);
  expect(valuesOf(message, 'content-type')).toEqual(sent.type === undefined ? [] : [sent.type]);
};

const big = (text: string): Buffer => Buffer.from(text, 'utf16le').swap16();
const little = (text: string): Buffer => Buffer.from(text, 'utf16le');

const codings: [coding: string, code: (body: Buffer) => Buffer][] = [
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['GZip', gzipSync],
  ['br', brotliCompressSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
  ['gzip, br', (body) => brotliCompressSync(gzipSync(body))],
  ['identity, gzip', gzipSync],
];

const kinds: [kind: string, type: string | undefined, around: (value: string) => string][] = [
  ['JSON', JSON_TYPE, (value) => `{ "n":1.0, "a":"${value}" }`],
  ['a form', 'application/x-www-form-urlencoded', (value) => `a=1&b=${value}`],
  ['XML', 'application/xml', (value) => `<a>${value}</a>`],
  ['text', 'text/plain', (value) => `say ${value}`],
  ['no type', undefined, (value) => `say ${value}`],
  [
    'multipart',
    'multipart/form-data; boundary=b',
    (value) => `--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n${value}\r\n--b--\r\n`,
  ],
];

describe('a compressed body', () => {
  test.each(codings)('by %s goes on decoded with a value in it, and unchanged without', async (coding, code) => {
    const id = await tokenOn(fixture.server, 'the-value');
    const sent = await arriving({ type: JSON_TYPE, coding, body: code(Buffer.from(`{"a":"{{ ${id} }}"}`)) });
    expect(sent.body.toString()).toBe('{"a":"the-value"}');
    expect(valuesOf(sent, 'content-encoding')).toEqual([]);
    expect(valuesOf(sent, 'content-type')).toEqual([JSON_TYPE]);
    await passes({ type: JSON_TYPE, coding, body: code(Buffer.from('{ "a":"{ no }" }')) });
  });

  test.each(kinds)('of %s is looked at', async (_, type, around) => {
    const id = await tokenOn(fixture.server, 'the-value');
    const sent = { ...(type !== undefined && { type }), coding: 'gzip' };
    const { body } = await arriving({ ...sent, body: gzipSync(around(`{{${id}}}`)) });
    expect(body.toString()).toBe(around('the-value'));
    await passes({ ...sent, body: gzipSync(around('nothing')) });
    const { status } = await refused({ ...sent, body: gzipSync(around(`{{${UNKNOWN}}}`)) });
    expect(status).toBe(400);
  });

  test('of identity is as any other', async () => {
    const id = await tokenOn(fixture.server, 'the-value');
    for (const coding of ['identity', 'IDENTITY', 'identity, identity']) {
      const message = await arriving({ type: 'text/plain', coding, body: Buffer.from(`{{${id}}}`) });
      expect([message.body.toString(), valuesOf(message, 'content-encoding')]).toEqual(['the-value', [coding]]);
    }
  });

  test('by what cannot be undone is a 415 that says what can', async () => {
    const body = gzipSync(gzipSync(gzipSync('x')));
    for (const coding of ['zstd', 'compress', 'gzip, zstd', 'unknown', 'gzip, gzip, gzip'])
      for (const type of [JSON_TYPE, 'text/plain', 'multipart/form-data; boundary=b'])
        expect(
          await refused({ type, coding, body: coding === 'zstd' ? zstdCompressSync('x') : body }),
          coding,
        ).toMatchObject({
          status: 415,
          accepts: 'gzip, deflate, br',
        });
  });

  test('of a type that is not looked at passes in any coding, whatever is in it', async () => {
    for (const type of ['image/png', 'application/octet-stream'])
      for (const coding of ['gzip', 'zstd', 'gzip, gzip, gzip']) await passes({ type, coding, body: gzipSync('{{') });
    // A format that is not known passes without an expression, and in a coding that is not known.
    await passes({ type: 'application/cbor', coding: 'gzip', body: gzipSync('{{') });
    await passes({ type: 'application/cbor', coding: 'zstd', body: gzipSync('{{ an-expression }}') });
  });

  test('that is broken is a 400, and nothing leaves', async () => {
    const whole = gzipSync(Buffer.from('{"a":1}'));
    for (const [coding, body] of [
      ['gzip', whole.subarray(0, -9)],
      ['gzip', Buffer.from('{"a":1}')],
      ['br', Buffer.from('{"a":1}')],
      ['gzip, br', whole],
    ] as const) {
      const { status, errors } = await refused({ type: JSON_TYPE, coding, body });
      expect([status, errors]).toEqual([400, { body: ['must be in the coding that Content-Encoding says'] }]);
    }
  });

  test('may be 10 MB when it is decoded, and is a 413 above', async () => {
    const fits = Buffer.alloc(DECODED_BYTES_MAX, ' ');
    for (const code of [gzipSync, brotliCompressSync]) {
      const coding = code === gzipSync ? 'gzip' : 'br';
      await passes({ type: 'text/plain', coding, body: code(fits) });
      const above = code(Buffer.concat([fits, Buffer.from(' ')]));
      expect(await refused({ type: 'text/plain', coding, body: above })).toMatchObject({ status: 413 });
    }
  });

  test('that is a bomb is a 413', async () => {
    // Members that follow each other are one body: 2 GB of zeros in 2 MB.
    const member = gzipSync(Buffer.alloc(MEGABYTE));
    const bomb = Buffer.concat(Array<Buffer>(2_000).fill(member));
    const layered = gzipSync(bomb);
    const memory = watchMemory({ megabytes: 200 });
    for (const [coding, body] of [
      ['gzip', bomb],
      ['gzip, gzip', layered],
    ] as const)
      expect(await refused({ type: JSON_TYPE, coding, body })).toMatchObject({ status: 413 });
    memory.end();
  });

  test('holds no room when its answer has gone', async () => {
    const body = gzipSync(Buffer.alloc(DECODED_BYTES_MAX, ' '));
    for (let round = 0; round < 8; round += 1) await passes({ type: 'text/plain', coding: 'gzip', body });
  });

  test('that has no room is a 429, and another tenant’s has it', async () => {
    const body = gzipSync(Buffer.alloc(DECODED_BYTES_MAX, ' '));
    const other = await fixture.server.newTenant();
    const all = Array.from({ length: 12 }, () => forward({ type: 'text/plain', coding: 'gzip', body }));
    const statuses = (await Promise.all(all)).map(({ status }) => status);
    for (const status of statuses) expect([200, 429]).toContain(status);
    expect(statuses).toContain(429);
    const theirs = await fixture.forward('POST', '/proxy', {
      key: other.api_key,
      headers: { 'content-type': 'text/plain', 'content-encoding': 'gzip' },
      body: new Uint8Array(body),
    });
    expect(theirs.status, theirs.text).toBe(200);
  });

  test('is seen decoded by a request transform, of any type, and leaves as it came', async () => {
    const { key } = await makeProxy(fixture, {
      request_transform: {
        code: codeOf(
          `return { body: args.body, headers: { ...args.headers, 'x-seen': encodeURIComponent(JSON.stringify(args.body)) } };`,
        ),
      },
    });
    const headers = { 'svc-proxy-key': key };
    const send = (sent: Omit<Sent, 'headers'>) =>
      fixture.server.request('POST', '/proxy', {
        headers: { ...headers, 'content-type': sent.type ?? JSON_TYPE, 'content-encoding': sent.coding ?? 'identity' },
        body: new Uint8Array(sent.body),
      });
    for (const [coding, code] of codings) {
      const body = code(Buffer.from('{"a":1}'));
      const answer = await send({ coding, body });
      expect(answer.status, answer.text).toBe(200);
      expect(fixture.last().body.equals(body)).toBe(true);
      expect(valuesOf(fixture.last(), 'x-seen')).toEqual([encodeURIComponent('{"a":1}')]);
      expect(valuesOf(fixture.last(), 'content-encoding')).toEqual([coding]);
    }
    const image = gzipSync(Buffer.from([0x89, 0, 255, 254]));
    expect((await send({ type: 'image/png', coding: 'gzip', body: image })).status).toBe(200);
    expect(fixture.last().body.equals(image)).toBe(true);
    const wide = await send({ type: 'application/json; charset=utf-16le', body: little('{"a":"é"}') });
    expect(wide.status, wide.text).toBe(200);
    expect(fixture.last().body.toString()).toBe('{"a":"é"}');
    expect(valuesOf(fixture.last(), 'content-type')).toEqual(['application/json; charset=utf-8']);
    for (const [sent, status] of [
      [{ coding: 'zstd', body: zstdCompressSync('{}') }, 415],
      [{ coding: 'gzip', body: gzipSync(Buffer.alloc(6 * MEGABYTE, ' ')) }, 413],
      [{ coding: 'gzip', body: Buffer.from('{}') }, 400],
      [{ type: 'text/plain; charset=utf-16', body: Buffer.from('odd') }, 400],
    ] as const) {
      const answer = await nothingReaches(fixture, () => send(sent));
      expect(answer.status, answer.text).toBe(status);
    }
  });
});

const BOM = '\ufeff';
const charsets: [what: string, charset: string | undefined, write: (text: string) => Buffer][] = [
  ['utf-16le', 'utf-16le', little],
  ['utf-16be', 'utf-16be', big],
  ['UTF-16 and a mark, little-endian', '"UTF-16"', (text) => little(BOM + text)],
  ['UTF-16 and a mark, big-endian', 'UTF-16', (text) => big(BOM + text)],
  ['UTF-16 without a mark', 'utf-16', little],
  ['no charset and a mark, little-endian', undefined, (text) => little(BOM + text)],
  ['no charset and a mark, big-endian', undefined, (text) => big(BOM + text)],
  ['utf-8 and another mark', 'utf-8', (text) => big(BOM + text)],
  ['no charset and no mark, little-endian', undefined, little],
  ['no charset and no mark, big-endian', undefined, big],
];

describe('a body in UTF-16', () => {
  for (const [what, charset, write] of charsets)
    test.each(kinds.slice(0, 4))(
      `by ${what}: %s keeps its charset with a value in it, and goes on unchanged without`,
      async (_, bare, around) => {
        const id = await tokenOn(fixture.server, 'thé-value');
        const type = charset === undefined ? (bare as string) : `${bare}; charset=${charset}`;
        const message = await arriving({ type, body: write(around(`é{{ ${id} }}`)) });
        const value = bare?.includes('form') ? 'th%C3%A9-value' : 'thé-value';
        expect(message.body.equals(write(around(`é${value}`)))).toBe(true);
        expect(valuesOf(message, 'content-type')).toEqual([type]);
        await passes({ type, body: write(around('é')) });
      },
    );

  test('without a type is looked at when it is text', async () => {
    const id = await tokenOn(fixture.server, 'the-value');
    const message = await arriving({ body: little(`${BOM}say {{ ${id} }}`) });
    expect(message.body.equals(little(`${BOM}say the-value`))).toBe(true);
    expect(valuesOf(message, 'content-type')).toEqual([]);
    await passes({ body: Buffer.concat([little(`${BOM}{{`), Buffer.from([0])]) });
  });

  test('may be compressed as well', async () => {
    const id = await tokenOn(fixture.server, 'the-value');
    const sent = { type: 'application/json; charset=utf-16', coding: 'gzip' };
    const message = await arriving({ ...sent, body: gzipSync(little(`${BOM}{"a":"{{ ${id} }}"}`)) });
    expect(message.body.equals(little(`${BOM}{"a":"the-value"}`))).toBe(true);
    const ofContent = message.headers.filter(([name]) => /^content-(?!length)/i.test(name));
    expect(ofContent.map(([, value]) => value)).toEqual([sent.type]);
    await passes({ ...sent, body: gzipSync(little(`${BOM}{"a":1}`)) });
  });

  test('of XML says so still', async () => {
    const id = await tokenOn(fixture.server, 'the-value');
    const around = (encoding: string, value: string) => `<?xml version="1.0" encoding="${encoding}"?><a>${value}</a>`;
    const { body } = await arriving({ type: 'text/xml', body: little(BOM + around('UTF-16', `{{${id}}}`)) });
    expect(body.equals(little(BOM + around('UTF-16', 'the-value')))).toBe(true);
    // Many programs write this, and it is UTF-8 all the same.
    const wrong = await arriving({ type: 'text/xml', body: Buffer.from(around('utf-16', `{{${id}}}`)) });
    expect(wrong.body.toString()).toBe(around('utf-16', 'the-value'));
  });

  test('that is none, or broken, is a 400 where it might hold an expression', async () => {
    const type = 'application/json; charset=utf-16';
    for (const body of [
      Buffer.from(`{"a":"{{ ${UNKNOWN} }}"} `),
      Buffer.from(`{"a":"{{ ${UNKNOWN} }}"}`),
      Buffer.concat([little(`{"a":"{{ ${UNKNOWN} }}"}`), Buffer.from(' ')]),
    ])
      expect(await refused({ type, body })).toMatchObject({
        status: 400,
        errors: { body: ['must be in UTF-8, or in the charset that it says'] },
      });
    await passes({ type, body: Buffer.concat([little('{"a":1}'), Buffer.from(' ')]) });
  });

  test('a part of a multipart body keeps its charset', async () => {
    const id = await tokenOn(fixture.server, 'the-value');
    const around = (charset: string, content: Buffer) =>
      Buffer.concat([
        Buffer.from(`--b\r\nContent-Type: application/json${charset}\r\n\r\n`),
        content,
        Buffer.from('\r\n--b--\r\n'),
      ]);
    const type = 'multipart/mixed; boundary=b';
    for (const [charset, write] of [
      ['; charset=utf-16le', little],
      ['; charset=utf-16be', big],
      ['', (text: string) => big(BOM + text)],
    ] as const) {
      const message = await arriving({ type, body: around(charset, write(`{"a":"\\u007b{ ${id} }}"}`)) });
      expect(message.body.equals(around(charset, write('{"a":"the-value"}')))).toBe(true);
      await passes({ type, body: around(charset, write('{"a":"{ no }"}')) });
    }
  });

  test('that is too large to be looked at passes as a stream up to an expression', async () => {
    const filler = 'é'.repeat(6 * MEGABYTE);
    for (const write of [little, big]) {
      const type = 'text/plain; charset=utf-16';
      await passes({ type, body: write(BOM + filler) });
      const answer = await forward({ type, body: write(`${BOM}${filler}{{ ${UNKNOWN} }}`) });
      expect([answer.status, proxyErrorOf(answer).status]).toEqual([413, 413]);
    }
  });
});
