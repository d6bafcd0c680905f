// Releases the requests of finished batches for at most a millisecond per tick of the event loop. Otherwise up to 200 requests
// of one batch go on in one tick: what each of them does adds up, and every other tenant waits for the sum.

import { mark, type Operation, within } from '../base/event-loop.ts';

const RELEASE_MS = 1;

/** What is left of each batch, in reverse order. Batches take turns, so that a large one does not hold up a small one. */
const batches: (() => void)[][] = [];
let isRunning = false;
let beganMs = 0;

const releaseNext = (): void => {
  const batch = batches.shift();
  if (!batch) {
    isRunning = false;
    return;
  }
  const release = batch.pop();
  if (batch.length > 0) batches.push(batch);
  release?.();
  // Goes on after all microtasks that the release started, so that their work is measured too.
  queueMicrotask(() => process.nextTick(goOn));
};

const beginTick = (): void => {
  beganMs = performance.now();
  releaseNext();
};

const goOn = (): void => {
  if (performance.now() - beganMs < RELEASE_MS) releaseNext();
  else setImmediate(beginTick);
};

/** @param releases one for each request of the batch. The first is called at once, unless other batches are being released. */
export const releaseInTicks = (releases: readonly (() => void)[]): void => {
  if (releases.length === 0) return;
  batches.push(releases.toReversed());
  if (isRunning) return;
  isRunning = true;
  beginTick();
};

/** What waits for a batch, and the request that it is of. */
export type Queued = { readonly operation: Operation | undefined };

/** A batch is one tenant's, so any of its requests has the account that pays. */
export const withinBatch = <T>([first]: readonly Queued[], work: () => T): T => within(first?.operation, work);

/** Goes on with a request: it pays for what follows. */
export const releaseOf =
  ({ operation }: Queued, release: () => void): (() => void) =>
  () => {
    mark(operation);
    release();
  };
