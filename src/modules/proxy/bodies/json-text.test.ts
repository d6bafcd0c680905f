// Tests JSON bodies: a value cannot end its string and keeps its type, and the rest of the text stays.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { awkward, problemsOf, refusalOf, send, sendBody } from '../../../../test/support/expansion.ts';
import type { Json } from '../../../platform/json/json.ts';

const t = { t: 'v', u: 'w' };

describe('JSON', () => {
  test.each([
    ['"{{ t }}"', 'v', '"v"'],
    ['"{{ t }}"', 5, '5'],
    ['"{{ t }}"', null, 'null'],
    ['"{{ t }}"', { a: [1.5, 'x'] }, '{"a":[1.5,"x"]}'],
    ['"a {{ t }}"', 5, '"a 5"'],
    ['"a {{ t }}"', { a: 1 }, '"a {\\"a\\":1}"'],
    ['"{{ t }}{{ t }}"', 5, '"55"'],
    ['"\\u007b{ t }\\u007D"', 'v', '"v"'],
    ['"\\u007B\\u007b t }}\\n"', 'v', '"v\\n"'],
    ['{"{ {" \r\n\t :"{{ t }}"}', 'v', '{"{ {" \r\n\t :"v"}'],
    [
      '{ "a" : 1.0, "n":12345678901234567890,"a":"{{ t }}" , "é":-0e1 }\n',
      5,
      '{ "a" : 1.0, "n":12345678901234567890,"a":5 , "é":-0e1 }\n',
    ],
    ['["\\\\u007b\\\\u007b","\\u0041\\/","{{ t }}"]', 5, '["\\\\u007b\\\\u007b","\\u0041\\/",5]'],
    ['["\\"{{ t }}\\\\","\\\\\\"","{{ t }}\\\\"]', 'v', '["\\"v\\\\","\\\\\\"","v\\\\"]'],
    ['{"a":{"b":{"c":1}}}', 5, '{"a":{"b":{"c":1}}}'],
    ['\ufeff["{{ t }}"]', 5, '\ufeff[5]'],
    ["[\"{{ t | replace: 'v', '}' }}\"]", 'v', '["}"]'],
    ['["{{ t | json: \\"$.a\\" }}"]', { a: [1] }, '[[1]]'],
  ])('%s with %j is %s', (body, value, expected) => {
    expect(sendBody('application/json', body, { t: value as Json })).toBe(expected);
  });

  test('a value that is not there is null', () => {
    expect(sendBody('application/json', `["{{ t | json: '$.a' | default: nil }}"]`, { t: {} })).toBe('[null]');
  });

  test.each([
    ['["{{ t }}"', { body: ['must be valid JSON: see line 1, column 11'] }],
    ['{{ t }}', { body: ['must be valid JSON: see line 1, column 2'] }],
    ['{"a":{{ t }}}', { body: ['must be valid JSON: see line 1, column 7'] }],
    ["['{{ t }}']", { body: ['must be valid JSON: see line 1, column 2'] }],
    ['["{{ t }}\n"]', { body: ['must be valid JSON: see line 1, column 10'] }],
    ['["{{ t }}]', { body: ['must be valid JSON: see line 1, column 11'] }],
    ['["\\x{{ t }}"]', { body: ['must be valid JSON: see line 1, column 3'] }],
    [':"{{ t }}"', { body: ['must be valid JSON: see line 1, column 1'] }],
    ['{"a":1},"{{ t }}"', { body: ['must be valid JSON: see line 1, column 8'] }],
    ['{"card":{"number":"{{ t"}}', { 'body.card.number': ['must close every {{ with }}'] }],
    ['[[1,[2]],{"a":1,"x":[0,"{{ }}"]}]', { 'body[1].x[1]': ['must have something to refer to between {{ and }}'] }],
    ['{"\\u0061":{"a":1},"b":"{{"}', { 'body.b': ['must close every {{ with }}'] }],
  ])('%s is refused, and said where', (body, problems) => {
    expect(problemsOf(() => sendBody('application/json', body, t))).toEqual(problems);
  });

  test('what is wrong with a value is said where it would go', () => {
    const work = () => sendBody('application/json', `{"a":["{{ t }}","{{ u | last4 }}"]}`, { t: 1, u: {} });
    expect(Object.keys(problemsOf(work))).toEqual(['body.a[1]']);
  });

  test('what is no JSON passes as it is, as long as it has no expression', () => {
    for (const body of ['{"a":', '{ {', 'a', '{"a":{"b":1}']) expect(sendBody('application/json', body, {})).toBe(body);
  });

  test('64 levels are looked at, and 100,000 break nothing', () => {
    const nested = (depth: number) => `${'['.repeat(depth)}"{{ t }}"${']'.repeat(depth)}`;
    expect(sendBody('application/json', nested(64), { t: 5 })).toBe(nested(64).replace('"{{ t }}"', '5'));
    for (const depth of [65, 100_000])
      expect(problemsOf(() => sendBody('application/json', nested(depth), t))).toEqual({
        body: ['must not be nested deeper than 64 levels'],
      });
    const open = `${'{"a":'.repeat(100_000)}"{{ t }}"`;
    expect(refusalOf(() => sendBody('application/json', open, t)).status).toBe(400);
  });

  test('a value closes no string, is no expression, and leaves what is beside it (property)', () => {
    fc.assert(
      fc.property(awkward, fc.jsonValue(), fc.constantFrom('utf-8', 'iso-8859-1'), (value, neighbour, charset) => {
        const type = `application/json; charset=${charset}`;
        // The rest of the text must have no expression, and must be ASCII because the test counts bytes.
        const other = JSON.stringify(neighbour)
          .replace(/\{{2,}/g, '{')
          .replace(/[^\0-\x7f]/g, '?');
        const { body } = send(
          { type, body: `{"a":"{{ t }}","b":${other},"c":["x {{ t }} y"],"d":"{{ u }}"}` },
          { t: value, u: neighbour as Json },
        );
        const text = (body as Buffer).toString(charset === 'utf-8' ? 'utf8' : 'latin1');
        expect(JSON.parse(text)).toEqual(
          JSON.parse(JSON.stringify({ a: value, b: JSON.parse(other), c: [`x ${value} y`], d: neighbour })),
        );
        expect(text).toContain(`,"b":${other},"c":`);
      }),
      { numRuns: 2000 },
    );
  });

  test('lines are texts of their own, and so are records', () => {
    const type = 'application/x-ndjson';
    expect(sendBody(type, '{"a":1}\r\n\n{"a":"{{ t }}"}\n"x{{ t }}"', { t: 5 })).toBe('{"a":1}\r\n\n{"a":5}\n"x5"');
    expect(sendBody(type, 'not json\n"{{ t }}"\n', { t: 5 })).toBe('not json\n5\n');
    expect(problemsOf(() => sendBody(type, '1\n{"a":["{{"]}', t))).toEqual({
      'body[1].a[0]': ['must close every {{ with }}'],
    });
    expect(problemsOf(() => sendBody(type, '{"a":\n"{{ t }}"}', t))).toEqual({
      'body[1]': ['must be valid JSON: see line 1, column 10'],
    });
    const records = '\x1e{"a":\n"{{ t }}"}\n\x1e"{{ t }}"\n';
    expect(sendBody('application/json-seq', records, { t: 5 })).toBe('\x1e{"a":\n5}\n\x1e5\n');
  });
});
