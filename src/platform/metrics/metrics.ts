// The registry of metrics: counts and measures what happens, and reads gauges at the scrape from the state that exists.
import { collectDefaultMetrics, Registry } from 'prom-client';
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
  /** Finds the labels of `count` or `observe` once: for what happens in every request. */
  counter<Name extends CounterName>(name: Name, labels: LabelsOf<Name>): (amount: number) => void;
  histogram<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>): (value: number) => void;
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

type Labels = Readonly<Record<string, string>>;

/** `counts` of a histogram: the values in each bucket, those above all bounds last. `value` is their sum. */
type Series = { labels: Labels; value: number; counts: number[] };

/** The values of a metric by its labels. prom-client's own counters look all labels up with each value. */
const createFamily = ({ type, labels: names, buckets = [] }: MetricDefinition) => {
  const series = new Map<string, Series>();

  const at = (labels: Labels): Series => {
    let key = '';
    for (const name of names) key += `${labels[name]}\n`;
    let found = series.get(key);
    if (!found) {
      found = {
        labels,
        value: 0,
        counts: type === 'histogram' ? Array.from({ length: buckets.length + 1 }, () => 0) : [],
      };
      series.set(key, found);
    }
    return found;
  };

  // What never happened is 0, and a gauge that nothing tells is none.
  if (names.length === 0 && type !== 'gauge') at({});

  return {
    counter: (labels: Labels) => {
      const found = at(labels);
      return (amount: number): void => void (found.value += amount);
    },
    histogram: (labels: Labels) => {
      const found = at(labels);
      const { counts } = found;
      return (value: number): void => {
        let bucket = 0;
        while (bucket < buckets.length && value > (buckets[bucket] as number)) bucket += 1;
        counts[bucket] = (counts[bucket] as number) + 1;
        found.value += value;
      };
    },
    valuesOf: (name: string): MetricReport['values'] => {
      if (type !== 'histogram') return [...series.values()].map(({ labels, value }) => ({ labels, value }));
      return [...series.values()].flatMap(({ labels, value, counts }) => {
        let count = 0;
        const cumulative = counts.map((each, bucket) => ({
          metricName: `${name}_bucket`,
          labels: { le: String(buckets[bucket] ?? '+Inf'), ...labels },
          value: (count += each),
        }));
        return [
          ...cumulative,
          { metricName: `${name}_sum`, labels, value },
          { metricName: `${name}_count`, labels, value: count },
        ];
      });
    },
  };
};

type Read = () => Samples<MetricName> | Promise<Samples<MetricName>>;

export const createMetrics = (): Metrics => {
  const ofProcess = new Registry();
  const definitions = Object.entries<MetricDefinition>(metricDefinitions);
  const families = new Map(definitions.map(([name, definition]) => [name, createFamily(definition)]));
  const familyOf = (name: string) => families.get(name) as ReturnType<typeof createFamily>;
  const reads = new Map<string, Read[]>();

  /** Values of a metric that is read: nothing of an earlier scrape is left. */
  const readAll = async (name: string, definition: MetricDefinition, registered: Read[]) => {
    const family = createFamily({ ...definition, type: 'gauge' });
    const samples = await Promise.all(registered.map((read) => read()));
    for (const each of samples) for (const [labels, value] of each) family.counter(labels)(value);
    return family.valuesOf(name);
  };

  const reportOf = async ([name, definition]: [string, MetricDefinition]): Promise<MetricReport> => {
    const { type, help, ofWorkers: aggregator = 'sum' } = definition;
    const registered = reads.get(name);
    const values = registered ? await readAll(name, definition, registered) : familyOf(name).valuesOf(name);
    return { name, help, type, aggregator, values };
  };

  return {
    count: (name, labels, amount = 1) => familyOf(name).counter(labels)(amount),
    observe: (name, labels, value) => familyOf(name).histogram(labels)(value),
    counter: (name, labels) => familyOf(name).counter(labels),
    histogram: (name, labels) => familyOf(name).histogram(labels),
    read: (name, read) => void reads.set(name, [...(reads.get(name) ?? []), read as Read]),
    watchProcess: () => {
      collectDefaultMetrics({ register: ofProcess });
      // Kinds of handles say little, and Node no longer documents where prom-client reads them.
      for (const { name } of ofProcess.getMetricsAsArray())
        if (name.startsWith('nodejs_active_')) ofProcess.removeSingleMetric(name);
    },
    report: async () => {
      const ours = await Promise.all(definitions.map(reportOf));
      return [...ours, ...((await ofProcess.getMetricsAsJSON()) as unknown as MetricReport[])];
    },
    describe: () => [
      ...definitions.map(([name, { type, labels, help }]) => ({ name, type, labels, help })),
      ...ofProcess.getMetricsAsArray().map((metric) => {
        const { labelNames = [] } = metric as { labelNames?: readonly string[] };
        return { name: metric.name, type: String(metric.type), labels: labelNames, help: metric.help };
      }),
    ],
  };
};
