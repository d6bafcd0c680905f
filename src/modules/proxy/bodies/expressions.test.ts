// Tests expressions in every place of a forwarded request: limits hold for all places together, and other bytes stay.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { watchMemory } from '../../../../test/support/memory.ts';
import {
  awkward,
  find,
  FORM,
  parts,
  PARTS,
  problemsOf,
  refusalOf,
  send,
  sendBody,
  type Sent,
} from '../../../../test/support/expansion.ts';
import type { Headers } from '../../../platform/egress/headers.ts';
import { AppError } from '../../../platform/base/errors.ts';
import { createExpansion } from '../../tokens/expressions/expansion.ts';
import { bodyKindOf } from './body-kind.ts';
import { findExpressions } from './expressions.ts';

const t = { t: 'v', u: 'w' };

describe('headers', () => {
  test('values are expanded, names never, and other headers stay', () => {
    const headers: Headers = [
      ['Authorization', 'Bearer {{ t }}'],
      ['x-{{ t }}', '{{t}},{{u}}'],
      ['X-Other', '\u00e9{"a":{}}%7B%7B'],
    ];
    expect(send({ headers }, t).headers).toEqual([
      ['Authorization', 'Bearer v'],
      ['x-{{ t }}', 'v,w'],
      ['X-Other', '\u00e9{"a":{}}%7B%7B'],
    ]);
  });

  test.each(['a\r\nb: c', 'a\n', '\r', '\0', '\x1b[0m', '\x7f', 'a\u2028', '\u0100', '\u560a\u560d', '😀'])(
    '%j never enters a header',
    (value) => {
      const work = () => send({ headers: [['X-Card', 'a {{ t }}']] }, { t: value });
      expect(problemsOf(work)).toEqual({ 'headers.X-Card': ['must insert only characters that a header can hold'] });
    },
  );

  test('all that a header can hold does enter it', () => {
    const value = `\t !"#$%&'()*+,-./0:;<=>?@A[\\]^_\`a{|}~\u0080\u00e9\u00ff`;
    expect(send({ headers: [['x', '{{ t }}']] }, { t: value }).headers).toEqual([['x', value]]);
  });
});

describe('other texts', () => {
  test('values are inserted as text, null as nothing, structure as JSON', () => {
    const body = 'a={{ t }}, {{ u }}{{ n }} %7B%7B {"a":{}}\0\r\n';
    expect(sendBody('text/plain', body, { t: '"\t<', u: { a: [1] }, n: null })).toBe(
      'a="\t<, {"a":[1]} %7B%7B {"a":{}}\0\r\n',
    );
  });

  test('a body without a type is text if it is UTF-8', () => {
    expect(sendBody(undefined, 'é{{ t }}', t)).toBe('év');
    const bytes = Buffer.from('\xff{{ t', 'latin1');
    expect(send({ body: bytes }, {}).body).toEqual(bytes);
    expect(problemsOf(() => send({ body: Buffer.concat([bytes, Buffer.from(' }}')]) }, t))).toHaveProperty(['body']);
  });

  test.each(['text/plain', 'application/json', FORM, 'text/xml', 'text/plain; charset=utf-8'])(
    'what is called %s and is not UTF-8 passes without an expression, and is refused with one',
    (type) => {
      const bytes = Buffer.from('"\xff"', 'latin1');
      expect(send({ type, body: bytes }, {}).body).toEqual(bytes);
      const work = () => send({ type, body: Buffer.concat([bytes, Buffer.from('{{ t }}')]) }, t);
      expect(problemsOf(work)).toEqual({ body: ['must be in UTF-8, or in the charset that it says'] });
    },
  );

  test('in latin1 every byte stays, and a value must be in it', () => {
    const body = Buffer.from('\x80\xe9 {{ t }} \xff\x00', 'latin1');
    const type = 'text/plain; charset=iso-8859-1';
    expect((send({ type, body }, { t: 'é' }).body as Buffer).toString('latin1')).toBe('\x80\xe9 \xe9 \xff\x00');
    for (const value of ['€', 'a😀'])
      expect(problemsOf(() => send({ type, body }, { t: value }))).toEqual({
        body: ['must insert only characters that the charset of the body can hold'],
      });
  });

  test('a value with an unpaired surrogate is refused', () => {
    for (const sent of [
      { path: '/{{ t }}' },
      { query: 'a={{ t }}' },
      { type: FORM, body: 'a={{t}}' },
      { body: '{{t}}' },
    ])
      expect(refusalOf(() => send(sent, { t: 'a\ud800' })).status).toBe(400);
    expect(sendBody('application/json', '["{{ t }}"]', { t: 'a\ud800' })).toBe('["a\\ud800"]');
  });

  test.each(['application/octet-stream', 'application/pdf'])('%s is not looked at', (type) => {
    for (const body of ['{{ t }}', '{{', '\xff{{ unknown }}']) expect(sendBody(type, body, {})).toBe(body);
  });
});

describe('a segment of the path', () => {
  test.each(['/a/{{ t }}', '/{{ t }}/b', '/a/{{ t }}{{ t }}/b', '{{ t }}/b'])(
    'is never empty with its value: %s',
    (path) => {
      expect(send({ path }, { t: 'v' }).path).toBe(path.replaceAll('{{ t }}', 'v'));
      expect(problemsOf(() => send({ path }, { t: '' }))).toEqual({
        path: ['must not have a segment that is empty with its values'],
      });
    },
  );

  test('may have an empty value beside text, and be empty as its author wrote it', () => {
    expect(send({ path: '/a//x-{{ t }}/{{ u }}/' }, { t: '', u: 'v' }).path).toBe('/a//x-/v/');
  });
});

/** The same text in every place. */
const places: [string, (text: string) => Sent][] = [
  ['path', (text) => ({ path: `/a/${encodeURIComponent(text)}` })],
  ['raw path', (text) => ({ path: `/a/${text}` })],
  ['query', (text) => ({ query: `a=${encodeURIComponent(text)}` })],
  ['header', (text) => ({ headers: [['x', text]] })],
  ['json', (text) => ({ type: 'application/json', body: JSON.stringify({ a: text }) })],
  ['lines', (text) => ({ type: 'application/jsonl', body: JSON.stringify(text) })],
  ['form', (text) => ({ type: FORM, body: `a=${encodeURIComponent(text)}` })],
  ['xml', (text) => ({ type: 'text/xml', body: `<a>${text}</a>` })],
  ['text', (text) => ({ type: 'text/plain', body: text })],
  ['undeclared', (text) => ({ body: text })],
  ['multipart', (text) => ({ type: PARTS, body: parts(['', text]) })],
];

describe.each(places)('in %s', (name, at) => {
  test.each([
    '{{',
    '{{ }}',
    '{{}}',
    '{{{t}}}',
    '{{t',
    '{{ t }',
    '{{ t } }',
    'a {{ t }} {{',
    '{{\nt }}',
    '{{ t\u200b }}',
    '{{ \u00adt }}',
    '{{ t | unheard_of }}',
    '{{ t | }}',
    '{{ a/b }}',
    '{{ {{ t }} }}',
    '{{ alias | alias_preserve_length }}',
  ])('%j is refused before anything is opened', (text) => {
    // Such a header cannot arrive, and such a path is another one.
    if (name === 'header' && text.includes('\n')) return;
    if (name === 'raw path' && text.includes('/')) return;
    const refusal = refusalOf(() => find(at(text)));
    expect(refusal.status).toBe(400);
    expect(
      Object.values(refusal.errors as object)
        .flat()
        .join(),
    ).toMatch(/^must /);
  });

  test('{{t}} and {{ t }} are the same, and one token', () => {
    const [one, other] = [send(at('{{t}}'), t), send(at('{{ t }}'), t)];
    expect(String(one.body)).toBe(String(other.body));
    expect([one.path, one.query, one.headers]).toEqual([other.path, other.query, other.headers]);
    expect([...find(at('{{t}}{{ t }}')).references.ids]).toEqual(['t']);
  });

  test('a value with an expression in it goes literally', () => {
    const { path, query, headers, body } = send(at('{{ t }}'), { t: '{{ u }}', u: 'never' });
    const all = `${path}${query}${JSON.stringify(headers)}${String(body)}`;
    expect(all).toMatch(/\{\{ u \}\}|%7B%7B%20u%20%7D%7D/);
    expect(all).not.toContain('never');
  });

  test('100 tokens and 1,000 expressions pass, one more does not', () => {
    const list = (count: number, id: (index: number) => string) =>
      Array.from({ length: count }, (_, index) => `{{${id(index)}}}`).join('');
    expect(find(at(list(100, (index) => `t${index}`))).references.ids.size).toBe(100);
    expect(refusalOf(() => find(at(list(101, (index) => `t${index}`)))).status).toBe(400);
    expect(find(at(list(1000, () => 't'))).references.placeholders).toBe(1000);
    expect(refusalOf(() => find(at(list(1001, () => 't')))).status).toBe(400);
  });

  test('1 MB a thousand times is refused before it is made', () => {
    // A million characters that each become three, six, or more. In a header the quotation mark is refused.
    const tokens = { t: (name === 'header' ? "'" : '"').repeat(1024 * 1024) };
    const memory = watchMemory({ megabytes: 192 });
    const refusal = refusalOf(() => send(at('{{t}}'.repeat(1000)), tokens));
    expect(refusal).toMatchObject({ code: 'payload_too_large', status: 413 });
    memory.end();
  });
});

describe('a request', () => {
  test('counts all its places together', () => {
    const sent = {
      path: '/{{a}}',
      query: 'x={{b}}',
      headers: [['x', '{{c}}{{a}}']] as Headers,
      body: '{{ token: d }}',
    };
    const { references } = find(sent);
    expect([...references.ids]).toEqual(['a', 'b', 'c', 'd']);
    expect(references).toMatchObject({ placeholders: 5, isWhole: true });
    expect(find({ ...sent, body: '{{d}}' }).references.isWhole).toBe(false);
    const many = '{{t}}'.repeat(400);
    expect(refusalOf(() => find({ path: `/${many}`, query: many, body: many })).status).toBe(400);
    const half = 'x'.repeat(6_000_000);
    expect(refusalOf(() => send({ path: '/{{t}}', body: '{{t}}' }, { t: half })).status).toBe(413);
  });

  test('without an expression stays as it was, byte for byte (property)', () => {
    const types = fc.constantFrom(
      'application/json',
      FORM,
      'text/xml',
      'text/plain',
      PARTS,
      'application/jsonl',
      undefined,
    );
    const piece = fc.oneof(awkward, fc.constantFrom('{', '{ {', '%7b', '\\u007b', '--b\r\n\r\n'));
    const any = fc
      .array(piece)
      .map((pieces) => pieces.join('').replace(/(?:\{|%7b|\\u007b)(?=\0*(?:\{|%7b|\\u007b))/gi, ''));
    fc.assert(
      fc.property(any, types, (text, type) => {
        const all: Headers = type === undefined ? [] : [['content-type', type]];
        const bytes = Buffer.from(text);
        const places = { path: `/${text}`, query: text, headers: [...all, ['x', text]] as Headers };
        const found = findExpressions({ ...places, body: { kind: bodyKindOf(all), bytes } });
        expect(found.references.ids.size).toBe(0);
        const out = found.expand(createExpansion(() => undefined, { hmac: () => '' }, found.references));
        expect(out).toEqual({ ...places, body: bytes });
        expect(out.body).toBe(bytes);
      }),
      { numRuns: 2000 },
    );
  });

  test('without a body has none', () => {
    const found = findExpressions({ path: '/{{t}}', query: '', headers: [], body: undefined });
    const expansion = createExpansion(() => ({ data: 'v' }), { hmac: () => '' }, found.references);
    expect(found.expand(expansion)).toEqual({ path: '/v', query: '', headers: [], body: undefined });
  });

  test('is refused without text of the request in the error', () => {
    const secret = 'Zq9SecretZq9';
    for (const [, at] of places)
      for (const text of [`{{ ${secret}`, `{{ t | ${secret} }}`, `{{ ${secret} | last4: 1 }}`]) {
        const refusal = refusalOf(() => find(at(text)));
        expect(JSON.stringify([refusal.message, refusal.errors])).not.toContain('Zq9');
      }
  });
});

/** The least CPU time in milliseconds of several runs. CPU time excludes other processes. */
const leastMs = (times: number, work: () => void): number => {
  let least = Infinity;
  for (let run = 0; run < 3; run += 1) {
    const before = process.threadCpuUsage();
    for (let time = 0; time < times; time += 1) work();
    const { user, system } = process.threadCpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
};

describe.each([
  ['application/json', '', ''],
  ['application/json', '["', '","{{ t }}"]'],
  ['application/jsonl', '', '\n"{{ t }}"'],
  [FORM, 'a=', '&a={{ t }}'],
  ['text/xml', '<a>', '{{ t }}'],
  ['text/plain', '', '{{ t }}'],
  [PARTS, '--b\r\n\r\n', '{{ t }}\r\n--b--'],
])('%s with %j and %j around it', (type, before, behind) => {
  test.each([
    '{',
    '{{',
    '{{ ',
    '}}',
    '{{ t }}',
    '%7b',
    '%41',
    '%',
    '+',
    '&',
    '=',
    '\\',
    '\\u007b',
    '"',
    '"{{',
    '<',
    '<a ',
    '<!--',
    '<![CDATA[',
    '\n',
    '\r\n--b',
    '\r\n--b\r\n\r\n',
    '[',
    '[]',
  ])('is read in linear time on %j again and again', (piece) => {
    const attempt = (bytes: number) => {
      const body = before + piece.repeat(bytes / piece.length) + behind;
      return () => {
        try {
          send({ type, body }, { t: 'v' });
        } catch (error) {
          expect(error).toBeInstanceOf(AppError);
        }
      };
    };
    const short = attempt(30_000);
    const long = attempt(600_000);
    short();
    // Both scan the same number of bytes; quadratic work would take 20 times as long. The floor covers the clock's resolution.
    expect(leastMs(1, long)).toBeLessThan(5 * Math.max(20, leastMs(20, short)));
  });
});
