// Encodes and decodes the frames between the server and its executors. Checks sizes before it allocates; heads.ts parses
// the content.

/** Largest frame: 5 MB of JSON or of a fetched body in base64, and what surrounds it. */
const FRAME_BYTES_MAX = 8 * 1024 * 1024;
/** Largest body of a frame: leaves space for the prefix and the largest head. */
export const FRAME_BODY_BYTES_MAX = FRAME_BYTES_MAX - 1024 * 1024;
/** Largest head: 64 KB of console output and an error of 4 KB, each character escaped. */
const HEAD_BYTES_MAX = 512 * 1024;

const LENGTH_BYTES = 4;
/** After the length: id (u32), kind (u8), length of the head (u32). All little-endian. */
const PREFIX_BYTES = 9;

/** Kinds of frames and their numbers in the protocol. */
export const frameKinds = {
  /** To the executor: code under a key. */
  LOAD: 1,
  UNLOAD: 2,
  /** To the executor: run loaded code on the input in the body. */
  INVOKE: 3,
  /** To the executor: does the code in the body compile and export a function? */
  CHECK: 4,
  /** To the executor: the answer to a call. */
  SETTLE: 5,
  /** To the executor: the client has gone, cancel the run. */
  CANCEL: 6,
  /** From the executor: it is ready for its tenant. */
  READY: 16,
  /** From the executor: running code asks for something. */
  CALL: 17,
  /** From the executor: a run is over. */
  DONE: 18,
} as const;

export type FrameKind = (typeof frameKinds)[keyof typeof frameKinds];

/** A frame: kind, id of the run, a small JSON head, and the bytes of a body, which is megabytes at most. */
export type Frame = { kind: number; id: number; head: string; body: Buffer };

export const encodeFrame = (kind: FrameKind, id: number, head: object, body = ''): Buffer => {
  const headText = JSON.stringify(head);
  const headBytes = Buffer.byteLength(headText);
  const bodyBytes = Buffer.byteLength(body);
  const frame = Buffer.allocUnsafe(LENGTH_BYTES + PREFIX_BYTES + headBytes + bodyBytes);
  frame.writeUInt32LE(PREFIX_BYTES + headBytes + bodyBytes, 0);
  frame.writeUInt32LE(id, 4);
  frame.writeUInt8(kind, 8);
  frame.writeUInt32LE(headBytes, 9);
  frame.write(headText, LENGTH_BYTES + PREFIX_BYTES);
  frame.write(body, LENGTH_BYTES + PREFIX_BYTES + headBytes);
  return frame;
};

/** The bytes from the other side break the protocol. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

const parse = (bytes: Buffer): Frame => {
  const headBytes = bytes.readUInt32LE(9);
  if (headBytes > HEAD_BYTES_MAX || headBytes > bytes.length - LENGTH_BYTES - PREFIX_BYTES)
    throw new ProtocolError('a head is too large');
  const bodyAt = LENGTH_BYTES + PREFIX_BYTES + headBytes;
  return {
    id: bytes.readUInt32LE(4),
    kind: bytes.readUInt8(8),
    head: bytes.toString('utf8', LENGTH_BYTES + PREFIX_BYTES, bodyAt),
    body: bytes.subarray(bodyAt),
  };
};

/** A frame of more is large: it is read in several turns of the event loop. */
const SMALL_FRAME_BYTES = 65_536;

export type FrameReader = {
  /**
   * Takes what has arrived. Copies it into the frame: a list of chunks would take 100 bytes for each, and an executor may send
   * single bytes. @returns whether a part of it belongs to a large frame.
   */
  push(chunk: Uint8Array): boolean;
};

/** @param failed called with the first broken frame; nothing is read after it. */
export const createFrameReader = (received: (frame: Frame) => void, failed: (error: Error) => void): FrameReader => {
  /** The length of the next frame, then the whole frame. */
  let wanted = Buffer.alloc(LENGTH_BYTES);
  let filled = 0;
  let isBroken = false;

  const complete = (): void => {
    if (wanted.length > LENGTH_BYTES) {
      received(parse(wanted));
      wanted = Buffer.alloc(LENGTH_BYTES);
      filled = 0;
      return;
    }
    const length = wanted.readUInt32LE(0);
    if (length > FRAME_BYTES_MAX || length < PREFIX_BYTES) throw new ProtocolError('a frame has an invalid size');
    const frame = Buffer.allocUnsafe(LENGTH_BYTES + length);
    wanted.copy(frame);
    wanted = frame;
  };

  return {
    push: (chunk) => {
      let isLarge = false;
      try {
        for (let at = 0; at < chunk.length && !isBroken;) {
          const part = chunk.subarray(at, at + wanted.length - filled);
          wanted.set(part, filled);
          at += part.length;
          filled += part.length;
          isLarge ||= wanted.length > SMALL_FRAME_BYTES;
          if (filled === wanted.length) complete();
        }
      } catch (error) {
        isBroken = true;
        failed(error as Error);
      }
      return isLarge;
    },
  };
};

/** Length of the error message of code that its author may see: 4 KB. */
export const MESSAGE_CHARACTERS_MAX = 4096;

/** Console output of a run, in characters, over all its lines; then it is clipped. */
export const LOG_CHARACTERS_MAX = 64 * 1024;
export const LOG_LINES_MAX = 1000;
