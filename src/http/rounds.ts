// Requests in rounds: those that one round of the event loop brings go on together, each step of theirs one after the other,
// where each would otherwise be taken from its socket to its seal by itself. The code and the tables of a step are then still
// in the processor's caches when the next request needs them: under load a token takes a quarter less of the server's time
// (measured, docs/decisions/0006-write-path.md).
import type { App } from './app-type.ts';

/** A hook that holds every request until the sockets of this round have been read. Alone, a request waits for nothing. */
export const goInRounds = (app: App): void => {
  let round: Promise<void> | undefined;
  app.addHook('onRequest', () => {
    round ??= new Promise((resolve) => {
      setImmediate(() => {
        round = undefined;
        resolve();
      });
    });
    return round;
  });
};
