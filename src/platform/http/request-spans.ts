// Traces requests: a span for each, with the template of its route. Without its URL, headers and body.
import { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Span, Tracing } from '../tracing/tracing.ts';
import type { App } from './app-type.ts';

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
