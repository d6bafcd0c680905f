// The body of a forwarded request, opened by its kind for values to be put in. What it holds beside expressions goes out byte
// for byte, and a body without any is what it was.
import { invalidField } from '../errors.ts';
import type { Expansion, References } from '../vault/expansion.ts';
import { formatPath } from '../vault/json.ts';
import { JsonSyntaxError, parseInSlices, type Slices } from '../vault/json-parser.ts';
import {
  bodyKindOf,
  type BodyKind,
  type Charset,
  charsetOf,
  isUtf16Label,
  partName,
  type TextBodyKind,
  type TextKind,
} from './body-kind.ts';
import { splitForm } from './form-text.ts';
import { type Path, splitJson, splitJsonLines } from './json-text.ts';
import { declaredEncoding, splitMarkup } from './markup-text.ts';
import { createMultipartReader } from './multipart.ts';
import { anyOpening, mayOpen, openingOf } from './opening.ts';
import { encodePercentAt } from './percent.ts';
import { encodableAt, hasSlots, type Pieces, refuseValue, splitText, writePieces } from './pieces.ts';
import { splitRuled } from './place-rules.ts';
import { encodeUtf16, readUtf16 } from './utf16.ts';

/** A part that has parts that have parts is the mail of somebody else. */
export const NESTED_MULTIPART_MAX = 2;

/** More fields than a form has; each costs the reading of its headers. */
export const PARTS_MAX = 1000;

export type WriteBody = (expansion: Expansion) => Buffer;

/**
 * @param path where the body stands in the request.
 * @param level how many multipart bodies this one is in.
 * @returns undefined for a body without expressions.
 * @throws invalidInput at the place of what is wrong.
 */
export function* openBody(
  kind: BodyKind,
  bytes: Buffer,
  path: Path,
  references: References,
  level = 0,
): Slices<WriteBody | undefined> {
  if (kind.kind === 'bytes') return undefined;
  if (kind.kind !== 'multipart') return yield* openText(kind, bytes, path, references);
  if (level > NESTED_MULTIPART_MAX || !mayOpenInPart(bytes)) return undefined;
  return yield* openMultipart(kind.boundary, bytes, path, references, level);
}

const wideBrace = '(?:\\{|%\\x007\\x00b|\\\\\\x00u\\x000\\x000\\x007\\x00b)';

/** As `anyOpening`, in UTF-16 of either order: a NUL stands between two characters of ASCII. */
const wideOpening = new RegExp(`${wideBrace}\\x00${wideBrace}`, 'i');

const mayOpenInPart = (bytes: Buffer): boolean =>
  mayOpen(anyOpening, bytes) || (bytes.includes(0) && wideOpening.test(bytes.toString('latin1')));

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const decode = (bytes: Buffer, charset: Charset): string | undefined => {
  if (charset === 'latin1') return bytes.toString('latin1');
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
};

function* openText(
  body: TextBodyKind,
  bytes: Buffer,
  path: Path,
  references: References,
): Slices<WriteBody | undefined> {
  const { kind, charset: said } = body;
  const wide = readUtf16(body, bytes, formatPath(path));
  if (wide) {
    const pieces = yield* split(wide.text, kind, 'utf8', path, references);
    return hasSlots(pieces) ? (expansion) => encodeUtf16(writePieces(pieces, expansion), wide.utf16) : undefined;
  }
  if (!mayOpen(openingOf[kind], bytes)) return undefined;
  const declared = kind === 'markup' ? declaredEncoding(bytes) : undefined;
  const charset = declared === undefined || isUtf16Label(declared) ? said : charsetOf(declared);
  if (charset === undefined) return undefined;
  const text = decode(bytes, charset);
  if (text === undefined) {
    if (kind === 'undeclared') return undefined;
    throw invalidField(formatPath(path), 'must be in UTF-8, or in the charset that it says');
  }
  const pieces = yield* split(text, kind, charset, path, references);
  return hasSlots(pieces) ? (expansion) => Buffer.from(writePieces(pieces, expansion), charset) : undefined;
}

function* split(text: string, kind: TextKind, charset: Charset, path: Path, references: References): Slices<Pieces> {
  const place = formatPath(path);
  switch (kind) {
    case 'json':
      return yield* splitJson(text, charset, path, references);
    case 'json_lines':
      return yield* splitJsonLines(text, charset, path, references);
    case 'form':
      return yield* splitForm(text, path, encodePercentAt(charset), references);
    case 'markup':
      return yield* splitMarkup(text, charset, place, references);
    case 'csv':
    case 'yaml':
    case 'graphql':
      return yield* splitRuled(kind, text, place, references, encodableAt(charset, place));
    default:
      if (kind !== 'text' && (yield* isJsonText(text))) return yield* splitJson(text, charset, path, references);
      return splitText(text, place, references, encodableAt(charset, place));
  }
}

/** Behind a byte order mark as well, as `splitJson` reads it. What is nested too deep counts: `splitJson` refuses it. */
function* isJsonText(text: string): Slices<boolean> {
  const bare = text.startsWith('\ufeff') ? text.slice(1) : text;
  // Most texts show by their ends that they are none, and need not be parsed.
  const ends = { '"': '"', '[': ']', '{': '}' }[/^[\t\n\r ]*(["[{])/.exec(bare)?.[1] ?? ''];
  if (ends === undefined || bare.trimEnd().at(-1) !== ends) return false;
  try {
    yield* parseInSlices(bare, true);
    return true;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return false;
    throw error;
  }
}

/** Each part by its own kind; one that says nothing of itself is text if it can be. */
function* openMultipart(
  boundary: string,
  bytes: Buffer,
  path: Path,
  references: References,
  level: number,
): Slices<WriteBody | undefined> {
  const place = formatPath(path);
  const found: (Buffer | { kind: BodyKind; path: Path; content: Buffer[] })[] = [];
  let parts = 0;
  const reader = createMultipartReader(boundary, {
    onFrame: (piece) => found.push(piece),
    onPart: (headers) => {
      parts += 1;
      if (parts > PARTS_MAX) throw invalidField(place, `must have at most ${PARTS_MAX} parts`);
      found.push({ kind: bodyKindOf(headers), path: [...path, partName(headers) ?? parts - 1], content: [] });
    },
    onContent: (piece) => {
      const part = found.at(-1);
      if (part && 'content' in part) part.content.push(piece);
    },
    onMalformed: () => {
      throw invalidField(place, 'must be a whole multipart body with the boundary that it says');
    },
  });
  reader.push(bytes);
  reader.end();
  const written: (Buffer | WriteBody)[] = [];
  for (const each of found) {
    if (!('content' in each)) {
      written.push(each);
      continue;
    }
    yield;
    const bare = Buffer.concat(each.content);
    const write = yield* openBody(each.kind, bare, each.path, references, level + 1);
    written.push(write ? (expansion) => withoutBoundary(write(expansion), boundary, formatPath(each.path)) : bare);
  }
  if (!written.some((each) => typeof each === 'function')) return undefined;
  return (expansion) => Buffer.concat(written.map((each) => (typeof each === 'function' ? each(expansion) : each)));
}

/** The boundary in a value would end its part, for some readers wherever it stands. */
const withoutBoundary = (bytes: Buffer, boundary: string, place: string): Buffer => {
  if (bytes.includes(`--${boundary}`)) throw refuseValue(place, 'must not put in the boundary of the body');
  return bytes;
};
