// Streams a body that is too large to be read whole, and stops it where an expression may begin.
// Keeps only the last bytes of a chunk and the headers of a part.
import { payloadTooLarge } from '../../platform/base/errors.ts';
import { megabytes } from '../../platform/base/size-text.ts';
import { EXPANDED_BYTES_MAX } from '../tokens/expressions/meter.ts';
import { NESTED_MULTIPART_MAX, PARTS_MAX } from './bodies/expressions.ts';
import { type BodyKind, bodyKindOf, type Charset, type TextBodyKind } from './bodies/body-kind.ts';
import { isLegacy } from './bodies/charsets.ts';
import { createMultipartReader } from './bodies/multipart.ts';
import {
  anyStart,
  type ExpressionStart,
  mayContain,
  mayHoldExpression,
  percentStart,
  START_OVERLAP_BYTES,
  startOf,
  type UnsearchedKind,
  unsearchedOverlap,
} from './bodies/expression-start.ts';
import {
  charsetOfText,
  isHalfMark,
  isUtf32,
  mayBeWide,
  utf16Of,
  WIDE_SIGN_BYTES,
  withoutNuls,
} from './bodies/text-charset.ts';

/** The error for a larger body that has expressions. */
export const BODY_TOO_LARGE = `A body with expressions must be at most ${megabytes(EXPANDED_BYTES_MAX)}.`;

/** Scans the next chunk. @throws payloadTooLarge. */
type Watcher = (chunk: Buffer) => void;

const ignore: Watcher = () => {};

const createTextWatcher = (start: ExpressionStart): Watcher => {
  let before = Buffer.alloc(0);
  return (chunk) => {
    const border = Buffer.concat([before, chunk.subarray(0, START_OVERLAP_BYTES)]);
    if (mayContain(start, border) || mayContain(start, chunk)) throw payloadTooLarge(BODY_TOO_LARGE);
    const end = chunk.length < START_OVERLAP_BYTES ? border : chunk;
    // A copy, because a view would keep the whole chunk in memory.
    before = Buffer.from(end.subarray(-START_OVERLAP_BYTES));
  };
};

/** For a body that is not searched, with the end of the chunk before. */
const createUnsearchedWatcher = (kind: UnsearchedKind): Watcher => {
  let before = Buffer.alloc(0);
  return (chunk) => {
    const whole = before.length === 0 ? chunk : Buffer.concat([before, chunk]);
    if (mayHoldExpression(kind, whole)) throw payloadTooLarge(BODY_TOO_LARGE);
    before = Buffer.from(whole.subarray(-unsearchedOverlap[kind]));
  };
};

/** For a body without a type: scans it as text until it is no valid UTF-8, then as binary data. */
const createGuessWatcher = (watch: Watcher): Watcher => {
  const utf8 = new TextDecoder('utf-8', { fatal: true });
  let watchBinary: Watcher | undefined;
  return (chunk) => {
    if (watchBinary) return watchBinary(chunk);
    try {
      utf8.decode(chunk, { stream: true });
    } catch {
      watchBinary = createUnsearchedWatcher('unread');
      return watchBinary(chunk);
    }
    watch(chunk);
  };
};

/** Decodes UTF-16, and charsets whose characters may have a brace as their second byte, before it is scanned, up to the first invalid character. */
const createCharsetWatcher = (kind: TextBodyKind, watch: Watcher): Watcher => {
  let start = Buffer.alloc(0);
  let watchDecoded: Watcher | undefined;
  const choose = (first: Buffer): Watcher => {
    if (isUtf32(kind, first)) {
      const watchBinary = createUnsearchedWatcher('unread');
      const watchText = createTextWatcher(anyStart);
      return (chunk) => (kind.kind === 'undeclared' ? watchBinary : watchText)(withoutNuls(chunk));
    }
    // If a document declares a charset only behind the start, its ASCII bytes are scanned: these are more than its braces.
    const charset = charsetOfText({ ...kind, isNamed: true }, first) as Charset;
    const wide = utf16Of(kind, first) ?? (isLegacy(charset) ? charset : undefined);
    if (wide === undefined) return watch;
    // A body without a type may be binary.
    const decoder = new TextDecoder(wide, { fatal: kind.kind === 'undeclared' });
    // Binary data may look like UTF-16.
    const watchRaw = charset === wide ? ignore : createUnsearchedWatcher('unread');
    let isText = true;
    return (chunk) => {
      watchRaw(chunk);
      if (!isText) return;
      try {
        watch(Buffer.from(decoder.decode(chunk, { stream: true })));
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        isText = false;
      }
    };
  };
  return (chunk) => {
    if (watchDecoded) return watchDecoded(chunk);
    const first = start.length === 0 ? chunk : Buffer.concat([start, chunk]);
    if (isHalfMark(first) || (first.length < WIDE_SIGN_BYTES && mayBeWide(first))) {
      start = Buffer.from(first);
      return;
    }
    watchDecoded = choose(first);
    watchDecoded(first);
  };
};

const createMultipartWatcher = (boundary: string, level: number): Watcher => {
  // A receiver may read an invalid multipart body as anything. One with too many parts is scanned as a whole.
  const watchAll = createTextWatcher(anyStart);
  let watch = ignore;
  let parts = 0;
  const reader = createMultipartReader(boundary, {
    onFrame: createTextWatcher(percentStart),
    onPart: (headers) => {
      parts += 1;
      watch = createWatcher(bodyKindOf(headers), level + 1);
    },
    onContent: (chunk) => watch(chunk),
    onMalformed: watchAll,
  });
  return (chunk) => {
    if (parts <= PARTS_MAX) reader.push(chunk);
    if (parts > PARTS_MAX) watchAll(chunk);
  };
};

const createWatcher = (kind: BodyKind, level = 0): Watcher => {
  if (kind.kind === 'bytes') return ignore;
  if (kind.kind === 'refused')
    return (chunk) => {
      if (chunk.length > 0) throw kind.refuse('body');
    };
  if (kind.kind === 'unread' || kind.kind === 'unreadable') return createUnsearchedWatcher(kind.kind);
  if (kind.kind === 'multipart')
    return level > NESTED_MULTIPART_MAX
      ? createUnsearchedWatcher('unread')
      : createMultipartWatcher(kind.boundary, level);
  const watch = createTextWatcher(startOf[kind.kind]);
  return createCharsetWatcher(kind, kind.kind === 'undeclared' ? createGuessWatcher(watch) : watch);
};

/**
 * Property and field names are scanned like values, because only a parser of the whole body could distinguish them.
 * @returns the same chunks. Throws payloadTooLarge before a chunk that may begin an expression; the receiver must not take
 * the chunks before it for the whole body.
 */
export const watchBody = (kind: BodyKind, body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> =>
  kind.kind === 'bytes' ? body : watched(createWatcher(kind), body);

async function* watched(watch: Watcher, body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    watch(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    yield chunk;
  }
}
