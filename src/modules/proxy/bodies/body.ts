// Finds expressions in a request body by its format, and writes the body with values in their place.
// Everything else stays byte for byte.
import { invalidField } from '../../../platform/base/errors.ts';
import type { Expansion, References } from '../../tokens/expressions/expansion.ts';
import { formatPath } from '../../../platform/json/json.ts';
import { JsonSyntaxError, parseInSlices } from '../../../platform/json/json-parser.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import type { Headers } from '../../../platform/egress/headers.ts';
import { refuseStaleDigests } from '../digests.ts';
import {
  bodyKindOf,
  type BodyKind,
  type Charset,
  charsetOf,
  isMarkup,
  unknownCharset,
  partName,
  type TextBodyKind,
  type TextKind,
} from './body-kind.ts';
import { decodeLegacy, encodeLegacy, encodeLegacyInSlices, hideSecondBytes, isLegacy } from './charsets.ts';
import { splitForm } from './form-text.ts';
import { type Path, splitJson, splitJsonLines } from './json-text.ts';
import { splitMarkup } from './markup-text.ts';
import { createMultipartReader } from './multipart.ts';
import { anyStart, mayContain, percentStart, startOf } from './expression-start.ts';
import { encodePercentAt } from './percent.ts';
import { charsetOfText, declaredEncoding } from './text-charset.ts';
import { encodableAt, hasSlots, type TextParts, refuseValue, splitText, writeParts } from './text-parts.ts';
import { documentChecks, splitChecked } from './documents.ts';
import { splitRuled } from './place-rules.ts';
import { mayHoldExpression, UNSEARCHED, type UnsearchedKind } from './unread.ts';
import { encodeUtf16, isUtf32, readUtf16, withoutByteOrderMark, withoutNuls } from './utf16.ts';

/** Deeper nesting occurs in forwarded mail only. */
export const NESTED_MULTIPART_MAX = 2;

/** More fields than forms have. The headers of each part are parsed. */
export const PARTS_MAX = 1000;

export type WriteBody = (expansion: Expansion) => Buffer;

/**
 * @param path the place of the body within the request.
 * @param level the number of multipart bodies around this one.
 * @returns undefined for a body without expressions.
 * @throws invalidInput at the place of the fault.
 */
export function* prepareBody(
  kind: BodyKind,
  bytes: Buffer,
  path: Path,
  references: References,
  level = 0,
): Slices<WriteBody | undefined> {
  if (kind.kind === 'bytes') return undefined;
  if (kind.kind === 'refused') {
    if (bytes.length === 0) return undefined;
    throw kind.refuse(formatPath(path));
  }
  if (kind.kind === 'unread' || kind.kind === 'unreadable') return refuseUnsearched(kind.kind, bytes, path, references);
  if (kind.kind !== 'multipart') return yield* prepareText(kind, bytes, path, references);
  if (level > NESTED_MULTIPART_MAX) return refuseUnsearched('unread', bytes, path, references);
  // A charset of a part may be one that is refused.
  if (!mayStartInPart(bytes) && !/charset[\t ]*=/i.test(bytes.toString('latin1'))) return undefined;
  return yield* prepareMultipart(kind.boundary, bytes, path, references, level);
}

/**
 * Refuses an expression in a body that is not searched. Marks of code are counted elsewhere.
 * @throws invalidInput.
 */
const refuseUnsearched = (kind: UnsearchedKind, bytes: Buffer, path: Path, { coded }: References): undefined => {
  if (coded === undefined && mayHoldExpression(kind, bytes)) throw invalidField(formatPath(path), UNSEARCHED);
};

const NULS = '\\x00{1,3}';
const wideBrace = `(?:\\{|%${NULS}7${NULS}b|\\\\${NULS}u${NULS}0${NULS}0${NULS}7${NULS}b)`;

/** Like `anyStart`, in UTF-16 or UTF-32 of either byte order: with NULs between two ASCII characters. */
const wideStart = new RegExp(`${wideBrace}${NULS}${wideBrace}`, 'i');

const mayStartInPart = (bytes: Buffer): boolean =>
  mayContain(anyStart, bytes) || (bytes.includes(0) && wideStart.test(bytes.toString('latin1')));

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function* decode(bytes: Buffer, charset: Charset): Slices<string | undefined> {
  if (charset === 'latin1') return bytes.toString('latin1');
  if (isLegacy(charset)) return yield* decodeLegacy(bytes, charset);
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** The literals are written before the values are known. */
function* writerIn(parts: TextParts, charset: Charset): Slices<WriteBody> {
  if (!isLegacy(charset)) return (expansion) => Buffer.from(writeParts(parts, expansion), charset);
  const written: (Buffer | TextParts)[] = [];
  for (const part of parts)
    written.push(typeof part === 'string' ? yield* encodeLegacyInSlices(part, charset) : [part]);
  return (expansion) =>
    Buffer.concat(
      written.map((each) => (Buffer.isBuffer(each) ? each : encodeLegacy(writeParts(each, expansion), charset))),
    );
}

function* prepareText(
  body: TextBodyKind,
  bytes: Buffer,
  path: Path,
  references: References,
): Slices<WriteBody | undefined> {
  const { kind } = body;
  // Binary data may begin like UTF-32. What is declared as text is refused by readUtf16.
  if (kind === 'undeclared' && isUtf32(body, bytes))
    return refuseUnsearched('unread', withoutNuls(bytes), path, references);
  const wide = readUtf16(body, bytes, formatPath(path));
  if (wide) {
    const parts = yield* split(wide.text, kind, 'utf8', path, references);
    return hasSlots(parts) ? (expansion) => encodeUtf16(writeParts(parts, expansion), wide.utf16) : undefined;
  }
  if (!mayContain(startOf[kind], bytes)) return undefined;
  const charset = charsetOfText(body, bytes);
  if (charset === undefined)
    return yield* prepareBody(unknownCharset(declaredEncoding(bytes) ?? ''), bytes, path, references);
  const text = yield* decode(bytes, charset);
  if (text === undefined) {
    if (kind === 'undeclared') return refuseUnsearched('unread', bytes, path, references);
    throw invalidField(formatPath(path), 'must be in UTF-8, or in the charset that it says');
  }
  // A receiver may go by a declaration that says another charset: it reads references too.
  const declared = isMarkup(kind) ? charsetOf(declaredEncoding(bytes) ?? '') : undefined;
  const writtenIn = charset === 'utf8' && declared !== undefined && declared !== 'utf8' ? 'latin1' : charset;
  const parts = yield* split(text, kind, writtenIn, path, references);
  return hasSlots(parts) ? yield* writerIn(parts, charset) : undefined;
}

const withoutSecondBytes = (form: string, charset: Charset): string =>
  isLegacy(charset) ? hideSecondBytes(form, charset) : form;

function* split(text: string, kind: TextKind, charset: Charset, path: Path, references: References): Slices<TextParts> {
  const place = formatPath(path);
  switch (kind) {
    case 'json':
      return yield* splitJson(text, charset, path, references);
    case 'json_lines':
      return yield* splitJsonLines(text, charset, path, references);
    case 'form':
      return yield* splitForm(withoutSecondBytes(text, charset), path, encodePercentAt(charset), references);
    case 'markup':
    case 'html':
      return yield* splitMarkup(text, charset, place, references, kind === 'html');
    case 'csv':
    case 'yaml':
    case 'graphql':
    case 'quoted':
      return yield* splitRuled(kind, text, place, references, encodableAt(charset, place));
    default:
      if (kind !== 'text' && (yield* isJsonText(text))) return yield* splitJson(text, charset, path, references);
      return yield* splitOther(text, charset, path, references, kind !== 'undeclared');
  }
}

/**
 * Text of no known format, which may be a document: JSON with expressions beside its strings, or GraphQL in a part named `query`.
 * @param hasLines whether lines may have a meaning. A field of a form is one value.
 */
function* splitOther(
  text: string,
  charset: Charset,
  path: Path,
  references: References,
  hasLines: boolean,
): Slices<TextParts> {
  const place = formatPath(path);
  const encode = encodableAt(charset, place);
  const name = path.at(-1);
  const checks = yield* documentChecks(text, typeof name === 'string' ? name : undefined, place, references);
  if (checks) return splitChecked(text, place, references, encode, checks);
  return hasLines
    ? yield* splitRuled('lines', text, place, references, encode)
    : splitText(text, place, references, encode);
}

/** Also after a byte order mark. Text that is nested too deep counts as JSON, and `splitJson` refuses it. */
function* isJsonText(text: string): Slices<boolean> {
  const bare = withoutByteOrderMark(text);
  // First and last characters show that most texts are no JSON, without parsing.
  const ends = { '"': '"', '[': ']', '{': '}' }[/^[\t\n\r ]*(["[{])/.exec(bare)?.[1] ?? ''];
  if (ends === undefined || bare.trimEnd().at(-1) !== ends) return false;
  try {
    yield* parseInSlices(bare, { stopsAtDepth: true });
    return true;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return false;
    throw error;
  }
}

const IN_FRAME =
  'must have no {{ in headers of parts or outside of the parts: expressions stand in their contents only';

/** Each part has its own kind. A part without a type is treated as text if it is valid. */
function* prepareMultipart(
  boundary: string,
  bytes: Buffer,
  path: Path,
  references: References,
  level: number,
): Slices<WriteBody | undefined> {
  const place = formatPath(path);
  const found: (Buffer | { kind: BodyKind; path: Path; headers: Headers; content: Buffer[] })[] = [];
  let parts = 0;
  const reader = createMultipartReader(boundary, {
    onFrame: (chunk) => found.push(chunk),
    onPart: (headers) => {
      parts += 1;
      if (parts > PARTS_MAX) throw invalidField(place, `must have at most ${PARTS_MAX} parts`, 'too_large');
      found.push({ kind: bodyKindOf(headers), path: [...path, partName(headers) ?? parts - 1], headers, content: [] });
    },
    onContent: (chunk) => {
      const part = found.at(-1);
      if (part && 'content' in part) part.content.push(chunk);
    },
    onMalformed: () => {
      if (!mayStartInPart(bytes)) return;
      throw invalidField(place, 'must be a whole multipart body with the boundary that it says');
    },
  });
  reader.push(bytes);
  reader.end();
  const frames = found.filter((each) => !('content' in each));
  if (references.coded === undefined && frames.some((each) => mayContain(percentStart, each as Buffer)))
    throw invalidField(place, IN_FRAME);
  const written: (Buffer | WriteBody)[] = [];
  for (const each of found) {
    if (!('content' in each)) {
      written.push(each);
      continue;
    }
    yield;
    const bare = Buffer.concat(each.content);
    const write = yield* prepareBody(each.kind, bare, each.path, references, level + 1);
    if (write) refuseStaleDigests(each.headers, each.headers, each.path);
    written.push(write ? (expansion) => withoutBoundary(write(expansion), boundary, formatPath(each.path)) : bare);
  }
  if (!written.some((each) => typeof each === 'function')) return undefined;
  return (expansion) => Buffer.concat(written.map((each) => (typeof each === 'function' ? each(expansion) : each)));
}

/** The boundary within a value would end the part, for some readers anywhere in a line. */
const withoutBoundary = (bytes: Buffer, boundary: string, place: string): Buffer => {
  if (bytes.includes(`--${boundary}`)) throw refuseValue(place, 'must not insert the boundary of the body');
  return bytes;
};
