// Lanes in turn: what waits in a lane goes together, and what comes while its batch is under way goes together in the next.
// What a statement costs beside its rows is several times a row's own cost: two half batches side by side are more work
// than the whole one after the one before. Callers who ask again when they are answered fall into two groups, one in the
// database and one on its way there; the groups are kept even, for a small one is done long before a large one is ready.

/** A batch that is under way for longer holds up its lane no more: a hundred commits of a near disk, several of a far one. */
const SLOW_BATCH_MS = 100;

export type Turns<T> = {
  /** Puts an item in line. It goes with what else waits in its lane when this round of the event loop ends, or later. */
  add(lane: unknown, item: T): void;
  /** Whether nothing waits and nothing is under way. */
  isIdle(): boolean;
};

/**
 * @param fullSize items that fill a batch, if nothing else of them does.
 * @param batchesMax batches under way at once. Those of one lane go side by side where one is full, or slow.
 * @param take removes the next batch from a lane's queue: one item at least, so many at most. What it leaves of these did
 * not fit.
 * @param run does the work of a batch; calls `leave` once when the next one of its lane may go. Does not throw.
 */
export const createTurns = <T>(
  fullSize: number,
  batchesMax: number,
  take: (queue: T[], most: number) => T[],
  run: (batch: T[], leave: () => void) => void,
): Turns<T> => {
  const waiting = new Map<unknown, T[]>();
  /** The batch that a lane waits for. */
  const awaited = new Map<unknown, T[]>();
  let underWay = 0;
  let isScheduled = false;

  const free = (lane: unknown, batch: T[]): void => {
    if (awaited.get(lane) === batch) awaited.delete(lane);
  };

  /** Looks past as many lanes as have a batch under way, at most. */
  const nextLane = (): [unknown, T[]] | undefined => {
    for (const entry of waiting) if (!awaited.has(entry[0])) return entry;
    return undefined;
  };

  /** @param ended the lane whose batch has just ended, and that batch's size. */
  const flush = (ended?: { lane: unknown; size: number }): void => {
    let before = ended;
    while (underWay < batchesMax) {
      const next = nextLane();
      if (!next) return;
      const [lane, queue] = next;
      // Half of what has come and of what may come back, so that both groups are of a size again. More than a batch holds
      // are no such groups.
      let most = Infinity;
      if (before && before.lane === lane) {
        if (queue.length < fullSize) most = Math.ceil((queue.length + before.size) / 2);
        before = undefined;
      }
      const batch = take(queue, most);
      // To the back of the line: lanes take turns, however much one of them has waiting.
      waiting.delete(lane);
      if (queue.length > 0) waiting.set(lane, queue);
      if (queue.length === 0 || batch.length === most) awaited.set(lane, batch);
      start(lane, batch);
    }
  };

  const start = (lane: unknown, batch: T[]): void => {
    const slow = setTimeout(() => {
      free(lane, batch);
      flush();
    }, SLOW_BATCH_MS);
    underWay += 1;
    run(batch, () => {
      clearTimeout(slow);
      underWay -= 1;
      free(lane, batch);
      flush({ lane, size: batch.length });
    });
  };

  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(() => {
      isScheduled = false;
      flush();
    });
  };

  return {
    add(lane, item) {
      const queue = waiting.get(lane);
      if (queue) queue.push(item);
      else waiting.set(lane, [item]);
      schedule();
    },
    isIdle: () => waiting.size === 0 && underWay === 0,
  };
};
