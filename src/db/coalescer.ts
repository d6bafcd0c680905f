// Merges look-ups of one tenant that arrive while others are in flight into one statement: the reading counterpart of
// batcher.ts. A look-up is answered by a statement that was sent after it was asked for.
import { unavailable } from '../errors.ts';
import { createTurns } from './turns.ts';

/** Look-ups in one statement: more gained nothing (measured). */
const BATCH_KEYS_MAX = 200;
/** Bound of what waits in memory, per process. Full: 503 with Retry-After. */
const WAITING_MAX = 50_000;

type Waiting<Row> = {
  tenantId: string;
  key: string;
  done: (row: Row | undefined) => void;
  failed: (error: unknown) => void;
};

/**
 * @param find finds the rows of several keys of one tenant, by key. Rejects, and does not throw at once.
 * @param batchesMax statements in flight at once.
 * @returns looks one key up. @throws what `find` throws; unavailable when too many wait.
 */
export const createCoalescer = <Row>(
  find: (tenantId: string, keys: string[]) => Promise<Map<string, Row>>,
  batchesMax: number,
): ((tenantId: string, key: string) => Promise<Row | undefined>) => {
  let count = 0;

  const take = (queue: Waiting<Row>[], most: number): Waiting<Row>[] => {
    const batch = queue.splice(0, Math.min(BATCH_KEYS_MAX, most));
    count -= batch.length;
    return batch;
  };

  const run = async (batch: Waiting<Row>[], leave: () => void): Promise<void> => {
    const [{ tenantId }] = batch as [Waiting<Row>];
    let found: Map<string, Row>;
    try {
      found = await find(tenantId, [...new Set(batch.map(({ key }) => key))]);
    } catch (error) {
      leave();
      for (const { failed } of batch) failed(error);
      return;
    }
    // The next statement is put together before the answers of this one are written.
    leave();
    for (const { key, done } of batch) done(found.get(key));
  };

  const turns = createTurns<Waiting<Row>>(BATCH_KEYS_MAX, batchesMax, take, (batch, leave) => void run(batch, leave));

  return (tenantId, key) => {
    if (count >= WAITING_MAX) return Promise.reject(unavailable());
    return new Promise((done, failed) => {
      count += 1;
      turns.add(tenantId, { tenantId, key, done, failed });
    });
  };
};
