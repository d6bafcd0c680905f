// A streaming parser of multipart bodies (RFC 2046 section 5.1), in one pass over chunks of any size.
import type { Headers } from '../../../platform/egress/headers.ts';

/** The headers of one part. Forms have a few hundred bytes. */
const PART_HEADERS_BYTES_MAX = 16_384;

/** Spaces after a boundary, which mail transport used to add. */
const PADDING_BYTES_MAX = 256;

/** The chunks that the handlers receive, in order, are the body. */
export type MultipartHandlers = {
  /** Everything but the content of parts: boundaries, headers, preamble and epilogue. */
  onFrame(chunk: Buffer): void;
  /** Called before the content of the part, which may come in several chunks. */
  onPart(headers: Headers): void;
  onContent(chunk: Buffer): void;
  /** The rest of the body, from where it is no valid multipart body. */
  onMalformed(chunk: Buffer): void;
};

export type MultipartReader = { push(chunk: Buffer): void; end(): void };

type State = 'preamble' | 'headers' | 'content' | 'epilogue' | 'malformed';

const CR = 0x0d;

export const createMultipartReader = (boundary: string, handlers: MultipartHandlers): MultipartReader => {
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  let state: State = 'preamble';
  // The first boundary needs no line end before it. One is added here, and is not passed to the handlers.
  let buffered: Buffer = Buffer.from('\r\n');
  let added = buffered.length;

  const emit = (to: 'onFrame' | 'onContent' | 'onMalformed', end: number): void => {
    const chunk = buffered.subarray(added, end);
    added = Math.max(0, added - end);
    buffered = buffered.subarray(end);
    if (chunk.length > 0) handlers[to](chunk);
  };

  /** Whether the bytes are a prefix of the delimiter. */
  const mayBeDelimiter = (bytes: Buffer): boolean => delimiter.subarray(0, bytes.length).equals(bytes);

  /** @returns whether the buffered bytes may allow another step. */
  const takeUpToDelimiter = (): boolean => {
    const to = state === 'content' ? 'onContent' : 'onFrame';
    const at = buffered.indexOf(delimiter);
    if (at === -1) {
      // Keeps only bytes that may begin the delimiter, which has a CR as its first byte only.
      const last = buffered.lastIndexOf(CR);
      emit(to, last !== -1 && mayBeDelimiter(buffered.subarray(last)) ? last : buffered.length);
      return false;
    }
    emit(to, at);
    const after = buffered.toString('latin1', delimiter.length, delimiter.length + PADDING_BYTES_MAX);
    // The characters that decide may not have arrived yet.
    if (/^(?:-?|[\t ]*\r?)$/.test(after) && after.length < PADDING_BYTES_MAX) return false;
    const [line] = /^(?:--|[\t ]*(?=\r\n))/.exec(after) ?? [];
    if (line === undefined) state = 'malformed';
    else {
      emit('onFrame', delimiter.length + line.length);
      state = line === '--' ? 'epilogue' : 'headers';
    }
    return true;
  };

  /** The buffer begins with the line end of the boundary. */
  const takeHeaders = (): boolean => {
    const end = buffered.indexOf('\r\n\r\n');
    if (end === -1 && buffered.length <= PART_HEADERS_BYTES_MAX) return false;
    // A part without content may omit the empty line.
    const after = buffered.subarray(end + 2, end + 2 + delimiter.length);
    const hasContent = !mayBeDelimiter(after);
    if (end !== -1 && !hasContent && after.length < delimiter.length) return false;
    const isShort = end !== -1 && end <= PART_HEADERS_BYTES_MAX;
    const headers = isShort ? parseHeaders(buffered.toString('latin1', 2, end)) : undefined;
    if (headers) {
      emit('onFrame', hasContent ? end + 4 : end + 2);
      state = 'content';
      handlers.onPart(headers);
    } else state = 'malformed';
    return true;
  };

  const step = (): boolean => {
    if (state === 'headers') return takeHeaders();
    if (state === 'preamble' || state === 'content') return takeUpToDelimiter();
    emit(state === 'epilogue' ? 'onFrame' : 'onMalformed', buffered.length);
    return false;
  };

  return {
    push: (chunk) => {
      buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
      while (step());
    },
    end: () => {
      if (state !== 'epilogue') handlers.onMalformed(buffered.subarray(added));
    },
  };
};

/** Undefined for an invalid header. Folded lines are joined (RFC 5322 section 2.2.3). */
const parseHeaders = (block: string): Headers | undefined => {
  const headers: Headers = [];
  for (const line of block === '' ? [] : block.replace(/\r\n(?=[\t ])/g, '').split('\r\n')) {
    const [, name, value] = /^([^\s:]+)[\t ]*:[\t ]*(.*)$/s.exec(line) ?? [];
    if (name === undefined || value === undefined) return undefined;
    headers.push([name, value]);
  }
  return headers;
};
