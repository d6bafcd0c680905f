// The body of a request piece by piece, for routes that do not have it parsed.
import type { IncomingMessage } from 'node:http';
import { createPieceQueue } from '../piece-queue.ts';

const brokenOff = (): Error => new Error('the request broke off');

/** What nobody reads of a body is let through, or the connection's next request would wait behind it. */
export const letThrough = (raw: IncomingMessage): void => {
  // That all of it has come does not say that anybody read it.
  if (!raw.readableEnded) raw.removeAllListeners('data').resume();
};

/**
 * As they come, to one reader: whoever reads slowly makes the caller wait. Whoever ends the reading lets the rest through, and
 * whoever only stops leaves that to its route: a request that is destroyed leaves its connection stuck. Breaks off with the request.
 */
export const piecesOf = (raw: IncomingMessage): AsyncIterable<Uint8Array> => ({
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
        letThrough(raw);
        return { done: true, value: undefined };
      },
    };
  },
});
