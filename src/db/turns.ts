// Lanes in turn: what waits in a lane goes together, one batch of a lane at a time. What a statement costs beside its rows is
// several times a row's own cost: two half batches side by side are more work than the whole one after the one before.

export type Turns<T> = {
  /** Puts an item in line. It goes with what else waits in its lane when this round of the event loop ends, or later. */
  add(lane: unknown, item: T): void;
  /** Whether nothing waits and nothing is under way. */
  isIdle(): boolean;
};

/**
 * @param batchesMax batches under way at once, each of another lane.
 * @param take removes the next batch from a lane's queue, one item at least.
 * @param run does the work of a batch; calls `leave` once when the next one of its lane may go. Does not throw.
 */
export const createTurns = <T>(
  batchesMax: number,
  take: (queue: T[]) => T[],
  run: (batch: T[], leave: () => void) => void,
): Turns<T> => {
  const waiting = new Map<unknown, T[]>();
  const underWay = new Set<unknown>();
  let isScheduled = false;

  /** Looks past as many lanes as are under way, at most. */
  const nextLane = (): [unknown, T[]] | undefined => {
    for (const entry of waiting) if (!underWay.has(entry[0])) return entry;
    return undefined;
  };

  const flush = (): void => {
    while (underWay.size < batchesMax) {
      const next = nextLane();
      if (!next) return;
      const [lane, queue] = next;
      const batch = take(queue);
      // To the back of the line: lanes take turns, however much one of them has waiting.
      waiting.delete(lane);
      if (queue.length > 0) waiting.set(lane, queue);
      underWay.add(lane);
      run(batch, () => {
        underWay.delete(lane);
        flush();
      });
    }
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
    isIdle: () => waiting.size === 0 && underWay.size === 0,
  };
};
