// Group commit in the application: requests of one tenant that arrive while a batch is being written go together in the
// next one. A request's rows stay together and its caller is answered after its batch has committed.
import { AppError, unavailable } from '../errors.ts';
import { createTurns } from './turns.ts';

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

type Waiting<Result> = {
  tenantId: string;
  rows: string[];
  bytes: number;
  done: (results: Result[]) => void;
  failed: (error: unknown) => void;
};

export type Batcher<Result> = {
  /**
   * Writes one request's rows, each a JSON object's text, all or nothing. Resolves after commit with what `run` gave for each.
   * @throws what `run` throws; unavailable when the queue is full.
   */
  submit(tenantId: string, rows: string[]): Promise<Result[]>;
  /** Resolves when nothing waits and nothing is under way. */
  drain(): Promise<void>;
};

/**
 * @param run writes a JSON array of rows of one tenant in one statement, all or nothing. Rejects, and does not throw at once.
 * Gives a result for each row, by its place; none where rows have no results.
 * @param batchesMax small batches under way at once.
 */
export const createBatcher = <Result>(
  run: (tenantId: string, rowsJson: string) => Promise<Result[] | void>,
  batchesMax: number,
): Batcher<Result> => {
  let queuedRows = 0;
  let queuedBytes = 0;
  let drained: (() => void)[] = [];

  const take = (requests: Waiting<Result>[], most: number): Waiting<Result>[] => {
    let rows = 0;
    let bytes = 0;
    let count = 0;
    for (const request of requests) {
      if (count === most) break;
      if (count > 0 && (rows + request.rows.length > BATCH_ROWS_MAX || bytes + request.bytes > BATCH_BYTES_MAX)) break;
      rows += request.rows.length;
      bytes += request.bytes;
      count += 1;
    }
    queuedRows -= rows;
    queuedBytes -= bytes;
    return requests.splice(0, count);
  };

  /**
   * @param leave called when the batch is under way no more. The next one is made up before this one's answers are written,
   * and goes out behind them: pg's pool takes a tick.
   */
  const write = async (batch: Waiting<Result>[], leave = (): void => {}): Promise<void> => {
    const [{ tenantId }] = batch as [Waiting<Result>];
    let results: Result[] | void;
    try {
      results = await run(tenantId, `[${batch.map((request) => request.rows.join(',')).join(',')}]`);
    } catch (error) {
      const isPassing = error instanceof AppError && error.code === 'unavailable';
      const isOneBad = batch.length > 1 && !isPassing;
      // One request's bad row is no other's failure: again, request by request (database.md section 4).
      if (isOneBad) for (const request of batch) await write([request]);
      leave();
      if (!isOneBad) for (const request of batch) request.failed(error);
      return;
    }
    leave();
    let place = 0;
    for (const request of batch) request.done((results ?? []).slice(place, (place += request.rows.length)));
  };

  const isIdle = (): boolean => small.isIdle() && large.isIdle();
  const writeAndFinish = (batch: Waiting<Result>[], leave: () => void): void => {
    void write(batch, leave).then(() => {
      if (!isIdle()) return;
      for (const resolve of drained) resolve();
      drained = [];
    });
  };
  const small = createTurns<Waiting<Result>>(BATCH_ROWS_MAX, batchesMax, take, writeAndFinish);
  /** Each with a lane to itself. */
  const large = createTurns<Waiting<Result>>(1, LARGE_IN_FLIGHT_MAX, take, writeAndFinish);

  return {
    submit(tenantId, rows) {
      let bytes = 0;
      for (const row of rows) bytes += row.length;
      if (queuedRows > 0 && (queuedRows + rows.length > QUEUE_ROWS_MAX || queuedBytes + bytes > QUEUE_BYTES_MAX))
        return Promise.reject(unavailable());
      return new Promise<Result[]>((done, failed) => {
        const request = { tenantId, rows, bytes, done, failed };
        queuedRows += rows.length;
        queuedBytes += bytes;
        if (rows.length >= REQUEST_ROWS_ALONE) large.add(request, request);
        else small.add(tenantId, request);
      });
    },
    drain() {
      if (isIdle()) return Promise.resolve();
      return new Promise<void>((resolve) => drained.push(resolve));
    },
  };
};
