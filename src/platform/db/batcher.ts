// Group commit: combines the rows of one tenant's requests that arrive during a write into the next statement.
// The rows of a request stay together, and its response waits for the commit of its batch.
import type { Accounts, Reservation } from '../base/accounts.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { findOperation } from '../base/event-loop.ts';
import { type Queued, releaseInTicks, releaseOf, withinBatch } from './release.ts';
import { createTurns } from './turns.ts';
import { AppError } from '../base/errors.ts';

// Combines look-ups by key of one tenant that arrive while a statement runs into the next statement.
// The statement of a look-up is always sent after the look-up was requested.

/** Look-ups in one statement. Measured: more gained nothing. */
const BATCH_KEYS_MAX = 200;
/** Look-ups that may wait without a reservation. Beyond, each counts against the queue limit of its tenant. */
const FREE_KEYS = 1_000;

type WaitingCall<Row> = Queued & {
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

  const take = (queue: WaitingCall<Row>[]): WaitingCall<Row>[] => {
    const batch = queue.splice(0, BATCH_KEYS_MAX);
    count -= batch.length;
    for (const { reservation } of batch) reservation?.release();
    return batch;
  };

  const run = async (batch: WaitingCall<Row>[]): Promise<(() => void)[]> => {
    const [{ tenantId }] = batch as [WaitingCall<Row>];
    try {
      const found = await find(tenantId, [...new Set(batch.map(({ key }) => key))]);
      return batch.map((each) => releaseOf(each, () => each.done(found.get(each.key))));
    } catch (error) {
      return batch.map((each) => releaseOf(each, () => each.failed(error)));
    }
  };

  const turns = createTurns<WaitingCall<Row>>(batchesMax, take, (batch) => withinBatch(batch, () => run(batch)));
  metrics.read('strongroom_queue_length', () => [[{ queue: 'lookups' }, count]]);

  return (tenantId, key) =>
    new Promise((done, failed) => {
      const reservation = count < FREE_KEYS ? undefined : accounts.reserve(tenantId, 'queued_lookups', 1);
      count += 1;
      turns.add(tenantId, { operation: findOperation(), tenantId, key, reservation, done, failed });
    });
};

/** Rows and bytes merged into one batch; beyond it a statement's latency grows faster than its throughput (measured). */
const BATCH_ROWS_MAX = 200;
const BATCH_BYTES_MAX = 1024 * 1024;
/** A request with so many rows gains nothing from batching: it gets a batch of its own. */
const REQUEST_ROWS_ALONE = 50;
/** Large requests written at once. The other connections of the pool stay free for reads and small batches. */
const LARGE_IN_FLIGHT_MAX = 4;
/** Rows that may wait without a reservation. Beyond, each request counts against the queue limit of its tenant. */
const FREE_ROWS = 1_000;
const FREE_QUEUE_BYTES = 1024 * 1024;

type Waiting<Result> = Queued & {
  tenantId: string;
  /** Its number of rows. `rows` is empty for a request that writes itself. */
  count: number;
  rows: string[];
  bytes: number;
  /** When it was submitted, by `performance.now()`. */
  sinceMs: number;
  reservations: Reservation[] | undefined;
  writeAlone: (() => Promise<void>) | undefined;
  done: (results: Result[]) => void;
  failed: (error: unknown) => void;
};

export type Batcher<Result> = {
  /**
   * Writes the rows of one request, each the text of a JSON object, all or nothing. Resolves after commit with a result for each.
   * @throws what `run` throws; as `reserve` of accounts when too much waits.
   */
  submit(tenantId: string, rows: string[]): Promise<Result[]>;
  /** The same for a request of so many rows and bytes that has statements of its own. `write` is called in its turn. */
  submitAlone(tenantId: string, size: { rows: number; bytes: number }, write: () => Promise<void>): Promise<void>;
  /** Resolves when no request waits and no batch is being written. */
  drain(): Promise<void>;
};

/**
 * @param run writes a JSON array of rows of one tenant in one statement, all or nothing. Returns the results in the order of
 * the rows, or none. Must reject, not throw synchronously.
 * @param batchesMax small batches written at once.
 * @param kind of the rows, in the metrics.
 */
export const createBatcher = <Result>(
  run: (tenantId: string, rowsJson: string) => Promise<Result[] | void>,
  batchesMax: number,
  accounts: Pick<Accounts, 'reserve'>,
  metrics: Metrics,
  kind: 'logs' | 'runs' | 'tokens' | 'unique_tokens',
): Batcher<Result> => {
  const labels = { kind };
  metrics.count('strongroom_write_batches_failed_total', labels, 0);
  let queuedRows = 0;
  let queuedBytes = 0;
  let drained: (() => void)[] = [];

  const reserve = (tenantId: string, rows: number, bytes: number): Reservation[] => {
    const ofRows = accounts.reserve(tenantId, 'queued_rows', rows);
    try {
      return [ofRows, accounts.reserve(tenantId, 'queued_bytes', bytes)];
    } catch (error) {
      ofRows.release();
      throw error;
    }
  };

  const take = (requests: Waiting<Result>[]): Waiting<Result>[] => {
    let rows = 0;
    let bytes = 0;
    let count = 0;
    for (const request of requests) {
      if (count > 0 && (rows + request.count > BATCH_ROWS_MAX || bytes + request.bytes > BATCH_BYTES_MAX)) break;
      rows += request.count;
      bytes += request.bytes;
      count += 1;
      for (const reservation of request.reservations ?? []) reservation.release();
    }
    queuedRows -= rows;
    queuedBytes -= bytes;
    return requests.splice(0, count);
  };

  /** @returns functions that resolve or reject the requests of the batch. */
  const write = async (batch: Waiting<Result>[]): Promise<(() => void)[]> => {
    const [{ tenantId, writeAlone }] = batch as [Waiting<Result>];
    const beganMs = performance.now();
    try {
      const results = await (writeAlone?.() ??
        run(tenantId, `[${batch.map((request) => request.rows.join(',')).join(',')}]`));
      let rows = 0;
      for (const request of batch) rows += request.count;
      metrics.observe('strongroom_write_batch_rows', labels, rows);
      metrics.observe('strongroom_write_batch_seconds', labels, (performance.now() - beganMs) / 1000);
      let place = 0;
      return batch.map((request) => {
        const own = (results ?? []).slice(place, (place += request.count));
        return releaseOf(request, () => request.done(own));
      });
    } catch (error) {
      metrics.count('strongroom_write_batches_failed_total', labels);
      const isPassing = error instanceof AppError && error.code === 'unavailable';
      if (batch.length === 1 || isPassing)
        return batch.map((request) => releaseOf(request, () => request.failed(error)));
      // An invalid row of one request must not fail the others: each request is written again on its own.
      for (const request of batch) releaseInTicks(request.tenantId, await write([request]));
      return [];
    }
  };

  const isIdle = (): boolean => small.isIdle() && large.isIdle();
  const endDrain = (): void => {
    if (!isIdle()) return;
    for (const resolve of drained) resolve();
    drained = [];
  };
  const writeInTurn = async (batch: Waiting<Result>[]): Promise<(() => void)[]> => [
    ...(await withinBatch(batch, () => write(batch))),
    endDrain,
  ];
  const small = createTurns<Waiting<Result>>(batchesMax, take, writeInTurn);
  /** Each large request is a lane of its own. */
  const large = createTurns<Waiting<Result>>(LARGE_IN_FLIGHT_MAX, take, writeInTurn);

  metrics.read('strongroom_queue_length', () => [[{ queue: 'rows' }, queuedRows]]);
  metrics.read('strongroom_oldest_unwritten_row_seconds', () => {
    const since = [...small.oldest(), ...large.oldest()].map(({ sinceMs }) => sinceMs);
    return [[labels, since.length === 0 ? 0 : (performance.now() - Math.min(...since)) / 1000]];
  });

  const add = (
    of: Pick<Waiting<Result>, 'tenantId' | 'count' | 'rows' | 'bytes' | 'writeAlone'>,
  ): Promise<Result[]> => {
    const { tenantId, count, bytes } = of;
    return new Promise<Result[]>((done, failed) => {
      const isLong = queuedRows >= FREE_ROWS || queuedBytes >= FREE_QUEUE_BYTES;
      const reservations = isLong ? reserve(tenantId, count, bytes) : undefined;
      const request = { ...of, operation: findOperation(), sinceMs: performance.now(), reservations, done, failed };
      queuedRows += count;
      queuedBytes += bytes;
      if (count >= REQUEST_ROWS_ALONE) large.add(request, request);
      else small.add(tenantId, request);
    });
  };

  return {
    submit(tenantId, rows) {
      let bytes = 0;
      for (const row of rows) bytes += row.length;
      return add({ tenantId, count: rows.length, rows, bytes, writeAlone: undefined });
    },
    async submitAlone(tenantId, { rows: count, bytes }, writeAlone) {
      await add({ tenantId, count, rows: [], bytes, writeAlone });
    },
    drain() {
      if (isIdle()) return Promise.resolve();
      return new Promise<void>((resolve) => drained.push(resolve));
    },
  };
};
