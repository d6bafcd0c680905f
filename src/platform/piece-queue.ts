// A bounded queue of body pieces between a sender and one reader: pauses the sender while too much waits.
// Counts what a piece takes beside its bytes, which Node's streams do not: 64 KB that come byte by byte take 22 MB there
// (Node 24), on each of a tenant's 128 connections. Pieces that came before a fault are read before it.

/** Bytes that may wait. From there on the sender is paused. */
const HELD_BYTES_MAX = 65_536;

/** About what a piece takes beside its bytes. */
const PIECE_BYTES = 256;

export type PieceQueue = {
  push(piece: Uint8Array): void;
  /** No more will come. */
  end(): void;
  /** Nor will the end: what came before is read before this is thrown. */
  fail(error: unknown): void;
  /** For one reader, one at a time. @throws what it failed with. */
  next(): Promise<IteratorResult<Uint8Array, undefined>>;
  /** All that has not been read, where the end has come: reading is over. Else undefined, and nothing is taken. */
  takeAll(): Uint8Array[] | undefined;
  /** Lets go of what nobody will read; the sender is told nothing. */
  clear(): void;
};

/** @param sender is told to pause once too much waits, and to resume when it has been read. */
export const createPieceQueue = (sender: { pause(): void; resume(): void }): PieceQueue => {
  let pieces: Uint8Array[] = [];
  let heldBytes = 0;
  let isPaused = false;
  let isComplete = false;
  let fault: { error: unknown } | undefined;
  let wakeReader = (): void => {};

  const clear = (): void => {
    pieces = [];
    heldBytes = 0;
    isPaused = false;
  };

  return {
    push: (piece) => {
      pieces.push(piece);
      heldBytes += piece.byteLength + PIECE_BYTES;
      if (heldBytes >= HELD_BYTES_MAX && !isPaused) {
        isPaused = true;
        sender.pause();
      }
      wakeReader();
    },
    end: () => {
      isComplete = true;
      wakeReader();
    },
    fail: (error) => {
      fault ??= { error };
      wakeReader();
    },
    next: async () => {
      while (pieces.length === 0 && fault === undefined && !isComplete) {
        await new Promise<void>((resolve) => {
          wakeReader = resolve;
        });
      }
      const piece = pieces.shift();
      if (piece !== undefined) {
        heldBytes -= piece.byteLength + PIECE_BYTES;
        if (isPaused && heldBytes < HELD_BYTES_MAX) {
          isPaused = false;
          sender.resume();
        }
        return { done: false, value: piece };
      }
      if (fault !== undefined) throw fault.error;
      return { done: true, value: undefined };
    },
    takeAll: () => {
      if (!isComplete || fault !== undefined) return undefined;
      const all = pieces;
      clear();
      return all;
    },
    clear,
  };
};
