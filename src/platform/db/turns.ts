// Queues per tenant with one batch of a tenant under way at a time: items that arrive meanwhile go together in the next batch.
// A statement costs several times what a row costs, so two half batches side by side are more work than one whole batch.

/** A slower batch lets the next one of its lane go beside it: a query that hangs must not hold up its tenant. */
const SLOW_BATCH_MS = 100;

export type Turns<T> = {
  /** Queues an item. It goes with what else waits in its lane when this tick of the event loop ends, or later. */
  add(lane: unknown, item: T): void;
  /** Whether nothing waits and nothing is under way. */
  isIdle(): boolean;
  /** The first item of each batch under way and of each queue: none is older. */
  oldest(): Iterable<T>;
};

/**
 * @param batchesMax batches under way at once, of all lanes.
 * @param take removes the next batch, at least one item, from a lane's queue.
 * @param run does the work of a batch. Resolves with a function that answers its items, which is called after the next batch
 * has started: the database works while answers are written. Does not throw.
 */
export const createTurns = <T>(
  batchesMax: number,
  take: (queue: T[]) => T[],
  run: (batch: T[]) => Promise<() => void>,
): Turns<T> => {
  const waiting = new Map<unknown, T[]>();
  /** The batch that the next one of its lane waits for. */
  const awaited = new Map<unknown, T[]>();
  const underWay = new Set<T[]>();
  let isScheduled = false;

  const flush = (): void => {
    for (const [lane, queue] of waiting) {
      if (underWay.size === batchesMax) return;
      if (awaited.has(lane)) continue;
      const batch = take(queue);
      // Lanes take turns: to the end of the line, however much waits in this one.
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
    const answer = await run(batch);
    clearTimeout(slow);
    underWay.delete(batch);
    free(lane, batch);
    answer();
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
