// Tests that a typed proxy request can only become a request below /proxy.
import { describe, expect, test } from 'vitest';
import { newRequest, readRequest, type Typed } from './proxy-request.ts';

const read = (typed: Partial<Typed>) => readRequest({ ...newRequest, ...typed });

describe('A path that is typed', () => {
  test.each([
    ['', '/proxy'],
    ['/', '/proxy/'],
    ['/charges?limit=3', '/proxy/charges?limit=3'],
    ['?limit=3', '/proxy?limit=3'],
    ['//x//', '/proxy//x//'],
    ['/a b/ü', '/proxy/a%20b/%C3%BC'],
    ['/%20%2F', '/proxy/%20%2F'],
    ["/{{ id | json: '$.a' }}", '/proxy/%7B%7B%20id%20%7C%20json:%20%27$.a%27%20%7D%7D'],
    ['/a#b', '/proxy/a%23b'],
  ])('%j is asked for as %s', (path, url) => {
    expect(read({ path }).request?.url).toBe(url);
  });

  test.each([
    'charges',
    'https://elsewhere.test/',
    '/../tokens',
    '/..',
    '/./x',
    '/%2e%2e/tokens',
    '/.%2E/tokens',
    '/x/%2e%2e%2f%2e%2e/tokens',
    '/..\\tokens',
    '/\\..\\..\\tokens',
    '/.\t./tokens',
    '/.\n./tokens',
    '/\0',
    '/\ud800',
    '/x?svc-proxy-key=k',
    '/x?a=1&SVC%2Dproxy-key=k',
  ])('%j is refused at its field', (path) => {
    const { request, problems } = read({ path });
    expect(request).toBeUndefined();
    expect(Object.keys(problems ?? {})).toEqual(['path']);
  });
});

describe('Headers that are typed', () => {
  test('are taken line by line', () => {
    expect(read({ headers: 'A: 1\n\n  B:2: 3  \nC:' }).request?.headers).toEqual([
      ['A', '1'],
      ['B', '2: 3'],
      ['C', ''],
    ]);
  });

  test.each([
    'no colon',
    ': value',
    'a b: c',
    'Host: elsewhere.test',
    'SVC-PROXY-KEY: k',
    'svc-api-key: k',
    'Proxy-Authorization: x',
    'Content-Length: 3',
    'Transfer-Encoding: chunked',
    'Connection: x-a',
    'A: 1\na: 2',
    Array.from({ length: 101 }, (_, index) => `h${index}: 1`).join('\n'),
  ])('%j is refused at its field', (headers) => {
    const { request, problems } = read({ headers });
    expect(request).toBeUndefined();
    expect(Object.keys(problems ?? {})).toEqual(['headers']);
  });
});

test('another method is refused at its field', () => {
  expect(read({ method: 'CONNECT' }).problems).toHaveProperty('method');
});

test('the lines of a multipart body end as its parts do, those of others as they were typed', () => {
  expect(read({ body: 'a\nb' }).request?.body).toBe('a\nb');
  expect(read({ headers: 'content-type: multipart/mixed; boundary=b', body: '--b\nx' }).request?.body).toBe('--b\r\nx');
  expect(read({ body: '' }).request?.body).toBeUndefined();
});
