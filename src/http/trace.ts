// The trace id: the caller's where it is a fair one, ours otherwise; on every response, in problems and in the log.
import type { IncomingMessage } from 'node:http';
import type { App } from './app-type.ts';

const fairTraceId = /^[\x20-\x7e]{1,128}$/;
/** W3C Trace Context: version, trace-id, parent-id, flags. */
const traceparent = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/;

/** @param newId draws an id where the request brings no fair one. */
export const traceIdOf = (request: Pick<IncomingMessage, 'headers'>, newId: () => string): string => {
  const given = request.headers['svc-trace-id'];
  if (typeof given === 'string' && fairTraceId.test(given)) return given;
  const parent = request.headers['traceparent'];
  return (typeof parent === 'string' && traceparent.exec(parent)?.[1]) || newId();
};

/** Headers of every response: the trace id, and that nobody keeps or guesses at what we send. */
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

/** One line a request: the route's pattern, never its URL, and no header or body. */
export const addRequestLog = (app: App): void => {
  app.addHook('onResponse', (request, reply, done) => {
    request.log.info(
      {
        trace_id: request.id,
        method: request.method,
        route: request.routeOptions.url ?? 'none',
        status: reply.statusCode,
        ms: Math.round(reply.elapsedTime * 10) / 10,
        tenant_id: request.caller?.tenant_id,
        actor_id: request.caller?.actor_id,
        ip: request.ip,
      },
      'request',
    );
    done();
  });
};
