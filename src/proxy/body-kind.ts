// What a body is, by what its headers say of it: which of them hold text that can be looked at, and in which charset.
// Never looks at the body itself.
import type { Headers } from '../egress/headers.ts';

/** Charsets in which no byte of a longer character looks like a brace, a quote or a line end. */
export type Charset = 'utf8' | 'latin1';

export type TextKind =
  | 'json'
  | 'json_lines'
  | 'form'
  | 'markup'
  | 'csv'
  | 'yaml'
  | 'graphql'
  | 'text'
  /** May be anything that is text: JSON too, which its receiver may read it as. */
  | 'plain'
  | 'undeclared';

/** @param utf16 the label of a charset in which a character is two bytes; its text is read as if it were in `charset`. */
export type TextBodyKind = { kind: TextKind; charset: Charset; utf16?: string };

export type BodyKind =
  | TextBodyKind
  | { kind: 'multipart'; boundary: string }
  /** Passes untouched: nothing is looked for in it. */
  | { kind: 'bytes' };

const bytes: BodyKind = { kind: 'bytes' };

/** US-ASCII is UTF-8 as well. */
const utf8 = new Set(['utf-8', 'utf8', 'us-ascii', 'ascii']);

/** As the encoding standard has it, the first is the second. */
const latin1 = new Set(['iso-8859-1', 'iso8859-1', 'iso_8859-1', 'latin1', 'windows-1252', 'cp1252', 'x-cp1252']);

/** The first may be either of the others: the body tells. */
const utf16 = new Set(['utf-16', 'utf-16le', 'utf-16be']);

/** Some programs write single quotes, which are no quotes here (RFC 9110 section 5.6.4). */
const nameOf = (label: string): string =>
  label
    .trim()
    .replace(/^'(.*)'$/, '$1')
    .toLowerCase();

export const utf16Label = (label: string): string | undefined => {
  const name = nameOf(label);
  return utf16.has(name) ? name : undefined;
};

/** Undefined for a charset whose bytes are not read as they are. */
export const charsetOf = (label: string): Charset | undefined => {
  const name = nameOf(label);
  if (utf8.has(name)) return 'utf8';
  return latin1.has(name) ? 'latin1' : undefined;
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
  ['text/html', 'markup'],
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
  ['application/graphql', 'graphql'],
  ['application/x-graphql', 'graphql'],
  ['text/plain', 'plain'],
]);

/** Of `application`; what else is text says so by `text`. */
const textTypes =
  /^application\/(?:ecmascript|edi-x12|edifact|jose|jwt|sql|toml|typescript|x-pem-file|x-sh|(?:x-)?javascript)$/;

/** RFC 6839, RFC 8091, RFC 9512. */
const kindOfSuffix: [string, TextKind][] = [
  ['+json', 'json'],
  ['+json-seq', 'json_lines'],
  ['+xml', 'markup'],
  ['+yaml', 'yaml'],
];

/** Other names of types that are text, by their words. */
const kindOfWord: [RegExp, TextKind][] = [
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

const mediaType = /^[\t ]*([!#$%&'*+.^_`|~0-9a-z-]+\/[!#$%&'*+.^_`|~0-9a-z-]+)[\t ]*(?=;|$)/i;

/** Also what should stand in quotes and does not, up to the next semicolon, as the MIME sniffing standard reads it. */
const parameter = /;[\t ]*(?:([^\t ;="]+)=(?:"((?:[^"\\]|\\.)*)"[^;]*|([^;]*))|[^;]*)/y;

/** A value with its parameters, the first of each name. @param from where the parameters begin. */
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
  // Headers are read as latin1, and browsers write them in UTF-8.
  return name === undefined ? undefined : Buffer.from(name, 'latin1').toString('utf8');
};

/** RFC 2046 section 5.1.1. */
const boundaryForm = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/;

/** What leaves the bytes as they are. Behind anything else they are not the text itself. */
const unencoded = new Map([
  ['content-encoding', /^(?:identity)?$/i],
  ['content-transfer-encoding', /^(?:7bit|8bit|binary)?$/i],
]);

/** @param headers of a request, or of a part of a multipart body. */
export const bodyKindOf = (headers: Headers): BodyKind => {
  const types: string[] = [];
  for (const [spelled, value] of headers) {
    const name = spelled.toLowerCase();
    if (unencoded.get(name)?.test(value.trim()) === false) return bytes;
    if (name === 'content-type') types.push(value);
  }
  const [value, ...others] = types;
  if (value === undefined) return { kind: 'undeclared', charset: 'utf8' };
  const match = mediaType.exec(value);
  // Two types, or half of one: who receives it may read it differently than we would.
  if (others.length > 0 || !match) return bytes;
  const type = (match[1] as string).toLowerCase();
  const parameters = parametersOf(value, match[0].length);
  if (type.startsWith('multipart/')) {
    const boundary = parameters.get('boundary') ?? '';
    return boundaryForm.test(boundary) ? { kind: 'multipart', boundary } : bytes;
  }
  const kind = kindOf(type);
  const label = parameters.get('charset') ?? 'utf-8';
  const wide = utf16Label(label);
  if (kind && wide !== undefined) return { kind, charset: 'utf8', utf16: wide };
  const charset = charsetOf(label);
  return kind && charset ? { kind, charset } : bytes;
};

const withoutCoding = (headers: Headers): Headers =>
  headers.filter(([name]) => name.toLowerCase() !== 'content-encoding');

/** What is in a body when its codings are undone. */
export const decodedKindOf = (headers: Headers): BodyKind => bodyKindOf(withoutCoding(headers));

/** The headers of a body that was made UTF-8. */
export const inUtf8Headers = (headers: Headers): Headers =>
  headers.map(([name, value]) => [name, name.toLowerCase() === 'content-type' ? sayingUtf8(value) : value]);

/** The headers of a body that was made UTF-8 of UTF-16, or whose codings were undone. */
export const decodedHeaders = (headers: Headers, wasUtf16: boolean): Headers =>
  withoutCoding(wasUtf16 ? inUtf8Headers(headers) : headers);

/** The kind of the same body when it was made UTF-8 of UTF-16. */
export const inUtf8 = (body: BodyKind): BodyKind =>
  'charset' in body ? { kind: body.kind, charset: body.charset } : body;

const charsetParameter = /;[\t ]*charset[\t ]*=(?:"(?:[^"\\]|\\.)*"|[^;]*)/gi;

const sayingUtf8 = (type: string): string => `${type.replace(charsetParameter, '')}; charset=utf-8`;

/** A document in UTF-16 cannot say so in bytes of ASCII: one that does, and many programs write it, is in what the headers say. */
export const isUtf16Label = (label: string): boolean => utf16Label(label) !== undefined;

/** Whether somebody will take the body for JSON, though it may be of a kind that is not read here. */
export const saysJson = (headers: Headers): boolean =>
  headers.some(([name, value]) => name.toLowerCase() === 'content-type' && /[/+-]json/i.test(value));
