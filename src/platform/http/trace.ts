// Trace ids: from the client where valid, generated otherwise. On every response, in problem documents and in the log.
import { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { IncomingMessage } from 'node:http';
import type { Span, Tracing } from '../tracing/tracing.ts';
import type { App } from './app-type.ts';
import type { Metrics } from '../metrics/metrics.ts';

// Traces requests: a span for each, with the template of its route. Without its URL, headers and body.

declare module 'fastify' {
  interface FastifyRequest {
    span: Span | undefined;
    /** The trace id of OpenTelemetry; undefined where traces are off. */
    otel_trace_id: string | undefined;
  }
}

/** The ids of a request, for its lines in the log. */
export const traceIdsOf = ({ id, otel_trace_id }: Pick<FastifyRequest, 'id' | 'otel_trace_id'>) => ({
  trace_id: id,
  otel_trace_id,
});

/** A console page calls the API inside this process: the request of the page is the parent then. */
const parentOf = ({ raw }: FastifyRequest): Parameters<Tracing['startRequest']>[1] => {
  if (!(raw.socket instanceof Socket)) return 'current';
  const { traceparent } = raw.headers;
  return { header: typeof traceparent === 'string' ? traceparent : undefined };
};

/** Adds the first hook of a request, so that the span has all of its time. @param tracing undefined where traces are off. */
export const addRequestSpans = (app: App, tracing: Tracing | undefined): void => {
  app.decorateRequest('span', undefined);
  app.decorateRequest('otel_trace_id', undefined);
  if (!tracing) return;
  app.addHook('onRequest', (request, _reply, done) => {
    const { url } = request.routeOptions;
    const span = tracing.startRequest(
      url === undefined ? request.method : `${request.method} ${url}`,
      parentOf(request),
    );
    span.set({ 'http.request.method': request.method, ...(url !== undefined && { 'http.route': url }) });
    request.span = span;
    request.otel_trace_id = span.trace_id;
    tracing.within(span, done);
  });
  // The events of the body that was read before run in the context of the connection.
  app.addHook('preValidation', ({ span }, _reply, done) => {
    if (span) tracing.within(span, done);
    else done();
  });
  app.addHook('onResponse', ({ span, work, isHandedOver }, reply, done) => {
    // A span that does not end is never sent.
    if (isHandedOver) return done();
    const status = reply.statusCode;
    span?.set({ 'http.response.status_code': status, ...(work && { 'strongroom.tenant_id': work.tenant_id }) });
    span?.end(status >= 500 ? String(status) : undefined);
    done();
  });
};

// Counts requests and their times by route. Finds the counters of a route without making a key of its labels.

type Figures = { addTime: (seconds: number) => void; byStatus: Map<number, (amount: number) => void> };

/** @returns counts a request: 0.16 us, where a look-up by all labels takes 1 us, and prom-client's 1.85 us (3 % of a read). */
const createRequestFigures = (metrics: Metrics) => {
  const byRoute = new Map<string, Map<string, Figures>>();

  const figuresOf = (method: string, route: string): Figures => {
    const byMethod = byRoute.get(route) ?? new Map<string, Figures>();
    byRoute.set(route, byMethod);
    const made = byMethod.get(method) ?? {
      addTime: metrics.histogram('strongroom_request_seconds', { method, route }),
      byStatus: new Map(),
    };
    byMethod.set(method, made);
    return made;
  };

  return (method: string, route: string, status: number, seconds: number): void => {
    const { addTime, byStatus } = byRoute.get(route)?.get(method) ?? figuresOf(method, route);
    addTime(seconds);
    let count = byStatus.get(status);
    if (!count) {
      count = metrics.counter('strongroom_requests_total', { method, route, status: String(status) });
      byStatus.set(status, count);
    }
    count(1);
  };
};

export const TRACE_ID_LENGTH_MAX = 128;

/** Printable ASCII. */
const traceIdPattern = new RegExp(`^[\\x20-\\x7e]{1,${TRACE_ID_LENGTH_MAX}}$`);
/** W3C Trace Context: version, trace-id, parent-id, flags. */
const traceparent = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/;

/** @param newId generates an id where the request has no valid one. */
export const traceIdOf = (request: Pick<IncomingMessage, 'headers'>, newId: () => string): string => {
  const given = request.headers['svc-trace-id'];
  if (typeof given === 'string' && traceIdPattern.test(given)) return given;
  const parent = request.headers['traceparent'];
  return (typeof parent === 'string' && traceparent.exec(parent)?.[1]) || newId();
};

/** Headers of every response: the trace id, no caching, and no guessing of the content type. */
export const headersOf = (trace_id: string): Record<string, string> => ({
  'svc-trace-id': trace_id,
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
});

export const addTrace = (app: App): void => {
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(headersOf(request.id));
    done();
  });
};

/** Logs and counts each request: with the pattern of the route, without its URL, headers and body. Probes that pass are at `debug`. */
export const addRequestLog = (app: App, metrics: Metrics): void => {
  const countRequest = createRequestFigures(metrics);
  app.addHook('onResponse', (request, reply, done) => {
    if (request.isHandedOver) return done();
    const { method } = request;
    const route = request.routeOptions.url ?? 'none';
    const ms = reply.elapsedTime;
    countRequest(method, route, reply.statusCode, ms / 1000);
    // A health check asks every few seconds: tens of thousands of lines a day that say nothing.
    const isQuiet = request.routeOptions.config.isProbe === true && reply.statusCode < 400;
    request.log[isQuiet ? 'debug' : 'info'](
      {
        ...traceIdsOf(request),
        method,
        route,
        status: reply.statusCode,
        ms: Math.round(ms * 10) / 10,
        tenant_id: request.work?.tenant_id,
        actor_id: request.work?.actor_id,
        ip: request.ip,
      },
      'request',
    );
    done();
  });
};
