// Reads the body of a request in chunks, for routes whose bodies are not parsed.
import type { IncomingMessage } from 'node:http';
import { createPieceQueue } from '../base/piece-queue.ts';

const brokenOff = (): Error => new Error('the request broke off');

/** Discards the unread rest of a body. Otherwise the next request of the connection would wait for it. */
export const discardBody = (raw: IncomingMessage): void => {
  // `complete` would only say that all of it was received.
  if (!raw.readableEnded) raw.removeAllListeners('data').resume();
};

/**
 * The chunks, for one reader. A slow reader slows the client down. `return` discards the rest; a reader that only stops leaves
 * that to its route. The request is never destroyed, which would block its connection. Fails where the client disconnects.
 */
export const chunksOf = (raw: IncomingMessage): AsyncIterable<Uint8Array> => ({
  [Symbol.asyncIterator]: () => {
    const { push, end, fail, next, clear } = createPieceQueue({ pause: () => raw.pause(), resume: () => raw.resume() });
    if (raw.destroyed) fail(brokenOff());
    raw.on('data', push);
    raw.on('end', end);
    raw.on('error', fail);
    raw.on('close', () => raw.readableEnded || fail(brokenOff()));
    return {
      next,
      return: async () => {
        clear();
        discardBody(raw);
        return { done: true, value: undefined };
      },
    };
  },
});
