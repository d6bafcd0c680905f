// Defers requests to the next `setImmediate`, so that requests of one tick run stage by stage: the code and the tables of a
// stage are then still in the processor's caches. Under load a token takes a quarter less of the server's time (measured,
// docs/decisions/0006-write-path.md).
import type { App } from './app-type.ts';

/** Adds a hook that holds each request until the other sockets of this tick are read. A single request waits for nothing else. */
export const deferRequests = (app: App): void => {
  let nextTick: Promise<void> | undefined;
  app.addHook('onRequest', () => {
    nextTick ??= new Promise((resolve) => {
      setImmediate(() => {
        nextTick = undefined;
        resolve();
      });
    });
    return nextTick;
  });
};
