// Look-ups of one tenant that arrive while others are under way go together in the next statement: the reading twin of
// batcher.ts. Whoever asks is answered by a statement that was sent after it asked.
import { unavailable } from '../errors.ts';

/** Look-ups in one statement; database.md section 4 measured no gain beyond. */
const BATCH_KEYS_MAX = 200;
/** Bound of what waits in memory, per process. Full: 503 with Retry-After. */
const WAITING_MAX = 50_000;

type Waiting<Ask, Row> = { asked: Ask; done: (row: Row | undefined) => void; failed: (error: unknown) => void };

/**
 * @param find answers for several questions of one tenant, by key; keys without a row are left out. Rejects, and does not
 * throw at once.
 * @param keyOf the key that a question is answered under.
 * @param batchesMax statements under way at once.
 */
export const createCoalescer = <Ask, Row>(
  find: (tenantId: string, asked: Ask[]) => Promise<Map<string, Row>>,
  keyOf: (asked: Ask) => string,
  batchesMax: number,
): ((tenantId: string, asked: Ask) => Promise<Row | undefined>) => {
  /** Tenants in turn, each with its look-ups in order. */
  const waiting = new Map<string, Waiting<Ask, Row>[]>();
  let count = 0;
  let inFlight = 0;
  let isScheduled = false;

  const ask = async (tenantId: string, batch: Waiting<Ask, Row>[]): Promise<void> => {
    let answers: (Row | undefined)[];
    try {
      const rows = await find(
        tenantId,
        batch.map(({ asked }) => asked),
      );
      answers = batch.map(({ asked }) => rows.get(keyOf(asked)));
    } catch (error) {
      leave();
      for (const { failed } of batch) failed(error);
      return;
    }
    leave();
    for (const [index, { done }] of batch.entries()) done(answers[index]);
  };

  /** The next statement is sent before the answers of this one are written. */
  const leave = (): void => {
    inFlight -= 1;
    flush();
  };

  const flush = (): void => {
    while (waiting.size > 0 && inFlight < batchesMax) {
      const [tenantId, queue] = waiting.entries().next().value as [string, Waiting<Ask, Row>[]];
      const batch = queue.splice(0, BATCH_KEYS_MAX);
      count -= batch.length;
      // To the back of the line: tenants take turns.
      waiting.delete(tenantId);
      if (queue.length > 0) waiting.set(tenantId, queue);
      inFlight += 1;
      void ask(tenantId, batch);
    }
  };

  const schedule = (): void => {
    if (isScheduled || waiting.size === 0) return;
    isScheduled = true;
    setImmediate(() => {
      isScheduled = false;
      flush();
    });
  };

  return (tenantId, asked) => {
    if (count >= WAITING_MAX) return Promise.reject(unavailable());
    return new Promise((done, failed) => {
      const queue = waiting.get(tenantId);
      const one = { asked, done, failed };
      if (queue) queue.push(one);
      else waiting.set(tenantId, [one]);
      count += 1;
      schedule();
    });
  };
};
