// Combines look-ups by key of one tenant that arrive while a statement runs into the next statement.
// The statement of a look-up is always sent after the look-up was requested.
import type { Accounts, Reservation } from '../base/accounts.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { findOperation } from '../base/event-loop.ts';
import { type Queued, releaseOf, withinBatch } from './release.ts';
import { createTurns } from './turns.ts';

/** Look-ups in one statement. Measured: more gained nothing. */
const BATCH_KEYS_MAX = 200;
/** Look-ups that may wait without a reservation. Beyond, each counts against the queue limit of its tenant. */
const FREE_KEYS = 1_000;

type Waiting<Row> = Queued & {
  tenantId: string;
  key: string;
  reservation: Reservation | undefined;
  done: (row: Row | undefined) => void;
  failed: (error: unknown) => void;
};

/**
 * @param find finds the rows of several keys of one tenant, by key. Must reject, not throw synchronously.
 * @param batchesMax statements in flight at once.
 * @returns a function that looks up one key. @throws what `find` throws; as `reserve` of accounts when too many wait.
 */
export const createCoalescer = <Row>(
  find: (tenantId: string, keys: string[]) => Promise<Map<string, Row>>,
  batchesMax: number,
  accounts: Pick<Accounts, 'reserve'>,
  metrics: Metrics,
): ((tenantId: string, key: string) => Promise<Row | undefined>) => {
  let count = 0;

  const take = (queue: Waiting<Row>[]): Waiting<Row>[] => {
    const batch = queue.splice(0, BATCH_KEYS_MAX);
    count -= batch.length;
    for (const { reservation } of batch) reservation?.release();
    return batch;
  };

  const run = async (batch: Waiting<Row>[]): Promise<(() => void)[]> => {
    const [{ tenantId }] = batch as [Waiting<Row>];
    try {
      const found = await find(tenantId, [...new Set(batch.map(({ key }) => key))]);
      return batch.map((each) => releaseOf(each, () => each.done(found.get(each.key))));
    } catch (error) {
      return batch.map((each) => releaseOf(each, () => each.failed(error)));
    }
  };

  const turns = createTurns<Waiting<Row>>(batchesMax, take, (batch) => withinBatch(batch, () => run(batch)));
  metrics.read('strongroom_queue_length', () => [[{ queue: 'lookups' }, count]]);

  return (tenantId, key) =>
    new Promise((done, failed) => {
      const reservation = count < FREE_KEYS ? undefined : accounts.reserve(tenantId, 'queued_lookups', 1);
      count += 1;
      turns.add(tenantId, { operation: findOperation(), tenantId, key, reservation, done, failed });
    });
};
