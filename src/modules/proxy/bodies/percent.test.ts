// Tests paths, queries and forms: a value stays within its segment or field, and other characters keep their spelling.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { awkward, FORM, problemsOf, send, sendBody } from '../../../../test/support/expansion.ts';

const t = { t: 'v', u: 'w' };

describe('path and query', () => {
  test.each([
    ['/a/{{ t }}/b', '/a/v/b'],
    ['/{{t}}', '/v'],
    ['/%7B%7Bt%7D%7D', '/v'],
    ['/%7b{%20t%20}%7d', '/v'],
    ['/x{{t}}y{{u}}z', '/xvywz'],
    ['/a%2Fb:c;d={{t}},e/%2f', '/a%2Fb:c;d=v,e/%2f'],
    ['/a+b{{t}}', '/a+bv'],
    ['/%zz%{{t}}%ff%F0%9F%98%80{{u}}%e2%82', '/%zz%v%ff%F0%9F%98%80w%e2%82'],
    ["/{{ t | replace: 'v', 'a%2Fb' }}", '/a%2Fb'],
    ["/%7B%7B%20t%20%7C%20replace:%20'v',%20'%C3%A9+%7C'%20%7D%7D/x", '/%C3%A9%2B%7C/x'],
    ['/{a}/%7B/{/{', '/{a}/%7B/{/{'],
    ['/{/{t}}', '/{/{t}}'],
    ['/a%20b/é', '/a%20b/é'],
  ])('the path %s goes out as %s', (path, expected) => {
    expect(send({ path }, t).path).toBe(expected);
  });

  test.each([
    ['a={{ t }}', 'a=v'],
    ['a=%7B%7B+t+%7D%7D&b=+%20', 'a=v&b=+%20'],
    ['{=1&a={{t}}', '{=1&a=v'],
    ['{{t}}', 'v'],
    ['a=x={{t}}=%3D+y', 'a=x=v=%3D+y'],
    ['a={{t}}&&=&a=%zz{{u}}', 'a=v&&=&a=%zzw'],
    ["a={{ t | replace: 'v', '%26%3D+%2b%25' }}&b", 'a=%26%3D%20%2B%25&b'],
    ['a={&b={', 'a={&b={'],
    ['', ''],
  ])('the query %s goes out as %s', (query, expected) => {
    expect(send({ query }, t).query).toBe(expected);
  });

  test('a value is one segment, and one value, whatever it holds (property)', () => {
    fc.assert(
      fc.property(
        awkward.filter((value) => value.isWellFormed() && value !== ''),
        (value) => {
          const { path, query } = send({ path: '/a/{{t}}/b', query: 'a={{t}}&b=c' }, { t: value });
          expect(path).toMatch(/^\/a\/(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})*\/b$/);
          expect(decodeURIComponent(path.slice(3, -2))).toBe(value);
          expect([...new URLSearchParams(query)]).toEqual([
            ['a', value],
            ['b', 'c'],
          ]);
        },
      ),
      { numRuns: 2000 },
    );
  });
});

describe('forms', () => {
  test.each([
    ['a={{ t }}&b=c', 'a=v&b=c'],
    ['a=%7B%7B+t+%7D%7D+%C3%A9&b=%zz&c', 'a=v+%C3%A9&b=%zz&c'],
    ['a=é{{t}}', 'a=év'],
  ])('%s goes out as %s', (body, expected) => {
    expect(sendBody(FORM, body, t)).toBe(expected);
  });

  test('problems have the name of the field', () => {
    expect(problemsOf(() => sendBody(FORM, 'x=1&card+number=a{{', t))).toEqual({
      'body.card number': ['must close every {{ with }}'],
    });
    expect(problemsOf(() => send({ query: 'a%20b={{ }}' }, t))).toHaveProperty(['query.a b']);
    expect(problemsOf(() => send({ query: '{{' }, t))).toHaveProperty(['query']);
    for (const name of ['{{t}}', '%7B%7b', 'a{{'])
      expect(problemsOf(() => send({ query: `a=b&${name}={{t}}` }, t))).toEqual({
        query: ['must have no {{ in names: expressions stand in values only'],
      });
    expect(problemsOf(() => sendBody(FORM, '{{ t }}=1&x={{t}}', t))).toHaveProperty(['body']);
    expect(problemsOf(() => send({ path: '/a/{{' }, t))).toHaveProperty(['path']);
  });

  test('a value is one field, whatever it holds (property)', () => {
    fc.assert(
      fc.property(
        awkward.filter((value) => value.isWellFormed()),
        (value) => {
          const body = sendBody(FORM, 'a=%7b%7b+t+%7d%7d&b=x+{{t}}', { t: value });
          expect([...new URLSearchParams(body)]).toEqual([
            ['a', value],
            ['b', `x ${value}`],
          ]);
        },
      ),
      { numRuns: 2000 },
    );
  });

  test('in latin1 a value is encoded by its bytes', () => {
    expect(sendBody(`${FORM}; charset=iso-8859-1`, 'a={{t}}', { t: "é&'" })).toBe('a=%E9%26%27');
  });
});
