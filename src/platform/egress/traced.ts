// Measures requests to destinations for the metrics, gives each a span, and sends `traceparent` where the operator allows it.
import { mark } from '../base/event-loop.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Egress, EgressRequest } from './client.ts';
import { faultOf } from '../base/egress-fault.ts';
import type { Tracing } from '../tracing/tracing.ts';

// Counts the results of requests to destinations, and the connections to them.

/** The same egress, with its figures in the metrics. */
export const measuredEgress = (egress: Egress, metrics: Metrics): Egress => {
  metrics.read('strongroom_egress_connections', () => {
    const { used, idle } = egress.connections();
    return [
      [{ state: 'used' }, used],
      [{ state: 'idle' }, idle],
    ];
  });
  metrics.read('strongroom_queue_length', () => [[{ queue: 'connections' }, egress.connections().waiting]]);
  const count = (result: string): void => metrics.count('strongroom_egress_requests_total', { result });
  return {
    ...egress,
    request: async (asked) => {
      const beganMs = performance.now();
      try {
        const response = await egress.request(asked);
        mark();
        count(`${Math.floor(response.status / 100)}xx`);
        metrics.observe('strongroom_egress_seconds', {}, (performance.now() - beganMs) / 1000);
        return response;
      } catch (error) {
        count(faultOf(error).code.toLowerCase());
        throw error;
      }
    },
  };
};

/** Code chooses the method, so others could be text of a tenant. https://opentelemetry.io/docs/specs/semconv/http/http-spans/ */
const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Long numbers in a host that code made up. */
const manyDigits = /\d(?:[-.]?\d){7,}/g;

const TRACEPARENT = 'traceparent';

const attributesOf = (url: URL | null, method: string): Record<string, string | number> => ({
  'http.request.method': knownMethods.has(method.toUpperCase()) ? method.toUpperCase() : '_OTHER',
  ...(url && { 'server.address': url.hostname.replace(manyDigits, '*'), 'server.port': Number(url.port || 443) }),
});

const withTraceparent = (asked: EgressRequest, traceparent: string | undefined): EgressRequest =>
  traceparent === undefined
    ? asked
    : {
        ...asked,
        headers: [...asked.headers.filter(([name]) => name.toLowerCase() !== TRACEPARENT), [TRACEPARENT, traceparent]],
      };

/** The same egress, with a span for each request until its response begins. */
export const tracedEgress = (egress: Egress, tracing: Tracing | undefined): Egress =>
  tracing
    ? {
        ...egress,
        request: (asked) => {
          const url = URL.parse(String(asked.url));
          const attributes = attributesOf(url, asked.method);
          return tracing.hop(`${attributes['http.request.method']}`, 'client', attributes, async (span) => {
            const traceparent = url ? tracing.traceparentFor(url.hostname) : undefined;
            const response = await egress.request(withTraceparent(asked, traceparent));
            span?.set({ 'http.response.status_code': response.status });
            return response;
          });
        },
      }
    : egress;
