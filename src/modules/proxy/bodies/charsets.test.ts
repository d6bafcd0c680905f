// Bodies in every charset, wherever it is declared: a value is written in it, or the request is refused by name.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { problemsOf, refusalOf, send } from '../../../../test/support/expansion.ts';
import { runAtOnce } from '../../../platform/json/slices.ts';
import {
  decodeLegacy,
  encodeHeld,
  encodeLegacy,
  encodeLegacyInSlices,
  escapeJson,
  isEncodable,
  legacyNames,
  readLegacy,
} from './charsets.ts';

/** A text of each script, in the charsets that hold it. */
const texts: [text: string, charsets: string[]][] = [
  ['漢字ボ表ソ', ['shift_jis', 'euc-jp']],
  ['한국어', ['euc-kr']],
  ['漢字', ['gbk', 'gb18030', 'big5']],
  ['Łódź', ['iso-8859-2', 'windows-1250']],
  ['€uro', ['iso-8859-15', 'windows-1252', 'gbk', 'gb18030']],
  ['Привет', ['windows-1251', 'koi8-r', 'iso-8859-5', 'ibm866']],
];

const cases = texts.flatMap(([text, charsets]) => charsets.map((charset): [string, string] => [charset, text]));

/** Media types, and a body of each around an expression. `x` declares a charset. */
const formats: [type: string, make: (text: string) => string][] = [
  ['application/json', (text) => `{"a":"${text}","b":"{{ t }}","c":1.0}`],
  ['application/vnd.x+json', (text) => `["${text}", "{{ t }}"]`],
  ['application/x-ndjson', (text) => `{"a":"${text}"}\n{"b":"{{ t }}"}\n`],
  ['application/xml', (text) => `<a b="${text}">{{ t }}</a>`],
  ['text/html', (text) => `<p>${text}</p><p>{{ t }}</p>`],
  ['text/csv', (text) => `${text},{{ t }}\r\n`],
  ['text/plain', (text) => `${text} {{ t }} ${text}`],
  ['application/yaml', (text) => `a: "${text}"\nb: "{{ t }}"\n`],
  ['application/graphql', (text) => `{ a(b: "${text}", c: "{{ t }}") }`],
];

const bytesOf = (text: string, charset: string): Buffer => encodeLegacy(text, charset as never);
const textOf = (bytes: Uint8Array, charset: string): string => new TextDecoder(charset, { fatal: true }).decode(bytes);

const part = (type: string, body: Buffer): Buffer =>
  Buffer.concat([
    Buffer.from(`--b\r\nContent-Disposition: form-data; name="f"\r\nContent-Type: ${type}\r\n\r\n`),
    body,
    Buffer.from('\r\n--b--\r\n'),
  ]);

const declared: [
  place: string,
  ask: (type: string, charset: string, body: Buffer) => { type: string; body: Buffer },
][] = [
  ['the type', (type, charset, body) => ({ type: `${type}; charset=${charset}`, body })],
  ['a quoted parameter', (type, charset, body) => ({ type: `${type};CHARSET="${charset.toUpperCase()}"`, body })],
  [
    'a part',
    (type, charset, body) => ({
      type: 'multipart/form-data; boundary=b',
      body: part(`${type}; charset=${charset}`, body),
    }),
  ],
];

describe.each(declared)('a charset that %s declares', (_, ask) => {
  test.each(cases)('%s is read and written around %j', (charset, text) => {
    for (const [type, make] of formats) {
      const written = (value: string) => {
        const { body } = send(ask(type, charset, bytesOf(make(text), charset)), { t: value });
        return Buffer.from(body as Uint8Array);
      };
      const ascii = ask(type, charset, bytesOf(make(text).replace('{{ t }}', 'ab'), charset)).body;
      expect(written('ab').equals(ascii), type).toBe(true);
      if (type === 'application/yaml' || type === 'text/html') continue;
      // The receiver reads the same text, written as itself, as a reference or as an escape.
      const read = textOf(written(text), charset)
        .replace(/&#(\d+);/g, (_all, code) => String.fromCodePoint(Number(code)))
        .replace(/\\u([0-9a-f]{4})/g, (_all, code) => String.fromCharCode(parseInt(code, 16)));
      expect(read, type).toBe(
        textOf(ask(type, charset, bytesOf(make(text).replace('{{ t }}', text), charset)).body, charset),
      );
    }
  });

  test('a value that it does not hold is an escape, a reference or a 400', () => {
    for (const [type, make] of formats) {
      const asked = ask(type, 'iso-8859-2', Buffer.from(make('a')));
      const isEscaped = /json|xml|html/.test(type);
      if (isEscaped) expect(String(send(asked, { t: '漢' }).body)).toMatch(/&#28450;|\\u6f22/);
      else expect(refusalOf(() => send(asked, { t: '漢' })).status).toBe(400);
    }
  });

  test.each(['utf-7', 'utf-32', 'utf8mb4', 'unicode', 'x-foo', 'ebcdic-us', 'iso-2022-jp'])(
    'that is %s is refused by name, also without an expression',
    (charset) => {
      for (const [type, make] of formats)
        for (const body of [make('a'), 'none', 'ab'])
          expect(
            refusalOf(() => send(ask(type, charset, Buffer.from(body)), { t: 'v' })),
            type,
          ).toMatchObject({ status: 415, message: expect.stringMatching(new RegExp(`"${charset}"`, 'i')) });
    },
  );

  test('that is another spelling of UTF-8, or nothing, is UTF-8', () => {
    for (const charset of ['UTF_8', 'utf8', ''])
      for (const [type, make] of formats)
        expect(String(send(ask(type, charset, Buffer.from(make('é'))), { t: 'ab' }).body)).toContain(
          make('é').replace('{{ t }}', 'ab'),
        );
  });
});

test.each(cases)('a form in %s is read by characters and written in its bytes', (charset, text) => {
  const type = `application/x-www-form-urlencoded; charset=${charset}`;
  const percent = (value: string) => bytesOf(value, charset).toString('hex').replace(/../g, '%$&').toUpperCase();
  const sent = send({ type, body: `a=${percent(`${text}{`)}&b={{ t }}&c=${percent('{')}x` }, { t: text });
  const [a, b, c] = String(sent.body).split('&');
  expect([a, c]).toEqual([`a=${percent(`${text}{`)}`, 'c=%7Bx']);
  const bytes = (b as string).slice(2).replace(/%(..)/g, (_, code) => String.fromCharCode(parseInt(code, 16)));
  expect(textOf(Buffer.from(bytes, 'latin1'), charset)).toBe(text);
});

test('braces that end a character are none, in a text and in percent-encoding', () => {
  // U+30DC is 83 7B in Shift_JIS.
  const text = Buffer.from([0x83, 0x7b, 0x7b, 0x20, 0x7d, 0x83, 0x7d, 0x7d]);
  const type = 'text/plain; charset=shift_jis';
  expect(send({ type, body: text }, {}).body).toEqual(text);
  const form = 'application/x-www-form-urlencoded; charset=shift_jis';
  for (const body of ['a=%83%7B%7Bx', 'a=%83{%7Bx', 'a=%83%7b{x&b={{ t }}'])
    expect(String(send({ type: form, body }, { t: 'v' }).body)).toBe(body.replace('{{ t }}', 'v'));
  expect(problemsOf(() => send({ type: form, body: 'a=%7B%7Bx' }, {}))).toHaveProperty('body.a');
});

test.each(cases)('an XML declaration of %s counts without a parameter, around %j', (charset, text) => {
  const xml = (value: string) => `<?xml version="1.0" encoding="${charset}"?><a b="${text}">${value}</a>`;
  for (const type of ['application/xml', 'text/xml', 'application/soap+xml'])
    expect(send({ type, body: bytesOf(xml('{{ t }}'), charset) }, { t: 'a&b' }).body).toEqual(
      bytesOf(xml('a&amp;b'), charset),
    );
});

test.each([
  ['UTF-8', 'text/xml; charset=iso-8859-1', '', '\xe9', '&#233;'],
  ['ISO-8859-1', 'text/xml; charset=utf-8', '', '\xc3\xa9', '&#233;'],
  ['UTF-8', 'text/xml; charset=utf-8', '', '\xc3\xa9', '\xc3\xa9'],
  ['ISO-8859-1', 'text/xml; charset=iso-8859-1', '\xef\xbb\xbf', '\xc3\xa9', '&#233;'],
  ['x-foo', 'text/xml; charset=utf-8', '', '\xc3\xa9', '\xc3\xa9'],
])('an XML declaration of %s counts after a byte order mark and the type %s', (label, type, mark, text, value) => {
  const xml = (content: string) =>
    Buffer.from(`${mark}<?xml version="1.0" encoding="${label}"?><a b="${text}">${content}</a>`, 'latin1');
  expect(Buffer.from(send({ type, body: xml('{{ t }}') }, { t: 'é' }).body as Uint8Array).equals(xml(value))).toBe(
    true,
  );
});

test('conversions of long texts pause', () => {
  const length = 1_000_000;
  const bytes = Buffer.alloc(length, 'a');
  const text = 'a'.repeat(length);
  for (const slices of [
    decodeLegacy(bytes, 'gbk' as never),
    readLegacy(bytes, 'gbk' as never),
    encodeLegacyInSlices(text, 'gbk' as never),
    encodeHeld(text, 'gbk' as never),
    escapeJson(text),
  ]) {
    let pauses = 0;
    while (!slices.next().done) pauses += 1;
    expect(pauses).toBeGreaterThan(length / 20_000);
  }
});

test('an XML declaration of an unknown charset is refused by name', () => {
  const body = '<?xml version="1.0" encoding="x-foo"?><a>{{ t }}</a>';
  expect(refusalOf(() => send({ type: 'text/xml', body }, { t: 'v' }))).toMatchObject({
    status: 415,
    message: expect.stringContaining('"x-foo"'),
  });
});

test('text that is not in its charset is a 400', () => {
  const body = Buffer.from([0x81, 0x20, ...Buffer.from('{{ t }}')]);
  expect(refusalOf(() => send({ type: 'text/plain; charset=shift_jis', body }, { t: 'v' })).status).toBe(400);
});

test.each([
  '',
  'json',
  'text',
  '*/*',
  'text/*',
  'application /json',
  'application/json charset=utf-8',
  '"application/json"',
])('a body of the type %j, which is none, is searched as one without a type', (type) => {
  for (const [sent, got] of [
    ['{"a":"{{ t }}"}', '{"a":"v"}'],
    ['a {{ t }} b', 'a v b'],
  ] as const)
    expect(String(send({ type, body: sent }, { t: 'v' }).body)).toBe(got);
});

test('equal types in two lines or in a list are one, others are refused by name', () => {
  const twice = (one: string, other: string) => ({
    headers: [
      ['content-type', one],
      ['Content-Type', other],
    ] as [string, string][],
    body: '{"a":"{{ t }}"}',
  });
  const json = 'application/json';
  for (const sent of [twice(json, 'Application/JSON'), { ...twice(json, json), headers: [], type: `${json}, ${json}` }])
    expect(String(send(sent, { t: 'v' }).body)).toBe('{"a":"v"}');
  for (const sent of [twice(json, ''), twice(json, 'text/plain'), { body: 'x', type: 'text/xml, text/plain' }])
    expect(problemsOf(() => send(sent, { t: 'v' }))['body']?.[0]).toContain('must have one Content-Type');
});

describe('each charset', () => {
  test.each(legacyNames)('%s leaves every body byte for byte that it can read', (charset) => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (given) => {
        const bytes = Buffer.from(given);
        const text = runAtOnce(decodeLegacy(bytes, charset));
        if (text !== undefined) expect(encodeLegacy(text, charset).equals(bytes)).toBe(true);
      }),
    );
  });

  test.each(legacyNames)('%s writes a value as its receiver reads it, or not at all', (charset) => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 20 }), (value) => {
        if (isEncodable(value, charset))
          expect(runAtOnce(decodeLegacy(encodeLegacy(value, charset), charset))).toBe(value);
      }),
    );
    expect(isEncodable('\ud800', charset)).toBe(false);
    expect(isEncodable('😀', charset)).toBe(charset === 'gb18030');
  });

  test('is read in slices of any length as in one', () => {
    const text = `${'漢字ボ{'.repeat(9_000)}①`;
    for (const charset of ['shift_jis', 'gb18030', 'euc-jp'] as const) {
      const bytes = bytesOf(text, charset);
      expect(runAtOnce(decodeLegacy(bytes, charset as never))).toBe(text);
    }
  });
});

describe('UTF-32', () => {
  const utf32 = (text: string, isLittle: boolean): Buffer =>
    Buffer.concat(
      [...text].map((each) => {
        const unit = Buffer.alloc(4);
        if (isLittle) unit.writeUInt32LE(each.codePointAt(0) as number);
        else unit.writeUInt32BE(each.codePointAt(0) as number);
        return unit;
      }),
    );

  test.each(['application/json', 'text/xml', 'text/csv', 'text/plain', 'application/yaml'])(
    'with an expression is a 415 that names it, and without one passes byte for byte: %s',
    (type) => {
      for (const given of [type, `${type}; charset=utf-8`, `${type}; charset=utf-16`])
        for (const isLittle of [true, false]) {
          for (const text of ['漢{{ t }}', '{"a":"{{ t }}"}', '\ufeff{"a":"{{ t }}"}']) {
            const refusal = refusalOf(() => send({ type: given, body: utf32(text, isLittle) }, { t: 'v' }));
            expect([refusal.status, refusal.message]).toEqual([415, expect.stringContaining('"UTF-32"')]);
          }
          for (const text of ['{"a":1}', '\ufeff<a>é</a>']) {
            const body = utf32(text, isLittle);
            expect(send({ type: given, body }, {}).body).toEqual(body);
          }
        }
    },
  );

  test('is refused in a part with an expression', () => {
    for (const isLittle of [true, false]) {
      const body = part('application/json', utf32('{"a":"{{ t }}"}', isLittle));
      expect(refusalOf(() => send({ type: 'multipart/form-data; boundary=b', body }, { t: 'v' })).status).toBe(415);
    }
  });

  test('without a type is refused with an expression, and binary data that begins like it passes', () => {
    for (const isLittle of [true, false]) {
      const refusal = refusalOf(() => send({ body: utf32('{"a":"{{ token_1 }}"}', isLittle) }, { token_1: 'v' }));
      expect(refusal.status).toBe(400);
      const body = Buffer.concat([utf32('\x07', isLittle), Buffer.from('{{ binary', 'latin1'), Buffer.of(0xff, 0)]);
      expect(send({ body }, {}).body).toEqual(body);
    }
  });
});
