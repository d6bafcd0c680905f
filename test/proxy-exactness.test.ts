// What nothing touches leaves byte for byte, and what code sees is exact or refused: bodies, headers, targets, numbers, digests.
import { createHash } from 'node:crypto';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Message,
  makeProxy,
  nothingReaches,
  OK,
  proxyErrorIn,
  receiving,
  type SharedProxyFixture,
  statusOf,
  useProxyFixture,
  valuesOf,
} from './support/proxy.ts';
import { MAY_HAVE_ACTED } from '../src/platform/base/egress-fault.ts';
import { codeOf, makeReactor, rawOf, react, tokenOf } from './support/reactors.ts';
import { makeApplication } from './support/stored-proxies.ts';

let fixture: SharedProxyFixture;
/** Keys of proxies whose code returns what it was given. */
let identity: { none: string; request: string; response: string; both: string; parsed: string };
let id: string;

const PASS = 'return { body: args.body, headers: args.headers };';
/** The same, made anew. */
const PARSED = 'return JSON.parse(JSON.stringify({ body: args.body, headers: args.headers }));';

const keyOf = async (request: string | undefined, response?: string): Promise<string> => {
  const wanted = {
    ...(request !== undefined && { request_transform: { code: codeOf(request) } }),
    ...(response !== undefined && { response_transform: { code: codeOf(response) } }),
  };
  return (await makeProxy(fixture, wanted)).key;
};

beforeAll(async () => {
  fixture = await useProxyFixture();
  id = await tokenOf(fixture.server, 'value');
  identity = {
    none: await keyOf(undefined),
    request: await keyOf(PASS),
    response: await keyOf(undefined, PASS),
    both: await keyOf(PASS, PASS),
    parsed: await keyOf(PARSED, PARSED),
  };
});
afterAll(() => fixture.close());

type Sent = {
  key: string;
  lines?: string[];
  body?: string | Uint8Array;
  target?: string;
  answer?: string | Uint8Array;
};

/** Sends it through a proxy, and says what the destination received and what the caller got. */
const exchange = async ({ key, lines = [], body, target = '/proxy', answer = OK }: Sent) => {
  const before = fixture.destination.received.length;
  fixture.destination.script = receiving(fixture.destination, answer);
  const bytes = body === undefined ? Buffer.alloc(0) : Buffer.from(body);
  const framing = body === undefined ? [] : [`Content-Length: ${bytes.byteLength}`];
  const head = fixture.head(`POST ${target}`, `SVC-PROXY-KEY: ${key}`, ...lines, ...framing);
  const result = await fixture.ask(Buffer.concat([Buffer.from(head, 'latin1'), bytes]));
  return { result, received: fixture.destination.received.slice(before) };
};

/** The request that arrives, of one that passes. */
const arriving = async (sent: Sent): Promise<Message> => {
  const { result, received } = await exchange(sent);
  expect(statusOf(result), result.body.toString()).toBe(200);
  expect(received).toHaveLength(1);
  return received[0] as Message;
};

const refusalOf = async (sent: Sent) => {
  const { result } = await nothingReaches(fixture, () => exchange(sent));
  return proxyErrorIn(result);
};

const answerOf = (body: string | Uint8Array, ...lines: string[]): Buffer => {
  const bytes = Buffer.from(body);
  const head = ['HTTP/1.1 200 OK', ...lines, `Content-Length: ${bytes.byteLength}`, '', ''].join('\r\n');
  return Buffer.concat([Buffer.from(head, 'latin1'), bytes]);
};

/** What the caller gets of an answer. */
const answered = async (key: string, body: string | Uint8Array, ...lines: string[]): Promise<Message> =>
  (await exchange({ key, answer: answerOf(body, ...lines) })).result;

/** The lines that a message has beyond those that we add. */
const theirs = ({ headers }: Message): string[] =>
  headers
    .filter(([name]) => !/^(?:host|connection|cdn-loop|content-length)$/i.test(name))
    .map(([name, value]) => `${name}: ${value}`);

const JSON_TYPE = 'Content-Type: application/json';

/** A JSON text whose numbers, names and strings are spelled in any way that loses nothing. */
const spelledJson = (() => {
  const blank = fc.constantFrom('', ' ', '\n', '\t', '\r\n  ');
  const number = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
    fc.constantFrom('1.0', '-0', '1.10', '1e2', '10E-1', '0.000', '123456789012345', '-1.50e+3', '9007199254740992'),
  );
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 5 }).map((value) => JSON.stringify(value)),
    fc.constantFrom(String.raw`"\u00e9"`, String.raw`"\/"`, String.raw`"\ud83d\udd11"`, '"é漢"', String.raw`"\ud800"`),
  );
  const { value } = fc.letrec<{ value: string }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      number,
      text,
      fc.constantFrom('true', 'false', 'null'),
      fc
        .tuple(blank, fc.array(tie('value'), { maxLength: 3 }))
        .map(([space, each]) => `[${space}${each.join(`,${space}`)}]`),
      fc
        .tuple(blank, fc.array(tie('value'), { maxLength: 4 }))
        .map(
          ([space, each]) =>
            `{${each.map((item, at) => `${space}"${10 - at}é"${space}:${space}${item}`).join(',')}${space}}`,
        ),
    ),
  }));
  return value;
})();

describe('a body that nothing changes', () => {
  test('leaves byte for byte in both directions, however its JSON is spelled (property)', async () => {
    await fc.assert(
      fc.asyncProperty(spelledJson, fc.constantFrom('none', 'both', 'parsed'), async (text, which) => {
        const key = identity[which as keyof typeof identity];
        const { result, received } = await exchange({
          key,
          lines: [JSON_TYPE],
          body: text,
          answer: answerOf(text, JSON_TYPE),
        });
        expect([statusOf(result), result.body.toString()]).toEqual([200, text]);
        expect(received[0]?.body.toString()).toBe(text);
      }),
      {
        numRuns: 120,
        examples: [
          ['{"a":{"b":[]}}', 'both'],
          ['{"2":1,"1":{ } ,"a":-0}', 'parsed'],
        ],
      },
    );
  }, 60_000);

  const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

  test.each<[string, string, Uint8Array]>([
    ['JSON with a byte order mark', 'application/json', Buffer.from('\ufeff{ "a" : 1.0 }')],
    ['JSON in Shift_JIS', 'application/json; charset=shift_jis', Buffer.from('{ "a": "\x82\xa0\x83\x5c" }', 'latin1')],
    [
      'XML that declares Shift_JIS',
      'application/xml',
      Buffer.from('<?xml version="1.0" encoding="shift_jis"?><a>\x83\x7b</a>', 'latin1'),
    ],
    ['text in windows-1251', 'text/plain; charset=windows-1251', Buffer.from('\xc4\xe0', 'latin1')],
    ['text that is none', 'text/plain', Buffer.from('caf\xe9\0\xff', 'latin1')],
    ['a file', 'application/pdf', everyByte],
    ['a form', 'application/x-www-form-urlencoded', Buffer.from("a=%c3%a9&b='+ &&")],
  ])('leaves byte for byte with its type: %s', async (_, type, body) => {
    const line = `Content-Type:${type}`;
    for (const key of [identity.none, identity.both, identity.parsed]) {
      const { result, received } = await exchange({ key, lines: [line], body, answer: answerOf(body, line) });
      expect(statusOf(result), result.body.toString()).toBe(200);
      for (const message of [received[0] as Message, result]) {
        expect(message.body.equals(body)).toBe(true);
        expect(valuesOf(message, 'content-type')).toEqual([type]);
      }
    }
  });

  const text = '{ "amount": 1.10 }';

  test.each([
    ['gzip', gzipSync(text)],
    ['br', brotliCompressSync(text)],
    ['gzip, br', brotliCompressSync(gzipSync(text))],
  ])('leaves in its coding, with its digests: %s', async (coding, body) => {
    const digest = `sha-256=:${createHash('sha256').update(body).digest('base64')}:`;
    const lines = [`content-ENCODING: ${coding}`, JSON_TYPE, `Content-Digest: ${digest}`];
    for (const key of [identity.both, identity.parsed]) {
      const { result, received } = await exchange({ key, lines, body, answer: answerOf(body, ...lines) });
      expect(statusOf(result), result.body.toString()).toBe(200);
      const [message] = received as [Message];
      expect(theirs(message)).toEqual(lines);
      for (const { body: came } of [message, result]) expect(came.equals(body)).toBe(true);
      expect(valuesOf(result, 'content-encoding')).toEqual([coding]);
      expect(valuesOf(result, 'content-digest')).toEqual([digest]);
    }
  });

  test('is decoded where code changes it, or its type or coding', async () => {
    const lines = ['Content-Encoding: gzip', JSON_TYPE];
    const body = gzipSync(text);
    for (const [code, seen] of [
      ['return { body: { ...args.body, a: 1 }, headers: args.headers };', '{"amount":1.1,"a":1}'],
      [`return { body: args.body, headers: { ...args.headers, 'content-type': 'text/json' } };`, text],
    ] as const) {
      const key = await keyOf(code, code);
      const { result, received } = await exchange({ key, lines, body, answer: answerOf(body, ...lines) });
      for (const message of [received[0] as Message, result]) {
        expect(message.body.toString()).toBe(seen);
        expect(valuesOf(message, 'content-encoding')).toEqual([]);
      }
    }
  });

  test('is asked for in the codings that the caller accepts and code can read', async () => {
    for (const [accepted, asked] of [
      [[], []],
      [['gzip;q=0.5,  br'], ['gzip;q=0.5,  br']],
      [['zstd, gzip'], ['gzip']],
      [['*'], ['identity']],
    ]) {
      const lines = (accepted as string[]).map((value) => `accept-Encoding: ${value}`);
      const message = await arriving({ key: identity.both, lines, body: 'x' });
      expect(theirs(message).filter((line) => line.startsWith('accept'))).toEqual(
        asked?.map((value) => `accept-Encoding: ${value}`),
      );
    }
  });

  test('reaches code decoded, where code asked a proxy whose code left it', async () => {
    fixture.destination.script = receiving(
      fixture.destination,
      answerOf(gzipSync(text), 'Content-Encoding: gzip', JSON_TYPE),
    );
    const { id: application } = await makeApplication(fixture.server, { permissions: ['token:use'] });
    const code = codeOf(`return { raw: await svc.proxy.get({ headers: { 'svc-proxy-key': args.key } }) };`);
    const reactor = await makeReactor(fixture.server, { code, application: { application_id: application } });
    const raw = await rawOf(react(fixture.server, reactor, { key: identity.response }));
    expect(raw).toMatchObject({ status: 200, body: { amount: 1.1 } });
    expect(raw.headers).not.toHaveProperty('content-encoding');
  });

  test('that is no text is never changed by the way of code', async () => {
    const append = 'return { body: args.body + "!", headers: args.headers };';
    const broken = Buffer.from('caf\xe9', 'latin1');
    const lines = ['Content-Type: text/csv'];
    const sentence = 'must be in UTF-8, or in the charset that it says';
    expect((await refusalOf({ key: await keyOf(append), lines, body: broken })).errors).toEqual({ body: [sentence] });
    const result = await answered(await keyOf(undefined, append), broken, ...lines);
    expect(proxyErrorIn(result)).toMatchObject({ status: 502, detail: expect.stringContaining(sentence) });
  });

  test('that code changes is written in its charset, JSON with escapes for the rest', async () => {
    const lines = ['Content-Type: application/json; charset=shift_jis'];
    const body = Buffer.from('{ "a": "\x82\xa0" }', 'latin1');
    for (const [value, bytes] of [
      ['い', '{"a":"\x82\xa0","b":"\x82\xa2"}'],
      ['é😀', String.raw`{"a":"\u3042","b":"\u00e9\ud83d\ude00"}`],
    ] as const) {
      const code = `return { body: { ...args.body, b: '${value}' }, headers: args.headers };`;
      const message = await arriving({ key: await keyOf(code), lines, body });
      expect(message.body.toString('latin1')).toBe(bytes);
    }
    const text = await keyOf(`return { body: 'é', headers: args.headers };`);
    expect((await refusalOf({ key: text, lines, body })).status).toBe(422);
  });

  test('and has a character with two spellings is read by code as that character', async () => {
    const same = Buffer.from([0x87, 0x90, 0x81, 0xe0]);
    for (const [type, around] of [
      ['text/plain', (text: string) => text],
      ['application/json', (text: string) => `{"a":"${text}"}`],
    ] as const) {
      const lines = [`Content-Type: ${type}; charset=shift_jis`];
      const body = Buffer.from(around(same.toString('latin1')), 'latin1');
      expect((await arriving({ key: identity.parsed, lines, body })).body.equals(body)).toBe(true);
      const code = `const text = args.body.a ?? args.body;
        return { body: [text.length, text[0] === text[1], text], headers: args.headers };`;
      const message = await arriving({ key: await keyOf(code), lines, body });
      expect(message.body.toString('latin1')).toBe('[2,true,"\x81\xe0\x81\xe0"]');
    }
  });
});

test('raw_body and raw_headers are as they came, in every charset', async () => {
  const shown = `return { body: [args.body.a, args.raw_body, args.raw_headers], headers: { 'content-type': 'application/json' } };`;
  const key = await keyOf(shown, shown);
  for (const [charset, body] of [
    ['shift_jis', Buffer.from('{"a":"\x82\xa0"}', 'latin1')],
    ['utf-16', Buffer.from('\ufeff{"a":"\u3042"}', 'utf16le')],
    ['utf-8', Buffer.from('{"a":"\u3042"}')],
  ] as const) {
    const line = `Content-Type: application/json; charset=${charset}`;
    const { result, received } = await exchange({ key, lines: [line], body, answer: answerOf(body, line) });
    for (const message of [received[0] as Message, result]) {
      const [a, raw, headers] = JSON.parse(message.body.toString());
      expect([a, Buffer.from(raw, 'base64').equals(body)], charset).toEqual(['\u3042', true]);
      expect(headers).toContainEqual(['Content-Type', `application/json; charset=${charset}`]);
    }
  }
});

describe('a document that declares its charset', () => {
  const documentOf = (label: string, content: string) => `<?xml version="1.0" encoding="${label}"?><a>${content}</a>`;
  const lines = ['Content-Type: application/xml'];
  const code = `return { body: args.body.replace('</a>', '\\u3042</a>'), headers: args.headers };`;

  test('is read and written by code in it, in both directions', async () => {
    const body = Buffer.from(documentOf('shift_jis', '\x83\x7b'), 'latin1');
    const changed = Buffer.from(documentOf('shift_jis', '\x83\x7b\x82\xa0'), 'latin1');
    const key = await keyOf(code, code);
    const { result, received } = await exchange({ key, lines, body, answer: answerOf(body, ...lines) });
    expect(statusOf(result), result.body.toString()).toBe(200);
    for (const message of [received[0] as Message, result]) expect(message.body.equals(changed)).toBe(true);
  });

  /** The bytes of "é" in each charset, and in which they are read. */
  const E = { utf8: '\xc3\xa9', latin1: '\xe9', 'windows-1251': '\xe9' };
  const BOM = '\xef\xbb\xbf';
  test.each([
    ['type and declaration differ', '; charset=utf-8', 'ISO-8859-1', '', E.utf8, 'é'],
    ['type and declaration differ', '; charset=iso-8859-1', 'UTF-8', '', E.latin1, 'é'],
    ['type and declaration differ', '; charset=windows-1251', 'ISO-8859-1', '', E['windows-1251'], 'й'],
    ['the type has none', '', 'windows-1251', '', E['windows-1251'], 'й'],
    ['the type has none', '; charset=""', 'ISO-8859-1', '', E.latin1, 'é'],
    ['a mark is there', '; charset=iso-8859-1', 'ISO-8859-1', BOM, E.utf8, 'é'],
    ['a mark is there', '; charset=windows-1251', 'windows-1251', BOM, E.utf8, 'é'],
    ['a mark is there', '', 'ISO-8859-1', BOM, E.utf8, 'é'],
  ])(
    'is read by its mark, then its type, then its declaration: %s%s %s',
    async (_, parameter, label, mark, e, read) => {
      const asked = [`Content-Type: application/xml${parameter}`];
      const body = Buffer.from(mark + documentOf(label, e), 'latin1');
      const show = `return { body: { read: [...args.body].find((each) => each > '\\x7f' && each !== '\ufeff') },
      headers: { ...args.headers, 'content-type': 'application/json' } };`;
      const key = await keyOf(show, show);
      const { result, received } = await exchange({ key, lines: asked, body, answer: answerOf(body, ...asked) });
      for (const message of [received[0] as Message, result])
        expect(JSON.parse(message.body.toString()), message.body.toString()).toEqual({ read });
      const both = await exchange({ key: identity.both, lines: asked, body, answer: answerOf(body, ...asked) });
      for (const message of [both.received[0] as Message, both.result]) expect(message.body.equals(body)).toBe(true);
      const append = `return { body: args.body.replace('</a>', '${read}</a>'), headers: args.headers };`;
      const changed = await arriving({ key: await keyOf(append), lines: asked, body });
      expect(changed.body.equals(Buffer.from(mark + documentOf(label, e + e), 'latin1'))).toBe(true);
    },
  );

  test('that is unknown is refused by name', async () => {
    const body = documentOf('x-own', 'a');
    expect(await refusalOf({ key: identity.request, lines, body })).toMatchObject({
      status: 415,
      detail: expect.stringContaining('"x-own"'),
    });
    expect(proxyErrorIn(await answered(identity.response, body, ...lines)).status).toBe(502);
    expect((await arriving({ key: identity.none, lines, body })).body.toString()).toBe(body);
  });
});

describe('headers', () => {
  const name = fc
    .tuple(
      fc.constantFrom('X-', 'x-', 'X-lOng-'),
      fc.string({ unit: fc.constantFrom(...'aBcD-1_'), minLength: 1, maxLength: 4 }),
    )
    .map((parts) => parts.join(''))
    .filter((text) => !/^x-forwarded/i.test(text));
  const value = fc.string({ unit: fc.constantFrom(...'aB, ;="\'é'), maxLength: 8 }).map((text) => text.trim());

  test('leave in their spelling, order and number, through values and through code (property)', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(name, value), { minLength: 1, maxLength: 8 }), async (pairs) => {
        const lines = pairs.map(([each, text]) => `${each}: ${text}`);
        for (const key of [identity.none, identity.parsed]) {
          const all = [...lines, 'X-Value: {{ID}}', 'cookie: a=1', 'Cookie: b=2'];
          const sent = all.map((line) => line.replace('{{ID}}', `{{ ${id} }}`));
          const message = await arriving({ key, lines: sent, body: 'x' });
          expect(theirs(message)).toEqual(all.map((line) => line.replace('{{ID}}', 'value')));
        }
      }),
      { numRuns: 30 },
    );
  }, 60_000);

  test('of an answer too', async () => {
    const lines = ['X-Own: 1', 'SET-Cookie: a=1', 'x-own: 2,3', 'Set-cookie: b=2', 'ETag: "x"'];
    const result = await answered(identity.response, 'x', ...lines);
    expect(theirs(result).filter((line) => /^(?:x-own|set-cookie|etag):/i.test(line))).toEqual(lines);
  });

  test('that code changes keep their place and spelling, new ones stand behind, others are gone', async () => {
    const key = await keyOf(
      `const { 'x-gone': _, ...headers } = args.headers;
       return { body: args.body, headers: { 'X-New': 'n', ...headers, 'x-changed': 'c', 'x-list': ['1', '2'], 'x-null': null } };`,
    );
    const lines = ['X-First: a', 'X-Changed: b', 'X-GONE: 1', 'x-LIST: 0', 'x-list: 0', 'X-Null: 1', 'X-last: z'];
    const message = await arriving({ key, lines, body: 'x' });
    expect(theirs(message)).toEqual(['X-First: a', 'X-Changed: c', 'x-LIST: 1', 'x-LIST: 2', 'X-last: z', 'X-New: n']);
  });
});

describe('a target', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      "'",
      '?',
      '&',
      '=',
      '%20',
      '%27',
      '%2f',
      '+',
      '/',
      '$filter',
      '[',
      ']',
      '|',
      '^',
      '`',
      '{',
      '}',
      '(',
      ')',
      ':',
      '@',
    ),
    fc.string({ unit: fc.constantFrom(...'aZ9-._~!*,;'), maxLength: 3 }),
  );
  const query = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('').replaceAll('{{', '{'));

  test('arrives as it is spelled, through values and through code (property)', async () => {
    await fc.assert(
      fc.asyncProperty(query, fc.boolean(), async (text, hasValue) => {
        for (const key of [identity.none, identity.request]) {
          const more = hasValue ? '&v=' : '';
          const target = `/a'b?${text}${more}`;
          const expression = hasValue ? encodeURIComponent(`{{ ${id} }}`) : '';
          const message = await arriving({ key, target: `/proxy${target}${expression}` });
          expect(message.start).toBe(`POST ${target}${hasValue ? 'value' : ''} HTTP/1.1`);
        }
      }),
      { numRuns: 60 },
    );
  }, 60_000);

  test.each([
    ['/proxy/x?', '', '/x?'],
    ['/proxy?', '', '/?'],
    ['/proxy', '/base?', '/base?'],
    ['/proxy/x', '/base?', '/base/x?'],
    ['/proxy', "/base?k='1'", "/base?k='1'"],
    ['/proxy/x?', "/base?k='1'", "/base/x?k='1'"],
    ["/proxy/x?$filter=Name eq 'O''Neil'".replaceAll(' ', '%20'), '', "/x?$filter=Name%20eq%20'O''Neil'"],
  ])('%s behind %j is sent as %s, and code sees it so', async (target, base, sent) => {
    const destination_url = fixture.url + base;
    const result = `return { body: args.url, headers: args.headers };`;
    const { key } = await makeProxy(fixture, { destination_url, request_transform: { code: codeOf(result) } });
    const message = await arriving({ key, target, body: 'x' });
    expect(message.start).toBe(`POST ${sent} HTTP/1.1`);
    expect(message.body.toString()).toBe(fixture.url + sent);
    const { start } = await arriving({ key: (await makeProxy(fixture, { destination_url })).key, target });
    expect(start).toBe(`POST ${sent} HTTP/1.1`);
  });

  test('has an apostrophe of a value percent-encoded, so that it ends no text', async () => {
    const name = await tokenOf(fixture.server, "O'Neil");
    const target = `/proxy?$filter=Name%20eq%20'${encodeURIComponent(`{{ ${name} }}`)}'`;
    const { start } = await arriving({ key: identity.none, target });
    expect(start).toBe(`POST /?$filter=Name%20eq%20'O%27Neil' HTTP/1.1`);
  });
});

const LOSSES: [body: string, place: string, sentence: string][] = [
  ['{"a":1,"a":2}', 'a', 'must not be there twice in one object'],
  ['{"a":[{"b":1,"\\u0062":1}]}', 'a[0].b', 'must not be there twice in one object'],
  ['{"id":9007199254740993}', 'id', 'must be a number that a double holds exactly, or a string'],
  ['{"a":[0.10000000000000000001]}', 'a[0]', 'must be a number that a double holds exactly, or a string'],
  ['12345678901234567890', '', 'must be a number that a double holds exactly, or a string'],
  ['{"a":"\xff"}', '', 'must be in UTF-8, or in the charset that it says'],
];

describe('what code cannot see exactly', () => {
  test.each(LOSSES)('is refused in a request, and nothing is sent: %s', async (text, place, sentence) => {
    const body = Buffer.from(text, 'latin1');
    const where = place === '' ? 'body' : `body.${place}`;
    expect((await refusalOf({ key: identity.request, lines: [JSON_TYPE], body })).errors).toEqual({
      [where]: [sentence],
    });
    expect((await arriving({ key: identity.none, lines: [JSON_TYPE], body })).body.equals(body)).toBe(true);
  });

  test.each(LOSSES)('is a 502 of an answer, and none of it is shown: %s', async (text, place, sentence) => {
    const body = Buffer.from(text, 'latin1');
    const subject = place === '' ? 'The' : 'A member in the';
    for (const key of [identity.response, await keyOf(undefined, `return { body: 'fixed', headers: {} };`)]) {
      const result = await answered(key, body, JSON_TYPE, 'X-Canary: 1');
      expect(proxyErrorIn(result)).toMatchObject({
        status: 502,
        detail: `${subject} body of the destination's answer ${sentence}. ${MAY_HAVE_ACTED}`,
      });
      expect(valuesOf(result, 'x-canary')).toEqual([]);
    }
    const plain = await answered(identity.none, body, JSON_TYPE);
    expect(plain.body.equals(body)).toBe(true);
  });

  test('has no name in the error that may be a value', async () => {
    const result = await answered(identity.response, '{"4242424242424242":{"a":1,"a":2}}', JSON_TYPE);
    expect(proxyErrorIn(result).detail).toBe(
      `A member in the body of the destination's answer must not be there twice in one object. ${MAY_HAVE_ACTED}`,
    );
  });

  const RAW = `JSON.parse(Buffer.from(args.raw_body, 'base64').toString(), (name, value, context) => typeof value === 'number' ? context.source : value)`;

  test('is read from its bytes by code that names raw_body, and may replace body', async () => {
    const body = '{"id":9007199254740993,"ok":true}';
    for (const code of [`const body = ${RAW};`, `args.body = ${RAW}; const { body } = args;`]) {
      const read = await keyOf(undefined, `${code} return { body, headers: args.headers };`);
      const result = await answered(read, body, JSON_TYPE);
      expect(JSON.parse(result.body.toString())).toEqual({ id: '9007199254740993', ok: true });
    }
  });

  test.each(['args.body.id', '({ ...args.body })', 'args.body', '({ ...args })', 'const { body } = args'])(
    'is an error of code that names raw_body and reads body: %s',
    async (reading) => {
      for (const [text, place, sentence] of LOSSES) {
        const key = await keyOf(undefined, `args.raw_body; ${reading}; return { body: 'fixed', headers: {} };`);
        const result = await answered(key, Buffer.from(text, 'latin1'), JSON_TYPE);
        const subject = place === '' ? 'The' : 'A member in the';
        expect(proxyErrorIn(result)).toMatchObject({
          status: 500,
          errors: {
            error: [
              `${subject} body of the destination's answer ${sentence}. Read args.raw_body in place of args.body.`,
            ],
          },
        });
      }
    },
  );

  test.each(LOSSES)('is an error of svc.proxy that says so: %s', async (text, place, sentence) => {
    fixture.destination.script = receiving(fixture.destination, answerOf(Buffer.from(text, 'latin1'), JSON_TYPE));
    const { id: application } = await makeApplication(fixture.server, { permissions: ['token:use'] });
    const code = codeOf(`try { return { raw: await svc.proxy.get({ headers: { 'svc-proxy-url': args.url } }) }; }
      catch (error) { return { raw: error.message }; }`);
    const reactor = await makeReactor(fixture.server, { code, application: { application_id: application } });
    const subject = place === '' ? 'The' : 'A member in the';
    const raw = await rawOf(react(fixture.server, reactor, { url: fixture.url }));
    expect(raw).toBe(`${subject} body of the answer ${sentence}.`);
  });
});

describe('a digest of the body', () => {
  const digests = [
    'Content-Digest: sha-256=:abc=:',
    'content-md5: abc=',
    'DIGEST: SHA-256=abc=',
    'Repr-Digest: sha-256=:abc=:',
    `X-Amz-Content-Sha256: ${'a'.repeat(64)}`,
    'x-amz-checksum-crc32c: abc=',
    'x-goog-hash: crc32c=abc=',
    'x-ms-content-sha256: abc=',
  ];
  const CHANGE = `return { body: { a: 1 }, headers: args.headers };`;
  const withValue = () => `{"a":"{{ ${id} }}"}`;

  test.each(digests)('is refused by name where the body is changed: %s', async (line) => {
    const name = line.slice(0, line.indexOf(':'));
    const change = await keyOf(CHANGE);
    for (const [key, body] of [
      [identity.none, withValue()],
      [identity.request, withValue()],
      [change, '{"a":2}'],
    ] as const)
      expect(await refusalOf({ key, lines: [JSON_TYPE, line], body })).toMatchObject({
        status: 400,
        errors: { [`headers.${name}`]: [expect.stringContaining('the body that it describes is changed')] },
      });
    for (const key of [identity.none, identity.parsed])
      expect(theirs(await arriving({ key, lines: [JSON_TYPE, line], body: '{ "a":2.0 }' }))).toContain(line);
  });

  test.each([
    'x-amz-content-sha256: UNSIGNED-PAYLOAD',
    'x-amz-checksum-algorithm: SHA256',
    'Want-Content-Digest: sha-256=1',
  ])('is not what only looks so: %s', async (line) => {
    const message = await arriving({ key: identity.none, lines: [JSON_TYPE, line], body: withValue() });
    expect(theirs(message)).toContain(line);
  });

  test('that the caller or code sets anew leaves, as does one of another place than the body', async () => {
    const digest = await tokenOf(fixture.server, 'the digest');
    const header = `Content-MD5: {{ ${digest} }}`;
    const message = await arriving({ key: identity.none, lines: [JSON_TYPE, header], body: withValue() });
    expect(valuesOf(message, 'content-md5')).toEqual(['the digest']);
    const anew = await keyOf(`return { body: { a: 1 }, headers: { ...args.headers, 'content-md5': 'new' } };`);
    const made = await arriving({ key: anew, lines: [JSON_TYPE, 'Content-MD5: old'], body: '{"a":2}' });
    expect(theirs(made)).toContain('Content-MD5: new');
    const value = [`X-Value: {{ ${id} }}`, 'Content-MD5: abc='];
    expect(theirs(await arriving({ key: identity.none, lines: value, body: 'x' }))).toContain('Content-MD5: abc=');
  });

  test('of a part is refused where the part is changed', async () => {
    const lines = ['Content-Type: multipart/form-data; boundary=b'];
    const bodyOf = (first: string, second: string) =>
      `--b\r\nContent-Disposition: form-data; name="a"\r\nContent-MD5: abc=\r\n\r\n${first}\r\n--b\r\n\r\n${second}\r\n--b--`;
    const expression = `{{ ${id} }}`;
    const { errors } = await refusalOf({ key: identity.none, lines, body: bodyOf(expression, 'x') });
    expect(Object.keys(errors)).toEqual(['body.a.headers.Content-MD5']);
    const message = await arriving({ key: identity.none, lines, body: bodyOf('x', expression) });
    expect(message.body.toString()).toBe(bodyOf('x', 'value'));
  });

  test('of an answer is dropped where code changes the body, unless code sets it anew', async () => {
    const lines = [JSON_TYPE, ...digests, 'ETag: "x"'];
    const changed = await answered(await keyOf(undefined, CHANGE), '{"a":2}', ...lines);
    expect([statusOf(changed), changed.body.toString()]).toEqual([200, '{"a":1}']);
    for (const line of digests) expect(valuesOf(changed, line.slice(0, line.indexOf(':'))), line).toEqual([]);
    expect(valuesOf(changed, 'etag')).toEqual(['"x"']);
    const anew = `return { body: { a: 1 }, headers: { ...args.headers, 'content-md5': 'new' } };`;
    expect(valuesOf(await answered(await keyOf(undefined, anew), '{"a":2}', ...lines), 'content-md5')).toEqual(['new']);
    const left = await answered(identity.parsed, '{ "a":2.0 }', ...lines);
    for (const line of digests) expect(theirs(left)).toContain(line);
  });
});
