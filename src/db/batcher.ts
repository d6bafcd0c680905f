// Group commit in the application: requests of one tenant that arrive while a batch is being written go together in the
// next one. A request's rows stay together and its caller is answered after its batch has committed.
import { AppError, unavailable } from '../errors.ts';

/** Rows and bytes merged into one batch; beyond it a statement's latency grows faster than its throughput (measured). */
const BATCH_ROWS_MAX = 200;
const BATCH_BYTES_MAX = 1024 * 1024;
/** A request this large gains nothing from company: it goes as a batch of its own. */
const REQUEST_ROWS_ALONE = 50;
/** Large requests under way at once; the pool's other connections stay free for reads and small batches. */
const LARGE_IN_FLIGHT_MAX = 4;
/** Bound of what waits in memory, per process. Full: 503 with Retry-After. */
const QUEUE_ROWS_MAX = 50_000;
const QUEUE_BYTES_MAX = 64 * 1024 * 1024;

type Waiting = {
  tenantId: string;
  rows: string[];
  bytes: number;
  done: () => void;
  failed: (error: unknown) => void;
};

export type Batcher = {
  /** Writes one request's rows, each a JSON object's text, all or nothing. Resolves after commit. @throws what `run` throws; unavailable when the queue is full. */
  submit(tenantId: string, rows: string[]): Promise<void>;
  /** Resolves when nothing waits and nothing is under way. */
  drain(): Promise<void>;
};

/**
 * @param run writes a JSON array of rows of one tenant in one statement, all or nothing. Rejects, and does not throw at once.
 * @param batchesMax small batches under way at once (database.md section 4: 1 to 2 for tens of callers, 4 to 8 for hundreds).
 */
export const createBatcher = (
  run: (tenantId: string, rowsJson: string) => Promise<void>,
  batchesMax: number,
): Batcher => {
  /** Tenants in turn, each with its requests in order. */
  const small = new Map<string, Waiting[]>();
  const large: Waiting[] = [];
  let smallInFlight = 0;
  let largeInFlight = 0;
  let queuedRows = 0;
  let queuedBytes = 0;
  let scheduled = false;
  let drained: (() => void)[] = [];

  /** @param leave called when the batch is under way no more. The next one is sent before this one's answers are written. */
  const write = async (tenantId: string, batch: Waiting[], leave = (): void => {}): Promise<void> => {
    try {
      await run(tenantId, `[${batch.map((request) => request.rows.join(',')).join(',')}]`);
    } catch (error) {
      const isPassing = error instanceof AppError && error.code === 'unavailable';
      const isOneBad = batch.length > 1 && !isPassing;
      // One request's bad row is no other's failure: again, request by request (database.md section 4).
      if (isOneBad) for (const request of batch) await write(tenantId, [request]);
      leave();
      if (!isOneBad) for (const request of batch) request.failed(error);
      return;
    }
    leave();
    for (const request of batch) request.done();
  };

  const finish = (): void => {
    if (queuedRows > 0 || smallInFlight > 0 || largeInFlight > 0) return;
    for (const resolve of drained) resolve();
    drained = [];
  };

  const take = (requests: Waiting[]): Waiting[] => {
    let rows = 0;
    let bytes = 0;
    let count = 0;
    for (const request of requests) {
      if (count > 0 && (rows + request.rows.length > BATCH_ROWS_MAX || bytes + request.bytes > BATCH_BYTES_MAX)) break;
      rows += request.rows.length;
      bytes += request.bytes;
      count += 1;
    }
    queuedRows -= rows;
    queuedBytes -= bytes;
    return requests.splice(0, count);
  };

  const flush = (): void => {
    while (large.length > 0 && largeInFlight < LARGE_IN_FLIGHT_MAX) {
      const batch = take([large.shift() as Waiting]);
      largeInFlight += 1;
      void write((batch[0] as Waiting).tenantId, batch, () => {
        largeInFlight -= 1;
        flush();
      }).then(finish);
    }
    while (small.size > 0 && smallInFlight < batchesMax) {
      const [tenantId, requests] = small.entries().next().value as [string, Waiting[]];
      const batch = take(requests);
      // To the back of the line: tenants take turns, however much one of them has waiting.
      small.delete(tenantId);
      if (requests.length > 0) small.set(tenantId, requests);
      smallInFlight += 1;
      void write(tenantId, batch, () => {
        smallInFlight -= 1;
        flush();
      }).then(finish);
    }
  };

  const schedule = (): void => {
    if (scheduled || (small.size === 0 && large.length === 0)) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      flush();
    });
  };

  return {
    submit(tenantId, rows) {
      let bytes = 0;
      for (const row of rows) bytes += row.length;
      if (queuedRows > 0 && (queuedRows + rows.length > QUEUE_ROWS_MAX || queuedBytes + bytes > QUEUE_BYTES_MAX))
        return Promise.reject(unavailable());
      return new Promise<void>((done, failed) => {
        const request = { tenantId, rows, bytes, done, failed };
        queuedRows += rows.length;
        queuedBytes += bytes;
        if (rows.length >= REQUEST_ROWS_ALONE) large.push(request);
        else {
          const requests = small.get(tenantId);
          if (requests) requests.push(request);
          else small.set(tenantId, [request]);
        }
        schedule();
      });
    },
    drain() {
      if (queuedRows === 0 && smallInFlight === 0 && largeInFlight === 0) return Promise.resolve();
      return new Promise<void>((resolve) => drained.push(resolve));
    },
  };
};
