// Takes a multipart body apart as it arrives (RFC 2046 section 5.1): in one pass, in whatever pieces it comes, and does not
// look into its parts.
import type { Headers } from '../egress/headers.ts';

/** Of one part. Forms have a few hundred. */
const PART_HEADERS_BYTES_MAX = 16_384;

/** Spaces behind a boundary, which transport once added. */
const PADDING_BYTES_MAX = 256;

/** Together, in their order, the pieces that they are handed are the body. */
export type MultipartHandlers = {
  /** What stands around the parts' content: boundaries, headers, and what is before the first and behind the last. */
  onFrame(piece: Buffer): void;
  /** Comes before the content, which may come in pieces. */
  onPart(headers: Headers): void;
  onContent(piece: Buffer): void;
  /** From here on, and to its end, this is no multipart body. */
  onMalformed(piece: Buffer): void;
};

export type MultipartReader = { push(piece: Buffer): void; end(): void };

type State = 'preamble' | 'headers' | 'content' | 'epilogue' | 'malformed';

const CR = 0x0d;

export const createMultipartReader = (boundary: string, handlers: MultipartHandlers): MultipartReader => {
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  let state: State = 'preamble';
  // The first boundary needs no line end before it: it is given one, which is not handed on.
  let waiting: Buffer = Buffer.from('\r\n');
  let added = waiting.length;

  const hand = (to: 'onFrame' | 'onContent' | 'onMalformed', end: number): void => {
    const piece = waiting.subarray(added, end);
    added = Math.max(0, added - end);
    waiting = waiting.subarray(end);
    if (piece.length > 0) handlers[to](piece);
  };

  /** Whether what is there is the delimiter as far as it goes. */
  const mayBeDelimiter = (bytes: Buffer): boolean => delimiter.subarray(0, bytes.length).equals(bytes);

  /** @returns whether there may be more to do with what waits. */
  const takeUpToDelimiter = (): boolean => {
    const to = state === 'content' ? 'onContent' : 'onFrame';
    const at = waiting.indexOf(delimiter);
    if (at === -1) {
      // Nothing is kept but what may become the delimiter, in which only the first byte is a CR.
      const last = waiting.lastIndexOf(CR);
      hand(to, last !== -1 && mayBeDelimiter(waiting.subarray(last)) ? last : waiting.length);
      return false;
    }
    hand(to, at);
    const behind = waiting.toString('latin1', delimiter.length, delimiter.length + PADDING_BYTES_MAX);
    // What tells one line from another may not be there yet.
    if (/^(?:-?|[\t ]*\r?)$/.test(behind) && behind.length < PADDING_BYTES_MAX) return false;
    const [line] = /^(?:--|[\t ]*(?=\r\n))/.exec(behind) ?? [];
    if (line === undefined) state = 'malformed';
    else {
      hand('onFrame', delimiter.length + line.length);
      state = line === '--' ? 'epilogue' : 'headers';
    }
    return true;
  };

  /** What waits begins with the end of the boundary's line. */
  const takeHeaders = (): boolean => {
    const end = waiting.indexOf('\r\n\r\n');
    if (end === -1 && waiting.length <= PART_HEADERS_BYTES_MAX) return false;
    // A part without content may leave out the empty line.
    const behind = waiting.subarray(end + 2, end + 2 + delimiter.length);
    const hasContent = !mayBeDelimiter(behind);
    if (end !== -1 && !hasContent && behind.length < delimiter.length) return false;
    const isShort = end !== -1 && end <= PART_HEADERS_BYTES_MAX;
    const headers = isShort ? parseHeaders(waiting.toString('latin1', 2, end)) : undefined;
    if (headers) {
      hand('onFrame', hasContent ? end + 4 : end + 2);
      state = 'content';
      handlers.onPart(headers);
    } else state = 'malformed';
    return true;
  };

  const step = (): boolean => {
    if (state === 'headers') return takeHeaders();
    if (state === 'preamble' || state === 'content') return takeUpToDelimiter();
    hand(state === 'epilogue' ? 'onFrame' : 'onMalformed', waiting.length);
    return false;
  };

  return {
    push: (piece) => {
      waiting = waiting.length === 0 ? piece : Buffer.concat([waiting, piece]);
      while (step());
    },
    end: () => {
      if (state !== 'epilogue') handlers.onMalformed(waiting.subarray(added));
    },
  };
};

/** Undefined for what is no header. Lines that go on are joined (RFC 5322 section 2.2.3). */
const parseHeaders = (block: string): Headers | undefined => {
  const headers: Headers = [];
  for (const line of block === '' ? [] : block.replace(/\r\n(?=[\t ])/g, '').split('\r\n')) {
    const [, name, value] = /^([^\s:]+)[\t ]*:[\t ]*(.*)$/s.exec(line) ?? [];
    if (name === undefined || value === undefined) return undefined;
    headers.push([name, value]);
  }
  return headers;
};
