// Finds expressions in the path, query, headers and body of a forwarded request, and writes values in their place.
// All are found before a token is opened.
import { fieldValue, type Headers } from '../../../platform/egress/headers.ts';
import { badRequest, invalidField } from '../../../platform/base/errors.ts';
import {
  type CodedTexts,
  createReferences,
  type Expansion,
  type References,
} from '../../tokens/expressions/expansion.ts';
import { type BoundPlace, boundPlaces } from '../../access/bounds.ts';
import { formatPath } from '../../../platform/json/json.ts';
import { runAtOnce, type Slices } from '../../../platform/json/slices.ts';
import {
  type BodyKind,
  bodyKindOf,
  type Charset,
  charsetOf,
  isMarkup,
  partName,
  type TextBodyKind,
  type TextKind,
  unknownCharset,
} from './body-kind.ts';
import { encodePercentAt, splitForm, splitPercent } from './percent.ts';
import {
  anyStart,
  mayContain,
  mayHoldExpression,
  percentStart,
  startOf,
  UNSEARCHED,
  type UnsearchedKind,
} from './expression-start.ts';
import {
  cutText,
  encodableAt,
  type Encode,
  hasSlots,
  refuseValue,
  splitText,
  type TextParts,
  writeParts,
} from './text-parts.ts';
import { splitHeaderValue, splitRuled } from './place-rules.ts';
import { documentChecks, type Path, splitChecked, splitJson, splitJsonLines } from './json-text.ts';
import { JsonSyntaxError, parseInSlices } from '../../../platform/json/json-parser.ts';
import { refuseStaleDigests } from '../message.ts';
import { decodeLegacy, encodeLegacy, encodeLegacyInSlices, hideSecondBytes, isLegacy } from './charsets.ts';
import { splitMarkup } from './markup-text.ts';
import { createMultipartReader } from './multipart.ts';
import {
  charsetOfText,
  declaredEncoding,
  encodeUtf16,
  isUtf32,
  readUtf16,
  withoutByteOrderMark,
  withoutNuls,
} from './text-charset.ts';

export type RequestPlaces = {
  path: string;
  query: string;
  headers: Headers;
  body: { kind: BodyKind; bytes: Buffer } | undefined;
};

export type FoundExpressions = {
  references: References;
  placesOf(token_id: string): BoundPlace[];
  /** Whether the body has expressions. */
  isInBody: boolean;
  /**
   * Writes the request with values. Text without expressions stays byte for byte.
   * @throws invalidInput at the place of a value that does not fit it; payloadTooLarge.
   */
  expand(expansion: Expansion): Expanded;
};

type Expanded = { path: string; query: string; headers: Headers; body: Uint8Array | undefined };

/**
 * Pauses after each slice of a large body.
 * @param coded the marks of a tenant's code, if code makes the request.
 * @param mayUse whether the caller may use tokens at all. If not, the first reference is refused.
 * @throws forbidden; invalidInput at the place of an invalid expression; payloadTooLarge.
 */
export function* findInSlices(
  { path, query, headers, body }: RequestPlaces,
  coded?: CodedTexts,
  mayUse = true,
): Slices<FoundExpressions> {
  const placed = { at: 'path' as BoundPlace, ids: new Map(boundPlaces.map((place) => [place, new Set<string>()])) };
  const references: References = { ...createReferences(undefined, coded), mayUse, placed };
  const pathParts = splitPath(path, references);
  placed.at = 'query';
  const queryParts = yield* splitForm(query, ['query'], encodePercentAt('utf8'), references);
  placed.at = 'header';
  const headerParts = headers.map(([name, value]): [string, TextParts] => [name, splitHeader(name, value, references)]);
  placed.at = 'body';
  const writeBody = body && (yield* prepareBody(body.kind, body.bytes, ['body'], references));
  if (coded?.isComplete() === false) throw badRequest(MARK_NOT_SEARCHED);
  return {
    references,
    placesOf: (id) => boundPlaces.filter((place) => placed.ids.get(place)?.has(id)),
    isInBody: writeBody !== undefined,
    expand: (expansion) => {
      const expanded: Expanded = {
        path: writeParts(pathParts, expansion),
        query: writeParts(queryParts, expansion),
        headers: headerParts.map(([name, parts]) => [name, writeParts(parts, expansion)]),
        body: writeBody ? writeBody(expansion) : body?.bytes,
      };
      if (coded && textsOf(expanded).some(coded.isIn)) throw badRequest(MARK_NOT_SEARCHED);
      return expanded;
    },
  };
}

/** All text of the request is data. @throws badRequest for a mark of code. */
export const findNothing = ({ path, query, headers, body }: RequestPlaces, coded?: CodedTexts): FoundExpressions => {
  if (coded?.isComplete() === false) throw badRequest(MARK_NOT_SEARCHED);
  return {
    references: createReferences(undefined, coded),
    placesOf: () => [],
    isInBody: false,
    expand: () => ({ path, query, headers, body: body?.bytes }),
  };
};

/** Without pauses, for small requests. */
export const findExpressions = (places: RequestPlaces, coded?: CodedTexts): FoundExpressions =>
  runAtOnce(findInSlices(places, coded));

const MARK_NOT_SEARCHED = 'What svc.expression and svc.literal make must stand where the proxy looks for expressions.';

/** Texts to search for marks: the body as latin1, because marks are ASCII in every supported charset. */
const textsOf = ({ path, query, headers, body }: Expanded): string[] => [
  path,
  query,
  ...headers.flat(),
  ...(body ? [Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1')] : []),
];

const splitPath = (path: string, references: References): TextParts => {
  if (!percentStart.pattern.test(path)) return [path];
  const place = 'path';
  const encode = encodePercentAt('utf8')(place);
  return path
    .split('/')
    .flatMap((segment, index) => [
      ...(index === 0 ? [] : ['/']),
      ...asSegment(splitPercent(segment, { place, plusIsSpace: false, encode }, references), place),
    ]);
};

/** A segment of values alone must not be empty: `/customers/{{ id }}` would be the path of all customers. */
const asSegment = (parts: TextParts, place: string): TextParts => {
  if (!hasSlots(parts) || parts.some((part) => typeof part === 'string' && part !== '')) return parts;
  const write = (expansion: Expansion): string => {
    const segment = writeParts(parts, expansion);
    if (segment === '') throw refuseValue(place, 'must not have a segment that is empty with its values');
    return segment;
  };
  return [{ place, write }];
};

/** Headers that say how the body is read: it was searched by what they say. */
const ofReading = /^content-(?:type|encoding|transfer-encoding)$/i;

const splitHeader = (name: string, value: string, references: References): TextParts => {
  if (!value.includes('{{')) return [value];
  const place = formatPath(['headers', name]);
  if (ofReading.test(name) && cutText(value, place, references).some(({ isExpression }) => isExpression))
    throw refuseValue(place, 'must have no expressions: the header says how the body is searched for them');
  // A semicolon ends a cookie, whatever it is in.
  const isCookie = name.toLowerCase() === 'cookie';
  const checks = isCookie ? undefined : runAtOnce(documentChecks(value, undefined, place, references));
  if (checks) return splitChecked(value, place, references, encodeHeaderAt(place), checks);
  return splitHeaderValue([name, value], place, references, encodeHeaderAt(place));
};

const encodeHeaderAt =
  (place: string): Encode =>
  (value) => {
    if (!fieldValue.test(value)) throw refuseValue(place, 'must insert only characters that a header can hold');
    return value;
  };

// Finds expressions in a request body by its format, and writes the body with values in their place.
// Everything else stays byte for byte.

/** Deeper nesting occurs in forwarded mail only. */
export const NESTED_MULTIPART_MAX = 2;

/** More fields than forms have. The headers of each part are parsed. */
export const PARTS_MAX = 1000;

type WriteBody = (expansion: Expansion) => Buffer;

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
