// Makes spans with OpenTelemetry and exports them by OTLP over HTTP. The only file that imports its packages; loaded only where
// traces are on. Registers nothing globally, and instruments nothing by itself.
import { AsyncLocalStorage } from 'node:async_hooks';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import {
  type Context,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { type ReadableSpan, type Sampler, SamplingDecision, TracerProvider } from '@opentelemetry/sdk-trace';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { TracingConfig } from '../config/tracing.ts';
import { newUuid } from '../crypto/ids.ts';
import { randomBytesFromKernel, randomIntBelow } from '../crypto/random.ts';
import { EgressFault } from '../base/egress-fault.ts';
import { AppError } from '../base/errors.ts';
import { coversHost } from '../base/host-names.ts';
import { version } from '../base/version.ts';
import { parseTraceparent, type RemoteParent, type Span, type Tracing } from './tracing.ts';

// Holds ended spans until they are exported in batches. Bounded: an endpoint that is slow or away costs spans, not requests.

/** About a kilobyte each. At a thousand requests a second the spans of one second. */
const SPANS_WAITING_MAX = 8_192;
/** The size of a batch that the specification proposes. */
const BATCH_SPANS_MAX = 512;
/** Spans of a quiet server wait this long, so that they are seen soon. */
const DELAY_MS = 1_000;
/** A stop waits this long for the spans that are left. */
const FLUSH_MS_MAX = 3_000;
/** One line about dropped spans in this time. */
const REPORT_MS = 60_000;

type SpanQueue<Item> = {
  add(span: Item): void;
  /** Exports what waits, for FLUSH_MS_MAX at most. Later spans are dropped. */
  close(): Promise<void>;
};

/** @param send exports a batch; rejects if the endpoint did not take it. */
const createSpanQueue = <Item>(
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

/** With its retries. A batch that takes longer is dropped. */
const EXPORT_MS_MAX = 10_000;

/** The code of an error, of a closed list. A message could hold a value. */
const errorTypeOf = (error: unknown): string =>
  error instanceof AppError || error instanceof EgressFault ? error.code.toLowerCase() : 'internal';

/** A millionth is the least share of requests. */
const SHARES = 1_000_000;

/**
 * Whether a request is traced. By chance and not by its trace id: the client chooses that, and with it could have every request
 * traced. For the same reason the flag of the client counts only where the operator says so.
 */
const createSampler = ({ ratio, followsParent }: TracingConfig): Sampler => {
  const share = Math.round(ratio * SHARES);
  const isChosen = (): boolean =>
    share === SHARES || (share > 0 && randomIntBelow(SHARES, randomBytesFromKernel) < share);
  return {
    shouldSample: (context) => {
      const parent = trace.getSpanContext(context);
      const isDecided = parent !== undefined && (followsParent || parent.isRemote !== true);
      const isSampled = isDecided ? (parent.traceFlags & TraceFlags.SAMPLED) !== 0 : isChosen();
      return { decision: isSampled ? SamplingDecision.RECORD_AND_SAMPLED : SamplingDecision.NOT_RECORD };
    },
    toString: () => 'strongroom',
  };
};

const createExporter = ({ url, headers }: TracingConfig) => {
  const agent = url.startsWith('https:') ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
  const exporter = new OTLPTraceExporter({
    url,
    headers,
    timeoutMillis: EXPORT_MS_MAX,
    httpAgentOptions: () => agent,
  });
  return {
    send: (spans: ReadableSpan[]): Promise<void> =>
      new Promise((resolve, reject) => {
        exporter.export(spans, ({ code, error }) => (code === 0 ? resolve() : reject(error ?? new Error('export'))));
      }),
    /** Cuts an export that is under way. */
    close: (): void => agent.destroy(),
  };
};

const contextOf = (remote: RemoteParent | undefined): Context =>
  remote === undefined
    ? ROOT_CONTEXT
    : trace.setSpanContext(ROOT_CONTEXT, {
        traceId: remote.trace_id,
        spanId: remote.span_id,
        traceFlags: remote.isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
        isRemote: true,
      });

class TracedSpan implements Span {
  readonly otel: OtelSpan;
  constructor(otel: OtelSpan) {
    this.otel = otel;
  }
  get trace_id(): string {
    return this.otel.spanContext().traceId;
  }
  set(attributes: Parameters<Span['set']>[0]): void {
    if (this.otel.isRecording()) this.otel.setAttributes(attributes);
  }
  end(error_type?: string): void {
    if (!this.otel.isRecording()) return;
    if (error_type !== undefined) {
      this.otel.setAttribute('error.type', error_type);
      this.otel.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.otel.end();
  }
}

const kinds = { internal: SpanKind.INTERNAL, client: SpanKind.CLIENT };

export const createOtlpTracing = (
  config: TracingConfig,
  services: { log: Log; metrics: Metrics; monotonicMs: () => number },
): Tracing => {
  const exporter = createExporter(config);
  const queue = createSpanQueue(exporter.send, services);
  const provider = new TracerProvider({
    sampler: createSampler(config),
    resource: resourceFromAttributes({
      'service.version': version,
      'service.instance.id': newUuid(),
      'process.pid': process.pid,
      ...config.resourceAttributes,
      'service.name': config.serviceName,
    }),
    spanProcessors: [
      {
        onStart: () => undefined,
        onEnd: (span) => queue.add(span),
        forceFlush: async () => undefined,
        shutdown: async () => undefined,
      },
    ],
  });
  const tracer = provider.getTracer('strongroom', version);
  const spans = new AsyncLocalStorage<TracedSpan>();

  return {
    startRequest: (name, parent) => {
      const current = parent === 'current' ? spans.getStore() : undefined;
      const context =
        parent === 'current'
          ? ((current && trace.setSpan(ROOT_CONTEXT, current.otel)) ?? ROOT_CONTEXT)
          : contextOf(parseTraceparent(parent.header));
      const kind = parent === 'current' ? SpanKind.INTERNAL : SpanKind.SERVER;
      return new TracedSpan(tracer.startSpan(name, { kind }, context));
    },
    within: (span, work) => spans.run(span as TracedSpan, work),
    hop: async (name, kind, attributes, work) => {
      const parent = spans.getStore();
      // Also of a request that has ended: what it left behind is not part of it.
      if (!parent?.otel.isRecording()) return work(undefined);
      const context = trace.setSpan(ROOT_CONTEXT, parent.otel);
      const span = new TracedSpan(tracer.startSpan(name, { kind: kinds[kind], attributes }, context));
      try {
        const result = await spans.run(span, work, span);
        span.end();
        return result;
      } catch (error) {
        span.end(errorTypeOf(error));
        throw error;
      }
    },
    bind: (work) => {
      const span = spans.getStore();
      return span ? (...parameters) => spans.run(span, work, ...parameters) : work;
    },
    traceparentFor: (host) => {
      const span = spans.getStore();
      if (!span || !config.traceparentHosts.some((pattern) => coversHost(pattern, host))) return undefined;
      const { traceId, spanId, traceFlags } = span.otel.spanContext();
      return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
    },
    close: async () => {
      await queue.close();
      exporter.close();
    },
  };
};
