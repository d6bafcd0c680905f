// Counts the results of requests to destinations, and the connections to them.
import { mark } from '../base/event-loop.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Egress } from './client.ts';
import { faultOf } from '../base/egress-fault.ts';

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
