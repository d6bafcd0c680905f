// Adds up the figures of processes and writes them in the Prometheus text format.
import { AggregatorRegistry } from 'prom-client';
import { keepBusiest, type Holding } from './busiest-tenants.ts';

/** The media type of the text format. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** A metric of one process with its values, as prom-client writes it in JSON. */
export type MetricReport = {
  name: string;
  help: string;
  type: string;
  aggregator: string;
  values: { metricName?: string; labels: Record<string, string | number>; value: number }[];
};

/**
 * prom-client leaves the start of several processes out, and takes the mean of their event loops. The first start is that of the
 * server, and the slowest event loop is the one that requests wait for.
 */
const aggregators: Record<string, string> = { omit: 'min', average: 'max' };

/** What was measured from nothing is no number. */
const withNumbers = (report: MetricReport): MetricReport => ({
  ...report,
  aggregator: aggregators[report.aggregator] ?? report.aggregator,
  values: report.values.filter(({ value }) => Number.isFinite(value)),
});

const withBusiest = (report: MetricReport, all: readonly MetricReport[]): MetricReport => {
  if (report.name !== 'strongroom_tenant_held') return report;
  const most = new Map<string, number>();
  for (const { name, values } of all)
    if (name === 'strongroom_tenant_max')
      for (const { labels, value } of values) most.set(String(labels['limit']), value);
  const holdings = report.values.map(({ labels, value }): Holding => ({
    limit: String(labels['limit']),
    tenant_id: String(labels['tenant_id']),
    held: value,
  }));
  const kept = keepBusiest(holdings, (limit) => most.get(limit) ?? 1);
  return { ...report, values: kept.map(({ held, ...labels }) => ({ labels, value: held })) };
};

const add = (reports: readonly (readonly MetricReport[])[]): Promise<MetricReport[]> =>
  // Its types ask for more than it reads.
  AggregatorRegistry.aggregate(reports as unknown as object[]).getMetricsAsJSON() as unknown as Promise<MetricReport[]>;

/** Adds up reports of several processes. */
export const addReports = (reports: readonly (readonly MetricReport[])[]): Promise<MetricReport[]> =>
  add(reports.map((each) => each.map(withNumbers)));

/** What stays true of a process that has ended: what it counted. */
export const countsOf = (report: readonly MetricReport[]): MetricReport[] =>
  report.filter(({ type }) => type === 'counter' || type === 'histogram');

/** The figures of all processes of the server as one text. */
export const renderMetrics = async (reports: readonly (readonly MetricReport[])[]): Promise<string> => {
  const sums = await addReports(reports);
  const bounded = sums.map((report) => withBusiest(report, sums));
  return AggregatorRegistry.aggregate([bounded as unknown as object]).metrics();
};
