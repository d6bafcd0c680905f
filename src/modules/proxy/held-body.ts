// Takes the beginning of a body before it goes on, and gives it back in one stream with the rest.
import { FREE_BYTES } from '../../platform/base/accounts.ts';
import type { AnswerWithin } from './request.ts';

export async function* piecesOf(body: AnswerWithin['body']): AsyncGenerator<Uint8Array> {
  if (body instanceof Uint8Array) yield body;
  else if (body) yield* body;
}

/** `isWhole`: the body ended within the limit. */
export type HeldBody = { pieces: Uint8Array[]; isWhole: boolean };

/**
 * Takes what comes, until it is more than `most` bytes.
 * @param reserve called once, before more than what is free is held. @throws what it throws, and what the stream throws.
 */
export const takeUpTo = async (
  stream: AsyncGenerator<Uint8Array>,
  most: number,
  reserve: () => void | Promise<void>,
): Promise<HeldBody> => {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  let isReserved = false;
  for (;;) {
    const next = await stream.next();
    if (next.done) return { pieces, isWhole: true };
    pieces.push(next.value);
    bytes += next.value.byteLength;
    if (bytes > most) return { pieces, isWhole: false };
    if (bytes <= FREE_BYTES || isReserved) continue;
    isReserved = true;
    await reserve();
  }
};

/** A body in one stream: pieces that were taken, and the rest. */
export const joined = (pieces: readonly Uint8Array[], stream: AsyncGenerator<Uint8Array>) => {
  async function* all(): AsyncGenerator<Uint8Array> {
    yield* pieces;
    yield* stream;
  }
  const body = all();
  return {
    [Symbol.asyncIterator]: () => body,
    takeAll: () => undefined,
    destroy: () => void stream.return(undefined).catch(() => undefined),
  };
};
