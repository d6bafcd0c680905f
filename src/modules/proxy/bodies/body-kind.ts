// Determines from headers whether a body is searched for expressions: its format and charset.
import type { Headers } from '../../../platform/egress/headers.ts';
import { type AppError, invalidField, unsupportedMediaType } from '../../../platform/base/errors.ts';
import { type Charset, legacyCharsetOf } from './charsets.ts';

export type { Charset };

export type TextKind =
  | 'json'
  | 'json_lines'
  | 'form'
  | 'markup'
  /** Markup with elements and attributes that hold scripts. */
  | 'html'
  | 'csv'
  | 'yaml'
  | 'graphql'
  /** JSON5 and TOML. */
  | 'quoted'
  /** Other text, whose lines may have a meaning. */
  | 'text'
  /** Any text. A receiver may read it as JSON. */
  | 'plain'
  | 'undeclared';

/**
 * @param isNamed whether the type names the charset. Otherwise a document may declare another.
 * @param utf16 the label of a UTF-16 charset. The text is converted and then treated as if it were in `charset`.
 */
export type TextBodyKind = { kind: TextKind; charset: Charset; isNamed?: true; utf16?: string };

export type BodyKind =
  | TextBodyKind
  | { kind: 'multipart'; boundary: string }
  /** A format that the proxy does not know. Refused with an expression. */
  | { kind: 'unread' }
  /** Text in quoted-printable. Refused with two braces. */
  | { kind: 'unreadable' }
  /** What receivers read differently, or the proxy cannot decode. Refused as soon as there is a body. */
  | { kind: 'refused'; refuse(place: string): AppError }
  /** Files, which hold any bytes. Forwarded without a search for expressions. */
  | { kind: 'bytes' };

const bytes: BodyKind = { kind: 'bytes' };
const unread: BodyKind = { kind: 'unread' };
const unreadable: BodyKind = { kind: 'unreadable' };

/** US-ASCII is a subset of UTF-8. */
const utf8 = new Set(['utf-8', 'utf8', 'us-ascii', 'ascii']);

/** In the Encoding Standard these are labels of windows-1252. Their bytes 80 to 9F are read differently. */
const latin1 = new Set(['iso-8859-1', 'iso8859-1', 'iso_8859-1', 'latin1']);

/** utf-16 may be either of the others: the body shows which. */
const utf16 = new Set(['utf-16', 'utf-16le', 'utf-16be']);

/** Some programs write single quotes, which are part of the value by RFC 9110 section 5.6.4. */
const nameOf = (label: string): string =>
  label
    .trim()
    .replace(/^'(.*)'$/, '$1')
    .toLowerCase()
    .replace(/^utf_(?=8$|16$|16[lb]e$)/, 'utf-');

export const utf16Label = (label: string): string | undefined => {
  const name = nameOf(label);
  return utf16.has(name) ? name : undefined;
};

/** Undefined for a charset that is not supported. */
export const charsetOf = (label: string): Charset | undefined => {
  const name = nameOf(label);
  if (utf8.has(name)) return 'utf8';
  return latin1.has(name) ? 'latin1' : legacyCharsetOf(name);
};

const kindOfType = new Map<string, TextKind>([
  ['application/json', 'json'],
  ['application/x-json', 'json'],
  ['application/x-amz-json-1.0', 'json'],
  ['application/x-amz-json-1.1', 'json'],
  ['application/x-ndjson', 'json_lines'],
  ['application/ndjson', 'json_lines'],
  ['application/jsonl', 'json_lines'],
  ['application/jsonlines', 'json_lines'],
  ['application/x-jsonlines', 'json_lines'],
  ['application/json-seq', 'json_lines'],
  ['application/x-www-form-urlencoded', 'form'],
  ['application/xml', 'markup'],
  ['text/xml', 'markup'],
  ['application/xml-dtd', 'markup'],
  ['application/xml-external-parsed-entity', 'markup'],
  ['text/html', 'html'],
  ['application/xhtml+xml', 'html'],
  ['image/svg+xml', 'html'],
  ['application/csv', 'csv'],
  ['application/x-csv', 'csv'],
  ['application/tsv', 'csv'],
  ['application/x-tsv', 'csv'],
  ['text/comma-separated-values', 'csv'],
  ['text/tab-separated-values', 'csv'],
  ['application/yaml', 'yaml'],
  ['application/x-yaml', 'yaml'],
  ['application/yml', 'yaml'],
  ['application/x-yml', 'yaml'],
  ['application/json5', 'quoted'],
  ['application/toml', 'quoted'],
  ['application/graphql', 'graphql'],
  ['application/x-graphql', 'graphql'],
  ['text/plain', 'plain'],
  // Name-value pairs of payment services.
  ['text/namevalue', 'form'],
]);

/** Subtypes of `application` that are text. */
const textTypes =
  /^application\/(?:ecmascript|edi-x12|edifact|jose|jwt|sql|typescript|x-pem-file|x-sh|(?:x-)?javascript)$/;

/** RFC 6839, RFC 8091, RFC 9512. */
const kindOfSuffix: [string, TextKind][] = [
  ['+json', 'json'],
  ['+json-seq', 'json_lines'],
  ['+xml', 'markup'],
  ['+yaml', 'yaml'],
];

/** Unregistered types under `text/`, recognised by a word in their names. */
const kindOfWord: [RegExp, TextKind][] = [
  [/\b(?:json5|toml)\b/, 'quoted'],
  [/\bx?html\b/, 'html'],
  [/\b(?:xml|xsl|xslt|sgml|rss|atom)\b/, 'markup'],
  [/\b(?:ndjson|jsonl|jsonlines|json-seq)\b/, 'json_lines'],
  [/\bjson\b/, 'json'],
  [/\bya?ml\b/, 'yaml'],
  [/\b(?:csv|tsv)\b/, 'csv'],
  [/\bgraphql\b/, 'graphql'],
];

const kindOf = (type: string): TextKind | undefined => {
  const known = kindOfType.get(type) ?? kindOfSuffix.find(([suffix]) => type.endsWith(suffix))?.[1];
  const byWord = type.startsWith('text/') ? kindOfWord.find(([word]) => word.test(type))?.[1] : undefined;
  return known ?? byWord ?? (type.startsWith('text/') || textTypes.test(type) ? 'text' : undefined);
};

/** Types of files, in which two braces mean nothing. Clients send with them what must not be searched. */
const fileTypes = [
  /^(?:audio|chemical|font|image|model|video)\//,
  /^application\/(?:octet-stream|x-binary|pdf|wasm|msword|java-archive|pgp-encrypted|timestamp-query|ocsp-request|x-shockwave-flash)$/,
  /^application\/(?:vnd\.ms-|vnd\.openxmlformats-|vnd\.oasis\.|vnd\.apple\.|x-?pkcs|pkcs|pkix-|font-|x-font-)/,
  /^application\/(?:x-|vnd\.)?(?:zip|zip-compressed|gzip|bzip2?|tar|gtar|xz|zstd|lzip|lzma|rar|rar-compressed|7z-compressed|compress(?:ed)?)$/,
  /\+(?:gzip|zip|zstd)$/,
];

const isFile = (type: string): boolean => fileTypes.some((each) => each.test(type));

const mediaType = /^[\t ]*([!#$%&'*+.^_`|~0-9a-z-]+\/[!#$%&'*+.^_`|~0-9a-z-]+)[\t ]*(?=;|$)/i;

/** Also accepts a value that should be quoted and is not, up to the next semicolon, like the MIME Sniffing Standard. */
const parameter = /;[\t ]*(?:([^\t ;="]+)=(?:"((?:[^"\\]|\\.)*)"[^;]*|([^;]*))|[^;]*)/y;

/**
 * Parameters that say how a body is read. Readers differ about which of two counts, and about the parts of RFC 2231 (`charset*0`).
 */
const reading = /^(charset|boundary)(?:\*.*)?$/;

/** Whether a parameter that says how the body is read is given twice, with two values. */
const isAmbiguous = (value: string, from: number): boolean => {
  const given = new Map<string, string>();
  parameter.lastIndex = from;
  for (let match = parameter.exec(value); match; match = parameter.exec(value)) {
    const [all, spelled = '', quoted, bare = ''] = match;
    // Some readers take blanks before the equals sign.
    if (/^;[\t ]*(?:charset|boundary)(?:\*\d*\*?)?[\t ]+=/i.test(all)) return true;
    const [, name] = reading.exec(spelled.toLowerCase()) ?? [];
    if (name === undefined) continue;
    const text = quoted?.replace(/\\(.)/g, '$1') ?? bare.trim();
    const comparable = name === 'charset' ? text.toLowerCase() : text;
    if (spelled.includes('*') || (given.get(name) ?? comparable) !== comparable) return true;
    given.set(name, comparable);
  }
  return false;
};

/** The parameters of a header value. The first of a name counts. @param from the index where the parameters begin. */
const parametersOf = (value: string, from: number): Map<string, string> => {
  const found = new Map<string, string>();
  parameter.lastIndex = from;
  for (let match = parameter.exec(value); match; match = parameter.exec(value)) {
    const [, name, quoted, bare = ''] = match;
    if (name === undefined || found.has(name.toLowerCase())) continue;
    found.set(name.toLowerCase(), quoted?.replace(/\\(.)/g, '$1') ?? bare.trim());
  }
  return found;
};

/** The name of a part of multipart/form-data. */
export const partName = (headers: Headers): string | undefined => {
  const disposition = headers.find(([name]) => name.toLowerCase() === 'content-disposition')?.[1] ?? '';
  const from = disposition.indexOf(';');
  const name = from === -1 ? undefined : parametersOf(disposition, from).get('name');
  // Headers are read as latin1, but browsers write them in UTF-8.
  return name === undefined ? undefined : Buffer.from(name, 'latin1').toString('utf8');
};

/** RFC 2046 section 5.1.1. */
const boundaryForm = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/;

/** Encodings that leave the bytes unchanged. */
const unencoded = new Map([
  ['content-encoding', /^(?:identity)?$/i],
  ['content-transfer-encoding', /^(?:7bit|8bit|binary)?$/i],
]);

export const bodyKindOf = (headers: Headers): BodyKind => {
  const types: string[] = [];
  for (const [spelled, value] of headers) {
    const name = spelled.toLowerCase();
    // Base64 holds no brace, quoted-printable does.
    if (unencoded.get(name)?.test(value.trim()) === false) return name === 'content-encoding' ? unread : unreadable;
    if (name === 'content-type') types.push(value);
  }
  const [value, ...others] = types;
  if (value === undefined) return undeclared;
  if (others.length === 0) return kindOfValue(value);
  if (types.every((each) => each.trim().toLowerCase() === value.trim().toLowerCase())) return kindOfValue(value);
  return types.every((each) => kindOfValue(each).kind === 'bytes') ? bytes : severalTypes;
};

const MANY_TYPES =
  'must have one Content-Type: with several, the receiver may read it as another type than the proxy does';
const severalTypes: BodyKind = { kind: 'refused', refuse: (place) => invalidField(place, MANY_TYPES) };

const SEVERAL_PARAMETERS =
  'must have one charset and one boundary in its Content-Type, as they are: with several, the receiver may read it differently than the proxy does';
const severalParameters: BodyKind = { kind: 'refused', refuse: (place) => invalidField(place, SEVERAL_PARAMETERS) };

const NO_BOUNDARY = 'must have a valid boundary in its Content-Type, as every multipart type has';
const withoutBoundary: BodyKind = { kind: 'refused', refuse: (place) => invalidField(place, NO_BOUNDARY) };

/** Repeats only a well-formed label. */
const quoted = (label: string): string => (/^[\w.:()+-]{1,40}$/.test(label) ? ` "${label}"` : '');

export const unknownCharset = (label: string): BodyKind & { kind: 'refused' } => ({
  kind: 'refused',
  refuse: (place) =>
    unsupportedMediaType(
      `The charset${quoted(label)} of ${place} is none that the proxy reads: use UTF-8, a charset of the Encoding Standard, or the type application/octet-stream, which is not searched.`,
    ),
});

/** The same type several times in one line is one. A comma stands in no type, and in parameters between quotes only. */
const onlyType = (value: string): string | undefined => {
  const types = value.replace(/"(?:[^"\\]|\\.)*"/g, (text) => text.replaceAll(',', ' ')).split(',');
  if (types.length === 1) return value;
  const given = new Set(types.map((each) => each.trim().toLowerCase()));
  return given.size === 1 ? value.slice(0, types[0]?.length) : undefined;
};

const undeclared: BodyKind = { kind: 'undeclared', charset: 'utf8' };

const kindOfValue = (given: string): BodyKind => {
  const value = onlyType(given);
  if (value === undefined) return severalTypes;
  const match = mediaType.exec(value);
  // What is no type, or a range of types, declares nothing.
  if (!match || match[1]?.includes('*')) return undeclared;
  const type = (match[1] as string).toLowerCase();
  const isRead = type.startsWith('multipart/') || kindOf(type) !== undefined;
  if (isRead && isAmbiguous(value, match[0].length)) return severalParameters;
  const parameters = parametersOf(value, match[0].length);
  if (type.startsWith('multipart/')) {
    const boundary = parameters.get('boundary') ?? '';
    return boundaryForm.test(boundary) ? { kind: 'multipart', boundary } : withoutBoundary;
  }
  const kind = kindOf(type);
  if (!kind) return isFile(type) ? bytes : unread;
  const label = parameters.get('charset');
  if (!label) return { kind, charset: 'utf8' };
  const wide = utf16Label(label);
  if (wide !== undefined) return { kind, charset: 'utf8', utf16: wide };
  const charset = charsetOf(label);
  return charset ? { kind, charset, isNamed: true } : unknownCharset(label);
};

/** Formats that may declare their encoding themselves. */
export const isMarkup = (kind: TextKind): boolean => kind === 'markup' || kind === 'html';

const withoutCoding = (headers: Headers): Headers =>
  headers.filter(([name]) => name.toLowerCase() !== 'content-encoding');

/** The kind of a body after its content codings are decoded. */
export const decodedKindOf = (headers: Headers): BodyKind => bodyKindOf(withoutCoding(headers));

/** The headers of a body that was converted to UTF-8. */
export const inUtf8Headers = (headers: Headers): Headers =>
  headers.map(([name, value]) => [name, name.toLowerCase() === 'content-type' ? sayingUtf8(value) : value]);

/** The headers of a body that was decoded, and converted from UTF-16 if `wasUtf16`. */
export const decodedHeaders = (headers: Headers, wasUtf16: boolean): Headers =>
  withoutCoding(wasUtf16 ? inUtf8Headers(headers) : headers);

/** The kind of a body after its conversion from UTF-16 to UTF-8. */
export const inUtf8 = (body: BodyKind): BodyKind =>
  'charset' in body ? { kind: body.kind, charset: 'utf8', isNamed: true } : body;

const charsetParameter = /;[\t ]*charset[\t ]*=(?:"(?:[^"\\]|\\.)*"|[^;]*)/gi;

const sayingUtf8 = (type: string): string => `${type.replace(charsetParameter, '')}; charset=utf-8`;

/** An XML document that declares UTF-16 in ASCII bytes contradicts itself. Many programs write that, so the headers count. */
export const isUtf16Label = (label: string): boolean => utf16Label(label) !== undefined;

/** Whether a receiver will read the body as JSON, even in a charset that is not supported here. */
export const saysJson = (headers: Headers): boolean =>
  headers.some(([name, value]) => name.toLowerCase() === 'content-type' && /[/+-]json/i.test(value));
