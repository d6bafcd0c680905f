// The registry of metrics: counts and measures what happens, and reads gauges at the scrape from the state that exists.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import {
  type CounterName,
  type HistogramName,
  type LabelsOf,
  type MetricDefinition,
  metricDefinitions,
  type MetricName,
  type ReadName,
} from './definitions.ts';
import type { MetricReport } from './render.ts';

/** Values with their labels. Values with equal labels are added up. */
export type Samples<Name extends MetricName> = Iterable<readonly [labels: LabelsOf<Name>, value: number]>;

export type Metrics = {
  /** Adds to a counter. */
  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>, amount?: number): void;
  /** Adds a value to a histogram. */
  observe<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, value: number): void;
  /**
   * Registers where values are read from at each scrape. Several parts may register for one name. A part that cannot tell its
   * values now returns none, and does not throw.
   */
  read<Name extends ReadName>(name: Name, read: () => Samples<Name> | Promise<Samples<Name>>): void;
  /** Adds the figures of this process: CPU time, memory, event loop, garbage collection. Call once, where metrics are served. */
  watchProcess(): void;
  /** All values of this process now. */
  report(): Promise<MetricReport[]>;
  /** All metrics, with those of the process only if it is watched. */
  describe(): { name: string; type: string; labels: readonly string[]; help: string }[];
};

type Read = () => Samples<MetricName> | Promise<Samples<MetricName>>;

/** prom-client would give one without labels the value 0. */
const clear = (metric: Counter | Gauge, labels: readonly string[]): void => {
  metric.reset();
  if (labels.length === 0) metric.remove();
};

/** Reads a gauge, or a counter whose count is kept elsewhere. Nothing waits between `reset` and `inc`: scrapes may overlap. */
const readInto = async (metric: Counter | Gauge, labels: readonly string[], reads: readonly Read[]): Promise<void> => {
  const samples = await Promise.all(reads.map((read) => read()));
  clear(metric, labels);
  for (const each of samples) for (const [of, value] of each) metric.inc(of as Record<string, string>, value);
};

export const createMetrics = (): Metrics => {
  const registry = new Registry();
  const reads = new Map<string, Read[]>();
  const counters = new Map<string, Counter>();
  const histograms = new Map<string, Histogram>();

  for (const [name, definition] of Object.entries<MetricDefinition>(metricDefinitions)) {
    const { type, help, labels: labelNames, buckets = [], ofWorkers: aggregator = 'sum' } = definition;
    const options = { name, help, labelNames, aggregator, registers: [registry] };
    if (type === 'histogram') {
      histograms.set(name, new Histogram({ ...options, buckets: [...buckets] }));
      continue;
    }
    const collect = (): Promise<void> | undefined => {
      const registered = reads.get(name);
      return registered && readInto(metric, labelNames, registered);
    };
    const metric = type === 'counter' ? new Counter({ ...options, collect }) : new Gauge({ ...options, collect });
    if (metric instanceof Counter) counters.set(name, metric);
    else clear(metric, labelNames);
  }

  return {
    count: (name, labels, amount = 1) => counters.get(name)?.inc(labels, amount),
    observe: (name, labels, value) => histograms.get(name)?.observe(labels, value),
    read: (name, read) => void reads.set(name, [...(reads.get(name) ?? []), read as Read]),
    watchProcess: () => {
      collectDefaultMetrics({ register: registry });
      // Kinds of handles say little, and Node no longer documents where prom-client reads them.
      for (const { name } of registry.getMetricsAsArray())
        if (name.startsWith('nodejs_active_')) registry.removeSingleMetric(name);
    },
    report: () => registry.getMetricsAsJSON() as Promise<unknown> as Promise<MetricReport[]>,
    describe: () =>
      registry.getMetricsAsArray().map((metric) => {
        const { labelNames = [] } = metric as { labelNames?: readonly string[] };
        return { name: metric.name, type: String(metric.type), labels: labelNames, help: metric.help };
      }),
  };
};
