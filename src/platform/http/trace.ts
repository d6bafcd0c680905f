// Trace ids: from the client where valid, generated otherwise. On every response, in problem documents and in the log.
import type { IncomingMessage } from 'node:http';
import type { Metrics } from '../metrics/metrics.ts';
import type { App } from './app-type.ts';
import { createRequestFigures } from './request-figures.ts';
import { traceIdsOf } from './request-spans.ts';

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
