// Tests multipart bodies: parsed alike in chunks of any size, and each part expanded by its own kind.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  awkward,
  FORM,
  parts,
  PARTS,
  problemsOf,
  refusalOf,
  send,
  sendBody,
} from '../../../../test/support/expansion.ts';
import type { Headers } from '../../../platform/egress/headers.ts';
import { createMultipartReader } from './multipart.ts';

const t = { t: 'v', u: 'w' };

describe('a multipart body', () => {
  const disposition = (name: string) => `Content-Disposition: form-data; name="${name}"`;
  const typed = (name: string, type: string) => `${disposition(name)}\r\nContent-Type: ${type}`;

  test('each part by its own kind; frames and headers byte for byte', () => {
    const body = `before {\r\n${parts(
      [`${disposition('text')}; filename="{ t }"`, 'a {{ t }}'],
      [typed('json', 'application/json'), '{"a":"{{ t }}"}'],
      [typed('xml', 'text/xml'), '<a>{{ t }}</a>'],
      [typed('form', FORM), 'a=%7B%7Bt%7D%7D'],
      [typed('png', 'image/png'), '{{ \xff'],
      [`${typed('coded', 'text/plain')}\r\ncontent-transfer-encoding: base64`, '{'],
      ['', '{{ t }}'],
      [typed('guess', 'text/plain').replace(/\r.*/, ''), '\xff{{'],
    )}behind {`;
    const sent = Buffer.from(body, 'latin1');
    const written = (send({ type: PARTS, body: sent }, { t: '<5>' }).body as Buffer).toString('latin1');
    expect(written).toBe(
      body
        .replace('a {{ t }}', 'a <5>')
        .replace('"{{ t }}"}', '"<5>"}')
        .replace('<a>{{ t }}', '<a>&lt;5&gt;')
        .replace('%7B%7Bt%7D%7D', '%3C5%3E')
        .replace('\r\n\r\n{{ t }}', '\r\n\r\n<5>'),
    );
  });

  test('problems have the name of the part, or its number', () => {
    const bad = (headers: string, content: string) => () => sendBody(PARTS, parts(['', ''], [headers, content]), t);
    expect(problemsOf(bad(disposition('card'), '{{'))).toHaveProperty(['body.card']);
    expect(problemsOf(bad(typed('card', 'application/json'), '{"a":"{{"}'))).toHaveProperty(['body.card.a']);
    expect(problemsOf(bad(typed('card', FORM), 'x={{'))).toHaveProperty(['body.card.x']);
    expect(problemsOf(bad('', '{{'))).toHaveProperty(['body[1]']);
    const utf8 = Buffer.from(parts([disposition('é'), '{{']));
    expect(problemsOf(() => sendBody(PARTS, utf8, t))).toHaveProperty(['body.é']);
  });

  test.each(['\r\n--b\r\n', '\n--b', '\r--b', 'x\r\n--b--', '--b', 'x--bc'])(
    'a value of %j would end its part for one reader or another, and is refused',
    (value) => {
      const body = parts([disposition('a'), '{{ t }}']);
      expect(problemsOf(() => sendBody(PARTS, body, { t: value }))).toEqual({
        'body.a': ['must not insert the boundary of the body'],
      });
    },
  );

  test('a boundary made of a value and the text around it is refused too', () => {
    const body = parts([disposition('a'), 'x\r\n-{{ t }}b']);
    expect(refusalOf(() => sendBody(PARTS, body, { t: '-' })).status).toBe(400);
    const nested = `--c\r\n\r\n{{ t }}\r\n--c--`;
    const outer = parts([typed('a', 'multipart/mixed; boundary=c'), nested]);
    expect(sendBody(PARTS, outer, t)).toBe(outer.replace('{{ t }}', 'v'));
    expect(refusalOf(() => sendBody(PARTS, outer, { t: '\n--b' })).status).toBe(400);
    expect(refusalOf(() => sendBody(PARTS, outer, { t: '\n--c' })).status).toBe(400);
  });

  test('parts have parts, on three levels; deeper ones are refused with an expression', () => {
    const level = (boundary: string, content: string) =>
      `--${boundary}\r\n\r\n{{ t }}\r\n--${boundary}\r\n${content}\r\n--${boundary}--`;
    const within = (boundary: string, content: string) =>
      `content-type: multipart/mixed; boundary=${boundary}\r\n\r\n${content}`;
    const body = level('b', within('x1', level('x1', within('x2', level('x2', within('x3', level('x3', '\r\n{{')))))));
    expect(problemsOf(() => sendBody(PARTS, body, t))).toHaveProperty(['body[1][1][1]']);
    const shallow = body.replace(/\{\{ t \}\}(?=\r\n--x3)/, 'x');
    expect(sendBody(PARTS, shallow, t).split('v')).toHaveLength(4);
  });

  test.each([
    ['no boundary in it', '{{ t }}'],
    ['no end', '--b\r\n\r\n{{ t }}'],
    ['a part without an end', '--b\r\n\r\n{{ t }}\r\n--b\r\nx: y'],
    ['a header that is none', '--b\r\nx\r\n\r\n{{ t }}\r\n--b--'],
    ['a boundary that goes on', '--b\r\n\r\n{{ t }}\r\n--bc\r\n\r\n\r\n--b--'],
    ['bare line ends', '--b\n\n{{ t }}\n--b--'],
    ['headers of 20 KB', `--b\r\nx: ${'y'.repeat(20_000)}\r\n\r\n{{ t }}\r\n--b--`],
  ])('with %s it is refused where it has an expression, and passes without', (_name, body) => {
    expect(problemsOf(() => sendBody(PARTS, body, t))).toEqual({
      body: ['must be a whole multipart body with the boundary that it says'],
    });
    const without = body.replace('{{', '{');
    expect(sendBody(PARTS, without, {})).toBe(without);
  });

  test('1,000 parts are read, and one more is refused', () => {
    const many = (count: number) => parts(...Array.from({ length: count }, (): [string, string] => ['', '{{ t }}']));
    expect(sendBody(PARTS, many(1000), t)).toBe(many(1000).replaceAll('{{ t }}', 'v'));
    expect(
      problemsOf(() =>
        sendBody(PARTS, `${parts(...Array.from({ length: 1001 }, (): [string, string] => ['', '']))}{{`, t),
      ),
    ).toEqual({
      body: ['must have at most 1000 parts'],
    });
  });

  test('a value is one field, for another reader too (property)', async () => {
    // This parser looks for the boundary without its dashes, so the boundary must be unlikely in a value.
    const boundary = '----7MA4YWxkTrZu0gW';
    const type = `multipart/form-data; boundary=${boundary}`;
    const template = parts([disposition('a'), 'x {{ t }}'], [disposition('b'), 'c']).replaceAll('--b', `--${boundary}`);
    await fc.assert(
      fc.asyncProperty(
        awkward.filter((value) => value.isWellFormed()),
        async (value) => {
          const body = sendBody(type, template, { t: value });
          const form = await new Response(body, { headers: { 'content-type': type } }).formData();
          expect([...form]).toEqual([
            ['a', `x ${value}`],
            ['b', 'c'],
          ]);
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe('the reader', () => {
  /** The calls of the handlers, with consecutive chunks of one kind joined. */
  const read = (boundary: string, pieces: string[]): unknown[] => {
    const handed: unknown[] = [];
    const add = (kind: string, piece: Buffer): void => {
      const text = piece.toString('latin1');
      const last = handed.at(-1);
      if (Array.isArray(last) && last[0] === kind) last[1] += text;
      else handed.push([kind, text]);
    };
    const reader = createMultipartReader(boundary, {
      onFrame: (piece) => add('frame', piece),
      onPart: (headers: Headers) => handed.push(headers),
      onContent: (piece) => add('content', piece),
      onMalformed: (piece) => add('malformed', piece),
    });
    for (const piece of pieces) reader.push(Buffer.from(piece, 'latin1'));
    reader.end();
    return handed;
  };

  const textOf = (handed: unknown[]): string =>
    handed
      .map((each) =>
        (each as string[]).length === 2 && typeof (each as string[])[1] === 'string' ? (each as string[])[1] : '',
      )
      .join('');

  test.each([
    ['--b--', [['frame', '--b--']]],
    ['--b\r\n\r\nx\r\n--b--', [['frame', '--b\r\n\r\n'], [], ['content', 'x'], ['frame', '\r\n--b--']]],
    ['--b\r\n\r\n\r\n--b--', [['frame', '--b\r\n\r\n'], [], ['frame', '\r\n--b--']]],
    ['--b\r\n\r\n--b--', [['frame', '--b\r\n'], [], ['frame', '\r\n--b--']]],
    ['--b\r\nA: 1\r\n\r\n--b--', [['frame', '--b\r\nA: 1\r\n'], [['A', '1']], ['frame', '\r\n--b--']]],
    [
      'pre\r\n--b \t\r\nA:1\r\nB : 2\r\n 3\r\n\r\nx\r\n-\r\n--\r\n--b--post\r\n--b',
      [
        ['frame', 'pre\r\n--b \t\r\nA:1\r\nB : 2\r\n 3\r\n\r\n'],
        [
          ['A', '1'],
          ['B', '2 3'],
        ],
        ['content', 'x\r\n-\r\n--'],
        ['frame', '\r\n--b--post\r\n--b'],
      ],
    ],
  ])('%j', (body, expected) => {
    expect(read('b', [body])).toEqual(expected);
  });

  test.each([
    '',
    'x',
    'x--b--',
    '\n--b--',
    '--b',
    '--b\r\n\r\nx',
    '--b\r\n\r\nx\r\n--b\r\n',
    '--b-\r\n\r\n\r\n--b--',
    '--bc\r\n\r\n\r\n--b--',
    `--b${' '.repeat(300)}\r\n\r\nx\r\n--b--`,
    '--b\r\n: x\r\n\r\nx\r\n--b--',
    '--b\r\nx\r\n\r\nx\r\n--b--',
    `--b\r\nA: ${'1'.repeat(17_000)}\r\n\r\nx\r\n--b--`,
  ])('%j becomes malformed at some place, and all of it is emitted', (body) => {
    const handed = read('b', [body]);
    expect(textOf(handed)).toBe(body);
    expect(handed.at(-1)).toContain('malformed');
  });

  test.each([
    ['a boundary', `--b${' '.repeat(300)}`],
    ['headers', `--b\r\nA: ${'1'.repeat(17_000)}`],
    ['content', `--b\r\n\r\n${'x\r\n--'.repeat(100)}`],
    ['a preamble', 'x\r\n--'.repeat(100)],
  ])('does not buffer %s that has no end', (_name, body) => {
    let handed = 0;
    const count = (piece: Buffer): void => {
      handed += piece.length;
    };
    const handlers = { onFrame: count, onPart: () => {}, onContent: count, onMalformed: count };
    createMultipartReader('b', handlers).push(Buffer.from(body));
    expect(handed).toBeGreaterThan(body.length - 10);
  });

  test('emits the same, and all of it, for chunks of any size (property)', () => {
    const piece = fc.constantFrom(
      '--b',
      '\r\n--b\r\n',
      '\r\n--b--',
      '\r\n',
      '\r',
      '\n',
      '-',
      'b',
      'A: 1',
      '\r\n\r\n',
      ' ',
      'xy',
    );
    const body = fc.array(piece, { maxLength: 20 }).map((all) => `--b\r\n${all.join('')}`);
    fc.assert(
      fc.property(body, fc.array(fc.nat(100), { maxLength: 10 }), (text, cuts) => {
        const whole = read('b', [text]);
        expect(textOf(whole)).toBe(text);
        const at = [0, ...cuts.filter((cut) => cut < text.length).sort((one, other) => one - other), text.length];
        const inPieces = at.slice(1).map((end, index) => text.slice(at[index], end));
        expect(read('b', inPieces)).toEqual(whole);
        expect(read('b', text.split(''))).toEqual(whole);
      }),
      { numRuns: 3000 },
    );
  });
});
