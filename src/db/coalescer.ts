// Look-ups of one tenant that arrive while others are under way go together in the next statement: the reading twin of
// batcher.ts. Whoever asks is answered by a statement that was sent after it asked.
import { unavailable } from '../errors.ts';
import { createTurns } from './turns.ts';

/** Look-ups in one statement; database.md section 4 measured no gain beyond. */
const BATCH_KEYS_MAX = 200;
/** Bound of what waits in memory, per process. Full: 503 with Retry-After. */
const WAITING_MAX = 50_000;

/** What a statement found, by key; keys without a row are left out. */
export type Found<Row> = {
  rows: Map<string, Row>;
  /** Of a statement that writes too: resolves when it has committed, rejects where it could not. */
  committed?: Promise<unknown>;
};

/** One row of it, or none. Where the statement writes too, nothing of the row may be shown before `committed` resolves. */
export type FoundOne<Row> = { row: Row | undefined; committed: Promise<unknown> | undefined };

type Waiting<Ask, Row> = {
  tenantId: string;
  asked: Ask;
  done: (found: FoundOne<Row>) => void;
  failed: (error: unknown) => void;
};

/**
 * @param find answers for several questions of one tenant. Rejects, and does not throw at once.
 * @param keyOf the key that a question is answered under.
 * @param batchesMax statements under way at once.
 */
export const createCoalescer = <Ask, Row>(
  find: (tenantId: string, asked: Ask[]) => Promise<Found<Row>>,
  keyOf: (asked: Ask) => string,
  batchesMax: number,
): ((tenantId: string, asked: Ask) => Promise<FoundOne<Row>>) => {
  let count = 0;

  const take = (queue: Waiting<Ask, Row>[], most: number): Waiting<Ask, Row>[] => {
    const batch = queue.splice(0, Math.min(BATCH_KEYS_MAX, most));
    count -= batch.length;
    return batch;
  };

  const ask = async (batch: Waiting<Ask, Row>[], leave: () => void): Promise<void> => {
    const [{ tenantId }] = batch as [Waiting<Ask, Row>];
    const answer = ({ rows, committed }: Found<Row>): void => {
      for (const { asked, done } of batch) done({ row: rows.get(keyOf(asked)), committed });
    };
    let found: Found<Row>;
    try {
      found = await find(
        tenantId,
        batch.map(({ asked }) => asked),
      );
      if (found.committed) {
        answer(found);
        await found.committed;
      }
    } catch (error) {
      leave();
      for (const { failed } of batch) failed(error);
      return;
    }
    // The next statement is made up before the answers of this one are written.
    leave();
    if (!found.committed) answer(found);
  };

  const turns = createTurns<Waiting<Ask, Row>>(
    BATCH_KEYS_MAX,
    batchesMax,
    take,
    (batch, leave) => void ask(batch, leave),
  );

  return (tenantId, asked) => {
    if (count >= WAITING_MAX) return Promise.reject(unavailable());
    return new Promise((done, failed) => {
      count += 1;
      turns.add(tenantId, { tenantId, asked, done, failed });
    });
  };
};
