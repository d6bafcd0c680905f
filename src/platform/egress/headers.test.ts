// Which headers the proxy forwards, and that none can end a line.
import { describe, expect, test } from 'vitest';
import { EgressFault } from '../base/egress-fault.ts';
import { type Headers, requestHeaders, responseHeaders } from './headers.ts';

const directions = [
  { name: 'to a destination', cross: requestHeaders, code: 'REQUEST_REFUSED' },
  { name: 'from a destination', cross: responseHeaders, code: 'PROTOCOL' },
];

describe.each(directions)('$name', ({ cross, code }) => {
  const refusal = (headers: Headers): EgressFault => {
    try {
      cross(headers);
    } catch (error) {
      expect(error).toBeInstanceOf(EgressFault);
      expect((error as EgressFault).code).toBe(code);
      return error as EgressFault;
    }
    throw new Error('it crossed');
  };

  test.each(
    `Connection Keep-Alive TE Trailer Transfer-Encoding Upgrade HTTP2-Settings Host Content-Length Expect
     Proxy-Authorization Proxy-Connection proxy-authenticate SVC-API-KEY SVC-PROXY-KEY SVC-PROXY-URL svc-anything`.split(
      /\s+/,
    ),
  )('%s does not cross, however it is spelled', (name) => {
    for (const spelled of [name, name.toLowerCase(), name.toUpperCase()]) {
      expect(
        cross([
          ['a', '1'],
          [spelled, 'x'],
          ['b', '2'],
        ]),
      ).toEqual([
        ['a', '1'],
        ['b', '2'],
      ]);
    }
  });

  test('what Connection names does not cross', () => {
    const headers: Headers = [
      ['X-Secret', '1'],
      ['Connection', 'x-secret , close'],
      ['x-other', '2'],
      ['connection', 'X-Third'],
      ['x-third', '3'],
      ['x-secrets', '4'],
    ];
    expect(cross(headers)).toEqual([
      ['x-other', '2'],
      ['x-secrets', '4'],
    ]);
  });

  test('all else crosses as it is: spelling, order, repetition, empty values', () => {
    const headers: Headers = [
      ['X-B', ''],
      ['set-cookie', 'a=1'],
      ['Set-Cookie', 'b=2'],
      ['Authorization', 'Bearer x'],
      ['x-svc-key', 'tab\there \xe9\xff'],
      ["!#$%&'*+.^_`|~09", '1'],
      ['content-type', 'text/plain'],
      ['teapot', '1'],
    ];
    expect(cross(headers)).toEqual(headers);
  });

  test.each([
    ['', 'a'],
    ['a b', 'a'],
    ['a:', 'a'],
    ['a\r\nb', 'a'],
    ['a\0', 'a'],
    ['é', 'a'],
    ['(a)', 'a'],
    ['a', 'b\r\nc: d'],
    ['a', 'b\n'],
    ['a', '\r'],
    ['a', 'b\0c'],
    ['a', '\x1b[0m'],
    ['a', '\x7f'],
    ['a', '\u0100'],
    ['a', '\u010d\u010a'],
    ['a', '\u2028'],
  ])('%j: %j is refused, and not repeated to anybody', (name, value) => {
    expect(
      refusal([
        ['x-good', '1'],
        [name, value],
      ]).message,
    ).toBe('A header has a name or a value that is not valid.');
    // Also where the header would not have crossed.
    if (name === 'a') refusal([['svc-a', value]]);
  });

  test('64 KB of names and values cross, and no byte more', () => {
    const half: [string, string] = ['x-a', 'a'.repeat(32_765)];
    expect(cross([half, half])).toHaveLength(2);
    expect(refusal([half, half, ['b', '']]).message).toBe('The headers are too large.');
  });
});
