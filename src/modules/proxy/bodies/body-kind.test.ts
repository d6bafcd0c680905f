// Tests the kind of a body by its headers.
import { describe, expect, test } from 'vitest';
import type { Headers } from '../../../platform/egress/headers.ts';
import type { AppError } from '../../../platform/base/errors.ts';
import { bodyKindOf, partName } from './body-kind.ts';

const kindOfType = (type: string) => bodyKindOf([['Content-Type', type]]);

describe('the kind of a body', () => {
  test.each([
    ['application/json', 'json'],
    ['application/x-amz-json-1.0', 'json'],
    ['application/x-amz-json-1.1; charset=utf-8', 'json'],
    ['APPLICATION/JSON', 'json'],
    ['application/json;charset=UTF-8', 'json'],
    ['application/json ; charset="utf-8"', 'json'],
    ['application/vnd.api+json', 'json'],
    ['application/problem+JSON; a=b', 'json'],
    ['text/json', 'json'],
    ['application/x-ndjson', 'json_lines'],
    ['application/jsonl', 'json_lines'],
    ['application/json-seq', 'json_lines'],
    ['application/geo+json-seq', 'json_lines'],
    ['application/x-www-form-urlencoded', 'form'],
    ['application/xml', 'markup'],
    ['text/xml; charset=us-ascii', 'markup'],
    ['application/soap+xml; action="urn:x; charset=utf-16"', 'markup'],
    ['image/svg+xml', 'html'],
    ['text/html', 'html'],
    ['application/xhtml+xml', 'html'],
    ['application/x-json', 'json'],
    ['text/plain', 'plain'],
    ['text/csv; header=present', 'csv'],
    ['application/javascript', 'text'],
    ['application/x-javascript', 'text'],
    ['application/graphql', 'graphql'],
    ['application/yaml', 'yaml'],
    ['application/openapi+yaml', 'yaml'],
    ['application/sql', 'text'],
    ['application/EDI-X12', 'text'],
    ['text/anything', 'text'],
    ['text/plain; unheard-of; charset=utf-8', 'plain'],
    ['text/plain;', 'plain'],
    ['text/xml-external-parsed-entity', 'markup'],
    ['application/xml-external-parsed-entity', 'markup'],
    ['application/xml-dtd', 'markup'],
    ['text/xsl', 'markup'],
    ['text/x-xhtml', 'html'],
    ['application/json5', 'quoted'],
    ['text/json5', 'quoted'],
    ['application/toml', 'quoted'],
    ['text/calendar', 'text'],
    ['text/vcard', 'text'],
  ])('%s is %s', (type, kind) => {
    expect(kindOfType(type)).toMatchObject({ kind, charset: 'utf8' });
  });

  test.each(
    `application/octet-stream application/pdf image/png application/zip application/x-gzip application/x-pkcs12
     application/vnd.openxmlformats-officedocument.wordprocessingml.document application/epub+zip video/mp4 font/woff2`.split(
      /\s+/,
    ),
  )('%s is a file of any bytes', (type) => {
    expect(kindOfType(type)).toEqual({ kind: 'bytes' });
  });

  test.each(
    `application/jsonx application/protobuf application/cbor application/msgpack application/senml+cbor application/grpc
     message/rfc822 x/y`.split(/\s+/),
  )('%s is not searched, and refused with an expression', (type) => {
    expect(kindOfType(type)).toEqual({ kind: 'unread' });
  });

  test('no type, and what is none, means text if it is valid', () => {
    for (const type of ['', 'json', 'text', '*/', '*/*', 'text/*', '/json', '{{id}}'])
      expect(kindOfType(type)).toEqual({ kind: 'undeclared', charset: 'utf8' });
    expect(bodyKindOf([['accept', 'application/json']])).toEqual({ kind: 'undeclared', charset: 'utf8' });
  });

  test.each([
    ['text/plain; charset=ISO-8859-1', 'latin1'],
    ['text/plain; charset="windows-1252"', 'windows-1252'],
    ['text/plain; charset=sjis', 'shift_jis'],
    ['text/plain; charset=gb2312', 'gbk'],
    ['text/plain; charset="utf\\-8"', 'utf8'],
    [`text/plain; charset='UTF-8'`, 'utf8'],
    ['text/plain; charset="utf-8" junk; x=y', 'utf8'],
  ])('%s is text in %s', (type, charset) => {
    expect(kindOfType(type)).toMatchObject({ kind: 'plain', charset });
  });

  test.each(['utf-16x', 'utf-32', 'iso-2022-jp', 'utf-7', '"utf-8'])('text in the charset %j is refused', (charset) => {
    expect(kindOfType(`application/json; charset=${charset}`).kind).toBe('refused');
  });

  test.each(['utf-16', 'UTF-16LE', '"utf-16be"'])('text in the charset %j says that it is in UTF-16', (charset) => {
    const utf16 = charset.replaceAll('"', '').toLowerCase();
    expect(kindOfType(`application/json; charset=${charset}`)).toEqual({ kind: 'json', charset: 'utf8', utf16 });
  });

  test.each([
    ['multipart/form-data; boundary=abc', 'abc'],
    ['Multipart/Mixed; BOUNDARY="a b(c)"', 'a b(c)'],
    [
      'multipart/form-data; charset=utf-8; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW',
      '----WebKitFormBoundary7MA4YWxkTrZu0gW',
    ],
    ['multipart/form-data; boundary===a=/b:?; x=y', '==a=/b:?'],
    ['multipart/related; type="text/xml; boundary=no"; boundary=yes', 'yes'],
  ])('%s has the boundary %s', (type, boundary) => {
    expect(kindOfType(type)).toEqual({ kind: 'multipart', boundary });
  });

  test.each([
    '',
    '; boundary=',
    '; boundary=""',
    '; boundary="a "',
    '; boundary="a\u00e9"',
    `; boundary=${'a'.repeat(71)}`,
  ])('multipart without a boundary that can be one is refused: %j', (parameters) => {
    expect(kindOfType(`multipart/form-data${parameters}`).kind).toBe('refused');
  });

  test.each([
    ['content-encoding', 'gzip', true],
    ['Content-Encoding', 'br', true],
    ['content-encoding', 'identity', false],
    ['content-encoding', ' IDENTITY ', false],
    ['content-encoding', 'identity, gzip', true],
    ['content-encoding', '', false],
    ['Content-Transfer-Encoding', 'base64', true],
    ['content-transfer-encoding', 'quoted-printable', true],
    ['content-transfer-encoding', '8BIT', false],
    ['content-transfer-encoding', 'binary', false],
    ['content-transfer-encoding', '7bit', false],
  ])('%s: %s hides the text: %s', (name, value, isHidden) => {
    const type: Headers[number] = ['content-type', 'application/json'];
    const hidden = name.toLowerCase() === 'content-encoding' ? 'unread' : 'unreadable';
    const kind = isHidden ? hidden : 'json';
    expect(bodyKindOf([type, [name, value]]).kind).toBe(kind);
    expect(bodyKindOf([[name, value], type]).kind).toBe(kind);
  });

  test.each([
    'text/xml; charset=utf-8; charset=utf-16',
    'text/xml; charset="utf-8";x=1;CHARSET=latin1',
    "application/json; charset=utf-8; charset*=utf-16''",
    'text/plain; charset*0=utf-; charset*1=16',
    'multipart/form-data; boundary=a; boundary=b',
    'multipart/form-data; boundary=a; boundary=A',
    'multipart/mixed; boundary*0=a; boundary*1=b',
    'text/xml; charset=utf-8; charset = utf-16',
    'text/xml; charset\t=utf-16',
  ])('two values of a parameter that says how to read are refused: %s', (type) => {
    const kind = bodyKindOf([['content-type', type]]);
    expect(kind.kind).toBe('refused');
    expect((kind as { refuse(place: string): AppError }).refuse('body').status).toBe(400);
  });

  test.each([
    ['text/xml; charset=utf-8; charset=UTF-8', 'markup'],
    ['text/xml; charset=utf-8; charset="utf-8"; version=1; version=2', 'markup'],
    ['multipart/mixed; boundary=a; boundary="a"', 'multipart'],
    ['image/png; charset=a; charset=b', 'bytes'],
  ])('the same value twice is one: %s', (type, kind) => {
    expect(bodyKindOf([['content-type', type]]).kind).toBe(kind);
  });

  test('two types are one if they agree, else refused; two types of files are files', () => {
    const type: Headers[number] = ['content-type', 'application/json'];
    expect(bodyKindOf([type, type]).kind).toBe('json');
    const file: Headers[number] = ['content-type', 'image/png'];
    expect(bodyKindOf([file, type]).kind).toBe('refused');
    expect(bodyKindOf([file, file])).toEqual({ kind: 'bytes' });
    expect(bodyKindOf([file, ['content-type', 'video/mp4']])).toEqual({ kind: 'bytes' });
  });
});

test.each([
  ['form-data; name="a"', 'a'],
  ['form-data; name=a; filename="b"', 'a'],
  ['form-data; filename="name=b"; NAME="c\\"d"', 'c"d'],
  ['form-data', undefined],
  ['attachment; filename="x"', undefined],
])('the name of a part with %s is %s', (disposition, name) => {
  expect(partName([['Content-Disposition', disposition]])).toBe(name);
});
