// Reads the usage report of the API, and fills it up to a step for each hour or day.
import { DAY_MS, HOUR_MS } from '../../platform/base/times.ts';
import type { Step } from './usage-chart.ts';
import { addressOf } from './shell.ts';
import { bodyOf, type Visit } from './visit.ts';

export type Metric = {
  start: string;
  kind: string;
  requests: number;
  tokens: number;
  p50_ms?: number;
  p95_ms?: number;
};

export type Report = {
  token_report: { metrics_by_type: Record<string, { count: number }> };
  usage_report: { metrics: Metric[] };
};

export type StepRange = { by: 'hour' | 'day'; steps: number };

export const stepMs = { hour: HOUR_MS, day: DAY_MS } as const;

/** Beginning of the first step, if the last one has a time in it. */
export const beginningOf = ({ by, steps }: StepRange, within: Date): Date =>
  new Date((Math.floor(within.getTime() / stepMs[by]) - (steps - 1)) * stepMs[by]);

/** @throws AppError for a refusal of the API. */
export const readReport = async (
  visit: Visit,
  { from, to, by, application_id }: { from: Date; to?: Date; by: StepRange['by']; application_id?: string },
): Promise<Report> => {
  const range = { from: from.toISOString(), to: to?.toISOString(), by, application_id };
  return bodyOf<Report>(await visit.api({ method: 'GET', url: addressOf('/tenants/self/reports/usage', range) }));
};

/** A step for each hour or day, also for those in which nothing happened. */
export const stepsOf = ({ by, steps }: StepRange, from: Date, metrics: readonly Metric[]): Step[] => {
  const byStart = Map.groupBy(metrics, ({ start }) => Date.parse(start));
  return Array.from({ length: steps }, (_, index) => {
    const start = new Date(from.getTime() + index * stepMs[by]);
    const at = byStart.get(start.getTime()) ?? [];
    const find = (kind: string): Metric | undefined => at.find((metric) => metric.kind === kind);
    return {
      start,
      end: new Date(start.getTime() + stepMs[by]),
      stored: find('stored')?.tokens ?? 0,
      used: find('used')?.tokens ?? 0,
      revealed: find('revealed')?.tokens ?? 0,
      errors: find('failed')?.requests ?? 0,
    };
  });
};
