// Reads one escape of a character at a time, from bytes that come one by one: of JSON, of HTML and XML, of URLs and forms.

/** What an escape may be. A decoder reads one kind, or all of them. */
export const escapeKinds = { json: 1, html: 2, percent: 4, plus: 8, nul: 16 } as const;

export const BACKSLASH = 0x5c;
const AMPERSAND = 0x26;
export const PERCENT = 0x25;
export const PLUS = 0x2b;
export const HASH = 0x23;
export const SEMICOLON = 0x3b;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;
export const LETTER_U = 0x75;
export const LETTER_X = 0x78;

/** Kinds of escapes by the byte that they begin with. */
export const escapeStarts: Uint8Array = new Uint8Array(256);
escapeStarts[BACKSLASH] = escapeKinds.json;
escapeStarts[AMPERSAND] = escapeKinds.html;
escapeStarts[PERCENT] = escapeKinds.percent;
escapeStarts[PLUS] = escapeKinds.plus;
escapeStarts[0] = escapeKinds.nul;

/** A number of HTML may have zeros in front. */
export const ESCAPE_BYTES_MAX = 32;

const shortEscapes = new Map(
  Object.entries({ n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', '"': '"', "'": "'", '\\': '\\', '/': '/' }).map(
    ([name, character]) => [name.charCodeAt(0), character.charCodeAt(0)],
  ),
);

/** Bytes by the byte behind a backslash: what both stand for; -1 for none. */
export const shortBytes: Int16Array = new Int16Array(256).fill(-1);
for (const [name, character] of shortEscapes) shortBytes[name] = character;

/** Names of HTML 4 for Latin-1, from 160 on, and those of ASCII that escaping functions write. */
const latinNames =
  'nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml';
const asciiNames =
  'amp& AMP& lt< LT< gt> GT> quot" QUOT" apos\' period. comma, colon: semi; sol/ bsol\\ num# commat@ plus+ equals= lowbar_ excl! quest? percnt% dollar$ ast* lpar( rpar) lsqb[ rsqb] lcub{ rcub} vert| grave` Hat^ hyphen\u2010';
/** Code points by the name of an entity. */
export const entities: ReadonlyMap<string, number> = new Map<string, number>([
  ...latinNames.split(' ').map((name, at): [string, number] => [name, 160 + at]),
  ...asciiNames.split(' ').map((each): [string, number] => [each.slice(0, -1), each.charCodeAt(each.length - 1)]),
]);

/** The value of a hexadecimal digit; -1 for another byte. */
export const hexValue = (byte: number | undefined): number => {
  if (byte === undefined) return -1;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
};

/** What is read: a code point, or a byte where it is of a percent escape; `used` bytes of the escape. */
export type ReadEscape = { point: number; isByte: boolean; used: number };

/** What cannot be an escape is literal. An escape without its end needs more bytes. */
export type EscapeReading = ReadEscape | 'more' | 'literal';

const readHex = (bytes: Uint8Array, from: number, count: number, length: number): number | 'more' | 'literal' => {
  let value = 0;
  for (let at = from; at < from + count; at += 1) {
    if (at >= length) return 'more';
    const digit = hexValue(bytes[at]);
    if (digit === -1) return 'literal';
    value = value * 16 + digit;
  }
  return value;
};

const isHighHalf = (point: number): boolean => (point & 0xfc00) === 0xd800;

/** `\u{1F600}` of JavaScript. */
const readBraces = (bytes: Uint8Array, length: number): EscapeReading => {
  let point = 0;
  let at = 3;
  for (; at < length && bytes[at] !== CLOSING_BRACE; at += 1) {
    const digit = hexValue(bytes[at]);
    if (digit === -1) return 'literal';
    point = Math.min(point * 16 + digit, 0x110000);
  }
  if (at === length) return 'more';
  return at === 3 || point > 0x10ffff ? 'literal' : { point, isByte: false, used: at + 1 };
};

const readBackslash = (bytes: Uint8Array, length: number): EscapeReading => {
  if (length < 2) return 'more';
  const name = bytes[1] as number;
  const short = shortEscapes.get(name);
  if (short !== undefined) return { point: short, isByte: false, used: 2 };
  // `\u0041` of JSON, `\x41` of JavaScript.
  const digits = name === LETTER_U ? 4 : name === LETTER_X ? 2 : 0;
  if (digits === 0) return 'literal';
  if (digits === 4 && length > 2 && bytes[2] === OPENING_BRACE) return readBraces(bytes, length);
  const point = readHex(bytes, 2, digits, length);
  if (typeof point === 'string') return point;
  if (!isHighHalf(point)) return { point, isByte: false, used: 2 + digits };
  if (length < 8) return length === 6 || bytes[6] === BACKSLASH ? 'more' : 'literal';
  if (bytes[6] !== BACKSLASH || bytes[7] !== LETTER_U) return 'literal';
  const low = readHex(bytes, 8, 4, length);
  if (typeof low === 'string') return low;
  return { point: 0x10000 + (point - 0xd800) * 1024 + (low & 0x3ff), isByte: false, used: 12 };
};

export const isAlphanumeric = (byte: number): boolean =>
  (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a);

/** Browsers read a number without its semicolon too (HTML section 13.2.5.80). */
const readNumber = (bytes: Uint8Array, length: number, isEnd: boolean): EscapeReading => {
  const isHex = length > 2 && ((bytes[2] as number) | 0x20) === 0x78;
  const base = isHex ? 16 : 10;
  let at = isHex ? 3 : 2;
  let point = 0;
  const from = at;
  for (; at < length; at += 1) {
    const digit = hexValue(bytes[at]);
    if (digit === -1 || digit >= base) break;
    point = Math.min(point * base + digit, 0x110000);
  }
  if (at >= length && !isEnd) return 'more';
  if (at === from || point > 0x10ffff) return 'literal';
  return { point, isByte: false, used: at < length && bytes[at] === SEMICOLON ? at + 1 : at };
};

const readAmpersand = (bytes: Uint8Array, length: number, isEnd: boolean): EscapeReading => {
  if (length < 2) return 'more';
  if (bytes[1] === HASH) return readNumber(bytes, length, isEnd);
  const last = bytes[length - 1] as number;
  if (last !== SEMICOLON) return isAlphanumeric(last) ? 'more' : 'literal';
  const point = entities.get(Buffer.from(bytes.subarray(1, length - 1)).toString('latin1'));
  return point === undefined ? 'literal' : { point, isByte: false, used: length };
};

/** @param isEnd whether nothing more comes. */
export const readEscape = (bytes: Uint8Array, length: number, isEnd: boolean): EscapeReading => {
  if (length >= ESCAPE_BYTES_MAX) return 'literal';
  switch (bytes[0]) {
    case BACKSLASH:
      return readBackslash(bytes, length);
    case AMPERSAND:
      return readAmpersand(bytes, length, isEnd);
    case PERCENT: {
      // `%u0041` of the older JavaScript.
      const isWide = length > 1 && bytes[1] === LETTER_U;
      const point = isWide ? readHex(bytes, 2, 4, length) : readHex(bytes, 1, 2, length);
      return typeof point === 'string' ? point : { point, isByte: !isWide, used: isWide ? 6 : 3 };
    }
    case PLUS:
      return { point: 0x20, isByte: true, used: 1 };
    default:
      // A zero byte of UTF-16 or UTF-32 stands for nothing.
      return { point: -1, isByte: true, used: 1 };
  }
};

/** The bytes of a code point in UTF-8. */
export const utf8Of = (point: number): readonly number[] => {
  if (point < 0x80) return [point];
  const rest = (shift: number): number => 0x80 | ((point >> shift) & 0x3f);
  if (point < 0x800) return [0xc0 | (point >> 6), rest(0)];
  if (point < 0x10000) return [0xe0 | (point >> 12), rest(6), rest(0)];
  return [0xf0 | (point >> 18), rest(12), rest(6), rest(0)];
};
