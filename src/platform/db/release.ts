// Releases the requests of finished batches for at most a millisecond per tick of the event loop. Otherwise up to 200 requests
// of one batch go on in one tick: what each of them does adds up, and every other tenant waits for the sum.
// The next batch of a lane waits meanwhile: what its released requests ask for next then needs one statement, not one for each tick.

import { mark, type Operation, within } from '../base/event-loop.ts';

const RELEASE_MS = 1;

/** The next batch waits no longer for requests that work long after their release. */
const HELD_MS_MAX = 50;

/** What is left of a batch, in reverse order. */
type Batch = { lane: unknown; releases: (() => void)[] };

/** Batches take turns, so that a large one does not hold up a small one. */
const batches: Batch[] = [];
let isRunning = false;
let beganMs = 0;

/** A lane with batches that are being released, and the starts of what waits for them. */
type Held = { batches: number; untilMs: number; waiting: Set<() => void> };

const heldLanes = new Map<unknown, Held>();

/** Whether a lane waits until its requests are released. @param start called then, or after HELD_MS_MAX. */
export const waitsForReleases = (lane: unknown, start: () => void): boolean => {
  const held = heldLanes.get(lane);
  if (!held || performance.now() >= held.untilMs) return false;
  held.waiting.add(start);
  return true;
};

const startWaiting = ({ waiting }: Held): void => {
  // After the sockets were read: answers that were just sent may have brought further requests.
  for (const start of waiting) setImmediate(start);
  waiting.clear();
};

const hold = (lane: unknown): void => {
  const held = heldLanes.get(lane);
  if (held) held.batches += 1;
  else heldLanes.set(lane, { batches: 1, untilMs: performance.now() + HELD_MS_MAX, waiting: new Set() });
};

const unhold = (lane: unknown): void => {
  const held = heldLanes.get(lane) as Held;
  held.batches -= 1;
  if (held.batches > 0) return;
  heldLanes.delete(lane);
  startWaiting(held);
};

const releaseNext = (): void => {
  const batch = batches.shift();
  if (!batch) {
    isRunning = false;
    return;
  }
  batch.releases.pop()?.();
  // Goes on after all microtasks that the release started, so that their work is measured too.
  queueMicrotask(() => process.nextTick(goOn, batch));
};

const beginTick = (): void => {
  beganMs = performance.now();
  for (const held of heldLanes.values()) if (beganMs >= held.untilMs) startWaiting(held);
  releaseNext();
};

const goOn = (batch: Batch): void => {
  if (batch.releases.length > 0) batches.push(batch);
  else unhold(batch.lane);
  if (performance.now() - beganMs < RELEASE_MS) releaseNext();
  else setImmediate(beginTick);
};

/**
 * @param lane of the batch. @param releases one for each request of the batch. The first is called at once, unless other batches
 * are being released.
 */
export const releaseInTicks = (lane: unknown, releases: readonly (() => void)[]): void => {
  if (releases.length === 0) return;
  batches.push({ lane, releases: releases.toReversed() });
  hold(lane);
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
