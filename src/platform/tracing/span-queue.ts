// Holds ended spans until they are exported in batches. Bounded: an endpoint that is slow or away costs spans, not requests.
import type { Log } from '../base/log.ts';
import type { Metrics } from '../metrics/metrics.ts';

/** About a kilobyte each. At a thousand requests a second the spans of one second. */
export const SPANS_WAITING_MAX = 8_192;
/** The size of a batch that the specification proposes. */
const BATCH_SPANS_MAX = 512;
/** Spans of a quiet server wait this long, so that they are seen soon. */
const DELAY_MS = 1_000;
/** A stop waits this long for the spans that are left. */
export const FLUSH_MS_MAX = 3_000;
/** One line about dropped spans in this time. */
const REPORT_MS = 60_000;

export type SpanQueue<Item> = {
  add(span: Item): void;
  /** Exports what waits, for FLUSH_MS_MAX at most. Later spans are dropped. */
  close(): Promise<void>;
};

/** @param send exports a batch; rejects if the endpoint did not take it. */
export const createSpanQueue = <Item>(
  send: (spans: Item[]) => Promise<void>,
  { log, metrics, monotonicMs }: { log: Log; metrics: Metrics; monotonicMs: () => number },
): SpanQueue<Item> => {
  const countExported = metrics.counter('strongroom_spans_total', { result: 'exported' });
  const countDropped = metrics.counter('strongroom_spans_total', { result: 'dropped' });
  let waiting: Item[] = [];
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<void> | undefined;
  let isClosed = false;
  let dropped = 0;
  let reportedMs = -REPORT_MS;

  const drop = (count: number, error?: unknown): void => {
    countDropped(count);
    dropped += count;
    if (monotonicMs() - reportedMs < REPORT_MS) return;
    reportedMs = monotonicMs();
    log.warn({ dropped, error }, 'spans were dropped: OTEL_EXPORTER_OTLP_ENDPOINT does not take them');
  };

  const sendAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, BATCH_SPANS_MAX);
      await send(batch).then(
        () => countExported(batch.length),
        (error: unknown) => drop(batch.length, error),
      );
    }
  };

  const start = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    sending ??= sendAll().finally(() => (sending = undefined));
    return sending;
  };

  return {
    add: (span) => {
      if (isClosed || waiting.length >= SPANS_WAITING_MAX) return drop(1);
      waiting.push(span);
      if (waiting.length >= BATCH_SPANS_MAX) void start();
      else if (!sending) timer ??= setTimeout(() => void start(), DELAY_MS).unref();
    },
    close: async () => {
      isClosed = true;
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const limit = setTimeout(resolve, FLUSH_MS_MAX);
      await Promise.race([start(), late]);
      clearTimeout(limit);
      if (waiting.length > 0) drop(waiting.length);
      waiting = [];
    },
  };
};
