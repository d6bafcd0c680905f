// Tests destination URLs: they stay below the destination whatever is appended, and keep their spelling.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AppError } from '../../platform/base/errors.ts';
import { baseOf, destinationOf as appended, parseTarget, spell } from './target.ts';

/** What is sent for a path and a query behind a destination. */
const destinationOf = (base: string, path: string, query: string, isBare = false) =>
  appended(baseOf(base, new URL(base)), { path, query, isBare });

const refusalOf = (work: () => unknown): AppError => {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(AppError);
    return error as AppError;
  }
  throw new Error('nothing was refused');
};

describe('the request target', () => {
  test.each([
    ['/proxy', '', '', []],
    ['/proxy/', '', '', []],
    ['/proxy?a=1', '', 'a=1', []],
    ['/proxy/?a=1', '', 'a=1', []],
    ['/proxy//', '//', '', []],
    ['/proxy/a', '/a', '', []],
    ['/proxy/a/', '/a/', '', []],
    ['/proxy//evil', '//evil', '', []],
    ['/proxy/http://evil/', '/http://evil/', '', []],
    ['/proxy/a%2Fb;c=d/%zz', '/a%2Fb;c=d/%zz', '', []],
    ['/proxy/a?b?c', '/a', 'b?c', []],
    ['/proxy/a?b=1&&c&=d&b=2', '/a', 'b=1&&c&=d&b=2', []],
    ['/proxy/%7B%7Bid%7D%7D?a={{id}}', '/%7B%7Bid%7D%7D', 'a={{id}}', []],
    // Bytes beyond ASCII arrive as latin1. They may be UTF-8 or another charset.
    ['/proxy/\u00c3\u00a9?\u00ff', '/%C3%A9', '%FF', []],
    ['/proxy/\u20ac', '/%E2%82%AC', '', []],
  ])('%s', (url, path, query, proxyKeys) => {
    expect(parseTarget(url)).toEqual({ path, query, isBare: false, proxyKeys });
  });

  test.each([
    ['?svc-proxy-key=K&a=1', 'a=1', ['K']],
    ['?a=1&svc-proxy-key=K', 'a=1', ['K']],
    ['?a=1&SVC-Proxy-Key=K&b=%20+', 'a=1&b=%20+', ['K']],
    ['?%73vc%2Dproxy%2dkey=K%31', '', ['K1']],
    ['?svc-proxy-key=K&svc-proxy-key=L', '', ['K', 'L']],
    ['?svc-proxy-key', '', ['']],
    ['?svc-proxy-key=', '', ['']],
    ['?svc-proxy-key=a=b+c', '', ['a=b c']],
    ['?svc-proxy-key%zz=K', 'svc-proxy-key%zz=K', []],
    ['?svc-proxy-keys=K', 'svc-proxy-keys=K', []],
    ['?a=svc-proxy-key=K', 'a=svc-proxy-key=K', []],
  ])('the key is taken out of the query, however it is spelled: %s', (search, query, proxyKeys) => {
    expect(parseTarget(`/proxy/x${search}`)).toEqual({ path: '/x', query, isBare: false, proxyKeys });
  });

  test.each(['/proxy?', '/proxy/x?', '/proxy/x?svc-proxy-key=K&'])('a question mark at its end stays: %s', (url) => {
    expect(parseTarget(url)).toMatchObject({ query: '', isBare: true });
  });

  test('a fragment and a path outside /proxy are refused', () => {
    expect(refusalOf(() => parseTarget('/proxy/a#b')).errors).toEqual({ path: ['must not have a fragment'] });
    expect(refusalOf(() => parseTarget('/proxy?a=#')).errors).toEqual({ path: ['must not have a fragment'] });
    for (const url of ['/', '/proxies', '/proxyx/a', '/pr%6Fxy/a', 'https://evil/proxy', '/PROXY'])
      expect(refusalOf(() => parseTarget(url)).status).toBe(400);
  });
});

describe('the destination', () => {
  test.each([
    ['https://h.example', '', '', 'https://h.example/'],
    ['https://h.example/', '', '', 'https://h.example/'],
    ['https://h.example', '/a', '', 'https://h.example/a'],
    ['https://h.example/', '/a/', '', 'https://h.example/a/'],
    ['https://h.example/v1', '/a', '', 'https://h.example/v1/a'],
    ['https://h.example/v1/', '/a', '', 'https://h.example/v1/a'],
    ['https://h.example/v1//', '/a', '', 'https://h.example/v1//a'],
    ['https://h.example/v1', '', '', 'https://h.example/v1'],
    ['https://h.example/v1/', '', '', 'https://h.example/v1/'],
    ['https://h.example:8443/v1', '/a', '', 'https://h.example:8443/v1/a'],
    ['https://h.example/v1?k=1', '', '', 'https://h.example/v1?k=1'],
    ['https://h.example/v1?k=1', '/a', 'b=2', 'https://h.example/v1/a?k=1&b=2'],
    ['https://h.example/v1?', '/a', 'b=2', 'https://h.example/v1/a?b=2'],
    ['https://h.example/v1?', '', '', 'https://h.example/v1?'],
    ['https://h.example/v1?', '/a', '', 'https://h.example/v1/a?'],
    ["https://h.example/v1?k='1'", '', '', "https://h.example/v1?k='1'"],
    ["https://h.example/v1?k='1'", '/a', "b='2'", "https://h.example/v1/a?k='1'&b='2'"],
    ["https://h.example/v1?k='é'", '/a', '', 'https://h.example/v1/a?k=%27%C3%A9%27'],
    ["https://h.example/v1#f?k='1'", '/a', '', 'https://h.example/v1/a'],
    ['https://h.example/v1#f', '/a', 'b=2', 'https://h.example/v1/a?b=2'],
    ['https://h.example/v1', '//evil', '', 'https://h.example/v1//evil'],
    ['https://h.example', '//evil', '', 'https://h.example//evil'],
    ['https://h.example', '//evil@x:1/', '', 'https://h.example//evil@x:1/'],
    ['https://h.example', '/http://evil/', '', 'https://h.example/http://evil/'],
    ['https://h.example', '/@evil', '', 'https://h.example/@evil'],
    ['https://h.example', '/:80', '', 'https://h.example/:80'],
    ['https://h.example', '/\\evil\\x', '', 'https://h.example/%5Cevil%5Cx'],
    ['https://h.example', '/\t\r\n x', '', 'https://h.example/%09%0D%0A%20x'],
    ['https://h.example', '/a;b=c/.../.d/e./x..y', '', 'https://h.example/a;b=c/.../.d/e./x..y'],
    ['https://h.example', '/%zz%/%2f', '', 'https://h.example/%zz%/%2f'],
    ['https://h.example', '/a?b#c', '', 'https://h.example/a%3Fb%23c'],
    ['https://h.example', '/"<>^`{|}', '', 'https://h.example/%22%3C%3E%5E%60%7B|%7D'],
    ['https://h.example', '/é€😀', '', 'https://h.example/%C3%A9%E2%82%AC%F0%9F%98%80'],
    ['https://h.example', '', 'a[]=1&b={c}|\\^`&d=/?:@', 'https://h.example/?a[]=1&b={c}|\\^`&d=/?:@'],
    ['https://h.example', '', 'a="\'<># \t', "https://h.example/?a=%22'%3C%3E%23%20%09"],
  ])('%s and %j and %j', (base, path, query, url) => {
    expect(spell(destinationOf(base, path, query))).toBe(url);
  });

  test.each([
    ['https://h.example', '', 'https://h.example/?'],
    ['https://h.example/v1', '/a', 'https://h.example/v1/a?'],
    ['https://h.example/v1?k=1', '/a', 'https://h.example/v1/a?k=1'],
  ])('%s and %j and a question mark alone', (base, path, url) => {
    expect(spell(destinationOf(base, path, '', true))).toBe(url);
  });

  test.each(
    `/.. /../ /a/../b /a/.. /. /./a /%2e%2e/ /%2E. /.%2e/x /a/%2e /a/..;/b /a/..;x=1/b /.;x /a/..%3bx
     /..%2f..%2fadmin /a%2f..%2Fb /a%2F.. /a\\..\\b /..\\ /a%5c..%5Cb /%2e%2e%2f //..//`.split(/\s+/),
  )('never above the base: %s is refused', (path) => {
    const refusal = refusalOf(() => destinationOf('https://h.example/v1', path, ''));
    expect(refusal.errors).toEqual({ path: ['must not have the segments . or ..'] });
  });

  test('credentials in the destination stay, so that egress can refuse them', () => {
    expect(destinationOf('https://user:word@h.example/v1', '/a', '').url.href).toBe('https://user:word@h.example/v1/a');
  });

  test('a path of 16 KB passes whole', () => {
    const path = `/${'a%20/'.repeat(3277)}`;
    expect(spell(destinationOf('https://h.example/v1/', path, ''))).toBe(`https://h.example/v1${path}`);
  });

  test('the authority stays, the path lies below the base, and both are as written (property)', () => {
    const piece = fc.oneof(
      fc.constantFrom('/', '\\', '..', '.', '%2e', '%2F', '%5c', ';', '@', ':', '#', '?', '%', '%0', '\0', '\t', '\n'),
      fc.constantFrom('evil.example', 'http:', '//', '[::1]', ' ', '\u00ad', '\uff0e\uff0e', '\u2025', '%ff', '&', '='),
      fc.string({ unit: 'binary', maxLength: 4 }),
    );
    const text = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));
    const base = fc.constantFrom(
      'https://h.example',
      'https://h.example/',
      'https://h.example:8443/v1',
      'https://h.example/v1/?k=1',
    );
    let passed = 0;
    fc.assert(
      fc.property(base, text, text, (before, path, query) => {
        let url: URL;
        try {
          const sent = destinationOf(before, `/${path}`, query);
          ({ url } = sent);
          expect(sent.target.replaceAll("'", '%27')).toBe((url.pathname + url.search).replaceAll("'", '%27'));
        } catch (error) {
          expect(error).toBeInstanceOf(AppError);
          return;
        }
        passed += 1;
        const own = new URL(before);
        expect(url.origin).toBe(own.origin);
        expect(url.username + url.password + url.hash).toBe('');
        const below = `${own.pathname.replace(/\/$/, '')}/`;
        expect(url.pathname.startsWith(below)).toBe(true);
        // No dot segment was resolved, and no segment was added.
        expect(url.pathname.slice(below.length).split('/')).toHaveLength(path.split('/').length);
        expect(url.search.startsWith(own.search)).toBe(true);
      }),
      { numRuns: 5000 },
    );
    expect(passed).toBeGreaterThan(500);
  });
});
