// Reports what requests did by hour or by day, with the times that half and 19 of 20 of them took at most.
import { DAY_MS, HOUR_MS } from '../../platform/base/times.ts';
import { invalidField } from '../../platform/base/errors.ts';
import { findUsage, LATENCY_BOUNDS_MS } from './rows/usage.ts';
import type { Work } from './work.ts';

export const usageSteps = ['hour', 'day'] as const;

export type UsageStep = (typeof usageSteps)[number];

const STEP_MS: Record<UsageStep, number> = { hour: HOUR_MS, day: DAY_MS };

/** Longer ranges would be answers of megabytes. */
export const USAGE_DAYS_MAX: Record<UsageStep, number> = { hour: 31, day: 400 };

export type UsageQuery = {
  from?: Date | undefined;
  to?: Date | undefined;
  by?: UsageStep | undefined;
  application_id?: string | undefined;
};

export type UsageMetric = {
  start: string;
  kind: string;
  requests: number;
  tokens: number;
  p50_ms: number | undefined;
  p95_ms: number | undefined;
};

export type HoursReport = { by: UsageStep; from: string; to: string; metrics: UsageMetric[] };

/**
 * The time that a share of the requests took at most, as if the times within a bucket were spread evenly. Of the last bucket, its
 * lower bound. Undefined for no requests.
 */
export const quantileOf = (latencies: readonly number[], share: number): number | undefined => {
  const all = latencies.reduce((sum, count) => sum + count, 0);
  if (all === 0) return undefined;
  let before = 0;
  for (const [bucket, count] of latencies.entries()) {
    const least = bucket === 0 ? 0 : (LATENCY_BOUNDS_MS[bucket - 1] as number);
    const most = LATENCY_BOUNDS_MS[bucket] ?? least;
    if (count > 0 && before + count >= share * all)
      return Math.round((least + ((most - least) * (share * all - before)) / count) * 10) / 10;
    before += count;
  }
  return undefined;
};

/** The range in whole steps. @throws invalidInput. */
const rangeOf = ({ from, to, by = 'hour' }: UsageQuery, now: Date): { by: UsageStep; from: Date; to: Date } => {
  if (from === undefined) throw invalidField('from', 'must be given with to, by or application_id', 'required');
  const end = to ?? now;
  if (from > end) throw invalidField('from', to === undefined ? 'must not be in the future' : 'must not be after to');
  if (end.getTime() - from.getTime() > USAGE_DAYS_MAX[by] * DAY_MS)
    throw invalidField('from', `must be at most ${USAGE_DAYS_MAX[by]} days before to, by ${by}`);
  const step = STEP_MS[by];
  const begins = Math.floor(from.getTime() / step) * step;
  const ends = Math.ceil(end.getTime() / step) * step;
  return { by, from: new Date(begins), to: new Date(ends) };
};

/** Undefined where the query asks for no hours. @throws invalidInput for the range; unavailable. */
export const reportHours = async (work: Work, query: UsageQuery, now: Date): Promise<HoursReport | undefined> => {
  if (Object.values(query).every((value) => value === undefined)) return undefined;
  const { by, from, to } = rangeOf(query, now);
  const slots = await findUsage(work.db, { by, from, to, application_id: query.application_id });
  return {
    by,
    from: from.toISOString(),
    to: to.toISOString(),
    metrics: slots.map(({ start, kind, requests, tokens, latencies }) => ({
      start: start.toISOString(),
      kind,
      requests,
      tokens,
      p50_ms: quantileOf(latencies, 0.5),
      p95_ms: quantileOf(latencies, 0.95),
    })),
  };
};
