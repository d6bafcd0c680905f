// A body that is too large to be looked at whole passes in pieces, unchanged, as long as it opens no expression. Nothing of
// it is copied or kept but the few bytes between two pieces, and the headers of a part.
import { payloadTooLarge } from '../errors.ts';
import { NESTED_MULTIPART_MAX, PARTS_MAX } from './body.ts';
import { bodyKindOf, type BodyKind, type TextBodyKind } from './body-kind.ts';
import { createMultipartReader } from './multipart.ts';
import { anyOpening, mayOpen, type Opening, OPENING_OVERLAP_BYTES, openingOf } from './opening.ts';
import { UTF16_SIGN_BYTES, utf16Of } from './utf16.ts';

/** Looks at the next piece. @throws payloadTooLarge. */
type Watcher = (piece: Buffer) => void;

const ignore: Watcher = () => {};

const createTextWatcher = (opening: Opening): Watcher => {
  let before = Buffer.alloc(0);
  return (piece) => {
    const border = Buffer.concat([before, piece.subarray(0, OPENING_OVERLAP_BYTES)]);
    if (mayOpen(opening, border) || mayOpen(opening, piece))
      throw payloadTooLarge('A body with expressions must be at most 10 MB.');
    const end = piece.length < OPENING_OVERLAP_BYTES ? border : piece;
    // A copy: a view would keep the piece.
    before = Buffer.from(end.subarray(-OPENING_OVERLAP_BYTES));
  };
};

/** Of a body that nobody calls text: watched until it is none. */
const createGuessWatcher = (watch: Watcher): Watcher => {
  const utf8 = new TextDecoder('utf-8', { fatal: true });
  let isText = true;
  return (piece) => {
    if (!isText) return;
    try {
      utf8.decode(piece, { stream: true });
    } catch {
      isText = false;
      return;
    }
    watch(piece);
  };
};

/** UTF-16 is watched as what it says, up to where it is broken. */
const createCharsetWatcher = (kind: TextBodyKind, watch: Watcher): Watcher => {
  let start = Buffer.alloc(0);
  let watchDecoded: Watcher | undefined;
  const choose = (first: Buffer): Watcher => {
    const utf16 = utf16Of(kind, first);
    if (utf16 === undefined) return watch;
    // What has no type may be no text at all.
    const decoder = new TextDecoder(utf16, { fatal: kind.kind === 'undeclared' });
    let isText = true;
    return (piece) => {
      if (!isText) return;
      try {
        watch(Buffer.from(decoder.decode(piece, { stream: true })));
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        isText = false;
      }
    };
  };
  return (piece) => {
    if (watchDecoded) return watchDecoded(piece);
    const first = start.length === 0 ? piece : Buffer.concat([start, piece]);
    if (first.length < UTF16_SIGN_BYTES) {
      start = Buffer.from(first);
      return;
    }
    watchDecoded = choose(first);
    watchDecoded(first);
  };
};

const createMultipartWatcher = (boundary: string, level: number): Watcher => {
  // What is no multipart body is for its receiver to read as it likes; what has too many parts is not worth taking apart.
  const watchAll = createTextWatcher(anyOpening);
  let watch = ignore;
  let parts = 0;
  const reader = createMultipartReader(boundary, {
    onFrame: ignore,
    onPart: (headers) => {
      parts += 1;
      watch = createWatcher(bodyKindOf(headers), level + 1);
    },
    onContent: (piece) => watch(piece),
    onMalformed: watchAll,
  });
  return (piece) => {
    if (parts <= PARTS_MAX) reader.push(piece);
    if (parts > PARTS_MAX) watchAll(piece);
  };
};

const createWatcher = (kind: BodyKind, level = 0): Watcher => {
  if (kind.kind === 'bytes') return ignore;
  if (kind.kind === 'multipart')
    return level > NESTED_MULTIPART_MAX ? ignore : createMultipartWatcher(kind.boundary, level);
  const watch = createTextWatcher(openingOf[kind.kind]);
  return createCharsetWatcher(kind, kind.kind === 'undeclared' ? createGuessWatcher(watch) : watch);
};

/**
 * Names of fields and members are watched like values: which is which shows only when the whole is read.
 * @returns the same pieces. Breaks off before the piece that opens an expression, with payloadTooLarge; whoever has received
 * what went before must not take it for the whole.
 */
export const watchBody = (kind: BodyKind, body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> =>
  kind.kind === 'bytes' ? body : watched(createWatcher(kind), body);

async function* watched(watch: Watcher, body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    watch(Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength));
    yield piece;
  }
}
