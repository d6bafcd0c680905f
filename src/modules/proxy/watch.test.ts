// Tests the search of streamed bodies: they pass unchanged and stop before an expression.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { watchMemory } from '../../../test/support/memory.ts';
import { FORM, PARTS } from '../../../test/support/expansion.ts';
import type { Headers } from '../../platform/egress/headers.ts';
import { AppError } from '../../platform/base/errors.ts';
import { bodyKindOf } from './bodies/body-kind.ts';
import { watchBody } from './watch.ts';

async function* inPieces(body: Buffer, bytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < body.length; at += bytes) yield body.subarray(at, at + bytes);
}

/** What passed, and whether the whole body did. */
const watch = async (
  type: string | undefined,
  body: string,
  bytes = 64,
): Promise<{ passed: string; isWhole: boolean }> => {
  const headers: Headers = type === undefined ? [] : [['content-type', type]];
  let passed = '';
  try {
    for await (const piece of watchBody(bodyKindOf(headers), inPieces(Buffer.from(body, 'latin1'), bytes)))
      passed += Buffer.from(piece).toString('latin1');
    return { passed, isWhole: true };
  } catch (error) {
    expect(error).toBeInstanceOf(AppError);
    expect(error).toMatchObject({ status: 413, message: 'A body with expressions must be at most 10 MB.' });
    return { passed, isWhole: false };
  }
};

const part = (headers: string, content: string): string => `--b\r\n${headers}\r\n\r\n${content}\r\n`;

const PNG = 'Content-Type: image/png';

const openings: [type: string | undefined, body: string][] = [
  ['application/json', '{"a":"{{ t }}"}'],
  ['application/json', '["\\u007b\\u007B t }}"]'],
  ['application/json', '["{\\u007b t }}"]'],
  ['application/jsonl', '1\n"{{ t }}"'],
  [FORM, 'a={{'],
  [FORM, 'a=%7b%7B'],
  [FORM, 'a={%7B'],
  ['text/xml', '<a>{{ t }}</a>'],
  ['text/plain', 'x{{'],
  [undefined, 'x{{'],
  [undefined, '\xc3\xa9{{'],
  [PARTS, `${part(PNG, '{{\xff')}${part('x: y', 'x{{')}--b--`],
  [PARTS, `${part('Content-Type: application/json', '"\\u007b{"')}--b--`],
  [PARTS, `${part(`Content-Type: ${FORM}`, 'a=%7b%7b')}--b--`],
  [PARTS, `--b\r\n\r\n{{\r\n--b--`],
  [PARTS, `${part('Content-Type: multipart/mixed; boundary=c', '--c\r\n\r\n{{\r\n--c--')}--b--`],
  ['application/json; charset=shift_jis', '"{{'],
  ['text/plain; charset=shift_jis', 'a {{ t'],
  // An invalid multipart body is scanned as text of any kind.
  ['application/json; charset=utf-16le', '[\0"\0{\0{\0'],
  ['application/json', '\0[\0"\0{\0{'],
  ['text/plain', '\xff\xfea\0{\0{\0'],
  [PARTS, `--b\r\nno header\r\n\r\n{{\r\n--b--`],
  [PARTS, `${part(PNG, 'x')}--bc\r\n%7b%7b`],
];

const harmless: [type: string | undefined, body: string][] = [
  ['application/json', '{"a":{"b":{ }},"c":"\\u007b %7b%7b"}'],
  [FORM, 'a={ {&b=%7b&c=%7b%7&\\u007b\\u007b'],
  ['text/xml', '<a>{ { %7b%7b</a>'],
  ['text/plain', '{%7b\\u007b}}'],
  [undefined, '\xff{{ t'],
  ['application/pdf', '{{ t }}'],
  ['application/cbor', '{{ {{ x \xff {{\xff}}{{}}'],
  ['application/json; charset=utf-16le', '{{ t }'],
  ['text/plain', 'x\0{\0x\0{\0'],
  [PARTS, `{\r\n${part(`${PNG}\r\nX: {`, '{{ t }}')}${part('x: y', '{ {%7b%7b')}--b--\r\n{`],
  [PARTS, `${part('x: y', '\xff{{')}${part(PNG, `\r\n-{{\r\n--\r\n{{`)}--b--`],
  [PARTS, `${part('Content-Type: multipart/mixed; boundary=c', `--c\r\n${PNG}\r\n\r\n{{\r\n--c--`)}--b--`],
];

describe('a watched body', () => {
  test.each(openings)('of %s stops before the chunk with an expression: %j', async (type, body) => {
    for (const bytes of [1, 2, 3, 5, 8, 64, 1000]) {
      const { passed, isWhole } = await watch(type, body, bytes);
      expect(isWhole).toBe(false);
      expect(body.startsWith(passed)).toBe(true);
      expect(passed).not.toMatch(type === PARTS ? /--b\r\n\r\n\{\{/ : /(?:\{|%7b|\\u007b){2}/i);
    }
  });

  test.each(harmless)('of %s passes as it is: %j', async (type, body) => {
    for (const bytes of [1, 2, 3, 5, 8, 64, 1000])
      expect(await watch(type, body, bytes)).toEqual({ passed: body, isWhole: true });
  });

  test('of bytes is the body itself', () => {
    const body = inPieces(Buffer.from('{{'), 1);
    expect(watchBody({ kind: 'bytes' }, body)).toBe(body);
  });

  test('passes each chunk on before it reads the next', async () => {
    const pieces = [Buffer.from('"a'), Buffer.from('b'), Buffer.from('"')];
    let asked = 0;
    const source = async function* (): AsyncGenerator<Uint8Array> {
      for (const piece of pieces) {
        asked += 1;
        yield piece;
      }
    };
    let passed = 0;
    for await (const piece of watchBody(bodyKindOf([['content-type', 'application/json']]), source())) {
      expect(piece).toBe(pieces[passed]);
      passed += 1;
      expect(asked).toBe(passed);
    }
    expect(passed).toBe(3);
  });

  test('closes its source when it stops, and when its reader stops', async () => {
    let ended = 0;
    const source = async function* (): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield Buffer.from('x{{'.slice(0, ended + 1));
      } finally {
        ended += 1;
      }
    };
    const kind = bodyKindOf([['content-type', 'text/plain']]);
    for await (const _ of watchBody(kind, source())) break;
    expect(ended).toBe(1);
    ended = 2;
    await expect(watchBody(kind, source())[Symbol.asyncIterator]().next()).rejects.toThrow(AppError);
    expect(ended).toBe(3);
  });

  test('finds an expression at any border of chunks (property)', async () => {
    const kinds = fc.constantFrom<[string, string]>(
      ['application/json', '\\u007B\\u007b'],
      ['application/json', '{\\u007b'],
      [FORM, '%7B%7b'],
      ['text/plain', '{{'],
      [PARTS, '{{'],
    );
    await fc.assert(
      fc.asyncProperty(kinds, fc.nat(200), fc.integer({ min: 1, max: 40 }), async ([type, opening], before, bytes) => {
        const text = `${'x'.repeat(before)}${opening}${'y'.repeat(50)}`;
        const body = type === PARTS ? `${part(PNG, '{{')}${part('a: b', text)}--b--` : text;
        const { passed, isWhole } = await watch(type, body, bytes);
        expect(isWhole).toBe(false);
        expect(passed.length).toBeLessThan(body.lastIndexOf(opening) + opening.length);
        expect(passed.length).toBeGreaterThan(body.lastIndexOf(opening) - bytes);
      }),
      { numRuns: 1000 },
    );
  });

  test('of more than 1,000 parts is scanned as text of any kind from there on', async () => {
    const many = (count: number) => `${part(PNG, 'x').repeat(count)}${part(PNG, '%7B%7b')}--b--`;
    expect(await watch(PARTS, many(999), 1000)).toEqual({ passed: many(999), isWhole: true });
    const { passed, isWhole } = await watch(PARTS, many(1001), 1000);
    expect(isWhole).toBe(false);
    expect(passed.length).toBeGreaterThan(30_000);
  });

  test('of 60 MB passes whole', async () => {
    const piece = Buffer.from(`{"a":${'"x",'.repeat(16_000)}`);
    const source = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from(`--b\r\nContent-Type: application/json\r\n\r\n`);
      for (let count = 0; count < 1000; count += 1) yield piece;
      yield Buffer.from('\r\n--b--');
    };
    const memory = watchMemory({ megabytes: 48 });
    let bytes = 0;
    for await (const each of watchBody(bodyKindOf([['content-type', PARTS]]), source())) bytes += each.byteLength;
    expect(bytes).toBeGreaterThan(60_000_000);
    memory.end();
  });
});

test('a streamed body in UTF-32 stops before an expression, and passes without one', async () => {
  const wide = (text: string): Buffer => Buffer.from([...text].flatMap((each) => [each.charCodeAt(0), 0, 0, 0]));
  const pass = async (type: string | undefined, body: Buffer): Promise<void> => {
    const headers: Headers = type === undefined ? [] : [['content-type', type]];
    for await (const _ of watchBody(bodyKindOf(headers), inPieces(body, 7)));
  };
  for (const type of ['application/json', undefined])
    await expect(pass(type, wide('["{{ token_1 }}"]'))).rejects.toMatchObject({ status: 413 });
  await pass('application/json', wide('{"a":1}'));
  await pass(undefined, Buffer.concat([wide('x'), Buffer.alloc(100, 0xfe)]));
});
