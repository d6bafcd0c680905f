// Which texts are one address, and which two are the same.
import { expect, test } from 'vitest';
import { comparedAddress, newAddressProblem, parseAddress, parseGivenAddress } from './address.ts';

const local64 = 'l'.repeat(64);
/** 254 octets in all. */
const longest = `${local64}@${'d'.repeat(63)}.${'e'.repeat(63)}.${'f'.repeat(57)}.com`;

test.each([
  'ada@example.com',
  'Ada.Lovelace+vault@EXAMPLE.com',
  "o'hara!#$%&*/=?^_`{|}~-@example.com",
  'user%0abcc@example.com',
  '"ada lovelace"@example.com',
  '"a@b, <c@d.example>"@example.com',
  String.raw`"a\"b\\c"@example.com`,
  'ada@sub.domain.example',
  'ada@bücher.example',
  'ada@xn--bcher-kva.example',
  'ada@пример.рф',
  'ada@[192.0.2.1]',
  `${local64}@example.com`,
  `ada@${'d'.repeat(63)}.com`,
  longest,
])('%s is an address, and stays as it is', (text) => {
  expect([parseAddress(text), parseGivenAddress(text), newAddressProblem(text)]).toEqual([text, text, undefined]);
});

test.each([
  'ad\u00e9@example.com',
  'ad\u0065\u0301@example.com',
  // Under NFC its marks are in another order, or its letter is another one that is the same.
  'a\u0301\u0323@example.com',
  '\u00e9\u0065\u0301@example.com',
  'ада@example.com',
  'ада@пример.рф',
  '"größe 7"@example.com',
])('%s is an address that an account keeps, and no new one', (text) => {
  expect([parseAddress(text), parseGivenAddress(text)]).toEqual([text, text]);
  expect(newAddressProblem(text)).toBe(
    'must have only ASCII characters before the @: not all mail servers take others',
  );
});

test.each([
  ['nothing', ''],
  ['no @', 'ada'],
  ['no local part', '@example.com'],
  ['no domain', 'ada@'],
  ['two @', 'ada@b@example.com'],
  ['a display name', 'Ada <ada@example.com>'],
  ['brackets', '<ada@example.com>'],
  ['two addresses', 'ada@example.com, bob@example.com'],
  ['two, the first with quotes', '"a"@example.com,"b"@example.com'],
  ['two, with a semicolon', 'ada@example.com;bob@example.com'],
  ['a group', 'all: ada@example.com;'],
  ['a comment', 'ada(comment)@example.com'],
  ['a comment in the domain', 'ada@(comment)example.com'],
  ['a blank', 'ada lovelace@example.com'],
  ['a blank before', ' ada@example.com'],
  ['a blank behind', 'ada@example.com '],
  ['CRLF and another header', 'ada@example.com\r\nBcc: eve@example.com'],
  ['CRLF in quotes', '"ada\r\nBcc: eve@example.com"@example.com'],
  ['LF', 'ada\n@example.com'],
  ['a line separator', '"ada\u2028x"@example.com'],
  ['NUL', 'ada\0@example.com'],
  ['NUL in quotes', '"ada\0"@example.com'],
  ['a character that turns the text around', 'ada\u202e@example.com'],
  ['a character that is not seen', 'ada@exam\u00adple.com'],
  ['half a character', 'ada\ud800@example.com'],
  ['two dots', 'ada..lovelace@example.com'],
  ['a dot first', '.ada@example.com'],
  ['a dot last', 'ada.@example.com'],
  ['empty quotes', '""@example.com'],
  ['quotes that do not end', '"ada@example.com'],
  ['a quote that is escaped at the end', String.raw`"ada\"@example.com`],
  ['quotes within', 'a"d"a@example.com'],
  ['a single label', 'ada@localhost'],
  ['an empty label', 'ada@example..com'],
  ['a dot behind the domain', 'ada@example.com.'],
  ['a hyphen first', 'ada@-example.com'],
  ['a hyphen last', 'ada@example-.com'],
  ['an underscore', 'ada@exam_ple.com'],
  ['an escape in the domain', 'ada@exa%6dple.com'],
  ['a port', 'ada@example.com:25'],
  ['a path', 'ada@example.com/x'],
  ['numbers for a domain', 'ada@192.0.2.1'],
  ['a literal that is none', 'ada@[256.0.2.1]'],
  ['a literal of another kind', 'ada@[IPv6:2001:db8::1]'],
  ['a local part of 65', `l${local64}@example.com`],
  ['a local part of 65 octets in fewer characters', `${'ü'.repeat(33)}@example.com`],
  ['a label of 64', `ada@${'d'.repeat(64)}.com`],
  ['255 in all', longest.replace('.com', '.comm')],
  ['255 once its domain is written in ASCII', `ada@${'ü.'.repeat(60)}example`],
])('an address with %s is none', (_what, text) => {
  expect([parseAddress(text), parseGivenAddress(text)]).toEqual([undefined, undefined]);
  expect(newAddressProblem(text)).toBe('must be one e-mail address (RFC 5322), without a display name');
});

test.each([
  ['the Kelvin sign in place of a K', '\u212aim@example.com'],
  ['a long s', 'gro\u017f@example.com'],
  ['wide letters', 'ada@\uff45xample.com'],
  ['a wide dot', 'ada@example\uff0ecom'],
  ['a ligature', 'o\ufb03ce@example.com'],
])('a new address with %s is refused; an account that has one keeps it', (_what, text) => {
  expect([parseAddress(text), parseGivenAddress(text)]).toEqual([text, undefined]);
  expect(newAddressProblem(text)).toBe('must be one e-mail address (RFC 5322), without a display name');
});

test.each([
  ['case', 'ADA@Example.COM', 'ada@example.com'],
  ['the spelling of a domain', 'ada@BÜCHER.example', 'ada@xn--bcher-kva.example'],
  ['wide characters in a domain', 'ada@ｅxample．com', 'ada@example.com'],
  ['composition', 'ad\u0065\u0301@example.com', 'adé@example.com'],
  ['quotes that change nothing', '"ada"@example.com', 'ada@example.com'],
  ['escapes that change nothing', String.raw`"a\d a"@example.com`, '"ad a"@example.com'],
])('%s does not make another person', (_what, one, other) => {
  expect(comparedAddress(one)).toBe(comparedAddress(other));
});

test.each([
  ['a tag', 'ada+x@example.com', 'ada@example.com'],
  ['a dot', 'a.da@example.com', 'ada@example.com'],
  ['a blank in quotes', '"a da"@example.com', 'ada@example.com'],
  ['a quote in quotes', String.raw`"a\"da"@example.com`, '"ada"@example.com'],
  ['a letter that looks alike', 'аda@example.com', 'ada@example.com'],
  ['ss for ß in a domain', 'ada@straße.example', 'ada@strasse.example'],
])('%s makes another person', (_what, one, other) => {
  expect(comparedAddress(one)).not.toBe(comparedAddress(other));
});
