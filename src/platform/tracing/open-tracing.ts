// Loads the tracing of a configuration. OpenTelemetry is loaded only where traces are on.
import type { Config } from '../config/config.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Tracing } from './tracing.ts';

export const openTracing = async (
  { tracing }: Config,
  services: { log: Log; metrics: Metrics; monotonicMs: () => number },
): Promise<Tracing | undefined> => {
  if (!tracing) return undefined;
  const { createOtlpTracing } = await import('./otlp.ts');
  return createOtlpTracing(tracing, services);
};
