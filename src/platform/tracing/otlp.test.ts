import { expect, test } from 'vitest';
import { loadConfig } from '../config/config.ts';
import type { TracingConfig } from '../config/tracing.ts';
import { createLog } from '../base/log.ts';
import { createMetrics } from '../metrics/metrics.ts';
import { createOtlpTracing } from './otlp.ts';

const REQUESTS = 2_000;

/** How many of these requests are traced. Nothing is exported, as no span ends. */
const countTraced = async (environment: Record<string, string>, header: string | undefined): Promise<number> => {
  const { tracing: config } = loadConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', ...environment });
  const log = createLog('silent', { write: () => undefined });
  const services = { log, metrics: createMetrics(), monotonicMs: () => performance.now() };
  const tracing = createOtlpTracing(config as TracingConfig, services);
  let traced = 0;
  for (let sent = 0; sent < REQUESTS; sent += 1) {
    const span = tracing.startRequest('GET /tokens', { header });
    await tracing.within(span, () =>
      tracing.hop('statement', 'client', {}, async (hop) => void (traced += Number(hop !== undefined))),
    );
  }
  return traced;
};

const share = (OTEL_TRACES_SAMPLER: string, OTEL_TRACES_SAMPLER_ARG = '1') => ({
  OTEL_TRACES_SAMPLER,
  OTEL_TRACES_SAMPLER_ARG,
});
const sampled = (trace_id: string) => `00-${trace_id}-00f067aa0ba902b7-01`;
const LOWEST = '00000000000000000000000000000001';
const HIGHEST = 'ffffffffffffffffffffffffffffffff';

test('neither the flag nor the id that a client chooses decides what is traced', async () => {
  expect(await countTraced({}, undefined)).toBe(REQUESTS);
  expect(await countTraced(share('always_off'), sampled(LOWEST))).toBe(0);
  expect(await countTraced(share('traceidratio', '0'), sampled(LOWEST))).toBe(0);
  for (const trace_id of [LOWEST, HIGHEST]) {
    const traced = await countTraced(share('traceidratio', '0.1'), sampled(trace_id));
    expect(traced).toBeGreaterThan(100);
    expect(traced).toBeLessThan(300);
  }
});

test('the flag decides where the operator says so', async () => {
  expect(await countTraced(share('parentbased_traceidratio', '0'), sampled(LOWEST))).toBe(REQUESTS);
  expect(await countTraced(share('parentbased_always_on'), sampled(LOWEST).replace(/01$/, '00'))).toBe(0);
  expect(await countTraced(share('parentbased_always_off'), undefined)).toBe(0);
});
