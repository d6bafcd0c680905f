// Batches work in lanes, one lane for each tenant. A lane runs one batch at a time; items that arrive meanwhile form the next.
// A statement costs several times as much as a row, so one full batch is cheaper than two half batches.

import { releaseInTicks, waitsForReleases } from './release.ts';

/** After this time the next batch of the lane starts beside a slow one, so that a hanging query does not block its tenant. */
const SLOW_BATCH_MS = 100;

export type Turns<T> = {
  /** Queues an item. Its batch starts at the end of this tick of the event loop at the earliest. */
  add(lane: unknown, item: T): void;
  /** Whether no item waits and no batch runs. */
  isIdle(): boolean;
  /** The first item of each batch under way and of each queue: none is older. */
  oldest(): Iterable<T>;
};

/**
 * @param batchesMax batches of all lanes that may run at once.
 * @param take removes the next batch, at least one item, from a lane's queue.
 * @param run does the work of a batch, and must not throw. Resolves with functions that resolve its items. They are called
 * after the next batch has started, so that the database works while responses are written.
 */
export const createTurns = <T>(
  batchesMax: number,
  take: (queue: T[]) => T[],
  run: (batch: T[]) => Promise<(() => void)[]>,
): Turns<T> => {
  const waiting = new Map<unknown, T[]>();
  /** The batch that the next one of its lane waits for. */
  const awaited = new Map<unknown, T[]>();
  const underWay = new Set<T[]>();
  let isScheduled = false;

  const flush = (): void => {
    for (const [lane, queue] of waiting) {
      if (underWay.size === batchesMax) return;
      if (awaited.has(lane) || waitsForReleases(lane, flush)) continue;
      const batch = take(queue);
      // Lanes take turns: this one goes to the end of the queue.
      waiting.delete(lane);
      if (queue.length > 0) waiting.set(lane, queue);
      void start(lane, batch);
    }
  };

  const free = (lane: unknown, batch: T[]): void => {
    if (awaited.get(lane) === batch) awaited.delete(lane);
    flush();
  };

  const start = async (lane: unknown, batch: T[]): Promise<void> => {
    underWay.add(batch);
    awaited.set(lane, batch);
    const slow = setTimeout(free, SLOW_BATCH_MS, lane, batch);
    const releases = await run(batch);
    clearTimeout(slow);
    underWay.delete(batch);
    free(lane, batch);
    releaseInTicks(lane, releases);
  };

  return {
    add(lane, item) {
      const queue = waiting.get(lane);
      if (queue) queue.push(item);
      else waiting.set(lane, [item]);
      if (isScheduled) return;
      isScheduled = true;
      setImmediate(() => {
        isScheduled = false;
        flush();
      });
    },
    isIdle: () => waiting.size === 0 && underWay.size === 0,
    oldest: () => [...underWay, ...waiting.values()].flatMap((items) => items.slice(0, 1)),
  };
};
